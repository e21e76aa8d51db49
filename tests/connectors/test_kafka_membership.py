"""Rebalances, with a client that is a dictionary."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import pytest
from aiokafka import OffsetAndMetadata, TopicPartition
from aiokafka import errors as kafka

from bridge.core.errors import OwnershipLost, Transient
from bridge.core.model import AdvanceBatch, outcome_of
from bridge.ports import Ledger
from connectors.kafka.lanes import Record
from connectors.kafka.membership import Membership
from connectors.kafka.options import KafkaOptions
from connectors.kafka.start import committed_of

ORDERS = [TopicPartition("orders", number) for number in range(3)]
OPTIONS = KafkaOptions(bootstrap_servers=["here:9092"], group_id="g", topics=["orders"], session_timeout=6.0)


class Group:
    """What the client and the group's coordinator know: offsets, the assignment, where each partition is read."""

    def __init__(self, offsets: Mapping[TopicPartition, tuple[int, str]] | None = None) -> None:
        self.offsets = dict(offsets or {})
        self.begins = dict.fromkeys(ORDERS, 10)
        self.assigned: set[TopicPartition] = set()
        self.positions: dict[TopicPartition, int] = {}
        self.refuses: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()
        self.lookups = 0

    # The client (`connectors.kafka.membership.Positions`)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        await self.answers.wait()
        if self.refuses is not None:
            raise self.refuses
        self.offsets |= {partition: (place.offset, place.metadata) for partition, place in offsets.items()}

    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self.begins[partition] for partition in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset

    def assignment(self) -> Collection[TopicPartition]:
        return self.assigned

    # The administrator

    silent_for = 0
    """How often the coordinator does not answer yet: it then names no partition at all."""

    async def list_consumer_group_offsets(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        self.lookups += 1
        if self.lookups <= self.silent_for:
            return {}
        return {partition: OffsetAndMetadata(*self.offsets.get(partition, (-1, ""))) for partition in partitions}


class Core:
    """`bridge.ports.Lanes`. `resolved` is given to whoever revokes."""

    def __init__(self) -> None:
        self.epoch = 0
        self.resolved: list[tuple[Hashable, AdvanceBatch]] = []
        self.said: list[tuple[str, Any]] = []

    def assigned(self, lane: Hashable) -> int:
        self.epoch += 1
        self.said.append(("assigned", lane))
        return self.epoch

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        self.said.append(("revoked", list(lanes)))
        return self.resolved


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def core() -> Core:
    return Core()


@pytest.fixture
def members(group: Group, core: Core) -> Membership:
    membership = Membership(group, OPTIONS, core, Ledger("mine", lambda: 7))  # type: ignore[arg-type]
    membership.consumer = group
    return membership


async def assigned(members: Membership, group: Group, *partitions: TopicPartition) -> None:
    group.assigned = set(partitions)
    await members.on_partitions_assigned(partitions)


def resolved(members: Membership, partition: TopicPartition, *offsets: int) -> tuple[Hashable, AdvanceBatch]:
    records = [Record(members.held[partition], offset, 0, None, ()) for offset in offsets]
    return partition, AdvanceBatch([(outcome_of(1, 0, 0), records)], len(records))


async def test_each_partition_gets_an_epoch_and_a_seek_to_its_offset(
    members: Membership, group: Group, core: Core
) -> None:
    group.offsets = {ORDERS[0]: (100, ""), ORDERS[1]: (200, "")}
    await assigned(members, group, *ORDERS)
    members.check()
    assert group.positions == {ORDERS[0]: 100, ORDERS[1]: 200, ORDERS[2]: 10}  # the last is new: from its beginning
    assert {held.epoch for held in members.held.values()} == {1, 2, 3}
    assert members.places == {"orders/0": "100", "orders/1": "200", "orders/2": "10"}


async def test_a_partition_that_is_gone_again_is_not_sought(members: Membership, group: Group) -> None:
    group.assigned = {ORDERS[0]}
    await members.on_partitions_assigned(ORDERS)
    assert set(group.positions) == {ORDERS[0]}
    members.check()


async def test_a_revoke_tells_the_core_first_and_commits_what_is_resolved(
    members: Membership, group: Group, core: Core
) -> None:
    await assigned(members, group, *ORDERS)
    core.resolved = [resolved(members, ORDERS[0], 10, 11, 15)]
    await members.on_partitions_revoked(ORDERS)
    assert core.said[-1] == ("revoked", ORDERS)
    assert group.offsets == {ORDERS[0]: (16, "headrace/1 mine 7")}
    assert members.held == {}
    assert members.places["orders/0"] == "16"
    assert members.rebalances == 1


async def test_the_first_revoke_of_a_life_is_no_rebalance(members: Membership) -> None:
    await members.on_partitions_revoked(())
    assert members.rebalances == 0


async def test_a_revoke_ends_within_its_bound_when_nobody_answers(
    members: Membership, group: Group, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B04"""
    monkeypatch.setattr("connectors.kafka.membership.REVOKED_WITHIN", 0.01)
    await assigned(members, group, *ORDERS)
    core.resolved = [resolved(members, ORDERS[0], 10)]
    group.answers.clear()
    async with asyncio.timeout(1.0):
        await members.on_partitions_revoked(ORDERS)
    assert members.held == {}
    members.check()


async def test_a_last_commit_that_is_refused_is_no_failure(members: Membership, group: Group, core: Core) -> None:
    await assigned(members, group, *ORDERS)
    core.resolved = [resolved(members, ORDERS[0], 10)]
    group.refuses = kafka.CommitFailedError("rebalanced")
    await members.on_partitions_revoked(ORDERS)
    members.check()


async def test_what_goes_wrong_in_a_rebalance_is_raised_where_polls_are_pulled(
    members: Membership, group: Group, core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client would only log it, and the partitions would be read by nobody."""

    def breaks(_: object) -> Any:
        raise KeyError("a defect")

    monkeypatch.setattr(core, "revoked", breaks)
    await members.on_partitions_revoked(ORDERS)
    with pytest.raises(Transient, match="a defect"):
        members.check()


async def test_taking_over_is_given_up_in_time_for_the_next_heartbeat(group: Group, core: Core) -> None:
    options = KafkaOptions(
        bootstrap_servers=["here:9092"], group_id="g", topics=["orders"], session_timeout=0.1, request_timeout=0.05
    )
    members = Membership(group, options, core, None)  # type: ignore[arg-type]
    members.consumer = group
    group.silent_for = 1_000_000
    await members.on_partitions_assigned(ORDERS)
    with pytest.raises(Transient):
        members.check()


# Settling ------------------------------------------------------------------------------------------------------------


async def test_a_commit_names_partition_offset_store_and_sequence(members: Membership, group: Group) -> None:
    await assigned(members, group, *ORDERS)
    await members.commit({members.held[ORDERS[1]]: 12})
    assert group.offsets == {ORDERS[1]: (12, "headrace/1 mine 7")}
    assert members.held[ORDERS[1]].committed == 12
    assert members.places["orders/1"] == "12"


async def test_a_commit_leaves_out_what_is_not_ours_any_more(members: Membership, group: Group) -> None:
    await assigned(members, group, *ORDERS)
    old = members.held[ORDERS[0]]
    await members.on_partitions_revoked(ORDERS)
    await assigned(members, group, *ORDERS)
    await members.commit({old: 99, members.held[ORDERS[1]]: 12})
    assert group.offsets == {ORDERS[1]: (12, "headrace/1 mine 7")}


async def test_a_refused_commit_is_ownership_lost_and_moves_nothing(members: Membership, group: Group) -> None:
    await assigned(members, group, *ORDERS)
    group.refuses = kafka.CommitFailedError("rebalanced")
    with pytest.raises(OwnershipLost):
        await members.commit({members.held[ORDERS[0]]: 12})
    assert members.held[ORDERS[0]].committed == 10
    assert members.places["orders/0"] == "10"


async def test_committed_never_goes_back(members: Membership, group: Group) -> None:
    """Two commits under way: the one that began first may end last."""
    await assigned(members, group, *ORDERS)
    mine = members.held[ORDERS[0]]
    await members.commit({mine: 20})
    await members.commit({mine: 15})
    assert mine.committed == 20


async def test_a_partition_that_is_held_anew_has_a_new_epoch_and_keeps_how_often_it_failed(
    members: Membership, group: Group
) -> None:
    await assigned(members, group, *ORDERS)
    before = members.held[ORDERS[0]]
    before.fails_at, before.failures, before.delivered = 12, 3, 20
    again = members.hold(ORDERS[0], 12)
    assert again is members.held[ORDERS[0]] is not before
    assert again.epoch != before.epoch
    assert (again.committed, again.delivered, again.fails_at, again.failures) == (12, 12, 12, 3)
    assert group.positions[ORDERS[0]] == 12


async def test_who_waits_for_a_partition_to_be_read_is_woken(members: Membership, group: Group) -> None:
    assert not members.changed.is_set()
    await assigned(members, group, ORDERS[0])
    assert members.changed.is_set()


async def test_an_offset_of_another_store_is_counted(members: Membership, group: Group) -> None:
    group.offsets = {ORDERS[0]: (100, "headrace/1 other 3"), ORDERS[1]: (200, "headrace/1 mine 3"), ORDERS[2]: (1, "x")}
    await assigned(members, group, *ORDERS)
    assert members.strangers == 1


async def test_a_membership_without_a_client_owns_nothing(members: Membership) -> None:
    members.consumer = None
    await members.on_partitions_assigned(ORDERS)
    with pytest.raises(OwnershipLost):
        members.check()


# What the coordinator says -------------------------------------------------------------------------------------------


async def test_a_coordinator_that_cannot_tell_yet_is_asked_again(group: Group) -> None:
    """Taken for "no offsets", its silence would begin the whole topic anew, or skip all of it."""
    group.offsets = {ORDERS[0]: (100, "")}
    group.silent_for = 2
    found = await committed_of(group, OPTIONS, ORDERS)  # type: ignore[arg-type]
    assert {partition: place.offset for partition, place in found.items()} == {ORDERS[0]: 100}
    assert group.lookups == 3


async def test_a_coordinator_that_never_can_tell_is_transient(group: Group) -> None:
    group.silent_for = 1_000_000
    options = KafkaOptions(bootstrap_servers=["here:9092"], group_id="g", topics=["orders"], request_timeout=0.05)
    with pytest.raises(Transient, match="'g'"):
        await committed_of(group, options, ORDERS)  # type: ignore[arg-type]


async def test_no_partitions_need_no_answer(group: Group) -> None:
    assert await committed_of(group, OPTIONS, []) == {}  # type: ignore[arg-type]
    assert group.lookups == 0
