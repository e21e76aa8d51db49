"""What a user writes for a stream of kind `pubsub`, and what is found wrong with it before anything is connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from connectors.pubsub import KIND, PubSubOptions
from connectors.pubsub.check import problems_of
from connectors.pubsub.options import DeadLetterTopic, is_plain, subscription_of, target_of, topic_of

WHOLE = "projects/acme-prod/subscriptions/orders"


def options(**changes: Any) -> PubSubOptions:
    return msgspec.convert({"subscription": WHOLE, **changes}, PubSubOptions)


def problems(**changes: Any) -> str:
    return "\n".join(problems_of(options(**changes), {}))


def test_a_whole_name_is_enough() -> None:
    assert problems() == ""
    assert KIND.source(options()) == f"pubsub:{WHOLE}"


def test_a_short_name_needs_its_project() -> None:
    assert subscription_of(options(subscription="orders", project="acme-prod")) == WHOLE
    assert "'orders' is no name" in problems(subscription="orders")
    assert "given twice" in problems(project="acme-prod")


@pytest.mark.parametrize(
    ("subscription", "says"),
    [
        ("projects/acme-prod/topics/orders", "is no name"),
        ("projects/acme-prod/subscriptions/", "can't be a name"),
        ("projects/acme-prod/subscriptions/google", "can't be a name"),
        ("projects/Acme/subscriptions/orders", "can't be the id of a project"),
    ],
)
def test_a_name_that_nothing_can_have_is_refused(subscription: str, says: str) -> None:
    assert says in problems(subscription=subscription)


def test_a_dead_letter_topic_is_in_the_project_of_the_subscription_unless_it_says_otherwise() -> None:
    assert topic_of(options(), DeadLetterTopic(topic="orders-dlq")) == "projects/acme-prod/topics/orders-dlq"
    assert topic_of(options(), DeadLetterTopic(topic="projects/other/topics/dlq")) == "projects/other/topics/dlq"
    assert "`dead_letter.topic`" in problems(dead_letter={"topic": "x"})


def test_a_plain_endpoint_is_an_emulator_and_https_is_google() -> None:
    emulator = options(endpoint="localhost:8085")
    regional = options(endpoint="https://europe-west1-pubsub.googleapis.com")
    assert (is_plain(emulator), target_of(emulator)) == (True, "localhost:8085")
    assert (is_plain(regional), target_of(regional)) == (False, "europe-west1-pubsub.googleapis.com:443")
    assert (is_plain(options()), target_of(options())) == (False, "pubsub.googleapis.com:443")


@pytest.mark.parametrize("endpoint", ["localhost", "http://localhost:8085", "localhost:0", "localhost:99999", "a b:1"])
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    assert "`endpoint`" in problems(endpoint=endpoint)


def test_the_variable_of_the_emulator_is_never_ignored_in_silence() -> None:
    variable = {"PUBSUB_EMULATOR_HOST": "localhost:8085"}
    (said,) = problems_of(options(), variable)
    assert "endpoint: ${PUBSUB_EMULATOR_HOST}" in said
    assert not problems_of(options(endpoint="localhost:8085"), variable)


def test_credentials_for_an_emulator_would_not_be_used_and_are_refused(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text("{}")
    assert "would not be used" in problems(endpoint="localhost:8085", credentials_file=str(key))


def test_a_file_that_is_not_there_is_named() -> None:
    assert "/nowhere/key.json: there is no such file" in problems(credentials_file="/nowhere/key.json")


def test_leases_are_whole_seconds() -> None:
    assert "whole seconds" in problems(ack_deadline=10.5)


@pytest.mark.parametrize("seconds", [9.0, 601.0])
def test_leases_are_within_the_limits_of_the_service(seconds: float) -> None:
    with pytest.raises(msgspec.ValidationError):
        options(ack_deadline=seconds)


def test_the_longest_retry_delay_is_not_shorter_than_the_first() -> None:
    assert "`retry_delay_max` 10s is less than `retry_delay` 20s" in problems(retry_delay=20.0, retry_delay_max=10.0)
