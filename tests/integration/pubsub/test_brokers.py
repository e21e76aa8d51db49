"""What the tests of Pub/Sub run against: our fake, by Google's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument, NotFound, ServiceUnavailable
from google.pubsub_v1 import types

from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.emulated import Emulated
from bench.brokers.pubsub.fixtures import NewSubscription
from bench.brokers.pubsub.serving import PubSub

pytestmark = pytest.mark.integration


async def pulled(subscriber: Any, name: str, most: int = 100, within: float = 3.0) -> list[Any]:
    return list((await subscriber.pull(subscription=name, max_messages=most, timeout=within)).received_messages)


async def test_what_is_published_is_pulled_and_gone_once_it_is_acked(
    pubsub: PubSub, subscription: NewSubscription
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"1", b"2"], attributes={"a": "x"})
    taken = await topics.take(pubsub.address, made.name, 10, within=1.0)
    assert sorted(each.message.data for each in taken) == [b"1", b"2"]
    assert dict(taken[0].message.attributes) == {"a": "x"}
    assert taken[0].delivery_attempt == 0


async def test_after_a_nack_a_key_comes_again_in_order_and_others_go_on(
    pubsub: PubSub, subscription: NewSubscription
) -> None:
    made = await subscription(ordered=True)
    await topics.publish(pubsub.address, made.topic, [b"a0", b"a1", b"b0"], keys=["a", "a", "b"])
    async with topics.clients(pubsub.address) as (_, subscriber):
        first = {each.message.data: each for each in await pulled(subscriber, made.name)}
        assert sorted(first) == [b"a0", b"a1", b"b0"]
        await subscriber.modify_ack_deadline(
            subscription=made.name, ack_ids=[first[b"a0"].ack_id], ack_deadline_seconds=0
        )
        again = await pulled(subscriber, made.name)
    assert [each.message.data for each in again] == [b"a0", b"a1"]


async def test_a_message_that_fails_too_often_goes_to_the_dead_letter_topic(
    pubsub: PubSub, subscription: NewSubscription
) -> None:
    made = await subscription(attempts=5)
    await topics.publish(pubsub.address, made.topic, [b"1"])
    async with topics.clients(pubsub.address) as (_, subscriber):
        for attempt in range(1, 6):
            (message,) = await pulled(subscriber, made.name)
            assert message.delivery_attempt == attempt
            await subscriber.modify_ack_deadline(
                subscription=made.name, ack_ids=[message.ack_id], ack_deadline_seconds=0
            )
    (letter,) = await topics.take(pubsub.address, made.dead_letter, 1)
    assert letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"


async def test_an_exactly_once_subscription_names_the_ids_that_did_not_count(
    pubsub: PubSub, subscription: NewSubscription, pubsub_control: Control
) -> None:
    made = await subscription(exactly_once=True)
    await topics.publish(pubsub.address, made.topic, [b"1", b"2"])
    async with topics.clients(pubsub.address) as (_, subscriber):
        ids = [each.ack_id for each in await pulled(subscriber, made.name)]
        pubsub_control.fail_acks(1, "temporary")
        with pytest.raises(FailedPrecondition) as refused:
            await subscriber.acknowledge(subscription=made.name, ack_ids=[*ids, "nonsense"])
    assert refused.value.metadata == {
        ids[0]: "TRANSIENT_FAILURE_UNORDERED_ACK_ID",
        "nonsense": "PERMANENT_FAILURE_INVALID_ACK_ID",
    }
    assert len(pubsub_control.unacked(made.name)) == 1


async def requests(first: Any, more: asyncio.Queue[Any]) -> AsyncIterator[Any]:
    yield first
    while True:
        yield await more.get()


async def test_a_stream_keeps_its_bound_and_ends_on_request(
    pubsub: PubSub, subscription: NewSubscription, pubsub_control: Control
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"%d" % n for n in range(5)])
    said: asyncio.Queue[Any] = asyncio.Queue()
    first = types.StreamingPullRequest(
        subscription=made.name, stream_ack_deadline_seconds=10, max_outstanding_messages=2
    )
    async with topics.clients(pubsub.address) as (_, subscriber), asyncio.timeout(20):
        stream = await subscriber.streaming_pull(requests=requests(first, said))
        got: list[Any] = []
        async for response in stream:
            got += response.received_messages
            if len(got) == 2:
                assert pubsub_control.stats()["subscriptions"][made.name]["lent"] == 2
                said.put_nowait(types.StreamingPullRequest(ack_ids=[each.ack_id for each in got]))
            if len(got) == 4:
                break
        assert len(pubsub_control.unacked(made.name)) == 3
        pubsub_control.end_streams("UNAVAILABLE")
        with pytest.raises(ServiceUnavailable):
            async for _ in stream:
                pass


async def test_leases_end_early_and_deliveries_are_doubled_on_request(
    pubsub: PubSub, subscription: NewSubscription, pubsub_control: Control
) -> None:
    made = await subscription(ack_deadline=600)
    await topics.publish(pubsub.address, made.topic, [b"1"])
    async with topics.clients(pubsub.address) as (_, subscriber):
        (first,) = await pulled(subscriber, made.name)
        assert pubsub_control.expire(made.name) == 1
        pubsub_control.duplicate()
        (second,) = await pulled(subscriber, made.name)
        (third,) = await pulled(subscriber, made.name)
    assert len({first.ack_id, second.ack_id, third.ack_id}) == 3
    assert list(pubsub_control.deliveries(made.name).values()) == [3]


async def test_calls_are_refused_and_left_without_an_answer(
    pubsub: PubSub, subscription: NewSubscription, pubsub_control: Control
) -> None:
    made = await subscription()
    async with topics.clients(pubsub.address) as (publisher, subscriber):
        with pytest.raises(NotFound):
            await pulled(subscriber, f"{made.name}-not")
        with pytest.raises(InvalidArgument):
            await publisher.publish(topic=made.topic, messages=[types.PubsubMessage()])
        pubsub_control.silent()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await publisher.publish(topic=made.topic, messages=[types.PubsubMessage(data=b"1")])
        pubsub_control.speak()


async def test_one_of_the_tests_own_dies_and_comes_back_empty(own_pubsub: Emulated) -> None:
    name = "projects/tests/topics/orders"
    await topics.create(own_pubsub.address, name)
    own_pubsub.kill()
    await asyncio.to_thread(own_pubsub.start)
    with pytest.raises(NotFound):
        await topics.publish(own_pubsub.address, name, [b"1"])
