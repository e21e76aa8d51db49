"""What the command line sees of a store, and what it may change, while an instance runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from bridge.core.errors import StoreUnavailable
from bridge.ports import DeadLetterRow, ResultRow, RunRow
from bridge.store.reader import AmbiguousKey

Rows = Callable[..., RunRow]
Letters = Callable[..., DeadLetterRow]


async def test_counts_are_by_state_and_target_and_show_what_is_held(
    shelf: Any, run_row: Rows, letter_row: Letters
) -> None:
    store = await shelf.open()
    await store.register({"w": "1", "v": "1"}, {})
    await store.commit([run_row(n) for n in range(4)] + [run_row("v", watcher="v"), run_row("o", target="other")], "c1")
    first, second, *_ = await store.claim("log", 3, 60)
    results = [ResultRow(first.run_key, first.epoch, "started"), ResultRow(second.run_key, second.epoch, "failed")]
    await store.commit([*results, letter_row(1), letter_row(2), letter_row(3, reason="malformed")], "c2")
    shelf.reader().post("pause", watcher="v")
    await store.take_intents()
    counts = shelf.reader().counts()
    assert set(counts.runs) == {
        ("started", "log", 1), ("failed", "log", 1), ("dispatching", "log", 1), ("pending", "log", 1),
        ("held", "log", 1), ("pending", "other", 1),
    }  # fmt: skip
    assert set(counts.dead_letters) == {("dead", "rejected", 2), ("dead", "malformed", 1)}
    assert set(shelf.reader().counts(finished=False).runs) == set(counts.runs) - {("started", "log", 1)}


async def test_runs_are_listed_latest_first_and_by_what_is_asked(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    await store.register({"w": "1", "v": "1"}, {})
    await store.commit([run_row(1), run_row(2, watcher="v"), run_row(3, target="other")], "c1")
    shelf.reader().post("pause", watcher="v")
    await store.take_intents()
    reader = shelf.reader()

    def listed(**asked: Any) -> list[str]:
        return [run.identity for run in reader.runs(**asked)]

    assert listed() == ["3", "2", "1"]
    assert listed(limit=2) == ["3", "2"]
    assert listed(state="pending") == ["3", "1"]
    assert listed(state="held") == ["2"]
    assert listed(state="failed") == []
    assert listed(watcher="v") == ["2"]
    assert listed(target="other", state="pending") == ["3"]


async def test_a_run_is_found_by_its_key_or_the_start_of_it(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    await store.commit([run_row("12"), run_row("13"), run_row("1")], "c1")
    await store.commit([run_row("13")], "c2")
    reader = shelf.reader()
    found = reader.run("w/src/13")
    assert (found.run_key, found.state, found.repeats, found.position) == ("w/src/13/0", "pending", 1, "line 13")
    assert reader.run("w/src/1/0").identity == "1"
    assert reader.run("w/src/9") is None
    with pytest.raises(AmbiguousKey) as several:
        reader.run("w/src/1")
    assert several.value.keys == ("w/src/1/0", "w/src/12/0", "w/src/13/0")


async def test_a_run_shows_what_became_of_it(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    await store.commit([run_row(1, params=b'{"a":1}')], "c1")
    (claim,) = await store.claim("log", 1, 60)
    run = shelf.reader().run("w/src/1/0")
    assert (run.state, run.claimed_by, run.host, run.due, run.attempts) == (
        "dispatching",
        "life-1",
        "here",
        claim.until,
        1,
    )
    shelf.now += 5
    await store.commit([ResultRow(claim.run_key, claim.epoch, "failed", "id", "http://x", "boom")], "c2")
    run = shelf.reader().run("w/src/1/0")
    assert (run.state, run.run_id, run.url, run.error, run.due) == ("failed", "id", "http://x", "boom", None)
    assert (run.created_at, run.updated_at, run.params) == (1_000_000.0, 1_000_005.0, b'{"a":1}')


async def test_dead_letters_are_listed_without_and_shown_with_their_bytes(shelf: Any, letter_row: Letters) -> None:
    store = await shelf.open()
    rows = [letter_row(1, body=b"\0\xff", key=b"k"), letter_row(2, watcher="v", reason="malformed"), letter_row(3)]
    await store.commit(rows, "c1")
    reader = shelf.reader()
    third, second, first = reader.dead_letters()
    assert (first.size, first.state, first.whole, first.reason) == (2, "dead", True, "rejected")
    assert [letter.id for letter in reader.dead_letters(watcher="v")] == [second.id]
    assert [letter.id for letter in reader.dead_letters(reason="rejected", limit=1)] == [third.id]
    assert reader.dead_letters(stream="bills") == []
    whole = reader.dead_letter(first.id)
    assert (whole.letter, whole.body, whole.key) == (first, b"\0\xff", b"k")
    assert reader.dead_letter(999) is None


async def test_dropped_dead_letters_are_kept_and_listed_apart(shelf: Any, letter_row: Letters) -> None:
    store = await shelf.open()
    await store.commit([letter_row(1), letter_row(2)], "c1")
    reader = shelf.reader()
    ids = [letter.id for letter in reader.dead_letters()]
    assert reader.drop_dead_letters([ids[0], 999]) == 1
    assert reader.drop_dead_letters(ids[:1]) == 0
    assert [letter.id for letter in reader.dead_letters()] == ids[1:]
    assert [letter.id for letter in reader.dead_letters(state="dropped")] == ids[:1]
    await store.commit([letter_row(2)], "c2")
    assert [letter.state for letter in reader.dead_letters(state=None)] == ["dead", "dead"]


async def test_an_intent_is_seen_to_be_done(shelf: Any) -> None:
    store = await shelf.open()
    await store.register({"w": "1"}, {})
    reader = shelf.reader()
    number = reader.post("resume", watcher="w", skip=True)
    assert not reader.intent_done(number)
    assert [(i.kind, i.watcher, i.skip) for i in await store.take_intents()] == [("resume", "w", True)]
    assert reader.intent_done(number)
    assert reader.intent(number).outcome == "done"
    assert not reader.intent_done(999)


async def test_an_intent_waits_for_the_next_instance(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    number = shelf.reader().post("disable", watcher="w")
    store = await shelf.open()
    await store.register({"w": "1"}, {})
    assert [intent.id for intent in await store.take_intents()] == [number]
    assert [(view.id, view.disabled, view.removed_at) for view in shelf.reader().watchers()] == [("w", True, None)]


async def test_a_reader_works_while_commits_go_on_and_sees_only_whole_ones(shelf: Any, run_row: Rows) -> None:
    store = await shelf.open()
    reader = shelf.reader()
    for n in range(5):
        await store.commit([run_row(f"{n}-{m}") for m in range(10)], f"c{n}")
        assert sum(count for _, _, count in reader.counts().runs) == 10 * (n + 1)


async def test_a_reader_leaves_no_connection_open(shelf: Any) -> None:
    await shelf.open()
    reader = shelf.reader()
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        reader.instances()
        reader.post("pause", watcher="w")
    assert len(os.listdir("/dev/fd")) == before


async def test_a_store_that_goes_away_under_a_reader_is_unavailable(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    reader = shelf.reader()
    shelf.path.unlink()
    with pytest.raises(StoreUnavailable, match="can't be opened"):
        reader.instances()
    assert not shelf.path.exists()
