"""Two readers share the lanes of one source, and lanes go from one to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bridge.core.errors import OwnershipLost
from bridge.core.model import AdvanceBatch
from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import ACKED, PATIENCE, Broker, Event, bodies, needs, numbered

Begin = Callable[[], Life]


async def read_until(wanted: set[bytes], *lives: Life) -> list[list[Event]]:
    """What each of them gets until all of these bodies have come to some of them."""
    left = set(wanted)
    got: list[list[Event]] = [[] for _ in lives]
    done = asyncio.Event()

    async def read(life: Life, mine: list[Event]) -> None:
        while True:
            found = await life.poll()
            mine += found
            left.difference_update(bodies(found))
            if not left:
                done.set()

    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(read(life, mine)) for life, mine in zip(lives, got, strict=True)
    ]
    waiting: asyncio.Task[Any] = asyncio.create_task(done.wait())
    try:
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({waiting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in (waiting, *tasks):
            task.cancel()
        await asyncio.wait({waiting, *tasks})
    return got


async def filled(broker: Broker) -> set[bytes]:
    """Ten messages a lane."""
    lanes = range(broker.features.lanes)
    for lane in lanes:
        await broker.send(numbered(10, f"lane{lane}"), lane)
    return {body for lane in lanes for body in numbered(10, f"lane{lane}")}


def by_lane(events: list[Event]) -> dict[Any, list[Event]]:
    lanes: dict[Any, list[Event]] = {}
    for event in events:
        lanes.setdefault(event.lane, []).append(event)
    return lanes


async def test_what_is_resolved_when_a_lane_goes_is_settled_and_the_rest_comes_to_who_has_it_then(
    broker: Broker, live: Begin
) -> None:
    needs(broker.features.rebalances, "a lane that somebody holds never changes hands")
    sent = await filled(broker)
    one = live()
    lanes = by_lane(await one.until(*sent))
    for lane, events in lanes.items():
        one.resolved.append((lane, AdvanceBatch([(ACKED, [event.payload for event in events[:4]])], 4)))
    before = dict(one.epochs)
    resolved = {event.body for events in lanes.values() for event in events[:4]}
    two = live()
    first, second = await read_until(sent - resolved, one, two)
    assert not resolved & {*bodies(first), *bodies(second)}
    assert one.resolved == []
    assert set(one.epochs) & set(two.epochs) == set()
    assert set(one.epochs) | set(two.epochs) == set(lanes)
    assert two.epochs
    assert all(epoch != before[lane] for lane, epoch in one.epochs.items())


async def test_an_advance_for_a_lane_that_is_gone_settles_nothing_and_sets_nothing_back(
    broker: Broker, live: Begin
) -> None:
    needs(broker.features.rebalances, "a lane that somebody holds never changes hands")
    sent = await filled(broker)
    one = live()
    lanes = by_lane(await one.until(*sent))
    two = live()
    _, second = await read_until(sent, one, two)
    moved = set(two.epochs)
    mine = [event for event in second if event.lane in moved]
    await two.settle([event for event in mine if not event.body.endswith(b"-9")])
    with suppress(OwnershipLost):
        await one.settle([event for lane in moved for event in lanes[lane][:4]])
    with suppress(OwnershipLost):
        await one.settle([event for lane in moved for event in lanes[lane]])
    await one.close()
    await two.close()
    settled = await broker.settled()
    assert sorted(settled) == sorted(body for body in bodies(mine) if not body.endswith(b"-9"))


async def test_who_stays_gets_what_another_has_left_unsettled(broker: Broker, live: Begin) -> None:
    needs(broker.features.rebalances, "a lane that somebody holds never changes hands")
    sent = await filled(broker)
    one = live()
    await one.until(*sent)
    two = live()
    _, second = await read_until(sent, one, two)
    mine = by_lane([event for event in second if event.lane in two.epochs])
    done = {event.body for events in mine.values() for event in events[:5]}
    await two.settle([event for events in mine.values() for event in events[:5]])
    await two.close()
    (rest,) = await read_until({event.body for events in mine.values() for event in events[5:]}, one)
    assert not done & set(bodies(rest))
    assert len(one.epochs) == broker.features.lanes
