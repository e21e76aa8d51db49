"""Claims stay a walk along an index, whatever lies in front, and whatever the clock does."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from bridge.ports import ResultRow, RunRow
from bridge.store.sqlite import Sqlite
from bridge.store.statements import Statements, prepare

Rows = Callable[..., RunRow]


def plan(shelf: Any, text: str) -> list[str]:
    return [row[3] for row in shelf.sql(f"EXPLAIN QUERY PLAN {text}", *[None] * text.count("?"))]


async def test_the_oldest_runs_are_found_by_their_index_without_sorting(shelf: Any) -> None:
    await shelf.open()
    statements = Statements(Sqlite(str(shelf.path), busy_timeout=1.0))
    for text in (statements.claimable, statements.claimable_past_held):
        first, *others = plan(shelf, text)
        assert "runs_due (target=? AND due>? AND due<?)" in first
        assert not [step for step in others if "SORT" in step.upper() or "B-TREE" in step.upper() or "runs" in step]


async def test_no_statement_of_a_commit_looks_through_a_table(shelf: Any) -> None:
    await shelf.open()
    statements = Statements(Sqlite(str(shelf.path), busy_timeout=1.0))
    texts = [text for name, text in vars(statements).items() if not name.startswith("_")]
    assert len(texts) >= 10
    for text in texts:
        assert not [step for step in plan(shelf, text) if step.startswith("SCAN") and "watchers" not in step
                    and "VIRTUAL TABLE" not in step], text  # fmt: skip


def test_a_statement_whose_values_would_come_in_another_order_is_refused() -> None:
    database = Sqlite("x", busy_timeout=1.0)
    from sqlalchemy import bindparam, select

    with pytest.raises(AssertionError, match="takes"):
        prepare(select(bindparam("a"), bindparam("b")), database.dialect, "b", "a")


async def test_held_runs_are_passed_over_once_and_come_back_when_their_watcher_is_resumed(
    shelf: Any, run_row: Rows
) -> None:
    store = await shelf.open()
    await store.register({"w": "1", "v": "1"}, {})
    shelf.reader().post("pause", watcher="v")
    await store.take_intents()
    for n in range(10):
        shelf.now += 1
        await store.commit([run_row(f"{n}-{m}", watcher="v") for m in range(200)] + [run_row(n)], f"c{n}")
    steps: list[int] = []

    async def claimed(limit: int) -> list[str]:
        counted = [0]

        def watch() -> None:
            raw = store.writer._connection.connection.dbapi_connection
            raw.set_progress_handler(lambda: counted.__setitem__(0, counted[0] + 1), 10)

        await store.writer.run(watch)
        claims = await store.claim("log", limit, 60)
        steps.append(counted[0])
        return [claim.run_key for claim in claims]

    assert await claimed(5) == [f"w/src/{n}/0" for n in range(5)]
    assert await claimed(5) == [f"w/src/{n}/0" for n in range(5, 10)]
    assert await claimed(5) == []
    assert await claimed(5) == []
    assert steps[3] < steps[0] / 4
    shelf.now += 1
    await store.commit([run_row("late"), run_row("held", watcher="v")], "late")
    assert await claimed(5) == ["w/src/late/0"]
    shelf.reader().post("resume", watcher="v")
    await store.take_intents()
    assert len(await claimed(5000)) == 2001


async def test_runs_that_were_committed_while_the_clock_was_ahead_do_not_wait_for_it(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    shelf.now = 4_000_000.0
    await store.commit([run_row(1), run_row(2), run_row(3)], "ahead")
    first, second = await store.claim("log", 2, 60)
    later = ResultRow(second.run_key, second.epoch, "pending", not_before=shelf.now + 30)
    await store.commit([later], "later")
    shelf.now = 1_000_000.0
    assert [claim.run_key for claim in await store.claim("log", 5, 60)] == ["w/src/3/0"]
    shelf.now += 29
    assert await store.claim("log", 5, 60) == []
    shelf.now += 2
    assert [claim.run_key for claim in await store.claim("log", 5, 60)] == [second.run_key]
    shelf.now += 40
    again = await store.claim("log", 5, 60)
    assert {claim.run_key: claim.ambiguous for claim in again}[first.run_key] is True


async def test_a_restart_finds_them_too(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    shelf.now = 4_000_000.0
    await store.commit([run_row(1)], "ahead")
    await store.aclose(clean=True)
    shelf.now = 1_000_000.0
    store = await shelf.open()
    assert len(await store.claim("log", 5, 60)) == 1


async def test_a_clock_that_trembles_loses_nothing_past_held_runs(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    await store.register({"w": "1", "v": "1"}, {})
    shelf.reader().post("pause", watcher="v")
    await store.take_intents()
    await store.commit([run_row("held", watcher="v")], "held")
    found = 0
    for n in range(20):
        shelf.now -= 0.7
        await store.commit([run_row(n)], f"c{n}")
        found += len(await store.claim("log", 10, 60))
    assert found == 20


async def test_the_databases_clock_is_the_time_of_day(shelf: Any, run_row: Rows) -> None:
    import time

    store = await shelf.open(own_clock=False)
    before = time.time()
    await store.commit([run_row(1)], "c1")
    ((created,),) = shelf.sql("SELECT created_at FROM runs")
    assert before - 0.01 <= created <= time.time() + 0.01
    (claim,) = await store.claim("log", 1, 60)
    assert before + 59 < claim.until < time.time() + 61
    assert sqlite3.sqlite_version_info >= (3, 35)
