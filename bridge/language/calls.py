"""What each function of `functions.FUNCTIONS` does.

`call` is total: arguments that are unknown give unknown, a Fail stays the Fail that it is, and what a function doesn't
take is a Fail. None takes longer than its arguments and its result are long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from bridge.language import numbers, times
from bridge.language.functions import FUNCTIONS, KINDS, Kind
from bridge.language.patterns import is_within, matches, size_of_pattern
from bridge.language.values import (
    Duration,
    Fail,
    Meter,
    Timestamp,
    Value,
    contained,
    kind_of,
    kinds_in_words,
    undefined,
)

LONGEST_TEXT: Final = 1024 * 1024
"""Characters of a text that `+` makes."""

LONGEST_LIST: Final = 10_000
"""Items of a list that `+` makes."""

LARGEST: Final = 16 * 1024 * 1024
"""Bytes of a value that is made of lists, about."""

_PER_UNIT: Final = 64  # characters, or instructions of a pattern, that a meter counts as one

_TOGETHER: Final[dict[str, frozenset[tuple[Kind, Kind]]]] = {
    "+": frozenset(
        {
            ("number", "number"),
            ("text", "text"),
            ("list", "list"),
            ("timestamp", "duration"),
            ("duration", "timestamp"),
            ("duration", "duration"),
        }
    ),
    "-": frozenset(
        {("number", "number"), ("timestamp", "timestamp"), ("timestamp", "duration"), ("duration", "duration")}
    ),
}


def call(name: str, args: Sequence[Value], meter: Meter | None = None) -> Value:
    """The value of a function or an operator. `meter` pays for what is looked at and made, one for 64 characters."""
    if name not in FUNCTIONS or len(args) != len(FUNCTIONS[name].takes):
        return Fail(f"there is no function `{name}` of {len(args)} values")
    if name == "default":
        return args[1] if args[0] is None else args[0]
    truth = undefined(*args)
    if truth is not True:
        return truth
    if name == "in":
        return contained(args[0], args[1], meter)
    refused = refusal(name, [kind_of(arg) for arg in args])
    if refused is not None:
        return Fail(refused)
    return _CALLS[name](*args) if meter is None else _metered(name, args, meter)


def refusal(name: str, kinds: Sequence[Kind], texts: Sequence[str] | None = None) -> str | None:
    """Why the function doesn't take arguments of these kinds; None where it does. `texts` are what they are called."""
    function = FUNCTIONS[name]
    called = f"`{name}`" if function.form == "operator" else name
    for place, (kind, takes) in enumerate(zip(kinds, function.takes, strict=True)):
        if kind not in takes and "any" not in takes:
            wanted = kinds_in_words(sorted(takes))
            if texts is None:
                return f"{called} takes {wanted}, not {KINDS[kind]}"
            return f"{texts[place]} is {KINDS[kind]}, and {called} takes {wanted}"
    if name in _TOGETHER and tuple(kinds) not in _TOGETHER[name]:
        first, second = (KINDS[kind] for kind in kinds)
        if texts is None:
            return f"{called} doesn't take {first} and {second}"
        return f"{texts[0]} is {first} and {texts[1]} is {second}: {called} doesn't take the two"
    return None


def is_too_large(value: Value) -> bool:
    """Whether it takes more than 16 MiB to write: a list that holds another twice can be larger than it looks."""
    left = LARGEST
    pending = [value]
    while pending and left >= 0:
        part = pending.pop()
        if isinstance(part, str | bytes):
            left -= len(part)
        elif isinstance(part, list | tuple):
            left -= 16 * len(part)
            pending.extend(part if left >= 0 else ())
        elif isinstance(part, Mapping):
            left -= sum(map(len, part), 16 * len(part))
            pending.extend(part.values() if left >= 0 else ())
    return left < 0


def _metered(name: str, args: Sequence[Value], meter: Meter) -> Value:
    """Texts and lists that are read cost by their length; those that are made, four times as much: they take room."""
    price = sum(map(_length, args)) // _PER_UNIT
    if name == "matches":
        price *= 1 + size_of_pattern(str(args[1])) // _PER_UNIT
    meter.left -= price
    value = _CALLS[name](*args) if meter.left >= 0 else meter.spent
    meter.left -= 4 * _length(value) // _PER_UNIT
    return value if meter.left >= 0 else meter.spent


def _length(value: Value) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return len(value) * _PER_UNIT if isinstance(value, list | tuple) else 0


def _size(sized: str | bytes | Sequence[Value] | Mapping[str, Value]) -> int:
    return len(sized)


def _plus(left: Value, right: Value) -> Value:
    match left, right:
        case ((int() | Decimal() | float()), (int() | Decimal() | float())):
            return numbers.add(left, right)
        case str(), str():
            return left + right if len(left) + len(right) <= LONGEST_TEXT else Fail("gives a text of more than 1 MiB")
        case ((list() | tuple()), (list() | tuple())):
            is_short = len(left) + len(right) <= LONGEST_LIST
            return [*left, *right] if is_short else Fail(f"gives a list of more than {LONGEST_LIST:,} items")
        case Timestamp(), Duration():
            return times.timestamp_at(left.ns + right.ns)
        case Duration(), Timestamp():
            return times.timestamp_at(left.ns + right.ns)
        case Duration(), Duration():
            return times.duration_over(left.ns + right.ns)
        case _:
            return Fail("`+` doesn't take the two")


def _minus(left: Value, right: Value) -> Value:
    match left, right:
        case ((int() | Decimal() | float()), (int() | Decimal() | float())):
            return numbers.subtract(left, right)
        case Timestamp(), Duration():
            return times.timestamp_at(left.ns - right.ns)
        case Timestamp(), Timestamp():
            return times.duration_over(left.ns - right.ns)
        case Duration(), Duration():
            return times.duration_over(left.ns - right.ns)
        case _:
            return Fail("`-` doesn't take the two")


def _negative(value: numbers.Number | Duration) -> Value:
    return Duration(-value.ns) if isinstance(value, Duration) else numbers.negative(value)


def _timestamp(value: str | numbers.Number | Timestamp) -> Value:
    if isinstance(value, Timestamp):
        return value
    return times.timestamp_of(value) if isinstance(value, str) else times.timestamp_from_seconds(value)


def _duration(value: str | Duration) -> Value:
    return value if isinstance(value, Duration) else times.duration_of(value)


def _string(value: str | bool | numbers.Number | Timestamp | Duration) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case Timestamp():
            return times.text_of_timestamp(value)
        case Duration():
            return times.text_of_duration(value)
        case _:
            return numbers.text_of_number(value)


def _int(value: str | numbers.Number | Timestamp) -> Value:
    if isinstance(value, Timestamp):
        return times.seconds_of(value)
    return numbers.integer_of(value) if isinstance(value, str) else numbers.whole_part(value)


def _double(value: str | numbers.Number) -> Value:
    return numbers.number_of(value) if isinstance(value, str) else numbers.exact(value)


_CALLS: Final[dict[str, Callable[..., Value]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": str.__contains__,
    "matches": matches,
    "cidr": is_within,
    "size": _size,
    "lower": str.lower,
    "upper": str.upper,
    "timestamp": _timestamp,
    "duration": _duration,
    "string": _string,
    "int": _int,
    "double": _double,
    "+": _plus,
    "-": _minus,
    "*": numbers.multiply,
    "/": numbers.divide,
    "%": numbers.remainder,
    "neg": _negative,
}
