"""Offsets that were committed on behalf of a store: this one, a later state of it, or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiokafka import TopicPartition

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bridge.core.errors import StartRefused
from bridge.ports import Ledger

if TYPE_CHECKING:
    from conftest import Cluster, Members

pytestmark = pytest.mark.integration

BODIES = [b"%d" % n for n in range(6)]


@pytest.fixture
async def read_to_four(kafka: Broker, topic: NewTopic, members: Members) -> str:
    """A topic of six records, of which store `mine` had four settled with its commit 9."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, BODIES)
    first = members(name, ledger=Ledger("mine", lambda: 9))
    await first.settle((await first.got(6))[:4])
    await first.close()
    return name


async def test_an_offset_carries_the_store_and_its_commit(kafka: Broker, read_to_four: str, members: Members) -> None:
    assert await topics.committed(kafka.bootstrap, members.group, read_to_four) == {0: (4, "headrace/1 mine 9")}


async def test_the_first_offsets_carry_it_too(kafka: Broker, topic: NewTopic, members: Members) -> None:
    name = await topic(partitions=2)
    await members(name, start="latest", ledger=Ledger("mine", lambda: 0)).has(*parts(name, 2))
    found = await topics.committed(kafka.bootstrap, members.group, name)
    assert found == {0: (0, "headrace/1 mine 0"), 1: (0, "headrace/1 mine 0")}


@pytest.mark.parametrize("sequence", [9, 1000])
async def test_the_same_store_goes_on(read_to_four: str, members: Members, sequence: int) -> None:
    member = members(read_to_four, ledger=Ledger("mine", lambda: sequence))
    await member.stays(2)
    assert member.offsets == [4, 5]


async def test_a_store_that_knows_less_is_refused(kafka: Broker, read_to_four: str, members: Members) -> None:
    """It was restored from a copy: what it has forgotten would never come again."""
    error = await members(read_to_four, ledger=Ledger("mine", lambda: 8)).ended()
    assert isinstance(error, StartRefused)
    for words in ("--rewind", "--accept", f"{read_to_four}/0", "offset 4", "commit 9", "ends with 8", members.group):
        assert words in str(error)
    assert (await topics.committed(kafka.bootstrap, members.group, read_to_four))[0][0] == 4


async def test_another_store_is_refused(read_to_four: str, members: Members) -> None:
    error = await members(read_to_four, ledger=Ledger("other", lambda: 99)).ended()
    assert isinstance(error, StartRefused)
    assert "for the store mine" in str(error)
    assert "the store is other" in str(error)


@pytest.mark.parametrize("metadata", ["", "by hand", "headrace/2 mine 99", "headrace/1 mine many"])
async def test_an_offset_that_a_tool_has_set_is_accepted(
    read_to_four: str, members: Members, cluster: Cluster, metadata: str
) -> None:
    await cluster.commit(members.group, {TopicPartition(read_to_four, 0): 2}, metadata)
    member = members(read_to_four, ledger=Ledger("mine", lambda: 1))
    await member.stays(4)
    assert member.offsets == [2, 3, 4, 5]


async def test_accept_goes_on_from_there(kafka: Broker, read_to_four: str, members: Members) -> None:
    member = members(read_to_four, ledger=Ledger("other", lambda: 3, accept=True), settles=True)
    await member.stays(2)
    assert member.offsets == [4, 5]
    found = await topics.committed(kafka.bootstrap, members.group, read_to_four)
    assert found == {0: (6, "headrace/1 other 3")}


async def test_what_was_accepted_is_not_doubted_again(kafka: Broker, read_to_four: str, members: Members) -> None:
    """Not by the next start either, though nothing was settled meanwhile."""
    accepting = members(read_to_four, ledger=Ledger("other", lambda: 3, accept=True))
    await accepting.got(2)
    assert "trouble" not in accepting.report
    await accepting.close()
    assert await topics.committed(kafka.bootstrap, members.group, read_to_four) == {0: (4, "headrace/1 other 3")}
    next_one = members(read_to_four, ledger=Ledger("other", lambda: 3))
    await next_one.got(2)
    assert next_one.offsets == [4, 5]


