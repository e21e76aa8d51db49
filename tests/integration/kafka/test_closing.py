"""The end of a life, with brokers that are there, that are gone, and that don't answer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.kafka import Kafka
from bench.brokers.processes import free_port
from bench.brokers.proxy import Proxy
from bench.brokers.serving import Broker
from bridge.core.errors import Transient
from connectors.kafka.producer import KafkaProducer

if TYPE_CHECKING:
    from conftest import Members

pytestmark = pytest.mark.integration

WITHIN = 3.0
"""Seconds: one for the stop itself, which is usually 5, and some for what is cut off."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.kafka.producer._CLOSED_WITHIN", 1.0)
    monkeypatch.setattr("connectors.kafka.probing.WITHIN", 1.0)


async def test_a_client_whose_fetches_have_ended_by_themselves_ends_the_life(
    kafka: Broker, topic: NewTopic, members: Members
) -> None:
    """It would find nothing any more, for ever, and look like a quiet topic."""
    name = await topic()
    member = members(name)
    await member.has(TopicPartition(name, 0))
    consumer: Any = member.producer._consumer
    consumer._fetcher._fetch_task.cancel()
    error = await member.ended()
    assert isinstance(error, Transient)
    assert "fetches has ended" in str(error)


def others() -> set[asyncio.Task[Any]]:
    """Tasks beside the one that asks."""
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


async def gone(until: Any, before: set[asyncio.Task[Any]]) -> None:
    """No task is left but those that were there before."""
    try:
        await until(lambda: others() <= before, 3.0)
    except AssertionError:
        pytest.fail(f"left behind: {[repr(task.get_coro()) for task in others() - before]}")


async def test_closing_leaves_the_group_and_no_task(
    kafka: Broker, topic: NewTopic, members: Members, until: Any
) -> None:
    name = await topic()
    before = others()
    first = members(name)
    await first.has(TopicPartition(name, 0))
    began = time.monotonic()
    await first.close()
    assert time.monotonic() - began < 1.0
    await gone(until, before)
    second = members(name)
    await second.has(TopicPartition(name, 0), within=3.0)  # half of what the first's session would take


async def known(kafka: Broker, group: str, count: int) -> None:
    """Until the group's coordinator knows so many members."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(10.0):
            while True:
                [answer] = await admin.describe_consumer_groups([group])
                if len(answer.to_object()["groups"][0]["members"]) == count:
                    return
                await asyncio.sleep(0.05)
    finally:
        await admin.close()


async def test_a_stop_while_the_group_is_joined_leaves_nobody_behind_that_others_wait_for(
    kafka: Broker, topic: NewTopic, members: Members, until: Any
) -> None:
    name = await topic()
    dead = members(name, session_timeout=6.0)
    await dead.has(TopicPartition(name, 0))
    await dead.die()
    joining = members(name, session_timeout=60.0, rebalance_timeout=60.0)
    await known(kafka, members.group, 2)
    await joining.close()
    next_one = members(name)
    await next_one.has(TopicPartition(name, 0), within=15.0)  # when the dead one's session is over, and no other's


async def test_closing_ends_within_its_bound_when_the_broker_is_dead(
    own_kafka: Kafka, members: Members, until: Any
) -> None:
    """B05"""
    members.bootstrap = own_kafka.bootstrap
    await topics.create(own_kafka.bootstrap, "orders")
    before = others()
    member = members("orders")
    await member.has(TopicPartition("orders", 0))
    await asyncio.to_thread(own_kafka.kill)
    began = time.monotonic()
    await member.close()
    assert time.monotonic() - began < WITHIN
    await gone(until, before)


async def test_closing_ends_within_its_bound_when_the_broker_hangs(
    topic: NewTopic, proxied_kafka: Proxy, members: Members, until: Any
) -> None:
    name = await topic()
    members.bootstrap = proxied_kafka.bootstrap
    before = others()
    member = members(name)
    await member.has(TopicPartition(name, 0))
    proxied_kafka.stall()
    began = time.monotonic()
    await member.close()
    assert time.monotonic() - began < WITHIN
    await gone(until, before)


async def test_closing_that_is_given_up_leaves_no_member_behind(
    topic: NewTopic, proxied_kafka: Proxy, members: Members, until: Any
) -> None:
    """The runtime gives it a second or two. Heartbeats that went on would keep the partition from everybody."""
    name = await topic()
    plain, members.bootstrap = members.bootstrap, proxied_kafka.bootstrap
    before = others()
    member = members(name)
    await member.has(TopicPartition(name, 0))
    proxied_kafka.stall()
    member.task.cancel()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await member.producer.aclose()
    await gone(until, before)
    proxied_kafka.resume()
    members.bootstrap = plain
    await members(name).has(TopicPartition(name, 0), within=12.0)


async def test_closing_while_the_group_is_being_joined(topic: NewTopic, members: Members, until: Any) -> None:
    """The broker answers a join when all members have come, which may take as long as they like."""
    name = await topic(partitions=2)
    before = others()
    slow = members(name)
    await slow.has(TopicPartition(name, 0), TopicPartition(name, 1))
    held = asyncio.Event()

    async def holds_on(revoked: object) -> None:
        await held.wait()

    slow.producer._members.on_partitions_revoked = holds_on  # type: ignore[method-assign,union-attr,assignment]
    second = members(name)
    await second.until(lambda: second.producer._consumer)
    await asyncio.sleep(0.5)  # it is in the join now
    began = time.monotonic()
    await second.close()
    assert time.monotonic() - began < WITHIN
    held.set()
    await slow.close()
    await gone(until, before)


async def test_opening_against_a_closed_port_is_transient_and_quick(members: Members, until: Any) -> None:
    before = others()
    members.bootstrap = f"127.0.0.1:{free_port()}"
    member = members("orders")
    began = time.monotonic()
    error = await member.ended()
    assert time.monotonic() - began < 5.0
    assert isinstance(error, Transient)
    assert members.bootstrap in str(error)
    await member.close()
    await gone(until, before)


async def test_opening_against_a_broker_that_hangs_is_transient_and_bounded(
    proxied_kafka: Proxy, members: Members, until: Any
) -> None:
    before = others()
    members.bootstrap = proxied_kafka.bootstrap
    proxied_kafka.stall()
    member = members("orders", request_timeout=2.0)
    assert isinstance(await member.ended(within=10.0), Transient)
    await member.close()
    await gone(until, before)


async def test_closing_before_opening_and_twice_does_nothing(topic: NewTopic, members: Members) -> None:
    name = await topic()
    producer = KafkaProducer(members.options(name))
    await producer.aclose()
    await producer.aclose()
    assert producer.report() == {}
    assert producer.places() == {}
    member = members(name)
    await member.has(TopicPartition(name, 0))
    await member.close()
    await member.close()
