"""Rows that the database will never take: found by halves, put aside, and the others never wait for them."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from bridge.ports import (
    AttemptRow,
    DeadLetterRow,
    ForgetRow,
    OpenedRow,
    Prior,
    RelayedRow,
    ReplayedRow,
    ResultRow,
    RunRow,
)

Rows = Callable[..., RunRow]


async def limit_lengths(store: Any, most: int) -> None:
    """What a row may hold at most is a gigabyte; tests lower it, and get the same errors."""

    def lower() -> None:
        raw = store.writer._connection.connection.dbapi_connection
        raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, most)

    await store.writer.run(lower)


@pytest.mark.parametrize(
    "bad",
    [
        {"run_key": "\ud800"},
        {"position": "\udcff"},
        {"job": "\udfff"},
        {"received_at": math.nan},
        {"received_at": 10**400},
        {"params": b"x" * 20_000},
        {"params": object()},
    ],
)
async def test_a_run_request_that_can_not_be_stored_is_put_aside_alone(
    shelf: Any, run_row: Rows, bad: dict[str, Any]
) -> None:
    store = await shelf.open()
    await limit_lengths(store, 15_000)
    rows = [run_row(n) for n in range(20)]
    rows[13] = run_row(13, **bad)
    receipt = await store.commit(rows, "c1")
    assert receipt.stored == 19
    assert [row.identity for row, _ in receipt.refused if isinstance(row, RunRow)] == ["13"]
    assert receipt.dead_letters == 1
    (letter,) = shelf.reader().dead_letters()
    assert (letter.reason, letter.identity, letter.whole) == ("store_refused", "13", True)
    assert shelf.sql("SELECT count(*) FROM runs") == [(19,)]
    assert shelf.sql("SELECT count(*) FROM run_keys") == [(19,)]


async def test_bad_rows_of_every_kind_do_not_hold_the_good_ones(
    shelf: Any, run_row: Rows, letter_row: Callable[..., DeadLetterRow]
) -> None:
    store = await shelf.open()
    await store.commit([run_row("old")], "c1")
    (claim,) = await store.claim("log", 1, 60)
    big = 2**70
    bad = [run_row("\ud800"), ResultRow("w/src/old/0", big, "failed"), ReplayedRow(big), RelayedRow(big)]
    good = [
        run_row("new"), letter_row("l"), AttemptRow("w", "src", "b", 2, ""), ForgetRow("w", "src", "c"),
        ResultRow(claim.run_key, claim.epoch, "started"), ReplayedRow(1), OpenedRow("w", "src", "\udcff", 2**40),
        RelayedRow(1, "\ud800", float("nan")),
    ]  # fmt: skip
    receipt = await store.commit([*bad, *good], "c2")
    assert [row for row, _ in receipt.refused] == bad
    assert (receipt.stored, receipt.dead_letters, receipt.stale_results) == (1, 2, 0)
    assert await store.attempts("src") == {
        ("w", "b"): Prior(2),
        ("w", "\\udcff~8f1d0f9c88065271"): Prior(0, 2**31 - 1),
    }
    run = shelf.reader().run(claim.run_key)
    assert run is not None
    assert run.state == "started"


async def test_a_dead_letter_that_is_too_large_is_kept_without_its_bytes(
    shelf: Any, letter_row: Callable[..., DeadLetterRow]
) -> None:
    store = await shelf.open()
    await limit_lengths(store, 15_000)
    receipt = await store.commit([letter_row(1, body=b"x" * 20_000), letter_row(2)], "c1")
    assert (len(receipt.refused), receipt.dead_letters) == (1, 2)
    by_identity = {letter.identity: letter for letter in shelf.reader().dead_letters()}
    assert (by_identity["1"].size, by_identity["1"].whole) == (0, False)
    assert "rejected: no" in by_identity["1"].error
    assert (by_identity["2"].size, by_identity["2"].whole) == (3, True)


async def test_bytes_that_come_later_replace_what_stood_in_for_them(
    shelf: Any, letter_row: Callable[..., DeadLetterRow]
) -> None:
    store = await shelf.open()
    await limit_lengths(store, 15_000)
    await store.commit([letter_row(1, body=b"x" * 20_000)], "c1")
    await store.commit([letter_row(1, body=b"the message")], "c2")
    (letter,) = shelf.reader().dead_letters()
    whole = shelf.reader().dead_letter(letter.id)
    assert whole is not None
    assert (whole.body, whole.letter.whole, whole.letter.reason) == (b"the message", True, "rejected")


async def test_bytes_are_not_lost_to_what_would_stand_in_for_them(
    shelf: Any, letter_row: Callable[..., DeadLetterRow]
) -> None:
    store = await shelf.open()
    await limit_lengths(store, 15_000)
    await store.commit([letter_row(1, body=b"the message")], "c1")
    await store.commit([letter_row(1, body=b"x" * 20_000)], "c2")
    (letter,) = shelf.reader().dead_letters()
    whole = shelf.reader().dead_letter(letter.id)
    assert whole is not None
    assert (whole.body, whole.letter.whole, whole.letter.reason) == (b"the message", True, "store_refused")


async def test_a_run_again_of_a_commit_with_bad_rows_comes_out_the_same(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    rows = [run_row(1), run_row("\ud800"), run_row(2)]
    first = await store.commit(rows, "c1")
    second = await store.commit(rows, "c1")
    assert (second.stored, second.refused, second.repeats) == (first.stored, first.refused, ())
    (letter,) = shelf.reader().dead_letters()
    assert letter.repeats == 0


async def test_nul_in_text_is_no_reason_to_refuse_where_the_database_takes_it(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    assert (await store.commit([run_row("a\0b")], "c1")).stored == 1
    assert (await store.commit([run_row("a\0b"), run_row("a")], "c2")).repeats == ("w/src/a\0b/0",)
    assert [c.run_key for c in await store.claim("log", 5, 60)] == ["w/src/a\0b/0", "w/src/a/0"]


async def test_rows_are_read_once_on_the_thread_that_writes(shelf: Any, run_row: Rows) -> None:
    import threading

    store = await shelf.open()
    read: list[str] = []

    class Lazy(list[RunRow]):
        def __iter__(self) -> Any:
            read.append(threading.current_thread().name)
            return iter([run_row(1), run_row("\ud800")])

    assert (await store.commit(Lazy(), "c1")).stored == 1
    assert len(read) == 1
    assert read[0].startswith("headrace-store")
