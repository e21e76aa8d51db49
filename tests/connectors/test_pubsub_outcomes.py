"""What becomes of messages: each outcome, leases, keys and partial failures, on our fake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.fixtures import Made, NewSubscription
from bench.brokers.pubsub.serving import PubSub
from bridge.core.errors import Transient
from bridge.core.model import UNORDERED
from tests.connectors.pubsub_reader import ABANDONED, FAILED, PATIENCE, REJECTED, Read, Reader, readers

pytestmark = pytest.mark.integration


@pytest.fixture
async def read() -> AsyncIterator[Read]:
    async with readers() as begin:
        yield begin


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


async def filled(pubsub: PubSub, made: Made, count: int, key: str = "") -> list[bytes]:
    bodies = numbers(count)
    await topics.publish(pubsub.address, made.topic, bodies, key=key)
    return bodies


# Each outcome ---------------------------------------------------------------------------------------------------------


async def test_what_is_clean_or_rejected_is_acked(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    bodies = await filled(pubsub, made, 4)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    await reader.settle(reader.payloads[:2])
    await reader.settle(reader.payloads[2:3], REJECTED)
    assert pubsub_control.unacked(made.name) == bodies[3:]


async def test_what_is_abandoned_comes_again_at_once(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await filled(pubsub, made, 1)
    reader = read(pubsub.address, made)
    await reader.has(b"0")
    await reader.settle(reader.payloads, ABANDONED)
    await reader.until(lambda: reader.bodies.count(b"0") == 2, 2.0)


async def test_what_failed_comes_again_after_its_delay_and_is_put_off_for_longer_each_time(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(attempts=100)
    await filled(pubsub, made, 1)
    reader = read(pubsub.address, made)
    delays = []
    for times in (1, 2):
        await reader.has(b"0", times=times)
        began = time.monotonic()
        await reader.settle([reader.last(b"0")], FAILED)
        await reader.has(b"0", times=times + 1)
        delays.append(time.monotonic() - began)
    assert 1.0 <= delays[0] < 3.0
    assert 4.0 <= delays[1] < 7.0
    assert reader.last(b"0").deliveries == 3


async def test_messages_that_fail_leave_room_for_others(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    """As many as may be outstanding: the service counts them, on the stream that they came on."""
    made = await subscription()
    await filled(pubsub, made, 10)
    reader = read(pubsub.address, made, most=10, retry_delay=60.0)
    await reader.has(*numbers(10))
    await reader.settle(reader.payloads, FAILED)
    good = [b"good-%d" % n for n in range(100)]
    await topics.publish(pubsub.address, made.topic, good)
    settled = 10

    def settles() -> bool:
        nonlocal settled
        new, settled = reader.payloads[settled:], len(reader.payloads)
        if new:
            tasks.append(asyncio.create_task(reader.settle(new)))
        return set(good) <= set(reader.bodies)

    tasks: list[asyncio.Task[object]] = []
    await reader.until(settles, 40.0)
    await asyncio.gather(*tasks)
    assert reader.ended("crowded") == 1
    assert sorted(pubsub_control.unacked(made.name)) == numbers(10)
    assert set(pubsub_control.deliveries(made.name).values()) == {1}


# Leases ---------------------------------------------------------------------------------------------------------------


async def test_what_is_renewed_is_lent_for_a_whole_lease_more(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    bodies = await filled(pubsub, made, 3)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    ends_at = time.monotonic() + 12
    while time.monotonic() < ends_at:
        assert list(await reader.producer.renew(reader.payloads)) == []
        await asyncio.sleep(3)
    assert len(reader.bodies) == 3
    await reader.settle(reader.payloads)
    assert pubsub_control.unacked(made.name) == []


async def test_two_thousand_leases_are_renewed_by_one_request(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await filled(pubsub, made, 2000)
    reader = read(pubsub.address, made)
    await reader.until(lambda: len(reader.bodies) == 2000)
    before = pubsub_control.stats()["calls"].get("ModifyAckDeadline", 0)
    await reader.producer.renew(reader.payloads)
    assert pubsub_control.stats()["calls"]["ModifyAckDeadline"] == before + 1


async def test_a_lease_that_ran_out_is_told_where_the_service_tells_it(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(exactly_once=True)
    bodies = await filled(pubsub, made, 3)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    held = reader.payloads
    pubsub_control.expire(made.name)
    await reader.has(*bodies, times=2)
    assert list(await reader.producer.renew(held)) == held
    assert await reader.settle(held) == held
    assert sorted(pubsub_control.unacked(made.name)) == bodies


async def test_an_ack_whose_handle_ran_out_is_tried_with_the_newer_one(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    """The second delivery came, and was joined, while the ack was on its way."""
    made = await subscription(exactly_once=True)
    await filled(pubsub, made, 1)
    reader = read(pubsub.address, made)
    await reader.has(b"0")
    (held,) = reader.payloads
    pubsub_control.expire(made.name)
    await reader.has(b"0", times=2)
    pubsub_control.slow(0.3)
    acking = asyncio.create_task(reader.settle([held]))
    await asyncio.sleep(0.1)
    held.handle = reader.last(b"0").handle
    assert await acking == []
    assert pubsub_control.unacked(made.name) == []


# Partial failures -----------------------------------------------------------------------------------------------------


async def test_ids_that_are_refused_are_returned_and_the_others_are_acked(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(exactly_once=True)
    bodies = await filled(pubsub, made, 20)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    held = reader.payloads
    pubsub_control.fail_acks(3, "permanent")
    unsettled = await reader.settle(held)
    assert unsettled == held[:3]
    assert sorted(pubsub_control.unacked(made.name)) == sorted(reader.bodies[:3])
    assert reader.producer.report()["lost"] == 3


async def test_ids_that_fail_for_a_moment_are_acked_all_the_same(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(exactly_once=True)
    bodies = await filled(pubsub, made, 20)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    pubsub_control.fail_acks(5, "temporary")
    assert await reader.settle(reader.payloads) == []
    assert pubsub_control.unacked(made.name) == []


async def test_acks_go_on_when_the_service_fails_them_for_a_moment(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    bodies = await filled(pubsub, made, 5)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    pubsub_control.fail_calls("Acknowledge", "UNAVAILABLE", 3)
    assert await reader.settle(reader.payloads) == []
    assert pubsub_control.unacked(made.name) == []


async def test_an_ack_that_is_never_confirmed_is_transient_and_may_be_repeated(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    bodies = await filled(pubsub, made, 5)
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    pubsub_control.fail_calls("Acknowledge", "PERMISSION_DENIED")
    with pytest.raises(Transient, match="acking: PERMISSION_DENIED"):
        await reader.settle(reader.payloads)
    pubsub_control.mend()
    assert await reader.settle(reader.payloads) == []
    assert await reader.settle(reader.payloads) == []
    assert pubsub_control.unacked(made.name) == []


async def test_lanes_that_are_settled_at_the_same_time_share_a_request(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(ordered=True)
    bodies = numbers(64)
    await topics.publish(pubsub.address, made.topic, bodies, keys=[f"key {n}" for n in range(64)])
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    before = pubsub_control.stats()["calls"].get("Acknowledge", 0)
    await asyncio.gather(*(reader.settle([each]) for each in reader.payloads))
    assert pubsub_control.unacked(made.name) == []
    assert pubsub_control.stats()["calls"]["Acknowledge"] - before <= 2


# Ordering keys --------------------------------------------------------------------------------------------------------


async def fail_the_head(reader: Reader, bodies: list[bytes]) -> None:
    head, *behind = [reader.last(body) for body in bodies]
    await reader.settle([head], FAILED)
    await reader.producer.release(behind)


async def test_keys_are_lanes_and_messages_without_one_have_no_order(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(ordered=True)
    await topics.publish(pubsub.address, made.topic, numbers(4), keys=["a", "b", "", "a"])
    reader = read(pubsub.address, made)
    await reader.has(*numbers(4))
    lanes = [reader.producer.get_advance_lane(reader.last(body)) for body in numbers(4)]
    assert lanes == ["a", "b", UNORDERED, "a"]
    meta = reader.producer.describe(reader.last(b"0"))
    assert (meta.key, meta.lane) == (b"a", "a")


async def test_keys_of_a_subscription_that_keeps_no_order_are_no_lanes(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription()
    await topics.publish(pubsub.address, made.topic, numbers(2), key="a")
    reader = read(pubsub.address, made)
    await reader.has(*numbers(2))
    assert {reader.producer.get_advance_lane(each) for each in reader.payloads} == {UNORDERED}
    meta = reader.producer.describe(reader.last(b"0"))
    assert (meta.key, meta.lane) == (b"a", "")


async def test_after_a_failure_a_key_comes_again_in_order_and_what_is_sent_meanwhile_behind_it(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(ordered=True)
    bodies = await filled(pubsub, made, 10, "a")
    reader = read(pubsub.address, made)
    await reader.has(*bodies)
    await reader.settle(reader.payloads[:3])
    await fail_the_head(reader, bodies[3:])
    await topics.publish(pubsub.address, made.topic, [b"more"], key="a")
    await topics.publish(pubsub.address, made.topic, [b"other"], key="b")
    await reader.has(b"other")
    assert b"more" not in reader.bodies
    await reader.has(b"more")
    assert [body for body in reader.bodies[10:] if body != b"other"] == [*bodies[3:], b"more"]
    await reader.settle(reader.payloads[10:])
    assert pubsub_control.unacked(made.name) == []


async def test_a_head_that_fails_again_and_again_comes_first_each_time(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(ordered=True)
    bodies = await filled(pubsub, made, 5, "a")
    reader = read(pubsub.address, made, retry_delay_max=1.0)
    for times in (1, 2, 3):
        await reader.has(*bodies, times=times)
        await fail_the_head(reader, bodies)
    await reader.has(*bodies, times=4)
    assert reader.bodies == bodies * 4


async def test_a_message_that_the_service_took_away_does_not_hold_its_key(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    """Its dead-letter policy moves the head; what lies behind it is not worn out by waiting for it."""
    made = await subscription(ordered=True, attempts=5)
    bodies = await filled(pubsub, made, 1, "a")
    reader = read(pubsub.address, made, retry_delay_max=1.0)
    for times in range(1, 6):
        await reader.has(*bodies, times=times)
        await reader.settle([reader.last(b"0")], FAILED)
    await topics.publish(pubsub.address, made.topic, [b"behind"], key="a")
    await reader.has(b"behind")
    assert pubsub_control.deliveries(made.name) == {reader.last(b"behind").key: reader.last(b"behind").deliveries}


async def test_a_paused_key_is_called_back_at_once_when_it_is_resumed(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(ordered=True, attempts=100)
    reader = read(pubsub.address, made)
    reader.producer.pause(["a"])
    bodies = await filled(pubsub, made, 20, "a")
    await topics.publish(pubsub.address, made.topic, [b"other"], key="b")
    await reader.has(b"other")
    assert reader.bodies == [b"other"]
    reader.producer.resume(["a"])
    await reader.until(lambda: len(reader.bodies) == 21, 3.0)
    assert reader.bodies[1:] == bodies
    assert reader.producer.report()["dropped"] == 20


async def test_what_rests_is_given_back_at_the_end_in_order(
    pubsub: PubSub, pubsub_control: Control, subscription: NewSubscription, read: Read
) -> None:
    made = await subscription(ordered=True)
    bodies = await filled(pubsub, made, 5, "a")
    first = read(pubsub.address, made, retry_delay=300.0)
    await first.has(*bodies)
    await fail_the_head(first, bodies)
    await first.close()
    second = read(pubsub.address, made)
    await second.until(lambda: len(second.bodies) == 5, PATIENCE / 4)
    assert second.bodies == bodies
