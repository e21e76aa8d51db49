"""A stream that can't begin until a person has decided something ends the process; one that was open does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from bridge.core.errors import Refused, StartRefused
from bridge.core.model import Poll
from bridge.ports import Clock
from bridge.runtime.clock import SystemClock
from bridge.runtime.dispatcher import Dispatcher
from bridge.runtime.persister import Persister
from bridge.runtime.process import EXIT_REFUSED, Process, ProcessSpec
from bridge.runtime.supervisor import StreamSpec
from bridge.testing import MemoryProducer


class Undecided(MemoryProducer):
    """Refuses to begin, from the `nth` opening of all on."""

    openings = 0
    nth = 1

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        Undecided.openings += 1
        if Undecided.openings >= Undecided.nth:
            raise StartRefused("say where to begin")
        async for poll in super().open_batches():
            yield poll
            raise OSError("the broker went away")


def process_of(rig: Any, clock: Clock | None = None) -> Process:
    clock = clock or SystemClock()
    persister = Persister(rig.store, clock, lambda: 0.0)
    rig.producer = lambda: Undecided(rig.broker)
    Undecided.openings = 0
    restart = rig.limits.retry
    stream = StreamSpec(
        "orders", "memory", "memory", rig._produce, rig._router, (), ("w",), rig.limits, restart=restart
    )
    spec = ProcessSpec([stream], frozenset(), heartbeat=3600.0, stop_timeout=10.0)
    return Process(
        spec, rig.store, persister, Dispatcher(rig.store, persister, {}, clock, lambda: 0.0), clock, lambda: 0.0
    )


async def test_a_stream_that_can_not_begin_ends_the_process_with_its_reason(rig: Any) -> None:
    Undecided.nth = 1
    process = process_of(rig)
    assert await process.run() == EXIT_REFUSED
    assert isinstance(process.refusal, Refused)
    assert str(process.refusal) == "stream 'orders' can't begin: say where to begin"
    assert Undecided.openings == 1


async def test_a_stream_that_was_open_before_is_started_again_and_again(rig: Any, until: Any) -> None:
    Undecided.nth = 2
    process = process_of(rig)
    running = asyncio.create_task(process.run())
    rig.broker.send([b"{}"])
    await until(lambda: Undecided.openings > 3)
    status: Any = process.status()["streams"]
    assert status["orders"]["trouble"] == "StartRefused: say where to begin"
    process.request_stop()
    assert await running == 0
    assert process.refusal is None


class Later(SystemClock):
    """Time may be let pass at once."""

    ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


async def test_a_stream_whose_turn_to_begin_comes_late_does_not_end_what_runs_beside_it(rig: Any, until: Any) -> None:
    """Its broker was away, or its watchers were disabled: nobody watches a start any more, and others are at work."""
    Undecided.nth = 1
    clock = Later()
    process = process_of(rig, clock)
    rig.producer = lambda: Absent(rig.broker, clock)
    running = asyncio.create_task(process.run())
    await until(lambda: Undecided.openings > 3)
    status: Any = process.status()["streams"]
    assert status["orders"]["trouble"] == "StartRefused: say where to begin"
    process.request_stop()
    assert await running == 0
    assert process.refusal is None


class Absent(Undecided):
    """Its broker does not answer for the first two minutes."""

    def __init__(self, broker: Any, clock: Later) -> None:
        super().__init__(broker)
        self.clock = clock

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        if not self.clock.ahead:
            self.clock.ahead = 120.0
            raise OSError("no broker")
        async for poll in super().open_batches():
            yield poll
