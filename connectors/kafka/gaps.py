"""Offsets that the broker does not have any more: how much is lost, and where it goes on. Pure."""

from __future__ import annotations

from aiokafka import TopicPartition
from msgspec import Struct

from connectors.kafka.lanes import lane_text


class Gap(Struct, frozen=True):
    """Records `first` to `last` (inclusive) were deleted before anybody here read them; `resumes` is where it goes on.

    `is_new_log`: the partition ends in front of the offset that was asked for, so it is another log under the same name
    (the topic was made again, or an election lost its end), and everything in it is unread.
    """

    partition: TopicPartition
    first: int
    last: int
    resumes: int
    is_new_log: bool = False

    @property
    def records(self) -> int:
        """How many at most: transactions and compaction leave holes."""
        return max(0, self.last - self.first + 1)

    @property
    def words(self) -> str:
        lane = lane_text(self.partition)
        if self.is_new_log:
            return (
                f"{lane} ends before offset {self.first}, which was to be read next: the topic was made again, or cut "
                f"short by an election; everything in it counts as unread, from offset {self.resumes} on"
            )
        return (
            f"{lane} begins at offset {self.resumes}, and {self.first} was to be read next: retention has deleted "
            f"offsets {self.first} to {self.last} ({self.records:,} records at most) before they were read"
        )


def gap_of(partition: TopicPartition, wanted: int, beginning: int, end: int) -> Gap | None:
    """None: the offset is there after all, the broker had not caught up."""
    if wanted < beginning:
        return Gap(partition, wanted, beginning - 1, beginning)
    if wanted > end:
        return Gap(partition, wanted, wanted - 1, beginning, is_new_log=True)
    return None
