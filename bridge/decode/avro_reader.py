"""Avro's binary encoding (specification 1.12), read by functions that are made once from the schema.

fastavro reads as fast, but lets a hostile body have its way: ten bytes can make it build a list of 2^40 nulls, and ten
thousand nested records end the process. Here nothing grows faster than the body that was read, and depth is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Final

from fastavro.types import Schema

from bridge.decode.avro_logical import logical
from bridge.decode.json import DecodeFault
from bridge.decode.text import fault, shortest

Read = Callable[[bytes, int], tuple[object, int]]
"""The value that begins at an offset, and the offset behind it. Raises IndexError and struct.error past the end."""

_LONGEST: Final = 63
_float = struct.Struct("<f").unpack_from
_double = struct.Struct("<d").unpack_from


def reader_of(schema: Schema) -> Read:
    """Of a schema that is complete in itself. Raises ValueError, KeyError or TypeError where it is no schema."""
    return _reader(schema, {})


def value_of(read: Read, body: bytes, start: int) -> object:
    """The one value that `body` holds from `start` to its end. Raises DecodeFault."""
    try:
        value, end = read(body, start)
    except (IndexError, struct.error) as error:
        raise fault("malformed", "Avro: the body ends within a value, or the schema is another one") from error
    except UnicodeDecodeError as error:
        raise fault("encoding", "Avro: a text is not UTF-8, or the schema is another one") from error
    except RecursionError as error:
        raise fault("too_deep", "nested deeper than 100 levels") from error
    if end != len(body):
        raise fault("malformed", f"Avro: {len(body) - end} bytes follow the value, or the schema is another one")
    return value


def _reader(node: Schema, named: dict[str, Read]) -> Read:
    if isinstance(node, list):
        return _union([_reader(branch, named) for branch in node])
    if isinstance(node, str):
        return _PRIMITIVES.get(node) or (lambda body, at: named[node](body, at))  # by then it is there
    made = _plain(node, named)
    kind = node["type"]
    convert = logical(node)
    read = made if convert is None else _converted(made, convert)
    if kind in ("record", "enum", "fixed"):
        named[node["name"]] = read
    return read


def _plain(node: dict[str, object], named: dict[str, Read]) -> Read:
    match node:
        case {"type": "record", "fields": list(fields)}:
            return _record([(field["name"], _reader(field["type"], named)) for field in fields])
        case {"type": "enum", "symbols": list(symbols)}:
            return _enum(symbols)
        case {"type": "fixed", "size": int(size)} if size >= 0:
            return _fixed(size)
        case {"type": "array", "items": (str() | list() | dict()) as items}:
            return _array(_reader(items, named))
        case {"type": "map", "values": (str() | list() | dict()) as values}:
            return _map(_reader(values, named))
        case {"type": str(kind)} if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        case _:
            raise ValueError(f"a {node.get('type')!s} lacks something, or has it in a wrong form")


def _converted(read: Read, convert: Callable[[object], object]) -> Read:
    def converted(body: bytes, at: int) -> tuple[object, int]:
        value, at = read(body, at)
        return convert(value), at

    return converted


# Primitives -----------------------------------------------------------------------------------------------------------


def _long(body: bytes, at: int) -> tuple[int, int]:
    byte = body[at]
    at += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at
    n = byte & 127
    shift = 7
    while True:
        byte = body[at]
        at += 1
        n |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _LONGEST:
            raise _malformed("an integer is longer than 64 bits")
    if n >> 64:
        raise _malformed("an integer is longer than 64 bits")
    return (n >> 1) ^ -(n & 1), at


def _end(body: bytes, at: int) -> tuple[int, int]:
    """Where the bytes that begin at `at` with their length start, and end."""
    length, at = _long(body, at)
    if length < 0:
        raise _malformed("a length is negative")
    end = at + length
    if end > len(body):
        raise IndexError
    return at, end


def _string(body: bytes, at: int) -> tuple[str, int]:
    at, end = _end(body, at)
    return str(body[at:end], "utf-8"), end


def _bytes(body: bytes, at: int) -> tuple[bytes, int]:
    at, end = _end(body, at)
    return body[at:end], end


def _null(_body: bytes, at: int) -> tuple[None, int]:
    return None, at


def _boolean(body: bytes, at: int) -> tuple[bool, int]:
    byte = body[at]
    if byte > 1:
        raise _malformed("a boolean is neither 0 nor 1")
    return byte == 1, at + 1


def _single(body: bytes, at: int) -> tuple[float, int]:
    value = _float(body, at)[0]
    return shortest(_real(value)), at + 4


def _long_float(body: bytes, at: int) -> tuple[float, int]:
    return _real(_double(body, at)[0]), at + 8


def _real(value: float) -> float:
    if not isfinite(value):
        raise fault("number", "a number is NaN or infinite, which JSON has not")
    return value


_PRIMITIVES: Final[dict[str, Read]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "float": _single,
    "double": _long_float,
    "bytes": _bytes,
    "string": _string,
}


# The rest -------------------------------------------------------------------------------------------------------------


def _record(fields: Sequence[tuple[str, Read]]) -> Read:
    def record(body: bytes, at: int) -> tuple[object, int]:
        value: dict[str, object] = {}
        for name, read in fields:
            value[name], at = read(body, at)
        return value, at

    return record


def _enum(symbols: Sequence[str]) -> Read:
    def enum(body: bytes, at: int) -> tuple[object, int]:
        n, at = _long(body, at)
        if not 0 <= n < len(symbols):
            raise _malformed("an enum has a symbol that the schema has not")
        return symbols[n], at

    return enum


def _fixed(size: int) -> Read:
    def fixed(body: bytes, at: int) -> tuple[object, int]:
        end = at + size
        if end > len(body):
            raise IndexError
        return body[at:end], end

    return fixed


def _union(branches: Sequence[Read]) -> Read:
    def union(body: bytes, at: int) -> tuple[object, int]:
        n, at = _long(body, at)
        if not 0 <= n < len(branches):
            raise _malformed("a union has a branch that the schema has not")
        return branches[n](body, at)

    return union


def _array(read: Read) -> Read:
    def array(body: bytes, at: int) -> tuple[object, int]:
        values: list[object] = []
        while True:
            count, at = _count(body, at)
            if not count:
                return values, at
            before = at
            value, at = read(body, at)
            if at == before:  # nothing would bound their number
                raise _malformed("a list has items that take no bytes, which are not read")
            values.append(value)
            for _ in range(count - 1):
                value, at = read(body, at)
                values.append(value)

    return array


def _map(read: Read) -> Read:
    def mapping(body: bytes, at: int) -> tuple[object, int]:
        values: dict[str, object] = {}
        while True:
            count, at = _count(body, at)
            if not count:
                return values, at
            for _ in range(count):
                key, at = _string(body, at)
                values[key], at = read(body, at)

    return mapping


def _count(body: bytes, at: int) -> tuple[int, int]:
    """How many items a block of a list or map has. A negative count is followed by the size of the block."""
    count, at = _long(body, at)
    if count >= 0:
        return count, at
    _, at = _long(body, at)
    return -count, at


def _malformed(words: str) -> DecodeFault:
    return fault("malformed", f"Avro: {words}, or the schema is another one")
