"""What a group asks its shell to do, the limits that it keeps, and what it has counted."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Any, Literal

from msgspec import Struct

from bridge.core.lane import Lane, Span, Taken
from bridge.core.model import AdvanceBatch, Record
from bridge.core.retry import Backoff
from bridge.core.seat import Binding, Seat

Token = Span | Binding
"""Opaque outside of the core: goes out with what must become durable, comes back when it is."""


class Limits(Struct, frozen=True):
    """Bounds of one stream. Counts are of events, sizes in bytes, delays in seconds.

    `retry` spaces a watcher's tries at an event; `advance_retry` and `advance_attempts` those of telling the broker.
    With `retry_mode` `broker` a failed try is reported to the broker, which delivers the event again to everybody.
    With a `queue_size` a Python watcher that is further behind fails what comes in addition; None: nobody fails that.
    """

    retry: Backoff = Backoff()
    retry_mode: Literal["process", "broker"] = "process"
    max_outstanding: int = 10_000
    max_outstanding_bytes: int = 64 * 1024 * 1024
    max_retrying: int = 1000
    queue_size: int | None = None
    max_advancing: int = 8
    advance_max: int = 500  # events of the unordered lane in one batch
    advance_attempts: int = 10
    advance_retry: Backoff = Backoff(delay=0.5, factor=2.0, max=30.0)

    @property
    def lane_max(self) -> int:
        """An ordered lane may hold at most a quarter of the stream."""
        return max(1, self.max_outstanding // 4)


class Persist(Struct, eq=False):
    """Make `records` durable in one transaction, then hand `tokens` to `persisted`."""

    tokens: list[Token]
    records: list[Record]


class Advance(Struct, eq=False):
    """Tell the broker. The object comes back in `advanced` or `advance_failed`."""

    lane: Lane
    taken: Taken
    attempts: int = 0

    @property
    def batch(self) -> AdvanceBatch:
        return self.taken.batch


class Wake(Struct, eq=False):
    """The seat asked for work in vain, and now there is some."""

    seat: Seat


class Recall(Struct, eq=False):
    """Tries of this seat were ended: what runs for a ticket that is not current any more must be cancelled."""

    seat: Seat


class PauseLane(Struct, eq=False):
    """The lane has reached its share of the stream."""

    key: Hashable


class ResumeLane(Struct, eq=False):
    """The lane has room again."""

    key: Hashable


class GiveBack(Struct, eq=False):
    """An ordered lane begins again: the broker must deliver these once more, in order, behind what failed there."""

    payloads: list[Any]


class Left(Struct, eq=False):
    """A retired seat owes nothing any more."""

    seat: Seat


class StopGroup(Struct, eq=False):
    """The group can't go on. Nothing is settled past this, so the broker delivers it again."""

    reason: str


Command = Persist | Advance | Wake | Recall | PauseLane | ResumeLane | GiveBack | Left | StopGroup

NOTHING: list[Command] = []


class Outbox(list[Command]):
    """The commands of the call that is under way."""

    def drain(self) -> list[Command]:
        if not self:
            return NOTHING
        commands = self[:]
        self.clear()
        return commands


class Timers:
    """What is due when. One entry per retry, none per event: what the quick ones did never stays in it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Seat | None, Span | Advance]] = []
        self._sequence = 0

    @property
    def next(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def arm(self, when: float, seat: Seat | None, what: Span | Advance) -> None:
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, seat, what))

    def pop(self, now: float) -> tuple[Seat | None, Span | Advance] | None:
        """The next that is due, None when nothing is."""
        if not self._heap or self._heap[0][0] > now:
            return None
        _, _, seat, what = heappop(self._heap)
        return seat, what


class Tally(Struct, eq=False):
    """What the group has seen, in events."""

    received: int = 0
    unmatched: int = 0  # by declarative watchers
    faults: int = 0
    settled: int = 0
    unsettled: int = 0  # that a producer returned from `advance`: they come again
    dropped: int = 0  # of lanes that were lost: they come again
    stale: int = 0  # in slices of an older epoch
    joined: int = 0  # second deliveries of what was still held
    expired: int = 0  # whose lease the broker did not renew
