"""Dead letters as messages of SQS, and attributes as SQS has them. Pure.

The body and the attributes are those of the message. Ours begin with `headrace-`:

    headrace-dead-letter    the letter's id, the same on every copy of it
    headrace-message-id     that of the message in the queue that was read
    headrace-stream, -watcher, -reason, -attempts, -error    who refused it, and why
    headrace-body           how the body stands there where it is not as it was: `base64`, since SQS takes no such
                            characters, or `reference`, since it is too large: the store has it
    headrace-attributes     attributes of the message that had no room of their own (SQS takes ten), as JSON by name,
                            with `Type` and `Value`; null for what did not fit at all
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from bridge.ports import Letter
from connectors.sqs.messages import FORBIDDEN, SYSTEM, TYPES, text_of

ATTRIBUTES_MOST: Final = 10
"""Of one message. A limit of SQS."""
SIZE_MOST: Final = 1024 * 1024
"""Bytes of a message with its attributes, and of a batch. The limit of SQS since August 2025; 256 KiB before."""
_WORDS_MOST: Final = 500  # characters of the reason and of the error
_TRACE: Final = "AWSTraceHeader"
_GROUP: Final = re.compile(r"""[A-Za-z0-9!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]{1,128}""")
_NAME: Final = re.compile(r"(?!(?i:aws|amazon)\.)[A-Za-z0-9_\-.]{1,256}")

Attribute = dict[str, Any]


class Entry(Struct, frozen=True):
    """What goes into a call of `send_message_batch`, but for its `Id`; `size` is what SQS counts."""

    said: Mapping[str, Any]
    size: int


# Attributes ----------------------------------------------------------------------------------------------------------


def attribute_of(value: bytes, declared: str = "") -> Attribute:
    """Text where SQS takes it as one, else binary; of the declared type where it has one."""
    text = text_of(value)
    if declared.startswith("Binary") or text is None:
        return {"DataType": declared if declared.startswith("Binary") else "Binary", "BinaryValue": value}
    return {"DataType": declared or "String", "StringValue": text}


def is_attribute_name(name: str) -> bool:
    return (
        _NAME.fullmatch(name) is not None and ".." not in name and not name.startswith(".") and not name.endswith(".")
    )


def size_of(body: str, attributes: Mapping[str, Attribute]) -> int:
    """Bytes of the body, and of names, types and values."""
    size = len(body.encode())
    for name, attribute in attributes.items():
        value: str | bytes = attribute.get("StringValue") or attribute.get("BinaryValue") or b""
        size += len(name) + len(attribute["DataType"])
        size += len(value) if isinstance(value, bytes) else len(value.encode())
    return size


def _text(words: str, most: int = _WORDS_MOST) -> Attribute:
    clean = FORBIDDEN.sub("?", words.encode("utf-8", "replace").decode())[:most]
    return {"DataType": "String", "StringValue": clean or "-"}


# Letters -------------------------------------------------------------------------------------------------------------


def entry_of(letter: Letter, most: int, *, is_fifo: bool) -> Entry:
    """The whole letter where it is no larger than `most`; else a reference to it."""
    body, encoding = _body_of(letter.body or b"")
    entry = _entry(letter, body, encoding, is_fifo=is_fifo)
    return entry if body and entry.size <= most else reference_to(letter, is_fifo=is_fifo)


def reference_to(letter: Letter, *, is_fifo: bool) -> Entry:
    """Without its body and its attributes: `headrace dlq show` has them."""
    body = msgspec.json.encode({"headrace-by-reference": len(letter.body or b"")}).decode()
    return _entry(msgspec.structs.replace(letter, headers=()), body, "reference", is_fifo=is_fifo)


def _body_of(body: bytes) -> tuple[str, str]:
    text = text_of(body)
    return (text, "") if text is not None else (base64.b64encode(body).decode(), "base64")


def _entry(letter: Letter, body: str, encoding: str, *, is_fifo: bool) -> Entry:
    attributes = _ours(letter, encoding)
    originals = _originals(letter)
    room = ATTRIBUTES_MOST - len(attributes)
    if len(originals) > room:
        kept = dict(list(originals.items())[: room - 1])
        attributes["headrace-attributes"] = _packed({n: a for n, a in originals.items() if n not in kept})
        originals = kept
    attributes |= originals
    said: dict[str, Any] = {"MessageBody": body, "MessageAttributes": attributes}
    trace = dict(letter.headers).get(_TRACE)
    if trace:
        said["MessageSystemAttributes"] = {
            _TRACE: {"DataType": "String", "StringValue": trace.decode("utf-8", "replace")}
        }
    if is_fifo:
        said["MessageGroupId"] = group_of(letter.key, letter.stream)
        said["MessageDeduplicationId"] = deduplication_of(letter.id)
    return Entry(said, size_of(body, attributes))


def _ours(letter: Letter, encoding: str) -> dict[str, Attribute]:
    ours = {
        "headrace-dead-letter": _text(letter.id),
        "headrace-message-id": _text(letter.identity),
        "headrace-stream": _text(letter.stream),
        "headrace-watcher": _text(letter.watcher),
        "headrace-reason": _text(letter.reason),
        "headrace-attempts": {"DataType": "Number", "StringValue": str(letter.attempts)},
    }
    if letter.error:
        ours["headrace-error"] = _text(letter.error)
    if encoding:
        ours["headrace-body"] = _text(encoding)
    return ours


def _originals(letter: Letter) -> dict[str, Attribute]:
    """Of the message itself, with the types that they had."""
    declared = types_of(dict(letter.headers).get(TYPES))
    return {
        name: attribute_of(value, declared.get(name, ""))
        for name, value in letter.headers
        if value
        and name != TYPES
        and name not in SYSTEM
        and not name.startswith("headrace-")
        and is_attribute_name(name)
    }


def types_of(header: bytes | None) -> dict[str, str]:
    """From `name=Number,other=Binary.png`."""
    pairs = (part.partition("=") for part in (header or b"").decode("utf-8", "replace").split(","))
    return {name: kind for name, equals, kind in pairs if equals}


_PACKED_MOST: Final = 64 * 1024


def _packed(attributes: Mapping[str, Attribute]) -> Attribute:
    """All of them in one; what is too large is only named."""
    packed: dict[str, object] = {}
    size = 0
    for name, attribute in attributes.items():
        binary = attribute.get("BinaryValue")
        value = base64.b64encode(binary).decode() if binary is not None else attribute["StringValue"]
        size += len(value)
        packed[name] = {"Type": attribute["DataType"], "Value": value} if size <= _PACKED_MOST else None
    return {"DataType": "String", "StringValue": msgspec.json.encode(packed).decode()}


def group_of(key: bytes | None, otherwise: str) -> str:
    """A message group: the one that it was in, where SQS takes that."""
    group = (key or b"").decode("utf-8", "replace")
    if _GROUP.fullmatch(group):
        return group
    return otherwise if _GROUP.fullmatch(otherwise) else "headrace"


def deduplication_of(letter_id: str) -> str:
    return letter_id if _GROUP.fullmatch(letter_id) else hashlib.sha256(letter_id.encode()).hexdigest()


def batches_of(entries: Sequence[tuple[int, Entry]], most: int) -> list[list[tuple[int, Entry]]]:
    """Cut so that each goes into one call: ten at most, and no larger together than `most` bytes. In order."""
    batches: list[list[tuple[int, Entry]]] = []
    size = 0
    for numbered in entries:
        if not batches or len(batches[-1]) == ATTRIBUTES_MOST or size + numbered[1].size > most:
            batches.append([])
            size = 0
        batches[-1].append(numbered)
        size += numbered[1].size
    return batches
