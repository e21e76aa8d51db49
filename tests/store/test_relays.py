"""Dead letters on their way to the broker's own place, as the database holds them and people see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bridge.core.model import TOMBSTONE
from bridge.ports import DeadLetterRow, RelayedRow

Letters = Callable[..., DeadLetterRow]


async def test_what_somebody_has_dropped_is_not_copied_any_more(shelf: Any, letter_row: Letters) -> None:
    store = await shelf.open()
    await store.commit([letter_row(1, relays=True), letter_row(2, relays=True)], "c1")
    first = next(letter.id for letter in shelf.reader().dead_letters() if letter.identity == "1")
    assert shelf.reader().drop_dead_letters([first]) == 1
    assert [letter.identity for letter in await store.claim_letters("orders", 10, 60)] == ["2"]


async def test_a_copy_that_was_under_way_when_its_letter_was_dropped_is_still_told(
    shelf: Any, letter_row: Letters
) -> None:
    store = await shelf.open()
    await store.commit([letter_row(1, relays=True)], "c1")
    (letter,) = await store.claim_letters("orders", 10, 60)
    shelf.reader().drop_dead_letters([letter.number])
    await store.commit([RelayedRow(letter.number)], "c2")
    (listed,) = shelf.reader().dead_letters("dropped")
    assert (listed.relayed_at, listed.relay_due) == (shelf.now, None)


async def test_people_see_which_were_copied_which_wait_and_which_were_refused(shelf: Any, letter_row: Letters) -> None:
    store = await shelf.open()
    await store.commit([letter_row(n, relays=n > 0) for n in range(5)], "c1")
    letters = await store.claim_letters("orders", 3, 60)
    told = [RelayedRow(letters[0].number), RelayedRow(letters[1].number, "too large")]
    await store.commit([*told, RelayedRow(letters[2].number, "away", shelf.now + 9)], "c2")
    found = {letter.identity: letter for letter in shelf.reader().dead_letters()}
    assert {name: (one.relayed_at, one.relay_due, one.relay_error) for name, one in found.items()} == {
        "0": (None, None, ""),
        "1": (shelf.now, None, ""),
        "2": (None, None, "too large"),
        "3": (None, shelf.now + 9, "away"),
        "4": (None, shelf.now, ""),
    }
    assert shelf.reader().counts().relays == (("orders", 2),)


async def test_a_message_without_a_body_is_told_from_one_that_says_null(shelf: Any, letter_row: Letters) -> None:
    store = await shelf.open()
    await store.commit([letter_row(1, body=TOMBSTONE, tombstone=True), letter_row(2, body=b"null")], "c1")
    found = {letter.identity: letter for letter in shelf.reader().dead_letters()}
    assert (found["1"].tombstone, found["1"].size, found["1"].whole) == (True, 0, True)
    assert (found["2"].tombstone, found["2"].size, found["2"].whole) == (False, 4, True)


async def test_a_look_for_letters_that_are_due_goes_by_an_index_and_writes_nothing(
    shelf: Any, letter_row: Letters
) -> None:
    store = await shelf.open()
    await store.commit([letter_row(n) for n in range(10)], "c1")
    log = shelf.path.with_name(shelf.path.name + "-wal")
    before = log.stat().st_size
    for _ in range(5):
        assert await store.claim_letters("orders", 100, 60) == []
    assert log.stat().st_size == before
    plan = shelf.sql(
        "EXPLAIN QUERY PLAN SELECT id FROM dead_letters WHERE stream = 'orders' AND relay_due <= ? AND state = 'dead' "
        "ORDER BY relay_due, id",
        shelf.now,
    )
    assert [row[-1] for row in plan] == [
        "SEARCH dead_letters USING INDEX dead_letters_relay (stream=? AND relay_due<?)"
    ]


async def test_places_that_did_not_change_are_not_written_again(shelf: Any) -> None:
    store = await shelf.open()
    places = {"orders": {f"orders/{n}": str(n) for n in range(500)}}
    await store.heartbeat(b"{}", places)
    log = shelf.path.with_name(shelf.path.name + "-wal")
    before = log.stat().st_size
    await store.heartbeat(b"{}", places)
    assert log.stat().st_size - before < 20_000
    shelf.sql("UPDATE places SET place = 'x'")
    await store.heartbeat(b"{}", {"orders": {"orders/1": "2"}})
    assert shelf.sql("SELECT lane, place FROM places") == [("orders/1", "2")]
