"""A clock that only tests move, and a drop folder with somebody who reads it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from bridge.core.model import AdvanceBatch, AdvanceOutcome, Poll, outcome_of
from connectors.directory import DirectoryOptions, LineByLine, WholeFiles

ACKED = outcome_of(1, 0, 0)
FAILED = outcome_of(0, 1, 0)
Pair = tuple[bytes, Any]


class HandClock:
    """Stands still until somebody moves it; sleepers wake when their time has come."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._sleepers: dict[asyncio.Future[None], float] = {}

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers[sleeper] = self.time + seconds
        try:
            await sleeper
        finally:
            self._sleepers.pop(sleeper, None)

    @property
    def next_due(self) -> float | None:
        """When the first sleeper wakes; None if nobody sleeps."""
        return min(self._sleepers.values(), default=None)

    def move(self, seconds: float) -> None:
        self.time += seconds
        for sleeper in [s for s, due in self._sleepers.items() if due <= self.time + 1e-9]:
            del self._sleepers[sleeper]
            sleeper.set_result(None)


class Reader:
    """Reads a producer as the runtime does, one poll at a time."""

    def __init__(self, producer: WholeFiles | LineByLine, clock: HandClock) -> None:
        self.producer = producer
        self.clock = clock
        self._polls = producer.open_batches()
        self._next: asyncio.Task[Poll] | None = None

    async def poll(self) -> Poll:
        """The next poll; time passes as far as the producer waits for it."""
        async with asyncio.timeout(20):
            while not await self._has_come():
                self.clock.move(max(0.0, (self.clock.next_due or 0.0) - self.clock.time))
        assert self._next is not None
        task, self._next = self._next, None
        return task.result()

    async def take(self, number: int) -> list[Pair]:
        """The next so many events, body and payload."""
        pairs: list[Pair] = []
        while len(pairs) < number:
            poll = await self.poll()
            pairs += zip(poll.bodies, poll.payloads, strict=True)
        assert len(pairs) == number
        return pairs

    async def bodies(self, number: int) -> list[bytes]:
        return sorted(body for body, _ in await self.take(number))

    async def has_nothing_for(self, seconds: float, step: float = 0.05) -> bool:
        """Time passes, and nothing is delivered."""
        end = self.clock.time + seconds
        async with asyncio.timeout(20):
            while not await self._has_come():
                if self.clock.time >= end - 1e-9:
                    return True
                self.clock.move(min(step, end - self.clock.time))
        return False

    async def _has_come(self) -> bool:
        """Lets the producer work until it delivers (True) or rests."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._polls))
        turns = 0  # what was woken needs some to leave its rest
        while turns < 5 or not (self._next.done() or self.clock.next_due is not None):
            turns += 1
            await asyncio.sleep(0)
        return self._next.done()

    async def settle(self, pairs: Sequence[Pair], outcome: AdvanceOutcome = ACKED) -> None:
        """Of one lane, in order."""
        payloads = [payload for _, payload in pairs]
        await self.producer.advance(AdvanceBatch([(outcome, payloads)], len(payloads)))

    async def fail(self, pair: Pair) -> None:
        await self.settle([pair], FAILED)

    async def stop_polling(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait([self._next])
        await self._polls.aclose()

    async def crash(self) -> None:
        """Nothing is closed or kept; the system drops the lock of a process that is gone."""
        await self.stop_polling()
        self.producer.folder.unlock()

    async def close(self) -> None:
        await self.stop_polling()
        await self.producer.aclose()


class DropFolder:
    """The folder as people and programs see it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def drop(self, name: str, body: bytes = b"{}") -> Path:
        (self.path / name).write_bytes(body)
        return self.path / name

    def names(self, place: str = ".") -> list[str]:
        """What lies there as a person named it, without identities, folders and our own files."""
        files = [e.name for e in os.scandir(self.path / place) if not e.is_dir() and e.name != ".lock"]
        return sorted(name.partition("~")[2] or name for name in files)

    def files(self, place: str) -> list[Path]:
        return sorted(p for p in (self.path / place).iterdir() if p.name != ".lock")


OpenReader = Callable[..., Reader]


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def folder(tmp_path: Path) -> DropFolder:
    return DropFolder(tmp_path / "orders")


@pytest.fixture
async def reading(folder: DropFolder, clock: HandClock) -> AsyncIterator[OpenReader]:
    """Opens readers of the folder; `settle` is 0s unless said otherwise."""
    opened: list[Reader] = []

    def open_reader(**options: Any) -> Reader:
        chosen = DirectoryOptions(**{"path": str(folder.path), "settle": 0.0, **options})
        producer = LineByLine(chosen, clock) if chosen.lines else WholeFiles(chosen, clock)
        opened.append(Reader(producer, clock))
        return opened[-1]

    yield open_reader
    for reader in opened:
        await reader.close()


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as captured:
        yield captured


@contextmanager
def without_privileges(path: Path) -> Iterator[None]:
    """As root, nothing is forbidden: for so long we are nobody, who owns the folder."""
    if os.geteuid() != 0:
        yield
        return
    for place, _, files in os.walk(path):
        os.chown(place, 65534, -1)
        for name in files:
            os.chown(os.path.join(place, name), 65534, -1)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def unprivileged() -> Callable[[Path], Any]:
    return without_privileges
