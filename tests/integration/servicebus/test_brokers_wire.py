"""How the emulated Service Bus reads and writes AMQP, without any broker."""

from __future__ import annotations

from uuid import UUID

import pytest

from bench.brokers.servicebus.emulator.formats import Formats
from bench.brokers.servicebus.emulator.message import parse, plain
from bench.brokers.servicebus.emulator.reading import read
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
from bench.brokers.servicebus.emulator.writing import write

VALUES: list[Value] = [
    None, True, False, 7, -7, Uint(7), Ulong(2**60), Int(-1), Timestamp(1_700_000_000_000), 1.5, "é", Symbol("s"),
    b"\x00\xff", UUID(int=5), [1, [], "x"], {"a": {"b": b""}}, Array([Timestamp(1), Timestamp(2)]),
    Array([UUID(int=1)]), Described((Ulong(0x75), b"x")),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_written_is_read_as_the_same_with_its_type(value: Value) -> None:
    raw = write(value)
    found, end = read(raw)
    assert (found, type(found), end) == (value, type(value), len(raw))


def test_formats_are_found_wherever_the_stream_is_cut() -> None:
    """One transfer of a batch in two frames, then a plain one, byte by byte."""
    batch, single = Uint(0x80013700), Uint(0)
    frames = b"AMQP\x00\x01\x00\x00" + b"".join(
        _frame(number, format, more)
        for number, format, more in ((1, batch, True), (None, None, False), (2, single, False))
    )
    formats = Formats()
    for at in range(len(frames)):
        formats.feed(frames[at : at + 1])
    assert [formats.next(), formats.next()] == [0x80013700, 0]


def _frame(number: int | None, format: Uint | None, more: bool) -> bytes:
    fields: list[Value] = [Uint(0), None if number is None else Uint(number), b"t", format, False, more]
    body = b"\x00\x53\x14" + write(fields) + b"payload"
    return (len(body) + 8).to_bytes(4, "big") + b"\x02\x00\x00\x00" + body


def test_half_a_message_is_malformed() -> None:
    whole = plain(b"body", "session", {"n": 1})
    assert parse(whole).session == "session"
    with pytest.raises(Malformed):
        parse(whole[:20])
