"""A stream with a broker and a store in memory, run by the real shell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from bridge.core.commands import Limits
from bridge.core.model import AdvanceItem, Plan, Poll
from bridge.core.retry import Backoff
from bridge.decode.decoder import Decoder
from bridge.filters.recipe import Recipe
from bridge.filters.router import Declared, FilterRouter
from bridge.language.reading.match import compile_match
from bridge.params.plans import compile_params
from bridge.ports import Lanes, Producer
from bridge.runtime.clock import SystemClock
from bridge.runtime.persister import Persister
from bridge.runtime.runner import WatcherSpec
from bridge.runtime.schemas import SchemaTeacher
from bridge.runtime.supervisor import Services, StreamSpec, StreamSupervisor
from bridge.runtime.suspicion import Suspicion
from bridge.runtime.watchers import Watchers
from bridge.store.memory import MemoryStore
from bridge.testing import MemoryBroker, MemoryProducer
from bridge.triggers import BaseEventTrigger, TriggerEvent

QUICK = Backoff(delay=0.01, factor=1.0, max=0.01, jitter=0.0)


async def until(condition: Callable[[], Any], within: float = 10.0) -> None:
    """Other threads and real time are involved: waits for what must become true, and fails when it does not."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110  # there is nobody who could set an event
            await asyncio.sleep(0.002)


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


class LaneProducer(MemoryProducer):
    """Lanes with epochs, as partitions have them. What failed is read again, on a lane that is taken anew for it."""

    def __init__(self, broker: MemoryBroker, most: int = 100) -> None:
        super().__init__(broker, most)
        self.epochs: dict[Hashable, int] = {}
        self.failed: list[Any] = []
        self.lanes: Lanes

    def take_lanes(self, lanes: Lanes) -> None:
        self.lanes = lanes

    def assign(self, lane: Hashable, start: int | None = None) -> None:
        """From the first message that is not settled, or from `start`."""
        self.epochs[lane] = self.lanes.assigned(lane)
        self._next[lane] = self._first(lane) if start is None else start
        self.broker.send([], lane)

    def revoke(self, lane: Hashable) -> None:
        """Settles what is resolved, and lets the lane go."""
        for _, batch in self.lanes.revoked([lane]):
            for payload, outcome in batch:
                self.broker.settle(payload, outcome)
        del self.epochs[lane]

    def _poll(self) -> Poll:
        for lane in self.broker.lanes:
            if lane not in self.epochs:
                self.assign(lane)
        poll = super()._poll()
        poll.slices = [piece._replace(epoch=self.epochs[piece.lane]) for piece in poll.slices]
        return poll

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        await asyncio.sleep(0)  # the broker is asked
        await super().advance(batch)
        for payload, outcome in batch:
            if outcome.failed:
                self.failed.append(payload)
                self.assign(payload.lane, payload.offset)


class Filtering(BaseEventTrigger):
    """A trigger whose filter is a function of the stream."""

    def __init__(self, filter: Callable[[Any], AsyncIterator[TriggerEvent]]) -> None:
        super().__init__()
        self.filter = filter
        self.cleaned = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("tests.Filtering", {})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError
        yield

    def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        return self.filter(shared_stream)

    async def cleanup(self) -> None:
        self.cleaned += 1


class Rig:
    """`start` the stream, `stop` it; `broker` and `store` outlive it, as they would."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.store: Any = MemoryStore()
        self.watch: list[WatcherSpec] = []
        self.declared: list[Declared] = []
        self.limits = Limits(retry=QUICK, advance_retry=QUICK)
        self.producers: list[Any] = []
        self.producer: Callable[[], Producer] = lambda: MemoryProducer(self.broker)
        self.decoder: Decoder | None = None
        self.teacher: SchemaTeacher | None = None
        self.exhausted = False
        self.suspicion = Suspicion()
        self.woken: list[str] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def declare(self, name: str, match: dict[str, Any], params: dict[str, Any] | None = None) -> None:
        plan = Plan(name, "asset", "target", "job")
        self.declared.append(Declared(plan, compile_match(match), compile_params(params or {})))

    def python(
        self,
        name: str,
        filter: Callable[[Any], AsyncIterator[TriggerEvent]],
        *,
        ack_timeout: float = 60.0,
        tries: int = 3,
    ) -> Filtering:
        trigger = Filtering(filter)
        self.watch.append(
            WatcherSpec(
                plan=Plan(name, "asset", "target", "job", max_attempts=tries),
                make=lambda: trigger,
                recipe=Recipe(compile_params({}, roots=("event", "trigger"))),
                ack_timeout=ack_timeout,
                decoder=self.decoder,
                restart=QUICK,
            )
        )
        return trigger

    async def start(self) -> None:
        clock = SystemClock()
        self.persister = Persister(self.store, clock, lambda: 0.0, QUICK)
        self.watchers = Watchers(lambda: 0.0, self._exhausted)
        services = Services(
            self.store, self.persister, self.watchers, clock, lambda: 0.0, self.woken.extend, self.suspicion
        )
        spec = StreamSpec(
            name="stream",
            key="memory",
            source="memory",
            producer=self._produce,
            router=self._router,
            watchers=tuple(self.watch),
            declared=tuple(d.plan.watcher for d in self.declared),
            limits=self.limits,
            restart=QUICK,
            decoder=self.decoder,
            teacher=self.teacher,
        )
        self.stream = StreamSupervisor(spec, services)
        self._tasks = [
            asyncio.create_task(self.persister.run()),
            asyncio.create_task(self.watchers.watch()),
            asyncio.create_task(self.stream.run()),
        ]

    def _exhausted(self) -> None:
        self.exhausted = True

    def _produce(self) -> Producer:
        producer = self.producer()
        self.producers.append(producer)
        return producer

    def _router(self, disabled: frozenset[str]) -> FilterRouter:
        return FilterRouter(self.declared, max_body=1 << 20, disabled=disabled, decoder=self.decoder)

    async def stop(self, within: float = 5.0) -> bool:
        """A graceful stop; True if everything that could be was settled."""
        persisting, watching, polling = self._tasks
        polling.cancel()
        with suppress(asyncio.CancelledError):
            await polling
        finished = await self.stream.stop(within)
        await self._end([persisting, watching])
        return finished

    async def crash(self) -> None:
        """Everything in memory is gone at once: nothing is advanced, given back or closed."""
        await self._end(self._tasks)

    async def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.watchers.stop()
        self._tasks = []

    @property
    def runs(self) -> list[str]:
        return sorted(self.store.tables.runs)

    @property
    def letters(self) -> list[tuple[str, str, str]]:
        """(watcher, identity, reason), sorted."""
        return sorted((x.row.watcher, x.row.identity, x.row.reason) for x in self.store.tables.letters.values())

    async def drained(self, within: float = 10.0) -> None:
        await until(lambda: self.broker.is_drained, within)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    if rig._tasks:
        await rig.stop()


@pytest.fixture
def lane_producer() -> type[LaneProducer]:
    return LaneProducer


@pytest.fixture(name="body")
def body_fixture() -> Callable[..., bytes]:
    return body


@pytest.fixture(name="until")
def until_fixture() -> Any:
    return until
