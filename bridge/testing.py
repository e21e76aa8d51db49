"""Fakes that ship: a broker in memory, and a wrapper that dies at a chosen call.

They keep the promises of the ports that they stand for (the contract suites in `tests/contract/` run on them), so what
was tested with them holds for the real ones, as far as anything but the real ones can tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from bridge.core.model import AdvanceItem, AdvanceOutcome, Plan, Poll, Run, Slice
from bridge.ports import Meta, RunRow
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
            offsets = [
                i
                for i in range(first, min(len(bodies), first + self.most))
                if Position(lane, i) not in self.broker.settled
            ]
            self._next[lane] = min(len(bodies), first + self.most)
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


class Died(BaseException):
    """What a `Dying` raises: not an Exception, so that no handler of the program takes it for a mere error."""


class Dying:
    """Wraps a port and dies before or after the n-th call of one of its coroutine methods.

    `die` is what dying means: raising `Died` by default, `os._exit` in a process of its own.
    """

    def __init__(
        self, inner: Any, method: str, *, at: int = 1, after: bool = False, die: Callable[[], None] | None = None
    ) -> None:
        self._inner = inner
        self._method = method
        self._at = at
        self._after = after
        self._die = die or self._raise
        self._calls = 0

    @staticmethod
    def _raise() -> None:
        raise Died

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._counted(found) if name == self._method else found

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            if self._calls == self._at and not self._after:
                self._die()
            result = await method(*args, **kwargs)
            if self._calls == self._at and self._after:
                self._die()
            return result

        return call


class At(Struct, frozen=True):
    """An origin whose messages are all at one position."""

    stream: str
    id: str
    position: str

    def position_of(self, payload: Any) -> str:
        return self.position


def run_row(
    run_key: str,
    *,
    body: bytes = b"body",
    watcher: str = "w",
    asset: str = "a",
    stream: str = "orders",
    source: str = "src",
    identity: str = "1",
    position: str = "line 1",
    target: str = "log",
    job: str = "job",
    params: bytes = b"{}",
    tags: bytes = b"{}",
    received_at: float = 1.0,
) -> RunRow:
    """A run request as a store gets it."""
    run = Run(Plan(watcher, asset, target, job, tags), None, body, params)
    return RunRow(run_key, identity, At(stream, source, position), run, received_at)
