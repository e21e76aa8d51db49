"""Time as an object: the machine's, and one that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import time
from heapq import heappop, heappush
from itertools import count


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FakeClock:
    """Virtual time. `sleep` parks until somebody advances past its end; nothing else moves the time.

    It counts turns of the loop where a real clock would count seconds: after each step of the time everything that
    is ready runs, `TURNS` turns deep, before the next sleeper is woken.
    """

    TURNS = 20

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._began = now
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def monotonic(self) -> float:
        return self._elapsed

    def now(self) -> float:
        return self._began + self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken

    @property
    def sleepers(self) -> list[float]:
        """How long each parked sleeper still has, shortest first."""
        return sorted(due - self._elapsed for due, _, woken in self._sleepers if not woken.done())

    async def advance(self, seconds: float) -> None:
        """Moves the time, and wakes every sleeper at its own instant, in order."""
        end = self._elapsed + seconds
        await self.settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heappop(self._sleepers)
            if woken.done():
                continue  # cancelled meanwhile
            self._elapsed = max(self._elapsed, due)
            woken.set_result(None)
            await self.settle()
        self._elapsed = end
        await self.settle()

    async def settle(self) -> None:
        """Lets everything run that is ready."""
        for _ in range(self.TURNS):
            await asyncio.sleep(0)
