"""What an outcome means for the broker, and who waits for which of its answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bridge.core.errors import Transient
from bridge.core.model import AdvanceBatch, AdvanceItem, AdvanceOutcome, Rejection, outcome_of
from connectors.servicebus.answers import Answers, Awaited
from connectors.servicebus.settling import COMPLETE, LONGEST_REASON, runs_of, verdict_of

ACKED, FAILED, REJECTED = outcome_of(1, 0, 0), outcome_of(0, 1, 0), outcome_of(0, 0, 1)


def rejected(*rejections: Rejection) -> AdvanceOutcome:
    return AdvanceOutcome(0, 0, len(rejections), rejections)


def test_what_is_clean_is_completed_and_what_failed_is_not_settled_now() -> None:
    assert verdict_of(ACKED) is COMPLETE
    assert verdict_of(FAILED) is None
    assert verdict_of(outcome_of(1, 1, 1)) is None


def test_a_reject_is_a_dead_letter_with_its_reason_and_who_said_so() -> None:
    verdict = verdict_of(rejected(Rejection("eu_orders", "max_attempts", 5, "KeyError: 'id'"), Rejection("b", "bad")))
    assert verdict is not None
    assert (verdict.what, verdict.reason) == ("suspended", "max_attempts")
    assert verdict.description == "eu_orders: max_attempts after 5 attempts: KeyError: 'id'\nb: bad"
    assert verdict.details == {"deadletter-reason": "max_attempts", "deadletter-description": verdict.description}


def test_a_reject_that_says_nothing_has_a_reason_all_the_same() -> None:
    verdict = verdict_of(REJECTED)
    assert verdict is not None
    assert verdict.reason == "rejected"


def test_reason_and_description_keep_to_what_the_service_takes() -> None:
    verdict = verdict_of(rejected(Rejection("w", "r" * 5000, 1, "e" * 9000)))
    assert verdict is not None
    assert (len(verdict.reason), len(verdict.description)) == (LONGEST_REASON, LONGEST_REASON)


def test_a_batch_may_be_items() -> None:
    items: list[Any] = [AdvanceItem("a", ACKED), AdvanceItem("b", FAILED)]
    assert runs_of(items) == [(ACKED, ["a"]), (FAILED, ["b"])]
    assert runs_of(AdvanceBatch([(ACKED, ["a", "b"])], 2)) == [(ACKED, ["a", "b"])]


# Answers -------------------------------------------------------------------------------------------------------------


async def test_a_call_has_its_answer_once_all_of_its_messages_have_one() -> None:
    awaited = Awaited()
    answers = awaited.expect([3, 4, 9])
    awaited.answer(3, 4, "accepted")
    assert (answers.left, answers.done.done()) == (1, False)
    awaited.answer(9, 9, "accepted")
    await answers.wait()
    assert answers.outcomes == {3: "accepted", 4: "accepted", 9: "accepted"}
    assert len(awaited) == 0


async def test_an_answer_for_a_range_that_is_too_wide_walks_what_is_awaited() -> None:
    awaited = Awaited()
    one, two = awaited.expect([1]), awaited.expect([7])
    awaited.answer(0, 2**32 - 1, "accepted")
    assert (one.left, two.left, len(awaited)) == (0, 0, 0)


async def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    awaited = Awaited()
    answers = awaited.expect([5])
    awaited.answer(4, 4, "accepted")
    assert answers.left == 1
    awaited.forget(answers)
    awaited.answer(5, 5, "accepted")
    assert (answers.outcomes, len(awaited)) == ({}, 0)


async def test_whoever_waits_hears_that_nothing_more_comes() -> None:
    awaited = Awaited()
    answers = awaited.expect([1, 2])
    waiting = asyncio.create_task(answers.wait())
    await asyncio.sleep(0)
    awaited.give_up(Transient("the link is gone"))
    with pytest.raises(Transient, match="the link is gone"):
        await waiting
    assert len(awaited) == 0


async def test_a_call_for_no_message_waits_for_nothing() -> None:
    await Answers([]).wait()
