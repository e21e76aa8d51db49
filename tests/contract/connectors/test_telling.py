"""What a producer tells of a message, for people, filters and dead letters."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import msgspec

from bridge.ports import Meta
from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import Broker, Event, needs, numbered

Begin = Callable[[], Life]


async def test_a_message_is_described_before_and_after_it_is_settled_and_when_all_is_closed(
    broker: Broker, live: Begin
) -> None:
    began = time.time()
    await broker.send(numbered(3), key=b"\xff key")
    life = live()
    found = await life.until(*numbered(3))
    described, identities = _told(life, found), [event.identity for event in found]
    for meta in described:
        assert meta.position
        assert isinstance(meta.lane, str)
        if broker.features.timestamps:
            assert meta.timestamp is not None
            assert began - 5 < meta.timestamp < time.time() + 5
        if broker.features.keys:
            assert meta.key == b"\xff key"
    await life.settle(found)
    assert _told(life, found) == described
    await life.close()
    assert _told(life, found) == described
    assert [life.producer.identity(event.payload) for event in found] == identities


def _told(life: Life, events: Iterable[Event]) -> list[Meta]:
    return [life.producer.describe(event.payload) for event in events]


async def test_it_is_described_alike_when_it_comes_again(broker: Broker, live: Begin) -> None:
    await broker.send(numbered(3), key=b"k")
    first = live()
    described = {event.body: _as_sent(first, event) for event in await first.until(*numbered(3))}
    await first.close()
    second = live()
    again = {event.body: _as_sent(second, event) for event in await second.until(*numbered(3))}
    assert again == described


def _as_sent(life: Life, event: Event) -> Meta:
    """Without what a delivery adds."""
    return msgspec.structs.replace(life.producer.describe(event.payload), delivery_attempt=None)


async def test_headers_come_as_they_were_sent(broker: Broker, live: Begin) -> None:
    needs(broker.features.headers, "messages have no headers")
    headers = [("a", b"1"), ("a", b"2"), ("empty", b""), ("null", None), ("größe", b"\xff\x00")]
    await broker.send([b"with"], headers=headers)
    await broker.send([b"without"])
    life = live()
    told = {event.body: life.producer.describe(event.payload) for event in await life.until(b"with", b"without")}
    assert told[b"with"].headers == tuple(headers)
    assert (told[b"without"].headers, told[b"without"].key) == ((), None)
