"""The body of an AMQP message as bytes that a stream can decode, and its properties as headers. Pure.

| the body                          | becomes                                                                       |
|-----------------------------------|-------------------------------------------------------------------------------|
| data sections                     | their bytes, joined                                                           |
| a value: string, symbol or binary | its bytes                                                                     |
| a value: anything else            | JSON: keys as texts, texts from UTF-8, timestamps in ms, UUIDs as texts       |
| sequence sections                 | a JSON list of all their elements                                             |
| none, or the value null           | TOMBSTONE                                                                     |

The client hands over strings, symbols and binaries alike, as bytes. What JSON can't say is told in place of the body,
behind a byte that no text begins with, so that decoding fails with those words in the dead letter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from bridge.core.model import TOMBSTONE

UNREADABLE: Final = b"\xff"
"""Begins the bytes that stand for a body which can't be decoded."""
_DEEPEST: Final = 64

_json = msgspec.json.Encoder().encode


class Amqp(Protocol):
    """The sections that a body may be in, as the client decodes them. Lists have one entry a section."""

    @property
    def data(self) -> Any: ...
    @property
    def sequence(self) -> Any: ...
    @property
    def value(self) -> Any: ...


class Unsayable(ValueError):
    """JSON has no word for it."""


def body_of(message: Amqp) -> bytes:
    """Total: whatever the client has decoded becomes bytes."""
    data = message.data
    if data is not None:
        return bytes(data[0]) if len(data) == 1 else b"".join(data)
    try:
        if message.sequence is not None:
            return _json(_plain([element for section in message.sequence for element in section]))
        value = message.value
        if value is None:
            return TOMBSTONE
        if isinstance(value, bytes | bytearray):
            return bytes(value)
        return value.encode() if isinstance(value, str) else _json(_plain(value))
    except (Unsayable, TypeError, ValueError, RecursionError) as error:
        kind = "sequence" if message.sequence is not None else "value"
        return UNREADABLE + f"an AMQP {kind} that JSON has no words for: {error}".encode()


def _plain(value: Any, depth: int = 0) -> Any:
    """As JSON has it. Raises Unsayable."""
    if depth > _DEEPEST:
        raise Unsayable(f"it is nested more than {_DEEPEST} levels deep")
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, bytes | bytearray):
        return _text(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unsayable(f"the number {value}")
        return value
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return _object(value, depth)
    if isinstance(value, list | tuple):
        return [_plain(element, depth + 1) for element in value]
    raise Unsayable(f"something of type {type(value).__name__}")


def _object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, element in value.items():
        name = _plain(key, depth + 1)
        if isinstance(name, list | dict):
            raise Unsayable("a key that is a list or a map")
        text = name if isinstance(name, str) else _json(name).decode()
        if text in plain:
            raise Unsayable(f"two keys that are {text!r} as texts")
        plain[text] = _plain(element, depth + 1)
    return plain


def _text(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unsayable(f"{len(value)} bytes that are no UTF-8") from None


# Headers -------------------------------------------------------------------------------------------------------------

_PROPERTIES: Final = (
    ("subject", "subject"), ("correlation_id", "correlation-id"), ("content_type", "content-type"),
    ("content_encoding", "content-encoding"), ("to", "to"), ("reply_to", "reply-to"),
    ("reply_to_group_id", "reply-to-session-id"),
)  # fmt: skip


def headers_of(properties: Any, application: Mapping[Any, Any] | None) -> tuple[tuple[str, bytes | None], ...]:
    """AMQP's own properties first, then those of the application, which therefore win where names are equal."""
    headers: list[tuple[str, bytes | None]] = []
    if properties is not None:
        values = ((name, getattr(properties, field, None)) for field, name in _PROPERTIES)
        headers += [(name, header_of(value)) for name, value in values if value is not None]
    if application:
        headers += [(name_of(key), header_of(value)) for key, value in application.items()]
    return tuple(headers)


def name_of(value: Any) -> str:
    """A key or an id as a text; total."""
    if isinstance(value, bytes | bytearray):
        return value.decode(errors="replace")
    return "" if value is None else str(value)


def header_of(value: Any) -> bytes | None:
    """Texts and binaries as their bytes, `true` and `false`, numbers and UUIDs as they are written; null stays null."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, Iterable) and not isinstance(value, str):
        try:
            return _json(_plain(value))
        except Unsayable as error:
            return UNREADABLE + str(error).encode()
    return str(value).encode()
