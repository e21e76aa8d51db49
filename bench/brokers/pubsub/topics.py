"""Topics and subscriptions of a Pub/Sub for tests: made, filled and emptied, each as a coroutine.

`address` is `host:port` without encryption, `project` anybody's. `apart(coroutine)` of bench/brokers/topics.py runs one
from a test without a loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import grpc
from google.api_core.exceptions import AlreadyExists
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient, types
from google.pubsub_v1.services.publisher.transports import PublisherGrpcAsyncIOTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcAsyncIOTransport

from bench.brokers.topics import apart as apart

PROJECT: Final = "tests"
WITHIN: Final = 20.0


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[tuple[Any, Any]]:
    """A publisher and a subscriber of the GAPIC kind, which know no PUBSUB_EMULATOR_HOST."""
    async with grpc.aio.insecure_channel(address) as channel:
        publisher = PublisherAsyncClient(transport=PublisherGrpcAsyncIOTransport(channel=channel))
        subscriber = SubscriberAsyncClient(transport=SubscriberGrpcAsyncIOTransport(channel=channel))
        yield publisher, subscriber


async def create(
    address: str,
    topic: str,
    subscription: str | None = None,
    *,
    ordered: bool = False,
    exactly_once: bool = False,
    ack_deadline: int = 10,
    dead_letter: str | None = None,
    attempts: int = 5,
) -> None:
    """Whole names. `dead_letter`: a topic that is there."""
    async with clients(address) as (publisher, subscriber):
        with suppress(AlreadyExists):
            await publisher.create_topic(name=topic, timeout=WITHIN)
        if subscription is None:
            return
        wanted: dict[str, Any] = {
            "name": subscription,
            "topic": topic,
            "ack_deadline_seconds": ack_deadline,
            "enable_message_ordering": ordered,
            "enable_exactly_once_delivery": exactly_once,
        }
        if dead_letter is not None:
            wanted["dead_letter_policy"] = types.DeadLetterPolicy(
                dead_letter_topic=dead_letter, max_delivery_attempts=attempts
            )
        await subscriber.create_subscription(request=wanted, timeout=WITHIN)


async def delete(address: str, *, topics: Sequence[str] = (), subscriptions: Sequence[str] = ()) -> None:
    async with clients(address) as (publisher, subscriber):
        for name in subscriptions:
            await subscriber.delete_subscription(subscription=name, timeout=WITHIN)
        for name in topics:
            await publisher.delete_topic(topic=name, timeout=WITHIN)


async def publish(
    address: str,
    topic: str,
    bodies: Sequence[bytes],
    *,
    key: str = "",
    keys: Sequence[str] | None = None,
    attributes: Mapping[str, str] | None = None,
) -> list[str]:
    """The ids of the messages. `key`, or one of `keys` for each, is the ordering key."""
    ids: list[str] = []
    named = [key] * len(bodies) if keys is None else list(keys)
    async with clients(address) as (publisher, _):
        for start in range(0, len(bodies), 500):
            messages = [
                types.PubsubMessage(data=body, ordering_key=each, attributes=dict(attributes or {}))
                for body, each in zip(bodies[start : start + 500], named[start : start + 500], strict=True)
            ]
            ids += (await publisher.publish(topic=topic, messages=messages, timeout=WITHIN)).message_ids
    return ids


async def take(address: str, subscription: str, most: int, *, within: float = 2.0) -> list[Any]:
    """Pulls and acks up to `most` messages, until a pull of `within` seconds brings none; each a ReceivedMessage."""
    taken: list[Any] = []
    async with clients(address) as (_, subscriber):
        while len(taken) < most:
            pulled = await subscriber.pull(
                subscription=subscription, max_messages=min(1000, most - len(taken)), timeout=within
            )
            if not pulled.received_messages:
                break
            taken += pulled.received_messages
            ids = [each.ack_id for each in pulled.received_messages]
            await subscriber.acknowledge(subscription=subscription, ack_ids=ids, timeout=WITHIN)
    return taken
