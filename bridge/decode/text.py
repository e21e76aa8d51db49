"""Values become the JSON text of an event: what all decoders of binary formats share."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from bridge.core.model import Fault
from bridge.core.units import format_size
from bridge.decode.json import DecodeFault, decode_whole, strip_bom

GROWTH: Final = 4
"""How many times `max_body` the text of an event may have: binary bodies grow as JSON, and some could without end."""

TWO_MARKS: Final = "not JSON: there are two byte order marks"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_encode = msgspec.json.Encoder(decimal_format="number").encode
_pack = struct.Struct("<f").pack


def fault(reason: str, error: str) -> DecodeFault:
    """To be raised."""
    return DecodeFault(Fault(reason, error))


def read_text(body: bytes) -> str:
    """A body that is text, without a byte order mark in front. Raises DecodeFault where it is not UTF-8."""
    try:
        return str(strip_bom(body), "utf-8")
    except UnicodeDecodeError as error:
        where = f"byte 0x{error.object[error.start]:02x} at offset {error.start}"
        raise fault("encoding", f"not UTF-8: {where} ({error.reason})") from error


def written(value: object) -> bytes:
    """JSON text of dicts, lists, texts, numbers (Decimal with its digits), bytes (base64), datetimes.

    Raises DecodeFault. NaN and the infinities are the caller's to refuse.
    """
    try:
        return _encode(value)
    except RecursionError as error:
        raise fault("too_deep", "nested deeper than 100 levels") from error
    except (TypeError, ValueError) as error:
        raise fault("malformed", f"JSON can't hold it: {error}") from error


def checked(text: bytes, max_body: int, *, strict: bool = False) -> bytes:
    """The text, proved to be strict JSON, not past all bounds, and without a byte order mark. Raises DecodeFault."""
    if len(text) > GROWTH * max_body:
        size = format_size(max_body)
        raise fault("too_big", f"{len(text)} bytes as JSON, more than {GROWTH} times `max_body`, which is {size}")
    if strip_bom(text) is not text:
        raise fault("malformed", TWO_MARKS)
    decode_whole(text, strict=strict)
    return text


def rfc3339(seconds: int, nanos: int = 0, *, zone: str = "Z") -> str:
    """An instant since 1970 as text, with 0, 3, 6 or 9 digits behind the second. Raises DecodeFault.

    `nanos` in 0 to 999,999,999; `zone` is empty for local time.
    """
    try:
        moment = _EPOCH + timedelta(seconds=seconds)
    except OverflowError as error:
        raise fault("number", "a date or time lies outside of the years 1 to 9999") from error
    return f"{moment.isoformat()[:19]}{fraction(nanos)}{zone}"


def fraction(nanos: int) -> str:
    """`.5` of a second as `.500`: empty, or 3, 6 or 9 digits, as many as it takes."""
    if not nanos:
        return ""
    digits = f"{nanos:09d}"
    for unneeded in ("000000", "000"):
        if digits.endswith(unneeded):
            return f".{digits.removesuffix(unneeded)}"
    return f".{digits}"


def shortest(single: float) -> float:
    """Of the doubles that round to this 32-bit float the one with the fewest digits: 0.1, not 0.10000000149011612."""
    packed = _pack(single)
    for digits in range(6, 9):
        short = float(f"{single:.{digits}g}")
        try:
            if _pack(short) == packed:
                return short
        except OverflowError:  # rounded up, past the largest
            continue
    return float(f"{single:.9g}")
