"""Partitions that wait: because we hold enough of them, or because a watcher has failed a record of theirs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import TopicPartition

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bridge.core.retry import Backoff

if TYPE_CHECKING:
    from conftest import Members

pytestmark = pytest.mark.integration

SESSION: dict[str, Any] = {"session_timeout": 1.0, "heartbeat_interval": 0.2}
LONGER = 2.5
"""Seconds: twice the session, so that a member that is not heard of has left."""


@pytest.fixture
async def three(kafka: Broker, topic: NewTopic) -> str:
    name = await topic(partitions=3)
    for number in range(3):
        await topics.send(kafka.bootstrap, name, [b"%d" % n for n in range(10)], partition=number)
    return name


def parts(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(3)]


async def test_all_paused_for_longer_than_the_session_loses_neither_membership_nor_messages(
    kafka: Broker, three: str, members: Members
) -> None:
    """B14: polls go on with nothing to read, and heartbeats with them."""
    member = members(three, **SESSION)
    await member.got(30)
    member.producer.pause(parts(three))
    for number in range(3):
        await topics.send(kafka.bootstrap, three, [b"later"] * 10, partition=number)
    await member.stays(30, LONGER)
    assert member.ownership.revocations in ([], [[]])
    member.producer.resume(parts(three))
    await member.stays(60)
    for lane in parts(three):
        assert [event.offset for event in member.events if event.lane == lane] == list(range(20))
    assert len(set(member.ownership.epochs.values())) == 3


async def test_a_stream_that_is_not_pulled_for_longer_than_the_session_stays_a_member(
    kafka: Broker, three: str, members: Members
) -> None:
    member = members(three, **SESSION)
    await member.got(30)
    member.stop_pulling()
    for number in range(3):
        await topics.send(kafka.bootstrap, three, [b"later"] * 10, partition=number)
    await asyncio.sleep(LONGER)
    assert member.ownership.revocations in ([], [[]])
    assert len(member.events) <= 30 + member.options.poll_records
    member.go_on_pulling()
    await member.stays(60)
    await member.settle(member.events)  # the epochs are still good
    found = await topics.committed(kafka.bootstrap, members.group, three)
    assert [found[number][0] for number in range(3)] == [20, 20, 20]


async def test_a_paused_partition_leaves_the_others_flowing(kafka: Broker, three: str, members: Members) -> None:
    member = members(three)
    await member.got(30)
    slow, *others = parts(three)
    member.producer.pause([slow])
    for number in range(3):
        await topics.send(kafka.bootstrap, three, [b"later"] * 10, partition=number)
    await member.stays(50)
    assert {event.lane for event in member.events[30:]} == set(others)
    member.producer.resume([slow])
    await member.stays(60)
    assert {event.lane for event in member.events[50:]} == {slow}


async def test_nothing_comes_of_a_fetch_that_was_pending_when_its_partition_was_paused(
    kafka: Broker, three: str, members: Members
) -> None:
    member = members(three)
    await member.got(30)
    await asyncio.sleep(0.2)  # the poll waits for more
    member.producer.pause(parts(three))
    await topics.send(kafka.bootstrap, three, [b"later"], partition=0)
    await member.stays(30)
    member.producer.resume(parts(three))
    await member.stays(31)


async def test_a_partition_that_is_resumed_is_read_at_once_though_the_others_are_silent(
    kafka: Broker, three: str, members: Members
) -> None:
    """Else a backlog of one partition would stop for a poll's time at each of its marks."""
    member = members(three)
    await member.got(30)
    slow, *others = parts(three)
    for paused in ([slow], [slow, *others]):
        member.producer.pause(paused)
        before = len(member.events)
        await topics.send(kafka.bootstrap, three, [b"later"], partition=0)
        await member.stays(before, 0.3)
        began = time.monotonic()
        member.producer.resume(paused)
        await member.got(before + 1)
        assert time.monotonic() - began < 0.4


async def test_a_paused_partition_that_is_assigned_again_is_not_paused(three: str, members: Members) -> None:
    """The runtime counts anew: it would never resume what it has not paused."""
    first = members(three)
    await first.got(30)
    first.producer.pause(parts(three))
    second = members(three)
    await second.until(lambda: second.ownership.epochs)
    await second.close()
    await first.has(*parts(three))
    await first.until(lambda: len(first.events) >= 60)


# Failed, and read again (`retry: broker`) ----------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.kafka.producer._AGAIN", Backoff(delay=0.6, factor=2.0, max=60.0, jitter=0.0))


async def test_what_failed_is_read_again_after_a_delay_in_order_under_a_new_epoch(
    soon: None, kafka: Broker, three: str, members: Members
) -> None:
    member = members(three)
    await member.got(30)
    lane = TopicPartition(three, 1)
    mine = [event for event in member.events if event.lane == lane]
    await member.settle(mine[:4])
    began = time.monotonic()
    await member.fail(mine[4])
    await topics.send(kafka.bootstrap, three, [b"more"], partition=1)  # a poll was pending, and it may not have this
    await member.got(31)
    assert time.monotonic() - began >= 0.6
    await member.stays(37)
    again = member.events[30:]
    assert [event.offset for event in again] == [4, 5, 6, 7, 8, 9, 10]
    assert {event.lane for event in again} == {lane}
    assert {event.epoch for event in again} == {member.ownership.epochs[lane]} != {mine[0].epoch}
    assert (await topics.committed(kafka.bootstrap, members.group, three))[1][0] == 4


async def test_each_failure_of_a_record_waits_longer_and_the_others_go_on(
    soon: None, kafka: Broker, three: str, members: Members
) -> None:
    member = members(three)
    first = next(event for event in await member.got(30) if event.lane.partition == 0)
    await member.fail(first)
    await member.got(40)
    again = next(event for event in member.events[30:] if event.offset == 0)
    began = time.monotonic()
    await member.fail(again)
    await topics.send(kafka.bootstrap, three, [b"meanwhile"], partition=2)
    await member.got(41)
    assert member.events[40].body == b"meanwhile"
    assert time.monotonic() - began < 1.0
    await member.got(51)
    assert time.monotonic() - began >= 1.2


async def test_what_was_settled_in_front_of_a_failure_is_committed_with_it(
    soon: None, kafka: Broker, three: str, members: Members
) -> None:
    """A producer may be given both at once; the contract lets it decide."""
    from bridge.core.model import AdvanceItem, outcome_of

    member = members(three)
    mine = [event for event in await member.got(30) if event.lane.partition == 0]
    items = [AdvanceItem(event.payload, outcome_of(1, 0, 0)) for event in mine[:2]]
    items.append(AdvanceItem(mine[2].payload, outcome_of(0, 1, 0)))
    await member.producer.advance(items)
    assert (await topics.committed(kafka.bootstrap, members.group, three))[0][0] == 2
    await member.got(38)
    assert [event.offset for event in member.events[30:]] == list(range(2, 10))


async def test_a_partition_that_rests_is_not_passed_over(
    soon: None, kafka: Broker, three: str, members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.producer._TIDY_EVERY", 0.05)
    member = members(three)
    mine = [event for event in await member.got(30) if event.lane.partition == 0]
    for _ in range(2):
        await member.fail(mine[0])
        mine = mine[:0] + [e for e in (await member.got(len(member.events) + 10))[-10:] if e.lane.partition == 0]
    assert (await topics.committed(kafka.bootstrap, members.group, three))[0][0] == 0
