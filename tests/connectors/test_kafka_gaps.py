"""Offsets that a broker does not have."""

from __future__ import annotations

from aiokafka import TopicPartition

from connectors.kafka.gaps import Gap, gap_of

ORDERS = TopicPartition("orders", 3)


def test_what_retention_has_deleted_is_a_gap_with_its_range() -> None:
    gap = gap_of(ORDERS, wanted=100, beginning=500, end=900)
    assert gap == Gap(ORDERS, first=100, last=499, resumes=500)
    assert gap is not None
    assert gap.records == 400
    for words in ("orders/3", "100 to 499", "400 records", "offset 500"):
        assert words in gap.words


def test_a_log_that_was_emptied_is_a_gap_up_to_its_end() -> None:
    assert gap_of(ORDERS, wanted=100, beginning=900, end=900) == Gap(ORDERS, 100, 899, 900)


def test_a_log_that_ends_in_front_of_the_offset_is_another_one() -> None:
    gap = gap_of(ORDERS, wanted=100, beginning=0, end=40)
    assert gap is not None
    assert gap.is_new_log
    assert (gap.resumes, gap.records) == (0, 0)
    assert "counts as unread" in gap.words


def test_an_offset_that_is_there_after_all_is_no_gap() -> None:
    for wanted in (500, 700, 900):
        assert gap_of(ORDERS, wanted, beginning=500, end=900) is None
