"""A broker in memory: it keeps the promises of a real one, as far as anything but a real one can."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

from bridge.core.model import AdvanceItem, AdvanceOutcome, Meta, Poll, Slice
from bridge.shared_stream import UNORDERED, SharedStreamProducer


class Position(NamedTuple):
    """The payload of a message in memory."""

    lane: Hashable
    offset: int


class MemoryBroker:
    """Messages by lane, and what was settled: it outlives its producers, as a broker does.

    A producer begins each lane at the first message that was never settled, so what a crash left behind comes again.
    """

    def __init__(self) -> None:
        self.lanes: dict[Hashable, list[bytes]] = {}
        self.settled: dict[Position, AdvanceOutcome] = {}
        self.settlements = 0
        self._arrived = asyncio.Event()

    def send(self, bodies: Iterable[bytes], lane: Hashable = "lane") -> None:
        self.lanes.setdefault(lane, []).extend(bodies)
        self._arrived.set()

    def settle(self, payload: Position, outcome: AdvanceOutcome) -> None:
        """Settling once more is harmless, as with a real broker; the count says that it happened."""
        self.settlements += 1
        self.settled[payload] = outcome

    @property
    def is_drained(self) -> bool:
        return all(Position(k, i) in self.settled for k, bodies in self.lanes.items() for i in range(len(bodies)))

    async def arrived(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()


class MemoryProducer(SharedStreamProducer):
    """Reads a MemoryBroker in polls of at most `most` messages a lane."""

    def __init__(self, broker: MemoryBroker, most: int = 100) -> None:
        self.broker = broker
        self.most = most
        self.is_closed = False
        self._next: dict[Hashable, int] = {}

    async def open_batches(self) -> AsyncIterator[Poll]:
        while True:
            poll = self._poll()
            if poll.bodies:
                yield poll
            else:
                await self.broker.arrived()

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        async for poll in self.open_batches():
            for pair in zip(poll.bodies, poll.payloads, strict=True):
                yield pair

    def _poll(self) -> Poll:
        poll = Poll([], [], [])
        for lane, bodies in self.broker.lanes.items():
            first = self._next.setdefault(lane, self._first(lane))
            unsettled = (i for i in range(first, len(bodies)) if Position(lane, i) not in self.broker.settled)
            offsets = list(islice(unsettled, self.most))
            self._next[lane] = offsets[-1] + 1 if offsets else len(bodies)
            if offsets:
                start = len(poll.bodies)
                poll.bodies += [bodies[i] for i in offsets]
                poll.payloads += [Position(lane, i) for i in offsets]
                poll.slices.append(Slice(lane, start, len(poll.bodies)))
        return poll

    def _first(self, lane: Hashable) -> int:
        return next((i for i in range(len(self.broker.lanes[lane])) if Position(lane, i) not in self.broker.settled), 0)

    def get_advance_lane(self, broker_payload: Position) -> Hashable:
        return broker_payload.lane

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for payload, outcome in batch:
            if payload.lane is not UNORDERED and payload.offset:
                before = Position(payload.lane, payload.offset - 1)
                assert before in self.broker.settled, f"{payload} settled before {before}"
            if not outcome.failed:
                self.broker.settle(payload, outcome)

    async def aclose(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True

    def identity(self, broker_payload: Position) -> str:
        return f"{broker_payload.lane}:{broker_payload.offset}"

    def describe(self, broker_payload: Position) -> Meta:
        return Meta(position=f"{broker_payload.lane} at {broker_payload.offset}")
