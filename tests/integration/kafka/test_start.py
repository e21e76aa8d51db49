"""Where a group begins to read, and that this is decided once."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bridge.core.errors import StartRefused, Transient
from bridge.ports import Ledger
from connectors.kafka.start import _first_start

if TYPE_CHECKING:
    from conftest import Cluster, Members

pytestmark = pytest.mark.integration

BODIES = [b"0", b"1", b"2", b"3", b"4"]


@pytest.fixture
async def five(kafka: Broker, topic: NewTopic) -> str:
    """A topic that holds five records."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, BODIES)
    return name


async def test_earliest_reads_all_there_is(five: str, members: Members) -> None:
    member = members(five, start="earliest")
    await member.stays(5)
    assert member.bodies == BODIES


async def test_latest_reads_what_comes_from_now_on(kafka: Broker, five: str, members: Members) -> None:
    member = members(five, start="latest")
    await member.has(TopicPartition(five, 0))
    await topics.send(kafka.bootstrap, five, [b"new"])
    await member.stays(1)
    assert member.bodies == [b"new"]


async def test_a_time_reads_what_was_written_since(
    kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    name = await topic(partitions=2)
    first = int(time.time() - 60)
    records = [{"value": b"%d" % n, "timestamp_ms": (first + n) * 1000} for n in range(5)]
    await cluster.produce(name, *records)
    since = datetime.fromtimestamp(first + 2, UTC).isoformat()
    member = members(name, start=since)
    await member.got(3)
    await topics.send(kafka.bootstrap, name, [b"new"], partition=1)  # where nothing was written since
    await member.stays(4)
    assert sorted(member.bodies) == [b"2", b"3", b"4", b"new"]


async def test_an_offset_reads_from_there_within_what_there_is(
    kafka: Broker, topic: NewTopic, members: Members
) -> None:
    name = await topic(partitions=2)
    await topics.send(kafka.bootstrap, name, BODIES, partition=0)
    await topics.send(kafka.bootstrap, name, [b"a"], partition=1)  # it ends in front of the offset
    member = members(name, start=3)
    await member.stays(2)
    assert member.bodies == [b"3", b"4"]
    await topics.send(kafka.bootstrap, name, [b"b"], partition=1)
    await member.stays(3)
    assert member.bodies[-1] == b"b"


async def test_without_a_start_the_message_counts_what_each_choice_means(five: str, members: Members) -> None:
    error = await members(five, start=None).ended()
    assert isinstance(error, StartRefused)
    assert "reads the 5 records" in str(error)
    assert members.group in str(error)
    assert all(f"`start: {choice}" in str(error) for choice in ("earliest", "latest", "2026", "<offset>"))


async def test_a_first_start_that_was_refused_has_decided_nothing(kafka: Broker, five: str, members: Members) -> None:
    await members(five, start=None).ended()
    assert await topics.committed(kafka.bootstrap, members.group, five) == {}


async def test_a_first_start_is_decided_once(kafka: Broker, five: str, members: Members) -> None:
    """It has died before it settled anything: what came meanwhile must not be skipped as old."""
    first = members(five, start="latest")
    await first.has(TopicPartition(five, 0))
    await first.close()
    await topics.send(kafka.bootstrap, five, [b"between"])
    second = members(five, start="latest")
    await second.stays(1)
    assert second.bodies == [b"between"]


async def test_two_first_starts_at_once_agree(kafka: Broker, five: str, members: Members) -> None:
    """The one that comes second has looked before the first had set its offsets: it takes them, and fails nobody."""
    first = members(five, start="earliest")
    await first.got(5)
    second = members.options(five, start="latest")
    async with AsyncExitStack() as stack:
        admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        stack.push_async_callback(admin.close)
        await admin.start()
        await _first_start(admin, [TopicPartition(five, 0)], second, None)
    assert (await topics.committed(kafka.bootstrap, members.group, five))[0][0] == 0


async def test_a_restart_goes_on_behind_what_was_settled(five: str, members: Members) -> None:
    first = members(five)
    await first.settle((await first.got(5))[:3])
    await first.close()
    second = members(five)
    await second.stays(2)
    assert second.bodies == [b"3", b"4"]


async def test_a_new_partition_is_read_from_its_beginning(kafka: Broker, five: str, members: Members) -> None:
    member = members(five, start="latest", settles=True)
    await member.has(TopicPartition(five, 0))
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_partitions({five: NewPartitions(total_count=2)})
    await admin.close()
    await topics.send(kafka.bootstrap, five, [b"a", b"b"], partition=1)
    await member.stays(2)
    assert member.bodies == [b"a", b"b"]
    await member.close()
    again = members(five, start="latest")
    await topics.send(kafka.bootstrap, five, [b"c"], partition=1)
    await again.stays(1)
    assert again.bodies == [b"c"]


# Patterns ------------------------------------------------------------------------------------------------------------


async def test_a_topic_that_comes_later_is_read_from_its_beginning(kafka: Broker, members: Members) -> None:
    """B10: the three records are there before anybody knows of the topic."""
    prefix = f"orders{uuid4().hex[:6]}"
    await topics.create(kafka.bootstrap, f"{prefix}.us")
    await topics.send(kafka.bootstrap, f"{prefix}.us", BODIES)
    member = members(topic_pattern=rf"{prefix}\..*", start="latest", discovery=0.5)
    await member.has(TopicPartition(f"{prefix}.us", 0))
    await topics.create(kafka.bootstrap, f"x{prefix}.eu")
    await topics.send(kafka.bootstrap, f"x{prefix}.eu", [b"never"])
    await topics.create(kafka.bootstrap, f"{prefix}.eu")
    await topics.send(kafka.bootstrap, f"{prefix}.eu", [b"1", b"2", b"3"])
    await member.got(3, within=5.0)
    await member.stays(3, seconds=1.2)  # longer than it takes to discover the other one
    assert {event.lane.topic for event in member.events} == {f"{prefix}.eu"}
    assert member.bodies == [b"1", b"2", b"3"]


async def test_a_pattern_is_held_against_whole_names(kafka: Broker, members: Members) -> None:
    """Alternatives too: an unbracketed `a|b` with a `^` in front would fit everything that begins with `a`."""
    prefix = f"p{uuid4().hex[:6]}"
    for name in ("a", "b", "ab", "ba", "a-more"):
        await topics.create(kafka.bootstrap, f"{prefix}{name}")
    member = members(topic_pattern=f"{prefix}a|{prefix}b")
    await member.has(TopicPartition(f"{prefix}a", 0), TopicPartition(f"{prefix}b", 0))


async def test_what_a_pattern_finds_later_is_not_a_first_start(kafka: Broker, members: Members) -> None:
    """Nothing fitted at first, and it died before it settled anything of what came later."""
    prefix = f"late{uuid4().hex[:6]}"
    first = members(topic_pattern=rf"{prefix}\..*", start="latest", discovery=0.5, ledger=Ledger("s", lambda: 1))
    await first.reports(partitions=0)
    await topics.create(kafka.bootstrap, f"{prefix}.eu")
    await topics.send(kafka.bootstrap, f"{prefix}.eu", [b"1", b"2", b"3"])
    places = dict(first.producer.places())  # the last heartbeat came before the topic was seen
    await first.got(3)
    await first.close()
    ledger = Ledger("s", lambda: 1, places=places)
    second = members(topic_pattern=rf"{prefix}\..*", start="latest", discovery=0.5, ledger=ledger)
    await second.stays(3)


# What can't be read --------------------------------------------------------------------------------------------------


async def test_an_unknown_topic_refuses(kafka: Broker, five: str, members: Members) -> None:
    missing = f"missing-{uuid4().hex[:8]}"
    error = await members(five, missing).ended()
    assert isinstance(error, StartRefused)
    assert missing in str(error)
    assert "create it" in str(error)


async def test_looking_for_a_topic_does_not_make_it(own_auto_create: Any, members: Members) -> None:
    """Brokers make topics by themselves, unless they are told not to: a misspelt name would become an empty topic."""
    members.bootstrap = own_auto_create.bootstrap
    for _ in range(2):
        assert isinstance(await members("misspelt").ended(), StartRefused)


async def test_a_group_that_has_members_gets_no_offsets_from_outside(
    kafka: Broker, five: str, topic: NewTopic, members: Members
) -> None:
    """Nor does one that reads another topic set any for ours."""
    other = AIOKafkaConsumer(await topic(), bootstrap_servers=kafka.bootstrap, group_id=members.group)
    await other.start()
    try:
        error = await members(five).ended()
    finally:
        await other.stop()
    assert isinstance(error, Transient)
    assert "has members" in str(error)
