"""From the outbox to the targets: the second half of the way, which begins where a run request is durable.

A line (`line.py`) per target, so that one that is slow or away delays no other. Nothing here is kept over a crash: the
store knows every run, and claims that nobody finished come back by themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import structlog

from bridge.core.retry import Backoff
from bridge.ports import Clock, Committer, Store
from bridge.runtime.line import Line, Remembers, TargetRuntime

__all__ = ["Dispatcher", "Remembers", "TargetRuntime"]

log = structlog.get_logger("headrace.dispatcher")

TICK: Final = 1.0
"""Seconds between looks for runs that have become due: a commit wakes the dispatcher at once."""
FORGET_EVERY: Final = 3600.0
FORGET_AGE: Final = 86400.0
LAST_WAIT: Final = 5.0  # seconds for tasks that were cancelled: a target may ignore that
_CRASHED: Final = Backoff(delay=0.5, factor=2.0, max=30.0, jitter=1.0)


class Dispatcher:
    """Claims, launches, writes down. `roll` gives numbers in [0, 1), which spread retries."""

    def __init__(
        self,
        store: Store,
        committer: Committer,
        targets: Mapping[str, TargetRuntime],
        clock: Clock,
        roll: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._roll = roll
        self._lines = {name: Line(name, each, store, committer, clock, roll) for name, each in targets.items()}
        self._tasks: list[asyncio.Task[None]] = []
        self._timers: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Runs until it is cancelled or stopped. What a target raises below Exception ends it and is raised here."""
        for line in self._lines.values():
            self._start(f"feed {line.name}", line.feed)
            for number, seat in enumerate(line.seats):
                self._start(f"launch {line.name} {number}", partial(line.work, seat))
        self._timers = [
            asyncio.create_task(self._tick(), name="tick"),
            asyncio.create_task(self._forget(), name="forget"),
        ]
        try:
            # A timer never ends by itself; a task of a line does after `stop`.
            done, _ = await asyncio.wait(self._tasks or self._timers, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                if not task.cancelled():
                    task.result()
        finally:
            await self._end()

    def wake(self, target: str) -> None:
        """Run requests for this target were committed: they are claimed now, not at the next tick."""
        line = self._lines.get(target)
        if line is not None:
            line.wake()

    async def stop(self, within: float) -> bool:
        """Starts nothing more and waits up to `within` seconds for what is in flight. -> whether all of it ended.

        What was claimed ahead is given back at once. What is left keeps its claim, and is ambiguous in the next life.
        """
        for line in self._lines.values():
            line.close()
        working = [task for task in self._tasks if not task.done()]
        if not working:
            await _cancelled(self._timers)
            return True
        timer = asyncio.create_task(self._clock.sleep(within))
        finished = asyncio.create_task(_all_done(working))
        await asyncio.wait({timer, finished}, return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()
        finished.cancel()
        left = sum(line.in_flight for line in self._lines.values())
        if left:
            log.warning("Launches were left in flight, they are looked up at the next start", count=left)
        await _cancelled(working)
        for line in self._lines.values():
            line.flush()
        return not left

    def snapshot(self) -> dict[str, dict[str, object]]:
        """Per target: what it does and how it went, as plain values."""
        return {name: line.snapshot() for name, line in self._lines.items()}

    def _start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.append(asyncio.create_task(self._kept(name, work), name=name))

    async def _kept(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """A defect of ours costs one turn of one task, and is seen."""
        failures = 0
        while True:
            try:
                await work()
            except Exception:
                failures += 1
                log.exception("A task of the dispatcher failed, it is started again", task=name, failures=failures)
                await self._clock.sleep(_CRASHED.after(failures, self._roll()))
            else:
                return

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK)
            for line in self._lines.values():
                line.tick()

    async def _forget(self) -> None:
        targets = [line.target for line in self._lines.values() if isinstance(line.target, Remembers)]
        while targets:
            await self._clock.sleep(FORGET_EVERY)
            for target in targets:
                try:
                    await asyncio.to_thread(target.forget, self._clock.now() - FORGET_AGE)
                except Exception:
                    log.exception("A target failed to forget old runs")

    async def _end(self) -> None:
        await _cancelled([*self._tasks, *self._timers])
        self._tasks, self._timers = [], []
        for line in self._lines.values():
            line.flush()


async def _all_done(tasks: list[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=LAST_WAIT)
