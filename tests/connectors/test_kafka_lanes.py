"""What is held of a partition, and what settling it means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from aiokafka import ConsumerRecord, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.model import TOMBSTONE, AdvanceBatch, AdvanceItem, outcome_of
from connectors.kafka.lanes import (
    Held,
    Mark,
    Origin,
    Record,
    identity_of,
    mark_of,
    meta_of,
    origin_of,
    settlement_of,
    stretch_of,
)

ORDERS = TopicPartition("orders", 3)
ACKED, FAILED, REJECTED = outcome_of(2, 0, 0), outcome_of(1, 1, 0), outcome_of(1, 0, 1)


def held(committed: int = 0, delivered: int = 0, position: int = 0) -> Held:
    return Held(ORDERS, 1, committed, delivered, position)


def record(offset: int, of: Held | None = None, timestamp: int = 1_700_000_000_123) -> Record:
    return Record(of or held(), offset, timestamp, b"key", (("a", b"1"),))


def fetched(offset: int, value: bytes | None, key: bytes | None = b"k") -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("orders", 3, offset, 1_000 + offset, 0, key, value, None, 1, 1, (("h", None),))  # type: ignore[arg-type]


# What a fetch gives --------------------------------------------------------------------------------------------------


def test_records_become_bodies_and_payloads_of_their_assignment() -> None:
    mine = held()
    stretch = stretch_of(mine, [fetched(5, b"a"), fetched(9, b"b", None)], deliver_tombstones=False)
    assert stretch.values == [b"a", b"b"]
    assert [(p.offset, p.key, p.headers, p.timestamp) for p in stretch.payloads] == [
        (5, b"k", (("h", None),), 1005),
        (9, None, (("h", None),), 1009),
    ]
    assert all(p.held is mine for p in stretch.payloads)
    assert stretch.tombstones == 0


def test_tombstones_are_left_out_or_told_from_text_and_from_nothing() -> None:
    records = [fetched(0, None), fetched(1, b"null"), fetched(2, b""), fetched(3, None)]
    without = stretch_of(held(), records, deliver_tombstones=False)
    assert (without.values, [p.offset for p in without.payloads], without.tombstones) == ([b"null", b""], [1, 2], 2)
    every = stretch_of(held(), records, deliver_tombstones=True)
    assert [value is TOMBSTONE for value in every.values] == [True, False, False, True]
    assert [p.is_tombstone for p in every.payloads] == [True, False, False, True]
    assert every.tombstones == 2


def test_a_fetch_of_tombstones_alone_gives_nothing() -> None:
    assert stretch_of(held(), [fetched(0, None)], deliver_tombstones=False) == ([], [], 1)


# Names ---------------------------------------------------------------------------------------------------------------


def test_an_identity_tells_records_of_two_topics_under_one_name_apart() -> None:
    assert identity_of(record(7)) == "orders/3/7/1700000000123"
    assert identity_of(record(7, timestamp=1_800_000_000_000)) != identity_of(record(7))


def test_the_origin_is_read_back_from_an_identity() -> None:
    assert origin_of("orders.eu_1-x/3/7/-1") == Origin("orders.eu_1-x", 3, 7, -1)


@pytest.mark.parametrize("text", ["", "orders", "orders/3/7", "a/b/c/d", "orders/3/7/now", "file:/x/y/z"])
def test_what_is_no_identity_has_no_origin(text: str) -> None:
    assert origin_of(text) is None


def test_meta_has_a_time_in_seconds_or_none() -> None:
    meta = meta_of(record(7))
    assert (meta.position, meta.timestamp, meta.lane) == ("orders[3]@7", 1_700_000_000.123, "orders-3")
    assert (meta.key, meta.headers, meta.tombstone) == (b"key", (("a", b"1"),), False)
    assert meta_of(record(7, timestamp=-1)).timestamp is None


# How far -------------------------------------------------------------------------------------------------------------


def test_another_member_goes_on_behind_all_when_nothing_waits_for_settling() -> None:
    assert held(committed=5, delivered=5, position=9).next == 9  # behind a marker
    assert held(committed=4, delivered=5, position=9).next == 4
    assert held(committed=9, delivered=9, position=9).next == 9


def test_settling_means_the_offset_behind_the_last_of_the_prefix() -> None:
    mine = held()
    batch = AdvanceBatch([(ACKED, [record(3, mine), record(4, mine)]), (REJECTED, [record(9, mine)])], 3)
    assert settlement_of(batch) == (mine, 10, None)


def test_what_failed_is_read_again_and_what_is_in_front_of_it_committed() -> None:
    mine = held()
    batch = AdvanceBatch([(ACKED, [record(3, mine)]), (FAILED, [record(7, mine)]), (ACKED, [record(8, mine)])], 3)
    assert settlement_of(batch) == (mine, 4, 7)


def test_a_failure_alone_commits_nothing() -> None:
    mine = held()
    assert settlement_of(AdvanceBatch([(FAILED, [record(7, mine)])], 1)) == (mine, None, 7)


@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([ACKED, FAILED, REJECTED])), min_size=1, max_size=30))
def test_items_one_by_one_settle_like_runs(steps: Sequence[tuple[int, object]]) -> None:
    """As for producers' plain contract. Offsets have holes."""
    mine, offset = held(), 0
    items: list[AdvanceItem] = []
    for step, outcome in steps:
        offset += step
        items.append(AdvanceItem(record(offset, mine), outcome))  # type: ignore[arg-type]
    runs: list[tuple[object, list[Record]]] = []
    for payload, outcome in items:
        if runs and runs[-1][0] is outcome:
            runs[-1][1].append(payload)
        else:
            runs.append((outcome, [payload]))
    whole = settlement_of(AdvanceBatch(runs, len(items)))  # type: ignore[arg-type]
    assert settlement_of(items) == whole
    good = [p.offset for p, outcome in items[: _first_failed(items)]]
    assert whole.next == (good[-1] + 1 if good else None)


def _first_failed(items: Sequence[AdvanceItem]) -> int:
    return next((index for index, (_, outcome) in enumerate(items) if outcome.failed), len(items))


# The mark of a store -------------------------------------------------------------------------------------------------


def test_a_mark_is_read_as_it_was_written() -> None:
    assert mark_of(Mark("store-1", 42).text) == Mark("store-1", 42)
    assert Mark("store-1", 42).text == "headrace/1 store-1 42"


@pytest.mark.parametrize(
    "text", [None, "", "x", "headrace/1 s", "headrace/2 s 1", "headrace/1 s -1", "headrace/1 s 1 2"]
)
def test_what_others_wrote_is_no_mark(text: str | None) -> None:
    assert mark_of(text) is None
