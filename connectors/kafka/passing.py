"""Going on behind gaps: offsets that the broker has not got, told, counted, and passed over as the options want (B08).

What was read in front of a gap is not gone: we hold it. So its partition rests until all of that is settled, and only
then is the gap passed over, which drops whatever is still said of the partition, and moves the group's offset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition

from bridge.core.errors import Refused
from connectors.kafka.consumer import position_of
from connectors.kafka.errors import translating
from connectors.kafka.gaps import Gap, gap_of
from connectors.kafka.lanes import Held
from connectors.kafka.membership import Membership
from connectors.kafka.options import KafkaOptions

log = structlog.get_logger("headrace.kafka")

_TOLD_MOST: Final = 20
_LOOKED_AGAIN: Final = 0.2
"""Seconds that a partition rests until we look again whether it is settled, or whether its broker has caught up."""


class Gaps:
    """`told` has the last of them, `lost` counts their records. `now` is the time of the loop."""

    def __init__(self, options: KafkaOptions, members: Membership, consumer: AIOKafkaConsumer) -> None:
        self.told: deque[Gap] = deque(maxlen=_TOLD_MOST)
        self.lost = 0
        self._options = options
        self._members = members
        self._consumer = consumer
        self._ahead: dict[Held, Gap] = {}
        self._passed: dict[Held, int] = {}  # and not committed yet

    async def meet(self, wanted: Mapping[TopicPartition, int], now: float) -> None:
        """The broker does not have these offsets: what is behind them is looked up once, and passed over in time."""
        partitions = [p for p, offset in wanted.items() if await self._is_wanted(p, offset)]
        if not partitions:
            return
        with translating("looking up where partitions begin and end"):
            beginnings = await self._consumer.beginning_offsets(partitions)
            ends = await self._consumer.end_offsets(partitions)
        for partition in partitions:
            held = self._members.held.get(partition)
            gap = gap_of(partition, wanted[partition], beginnings[partition], ends[partition])
            if held is not None and gap is not None:
                self._ahead[held] = gap
            elif held is not None:
                held.rests_until = now + _LOOKED_AGAIN  # the offset is there after all

    async def _is_wanted(self, partition: TopicPartition, offset: int) -> bool:
        """Else it was said of a place that has been left since."""
        held = self._members.held.get(partition)
        return held is not None and held not in self._ahead and await position_of(self._consumer, partition) == offset

    async def pass_over(self, now: float) -> None:
        """Those in front of which everything is settled. Raises Refused where the options want to stop there."""
        for held, gap in list(self._ahead.items()):
            if not self._members.is_current(held):
                del self._ahead[held]
            elif not held.is_drained:
                held.rests_until = now + _LOOKED_AGAIN
            else:
                del self._ahead[held]
                self._tell(gap)
                self._passed[self._members.hold(gap.partition, gap.resumes)] = gap.resumes
        await self._commit()

    async def _commit(self) -> None:
        """At once: a new log may outgrow the old offset before anything of it is settled."""
        self._passed = {held: offset for held, offset in self._passed.items() if held.delivered == offset}
        if self._passed and await self._members.pass_over(self._passed):
            self._passed = {}

    def _tell(self, gap: Gap) -> None:
        self.told.append(gap)
        self.lost += 0 if gap.is_new_log else gap.records
        log.error(
            "records are gone before they were read",
            topic=gap.partition.topic,
            partition=gap.partition.partition,
            first=gap.first,
            last=gap.last,
            resumes=gap.resumes,
            what=gap.words,
        )
        if self._options.on_gap == "stop":
            raise Refused(
                f"{gap.words}; `on_gap: stop` keeps the stream here: set `on_gap: resume`, or move the offset of "
                f"group {self._options.group_id!r}"
            )
