"""What is lent stays ours while it is renewed, comes again once it is not, and is never settled by a dead handle."""

from __future__ import annotations

from collections.abc import Callable

from bridge.core.model import UNORDERED, Lent
from bridge.ports import Lends
from tests.contract.connectors.driving import MOST, Life
from tests.contract.connectors.promises import Broker, bodies, needs, numbered

Begin = Callable[[], Life]


def needs_leases(broker: Broker) -> None:
    needs(broker.features.leases, "nothing is lent for a time")


async def test_a_producer_lends_as_its_features_say(broker: Broker) -> None:
    producer = broker.producer()
    assert isinstance(producer, Lends) == broker.features.leases
    if isinstance(producer, Lends):
        assert producer.lease > 0
    await producer.aclose()


async def test_payloads_are_lent_by_a_key_that_is_the_same_in_every_delivery(broker: Broker, live: Begin) -> None:
    needs_leases(broker)
    await broker.send(numbered(3))
    life = live()
    first = await life.until(*numbered(3))
    assert all(isinstance(event.payload, Lent) for event in first)
    assert len({event.payload.key for event in first}) == 3
    await life.close()
    second = await live().until(*numbered(3))
    assert {e.body: e.payload.key for e in second} == {e.body: e.payload.key for e in first}


async def test_what_is_renewed_can_still_be_settled(broker: Broker, live: Begin) -> None:
    needs_leases(broker)
    await broker.send(numbered(3))
    life = live()
    found = await life.until(*numbered(3))
    assert await life.renew(found) == []
    await life.settle(found)
    await life.close()
    assert sorted(await broker.settled()) == numbered(3)


async def test_renewing_what_is_settled_does_no_harm(broker: Broker, live: Begin) -> None:
    needs_leases(broker)
    await broker.send(numbered(2))
    life = live()
    found = await life.until(*numbered(2))
    await life.settle(found)
    await life.renew(found)
    await life.close()
    assert sorted(await broker.settled()) == numbered(2)


async def test_what_ran_out_comes_again_with_another_handle(broker: Broker, live: Begin) -> None:
    needs_leases(broker)
    await broker.send([b"m"])
    life = live()
    (first,) = await life.until(b"m")
    handle = first.payload.handle
    await broker.expire()
    (again,) = await life.until(b"m")
    assert again.payload is not first.payload
    assert (again.payload.key, again.identity) == (first.payload.key, first.identity)
    if again.lane is UNORDERED:
        assert again.payload.handle != handle
    await life.settle([again])
    await life.close()
    assert await broker.settled() == [b"m"]


async def test_a_newer_handle_settles_the_first_delivery(broker: Broker, live: Begin) -> None:
    """As the core does it: a second delivery of what is held brings its handle, and is gone."""
    needs_leases(broker)
    needs(not broker.features.takes_lanes, "the lane is another one by then")
    await broker.send([b"m"])
    life = live()
    (first,) = await life.until(b"m")
    await broker.expire()
    (again,) = await life.until(b"m")
    first.payload.handle, first.payload.deliveries = again.payload.handle, again.payload.deliveries
    assert await life.unsettled([first]) == []
    await life.close()
    assert await broker.settled() == [b"m"]


async def test_nothing_more_comes_while_nothing_is_asked_for(broker: Broker, live: Begin) -> None:
    needs_leases(broker)
    life = live()
    await broker.send([b"before"])
    found = await life.until(b"before")
    life.ask(0)
    await life.settle(found)
    while not await life.is_silent(1.0):  # what was on its way still comes
        found += await life.poll()
    await broker.send(numbered(3))
    found = []
    while not await life.is_silent(1.5):
        found += await life.poll()
    assert len(found) <= 3  # of receives that were under way
    life.ask(MOST)
    left = set(numbered(3)) - set(bodies(found))
    await life.until(*left)


async def test_at_the_end_what_was_received_and_never_delivered_is_given_back(broker: Broker, live: Begin) -> None:
    needs_leases(broker)
    await broker.send(numbered(50))
    life = live()
    first = await life.poll()
    await life.give_back(first)
    await life.close()
    again = await live().until(*numbered(50))
    assert sorted(bodies(again)) == sorted(numbered(50))
