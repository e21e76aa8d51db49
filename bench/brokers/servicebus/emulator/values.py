"""AMQP's types that Python has no own word for. What is missing here stays a plain Python value."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID


class Symbol(str):
    __slots__ = ()


class Uint(int):
    __slots__ = ()


class Ulong(int):
    __slots__ = ()


class Int(int):
    """32 bits; a plain int is written as a long."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970, UTC."""

    __slots__ = ()


class Array(tuple["Value", ...]):
    """Of one type, which is that of its first element; it must not be empty when it is written."""

    __slots__ = ()


class Described(tuple["Value", "Value"]):
    """(descriptor, value)"""

    __slots__ = ()


Value: TypeAlias = (
    "bool | int | float | str | bytes | UUID | list[Value] | dict[Value, Value] | Array | Described | None"
)


class Malformed(ValueError):
    """These bytes are not AMQP. The text says where."""
