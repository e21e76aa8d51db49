"""Messages that people write down, in a test or on the command line: from nodes and texts to bytes and times."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Struct

from bridge.config.fields import refuse
from bridge.config.model import Count
from bridge.config.nodes import TRUE, Mapping, Node, Place, Scalar, Sequence
from bridge.config.reading import Reading, Where
from bridge.config.shapes import Looks, fields_of
from bridge.core.model import TOMBSTONE, Meta, Tombstone
from bridge.core.units import format_size
from bridge.language.calls import call
from bridge.language.times import NS
from bridge.language.values import Fail, Timestamp
from bridge.language.view import decode_exactly
from bridge.rehearsal import Sample

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a file with a message."""

_JSON_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_ONE_OF: Final = (
    "one of `body` (JSON), `text`, `base64` and `file` holds the message's bytes; `tombstone: true` is one without"
)

Unread = Annotated[Node, Looks(Any)]
"""The type of a key whose value is read here, from its node."""

exact: Final[Callable[[bytes], Any]] = decode_exactly
"""The value of JSON, its fractions as Decimals."""


class Unfit(ValueError):
    """A node that can't stand here."""

    def __init__(self, place: Place, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.place = place
        self.problem = problem
        self.hint = hint


class MessageBlock(Struct, frozen=True, kw_only=True):
    """What is written for the message of a test."""

    body: Unread | None = None
    text: Unread | None = None
    base64: Unread | None = None
    file: Unread | None = None
    key: Unread | None = None
    headers: Unread | None = None
    timestamp: Unread | None = None
    position: Unread | None = None
    message_id: Unread | None = None
    lane: Unread | None = None
    delivery_attempt: Count | None = None
    tombstone: Unread | None = None


_MESSAGE: Final = fields_of(MessageBlock)
_BODIES: Final = ("body", "text", "base64", "file", "tombstone")


def sample_of(node: Node, where: Where, reading: Reading) -> Sample | None:
    """The message that a block describes; None with problems."""
    if not isinstance(node, Mapping):
        refuse(node, "a mapping", where, reading, "like {body: {region: eu}}, or {file: samples/order.json}")
        return None
    before = len(reading.problems)
    good = _MESSAGE.read(node, where, reading).good
    written = [name for name in _BODIES if name in node.entries]
    if not written and len(reading.problems) > before:
        return None  # a key that is misspelled is likely to be the body
    if len(written) != 1:
        place = node.entries[written[1]].key.place if written else where.owner
        reading.problem(place, "a message has one body" if written else "a message without a body", _ONE_OF)
        return None
    parts: dict[str, Any] = {}
    for name, read in _READERS.items():
        if good.get(name) is not None:
            try:
                parts[name] = read(good[name])
            except Unfit as error:
                reading.problem(error.place, f"`{name}`: {error.problem}", error.hint)
    if len(reading.problems) > before:
        return None
    body = parts.pop(written[0])
    told = {"position": "", **parts, "delivery_attempt": good.get("delivery_attempt")}
    return Sample(body, Meta(**told, tombstone=type(body) is Tombstone))


def json_of(node: Node) -> bytes:
    """A node as JSON: numbers keep the digits that were written. Raises Unfit for a number that JSON doesn't know."""
    if isinstance(node, Mapping):
        members = (msgspec.json.encode(name) + b":" + json_of(entry.value) for name, entry in node.entries.items())
        return b"{" + b",".join(members) + b"}"
    if isinstance(node, Sequence):
        return b"[" + b",".join(map(json_of, node.items)) + b"]"
    match node.kind:
        case "nothing":
            return b"null"
        case "bool":
            return b"true" if node.text in TRUE else b"false"
        case "whole" | "number":
            return _number(node)
        case "text":
            return msgspec.json.encode(node.text)


def _number(scalar: Scalar) -> bytes:
    if _JSON_NUMBER.fullmatch(scalar.text):
        return scalar.text.encode()
    try:
        number = Decimal(scalar.text.replace(".inf", "inf").replace(".nan", "nan"))
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise Unfit(scalar.place, "a number that JSON does not know", "put it in quotes to make it text")
    return str(number).encode()  # +1, .5 and 1.


def time_of(node: Node) -> float:
    """Seconds since 1970, from a text of RFC 3339 or a number. Raises Unfit."""
    if not isinstance(node, Scalar):
        raise Unfit(node.place, "expected a time", "like 2026-01-31T12:00:00Z")
    try:
        return seconds_of(node.text)
    except ValueError as error:
        raise Unfit(node.place, str(error), "like 2026-01-31T12:00:00Z, or seconds since 1970") from error


def seconds_of(text: str) -> float:
    """The same of a text. Raises ValueError."""
    value = call("timestamp", (Decimal(text) if _JSON_NUMBER.fullmatch(text) else text,))
    if isinstance(value, Timestamp):
        return value.ns / NS
    raise ValueError(value.message if isinstance(value, Fail) else "no time")


# The parts of a message ----------------------------------------------------------------------------------------------


def _text(node: Node) -> str:
    if not isinstance(node, Scalar):
        raise Unfit(node.place, "expected text", "put it in quotes")
    return node.text


def _bytes_of_text(node: Node) -> bytes:
    return _text(node).encode()


def _base64(node: Node) -> bytes:
    try:
        return base64.b64decode("".join(_text(node).split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Unfit(node.place, "not base64", "letters, digits, + and /, with = at the end") from error


def _file(node: Node) -> bytes:
    """Paths begin at the folder of the file that names it."""
    path = node.place.source.folder / _text(node)
    try:
        return read_file(path)
    except OSError as error:
        raise Unfit(node.place, f"can't be read: {error.strerror or error}", f"looked for {path}") from error
    except ValueError as error:
        raise Unfit(node.place, str(error)) from error


def read_file(path: Path) -> bytes:
    """Raises OSError, and ValueError for one that no message can be."""
    with path.open("rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"larger than {format_size(LARGEST)}")
    return data


def _key(node: Node) -> bytes:
    """Text, or {base64: …}."""
    if isinstance(node, Mapping) and list(node.entries) == ["base64"]:
        return _base64(node.entries["base64"].value)
    if not isinstance(node, Scalar):
        raise Unfit(node.place, "expected text, or {base64: …}")
    return node.text.encode()


def _headers(node: Node) -> tuple[tuple[str, bytes | None], ...]:
    if not isinstance(node, Mapping):
        raise Unfit(node.place, "expected a mapping", "names with their values: {content-type: application/json}")
    return tuple((name, _header(entry.value)) for name, entry in node.entries.items())


def _header(node: Node) -> bytes | None:
    return None if isinstance(node, Scalar) and node.kind == "nothing" else _key(node)


def _tombstone(node: Node) -> bytes:
    if not isinstance(node, Scalar) or node.kind != "bool" or node.text not in TRUE:
        raise Unfit(node.place, "expected true", "leave it out where the message has a body")
    return TOMBSTONE


_READERS: Final[dict[str, Callable[[Node], object]]] = {
    "body": json_of,
    "text": _bytes_of_text,
    "base64": _base64,
    "file": _file,
    "tombstone": _tombstone,
    "key": _key,
    "headers": _headers,
    "timestamp": time_of,
    "position": _text,
    "message_id": _text,
    "lane": _text,
}
