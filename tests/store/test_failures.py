"""What goes wrong below the store: nothing is lost, the message is clear, and it works again once the cause is gone."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridge.core.errors import StoreUnavailable
from bridge.ports import ResultRow, RunRow
from bridge.store.options import InstanceId
from bridge.store.sql import open_store

Rows = Callable[..., RunRow]


async def unavailable(store: Any, *rows: Any) -> str:
    with pytest.raises(StoreUnavailable) as away:
        await store.commit(rows, "away")
    return str(away.value)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file may grow past `size`: what a quota does. Python ignores SIGXFSZ, so writing fails with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_store_that_has_reached_its_max_size_says_so_and_takes_rows_again_once_there_is_room(
    shelf: Any, run_row: Rows
) -> None:
    store = await shelf.open(max_size=400 * 1024)
    told = ""
    stored = 0
    for n in range(50):
        try:
            stored += (await store.commit([run_row(n, params=b"x" * 20_000)], f"c{n}")).stored
        except StoreUnavailable as error:
            told = str(error)
            break
    assert "max_size of 400KiB" in told
    assert str(shelf.path) in told
    assert 0 < stored < 20
    claims = await store.claim("log", 100, 60)
    assert len(claims) == stored
    await store.commit([ResultRow(c.run_key, c.epoch, "started", "id", "url", "x" * 500) for c in claims], "results")
    assert {run.state for run in shelf.reader().runs()} == {"started"}
    shelf.now += 40 * 86400
    assert await store.prune() > 0
    assert (await store.commit([run_row("after", params=b"x" * 20_000)], "after")).stored == 1


async def test_results_do_not_wait_for_messages_that_a_full_store_has_no_room_for(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open(max_size=400 * 1024)
    await store.commit([run_row(1)], "c1")
    (claim,) = await store.claim("log", 1, 60)
    mixed = [run_row(2, params=b"x" * 500_000), ResultRow(claim.run_key, claim.epoch, "started")]
    assert "max_size" in await unavailable(store, *mixed)
    run = shelf.reader().run("w/src/1/0")
    assert run is not None
    assert run.state == "started"
    assert "max_size" in await unavailable(store, *mixed)
    mixed[0] = run_row(2)
    receipt = await store.commit(mixed, "away")
    assert (receipt.stored, receipt.stale_results) == (1, 0)


async def test_a_full_disk_is_told_apart_from_max_size(shelf: Any, run_row: Rows) -> None:
    """The limit stands in for the disk: SQLite gives one error for both."""
    store = await shelf.open()
    await store.commit([run_row(1)], "c1")

    def shrink() -> None:
        connection = store.writer._connection
        assert connection is not None
        connection.connection.cursor().execute("PRAGMA max_page_count = 1")

    await store.writer.run(shrink)
    assert "disk is full" in await unavailable(store, run_row(2, params=b"x" * 100_000))


async def test_a_locked_file_is_waited_for_and_then_unavailable(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open(busy_timeout=0.05)
    await store.commit([run_row(1)], "c1")
    other = sqlite3.connect(shelf.path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        told = await unavailable(store, run_row(2))
        assert "locked by another process" in told
        assert "50ms" in told
        with pytest.raises(StoreUnavailable):
            await store.claim("log", 1, 60)
        other.execute("COMMIT")
    finally:
        other.close()
    assert (await store.commit([run_row(2)], "away")).stored == 1


async def test_a_file_that_is_locked_at_start_is_refused(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    other = sqlite3.connect(shelf.path, isolation_level=None)
    try:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Exception, match="locked by another") as refused:
            await shelf.open(busy_timeout=0.05)
        assert type(refused.value).__name__ == "StoreRefused"
    finally:
        other.close()
    await shelf.open()


async def test_a_read_only_file_is_unavailable_until_it_can_be_written(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()

    def forbid() -> None:
        connection = store.writer._connection
        assert connection is not None
        connection.connection.cursor().execute("PRAGMA query_only = 1")

    await store.writer.run(forbid)
    told = await unavailable(store, run_row(1))
    assert "read-only" in told
    assert "SQLITE_READONLY" in told
    assert (await store.commit([run_row(1)], "away")).stored == 1  # by a new connection


async def test_a_disk_error_is_unavailable_and_what_was_confirmed_is_still_there(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    await store.commit([run_row(n) for n in range(10)], "c1")
    sizes = [path.stat().st_size for path in shelf.path.parent.iterdir()]
    with largest_file(max(sizes) + 4096):
        told = await unavailable(store, *[run_row(n, params=b"x" * 4000) for n in range(10, 60)])
        assert "disk" in told
        await unavailable(store, *[run_row(n, params=b"x" * 4000) for n in range(10, 60)])
    receipt = await store.commit([run_row(n) for n in range(12)], "c3")
    assert (receipt.stored, len(receipt.repeats)) == (2, 10)


async def test_a_failed_commit_leaves_nothing_behind(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    confirm = store.writer.confirm

    def fail(commit: Callable[[], None]) -> None:
        store.writer.confirm = confirm
        raise OSError(5, "Input/output error")

    store.writer.confirm = fail
    await unavailable(store, run_row(1), run_row(2))
    assert shelf.sql("SELECT count(*) FROM runs") == [(0,)]
    assert shelf.sql("SELECT count(*) FROM run_keys") == [(0,)]
    assert (await store.commit([run_row(1), run_row(2)], "away")).sequence == 1


async def test_a_claim_that_was_rolled_back_is_claimed_by_the_next(shelf: Any, run_row: Rows) -> None:
    """Also past held watchers, where the walk remembers how far it came."""
    store = await shelf.open()
    await store.register({"w": "1", "v": "1"}, {})
    shelf.reader().post("pause", watcher="v")
    await store.take_intents()
    await store.commit([run_row(n, watcher="wv"[n % 2]) for n in range(20)], "c1")
    shelf.now += 100
    await store.commit([run_row("late")], "c2")
    confirm = store.writer.confirm

    def fail(commit: Callable[[], None]) -> None:
        store.writer.confirm = confirm
        raise MemoryError

    store.writer.confirm = fail
    with pytest.raises(StoreUnavailable, match="memory"):
        await store.claim("log", 100, 60)
    assert len(await store.claim("log", 100, 60)) == 11


async def test_intents_that_were_taken_by_a_commit_whose_answer_was_lost_are_told_by_the_next_call(shelf: Any) -> None:
    store = await shelf.open()
    await store.register({"w": "1"}, {})
    shelf.reader().post("pause", watcher="w")
    confirm = store.writer.confirm
    calls = []

    def lose(commit: Callable[[], None]) -> None:
        commit()
        calls.append(commit)
        if len(calls) == 2:  # the first only looked whether there is any
            store.writer.confirm = confirm
            raise OSError("the answer was lost")

    store.writer.confirm = lose
    with pytest.raises(StoreUnavailable):
        await store.take_intents()
    shelf.reader().post("resume", watcher="w")
    told = [intent.kind for _ in range(3) for intent in await store.take_intents()]
    assert told == ["pause", "resume"]


async def test_intents_whose_commit_failed_are_taken_by_the_next_call(shelf: Any) -> None:
    store = await shelf.open()
    await store.register({"w": "1"}, {})
    shelf.reader().post("pause", watcher="w")
    confirm = store.writer.confirm
    calls = []

    def fail(commit: Callable[[], None]) -> None:
        calls.append(commit)
        if len(calls) == 2:
            store.writer.confirm = confirm
            raise OSError("before")
        commit()

    store.writer.confirm = fail
    with pytest.raises(StoreUnavailable):
        await store.take_intents()
    assert [intent.kind for intent in await store.take_intents()] == ["pause"]


async def test_a_file_that_is_moved_away_stops_commits_until_it_is_back(
    shelf: Any, run_row: Rows, tmp_path: Path
) -> None:
    store = await shelf.open()
    await store.commit([run_row(1)], "c1")
    os.rename(shelf.path, tmp_path / "aside.db")
    assert "moved or deleted" in await unavailable(store, run_row(2))
    assert not shelf.path.exists()
    os.rename(tmp_path / "aside.db", shelf.path)
    assert (await store.commit([run_row(1), run_row(2)], "c2")).repeats == ("w/src/1/0",)


@pytest.mark.parametrize("other", ["empty", "store"])
async def test_a_file_that_takes_its_place_is_not_written(
    shelf: Any, run_row: Rows, tmp_path: Path, other: str
) -> None:
    store = await shelf.open()
    await store.commit([run_row(1)], "c1")
    (tmp_path / "other.db").touch()
    if other == "store":
        another = await open_store(f"sqlite:///{tmp_path}/other.db", instance=InstanceId("x", "here", 1, "0.1"))
        await another.aclose(clean=True)
    os.rename(shelf.path, tmp_path / "aside.db")
    os.rename(tmp_path / "other.db", shelf.path)
    for _ in range(2):
        assert "replaced by another file" in await unavailable(store, run_row(2))
    os.rename(tmp_path / "aside.db", shelf.path)
    receipt = await store.commit([run_row(1), run_row(2)], "away")
    assert (receipt.stored, receipt.repeats) == (1, ("w/src/1/0",))


async def test_a_broken_connection_is_replaced(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()

    def cut() -> None:
        connection = store.writer._connection
        assert connection is not None
        raw = connection.connection.dbapi_connection
        assert raw is not None
        raw.close()

    await store.writer.run(cut)
    assert "closed database" in await unavailable(store, run_row(1))
    assert (await store.commit([run_row(1)], "away")).stored == 1


async def test_what_is_not_an_error_of_the_store_is_not_disguised_as_one(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    with pytest.raises(KeyError):
        await store.commit([run_row(1), "not a row"], "c1")
    assert (await store.commit([run_row(1)], "c2")).stored == 1


async def test_no_message_shows_what_rows_hold(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open(busy_timeout=0.05)
    other = sqlite3.connect(shelf.path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as away:
            await store.commit([run_row("secret-name")], "c1")
    finally:
        other.close()
    cause: BaseException | None = away.value
    while cause is not None:
        assert "secret-name" not in str(cause)
        cause = cause.__cause__


async def test_past_what_it_remembers_it_asks_for_every_dead_letter_and_remembers_again_when_there_are_fewer(
    shelf: Any, run_row: Rows, letter_row: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.store.letters._REMEMBERED_MOST", 3)
    store = await shelf.open()
    await store.commit([letter_row(n) for n in range(6)], "letters")
    await store.commit([run_row(n) for n in range(4)], "runs")
    assert [letter.identity for letter in shelf.reader().dead_letters()] == ["5", "4"]
    await store.prune()
    await store.commit([run_row(5)], "more")
    assert [letter.identity for letter in shelf.reader().dead_letters()] == ["4"]
