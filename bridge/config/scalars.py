"""Scalars to typed values. Each shape takes a filled scalar, or says what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Meta, Struct

from bridge.config.nodes import FALSE, MOST_DIGITS, TRUE, kind_of, number_of
from bridge.config.suggest import did_you_mean, one_of
from bridge.config.variables import Filled
from bridge.core.units import format_duration, format_size, parse_duration, parse_size

_LARGEST: Final = 2**63 - 1  # what the store, and most of what is behind it, can hold
_LONGEST: Final = 36500 * 86400.0


class Miss(NamedTuple):
    """The scalar does not fit; `hint` says what to do, where there is more to say than what was expected."""

    hint: str = ""


class ScalarShape(Protocol):
    """`expected` finishes the sentence "expected …"."""

    @property
    def expected(self) -> str: ...
    def take(self, scalar: Filled) -> object: ...


class Bounds(Struct, frozen=True):
    """What `msgspec.Meta` asks of a value."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None

    def holds(self, value: float) -> bool:
        return not (
            (self.ge is not None and value < self.ge)
            or (self.gt is not None and value <= self.gt)
            or (self.le is not None and value > self.le)
            or (self.lt is not None and value >= self.lt)
            or (self.multiple_of is not None and value % self.multiple_of != 0)
        )

    def holds_length(self, length: int) -> bool:
        return (self.min_length is None or length >= self.min_length) and (
            self.max_length is None or length <= self.max_length
        )

    def words(self, format_value: Callable[[Any], str]) -> str:
        """` of at least 1`, empty where everything goes."""
        parts = [
            f"{word} {format_value(value)}"
            for word, value in (
                ("at least", self.ge),
                ("more than", self.gt),
                ("at most", self.le),
                ("less than", self.lt),
            )
            if value is not None
        ]
        multiple = f", a multiple of {format_value(self.multiple_of)}" if self.multiple_of is not None else ""
        return (f" of {' and '.join(parts)}" if parts else "") + multiple


def bounds_of(metas: list[Meta]) -> Bounds:
    """The constraints of all the annotations, the last of each kind."""
    names = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")
    return Bounds(**{n: v for m in metas for n in names if (v := getattr(m, n)) is not None})


class Text(Struct, frozen=True):
    """`is_path`: of a file, which whoever knows the YAML file makes absolute."""

    bounds: Bounds
    is_path: bool = False

    @property
    def expected(self) -> str:
        low, high = self.bounds.min_length, self.bounds.max_length
        if low and high is None:
            return "text that is not empty" if low == 1 else f"text of at least {low} characters"
        if high is not None:
            return f"text of {f'{low} to ' if low else 'at most '}{high} characters"
        return f"text like {self.bounds.pattern}" if self.bounds.pattern else "text"

    def take(self, scalar: Filled) -> str | Miss:
        text = scalar.text
        if scalar.is_plain and (kind := kind_of(text)) != "text":
            return Miss() if kind == "nothing" else Miss(f'for text, put it in quotes: "{text[:60]}"')
        if not self.bounds.holds_length(len(text)):
            return Miss()
        if self.bounds.pattern is not None and re.search(self.bounds.pattern, text) is None:
            return Miss(f"it must look like {self.bounds.pattern}")
        return text


class Whole(Struct, frozen=True):
    bounds: Bounds

    @property
    def expected(self) -> str:
        return f"a whole number{self.bounds.words(lambda v: f'{v:,}')}"

    def take(self, scalar: Filled) -> int | Miss:
        kind = kind_of(scalar.text)
        if kind != "whole" or not (scalar.is_plain or scalar.origins):
            return Miss(_number_hint(scalar, kind))
        if len(scalar.text) > MOST_DIGITS or abs(int(scalar.text)) > _LARGEST:
            return Miss(f"at most {_LARGEST:,} fits")
        value = int(scalar.text)
        return value if self.bounds.holds(value) else Miss()


class Number(Struct, frozen=True):
    bounds: Bounds

    @property
    def expected(self) -> str:
        return f"a number{self.bounds.words(lambda v: f'{v:g}')}"

    def take(self, scalar: Filled) -> float | Miss:
        kind = kind_of(scalar.text)
        if kind not in ("whole", "number") or not (scalar.is_plain or scalar.origins):
            return Miss(_number_hint(scalar, kind))
        value = number_of(scalar.text)
        if not math.isfinite(value):
            return Miss("it must be finite")
        return value if self.bounds.holds(value) else Miss()


class YesOrNo(Struct, frozen=True):
    expected: str = "true or false"

    def take(self, scalar: Filled) -> bool | Miss:
        if scalar.is_plain or scalar.origins:
            if scalar.text in TRUE:
                return True
            if scalar.text in FALSE:
                return False
        word = scalar.text.lower()
        meant = "true" if word in _YES else "false" if word in _NO else ""
        return Miss(f"did you mean {meant}?" if meant and not scalar.origins else "")


