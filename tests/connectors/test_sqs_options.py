"""What is written for a stream of kind `sqs`: problems are told before anything is connected to."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.sqs import KIND, SqsOptions
from connectors.sqs.options import Credentials, DeadLetterQueue
from connectors.sqs.places import Queue, queue_of

URL = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"


def options_of(**keys: Any) -> SqsOptions:
    return SqsOptions(**{"queue": URL, **keys})


def the_problem(**keys: Any) -> str:
    problems = KIND.check(options_of(**keys))
    assert len(problems) == 1, problems
    return problems[0]


def test_what_is_needed_is_enough() -> None:
    assert list(KIND.check(options_of())) == []
    assert list(KIND.check(options_of(queue="orders.fifo"))) == []
    assert list(KIND.check(options_of(queue=ARN, dead_letter=DeadLetterQueue(queue="orders-dead")))) == []


# Which queue ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "queue"),
    [
        ("orders", Queue("orders")),
        (ARN, Queue("orders", "123456789012", "eu-west-1")),
        ("arn:aws-cn:sqs:cn-north-1:123456789012:a.fifo", Queue("a.fifo", "123456789012", "cn-north-1")),
        (URL, Queue("orders", "123456789012", "eu-west-1", URL)),
        ("http://eu-west-1.queue.amazonaws.com/1/q", Queue("q", "1", "eu-west-1", "http://eu-west-1.queue.amazonaws.com/1/q")),
        ("https://queue.amazonaws.com/1/q", Queue("q", "1", "us-east-1", "https://queue.amazonaws.com/1/q")),
        ("https://sqs.eu-west-1.api.aws/1/q", Queue("q", "1", "eu-west-1", "https://sqs.eu-west-1.api.aws/1/q")),
        ("http://127.0.0.1:4566/00/q", Queue("q", "00", None, "http://127.0.0.1:4566/00/q", False)),
    ],
)  # fmt: skip
def test_a_queue_is_a_url_an_arn_or_a_name(written: str, queue: Queue) -> None:
    assert queue_of(written) == queue


@pytest.mark.parametrize(
    "written",
    ["or ders", "orders.fifo.fifo", "x" * 81, "arn:aws:sns:eu-west-1:123456789012:orders", "https://sqs.eu-west-1.amazonaws.com",
     "ftp://sqs.eu-west-1.amazonaws.com/1/q", "https://user:pw@sqs.eu-west-1.amazonaws.com/1/q"],
)  # fmt: skip
def test_what_is_no_queue_is_shown_as_it_was_written(written: str) -> None:
    said = the_problem(queue=written)
    assert said.startswith("`queue`: ")
    assert repr(written) in said


def test_a_fifo_queue_is_known_by_its_name() -> None:
    assert queue_of("orders.fifo").is_fifo
    assert not queue_of("orders-fifo").is_fifo


def test_the_source_is_the_queue_as_it_was_written_and_needs_no_connection() -> None:
    assert KIND.source(options_of()) == "sqs:eu-west-1/123456789012/orders"
    assert KIND.source(options_of(queue=ARN)) == "sqs:eu-west-1/123456789012/orders"
    assert KIND.source(options_of(queue="orders")) == "sqs:-/-/orders"
    assert KIND.source(options_of(queue="orders", region="eu-west-1")) == "sqs:eu-west-1/-/orders"


def test_a_host_that_is_not_of_aws_needs_an_endpoint() -> None:
    url = "http://127.0.0.1:4566/000000000000/orders"
    assert "`endpoint: http://127.0.0.1:4566`" in the_problem(queue=url)
    assert list(KIND.check(options_of(queue=url, endpoint="http://127.0.0.1:4566"))) == []
    assert "is no URL" in the_problem(endpoint="127.0.0.1:4566")


def test_the_region_is_said_once() -> None:
    assert "leave `region` out" in the_problem(region="us-east-1")
    assert "can't be one" in the_problem(queue="orders", region="Ireland")


# Dead letters --------------------------------------------------------------------------------------------------------


def test_dead_letters_do_not_go_round_in_a_circle() -> None:
    assert "is the queue that this stream reads" in the_problem(dead_letter=DeadLetterQueue(queue="orders"))
    other = DeadLetterQueue(queue="arn:aws:sqs:eu-west-1:210987654321:orders")
    assert list(KIND.check(options_of(dead_letter=other))) == []


def test_a_queue_and_its_dead_letter_queue_are_of_one_type() -> None:
    said = the_problem(dead_letter=DeadLetterQueue(queue="dead.fifo"))
    assert "is a FIFO queue and `queue` a standard one" in said
    said = the_problem(queue="orders.fifo", dead_letter=DeadLetterQueue(queue="dead"))
    assert "is a standard queue and `queue` a FIFO one" in said


def test_a_dead_letter_queue_is_in_the_same_region() -> None:
    said = the_problem(dead_letter=DeadLetterQueue(queue="arn:aws:sqs:us-east-1:123456789012:dead"))
    assert "'us-east-1'" in said


# Times ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 1.0, 12 * 3600 + 1.0])
def test_a_visibility_timeout_is_one_that_sqs_has_and_that_can_be_renewed(seconds: float) -> None:
    assert "`visibility_timeout`" in the_problem(visibility_timeout=seconds)


def test_sqs_counts_whole_seconds() -> None:
    assert "whole seconds" in the_problem(visibility_timeout=30.5)
    assert "whole seconds" in the_problem(wait_time=1.5)


@pytest.mark.parametrize("seconds", [0.0, 21.0])
def test_a_long_poll_waits_1_to_20_seconds(seconds: float) -> None:
    assert "`wait_time`" in the_problem(wait_time=seconds)


# Who we are ----------------------------------------------------------------------------------------------------------


def test_a_key_is_never_shown() -> None:
    credentials = Credentials(access_key_id="AKIA1", secret_access_key="hunter2!", session_token="tok")
    options = options_of(credentials=credentials, profile="other")
    assert "two answers" in "".join(KIND.check(options))
    for shown in (repr(options), repr(credentials), "".join(KIND.check(options))):
        assert "hunter2!" not in shown
        assert "tok" not in shown.replace("token", "")


def test_a_role_is_an_arn() -> None:
    assert "arn:aws:iam::ACCOUNT:role/NAME" in the_problem(role_arn="reader")
    assert "without `role_arn`" in the_problem(external_id="x")
    assert list(KIND.check(options_of(role_arn="arn:aws:iam::123456789012:role/reader", external_id="x"))) == []
