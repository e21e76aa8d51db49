"""AMQP 1.0 encodings, written: only the wide ones, which every client reads."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from uuid import UUID

from bench.brokers.servicebus.emulator.values import Array, Described, Int, Symbol, Timestamp, Uint, Ulong, Value

_SIGNED = struct.Struct("!q")
_UNSIGNED = struct.Struct("!Q")
_SHORT = struct.Struct("!i")
_COUNT = struct.Struct("!I")
_DOUBLE = struct.Struct("!d")

NULL = b"\x40"


def write(value: Value) -> bytes:
    constructor, raw = _parts(value)
    return constructor + raw


def write_map(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Of keys and values that are written already."""
    flat = [part for pair in pairs for part in pair]
    raw = b"".join(flat)
    return b"\xd1" + _COUNT.pack(len(raw) + 4) + _COUNT.pack(len(flat)) + raw


def write_list(items: list[bytes]) -> bytes:
    """Of items that are written already."""
    raw = b"".join(items)
    return b"\xd0" + _COUNT.pack(len(raw) + 4) + _COUNT.pack(len(items)) + raw


def section(code: int, value: bytes) -> bytes:
    return bytes((0, 0x53, code)) + value


def _parts(value: Value) -> tuple[bytes, bytes]:
    """The constructor, and what comes after it."""
    writer = WRITERS.get(type(value))
    if writer is None:
        raise TypeError(f"a {type(value).__name__} has no AMQP encoding here")
    return writer(value)


def _array(value: Array) -> tuple[bytes, bytes]:
    parts = [_parts(item) for item in value]
    (constructor,) = {constructor for constructor, _ in parts}
    raw = constructor + b"".join(raw for _, raw in parts)
    return b"\xf0", _COUNT.pack(len(raw) + 4) + _COUNT.pack(len(parts)) + raw


def _described(value: Described) -> tuple[bytes, bytes]:
    return b"\0", write(value[0]) + write(value[1])


def _sized(constructor: bytes, raw: bytes) -> tuple[bytes, bytes]:
    return constructor, _COUNT.pack(len(raw)) + raw


def _split(whole: bytes) -> tuple[bytes, bytes]:
    return whole[:1], whole[1:]


WRITERS: dict[type, Callable[..., tuple[bytes, bytes]]] = {
    type(None): lambda _: (NULL, b""),
    bool: lambda value: (b"\x56", b"\1" if value else b"\0"),
    int: lambda value: (b"\x81", _SIGNED.pack(value)),
    Int: lambda value: (b"\x71", _SHORT.pack(value)),
    Uint: lambda value: (b"\x70", _COUNT.pack(value)),
    Ulong: lambda value: (b"\x80", _UNSIGNED.pack(value)),
    Timestamp: lambda value: (b"\x83", _SIGNED.pack(value)),
    float: lambda value: (b"\x82", _DOUBLE.pack(value)),
    UUID: lambda value: (b"\x98", value.bytes),
    bytes: lambda value: _sized(b"\xb0", value),
    str: lambda value: _sized(b"\xb1", value.encode()),
    Symbol: lambda value: _sized(b"\xb3", value.encode("ascii")),
    list: lambda value: _split(write_list([write(item) for item in value])),
    dict: lambda value: _split(write_map([(write(key), write(each)) for key, each in value.items()])),
    Array: _array,
    Described: _described,
}
