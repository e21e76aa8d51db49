"""Many messages, settled at random, with failures and restarts in between: each is seen, and none is lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import FAILED, Broker, Event, numbered

Begin = Callable[[], Life]


class Bookkeeping:
    """What came and what became of it, over all lives."""

    def __init__(self, broker: Broker) -> None:
        self.is_ordered = broker.features.ordered
        self.identities: dict[bytes, str] = {}
        self.settled: set[bytes] = set()
        self.pending: dict[Any, list[Event]] = defaultdict(list)

    def came(self, events: Iterable[Event]) -> None:
        for event in events:
            assert event.body not in self.settled, f"{event.body!r} came again after it was settled"
            assert self.identities.setdefault(event.body, event.identity) == event.identity
            mine = self.pending[event.lane]
            if self.is_ordered and mine:
                assert _number(event) == _number(mine[-1]) + 1, f"{event.body!r} came behind {mine[-1].body!r}"
            mine.append(event)

    def prefix(self, lane: Any, count: int) -> list[Event]:
        """The next so many of a lane, which are to be settled."""
        mine = self.pending[lane]
        chosen, self.pending[lane] = mine[:count], mine[count:]
        self.settled |= {event.body for event in chosen}
        return chosen

    def failing(self, lane: Any) -> Event:
        """The next of a lane, which fails; what lies behind it is dropped where there is an order."""
        first, *behind = self.pending[lane]
        self.pending[lane] = [] if self.is_ordered else behind
        return first


def _number(event: Event) -> int:
    return int(event.body.rpartition(b"-")[2])


@pytest.mark.parametrize("seed", [1, 2])
async def test_each_of_two_thousand_messages_is_seen_and_none_is_lost(broker: Broker, live: Begin, seed: int) -> None:
    roll, books, lanes = Random(seed), Bookkeeping(broker), broker.features.lanes  # no secret
    sent: set[bytes] = set()
    for lane in range(lanes):
        mine = numbered(2000 // lanes, f"lane{lane}")
        sent |= set(mine)
        await broker.send(mine, lane)
    life, restarts, failures = live(), 0, 0
    while len(books.settled) < len(sent):
        if len(books.settled) + sum(map(len, books.pending.values())) < len(sent):
            books.came(await life.poll())
        held = [lane for lane, events in books.pending.items() if events]
        if broker.features.redelivers and failures < 2 and held and roll.random() < 0.2:
            failures += 1
            await life.settle([books.failing(roll.choice(held))], FAILED)
        for lane in held:
            chosen = books.prefix(lane, roll.randint(0, len(books.pending[lane])))
            if chosen:
                await life.settle(chosen)
        if restarts < 3 and len(books.settled) > (restarts + 1) * len(sent) / 4:
            restarts += 1
            await life.close()
            books.pending.clear()
            life = live()
    assert (restarts, set(books.identities)) == (3, sent)
    assert len(set(books.identities.values())) == len(sent)
    await life.close()
    assert sorted(await broker.settled()) == sorted(sent)
