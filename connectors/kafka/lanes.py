"""What is held of a partition while it is assigned to us, and what settling it means. Pure.

A `Held` is one assignment of one partition: its identity is the epoch. A payload carries the Held that it was read
under, so whatever is still said of an earlier assignment is told apart by `is` and changes nothing.

    committed ≤ settled ≤ delivered ≤ position
        │         │          │           └ where the next fetch begins: behind transaction markers and aborted records
        │         │          └ behind the last record that was handed on
        │         └ behind the last record of the resolved prefix
        └ what the group's coordinator has confirmed
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from aiokafka import ConsumerRecord, TopicPartition
from msgspec import Struct

from bridge.core.model import TOMBSTONE, AdvanceItem, Meta
from bridge.shared_stream import AdvanceBatch, AdvanceOutcome

Headers = tuple[tuple[str, bytes | None], ...]


class Held(Struct, eq=False):
    """One assignment of a partition. Offsets are of the next record; `rests_until` is monotonic, 0: it does not rest.

    `fails_at` is the offset of a record that some watcher failed (`retry: broker`), `failures` how often in a row.
    """

    partition: TopicPartition
    epoch: int | None
    committed: int
    delivered: int
    position: int
    paused: bool = False
    rests_until: float = 0.0
    fails_at: int = -1
    failures: int = 0

    @property
    def lane(self) -> str:
        """For people and for the store: a topic's name can't hold a slash."""
        return lane_text(self.partition)

    @property
    def is_drained(self) -> bool:
        """All that was handed on is committed."""
        return self.committed >= self.delivered

    @property
    def next(self) -> int:
        """Where another member would have to go on, if everything that needs no settling is passed over."""
        return max(self.committed, self.position) if self.is_drained else self.committed


class Record(Struct, frozen=True, eq=False, gc=False):
    """The payload of an event: all that is kept of a record beside its value. `timestamp` in ms, -1: it has none."""

    held: Held
    offset: int
    timestamp: int
    key: bytes | None
    headers: Headers
    is_tombstone: bool = False


def lane_text(partition: TopicPartition) -> str:
    """`orders/3`"""
    return f"{partition.topic}/{partition.partition}"


class Stretch(NamedTuple):
    """What one fetch gave of a partition: values and payloads of the same length, and how many had no value."""

    values: list[bytes]
    payloads: list[Record]
    tombstones: int = 0


def stretch_of(held: Held, records: Sequence[ConsumerRecord[bytes, bytes]], *, deliver_tombstones: bool) -> Stretch:
    """Records of one partition as events. Those without a value are left out unless somebody wants them."""
    values: list[bytes | None] = [r.value for r in records]
    if None in values:
        return _with_tombstones(held, records, deliver_tombstones=deliver_tombstones)
    # (What is ignored: the client's types know no null header. A cast would cost time with every record.)
    payloads = [Record(held, r.offset, r.timestamp, r.key, r.headers) for r in records]  # pyright: ignore
    return Stretch(cast("list[bytes]", values), payloads)


def _with_tombstones(
    held: Held, records: Iterable[ConsumerRecord[bytes, bytes]], *, deliver_tombstones: bool
) -> Stretch:
    values: list[bytes] = []
    payloads: list[Record] = []
    tombstones = 0
    for r in records:
        if r.value is None:
            tombstones += 1
            if not deliver_tombstones:
                continue
        values.append(TOMBSTONE if r.value is None else r.value)
        payloads.append(Record(held, r.offset, r.timestamp, r.key, cast("Headers", r.headers), r.value is None))
    return Stretch(values, payloads, tombstones)


# Names of a record ---------------------------------------------------------------------------------------------------


def identity_of(record: Record) -> str:
    """Unique for ever: offsets begin again when a topic is deleted and made again, and the time tells them apart."""
    topic, partition = record.held.partition
    return f"{topic}/{partition}/{record.offset}/{record.timestamp}"


class Origin(NamedTuple):
    """Where a record was, read back from its identity."""

    topic: str
    partition: int
    offset: int
    timestamp: int


def origin_of(identity: str) -> Origin | None:
    """None where the text is not an identity of this connector."""
    parts = identity.rsplit("/", 3)
    try:
        topic, partition, offset, timestamp = parts
        return Origin(topic, int(partition), int(offset), int(timestamp))
    except ValueError:
        return None


def meta_of(record: Record) -> Meta:
    """What filters and dead letters see of it."""
    topic, partition = record.held.partition
    return Meta(
        position=f"{topic}[{partition}]@{record.offset}",
        timestamp=record.timestamp / 1000 if record.timestamp >= 0 else None,
        key=record.key,
        headers=record.headers,
        lane=f"{topic}-{partition}",
        tombstone=record.is_tombstone,
    )


# Settling ------------------------------------------------------------------------------------------------------------


class Settlement(NamedTuple):
    """What a batch asks for: to commit `next` (None: nothing of it), and to read again from `again` on."""

    held: Held
    next: int | None
    again: int | None


def settlement_of(batch: Sequence[AdvanceItem]) -> Settlement:
    """The offset behind the last item in front of the first failed one, and where that one is."""
    runs = runs_of(batch)
    held: Held = runs[0][1][0].held
    behind: int | None = None
    for outcome, payloads in runs:
        if outcome.failed:
            return Settlement(held, behind, payloads[0].offset)
        behind = payloads[-1].offset + 1
    return Settlement(held, behind, None)


def runs_of(batch: Sequence[AdvanceItem]) -> Sequence[tuple[AdvanceOutcome, list[Record]]]:
    """A batch as runs; one that comes item by item is taken as runs of one."""
    if isinstance(batch, AdvanceBatch):
        return batch.runs
    return [(outcome, [payload]) for payload, outcome in batch]


# The mark of the store -----------------------------------------------------------------------------------------------

_MARK: Final = "headrace/1"


class Mark(NamedTuple):
    """What is left beside an offset: which store had it settled, and the number of its last commit then."""

    store: str
    sequence: int

    @property
    def text(self) -> str:
        return f"{_MARK} {self.store} {self.sequence}"


def mark_of(metadata: str | None) -> Mark | None:
    """None: the offset was committed by another tool, or by hand."""
    words = (metadata or "").split(" ")
    if len(words) != 3 or words[0] != _MARK or not words[2].isdecimal():
        return None
    return Mark(words[1], int(words[2]))
