"""Business keys over any sequence of commits: of a watcher's runs with one key, one at a time is let through."""

from __future__ import annotations

import asyncio
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.core.errors import StoreUnavailable
from bridge.ports import Receipt, RunRow
from bridge.store.memory import MemoryStore
from bridge.store.options import DAY, InstanceId
from bridge.store.reader import open_reader
from bridge.store.sql import SqlStore, open_store
from bridge.store.views import RunView
from bridge.testing import run_row

Step = tuple[str, Any]

rows = st.builds(
    lambda name, watcher, key, ttl, body: run_row(
        f"{watcher}/src/{name}/0", watcher=watcher, identity=str(name), key=key, key_ttl=ttl, body=body
    ),
    st.integers(0, 40),
    st.sampled_from(["w", "v"]),
    st.sampled_from(["a", "b", "c", None]),
    st.sampled_from([10.0, 60.0]),
    st.sampled_from([b"x", b"x", b"x", b"y"]),
)
commits = st.tuples(st.lists(rows, max_size=8), st.booleans())
steps = st.one_of(
    st.tuples(st.just("commit"), commits),
    st.tuples(st.just("commit"), commits),
    st.tuples(st.just("pass"), st.sampled_from([0.0, 5.0, 10.0, 35.0, 60.0])),
    st.tuples(st.just("prune"), st.none()),
    st.tuples(st.just("crash"), st.none()),
)


class Both:
    """Both stores, given the same."""

    def __init__(self, folder: str) -> None:
        self.now = 1_000_000.0
        self.url = f"sqlite:///{folder}/headrace.db"
        self.memory = MemoryStore(now=lambda: self.now)
        self.sql: SqlStore
        self._commits = 0

    async def open(self) -> None:
        instance = InstanceId("one", "here", 1, "0")
        self.sql = await open_store(self.url, instance=instance, now=lambda: self.now)

    async def step(self, kind: str, what: Any) -> None:
        match kind:
            case "commit":
                await self._commit(*what)
            case "pass":
                self.now += what
            case "prune":
                await self.sql.prune()
                await self.memory.prune()
            case _:
                await self.sql.aclose(clean=False)
                await self.open()
                self.memory = self.memory.restarted()

    async def _commit(self, rows: list[RunRow], again: bool) -> None:
        self._commits += 1
        commit_id = f"c{self._commits}"
        receipts = [await store.commit(rows, commit_id) for store in (self.sql, self.memory)]
        if again:  # its answer was lost, and some keys have run out before it is run again
            self.now += 20
            receipts += [await store.commit(rows, commit_id) for store in (self.sql, self.memory)]
        assert len({counts(receipt) for receipt in receipts}) == 1
        assert sum(counts(receipts[0])[:3]) == len(rows)

    def check(self) -> None:
        runs = open_reader(self.url).runs(limit=1000)
        check_intervals(runs)
        assert {run.run_key: (run.state, run.key, run.key_until, run.suppressed_by) for run in runs} == {
            key: (run.state, run.key, run.key_until, run.suppressed_by)
            for key, run in self.memory.tables.runs.items()
            if not run.gone
        }


def counts(receipt: Receipt) -> tuple[int, int, int, tuple[str, ...]]:
    return receipt.stored, receipt.suppressed, len(receipt.repeats), tuple(sorted(receipt.conflicts))


def check_intervals(runs: list[RunView]) -> None:
    """The rule itself: holders of a key follow one another, and who is suppressed came in the time of its holder."""
    by_key = {run.run_key: run for run in runs}
    free_at: dict[tuple[str, str], float] = {}
    for run in sorted(runs, key=lambda run: run.created_at):
        if run.key is None:
            assert (run.state, run.suppressed_by, run.key_until) == ("pending", None, None)
        elif run.suppressed_by is None:
            assert run.state == "pending"
            assert run.key_until is not None
            assert free_at.get((run.watcher, run.key), 0.0) <= run.created_at < run.key_until
            free_at[run.watcher, run.key] = run.key_until
        else:
            holder = by_key[run.suppressed_by]
            assert (run.state, run.due) == ("suppressed", None)
            assert (holder.watcher, holder.key, holder.key_until) == (run.watcher, run.key, run.key_until)
            assert holder.created_at <= run.created_at < (run.key_until or 0.0)


async def play(told: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        both = Both(folder)
        await both.open()
        try:
            for kind, what in told:
                await both.step(kind, what)
            both.check()
        finally:
            await both.sql.aclose(clean=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=5, max_size=25))
def test_one_run_at_a_time_holds_a_key_whatever_is_committed_and_when(told: list[Step]) -> None:
    asyncio.run(play(told))


async def test_a_commit_that_did_not_happen_holds_no_key(shelf: Any) -> None:
    store = await shelf.open()

    def fail(commit: Any) -> None:
        raise OSError("the disk went away before the commit")

    confirm, store.writer.confirm = store.writer.confirm, fail
    with pytest.raises(StoreUnavailable):
        await store.commit([run_row("w/src/1/0", key="a", key_ttl=60.0)], "c1")
    store.writer.confirm = confirm
    assert (await store.commit([run_row("w/src/2/0", key="a", key_ttl=60.0)], "c2")).stored == 1


async def test_many_keys_that_have_run_out_are_removed_in_one_pass(shelf: Any) -> None:
    store = await shelf.open()
    await store.commit([run_row(f"w/src/{n}/0", key=str(n), key_ttl=60.0) for n in range(4500)], "c1")
    await store.commit([run_row("w/src/x/0", key="x", key_ttl=DAY)], "c2")
    shelf.now += 61
    assert await store.prune() == 4500
    assert shelf.sql("SELECT key FROM business_keys") == [("x",)]


async def test_finding_who_holds_a_key_and_which_are_free_walks_no_table(shelf: Any) -> None:
    await shelf.open()
    over = "SELECT watcher, key FROM business_keys WHERE expires_at <= 5 LIMIT 10"
    for query, index in (
        ("SELECT holder FROM business_keys WHERE watcher = 'w' AND key IN ('a', 'b')", "PRIMARY KEY"),
        (over, "business_keys_expiry"),
        (f"DELETE FROM business_keys WHERE (watcher, key) IN ({over})", "PRIMARY KEY"),
    ):
        plan = " ".join(row[-1] for row in shelf.sql(f"EXPLAIN QUERY PLAN {query}"))
        assert index in plan
        assert "SCAN business_keys" not in plan
