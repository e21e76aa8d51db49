"""B01: a commit is under way while its partition moves, and comes back refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import msgspec
import pytest

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.proxy import Proxy
from bench.brokers.serving import Broker
from bridge import wiring
from connectors.kafka.producer import KafkaProducer
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import KafkaBridge
from tests.integration.kafka_faults.feeding import body
from tests.integration.kafka_faults.lengths import either
from tests.integration.kafka_faults.members import Group, Member, group_of

pytestmark = pytest.mark.integration

WITHIN = 25.0


async def until(what: str, condition: Callable[[], bool], within: float = WITHIN) -> None:
    """A condition of two members."""
    try:
        async with asyncio.timeout(within):
            while not condition():  # noqa: ASYNC110  # members and brokers tell nobody
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {within} s: {what}") from None


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as made:
        yield made


async def test_a_commit_that_a_rebalance_refuses_is_dropped_and_both_members_go_on(
    bridge: KafkaBridge, kafka: Broker, proxied_kafka: Proxy, topic: NewTopic, stack: AsyncExitStack
) -> None:
    """The first member's network stalls with a commit in it, until the group has given its partitions to the second.
    Then it answers: what is committed late is of an older generation.
    """
    name = await topic(partitions=2)
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}}, stream={"session_timeout": "3s"}, store=bridge.store)
    config = wiring.load_config([bridge.folder / "headrace.yaml"])
    options = config.streams["in"].options
    slow = msgspec.structs.replace(options, bootstrap_servers=[proxied_kafka.bootstrap])
    group = await stack.enter_async_context(group_of(config))
    first = await joined(stack, group, KafkaProducer(slow))
    await until("the first has both", lambda: first.partitions == {0, 1})
    await write(kafka, name, range(20))
    await until("twenty are stored", lambda: bridge.requests() == 20)
    lives = first.supervisor.failures
    proxied_kafka.stall()
    second = await joined(stack, group, KafkaProducer(options))
    await until("the second has both, the first does not know", lambda: second.partitions == {0, 1})
    await write(kafka, name, range(20, 40))
    await until("forty are stored", lambda: bridge.requests() == 40)
    proxied_kafka.resume()
    await until("they share again", lambda: {*first.partitions} ^ {*second.partitions} == {0, 1}, 30.0)
    await write(kafka, name, range(40, 60))
    await until("sixty are stored", lambda: bridge.requests() == 60)
    await settled(kafka, bridge, name)
    assert first.supervisor.failures == lives
    assert first.task.done() is second.task.done() is False
    truth.compare(await truth.written(kafka.bootstrap, name), bridge.database, {"all": lambda n: True})
    assert truth.letters(bridge.database) == []


async def test_partitions_that_move_while_commits_take_a_second_are_run_once(
    bridge: KafkaBridge, kafka: Broker, proxied_kafka: Proxy, topic: NewTopic, stack: AsyncExitStack
) -> None:
    """Every block of the first member waits in both directions: its commits are always late."""
    name = await topic(partitions=2)
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}}, stream={"session_timeout": "20s"}, store=bridge.store)
    config = wiring.load_config([bridge.folder / "headrace.yaml"])
    options = config.streams["in"].options
    slow = msgspec.structs.replace(options, bootstrap_servers=[proxied_kafka.bootstrap])
    group = await stack.enter_async_context(group_of(config))
    first = await joined(stack, group, KafkaProducer(slow))
    await until("the first has both", lambda: first.partitions == {0, 1})
    proxied_kafka.delay = 0.25
    for start in range(0, either(20, 60), 20):
        await write(kafka, name, range(start, start + 20))
        await until("all are stored", lambda start=start: bridge.requests() == start + 20)  # type: ignore[misc]
        second = await joined(stack, group, KafkaProducer(options))
        await until("the second has one", lambda second=second: len(second.partitions) == 1)  # type: ignore[misc]
        await second.leave()
        await until("the first has both", lambda: first.partitions == {0, 1})
    proxied_kafka.delay = 0.0
    await settled(kafka, bridge, name)
    assert first.supervisor.failures == 0
    truth.compare(await truth.written(kafka.bootstrap, name), bridge.database, {"all": lambda n: True})
    assert truth.letters(bridge.database) == []


async def joined(stack: AsyncExitStack, group: Group, producer: KafkaProducer) -> Member:
    """A member with this producer, for one life of its group."""
    member = group.join(lambda: producer)
    stack.push_async_callback(member.leave)
    return member


async def write(kafka: Broker, name: str, numbers: range) -> None:
    for partition in range(2):
        values = [body(n) for n in numbers if n % 2 == partition]
        await topics.send(kafka.bootstrap, name, values, partition=partition)


async def settled(kafka: Broker, bridge: KafkaBridge, name: str) -> None:
    async with asyncio.timeout(WITHIN):
        while await truth.lag(kafka.bootstrap, bridge.group, name):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
