"""What the one who commits says about a store that takes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import pytest

from bridge.core.errors import StoreUnavailable
from bridge.core.retry import Backoff
from bridge.ports import Receipt, Row, RunRow
from bridge.runtime.clock import FakeClock
from bridge.runtime.persister import Persister
from bridge.store.memory import MemoryStore
from bridge.testing import run_row

EVERY_SECOND = Backoff(delay=1.0, factor=1.0, max=1.0, jitter=0.0)


class Ailing(MemoryStore):
    """Commits fail with what is in `failures`, first to last; `notes` is all that it was told."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self.failures = list(failures)
        self.notes: list[str | None] = []

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        if self.failures:
            raise self.failures.pop(0)
        return await super().commit(rows, commit_id)

    def note(self, trouble: str | None) -> None:
        self.notes.append(trouble)
        super().note(trouble)


class Desk:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.receipts: list[Receipt] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def submit(self, store: MemoryStore, row: RunRow) -> Persister:
        persister = Persister(store, self.clock, lambda: 0.0, EVERY_SECOND)
        self._tasks.append(asyncio.create_task(persister.run()))
        persister.submit([row], self.receipts.append)
        await self.clock.settle()
        return persister

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    yield desk
    await desk.close()


@pytest.fixture
def row() -> RunRow:
    return run_row("w/src/1/0")


async def test_trouble_is_noted_when_it_appears_changes_and_ends_and_not_at_every_try(desk: Desk, row: RunRow) -> None:
    full, locked = StoreUnavailable("the disk is full"), StoreUnavailable("locked")
    store = Ailing(full, full, full, locked, KeyError("a defect"), locked)
    persister = await desk.submit(store, row)
    assert store.trouble == "the disk is full"
    await desk.clock.advance(2)
    assert store.notes == ["the disk is full"]
    await desk.clock.advance(1)
    assert (store.trouble, persister.trouble) == ("locked", "locked")
    assert desk.receipts == []
    await desk.clock.advance(10)
    assert store.notes == ["the disk is full", "locked", "KeyError: 'a defect'", "locked", None]
    assert (persister.trouble, [receipt.stored for receipt in desk.receipts]) == (None, [1])


async def test_a_store_that_commits_is_told_nothing(desk: Desk, row: RunRow) -> None:
    store = Ailing()
    await desk.submit(store, row)
    assert len(desk.receipts) == 1
    assert store.notes == []
