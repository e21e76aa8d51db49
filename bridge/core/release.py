"""Outlet: the lanes of a group, what may be settled of them, and what the limits say.

It knows nothing of watchers. A span is put into its lane (`append`), resolves (`resolved`), is given away in an
`Advance`, and leaves when the broker was told. Pausing follows from what is outstanding.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

from bridge.core.commands import Advance, GiveBack, Limits, Outbox, PauseLane, ResumeLane, StopGroup, Tally, Timers
from bridge.core.lane import Lane, Span, Taken, UnorderedLane
from bridge.core.leases import Leases
from bridge.core.model import UNORDERED, AdvanceBatch, AdvanceOutcome, Slice


class Outlet:
    """See the head of the file. `killed` collects lanes that died in this call, for whoever holds tries of them."""

    def __init__(
        self, limits: Limits, outbox: Outbox, timers: Timers, tally: Tally, leases: Leases | None = None
    ) -> None:
        self.limits = limits
        self.most = limits.max_outstanding
        self.leases = leases
        self.lanes: dict[Hashable, Lane] = {}
        self.outstanding = self.size = self.retrying = 0
        self.advancing = 0
        self.repeating: set[Advance] = set()
        self._told: set[Advance] = set()  # of leased lanes, until the broker has answered for good
        self.is_paused = False
        self.paused_lanes = 0
        self.failure: str | None = None
        self.killed: list[Lane] = []
        self._lane_max = limits.lane_max
        self._touched: dict[Lane, None] = {}
        self._outbox = outbox
        self._timers = timers
        self._tally = tally
        self._epoch = 0
        self._waiting: deque[Lane | Advance] = deque()

    # Coming in -------------------------------------------------------------------------------------------------------

    def lane_of(self, piece: Slice, internal: bool) -> Lane | None:
        """The lane of a slice, made when it is new; None if the slice is of an older epoch."""
        lane = self.lanes.get(piece.lane)
        if piece.epoch is not None and (lane is None or lane.epoch != piece.epoch):
            self._tally.stale += piece.stop - piece.start
            return None
        return lane if lane is not None else self._open(piece.lane, internal=internal)

    def _open(self, key: Hashable, *, pinned: bool = False, internal: bool = False) -> Lane:
        self._epoch += 1
        kind = UnorderedLane if key is UNORDERED else Lane
        lane = self.lanes[key] = kind(key, self._epoch, pinned, internal)
        return lane

    def occupy(self, lane: Lane, length: int, size: int) -> None:
        """`length` events of `size` bytes are outstanding from now on."""
        lane.outstanding += length
        lane.size += size
        self.outstanding += length
        self.size += size

    def pass_through(self, lane: Lane, outcome: AdvanceOutcome, payloads: list[object], received: float) -> None:
        """The hot path: a slice that is resolved at once. On an idle lane it goes straight out."""
        length = len(payloads)
        self.occupy(lane, length, 0)
        limits = self.limits
        fits = lane.ordered or length <= limits.advance_max
        if lane.is_idle and fits and self.advancing < limits.max_advancing:
            self._send(Advance(lane, Taken(AdvanceBatch([(outcome, payloads)], length), 0)))
        else:
            lane.append(Span(lane, payloads, 0, 0, outcome.acked, received=received))
            self.release(lane)
        self.mark_lane(lane)

    def admit(self, lane: Lane, spans: Sequence[Span]) -> None:
        """Spans of one slice, in order."""
        for span in spans:
            self.occupy(lane, len(span.payloads), span.size)
            lane.append(span)
        if not lane.is_held:
            self.release(lane)
        self.mark_lane(lane)

    # Going out -------------------------------------------------------------------------------------------------------

    def done(self, span: Span) -> None:
        """One of those who owed the span is done with it; the last one resolves it. `flush` must follow."""
        span.pending -= 1
        if not span.pending:
            span.body = b""
            if span.lane.resolved(span):
                self._touched[span.lane] = None

    def flush(self) -> None:
        """Gives away what resolved in this call: in one batch a lane, not one an event."""
        if self._touched:
            touched, self._touched = self._touched, {}
            for lane in touched:
                self.release(lane)

    def release(self, lane: Lane) -> None:
        """Gives away what the lane may settle now, as far as `max_advancing` allows."""
        limits = self.limits
        while lane.live:
            if self.advancing >= limits.max_advancing:
                if not lane.waits:
                    lane.waits = True
                    self._waiting.append(lane)
                return
            taken = lane.take(limits.advance_max)
            if taken is None:
                return
            self._send(Advance(lane, taken))
            if lane.ordered:
                return  # one batch at a time

    def _release_in_turn(self, lane: Lane) -> None:
        """A lane that always has something ready must not take its place again in front of those that wait."""
        if not self._waiting:
            self.release(lane)
        elif not lane.waits:
            lane.waits = True
            self._waiting.append(lane)

    def _send(self, advance: Advance) -> None:
        advance.lane.advancing += 1
        self.advancing += 1
        if self.leases is not None:
            self._told.add(advance)
        self._outbox.append(advance)

    def advanced(self, advances: Sequence[Advance], unsettled: int) -> None:
        """The broker was told. It left `unsettled` events as they were, beside those that failed or among them."""
        self.advancing -= len(advances)
        settled = failed = 0
        for advance in advances:
            lane = advance.lane
            lane.advancing -= 1
            if self.leases is not None:
                self._let_go(advance)
            if not lane.live:
                continue
            length = len(advance.batch)
            self._vacate(lane, length, advance.taken.size)
            settled += length
            failed += advance.taken.failed
            if advance.taken.failed and lane.ordered:
                self._begin_again(lane)
                continue
            if lane.outstanding:
                self._release_in_turn(lane)
            self.mark_lane(lane)
            if not lane.outstanding and not lane.pinned:
                lane.live = False  # ordering keys are unbounded: a drained lane costs nothing
                del self.lanes[lane.key]
        again = min(max(unsettled, failed), settled)
        self._tally.settled += settled - again
        self._tally.unsettled += again
        self._next()

    def advance_failed(
        self, advance: Advance, kind: Literal["transient", "moved", "fatal"], reason: str, now: float
    ) -> None:
        """The broker was not told: try again in order, drop the lane quietly, or end the group."""
        self.advancing -= 1
        advance.attempts += 1
        lane = advance.lane
        if not lane.live:
            self._end(advance)
        elif kind == "moved":
            self._end(advance)
            self.kill(lane)
        elif kind == "fatal" or advance.attempts >= self.limits.advance_attempts:
            lane.advancing -= 1
            self.failure = reason
            self._outbox.append(StopGroup(reason))
            self.kill(lane)
        else:
            self.repeating.add(advance)
            self._timers.arm(now + self.limits.advance_retry.after(advance.attempts), None, advance)
        self._next()

    def repeat(self, advance: Advance) -> None:
        """The delay of an advance that failed is over."""
        if not advance.lane.live:
            self.repeating.discard(advance)
            self._end(advance)
        elif self.advancing >= self.limits.max_advancing:
            self._waiting.append(advance)
        else:
            self.repeating.discard(advance)
            self.advancing += 1
            self._outbox.append(advance)

    def _end(self, advance: Advance) -> None:
        """The broker will not be told: its lane has gone, or goes now."""
        advance.lane.advancing -= 1
        self._let_go(advance)

    def _next(self) -> None:
        """Lanes and repeated advances that `max_advancing` held back, first come first served."""
        while self._waiting and self.advancing < self.limits.max_advancing:
            waiting = self._waiting.popleft()
            if isinstance(waiting, Advance):
                self.repeat(waiting)
            else:
                waiting.waits = False
                self.release(waiting)

    # Ownership -------------------------------------------------------------------------------------------------------

    def assigned(self, key: Hashable) -> int:
        """The lane is ours from now on: its epoch. What an earlier assignment left is dropped."""
        old = self.lanes.get(key)
        if old is not None:
            self._resume(old)
            self.kill(old)
        return self._open(key, pinned=True).epoch

    def revoked(self, keys: Iterable[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        """The lanes are gone. Returns what was resolved and not yet given away, for a last settlement."""
        last: list[tuple[Hashable, AdvanceBatch]] = []
        for key in keys:
            lane = self.lanes.get(key)
            if lane is None:
                continue
            in_flight, lane.advancing = lane.advancing, 0
            taken = lane.take(max(1, lane.outstanding))
            lane.advancing = in_flight
            if taken is not None and not taken.failed:
                self._vacate(lane, len(taken.batch), taken.size)
                self._forget(lane, taken.batch.payloads)
                self._tally.settled += len(taken.batch)
                last.append((key, taken.batch))
            self.kill(lane)
        return last

    def _begin_again(self, lane: Lane) -> None:
        """Drops the lane, which stays ours: what lies behind comes again from the broker, and must not stay paused."""
        self._resume(lane)
        if self.leases is not None and (behind := lane.unsettled()):
            self._outbox.append(GiveBack(behind))
        self.kill(lane)

    def _resume(self, lane: Lane) -> None:
        if lane.paused:
            self._outbox.append(ResumeLane(lane.key))

    def lost(self, keys: Iterable[Hashable]) -> None:
        """Ordered lanes with a message that the broker may have given to somebody else: they begin again.

        A call that is under way may have settled it, and then the lease ended for that.
        """
        for key in keys:
            lane = self.lanes.get(key)
            if lane is not None and lane.ordered and not lane.advancing:
                self._begin_again(lane)

    def drop(self, span: Span) -> None:
        """An unordered event is not ours any more: it goes to a lane of its own, which is dead."""
        lane = span.lane
        if not isinstance(lane, UnorderedLane) or span not in lane.waiting:
            return
        lane.waiting.discard(span)
        self._forget(lane, span.payloads)
        self._vacate(lane, len(span.payloads), span.size)
        self._tally.dropped += len(span.payloads)
        span.lane = UnorderedLane(lane.key, live=False)
        self.killed.append(span.lane)

    def kill(self, lane: Lane) -> None:
        """Nothing that still holds the lane may change anything from now on."""
        lane.live = False
        if self.leases is not None:
            self._forget(lane, lane.unsettled())
            for advance in [told for told in self._told if told.lane is lane]:
                self._let_go(advance)
        if self.lanes.get(lane.key) is lane:
            del self.lanes[lane.key]
        self._tally.dropped += lane.outstanding
        self.outstanding -= lane.outstanding
        self.size -= lane.size
        if lane.paused:
            self.paused_lanes -= 1
        lane.head = lane.tail = None
        self.killed.append(lane)

    def _let_go(self, advance: Advance) -> None:
        """Told, or told in vain: what comes of it again is a message of its own."""
        if self.leases is not None and advance in self._told:
            self._told.discard(advance)
            self._forget(advance.lane, advance.batch.payloads)

    def _forget(self, lane: Lane, payloads: Sequence[Any]) -> None:
        """Their leases are none of ours any more."""
        if self.leases is not None and not lane.internal:
            self.leases.forget(payloads)

    # Limits ----------------------------------------------------------------------------------------------------------

    def hold_at_most(self, events: int) -> None:
        """Instead of `max_outstanding`, where less can be renewed in time."""
        self.most = min(max(1, events), self.limits.max_outstanding)

    def _vacate(self, lane: Lane, length: int, size: int) -> None:
        lane.outstanding -= length
        lane.size -= size
        self.outstanding -= length
        self.size -= size

    def mark_lane(self, lane: Lane) -> None:
        """An ordered lane pauses at its share of the stream and resumes at half of it."""
        most = self._lane_max
        if (lane.outstanding < most and not lane.paused) or not lane.ordered or lane.internal:
            return
        if not lane.paused and lane.outstanding >= most:
            lane.paused = True
            self.paused_lanes += 1
            self._outbox.append(PauseLane(lane.key))
        elif lane.paused and lane.outstanding <= most // 2:
            lane.paused = False
            self.paused_lanes -= 1
            self._outbox.append(ResumeLane(lane.key))

    def mark_stream(self) -> None:
        """Pauses at any limit, resumes when all are at half or less. Events that rest are counted apart."""
        limits = self.limits
        used = self.outstanding - self.retrying
        if not self.is_paused:
            self.is_paused = (
                used >= self.most or self.size >= limits.max_outstanding_bytes or self.retrying >= limits.max_retrying
            )
        else:
            self.is_paused = (
                used > self.most // 2
                or self.size > limits.max_outstanding_bytes // 2
                or self.retrying > limits.max_retrying // 2
            )
