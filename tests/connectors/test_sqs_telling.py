"""What people are told: trouble, clocks that differ, and how queues are set up."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from bridge.core.errors import Refused, Transient
from connectors.sqs import SqsOptions, judging
from connectors.sqs.health import PATIENCE, Health
from connectors.sqs.messages import Message
from connectors.sqs.places import Queue
from connectors.sqs.producer import rest_of
from connectors.sqs.skew import Skew, skew_of

# Trouble -------------------------------------------------------------------------------------------------------------


def test_a_failure_that_passes_is_no_trouble_before_it_lasts() -> None:
    now = 100.0
    health = Health("orders", lambda: now)
    health.failed("reading", Transient("reset"))
    assert health.trouble is None
    now += PATIENCE
    health.failed("reading", Transient("throttled"))
    assert health.trouble == "reading 'orders' has failed for 5 s, tried again all the time: throttled"
    health.worked("reading")
    assert health.trouble is None


def test_what_a_person_has_to_mend_is_trouble_at_once() -> None:
    health = Health("orders", lambda: 0.0)
    health.failed("settling", Refused("no right"))
    assert health.trouble is not None
    health.worked("reading")
    assert "no right" in health.trouble


def test_of_two_troubles_the_older_is_told() -> None:
    now = 0.0
    health = Health("orders", lambda: now)
    health.failed("settling", Refused("first"))
    now = 1.0
    health.failed("reading", Refused("second"))
    assert health.trouble is not None
    assert "first" in health.trouble


# Clocks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "sent", "answered", "skew"),
    [(100.0, 99.5, 100.5, 0.0), (100.0, 90.0, 110.0, 0.0), (100.0, 100.9, 101.2, 0.0), (100.0, 107.0, 107.5, 7.0),
     (100.0, 90.0, 91.0, -9.0)],
)  # fmt: skip
def test_a_clock_is_only_off_as_far_as_the_call_does_not_explain_it(
    theirs: float, sent: float, answered: float, skew: float
) -> None:
    assert skew_of(theirs, sent, answered) == skew


def answer_at(time: float) -> dict[str, Any]:
    return {"ResponseMetadata": {"HTTPHeaders": {"date": formatdate(time, usegmt=True)}}}


def test_a_clock_that_is_more_than_5_seconds_off_is_trouble() -> None:
    skew = Skew(now=lambda: 1_000_010.0, monotonic=lambda: 0.0)
    skew.note(answer_at(1_000_000.0), 1_000_010.0)
    assert skew.trouble is not None
    assert "10 s ahead of" in skew.trouble


def test_a_clock_that_is_a_little_off_is_not() -> None:
    skew = Skew(now=lambda: 1_000_004.0, monotonic=lambda: 0.0)
    skew.note(answer_at(1_000_000.0), 1_000_004.0)
    assert (skew.seconds, skew.trouble) == (4.0, None)


@pytest.mark.parametrize("answer", [{}, {"ResponseMetadata": {"HTTPHeaders": {"date": "soon"}}}])
def test_an_answer_without_a_time_says_nothing(answer: dict[str, Any]) -> None:
    skew = Skew(now=lambda: 0.0, monotonic=lambda: 0.0)
    skew.note(answer, 0.0)
    assert (skew.seconds, skew.trouble) == (None, None)


# Rests ---------------------------------------------------------------------------------------------------------------


def test_a_message_that_failed_rests_longer_with_each_delivery() -> None:
    def rest(deliveries: int | None, roll: float = 0.0) -> int:
        message = Message(key="m", handle="h", deliveries=deliveries, system={}, attributes={})
        return rest_of(message, roll)

    assert [rest(n) for n in (None, 1, 2, 3, 4, 100)] == [1, 1, 2, 4, 8, 60]
    assert rest(100, roll=0.99) == 72


# How queues are set up -----------------------------------------------------------------------------------------------

OPTIONS = SqsOptions(queue="orders")


def found(attributes: dict[str, str], name: str = "orders") -> list[str]:
    return [finding.message for finding in judging.of_queue(Queue(name), attributes, OPTIONS)]


def test_a_queue_that_is_set_up_well_is_not_spoken_of() -> None:
    policy = '{"deadLetterTargetArn": "arn:aws:sqs:eu-west-1:1:dead", "maxReceiveCount": 100}'
    assert found({"RedrivePolicy": policy, "MessageRetentionPeriod": "345600", "VisibilityTimeout": "30"}) == []
    assert found({}) == []


@pytest.mark.parametrize("count", ["3", '"3"'])
def test_a_redrive_policy_that_moves_messages_away_soon_is_a_warning(count: str) -> None:
    [said] = found({"RedrivePolicy": f'{{"maxReceiveCount": {count}}}'})
    assert "after 3 receives" in said


def test_a_policy_that_can_not_be_read_says_nothing() -> None:
    assert found({"RedrivePolicy": "{"}) == found({"RedrivePolicy": "[]"}) == []


def test_a_short_retention_is_a_warning() -> None:
    [said] = found({"MessageRetentionPeriod": "3600"})
    assert "1h only" in said


@pytest.mark.parametrize(("name", "most"), [("orders", 120_000), ("orders.fifo", 20_000)])
def test_a_queue_that_has_lent_nearly_all_it_can_is_a_warning(name: str, most: int) -> None:
    assert found({"ApproximateNumberOfMessagesNotVisible": str(most // 2)}, name) == []
    [said] = found({"ApproximateNumberOfMessagesNotVisible": str(most - 1)}, name)
    assert f"lends {most}" in said


def test_a_key_that_could_not_be_tried_is_a_warning() -> None:
    [said] = found({"KmsMasterKeyId": "alias/mine"})
    assert "alias/mine" in said
    [finding] = judging.of_dead_letters(Queue("dead"), {"KmsMasterKeyId": "alias/mine"})
    assert "kms:GenerateDataKey" in finding.hint


def test_a_name_that_is_nearly_right_is_offered() -> None:
    finding = judging.of_missing(Queue("order"), "queue", ["orders", "bills"], "in region eu-west-1")
    assert finding.severity == "error"
    assert "'orders'" in finding.hint
    assert "bills" not in finding.hint
