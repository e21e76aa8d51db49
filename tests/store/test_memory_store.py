"""The switches of the store in memory: it fails as a disk does, and a next life finds what the last one had."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bridge.core.errors import StoreUnavailable
from bridge.ports import RunRow
from bridge.store.memory import MemoryStore

Rows = Callable[..., RunRow]


async def test_a_store_that_is_away_refuses_every_call_and_keeps_what_it_had(run_row: Rows) -> None:
    store = MemoryStore()
    await store.commit([run_row(1)], "c1")
    store.available = False
    calls: list[Callable[[], Any]] = [
        lambda: store.commit([run_row(2)], "c2"), lambda: store.claim("log", 1, 1.0), lambda: store.attempts("src"),
        lambda: store.replays("orders", 1), store.take_intents, lambda: store.heartbeat(b"{}"), store.prune,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreUnavailable):
            await call()
    store.available = True
    assert len(await store.claim("log", 5, 1.0)) == 1


async def test_a_commit_that_is_held_happens_when_it_is_let_go(run_row: Rows) -> None:
    store = MemoryStore()
    store.hold.clear()
    commit = asyncio.create_task(store.commit([run_row(1)], "c1"))
    await asyncio.sleep(0)
    assert store.tables.runs == {}
    store.hold.set()
    assert (await commit).stored == 1


@pytest.mark.parametrize(("when", "found"), [("before", 0), ("after", 1)])
async def test_a_commit_fails_before_or_after_it_happened(run_row: Rows, when: Any, found: int) -> None:
    store = MemoryStore()
    store.faults[2] = when
    await store.commit([], "c1")
    with pytest.raises(StoreUnavailable):
        await store.commit([run_row(1)], "c2")
    assert len(store.tables.runs) == found
    receipt = await store.commit([run_row(1)], "c2")
    assert (receipt.stored, receipt.repeats) == (1, ())


async def test_the_next_life_finds_what_the_last_one_had_claimed(run_row: Rows) -> None:
    store = MemoryStore()
    await store.commit([run_row(1)], "c1")
    await store.claim("log", 1, 1e6)
    (claim,) = await store.restarted().claim("log", 1, 1e6)
    assert claim.ambiguous
