"""Records that are gone before they were read, and logs that are not the ones they were."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiokafka import TopicPartition

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bridge.core.errors import Refused

if TYPE_CHECKING:
    from conftest import Cluster, Members

pytestmark = pytest.mark.integration


@pytest.fixture
async def with_a_gap(kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster) -> str:
    """B08: 100 is committed, everything below 500 is deleted, the end is 900."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, (b"%d" % n for n in range(900)))
    await cluster.commit(members.group, {TopicPartition(name, 0): 100})
    await cluster.delete_before(TopicPartition(name, 0), 500)
    return name


@pytest.mark.parametrize("start", ["latest", "earliest", None])
async def test_a_gap_is_reported_with_its_range_and_passed_over(
    kafka: Broker, with_a_gap: str, members: Members, start: str | None
) -> None:
    member = members(with_a_gap, start=start)
    await member.got(400)
    assert member.offsets == list(range(500, 900))
    await member.reports(lost=400)
    [gap] = member.report["gaps"]
    for words in (f"{with_a_gap}/0", "100 to 499", "400 records", "offset 500"):
        assert words in gap


async def test_a_gap_can_stop_the_stream(kafka: Broker, with_a_gap: str, members: Members) -> None:
    member = members(with_a_gap, on_gap="stop")
    error = await member.ended()
    assert isinstance(error, Refused)
    for words in ("100 to 499", "on_gap: resume", members.group):
        assert words in str(error)
    assert member.events == []
    assert (await topics.committed(kafka.bootstrap, members.group, with_a_gap))[0][0] == 100


async def test_a_gap_that_appears_while_a_partition_is_paused(
    kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    """Small fetches, so that not everything has been fetched by then."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"x" * 1000 for _ in range(100)])
    member = members(name, max_partition_fetch_bytes=1024, fetch_max_bytes=1024, poll_records=1, settles=True)
    await member.got(1)
    member.stop_pulling()
    await cluster.delete_before(TopicPartition(name, 0), 90)
    member.go_on_pulling()
    await member.until(lambda: member.offsets[-1] == 99)
    [gap] = member.report["gaps"]
    assert "to 89" in gap
    assert all(a < b for a, b in zip(member.offsets, member.offsets[1:], strict=False))
    assert set(range(90, 100)) <= set(member.offsets)


async def test_what_was_read_in_front_of_a_gap_is_settled_before_the_gap_is_passed_over(
    kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    """It is gone from the broker, and we hold it: passing the gap at once would drop it and move the offset past it."""
    name = await topic()
    for _ in range(6):  # batches, of which a fetch brings one
        await topics.send(kafka.bootstrap, name, [b"x" * 1000] * 10)
    member = members(name, max_partition_fetch_bytes=1024, fetch_max_bytes=1024)
    member.stop_pulling()
    await member.got(10)
    await cluster.delete_before(TopicPartition(name, 0), 50)
    member.go_on_pulling()
    await member.stays(20, seconds=1.0)  # the batch that was fetched already
    assert member.report["gaps"] == []
    await member.settle(member.events[:19])
    await member.stays(20)
    assert (await topics.committed(kafka.bootstrap, members.group, name))[0][0] == 19
    await member.settle(member.events[19:])
    await member.stays(30)
    assert member.offsets == [*range(20), *range(50, 60)]
    [gap] = member.report["gaps"]
    assert "20 to 49" in gap
    await until_committed(kafka, members.group, name, 50)


@pytest.mark.parametrize("count", [3, 20])
async def test_a_topic_that_is_made_again_is_read_from_its_beginning(
    kafka: Broker, topic: NewTopic, members: Members, count: int
) -> None:
    """Whether or not it has grown past the old offset when it is seen."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"old"] * 5)
    member = members(name, settles=True)
    await member.got(5)
    await made_again(kafka, name)
    await topics.send(kafka.bootstrap, name, [b"new"] * count)
    await member.stays(5 + count)
    assert [(event.body, event.offset) for event in member.events[5:]] == [(b"new", n) for n in range(count)]
    identities = [member.producer.identity(event.payload) for event in member.events]
    assert len(set(identities)) == 5 + count
    await until_committed(kafka, members.group, name, count)


async def test_a_topic_that_was_made_again_between_two_lives(kafka: Broker, topic: NewTopic, members: Members) -> None:
    """It holds more than the old one did: nothing of it may be taken for read."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"old"] * 2)
    first = members(name, settles=True)
    await first.got(2)
    await first.close()
    await made_again(kafka, name)
    await topics.send(kafka.bootstrap, name, [b"new"] * 5)
    second = members(name, start="latest", settles=True, ledger=ledger_after(first))
    await second.stays(5)
    assert second.offsets == [0, 1, 2, 3, 4]


async def test_a_log_that_ends_in_front_of_the_offset_counts_as_unread(
    kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    """As after an election that has lost the end of it. The group is told at once, as the log may grow past the offset
    before the next life.
    """
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"a", b"b"])
    await cluster.commit(members.group, {TopicPartition(name, 0): 100})
    member = members(name)
    await member.stays(2)
    assert member.offsets == [0, 1]
    [gap] = member.report["gaps"]
    assert "counts as unread" in gap
    await until_committed(kafka, members.group, name, 0)


async def test_a_topic_that_is_deleted_and_not_made_again_is_told(
    kafka: Broker, topic: NewTopic, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions are taken away, and what is left looks like a member for whom there were none."""
    monkeypatch.setattr("connectors.kafka.silence.PATIENCE", 1.0)
    name = await topic()
    member = members(name, settles=True)
    await member.has(TopicPartition(name, 0))
    await topics.delete(kafka.bootstrap, name)
    await member.until(lambda: f"knows of topic '{name}'" in str(member.report.get("trouble")))
    await topics.create(kafka.bootstrap, name)
    await topics.send(kafka.bootstrap, name, [b"new"])
    await member.got(1)
    await member.until(lambda: "trouble" not in member.report)


def ledger_after(member):  # type: ignore[no-untyped-def]
    """What the store has of a life that is over."""
    from bridge.ports import Ledger

    return Ledger("mine", lambda: 1, places=dict(member.producer.places()))


async def made_again(kafka: Broker, topic: str) -> None:
    await topics.delete(kafka.bootstrap, topic)
    async with asyncio.timeout(10):
        while True:
            try:
                await topics.create(kafka.bootstrap, topic)
                return
            except Exception:  # the old one is not gone altogether
                await asyncio.sleep(0.05)


async def until_committed(kafka: Broker, group: str, topic: str, offset: int) -> None:
    found = None
    try:
        async with asyncio.timeout(10):
            while found != offset:
                found = (await topics.committed(kafka.bootstrap, group, topic)).get(0, (None,))[0]
    except TimeoutError:
        raise AssertionError(f"committed is {found}, and not {offset}") from None
