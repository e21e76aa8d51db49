"""CloudEvents 1.0 in its three content modes; the event is always what structured mode writes (JSON event format).

Which mode it is, headers say: a content type that begins with `application/cloudevents-batch` is a batch, with
`application/cloudevents` structured; else a `ce_specversion` header makes it binary; else the body is plain JSON, and
is read as it is: structured events without any header look like that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bridge.decode.json import decode_whole, strip_bom
from bridge.decode.text import TWO_MARKS, fault, read_text, written

Headers = Sequence[tuple[str, bytes | None]]
"""As brokers give them: names may repeat, and differ in case; a value may be null."""

REQUIRED: Final = ("specversion", "id", "source", "type")

_PREFIXES: Final = ("ce_", "ce-", "cloudevents:", "cloudevents_")
_DATA: Final = frozenset({"data", "data_base64"})
_KIND: Final = re.compile(r"application/cloudevents(-batch)?(?:\+([a-z0-9.-]+))?\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_JSON_TYPE: Final = re.compile(r"[^/;]+/(?:[^;]*\+)?json\s*(?:;.*)?", re.IGNORECASE | re.DOTALL)
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_UNICODE: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})


class _Attributes(msgspec.Struct):
    specversion: str = ""
    id: str = ""
    source: str = ""
    type: str = ""


_attributes = msgspec.json.Decoder(_Attributes).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_well_formed = msgspec.json.Decoder(msgspec.Raw).decode


def read(body: bytes, headers: Headers) -> list[bytes]:
    """The events of a message as texts, not yet proved to be JSON in all their parts. Raises DecodeFault."""
    content_type, attributes = _declared(headers)
    if content_type is not None and content_type.lower().startswith("application/cloudevents"):
        if _is_batch(content_type):
            return _batch(body)
        return [_structured(body, "")]
    if "specversion" in attributes:
        return [_binary(body, attributes, content_type)]
    return [strip_bom(body)]


def _declared(headers: Headers) -> tuple[str | None, dict[str, str]]:
    """The content type, and the attributes that stand in headers; of a name that repeats the last one wins."""
    content_type: str | None = None
    attributes: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        prefix = next(filter(lower.startswith, _PREFIXES), None)
        if value is None or (prefix is None and lower != "content-type"):
            continue
        try:
            text = value.decode()
        except UnicodeDecodeError as error:
            raise fault("encoding", f"the header {name[:80]!r} is not UTF-8") from error
        if prefix is None:
            content_type = text.strip()
        else:
            attributes[lower.removeprefix(prefix)] = text
    return content_type, attributes


def _is_batch(content_type: str) -> bool:
    """Raises DecodeFault for an event format other than JSON."""
    kind = _KIND.fullmatch(content_type)
    if kind is None:
        raise fault("cloudevent", "the content type begins like CloudEvents, and is none that is known")
    if kind[2] is not None and kind[2].lower() != "json":
        raise fault(
            "cloudevent", f"the event format {kind[2][:40]!r} is not read: only JSON (application/cloudevents+json)"
        )
    return kind[1] is not None


def _batch(body: bytes) -> list[bytes]:
    text = strip_bom(body)
    try:
        elements = _elements(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if not isinstance(decode_whole(text), list):
            raise fault("cloudevent", "a batch is a JSON array of events, and this is none") from error
        raise fault("malformed", "not JSON") from error  # what the one decoder takes, the other does
    return [_structured(bytes(element), f"event {n} of the batch: ") for n, element in enumerate(elements)]


def _structured(body: bytes, where: str) -> bytes:
    text = strip_bom(body)
    try:
        found = _attributes(text)
        if found.specversion and found.id and found.source and found.type:
            return text
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass  # and again, to say why
    event = decode_whole(text)
    if not isinstance(event, dict):
        raise fault("cloudevent", f"{where}a CloudEvent is a JSON object, and this is none")
    _check(event, where)
    return text


def _check(event: Mapping[str, object], where: str) -> None:
    missing = [name for name in REQUIRED if not (isinstance(event.get(name), str) and event[name])]
    if missing:
        raise fault("cloudevent", f"{where}no CloudEvent: it lacks {', '.join(missing)} (a text that is not empty)")


def _binary(body: bytes, attributes: dict[str, str], content_type: str | None) -> bytes:
    _check(attributes, "in the headers: ")
    event: dict[str, object] = {name: value for name, value in attributes.items() if name not in _DATA}
    if content_type:
        event["datacontenttype"] = content_type
    if not body:
        return written(event)
    kind = event.get("datacontenttype")
    if not isinstance(kind, str) or _JSON_TYPE.fullmatch(kind):  # without a type it is JSON, says the JSON event format
        event["data"] = msgspec.Raw(_json(body))
    elif kind.lower().startswith("text/"):
        event["data"] = _text(body, kind)
    else:
        event["data_base64"] = body
    return written(event)


def _json(body: bytes) -> bytes:
    """Data that goes into the event as it is written: one JSON value, or else it could bring fields of its own."""
    text = strip_bom(body)
    try:
        _well_formed(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        decode_whole(text)  # says why, and passes over one mark
        raise fault("malformed", TWO_MARKS) from error
    return text


def _text(body: bytes, kind: str) -> str:
    charset = _CHARSET.search(kind)
    if charset is not None and charset[1].lower() not in _UNICODE and not body.isascii():
        raise fault("encoding", f"the data is text in {charset[1][:40]!r}, and only UTF-8 is read")
    return read_text(body)
