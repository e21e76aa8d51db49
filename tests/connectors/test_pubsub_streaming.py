"""Streams that end, fall silent or can't be opened: on our fake, which can be told to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.emulated import Emulated
from bench.brokers.pubsub.fixtures import NewSubscription
from bench.brokers.pubsub.serving import PubSub
from bridge.core.errors import StartRefused
from connectors.pubsub import PubSubOptions
from connectors.pubsub.producer import PubSubProducer
from tests.connectors.pubsub_reader import FAILED, PATIENCE, Read, readers

pytestmark = pytest.mark.integration


@pytest.fixture
async def read() -> AsyncIterator[Read]:
    async with readers() as begin:
        yield begin


# The end of a stream --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["UNAVAILABLE", "OK", "INTERNAL", "CANCELLED", "ABORTED"])
async def test_a_stream_that_ends_in_whichever_way_is_opened_again(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read, status: str
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"before"])
    reader = read(pubsub.address, made)
    await reader.has(b"before")
    assert pubsub_control.end_streams(status) == 1
    await topics.publish(pubsub.address, made.topic, [b"after"])
    await reader.has(b"after")
    assert reader.ended("ended by the service" if status == "OK" else status) == 1
    assert not reader.trouble


async def test_a_stream_on_which_nothing_comes_is_opened_again(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    reader = read(pubsub.address, made, stalled_after=1.0)
    await reader.until(lambda: reader.producer.report().get("streams") == 1)
    pubsub_control.silent()
    await reader.until(lambda: reader.ended("silent") >= 1)
    pubsub_control.speak()
    await topics.publish(pubsub.address, made.topic, [b"m"])
    await reader.has(b"m")


async def test_a_broker_that_hangs_and_comes_back_is_read_on(own_pubsub: Emulated, read: Read) -> None:
    name, topic = "projects/tests/subscriptions/hangs", "projects/tests/topics/hangs"
    await topics.create(own_pubsub.address, topic, name)
    reader = read(own_pubsub.address, name, stalled_after=1.0)
    await reader.until(lambda: reader.producer.report().get("streams") == 1)
    own_pubsub.freeze()
    await reader.until(lambda: reader.ended("silent") >= 1)
    own_pubsub.thaw()
    await topics.publish(own_pubsub.address, topic, [b"m"])
    await reader.has(b"m")


async def test_a_broker_that_is_gone_is_trouble_and_waited_for(own_pubsub: Emulated, read: Read) -> None:
    name, topic = "projects/tests/subscriptions/gone", "projects/tests/topics/gone"
    await topics.create(own_pubsub.address, topic, name)
    await topics.publish(own_pubsub.address, topic, [b"before"])
    reader = read(own_pubsub.address, name)
    await reader.has(b"before")
    own_pubsub.kill()
    await reader.until(lambda: "UNAVAILABLE" in reader.trouble)
    own_pubsub.start()
    await topics.create(own_pubsub.address, topic, name)
    await topics.publish(own_pubsub.address, topic, [b"m"])
    await reader.until(lambda: b"m" in reader.bodies, 40.0)
    assert not reader.trouble


# What only people can mend --------------------------------------------------------------------------------------------


async def test_a_missing_subscription_is_an_error_at_start(pubsub: PubSub, read: Read) -> None:
    reader = read(pubsub.address, "projects/tests/subscriptions/never-made")
    with pytest.raises(StartRefused, match=r"never-made: NOT_FOUND.*create it"):
        await reader.has(b"m")


async def test_a_subscription_that_is_deleted_while_it_is_read_is_trouble_until_it_is_there_again(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"before"])
    reader = read(pubsub.address, made)
    await reader.has(b"before")
    await topics.delete(pubsub.address, subscriptions=[made.name])
    await reader.until(lambda: "NOT_FOUND" in reader.trouble)
    await topics.create(pubsub.address, made.topic, made.name)
    await topics.publish(pubsub.address, made.topic, [b"after"])
    await reader.has(b"after")
    assert not reader.trouble
    assert reader.error is None


@pytest.mark.parametrize("status", ["PERMISSION_DENIED", "UNAUTHENTICATED"])
async def test_a_right_that_is_taken_away_is_trouble_until_it_is_given_back(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read, status: str
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"before"])
    reader = read(pubsub.address, made)
    await reader.has(b"before")
    pubsub_control.fail_calls("StreamingPull", status)
    pubsub_control.end_streams()
    await reader.until(lambda: status in reader.trouble)
    assert "docs/connectors/pubsub.md" in reader.trouble
    pubsub_control.mend()
    await topics.publish(pubsub.address, made.topic, [b"after"])
    await reader.has(b"after")
    assert not reader.trouble


async def test_a_clock_that_is_late_is_trouble(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    pubsub_control.skew(60)
    await topics.publish(pubsub.address, made.topic, [b"early"])
    reader = read(pubsub.address, made)
    await reader.has(b"early")
    assert "clock of this host is late" in reader.trouble
    pubsub_control.skew(0)
    await topics.publish(pubsub.address, made.topic, [b"in time"])
    await reader.has(b"in time")
    assert not reader.trouble


# How much comes -------------------------------------------------------------------------------------------------------


async def test_no_more_comes_than_was_asked_for(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"%d" % n for n in range(100)])
    reader = read(pubsub.address, made, most=10)
    await reader.until(lambda: len(reader.bodies) >= 10)
    await reader.settle(reader.payloads[:4])
    await reader.until(lambda: len(reader.bodies) >= 14)
    await asyncio.sleep(0.3)
    assert len(reader.bodies) == 14
    assert pubsub_control.stats()["subscriptions"][made.name]["lent"] == 10


async def test_nothing_is_opened_before_something_is_asked_for(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"m"])
    reader = read(pubsub.address, made, most=0)
    await asyncio.sleep(0.5)
    assert reader.producer.report()["streams"] == 0
    reader.producer.ask(10)
    await reader.has(b"m")


async def test_another_number_is_asked_for_by_a_new_stream_and_nothing_is_lost_in_between(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"%d" % n for n in range(100)])
    reader = read(pubsub.address, made, most=10)
    await reader.until(lambda: len(reader.bodies) >= 10)
    reader.producer.ask(90)
    await reader.until(lambda: len(reader.bodies) >= 100)
    assert reader.ended("resized") == 1
    assert sorted(map(int, reader.bodies)) == list(range(100))


async def test_a_stream_that_is_full_is_not_opened_again_for_being_silent(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    """It would be sent as much once more."""
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"%d" % n for n in range(30)])
    reader = read(pubsub.address, made, most=10, stalled_after=1.0)
    await reader.until(lambda: len(reader.bodies) >= 10)
    reader.producer.ask(0)
    await asyncio.sleep(2.5)
    assert (len(reader.bodies), reader.producer.report()["reopened"]) == (10, {})
    await reader.settle(reader.payloads)
    reader.producer.ask(10)
    await reader.until(lambda: len(reader.bodies) >= 20)


# The end of all of it -------------------------------------------------------------------------------------------------


async def test_what_was_received_and_never_delivered_is_given_back_at_the_end(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, [b"%d" % n for n in range(2000)])
    producer = PubSubProducer(PubSubOptions(subscription=made.name, endpoint=pubsub.address))
    polls = producer.open_batches()
    poll = await anext(polls)
    ends_at = time.monotonic() + PATIENCE
    while pubsub_control.stats()["subscriptions"][made.name]["lent"] < 2000:
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.01)
    await polls.aclose()
    await producer.aclose()
    assert pubsub_control.stats()["subscriptions"][made.name]["lent"] == len(poll.bodies)


@pytest.mark.parametrize("when", ["silent", "slow", "refused"])
async def test_closing_does_not_wait_for_a_service_that_does_not_answer(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read, when: str
) -> None:
    made = await subscription(ordered=True)
    await topics.publish(pubsub.address, made.topic, [b"1", b"2"], key="a")
    reader = read(pubsub.address, made)
    await reader.has(b"1", b"2")
    await reader.settle([reader.last(b"1")], FAILED)
    if when == "silent":
        pubsub_control.silent()
    elif when == "slow":
        pubsub_control.slow(30)
    else:
        pubsub_control.fail_calls("*", "UNAVAILABLE")
    began = time.monotonic()
    await reader.close()
    assert time.monotonic() - began < 5


async def test_fifty_readers_that_begin_and_end_leave_no_stream_behind(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    before = pubsub_control.stats()["streams"]
    for n in range(50):
        await topics.publish(pubsub.address, made.topic, [b"%d" % n])
        reader = read(pubsub.address, made)
        if n % 2:
            await reader.has(b"%d" % n)
            await reader.settle(reader.payloads)
        await reader.close()
    ends_at = time.monotonic() + PATIENCE
    while pubsub_control.stats()["streams"] > before:
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.01)
