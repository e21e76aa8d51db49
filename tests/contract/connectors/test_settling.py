"""What a producer settles, and what comes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.core.model import AdvanceBatch, AdvanceItem, Rejection, outcome_of
from bridge.ports import AdvancesLanes
from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import ACKED, FAILED, REJECTED, Broker, bodies, like, needs, numbered

Begin = Callable[[], Life]


async def test_nothing_is_settled_before_advance(broker: Broker, live: Begin) -> None:
    sent = numbered(20)
    await broker.send(sent)
    life = live()
    await life.until(*sent)
    await life.close()
    assert await broker.settled() == []


async def test_what_was_advanced_does_not_come_again_to_the_next_life(broker: Broker, live: Begin) -> None:
    sent = numbered(20)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle(found[:12])
    await life.close()
    assert sorted(await broker.settled()) == sorted(bodies(found[:12]))
    await broker.send([b"end"])
    again = [body for body in bodies(await live().until(*bodies(found[12:]), b"end")) if body != b"end"]
    assert like(broker, again, bodies(found[12:]))


async def test_what_was_not_advanced_comes_again_with_the_same_identity(broker: Broker, live: Begin) -> None:
    sent = numbered(10)
    await broker.send(sent)
    life = live()
    first = {event.body: event.identity for event in await life.until(*sent)}
    await life.close()
    again = {event.body: event.identity for event in await live().until(*sent)}
    assert again == first


async def test_equal_bodies_have_identities_of_their_own(broker: Broker, live: Begin) -> None:
    for lane in range(broker.features.lanes):
        await broker.send([b"same"] * 10, lane)
    life, count = live(), 10 * broker.features.lanes
    found = await life.take(count)
    assert len({event.identity for event in found}) == count
    assert len({life.producer.describe(event.payload).position for event in found}) == count


async def test_advancing_a_batch_twice_is_harmless(broker: Broker, live: Begin) -> None:
    sent = numbered(10)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    for events in (found[:4], found[:4], found[4:8], found[4:8]):
        await life.settle(events)
    await life.close()
    assert sorted(await broker.settled()) == sorted(bodies(found[:8]))


async def test_all_lanes_are_advanced_by_one_call(broker: Broker, live: Begin) -> None:
    needs(isinstance(broker.producer(), AdvancesLanes), "it takes one lane at a time")
    sent = {lane: numbered(6, f"lane{lane}") for lane in range(broker.features.lanes)}
    for lane, mine in sent.items():
        await broker.send(mine, lane)
    life = live()
    found = await life.until(*[body for mine in sent.values() for body in mine])
    wanted = [event for event in found if not event.body.endswith(b"-5")]
    await life.settle(wanted)
    await life.close()
    assert sorted(await broker.settled()) == sorted(bodies(wanted))


async def test_a_batch_may_be_plain_items_of_several_outcomes(broker: Broker, live: Begin) -> None:
    sent = numbered(6)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    outcomes = [ACKED, ACKED, REJECTED, outcome_of(2, 0, 1), ACKED]
    items = [AdvanceItem(event.payload, outcome) for event, outcome in zip(found, outcomes, strict=False)]
    await life.producer.advance(items)
    await life.close()
    assert sorted(await broker.settled()) == sorted(bodies(found[:5]))


async def test_what_was_rejected_is_settled(broker: Broker, live: Begin) -> None:
    sent = numbered(5)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    rejected = type(REJECTED)(0, 0, 1, (Rejection("w", "malformed", 1, "no json"),))
    runs: list[Any] = [(ACKED, [e.payload for e in found[:2]]), (rejected, [e.payload for e in found[2:4]])]
    await life.advance([(found[0].lane, AdvanceBatch(runs, 4))])
    await life.close()
    assert sorted(await broker.settled()) == sorted(bodies(found[:4]))


async def test_any_message_is_settled_by_itself(broker: Broker, live: Begin) -> None:
    needs(not broker.features.cumulative, "only a prefix can be settled")
    sent = numbered(6)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle([found[4], found[1]])
    await life.close()
    assert sorted(await broker.settled()) == sorted([found[1].body, found[4].body])


async def test_a_life_that_settles_nothing_new_unsettles_nothing(broker: Broker, live: Begin) -> None:
    await broker.send(numbered(10))
    life = live()
    found = await life.until(*numbered(10))
    await life.settle(found[:6])
    await life.close()
    idle = live()
    await idle.until(*bodies(found[6:]))
    await idle.close()
    assert sorted(await broker.settled()) == sorted(bodies(found[:6]))


# What failed, and what is given back ----------------------------------------------------------------------------------


async def test_what_failed_comes_again_with_all_that_is_behind_it_in_order(broker: Broker, live: Begin) -> None:
    needs(broker.features.redelivers, "it comes again to the next producer only")
    sent = numbered(10)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle(found[:3])
    await life.settle(found[3:4], FAILED)
    wanted = found[3:] if broker.features.ordered else found[3:4]
    again = await life.until(*bodies(wanted))
    assert bodies(again) == bodies(wanted)
    assert [event.identity for event in again] == [event.identity for event in wanted]
    await life.settle(again)
    await life.settle([event for event in found[4:] if event.body not in bodies(wanted)])
    await life.close()
    assert sorted(await broker.settled()) == sorted(sent)


async def test_after_a_failure_what_was_delivered_before_is_of_an_old_epoch(broker: Broker, live: Begin) -> None:
    needs(broker.features.takes_lanes, "its lanes never change hands")
    sent = numbered(5)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle(found[:1], FAILED)
    again = await life.until(*sent)
    assert again[0].epoch != found[0].epoch
    assert again[0].epoch == life.epochs[again[0].lane]


async def test_settling_what_was_delivered_before_a_failure_changes_nothing(broker: Broker, live: Begin) -> None:
    needs(broker.features.redelivers and broker.features.ordered, "nothing lies behind what failed")
    sent = numbered(6)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle(found[:1], FAILED)
    await life.settle(found[1:])
    await life.close()
    assert await broker.settled() == []
    assert bodies(await live().until(*sent)) == sent


async def test_a_failure_holds_its_own_lane_only(broker: Broker, live: Begin) -> None:
    needs(broker.features.redelivers and broker.features.lanes > 1, "there is no other lane")
    await broker.send(numbered(3, "bad"), 0)
    await broker.send([b"good-0"], 1)
    life = live()
    found = await life.until(*numbered(3, "bad"), b"good-0")
    (bad, *_) = [event for event in found if event.body == b"bad-0"]
    good = [event for event in found if event.body == b"good-0"]
    await life.settle([bad], FAILED)
    await life.settle(good)
    await broker.send([b"good-1"], 1)
    assert b"bad-0" not in bodies(await life.until(b"good-1"))
    assert bodies(await life.until(*numbered(3, "bad"))) == numbered(3, "bad")


async def test_the_broker_counts_how_often_a_message_came(broker: Broker, live: Begin) -> None:
    needs(broker.features.counts_deliveries, "it counts no deliveries")
    await broker.send([b"m"])
    life = live()
    for attempt in (1, 2, 3):
        (event,) = await life.until(b"m")
        assert life.producer.describe(event.payload).delivery_attempt == attempt
        await life.settle([event], FAILED)


async def test_what_is_held_longer_than_its_lease_comes_again(broker: Broker, live: Begin) -> None:
    needs(broker.features.leases, "nothing is lent for a time")
    await broker.send([b"m"])
    life = live()
    first = await life.until(b"m")
    await broker.expire()
    again = await life.until(b"m")
    assert again[0].identity == first[0].identity


async def test_what_is_given_back_comes_again_at_once(broker: Broker, live: Begin) -> None:
    needs(broker.features.releases, "it can give nothing back")
    sent = numbered(8)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle(found[:3])
    await life.give_back(found[3:])
    again = await life.until(*bodies(found[3:]))
    assert like(broker, bodies(again), bodies(found[3:]))
    assert {event.identity for event in again} == {event.identity for event in found[3:]}
    await life.close()
    assert sorted(await broker.settled()) == sorted(bodies(found[:3]))


async def test_what_is_given_back_at_the_end_comes_to_the_next_life(broker: Broker, live: Begin) -> None:
    needs(broker.features.releases, "it can give nothing back")
    sent = numbered(8)
    await broker.send(sent)
    life = live()
    found = await life.until(*sent)
    await life.settle(found[:3])
    await life.give_back(found[3:])
    await life.close()
    assert like(broker, bodies(await live().until(*bodies(found[3:]))), bodies(found[3:]))