async def test_rewind_goes_back_to_the_place_that_was_kept(kafka: Broker, read_to_four: str, members: Members) -> None:
    ledger = Ledger("mine", lambda: 5, places={f"{read_to_four}/0": "2"}, rewind=True)
    member = members(read_to_four, ledger=ledger)
    await member.stays(4)
    assert member.offsets == [2, 3, 4, 5]
    found = await topics.committed(kafka.bootstrap, members.group, read_to_four)
    assert found == {0: (2, "headrace/1 mine 5")}


async def test_rewind_goes_to_the_beginning_where_no_place_was_kept(
    read_to_four: str, members: Members, cluster: Cluster
) -> None:
    await cluster.delete_before(TopicPartition(read_to_four, 0), 1)
    member = members(read_to_four, ledger=Ledger("mine", lambda: 5, rewind=True))
    await member.stays(5)
    assert member.offsets == [1, 2, 3, 4, 5]


async def test_rewind_never_goes_forward(read_to_four: str, members: Members) -> None:
    """A place behind the offset tells of another time of the topic: nothing may be passed over."""
    ledger = Ledger("other", lambda: 5, places={f"{read_to_four}/0": "5"}, rewind=True)
    member = members(read_to_four, ledger=ledger)
    await member.stays(2)
    assert member.offsets == [4, 5]


async def test_rewind_leaves_what_nobody_doubts(
    kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    name = await topic(partitions=2)
    for number in (0, 1):
        await topics.send(kafka.bootstrap, name, BODIES, partition=number)
    first, second = parts(name, 2)
    await cluster.commit(members.group, {first: 4}, "headrace/1 mine 9")
    await cluster.commit(members.group, {second: 5}, "headrace/1 mine 3")
    member = members(name, ledger=Ledger("mine", lambda: 5, places={f"{name}/0": "3", f"{name}/1": "1"}, rewind=True))
    await member.stays(4)
    assert sorted((event.lane.partition, event.offset) for event in member.events) == [(0, 3), (0, 4), (0, 5), (1, 5)]


async def test_rewind_asks_for_a_group_without_members(read_to_four: str, members: Members) -> None:
    other = members(read_to_four, ledger=Ledger("mine", lambda: 9))
    await other.has(TopicPartition(read_to_four, 0))
    error = await members(read_to_four, ledger=Ledger("mine", lambda: 5, rewind=True)).ended()
    assert "stop its other members first" in str(error)


async def test_places_are_how_far_each_lane_is_settled(kafka: Broker, topic: NewTopic, members: Members) -> None:
    name = await topic(partitions=2)
    await topics.send(kafka.bootstrap, name, BODIES, partition=1)
    member = members(name)
    await member.settle((await member.got(6))[:3])
    places = dict(member.producer.places())
    assert places.pop("cluster")
    assert places == {f"{name}/0": "0", f"{name}/1": "3"}


async def test_another_cluster_is_refused(read_to_four: str, members: Members) -> None:
    error = await members(read_to_four, ledger=Ledger("mine", lambda: 9, places={"cluster": "elsewhere"})).ended()
    assert isinstance(error, StartRefused)
    assert "elsewhere" in str(error)
    accepted = members(read_to_four, ledger=Ledger("mine", lambda: 9, places={"cluster": "elsewhere"}, accept=True))
    await accepted.stays(2)
    assert accepted.producer.places()["cluster"] != "elsewhere"


async def test_members_of_one_group_with_two_stores_are_told(kafka: Broker, topic: NewTopic, members: Members) -> None:
    """Both would make a run of one message."""
    name = await topic(partitions=2)
    member = members(name, ledger=Ledger("mine", lambda: 1))
    await member.has(*parts(name, 2))
    other = members(name, ledger=Ledger("other", lambda: 1, accept=True))
    await other.until(lambda: "share one store" in str(other.producer.report().get("trouble")))
    assert "trouble" not in member.producer.report()


def parts(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]
