"""`validate --connect`: what the settings of a subscription mean, and what is asked of the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.emulated import Emulated
from bench.brokers.pubsub.fixtures import NewSubscription
from bench.brokers.pubsub.serving import PubSub
from bridge.ports import Finding
from connectors.pubsub import KIND, PubSubOptions
from connectors.pubsub.client import Subscription
from connectors.pubsub.judging import of_subscription
from connectors.pubsub.options import DeadLetterTopic

NAME = "projects/acme-prod/subscriptions/orders"
TOPIC = "projects/acme-prod/topics/orders"


def found(described: dict[str, Any], **changes: Any) -> list[Finding]:
    return list(
        of_subscription(Subscription(name=NAME, topic=TOPIC, **described), PubSubOptions(subscription=NAME, **changes))
    )


def told(findings: Sequence[Finding], severity: str) -> str:
    return "\n".join(each.message for each in findings if each.severity == severity)


def test_a_plain_subscription_is_fine() -> None:
    assert found({}) == []


@pytest.mark.parametrize(
    ("described", "says"),
    [
        ({"push_config": {"push_endpoint": "https://example.com/hook"}}, "pushes to https://example.com/hook"),
        ({"detached": True}, "is detached"),
        ({"bigquery_config": {"table": "a.b.c"}}, "bigquery_config"),
    ],
)
def test_what_can_not_be_pulled_is_an_error(described: dict[str, Any], says: str) -> None:
    assert says in told(found(described), "error")


def test_a_topic_that_was_deleted_is_an_error() -> None:
    described = Subscription(name=NAME, topic="_deleted-topic_")
    assert "was deleted" in told(list(of_subscription(described, PubSubOptions(subscription=NAME))), "error")


@pytest.mark.parametrize(
    ("described", "says"),
    [
        (
            {"dead_letter_policy": {"dead_letter_topic": "projects/p/topics/dlq", "max_delivery_attempts": 7}},
            "after 7 deliveries the service itself moves a message to projects/p/topics/dlq",
        ),
        ({"filter": 'attributes.region = "eu"'}, "has a filter"),
        ({"message_retention_duration": Duration(seconds=600)}, "keeps messages for 10m"),
        ({"expiration_policy": {"ttl": Duration(seconds=86400 * 31)}}, "nobody has read it for 31d"),
    ],
)
def test_what_may_surprise_is_a_warning(described: dict[str, Any], says: str) -> None:
    assert says in told(found(described), "warning")


def test_exactly_once_wants_longer_leases() -> None:
    assert "`ack_deadline` is 30s" in told(found({"enable_exactly_once_delivery": True}, ack_deadline=30.0), "warning")
    assert found({"enable_exactly_once_delivery": True}) == []


def test_order_wants_one_stream() -> None:
    assert "`streams` is 2" in told(found({"enable_message_ordering": True}, streams=2), "warning")


def test_dead_letters_that_would_be_read_again_are_an_error() -> None:
    assert "comes again" in told(found({}, dead_letter=DeadLetterTopic(topic="orders")), "error")


# At the service -------------------------------------------------------------------------------------------------------


async def looked(address: str, name: str, topic: str | None = None) -> list[Finding]:
    place = None if topic is None else DeadLetterTopic(topic=topic)
    assert KIND.examine is not None
    return list(await KIND.examine(PubSubOptions(subscription=name, endpoint=address, dead_letter=place)))


@pytest.mark.integration
async def test_a_subscription_that_is_there_is_looked_at_and_nothing_is_taken(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription
) -> None:
    made = await subscription(attempts=7)
    await topics.publish(pubsub.address, made.topic, [b"m"])
    findings = await looked(pubsub.address, made.name)
    assert told(findings, "error") == ""
    assert "after 7 deliveries" in told(findings, "warning")
    assert "an emulator" in told(findings, "warning")
    assert list(pubsub_control.deliveries(made.name).values()) == [0]


@pytest.mark.integration
async def test_what_is_missing_is_named(pubsub: PubSub, subscription: NewSubscription) -> None:
    made = await subscription()
    assert "there is no projects/tests/subscriptions/none" in told(
        await looked(pubsub.address, "projects/tests/subscriptions/none"), "error"
    )
    assert "there is no projects/tests/topics/none for dead letters" in told(
        await looked(pubsub.address, made.name, "projects/tests/topics/none"), "error"
    )


@pytest.mark.integration
async def test_a_right_to_look_that_is_missing_is_a_warning(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription
) -> None:
    made = await subscription()
    pubsub_control.fail_calls("GetSubscription", "PERMISSION_DENIED")
    findings = await looked(pubsub.address, made.name)
    assert told(findings, "error") == ""
    assert "we may not look at" in told(findings, "warning")


@pytest.mark.integration
async def test_a_service_that_is_not_there_is_an_error(own_pubsub: Emulated) -> None:
    own_pubsub.kill()
    assert "UNAVAILABLE" in told(await looked(own_pubsub.address, "projects/tests/subscriptions/s"), "error")
