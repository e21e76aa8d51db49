"""Timestamps and durations as texts.

Timestamps by RFC 3339 (section 5.6) with at most nine digits of a second and no leap second; durations as Go writes
them (`1h30m`, `1.5s`, `250ms`) and CEL took over.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

from bridge.language.numbers import Number
from bridge.language.values import Duration, Fail, Timestamp

NS: Final = 1_000_000_000
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY: Final = 86_400
_FIRST: Final = (date.min.toordinal() - _EPOCH) * _DAY * NS
_END: Final = (date.max.toordinal() + 1 - _EPOCH) * _DAY * NS
_LONGEST: Final = 315_576_000_000 * NS  # 10,000 years, as CEL has it
_LONGEST_TEXT: Final = 100
_NANOSECOND: Final = Decimal("1e-9")
_DIGITS: Final = Context(prec=2 * _LONGEST_TEXT, traps=[])

_RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?"
    r"(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)
_UNITS: Final = {"h": 3600 * NS, "m": 60 * NS, "s": NS, "ms": 1_000_000, "us": 1_000, "µs": 1_000, "μs": 1_000, "ns": 1}
_LENGTH: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(h|ms|m|s|us|µs|μs|ns)")

_NO_TIMESTAMP: Final = Fail("the text is no timestamp of RFC 3339 (2026-01-31T12:00:00Z)")
_NO_DURATION: Final = Fail("the text is no duration (1h30m, 90s, 250ms)")
_OUT_OF_YEARS: Final = Fail("gives a timestamp outside of the years 1 to 9999")
_TOO_LONG: Final = Fail("gives a duration of more than 10,000 years")


def timestamp_of(text: str) -> Timestamp | Fail:
    found = _RFC_3339.fullmatch(text)
    if found is None:
        return _NO_TIMESTAMP
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    fraction, sign, ahead, minutes_ahead = found.groups()[6:]
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return _NO_TIMESTAMP
    seconds = days * _DAY + hour * 3600 + minute * 60 + second
    if sign:
        seconds -= int(sign + "1") * (int(ahead) * 3600 + int(minutes_ahead) * 60)
    return timestamp_at(seconds * NS + int((fraction or "").ljust(9, "0")))


def timestamp_from_seconds(seconds: Number) -> Timestamp | Fail:
    """`seconds` since 1970; what is less than a nanosecond is cut off."""
    if not _FIRST // NS <= seconds < _END // NS:  # not a number, too, is not in between
        return _OUT_OF_YEARS
    if isinstance(seconds, int):
        return Timestamp(seconds * NS)
    ns = Decimal(seconds).quantize(_NANOSECOND, ROUND_FLOOR, _DIGITS)
    return timestamp_at(int(_DIGITS.scaleb(ns, 9)))


def timestamp_at(ns: int) -> Timestamp | Fail:
    return Timestamp(ns) if _FIRST <= ns < _END else _OUT_OF_YEARS


def duration_of(text: str) -> Duration | Fail:
    unsigned = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if len(text) > _LONGEST_TEXT or not unsigned:
        return _NO_DURATION
    if unsigned == "0":
        return Duration(0)
    ns, at = 0, 0
    while at < len(unsigned):
        found = _LENGTH.match(unsigned, at)
        if found is None:
            return _NO_DURATION
        ns += int(_DIGITS.multiply(Decimal(found[1]), _UNITS[found[2]]))
        at = found.end()
    return duration_over(-ns if text.startswith("-") else ns)


def duration_over(ns: int) -> Duration | Fail:
    return Duration(ns) if -_LONGEST <= ns <= _LONGEST else _TOO_LONG


def seconds_of(timestamp: Timestamp) -> int:
    """Whole seconds since 1970, rounded down."""
    return timestamp.ns // NS


def text_of_timestamp(timestamp: Timestamp) -> str:
    """RFC 3339 in UTC; of a second's fraction no digit, three, six or nine, as CEL has it."""
    seconds, ns = divmod(timestamp.ns, NS)
    days, second = divmod(seconds, _DAY)
    day = date.fromordinal(days + _EPOCH)
    return f"{day.isoformat()}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}{_fraction(ns)}Z"


def text_of_duration(duration: Duration) -> str:
    """Seconds: `5400s`, `-0.250s`."""
    seconds, ns = divmod(abs(duration.ns), NS)
    return f"{'-' if duration.ns < 0 else ''}{seconds}{_fraction(ns)}s"


def _fraction(ns: int) -> str:
    digits = f"{ns:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""
