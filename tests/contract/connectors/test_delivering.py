"""What comes out of a producer: every message once, whole, in order, and cut by lane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from bridge.core.model import UNORDERED, Tombstone
from bridge.ports import Pauses, Releases, TakesLanes
from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import Broker, bodies, like, needs, numbered

Begin = Callable[[], Life]


async def test_it_is_what_its_features_say(broker: Broker) -> None:
    producer, features = broker.producer(), broker.features
    assert isinstance(producer, Pauses) == features.pauses
    assert isinstance(producer, Releases) == features.releases
    assert isinstance(producer, TakesLanes) == features.takes_lanes
    await producer.aclose()


async def test_what_was_sent_comes_out_once_and_in_order(broker: Broker, live: Begin) -> None:
    sent = numbered(50)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    assert like(broker, bodies(found), sent)
    await broker.send([b"end"])
    assert bodies(await life.until(b"end")) == [b"end"]


async def test_lanes_come_each_in_its_own_order(broker: Broker, live: Begin) -> None:
    lanes = {lane: numbered(30, f"lane{lane}") for lane in range(broker.features.lanes)}
    for lane, sent in lanes.items():
        await broker.send(sent, lane)
    found = await live().until(*[body for sent in lanes.values() for body in sent])
    by_lane = defaultdict(list)
    for event in found:
        by_lane[event.lane].append(event.body)
    for sent in lanes.values():
        (mine,) = [got for got in by_lane.values() if sent[0] in got]
        assert like(broker, mine, sent)
    assert len(by_lane) == len(lanes)
    assert (UNORDERED in by_lane) != broker.features.ordered


async def test_what_is_sent_while_it_reads_comes_too(broker: Broker, live: Begin) -> None:
    life = live()
    life.begin()
    for n in range(5):
        await broker.send([b"%d" % n], n % broker.features.lanes)
        assert bodies(await life.until(b"%d" % n)) == [b"%d" % n]


async def test_slices_cut_a_poll_without_gaps_and_each_is_of_one_lane(broker: Broker, live: Begin) -> None:
    for lane in range(broker.features.lanes):
        await broker.send(numbered(20, f"lane{lane}"), lane)
    life, left = live(), 20 * broker.features.lanes
    while left > 0:
        poll = await life.raw_poll()
        assert len(poll.bodies) == len(poll.payloads) > 0
        assert [piece.start for piece in poll.slices] == [0, *(piece.stop for piece in poll.slices[:-1])]
        assert poll.slices[-1].stop == len(poll.bodies)
        assert all(piece.start < piece.stop for piece in poll.slices)
        assert len({piece.lane for piece in poll.slices}) == len(poll.slices)
        left -= len(poll.bodies)


async def test_the_slices_of_a_lane_carry_its_current_epoch(broker: Broker, live: Begin) -> None:
    needs(broker.features.takes_lanes, "its lanes never change hands")
    for lane in range(broker.features.lanes):
        await broker.send([b"%d" % lane], lane)
    life = live()
    for event in await life.until(*[b"%d" % lane for lane in range(broker.features.lanes)]):
        assert event.epoch == life.epochs[event.lane]
    assert life.stale == 0


async def test_a_poll_is_not_without_bounds(broker: Broker, live: Begin) -> None:
    sent = numbered(3000)
    for lane in range(broker.features.lanes):
        await broker.send(sent[lane :: broker.features.lanes], lane)
    life, left = live(), set(sent)
    while left:
        events = await life.poll()
        assert len(events) <= 500
        left -= set(bodies(events))
        await life.settle(events)


# Bodies ---------------------------------------------------------------------------------------------------------------


async def test_bodies_are_the_bytes_that_were_sent(broker: Broker, live: Begin) -> None:
    keeps = broker.features.keeps
    tried = [keeps, b"\xff\xfe" * 100, "größe: 5 €".encode(), b"null", b" x ", keeps[::-1]]
    sent = [body for body in tried if set(body) <= set(keeps)]
    await broker.send(sent)
    found = await live().until(*sent)
    assert like(broker, bodies(found), sent)
    assert {type(event.body) for event in found} == {bytes}


async def test_a_body_of_no_byte_is_an_event(broker: Broker, live: Begin) -> None:
    needs(broker.features.has_empty, "an empty body is nothing here")
    await broker.send([b"before", b"", b"behind"])
    found = await live().until(b"before", b"", b"behind")
    assert like(broker, bodies(found), [b"before", b"", b"behind"])
    assert {type(event.body) for event in found} == {bytes}


async def test_a_body_of_the_largest_size_comes_whole(broker: Broker, live: Begin) -> None:
    keeps, largest = broker.features.keeps, broker.features.largest
    body = (keeps * (largest // len(keeps) + 1))[:largest]
    await broker.send([b"before", body, b"behind"])
    life = live()
    found = await life.until(b"before", body, b"behind")
    assert like(broker, bodies(found), [b"before", body, b"behind"])
    await life.settle(found)
    await life.close()
    assert sorted(await broker.settled()) == sorted([b"before", body, b"behind"])


async def test_a_tombstone_is_told_from_null_and_from_empty(broker: Broker, live: Begin) -> None:
    needs(broker.features.tombstones, "every message has a body")
    await broker.send([None, b"null", b"", b"x"], key=b"k")
    life = live()
    found = await life.until(b"x")
    assert bodies(found) == [b"null", b"null", b"", b"x"]
    metas = [life.producer.describe(event.payload) for event in found]
    assert [meta.tombstone for meta in metas] == [True, False, False, False]
    assert [type(event.body) is Tombstone for event in found] == [True, False, False, False]
    await life.settle(found)
