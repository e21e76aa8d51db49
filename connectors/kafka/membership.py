"""The partitions that are ours, and the rebalances that change them.

The client calls us at each rebalance and waits until we are done: no heartbeats are sent while it waits for
`on_partitions_assigned`, and the whole group waits for `on_partitions_revoked`. So both are bounded (B04), and what
goes wrong in them is kept and raised where polls are pulled, because the client would only log it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Final, Protocol

import structlog
from aiokafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from bridge.core.errors import HeadraceError, OwnershipLost, Transient
from bridge.core.model import AdvanceBatch
from bridge.ports import Lanes, Ledger
from connectors.kafka.errors import translated, translating
from connectors.kafka.lanes import Held, Mark, lane_text, mark_of, settlement_of
from connectors.kafka.options import KafkaOptions
from connectors.kafka.start import committed_of

log = structlog.get_logger("headrace.kafka")

REVOKED_WITHIN: Final = 5.0
"""Seconds for the last commit of partitions that are taken away."""
_PASSED_WITHIN: Final = 1.0
"""Seconds, as polls wait for it."""


class Positions(Protocol):
    """What is asked of the client here. (Its own type is too wide to tell what we depend on.)"""

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None: ...
    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]: ...
    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def assignment(self) -> Collection[TopicPartition]: ...


class NoLanes:
    """Stands in where nobody asked for epochs: slices of any epoch count."""

    def assigned(self, _lane: Hashable) -> None:
        return None

    def revoked(self, _lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        return []


class Membership(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    """See the head of the file. `held` has what is assigned to us now; `places` every partition that ever was."""

    def __init__(
        self, admin: AIOKafkaAdminClient, options: KafkaOptions, lanes: Lanes | None, ledger: Ledger | None
    ) -> None:
        self.held: dict[TopicPartition, Held] = {}
        self.places: dict[str, str] = dict(ledger.places) if ledger is not None else {}
        self.changed = asyncio.Event()
        """Set when a partition may be read that could not be before."""
        self.rebalances = 0
        self.strangers = 0
        """Partitions that came with an offset which another store had committed: two stores share the group."""
        self.consumer: Positions | None = None
        self._admin = admin
        self._options = options
        self._lanes: Lanes | NoLanes = lanes or NoLanes()
        self._ledger = ledger
        self._failure: HeadraceError | None = None

    def check(self) -> None:
        """Raises what went wrong in a rebalance."""
        if self._failure is not None:
            raise self._failure

    # What the client calls -------------------------------------------------------------------------------------------

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:  # pyright: ignore  # it awaits
        try:
            await self._give_up(revoked)
        except Exception as error:
            self._failure = translated(error, "giving partitions up")

    async def _give_up(self, revoked: Collection[TopicPartition]) -> None:
        leaving = [self.held.pop(partition) for partition in revoked if partition in self.held]
        last = self._lanes.revoked([held.partition for held in leaving])
        if not leaving:
            return
        self.rebalances += 1
        places = {s.held: s.next for _, batch in last if (s := settlement_of(batch)).next is not None}
        try:
            async with asyncio.timeout(REVOKED_WITHIN):
                await self._commit(places)
        except (HeadraceError, TimeoutError) as error:  # whoever has them next reads it again, and finds the runs made
            log.info("the last offsets of revoked partitions were not committed", reason=str(error) or "out of time")
        log.info("partitions revoked", partitions=len(leaving), settled_last=len(places))

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:  # pyright: ignore  # it awaits
        try:
            async with asyncio.timeout(max(1.0, self._options.session_timeout / 3)):
                await self._take(sorted(assigned))
        except Exception as error:
            self._failure = translated(error, "taking over assigned partitions")

    async def _take(self, partitions: Sequence[TopicPartition]) -> None:
        consumer = self._client
        committed = await committed_of(self._admin, self._options, partitions)
        new = [p for p in partitions if p not in committed]
        with translating("looking up where new partitions begin"):
            beginnings = await consumer.beginning_offsets(new) if new else {}
        for partition in partitions:
            at = committed[partition].offset if partition in committed else beginnings[partition]
            self.hold(partition, at)
            if partition in new:
                log.info("partition without an offset, read from its beginning", lane=lane_text(partition), offset=at)
            else:
                self._notice(partition, committed[partition])
        log.info("partitions assigned", partitions=len(partitions), group_id=self._options.group_id)

    def _notice(self, partition: TopicPartition, place: OffsetAndMetadata) -> None:
        mark = mark_of(place.metadata)
        if self._ledger is not None and mark is not None and mark.store != self._ledger.store:
            self.strangers += 1
            log.warning("offset of another store", lane=lane_text(partition), store=mark.store, mine=self._ledger.store)

    # What polls and settlements ask for ------------------------------------------------------------------------------

    def hold(self, partition: TopicPartition, offset: int) -> Held:
        """The partition is read from `offset` on, under a new epoch: what is still said of the one before is void."""
        before = self.held.get(partition)
        epoch = self._lanes.assigned(partition)
        held = Held(partition, epoch, committed=offset, delivered=offset, position=offset)
        if before is not None:
            held.fails_at, held.failures = before.fails_at, before.failures
        self.held[partition] = held
        self.places[held.lane] = str(offset)
        self.changed.set()
        if partition in self._client.assignment():  # else the next rebalance has begun already
            self._client.seek(partition, offset)
        return held

    async def commit(self, places: Mapping[Held, int]) -> None:
        """Commits next offsets of what is still ours; the rest comes again wherever it is now.

        Raises OwnershipLost when the group has been rebalanced meanwhile: a new assignment follows.
        """
        await self._commit({held: next for held, next in places.items() if self.is_current(held)})

    def is_current(self, held: Held) -> bool:
        return self.held.get(held.partition) is held

    async def pass_over(self, places: Mapping[Held, int]) -> bool:
        """Commits what nobody waits for. False: it was not done, and has to be another time."""
        try:
            async with asyncio.timeout(_PASSED_WITHIN):
                await self.commit(places)
        except (OwnershipLost, Transient, TimeoutError) as error:
            log.debug("offsets were not committed", reason=str(error) or "out of time")
            return False
        return True

    async def _commit(self, places: Mapping[Held, int]) -> None:
        if not places:
            return
        mark = Mark(self._ledger.store, self._ledger.sequence()).text if self._ledger is not None else ""
        with translating("committing offsets"):
            await self._client.commit({held.partition: OffsetAndMetadata(next, mark) for held, next in places.items()})
        for held, next in places.items():
            held.committed = max(held.committed, next)
            self.places[held.lane] = str(held.committed)

    @property
    def _client(self) -> Positions:
        if self.consumer is None:
            raise OwnershipLost("the consumer is not open")
        return self.consumer
