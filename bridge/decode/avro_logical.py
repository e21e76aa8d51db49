"""Avro's logical types: what their values are in JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Context, Decimal
from functools import partial
from typing import Final
from uuid import UUID

from bridge.decode.text import fault, fraction, rfc3339

Convert = Callable[[object], object]

MAX_DIGITS: Final = 4300
_WIDEST: Final = 1786  # bytes, which hold 4,300 digits
_DAY_ZERO: Final = date(1970, 1, 1).toordinal()
_DAY: Final = 86_400
_CONTEXT: Final = Context(prec=MAX_DIGITS + 1)


def logical(node: Mapping[str, object]) -> Convert | None:
    """What makes JSON of the values of a schema with a logical type. None: they stay what they are.

    One that is unknown, or doesn't fit its type, counts as none: so says the specification.
    """
    match (node["type"], node.get("logicalType")):
        case ("bytes" | "fixed", "decimal"):
            scale = node.get("scale", 0)
            return partial(_decimal, scale) if isinstance(scale, int) and 0 <= scale <= MAX_DIGITS else None
        case ("fixed", "uuid") if node.get("size") == 16:
            return _uuid
        case ("int", "date"):
            return _date
        case ("int", "time-millis"):
            return partial(_time, _PER_SECOND["millis"])
        case ("long", "time-micros"):
            return partial(_time, _PER_SECOND["micros"])
        case ("long", str(name)) if name.startswith(("timestamp-", "local-timestamp-")):
            per_second = _PER_SECOND.get(name.rpartition("-")[2])
            return None if per_second is None else partial(_timestamp, per_second, "" if name[0] == "l" else "Z")
        case _:
            return None


_PER_SECOND: Final = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


def _decimal(scale: int, value: object) -> Decimal:
    assert isinstance(value, bytes)
    if len(value) > _WIDEST:
        raise fault("number", f"a decimal has more than {MAX_DIGITS} digits")
    return Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _CONTEXT)


def _uuid(value: object) -> str:
    assert isinstance(value, bytes)
    return str(UUID(bytes=value))


def _date(value: object) -> str:
    assert isinstance(value, int)
    try:
        return date.fromordinal(_DAY_ZERO + value).isoformat()
    except (ValueError, OverflowError) as error:
        raise fault("number", "a date lies outside of the years 1 to 9999") from error


def _time(per_second: int, value: object) -> str:
    assert isinstance(value, int)
    seconds, rest = divmod(value, per_second)
    if not 0 <= seconds < _DAY:
        raise fault("number", "a time of day is not within a day")
    nanos = rest * (10**9 // per_second)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction(nanos)}"


def _timestamp(per_second: int, zone: str, value: object) -> str:
    assert isinstance(value, int)
    seconds, rest = divmod(value, per_second)
    return rfc3339(seconds, rest * (10**9 // per_second), zone=zone)
