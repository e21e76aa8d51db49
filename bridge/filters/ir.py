"""The typed form of a filter: what every surface lowers to, and all that the index knows of it.

Meaning, whatever the surface:

- a field that is missing or null equals nothing; neither does a list, an object, or a field of what is not an object;
- text equals text by code point, true and false equal themselves alone, never 1 and 0, and never a text;
- numbers compare by value: 1 equals 1.0, integers are exact at any size, numbers with a fraction or an exponent are
  the doubles that they denote.
"""

from __future__ import annotations

from typing import TypeGuard

from msgspec import Struct

Scalar = str | int | float | bool

Path = tuple[str, ...]


class AnyOf(Struct, frozen=True):
    """The field at `path` equals one of `values` (at least one, no two of them equal)."""

    path: Path
    values: tuple[Scalar, ...]


class AllOf(Struct, frozen=True):
    """Every part holds. Without parts: true of everything."""

    parts: tuple[AnyOf, ...]


TypedScalar = tuple[bool, Scalar]


def typed(value: Scalar) -> TypedScalar:
    """A key under which equal means equal: Python alone holds that True == 1 == 1.0."""
    return (value is True or value is False, value)


def is_confusable(value: Scalar) -> bool:
    """Whether Python's own equality and hash may take it for a scalar of another type."""
    return value in (0, 1)


def is_scalar(value: object) -> TypeGuard[Scalar]:
    return isinstance(value, (str, int, float))
