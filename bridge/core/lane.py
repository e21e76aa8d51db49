"""Lanes and spans: what is outstanding, in which order it may be settled, and what is ready for that.

A *span* is a stretch of consecutive events of one lane that share their fate: they resolve together, with one
outcome. A poll in which nothing matched is one span, born resolved; one with matches is cut in front of the first
match, and what lies behind hangs on the poll's one commit; with Python watchers every event is a span of its own.

A *lane* is the ordering unit. An ordered lane gives away its contiguous resolved prefix, one batch at a time; the
unordered one gives away whatever has resolved. **The identity of the object is its epoch**: a lane that is revoked
is marked dead and forgotten, and everything that still holds it (a confirmation, a verdict, an advance) finds
`live` false and changes nothing. The number `epoch` is only for slices of polls that were under way meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

from msgspec import Struct, field

from bridge.core.model import AdvanceBatch, AdvanceOutcome, Rejection, outcome_of


class Span(Struct, eq=False):
    """`size`: bytes of the bodies kept for it. `body` is kept only while a Python watcher may ask for it."""

    lane: Lane
    payloads: list[Any]
    size: int
    pending: int
    acked: int
    rejected: int = 0
    failed: int = 0
    rejections: tuple[Rejection, ...] = ()
    body: bytes = b""
    received: float = 0.0  # of the oldest event in it
    resting: int = 0  # Python watchers that wait for their next try at it
    next: Span | None = None

    @property
    def outcome(self) -> AdvanceOutcome:
        if self.rejections:
            return AdvanceOutcome(self.acked, self.failed, self.rejected, self.rejections)
        return outcome_of(self.acked, self.failed, self.rejected)

    def ended_like(self, other: Span) -> bool:
        """The outcomes are the same, and nobody refused either."""
        return (
            self.acked == other.acked
            and self.rejected == other.rejected
            and self.failed == other.failed
            and not self.rejections
            and not other.rejections
        )


class Lane(Struct, eq=False):
    """An ordered lane: spans in fan-out order as a linked list (a deque each would cost 760 bytes)."""

    key: Hashable
    epoch: int = 0
    pinned: bool = False  # assigned by the broker: kept while idle
    internal: bool = False  # a replay: not the producer's to settle
    live: bool = True
    outstanding: int = 0  # events admitted and not yet settled
    size: int = 0  # bytes kept for them
    paused: bool = False
    waits: bool = False  # stands in the queue for `max_advancing`
    advancing: int = 0
    head: Span | None = None
    tail: Span | None = None

    ordered = True

    @property
    def is_idle(self) -> bool:
        """Nothing in front and nothing in flight: a poll without a match may go straight out."""
        return self.head is None and not self.advancing

    @property
    def is_held(self) -> bool:
        """Its first span is not resolved: there is nothing to give away."""
        return self.head is not None and self.head.pending > 0

    def append(self, span: Span) -> None:
        """Behind the others; resolved neighbours of equal outcome become one."""
        tail = self.tail
        if tail is None:
            self.head = self.tail = span
        elif not (span.pending or tail.pending or tail.failed) and span.ended_like(tail):
            tail.payloads += span.payloads  # in place: the core owns the lists that a poll brought
            tail.size += span.size
        else:
            tail.next = span
            self.tail = span

    def resolved(self, span: Span) -> bool:
        """The span has just resolved: True if the lane may have something to give away now."""
        return span is self.head

    def take(self, most: int) -> Taken | None:
        """The contiguous resolved prefix; it ends before the first failed item, which goes alone."""
        head = self.head
        if head is None or head.pending or self.advancing:
            return None
        runs: list[tuple[AdvanceOutcome, list[Any]]] = []
        length = size = failed = 0
        last: Span | None = None
        while head is not None and not head.pending:
            if head.failed:
                if length:
                    break
                failed = len(head.payloads)
            if last is not None and head.ended_like(last):
                runs[-1][1].extend(head.payloads)
            else:
                runs.append((head.outcome, head.payloads))
            last = head
            length += len(head.payloads)
            size += head.size
            head = head.next
            if failed:
                break
        self.head = head
        if head is None:
            self.tail = None
        return Taken(AdvanceBatch(runs, length), size, failed)

    @property
    def oldest(self) -> float | None:
        """When the oldest event that is not resolved was received."""
        return self.head.received if self.head is not None else None

    def unsettled(self) -> list[Any]:
        """Payloads of everything that has not been given away."""
        payloads: list[Any] = []
        span = self.head
        while span is not None:
            payloads += span.payloads
            span = span.next
        return payloads


class Taken(Struct, eq=False):
    """What a lane gave away for settlement, and the bytes that it stands for. `failed` events come again."""

    batch: AdvanceBatch
    size: int
    failed: int = 0


class UnorderedLane(Lane):
    """Events that hold nobody: `ready` has what has resolved, `waiting` the spans that have not."""

    ready: deque[tuple[AdvanceOutcome, list[Any], int]] = field(default_factory=deque)
    waiting: set[Span] = field(default_factory=set)

    ordered = False

    @property
    def is_idle(self) -> bool:
        return not self.ready and not self.advancing

    @property
    def is_held(self) -> bool:
        return not self.ready

    def append(self, span: Span) -> None:
        if span.pending:
            self.waiting.add(span)
        else:
            self.resolved(span)

    def resolved(self, span: Span) -> bool:
        self.waiting.discard(span)
        outcome = span.outcome
        if self.ready and self.ready[-1][0] is outcome:
            _, payloads, size = self.ready[-1]
            payloads += span.payloads
            self.ready[-1] = (outcome, payloads, size + span.size)
        else:
            self.ready.append((outcome, span.payloads, span.size))
        return True

    def take(self, most: int) -> Taken | None:
        """Up to `most` of what has resolved."""
        runs: list[tuple[AdvanceOutcome, list[Any]]] = []
        length = total = failed = 0
        while self.ready and length < most:
            outcome, payloads, size = self.ready.popleft()
            room = most - length
            if len(payloads) > room:
                share = size * room // len(payloads)
                self.ready.appendleft((outcome, payloads[room:], size - share))
                payloads, size = payloads[:room], share
            runs.append((outcome, payloads))
            length += len(payloads)
            total += size
            if outcome.failed:
                failed += len(payloads)
        return Taken(AdvanceBatch(runs, length), total, failed) if length else None

    @property
    def oldest(self) -> float | None:
        return min((span.received for span in self.waiting), default=None)

    def unsettled(self) -> list[Any]:
        return [p for span in self.waiting for p in span.payloads] + [p for _, run, _ in self.ready for p in run]
