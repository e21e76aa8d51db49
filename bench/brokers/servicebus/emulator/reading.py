"""AMQP 1.0 encodings, read: whole values, or only where they end (part 1.6 of the specification)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

from bench.brokers.servicebus.emulator.values import (
    Array,
    Described,
    Int,
    Malformed,
    Symbol,
    Timestamp,
    Uint,
    Ulong,
    Value,
)

WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
"""Bytes after the constructor, by its first digit."""
SIZED = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
"""Bytes of the size that comes after the constructor, by its first digit."""


def skip(data: bytes, at: int) -> int:
    """Where the value at `at` ends."""
    try:
        code = data[at]
        if code == 0:
            return skip(data, skip(data, at + 1))
        kind = code >> 4
        if kind in WIDTHS:
            return at + 1 + WIDTHS[kind]
        width = SIZED[kind]
        return at + 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "big")
    except (IndexError, KeyError):
        raise Malformed(f"no AMQP value at byte {at} of {len(data)}") from None


def read(data: bytes, at: int = 0) -> tuple[Value, int]:
    """The value at `at`, and where it ends."""
    end = skip(data, at)
    if end > len(data):
        raise Malformed(f"the AMQP value at byte {at} is longer than the {len(data)} bytes there are")
    code = data[at]
    if code == 0:
        descriptor, inner = read(data, at + 1)
        value, end = read(data, inner)
        return Described((descriptor, value)), end
    return _known(data, at + 1, end, code), end


def items(data: bytes, at: int) -> tuple[int, int, int]:
    """Of the list or map at `at`: how many items, where the first is, and where all end."""
    code = data[at]
    if code == 0x45:
        return 0, at + 1, at + 1
    if code not in (0xC0, 0xC1, 0xD0, 0xD1):
        raise Malformed(f"no list or map at byte {at}")
    width = SIZED[code >> 4]
    start = at + 1 + 2 * width
    return int.from_bytes(data[at + 1 + width : start], "big"), start, skip(data, at)


def pairs(data: bytes, at: int) -> list[tuple[bytes, bytes]]:
    """Keys and values of the map at `at`, each in the bytes that it came in."""
    count, start, _ = items(data, at)
    found = []
    for _ in range(count // 2):
        middle = skip(data, start)
        end = skip(data, middle)
        found.append((data[start:middle], data[middle:end]))
        start = end
    return found


def _known(data: bytes, start: int, end: int, code: int) -> Value:
    try:
        return READERS[code](data[start:end])
    except KeyError:
        raise Malformed(f"the AMQP constructor {code:#04x} is not known here") from None
    except (struct.error, UnicodeDecodeError, TypeError) as error:
        raise Malformed(f"the AMQP value of constructor {code:#04x} is broken: {error}") from error


def _several(raw: bytes, width: int) -> list[Value]:
    """`raw` begins with the count; the constructors come with the items."""
    count, at = int.from_bytes(raw[:width], "big"), width
    found: list[Value] = []
    for _ in range(count):
        value, at = read(raw, at)
        found.append(value)
    return found


def _list(width: int) -> Callable[[bytes], Value]:
    return lambda raw: _several(raw[width:], width)


def _map(width: int) -> Callable[[bytes], Value]:
    def of(raw: bytes) -> Value:
        flat = _several(raw[width:], width)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    return of


def _array(width: int) -> Callable[[bytes], Value]:
    """One constructor for all: it is put before each, so that `read` can read them."""

    def of(raw: bytes) -> Value:
        count = int.from_bytes(raw[width : 2 * width], "big")
        constructor, rest = raw[2 * width : 2 * width + 1], raw[2 * width + 1 :]
        found: list[Value] = []
        for _ in range(count):
            value, end = read(constructor + rest)
            found.append(value)
            rest = rest[end - 1 :]
        return Array(found)

    return of


def _number(form: str, of: type[int] = int) -> Callable[[bytes], Value]:
    unpack = struct.Struct(form).unpack
    return lambda raw: of(unpack(raw)[0])


def _float(form: str) -> Callable[[bytes], Value]:
    unpack = struct.Struct(form).unpack
    return lambda raw: float(unpack(raw)[0])


READERS: dict[int, Callable[[bytes], Value]] = {
    0x40: lambda _: None,
    0x41: lambda _: True,
    0x42: lambda _: False,
    0x56: lambda raw: raw != b"\0",
    0x43: lambda _: Uint(0),
    0x44: lambda _: Ulong(0),
    0x45: lambda _: [],
    0x50: _number("!B"),
    0x51: _number("!b"),
    0x52: _number("!B", Uint),
    0x53: _number("!B", Ulong),
    0x54: _number("!b", Int),
    0x55: _number("!b"),
    0x60: _number("!H"),
    0x61: _number("!h"),
    0x70: _number("!I", Uint),
    0x71: _number("!i", Int),
    0x72: _float("!f"),
    0x80: _number("!Q", Ulong),
    0x81: _number("!q"),
    0x82: _float("!d"),
    0x83: _number("!q", Timestamp),
    0x98: lambda raw: UUID(bytes=raw),
    0xA0: lambda raw: raw[1:],
    0xB0: lambda raw: raw[4:],
    0xA1: lambda raw: raw[1:].decode(),
    0xB1: lambda raw: raw[4:].decode(),
    0xA3: lambda raw: Symbol(raw[1:].decode("ascii")),
    0xB3: lambda raw: Symbol(raw[4:].decode("ascii")),
    0xC0: _list(1),
    0xD0: _list(4),
    0xC1: _map(1),
    0xD1: _map(4),
    0xE0: _array(1),
    0xF0: _array(4),
}
