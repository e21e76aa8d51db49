"""Members that come and go, with messages in flight."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition
from aiokafka.errors import CommitFailedError

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.proxy import Proxy
from bench.brokers.serving import Broker
from bridge.core.errors import OwnershipLost

if TYPE_CHECKING:
    from conftest import Member, Members

pytestmark = pytest.mark.integration

ROUNDS = 50
BOUND = 5.0
"""Seconds that a rebalance may take here (B04)."""


@pytest.fixture
async def four(kafka: Broker, topic: NewTopic) -> str:
    """Four partitions of ten records each."""
    name = await topic(partitions=4)
    for number in range(4):
        await topics.send(kafka.bootstrap, name, [b"%d" % n for n in range(10)], partition=number)
    return name


def parts(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def check_epochs(*members: Member) -> None:
    """Within an epoch every partition is read in order, and nothing of it twice."""
    for member in members:
        offsets: dict[tuple[TopicPartition, int | None], list[int]] = defaultdict(list)
        for event in member.events:
            offsets[event.lane, event.epoch].append(event.offset)
        assert all(a < b for read in offsets.values() for a, b in pairwise(read))


async def test_a_second_member_takes_half_and_goes_on_behind_what_was_settled(four: str, members: Members) -> None:
    first = members(four, settles=True)
    await first.got(40)
    second = members(four, settles=True)
    await second.until(lambda: len(second.ownership.epochs) == 2)
    await first.until(lambda: len(first.ownership.epochs) == 2)
    assert set(first.ownership.epochs) | set(second.ownership.epochs) == set(parts(four, 4))
    await first.stays(40)
    assert second.events == []
    check_epochs(first, second)


async def test_what_was_not_settled_comes_to_whoever_has_it_next(four: str, members: Members) -> None:
    first = members(four)
    await first.got(40)
    second = members(four)
    await second.until(lambda: len(second.ownership.epochs) == 2)
    await second.got(20)
    await first.got(60)  # its own half comes again too, as every rebalance takes all partitions away
    check_epochs(first, second)
    assert {event.lane for event in second.events} == set(second.ownership.epochs)
    before = set(first.events[:40])
    assert not {event.epoch for event in before} & {event.epoch for event in first.events[40:]}


async def test_a_revoke_commits_what_is_resolved_and_leaves_the_rest(
    kafka: Broker, four: str, members: Members
) -> None:
    first = members(four)
    await first.got(40)
    for lane in parts(four, 4):
        mine = [event.payload for event in first.events if event.lane == lane]
        first.ownership.resolved[lane] = mine[:3]
    second = members(four)
    await second.got(14)
    assert {event.offset for event in second.events} == set(range(3, 10))
    found = await topics.committed(kafka.bootstrap, members.group, four)
    assert {number: offset for number, (offset, _) in found.items()} == dict.fromkeys(range(4), 3)


async def test_what_is_said_of_an_earlier_assignment_changes_nothing(
    kafka: Broker, four: str, members: Members
) -> None:
    """An advance that was under way when its lanes were taken away."""
    first = members(four)
    await first.got(40)
    old = list(first.events)
    second = members(four)
    await second.got(20)
    await first.settle(old)
    await first.fail(old[0])
    assert all(at == 0 for at, _ in (await topics.committed(kafka.bootstrap, members.group, four)).values())
    await first.stays(60)


async def test_the_partitions_of_a_member_that_leaves_come_back(four: str, members: Members) -> None:
    first, second = members(four, settles=True), members(four, settles=True)
    await second.until(lambda: len(second.ownership.epochs) == 2)
    await second.close()
    await first.has(*parts(four, 4))
    await first.until(lambda: len({(e.lane, e.offset) for e in first.events + second.events}) == 40)
    check_epochs(first, second)


async def test_fifty_rebalances_with_fetches_pending_and_records_in_flight(
    kafka: Broker, topic: NewTopic, members: Members
) -> None:
    """B04. A member beside it changes its mind about what it reads, each time as soon as the last time is over."""
    name, other = await topic(partitions=2), await topic()
    await topics.send(kafka.bootstrap, name, [b"x"] * 20, partition=0)
    member = members(name, heartbeat_interval=0.05, poll_records=5)
    await member.got(5)
    peer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id=members.group, heartbeat_interval_ms=50)
    await peer.start()
    slowest = 0.0
    try:
        for number in range(ROUNDS):
            before, epochs = len(member.ownership.revocations), set(member.ownership.epochs.values())
            if member.events:
                member.ownership.resolved[member.events[0].lane] = [member.events[0].payload]
            began = time.monotonic()
            peer.subscribe([other] if number % 2 else [other, name])
            await member.until(lambda n=before: len(member.ownership.revocations) > n, BOUND)  # type: ignore[misc]
            await member.until(
                lambda old=epochs: member.ownership.epochs and not old & set(member.ownership.epochs.values()), BOUND
            )  # type: ignore[misc]
            slowest = max(slowest, time.monotonic() - began)
    finally:
        await peer.stop()
    assert slowest < BOUND
    await member.has(*parts(name, 2))
    await topics.send(kafka.bootstrap, name, [b"after"], partition=1)
    await member.until(lambda: b"after" in member.bodies)
    check_epochs(member)
    assert member.report["rebalances"] >= ROUNDS


async def test_a_commit_that_is_refused_is_ownership_lost_and_its_records_come_again(
    topic: NewTopic, kafka: Broker, proxied_kafka: Proxy, members: Members
) -> None:
    """B01: cut off for longer than its session, the member was put out of the group."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"a", b"b"])
    members.bootstrap = proxied_kafka.bootstrap
    member = members(name, session_timeout=1.0, heartbeat_interval=0.2)
    old = list(await member.got(2))
    proxied_kafka.stall()
    settling = asyncio.create_task(member.settle(old))  # it is on its way before the member hears that it is out
    await asyncio.sleep(2.5)
    proxied_kafka.resume()
    with pytest.raises(OwnershipLost):
        await settling
    await member.got(4)
    assert member.bodies == [b"a", b"b", b"a", b"b"]
    await member.settle(member.events[2:])
    assert (await topics.committed(kafka.bootstrap, members.group, name))[0][0] == 2
    check_epochs(member)


