"""Whole processes against the queue brokers."""

from __future__ import annotations

import pytest

from tests.integration.queues.brokers import PubSubSubscription, Queue, ServiceBusQueue, SqsQueue

DELIVERIES = 5


@pytest.fixture(params=["sqs", "pubsub", "servicebus"])
def lent(request: pytest.FixtureRequest) -> Queue:
    """A queue of the test's own. What is delivered five times without being settled is taken away by the broker."""
    match request.param:
        case "sqs":
            new = request.getfixturevalue("queue")
            url = new.now(visibility=5, redrive=DELIVERIES)
            return SqsQueue(request.getfixturevalue("sqs").url, url, new.made[0])
        case "pubsub":
            made = request.getfixturevalue("subscription").now(attempts=DELIVERIES)
            return PubSubSubscription(
                request.getfixturevalue("pubsub").address, made, request.getfixturevalue("pubsub_control")
            )
        case _:
            path = request.getfixturevalue("entity").queue(lock=5, max_delivery=DELIVERIES)
            address = request.getfixturevalue("servicebus").connection_string
            return ServiceBusQueue(address, path, request.getfixturevalue("servicebus_control"))
