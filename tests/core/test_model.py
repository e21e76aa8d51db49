"""Batches, outcomes, delays and quantities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.model import AdvanceBatch, AdvanceItem, AdvanceOutcome, outcome_of
from bridge.core.retry import Backoff
from bridge.core.units import format_duration, format_size, parse_duration, parse_size

RUNS = st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(), min_size=1, max_size=4)), min_size=1, max_size=5)


@given(RUNS)
def test_a_batch_reads_like_the_list_of_its_items(runs: list[tuple[int, list[int]]]) -> None:
    items = [AdvanceItem(p, outcome_of(a, 0, 0)) for a, payloads in runs for p in payloads]
    batch = AdvanceBatch([(outcome_of(a, 0, 0), payloads) for a, payloads in runs], len(items))
    assert list(batch) == items
    assert [batch[i] for i in range(-len(items), len(items))] == items + items
    assert batch[1:] == items[1:]
    assert batch.payloads == [p for p, _ in items]
    assert batch.last_payload == items[-1].broker_payload
    with pytest.raises(IndexError):
        batch[len(items)]


def test_an_item_unpacks_as_in_airflow() -> None:
    for payload, outcome in AdvanceBatch([(outcome_of(1, 0, 0), ["p"])], 1):
        assert payload == "p"
        assert outcome == AdvanceOutcome(acked=1, failed=0)


@pytest.mark.parametrize(
    ("acked", "failed", "rejected", "clean"), [(1, 0, 0, True), (0, 0, 0, False), (1, 1, 0, False), (1, 0, 1, False)]
)
def test_clean_is_no_reject_no_failure_and_somebody_who_acked(
    acked: int, failed: int, rejected: int, clean: bool
) -> None:
    assert AdvanceOutcome(acked, failed, rejected).is_clean is clean


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_delay_grows_to_its_maximum_and_never_past_its_jitter(attempts: int, roll: float) -> None:
    backoff = Backoff(delay=0.5, factor=2.0, max=10.0, jitter=0.2)
    assert 0.5 <= backoff.after(attempts, roll) <= 12.0
    assert backoff.after(attempts) <= backoff.after(attempts + 1)


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("5m", 300), ("2h", 7200), ("1.5s", 1.5)])
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["30", "", "s", "5 minutes", "-5s", "1_0s", "5M"])
def test_a_duration_without_a_known_unit_says_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="500ms, 30s"):
        parse_duration(text)


@given(st.integers(1, 2**50))
def test_sizes_and_durations_are_written_as_they_are_read(number: int) -> None:
    assert parse_size(format_size(number)) == number
    assert parse_duration(format_duration(number)) == number