async def test_a_commit_is_not_repeated_under_a_later_assignment(four: str, kafka: Broker, members: Members) -> None:
    """The client repeats one while its coordinator is away. By then the partition may be another member's."""
    member = members(four)
    await member.got(40)
    consumer: Any = member.producer._consumer
    assignment = consumer._subscription.subscription.assignment
    peer = members(four)
    await peer.until(lambda: len(peer.ownership.epochs) == 2)
    await member.until(lambda: len(member.ownership.epochs) == 2)
    with pytest.raises(CommitFailedError):
        await consumer._coordinator.commit_offsets(assignment, {parts(four, 1)[0]: OffsetAndMetadata(3, "")})
    assert all(at == 0 for at, _ in (await topics.committed(kafka.bootstrap, members.group, four)).values())
    assert not assignment.active


async def test_a_static_member_that_is_back_in_time_causes_no_rebalance(topic: NewTopic, members: Members) -> None:
    name = await topic(partitions=2)
    one = members(name, group_instance_id="one")
    await one.has(*parts(name, 2))
    two = members(name, group_instance_id="two")
    await asyncio.gather(*(m.until(lambda m=m: len(m.ownership.epochs) == 1) for m in (one, two)))  # type: ignore[misc]
    mine, revoked = set(two.ownership.epochs), len(one.ownership.revocations)
    await two.close()
    again = members(name, group_instance_id="two")
    await again.has(*mine)
    assert len(one.ownership.revocations) == revoked


async def test_a_member_that_dies_is_missed_after_its_session(four: str, members: Members) -> None:
    quick: dict[str, Any] = {"session_timeout": 1.5, "heartbeat_interval": 0.3}
    first = members(four, **quick)
    second = members(four, **quick)
    await second.until(lambda: len(second.ownership.epochs) == 2)
    await first.until(lambda: len(first.ownership.epochs) == 2)
    await second.die()
    await first.has(*parts(four, 4))
