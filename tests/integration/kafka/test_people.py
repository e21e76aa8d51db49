"""`send` and `tail` on a real cluster: what is sent is there, and looking takes nothing away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, cast
from uuid import uuid4

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bridge.core.errors import Refused, Transient
from bridge.ports import Outgoing, Seen
from connectors.kafka.options import KafkaOptions
from connectors.kafka.people import TopicSender, sender, tail

pytestmark = pytest.mark.integration


def options_of(bootstrap: str, *names: str, **keys: Any) -> KafkaOptions:
    return KafkaOptions(
        bootstrap_servers=[bootstrap], group_id=f"g-{uuid4().hex[:8]}", topics=list(names), request_timeout=10.0, **keys
    )


@pytest.fixture
async def sending() -> AsyncIterator[Any]:
    """Makes senders, and closes them."""
    made: list[TopicSender] = []

    def make(options: KafkaOptions) -> TopicSender:
        made.append(sender(options))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()


async def shown(options: KafkaOptions, last: int, count: int) -> list[Seen]:
    """The first `count`."""
    found: list[Seen] = []
    messages = cast("AsyncGenerator[Seen]", tail(options, last))
    try:
        async with asyncio.timeout(20):
            while len(found) < count:
                found.append(await anext(messages))
    finally:
        await messages.aclose()
    return found


def bodies(found: Sequence[Seen]) -> list[bytes | None]:
    return [seen.body for seen in found]


# Sending -------------------------------------------------------------------------------------------------------------


async def test_what_is_sent_is_there_whole_and_where_it_was_said_to_be(
    kafka: Broker, topic: NewTopic, sending: Any
) -> None:
    options = options_of(kafka.bootstrap, name := await topic(partitions=3))
    headers = (("source", b"shop"), ("nothing", None), ("source", b""))
    [position] = await sending(options).send([Outgoing(b"body", b"key", headers, lane="2")])
    assert position == f"{name}[2]@0"
    [record] = await topics.read(kafka.bootstrap, name, 1)
    assert (record.value, record.key, record.headers, record.partition) == (b"body", b"key", headers, 2)


async def test_messages_of_a_lane_keep_their_order(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    options = options_of(kafka.bootstrap, name := await topic(partitions=2))
    positions = await sending(options).send([Outgoing(b"%d" % n, lane="1") for n in range(200)])
    assert list(positions) == [f"{name}[1]@{n}" for n in range(200)]
    assert [record.value for record in await topics.read(kafka.bootstrap, name, 200)] == [b"%d" % n for n in range(200)]


async def test_a_tombstone_has_no_body(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    options = options_of(kafka.bootstrap, name := await topic())
    await sending(options).send([Outgoing(None, b"k"), Outgoing(b"")])
    assert [record.value for record in await topics.read(kafka.bootstrap, name, 2)] == [None, b""]


async def test_a_message_that_the_topic_does_not_take_is_refused_and_those_before_are_there(
    kafka: Broker, topic: NewTopic, sending: Any
) -> None:
    options = options_of(kafka.bootstrap, name := await topic(max_message_bytes=2000))
    with pytest.raises(Refused, match=r"1 of 2 messages were confirmed; then a message is larger than the topic takes"):
        await sending(options).send([Outgoing(b"small"), Outgoing(bytes(100_000))])
    assert [record.value for record in await topics.read(kafka.bootstrap, name, 1)] == [b"small"]


async def test_a_large_one_goes_through_where_the_topic_takes_it(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    options = options_of(kafka.bootstrap, await topic(max_message_bytes=4_000_000))
    await sending(options).send([Outgoing(bytes(3_000_000))])
    assert [len(seen.body or b"") for seen in await shown(options, 1, 1)] == [3_000_000]


async def test_a_topic_that_is_not_there_is_refused_and_not_made(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    name = await topic()
    with pytest.raises(Refused, match=f"there is no topic '{name}x': did you mean '{name}'"):
        await sending(options_of(kafka.bootstrap, f"{name}x")).send([Outgoing(b"x")])
    with pytest.raises(Refused, match="there is no topic"):
        await shown(options_of(kafka.bootstrap, f"{name}x"), 0, 1)
    async with topics.admin(kafka.bootstrap) as admin:
        assert f"{name}x" not in await admin.list_topics()


async def test_a_partition_that_is_not_there_is_refused(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    options = options_of(kafka.bootstrap, await topic(partitions=2))
    with pytest.raises(Refused, match="has 2 partitions, and no 7"):
        await sending(options).send([Outgoing(b"x", lane="7")])


async def test_brokers_that_are_away_are_named_with_the_reason(sending: Any) -> None:
    options = options_of("127.0.0.1:1", "orders")
    with pytest.raises(Transient, match=r"127\.0\.0\.1:1: nobody listens there"):
        await sending(options).send([Outgoing(b"x")])
    with pytest.raises(Transient, match=r"127\.0\.0\.1:1: nobody listens there"):
        await shown(options, 0, 1)


# Seeing --------------------------------------------------------------------------------------------------------------


async def test_the_last_ones_of_each_topic_come_by_time(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    one, other = await topic(partitions=3), await topic()
    options = options_of(kafka.bootstrap, one, other)
    for n in range(6):
        await sending(options).send([Outgoing(b"%d" % n, lane=f"{one}/{n % 3}")])
        await asyncio.sleep(0.002)  # each in a millisecond of its own
    await sending(options).send([Outgoing(b"other", lane=other)])
    found = await shown(options, 4, 5)
    assert bodies(found) == [b"2", b"3", b"4", b"5", b"other"]
    assert found[0].meta.position == f"{one}[2]@0"


async def test_without_last_only_what_comes_from_now_on_is_shown(kafka: Broker, topic: NewTopic, sending: Any) -> None:
    options = options_of(kafka.bootstrap, name := await topic(partitions=2))
    await sending(options).send([Outgoing(b"before")])
    showing = asyncio.create_task(shown(options, 0, 2))
    new = sending(options)
    while not showing.done():  # until it has found its place, what is sent is before
        await new.send([Outgoing(b"after", b"k", (("a", None),))])
        await asyncio.sleep(0.1)
    found = await showing
    assert bodies(found) == [b"after", b"after"]
    assert (found[0].meta.key, found[0].meta.headers) == (b"k", (("a", None),))
    assert found[0].meta.lane in (f"{name}-0", f"{name}-1")


async def test_records_of_a_transaction_that_was_aborted_are_not_shown(
    kafka: Broker, topic: NewTopic, cluster: Any
) -> None:
    options = options_of(kafka.bootstrap, name := await topic())
    await cluster.transact(name, [b"kept"])
    await cluster.transact(name, [b"given up"], abort=True)
    await topics.send(kafka.bootstrap, name, [b"end"])
    assert bodies(await shown(options, 10, 2)) == [b"kept", b"end"]


async def test_topics_that_fit_a_pattern_are_shown(kafka: Broker, topic: NewTopic) -> None:
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"x"])
    fitting = options_of(kafka.bootstrap, topic_pattern=f"{name[:-1]}.")
    assert bodies(await shown(fitting, 1, 1)) == [b"x"]
    with pytest.raises(Refused, match="fits no topic now"):
        await shown(options_of(kafka.bootstrap, topic_pattern=name[:-1]), 1, 1)


async def test_looking_leaves_no_trace_in_the_group(kafka: Broker, topic: NewTopic) -> None:
    options = options_of(kafka.bootstrap, name := await topic())
    await topics.send(kafka.bootstrap, name, [b"x"])
    await shown(options, 1, 1)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    try:
        await admin.start()
        assert options.group_id not in [listed[0] for listed in await admin.list_consumer_groups()]
    finally:
        await admin.close()
