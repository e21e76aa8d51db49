"""Exact arithmetic: ints stay ints, and with a Decimal it is computed in decimal, as it would be on paper.

A double is the number that it is, to the last binary digit. What would take more than 4,300 digits, before or behind
the point, is a Fail; so is a division by zero. A quotient that doesn't end has 28 digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow, Subnormal, Underflow
from typing import Final, TypeAlias

from bridge.language.values import Fail

Number: TypeAlias = int | Decimal | float

MOST_DIGITS: Final = 4_300
"""Digits of a number, as in `bridge.decode.json`."""

_TOO_LONG: Final = Fail(f"gives a number of more than {MOST_DIGITS:,} digits")
_BY_ZERO: Final = Fail("division by zero")
_NOT_FINITE: Final = Fail("computes with a number that is not finite")
_BEYOND: Final = 10**MOST_DIGITS
_ERRORS: Final = [InvalidOperation, DivisionByZero, Overflow, Underflow, Subnormal]
_EXACTLY: Final = Context(prec=MOST_DIGITS, Emax=MOST_DIGITS - 1, Emin=-MOST_DIGITS, traps=[*_ERRORS, Inexact])
_ROUNDED: Final = Context(prec=28, Emax=MOST_DIGITS - 1, Emin=-MOST_DIGITS, traps=_ERRORS)
_INTEGER: Final = re.compile(r"-?[0-9]+")
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,9})?")


def add(left: Number, right: Number) -> int | Decimal | Fail:
    if isinstance(left, int) and isinstance(right, int):
        return _bounded(left + right)
    return _in_decimal(_EXACTLY.add, left, right)


def subtract(left: Number, right: Number) -> int | Decimal | Fail:
    if isinstance(left, int) and isinstance(right, int):
        return _bounded(left - right)
    return _in_decimal(_EXACTLY.subtract, left, right)


def multiply(left: Number, right: Number) -> int | Decimal | Fail:
    if isinstance(left, int) and isinstance(right, int):
        return _bounded(left * right)
    return _in_decimal(_EXACTLY.multiply, left, right)


def divide(left: Number, right: Number) -> int | Decimal | Fail:
    """Of two ints the whole part: `-7 / 2` is -3, as in CEL."""
    if right == 0:
        return _BY_ZERO
    if isinstance(left, int) and isinstance(right, int):
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return _in_decimal(_ROUNDED.divide, left, right)


def remainder(left: Number, right: Number) -> int | Decimal | Fail:
    """What `divide` leaves of the whole part; has the sign of `left`."""
    if right == 0:
        return _BY_ZERO
    if isinstance(left, int) and isinstance(right, int):
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    return _in_decimal(_EXACTLY.remainder, left, right)


def negative(number: Number) -> Number:
    return number.copy_negate() if isinstance(number, Decimal) else -number  # `-` would round a Decimal to 28 digits


def whole_part(number: Number) -> int | Fail:
    """Without its fraction, toward zero."""
    if isinstance(number, int):
        return number
    decimal = exact(number)
    if isinstance(decimal, Fail):
        return decimal
    return int(decimal) if decimal.adjusted() < MOST_DIGITS else _TOO_LONG


def exact(number: Number) -> Decimal | Fail:
    """The same number as a Decimal."""
    decimal = number if isinstance(number, Decimal) else Decimal(number)
    return decimal if decimal.is_finite() else _NOT_FINITE


def integer_of(text: str) -> int | Fail:
    """`-12` and `007`; nothing around it."""
    if _INTEGER.fullmatch(text) is None:
        return Fail("the text is no whole number")
    return int(text) if len(text.removeprefix("-")) <= MOST_DIGITS else _TOO_LONG


def number_of(text: str) -> Decimal | Fail:
    """A number as JSON writes it."""
    if _JSON_NUMBER.fullmatch(text) is None:
        return Fail("the text is no number")
    return Decimal(text) if len(text) <= MOST_DIGITS else _TOO_LONG


def text_of_number(number: Number) -> str:
    """The digits that it was written with; an exponent only where it is far from the point."""
    if isinstance(number, Decimal) and number.is_finite() and -40 < number.adjusted() < 0:
        return f"{number:f}"
    return str(number)


def _bounded(number: int) -> int | Fail:
    return number if -_BEYOND < number < _BEYOND else _TOO_LONG


def _in_decimal(operation: Callable[[Decimal, Decimal], Decimal], left: Number, right: Number) -> Decimal | Fail:
    first, second = exact(left), exact(right)
    if isinstance(first, Fail) or isinstance(second, Fail):
        return _NOT_FINITE
    try:
        return operation(_EXACTLY.plus(first), _EXACTLY.plus(second))
    except ArithmeticError:
        return _TOO_LONG