class Nothing(Struct, frozen=True):
    expected: str = "nothing"

    def take(self, scalar: Filled) -> Miss | None:
        return None if scalar.is_plain and kind_of(scalar.text) == "nothing" else Miss()


class DurationShape(Struct, frozen=True):
    bounds: Bounds

    @property
    def expected(self) -> str:
        return f"a duration{self.bounds.words(lambda v: format_duration(v) if v else 'zero')}"

    def take(self, scalar: Filled) -> float | Miss:
        value = _quantity(scalar, parse_duration, "s", _DURATION_UNITS)
        if isinstance(value, Miss):
            return value
        if value > _LONGEST:
            return Miss("longer than a century is surely not meant")
        return value if self.bounds.holds(value) else Miss()


class SizeShape(Struct, frozen=True):
    bounds: Bounds

    @property
    def expected(self) -> str:
        return f"a size{self.bounds.words(lambda v: format_size(int(v)) if v else 'zero')}"

    def take(self, scalar: Filled) -> int | Miss:
        value = _quantity(scalar, parse_size, "B", _SIZE_UNITS)
        if isinstance(value, Miss):
            return value
        if value > _LARGEST:
            return Miss("larger than anything that could be meant")
        return int(value) if self.bounds.holds(value) else Miss()


class Choice(Struct, frozen=True):
    """One of some values. `later` holds values that are known and not available yet."""

    values: tuple[object, ...]
    later: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        return one_of(str(v) for v in self.values)

    def take(self, scalar: Filled) -> object:
        kind = kind_of(scalar.text) if scalar.is_plain or scalar.origins else "text"
        for value in self.values:
            if isinstance(value, str) and value == scalar.text and (kind == "text" or scalar.origins):
                return value
            if isinstance(value, bool):
                if kind == "bool" and value == (scalar.text in TRUE):
                    return value
            elif isinstance(value, int) and kind == "whole" and str(value) == scalar.text.removeprefix("+"):
                return value
        if scalar.text in self.later:
            return Miss(f"`{scalar.text}` is known, but not available in this version")
        return Miss("" if scalar.origins else did_you_mean(scalar.text, (v for v in self.values if isinstance(v, str))))


_YES: Final = frozenset({"yes", "on", "y", "true", "enabled", "1"})
_NO: Final = frozenset({"no", "off", "n", "false", "disabled", "0"})

_DURATION_UNITS: Final = {
    "ms": "ms", "msec": "ms", "millis": "ms", "milliseconds": "ms", "s": "s", "sec": "s", "secs": "s", "second": "s",
    "seconds": "s", "m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m", "h": "h", "hr": "h", "hrs": "h",
    "hour": "h", "hours": "h", "d": "d", "day": "d", "days": "d",
}  # fmt: skip
_SIZE_UNITS: Final = {
    "b": "B", "byte": "B", "bytes": "B", "k": "KiB", "kb": "KB", "kib": "KiB", "m": "MiB", "mb": "MB", "mib": "MiB",
    "g": "GiB", "gb": "GB", "gib": "GiB",
}  # fmt: skip
DURATION_UNITS: Final = tuple(dict.fromkeys(_DURATION_UNITS.values()))
SIZE_UNITS: Final = tuple(dict.fromkeys(_SIZE_UNITS.values()))
_SPELLED: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def _quantity(scalar: Filled, parse: Callable[[str], float], unit: str, units: dict[str, str]) -> float | Miss:
    try:
        value = parse(scalar.text)
    except ValueError as error:
        if scalar.text.startswith("-"):
            return Miss("it can't be negative")
        found = _SPELLED.fullmatch(scalar.text.strip()[:40])
        meant = (units.get(found[2].lower()) if found[2] else unit) if found else None
        # A value from a variable is not repeated, not even corrected.
        suggestion = f"; did you mean {found[1]}{meant}?" if found and meant and not scalar.origins else ""
        return Miss(f"{error}{suggestion}")
    except OverflowError:
        return Miss("a number that large is surely not meant")
    return value


def _number_hint(scalar: Filled, kind: str) -> str:
    text = scalar.text
    if scalar.origins:
        return ""
    if not scalar.is_plain and kind in ("whole", "number"):
        return "remove the quotes"
    digits = text.replace("_", "").replace(",", "")
    if digits != text and kind_of(digits or "-") == "whole":
        return f"did you mean {digits[:60]}?"
    if digits.isdecimal() and text.startswith("0"):
        return f"numbers have no leading zeros: did you mean {int(digits[:60])}?"
    return ""
