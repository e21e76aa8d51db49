"""What services of AWS put around an event on its way: SNS, S3 notifications, EventBridge.

A body that is no such envelope passes unchanged: what it is then is for the format to say. So a subscription that
delivers raw, and JSON of the user's own that happens to have a field called `Message`, stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Raw, Struct

from bridge.decode.json import DecodeFault, decimal_of, decode_whole, strip_bom
from bridge.decode.options import Envelope
from bridge.decode.text import fault
from bridge.decode.wrappers import strictly

TEST_EVENT: Final = "test event"

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_items = msgspec.json.Decoder(list[Raw]).decode
_exactly = msgspec.json.Decoder(float_hook=decimal_of).decode

Attributes = Mapping[str, object]


class Enclosed(Struct, frozen=True):
    """What was within an envelope. `attributes` None: it had none of its own, and the broker's headers count."""

    body: bytes
    attributes: Attributes | None = None


class Ignored(Exception):
    """The message is no event, and nobody's fault. Its text says what it is."""


def opened(body: bytes, envelopes: Sequence[Envelope]) -> list[Enclosed]:
    """The bodies within all of the envelopes, taken off from the outside in. Raises DecodeFault and Ignored.

    Attributes of an inner envelope join those of an outer one, and win.
    """
    enclosed = [Enclosed(body)]
    for envelope in envelopes:
        enclosed = [
            Enclosed(inner.body, _joined(outer.attributes, inner.attributes))
            for outer in enclosed
            for inner in _OPEN[envelope](outer.body)
        ]
    return enclosed


def _joined(outer: Attributes | None, inner: Attributes | None) -> Attributes | None:
    return {**outer, **inner} if outer and inner else outer if inner is None else inner


def _sns(body: bytes) -> Sequence[Enclosed]:
    fields = _object(body)
    message = _text(fields.get("Message"))
    if message is None or _text(fields.get("Type")) != "Notification" or _text(fields.get("TopicArn")) is None:
        return [Enclosed(body)]
    declared = _value(fields.get("MessageAttributes"))
    attributes = declared.items() if isinstance(declared, dict) else ()
    return [Enclosed(message.encode(), {name: _attribute(name, value) for name, value in attributes})]


def _attribute(name: str, declared: object) -> object:
    """An attribute of SNS by its declared type: text, int or Decimal, bytes, or a list."""
    kind = declared.get("Type") if isinstance(declared, dict) else None
    value = declared.get("Value") if isinstance(declared, dict) else None
    if not isinstance(kind, str) or not isinstance(value, str):
        raise fault("malformed", f"the SNS attribute {name[:80]!r} has no Type and Value")
    try:
        read: object = _TYPES.get(kind.partition(".")[0] if kind != "String.Array" else kind, _as_is)(value)
    except (ValueError, TypeError, DecodeFault) as error:
        raise fault("malformed", f"the SNS attribute {name[:80]!r} is no {kind[:40]}, which it declares") from error
    return read


def _as_is(value: str) -> str:
    return value


def _number(value: str) -> int | Decimal:
    text = value.strip().encode()
    if not isinstance(decode_whole(text), int | float) or text in (b"true", b"false"):
        raise ValueError("no number")
    number: int | Decimal = _exactly(text)
    return number


def _list(value: str) -> list[object]:
    text = value.encode()
    decode_whole(text)
    items: object = _exactly(text)
    if not isinstance(items, list):
        raise TypeError("no list")
    return items


def _binary(value: str) -> bytes:
    return strictly(value.encode())


_TYPES: Final[Mapping[str, Callable[[str], object]]] = {"Number": _number, "Binary": _binary, "String.Array": _list}


def _s3(body: bytes) -> Sequence[Enclosed]:
    fields = _object(body)
    if _text(fields.get("Event")) == "s3:TestEvent" and "Records" not in fields:
        raise Ignored(TEST_EVENT)
    try:
        records = _items(fields["Records"]) if "Records" in fields else []
    except msgspec.MsgspecError:
        records = []
    if not records or any(_text(_object(bytes(record)).get("eventSource")) != "aws:s3" for record in records):
        return [Enclosed(body)]
    return [Enclosed(bytes(record)) for record in records]


def _eventbridge(body: bytes) -> Sequence[Enclosed]:
    fields = _object(body)
    detail = fields.pop("detail", None)
    if detail is None or _text(fields.get("detail-type")) is None or _text(fields.get("source")) is None:
        return [Enclosed(body)]
    return [Enclosed(bytes(detail), {name: _value(raw) for name, raw in fields.items()})]


_OPEN: Final[Mapping[Envelope, Callable[[bytes], Sequence[Enclosed]]]] = {
    "sns": _sns,
    "s3": _s3,
    "eventbridge": _eventbridge,
}


def _object(body: bytes) -> dict[str, Raw]:
    """The fields of a JSON object, not yet read; none where it is no object."""
    try:
        return _fields(strip_bom(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}


def _value(raw: Raw | None) -> object:
    """None where it is missing. Raises DecodeFault for what no reader of JSON takes."""
    if raw is None:
        return None
    text = bytes(raw)
    decode_whole(text)
    value: object = _exactly(text)
    return value


def _text(raw: Raw | None) -> str | None:
    try:
        value = _value(raw)
    except DecodeFault:
        return None
    return value if isinstance(value, str) else None
