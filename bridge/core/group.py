"""One stream group: who owes which event, when it is resolved, and when the broker may be told.

This object owns the whole state of a group. It is called from one loop, so every call is atomic; what must be done
comes back as commands, a few per poll. Its rules (numbers as in docs/semantics.md):

- The set that owes an event is fixed when its poll is admitted (5).
- An event resolves once every owing watcher is done with it *and* what it caused is confirmed durable (9, 28).
- A lane gives away its contiguous resolved prefix, one batch at a time; unordered events go as they resolve (19-21).
- What carries an older epoch (a dead lane, a dead ticket, an old slice) changes nothing (22).
- Each failed try is written before the next begins, and a spent budget rejects (15). A try that we ended costs
  nothing (13).
- Limits pause, and never drop (17); unless a watcher is to fail what it is too far behind with (`queue_size`).

Time comes in as `now` (monotonic seconds); `wake_at` says when `time_passed` has something to do. `release.py` has the
lanes and what may be settled, `tries.py` the Python watchers; here is what ties them together.

    received ─▶ admit ─┬─ nobody has anything to say ────────────────────────────────┐
                       ├─ hits, faults ─▶ Persist ─▶ persisted ──────────────────────┤
                       └─ Python watchers ─▶ hand_over ─▶ returned ─▶ (Persist ─▶ …) ┴─▶ Advance ─▶ advanced
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Literal

from bridge.core import admission
from bridge.core.commands import Advance, Command, Limits, Outbox, Tally, Timers, Token
from bridge.core.errors import IllegalStep
from bridge.core.lane import Lane, Span
from bridge.core.leases import Leases
from bridge.core.model import (
    EVERY_WATCHER,
    AdvanceBatch,
    Lent,
    Poll,
    Record,
    Reject,
    Routed,
    Slice,
    outcome_of,
)
from bridge.core.release import Outlet
from bridge.core.seat import Binding, Seat, Ticket
from bridge.core.tries import History, Tries
from bridge.core.window import Verdict


class StreamGroup:
    """See the head of the file. Methods return the commands that follow; an illegal step raises and changes nothing."""

    def __init__(
        self,
        declared: int,
        limits: Limits,
        *,
        seats: Iterable[Seat] = (),
        history: History | None = None,
        is_suspect: bool = False,
        lease: float | None = None,
    ) -> None:
        """`declared`: how many declarative watchers. `is_suspect`: the process died lately, see `open_one`.

        `lease`: seconds for which the broker lends its messages, whose payloads then are `Lent`; None: it does not.
        """
        self.declared = declared
        self.tally = Tally()
        self.is_stopping = False
        self._outbox = Outbox()
        self._timers = Timers()
        self._leases = Leases(lease) if lease is not None else None
        self._outlet = Outlet(limits, self._outbox, self._timers, self.tally, self._leases)
        self._tries = Tries(limits, self._outlet, self._outbox, self._timers, history)
        self._tries.is_suspect = is_suspect
        for seat in seats:
            self.join(seat)

    # What it looks like from outside ---------------------------------------------------------------------------------

    @property
    def seats(self) -> dict[str, Seat]:
        return self._tries.seats

    @property
    def outstanding(self) -> int:
        """Events admitted and not settled."""
        return self._outlet.outstanding

    @property
    def oldest(self) -> float | None:
        """When the oldest event that waits to be resolved was received. It looks at every lane: for people only."""
        return min((o for lane in self._outlet.lanes.values() if (o := lane.oldest) is not None), default=None)

    @property
    def retrying(self) -> int:
        """Events that rest between two tries."""
        return self._outlet.retrying

    @property
    def is_paused(self) -> bool:
        """The stream is full: nothing more should be asked of the broker."""
        return self._outlet.is_paused

    @property
    def has_paused_lanes(self) -> bool:
        return self._outlet.paused_lanes > 0

    @property
    def is_suspect(self) -> bool:
        """Each try is written before it begins: `hand_over` gives nothing but what `open_one` has opened."""
        return self._tries.is_suspect

    @property
    def failure(self) -> str | None:
        """Why the group can't go on."""
        return self._outlet.failure

    @property
    def is_settled(self) -> bool:
        """No commit and no advance is under way, or waits to be repeated: after `stop`, the end."""
        return not (self._tries.committing or self._outlet.advancing or self._outlet.repeating)

    @property
    def wake_at(self) -> float | None:
        """When `time_passed` has something to do."""
        return self._timers.next

    def unsettled(self) -> list[tuple[Hashable, list[Any]]]:
        """Payloads by lane that may go back to the broker: all that it was not told of, or in vain."""
        left: dict[Hashable, list[Any]] = {}
        for advance in self._outlet.repeating:
            if advance.lane.live and not advance.lane.internal:
                left.setdefault(advance.lane.key, []).extend(advance.batch.payloads)
        for lane in self._outlet.lanes.values():
            if not lane.internal and (behind := lane.unsettled()):
                left.setdefault(lane.key, []).extend(behind)
        return list(left.items())

    # Leases ----------------------------------------------------------------------------------------------------------

    @property
    def renew_at(self) -> float | None:
        """When something is due to be renewed; None: nothing is lent."""
        return self._leases.due_at if self._leases is not None else None

    def received(self, poll: Poll) -> Poll:
        """Comes first: a message that is still held is not admitted a second time, it brings the newer handle."""
        if self._leases is None:
            return poll
        fresh = self._leases.received(poll)
        self.tally.joined = self._leases.joined
        return fresh

    def due(self, now: float) -> list[Lent]:
        """What the broker must be asked to renew now; `renewed` must follow."""
        return self._leases.due(now) if self._leases is not None else []

    def renewed(self, asked: Sequence[Lent], refused: Sequence[Lent], now: float) -> list[Command]:
        """The broker was asked at `now`: those that it did not refuse are lent anew. Without an answer: nothing asked.

        What is lost is not handed over any more, and an ordered lane with it begins again.
        """
        leases = self._leases
        if leases is None:
            raise IllegalStep("nothing is lent here")
        lost = leases.renewed(asked, refused, now)
        self._outlet.lost({payload.lane for payload in lost})
        if leases.is_scarce:
            self._tries.drop_lost()
        commands = self._after_lanes()
        if leases.recovers():
            self._tries.wake_all()
            commands = [*commands, *self._outbox.drain()]
        self.tally.expired = leases.expired
        return commands

    @property
    def most_outstanding(self) -> int:
        """At so many events the stream is full."""
        return self._outlet.most

    def hold_at_most(self, events: int) -> None:
        """Fewer than `max_outstanding`, for as long as more could not be renewed in time."""
        self._outlet.hold_at_most(events)
        self._outlet.mark_stream()

    # The audience ----------------------------------------------------------------------------------------------------

    def join(self, seat: Seat) -> None:
        """A Python watcher owes every poll that is admitted from now on."""
        self._tries.join(seat)

    def retire(self, seat: Seat, now: float) -> list[Command]:
        """It was removed: it owes nothing new, and finishes what it owes until somebody says `expel`."""
        self._tries.require(seat)
        self._tries.retire(seat, now)
        return self._outbox.drain()

    def expel(self, seat: Seat, reason: str) -> list[Command]:
        """It is out of time or can't run: what it still owes becomes dead letters with `reason`."""
        self._tries.require(seat)
        self._tries.expel(seat, reason)
        self._outlet.mark_stream()
        return self._outbox.drain()

    def abandon(self, seat: Seat) -> list[Command]:
        """We ended its tries (its task is gone): no outcome, no attempt spent, and later again."""
        self._tries.require(seat)
        self._tries.give_back(seat)
        return self._outbox.drain()

    # Admit -----------------------------------------------------------------------------------------------------------

    def admit(self, poll: Poll, routed: Routed) -> list[Command]:
        """A poll came in and was routed: everybody who is in the group owes it."""
        seats = self._tries.audience
        return self._admit(poll, routed, seats, admission.Audience(self.declared, len(seats)), internal=False)

    def admit_replay(self, poll: Poll, records: list[Record], seats: Sequence[Seat]) -> list[Command]:
        """A dead letter is read again, on a lane of its own: `seats` and the watchers of its `records` owe it."""
        declared = len(records)
        routed = Routed.of({0: records} if records else {}, {})
        return self._admit(poll, routed, seats, admission.Audience(declared, len(seats)), internal=True)

    def _admit(
        self, poll: Poll, routed: Routed, seats: Sequence[Seat], audience: admission.Audience, *, internal: bool
    ) -> list[Command]:
        if self.is_stopping:
            raise IllegalStep("a poll after stop")
        self._count(poll, routed)
        if seats or routed.records or routed.faults:
            self._admit_marked(poll, routed, seats, audience, internal)
        else:
            self.tally.unmatched += len(poll.bodies)
            self._admit_plain(poll, audience, internal)
        self._outlet.mark_stream()
        return self._outbox.drain()

    def _count(self, poll: Poll, routed: Routed) -> None:
        tally = self.tally
        tally.received += len(poll.bodies)
        tally.faults += len(routed.faults)

    def _admit_plain(self, poll: Poll, audience: admission.Audience, internal: bool) -> None:
        """Nobody has anything to say: the whole poll is resolved as it comes in."""
        outcome = outcome_of(audience.size, 0, 0)
        for piece in poll.slices:
            lane = self._outlet.lane_of(piece, internal)
            if lane is None:
                self._forget(poll, piece)
                continue
            whole = piece.stop - piece.start == len(poll.payloads)
            payloads = poll.payloads if whole else poll.payloads[piece.start : piece.stop]
            self._outlet.pass_through(lane, outcome, payloads, poll.received)

    def _admit_marked(
        self, poll: Poll, routed: Routed, seats: Sequence[Seat], audience: admission.Audience, internal: bool
    ) -> None:
        marks = admission.marks_of(routed, audience)
        self.tally.unmatched += len(poll.bodies) - len(marks.matching) - len(routed.faults)
        tokens: list[Token] = []
        stale: set[int] = set()
        for piece in poll.slices:
            lane = self._outlet.lane_of(piece, internal)
            if lane is None:
                stale.update(range(piece.start, piece.stop))
                self._forget(poll, piece)
                continue
            if seats:
                spans = self._owed_slice(lane, poll, piece, routed, marks, audience, tokens, seats)
            else:
                spans = admission.cut(lane, poll, piece, marks, audience)
                tokens += [s for s in spans if s.pending]
            self._outlet.admit(lane, spans)
        if tokens:
            self._tries.persist(tokens, _records(poll, routed, stale))

    def _forget(self, poll: Poll, piece: Slice) -> None:
        """Of an older epoch: what it lent went with its lane."""
        if self._leases is not None:
            self._leases.forget(poll.payloads[piece.start : piece.stop])

    def _owed_slice(
        self,
        lane: Lane,
        poll: Poll,
        piece: Slice,
        routed: Routed,
        marks: admission.Marks,
        audience: admission.Audience,
        tokens: list[Token],
        seats: Sequence[Seat],
    ) -> list[Span]:
        """Python watchers owe the slice: every event is a span of its own, queued for each of them."""
        spans: list[Span] = []
        owed: list[Span] = []
        for i in range(piece.start, piece.stop):
            span = admission.single(lane, poll, i, marks, routed, audience)
            spans.append(span)
            if i not in routed.faults:  # else nobody can read it, and no queue sees it
                owed.append(span)
            if i in marks.matching or i in routed.faults:
                tokens.append(span)
        self._tries.owe(seats, owed)
        return spans

    # Python watchers -------------------------------------------------------------------------------------------------

    def hand_over(self, seat: Seat, limit: int) -> list[Ticket]:
        """The seat's next batch of tries, one batch at a time. Empty: there is nothing, and a Wake will follow."""
        self._tries.require(seat)
        if seat.open:
            raise IllegalStep(f"watcher {seat.id!r} still holds {seat.open} tickets")
        return [] if self.is_stopping else self._tries.hand_over(seat, limit)

    def open_one(self, seat: Seat) -> list[Command]:
        """In suspect mode, the seat's turn: a Wake follows once it is durable that its next try begins.

        `hand_over` then gives that one ticket, or none if its lane has gone. No commands: there is nothing to try.
        """
        self._tries.require(seat)
        if not self.is_suspect or seat.open or seat.opening is not None:
            raise IllegalStep(f"watcher {seat.id!r} opens an event that is not the only one")
        if not self.is_stopping:
            self._tries.open_one(seat)
        return self._outbox.drain()

    def trust(self) -> list[Command]:
        """Suspect mode is over."""
        self._tries.trust()
        return self._outbox.drain()

    def returned(self, seat: Seat, verdicts: Sequence[tuple[Ticket, Verdict]], now: float) -> list[Command]:
        """Tries ended. A verdict on a ticket that is not current any more changes nothing."""
        self._tries.returned(seat, verdicts, now)
        self._outlet.flush()
        self._outlet.mark_stream()
        return self._outbox.drain()

    # Durable ---------------------------------------------------------------------------------------------------------

    def persisted(self, tokens: Sequence[Token], now: float) -> list[Command]:
        """What hung on these tokens is durable. A token of a dead lane changes nothing."""
        self._tries.committing -= len(tokens)
        for token in tokens:
            if isinstance(token, Binding):
                self._tries.confirmed(token, now)
            elif token.lane.live:
                self._outlet.done(token)
        self._outlet.flush()
        return self._outbox.drain()

    # Settled ---------------------------------------------------------------------------------------------------------

    def advanced(self, advances: Sequence[Advance], unsettled: int = 0) -> list[Command]:
        """The broker was told. `unsettled` of the events it left as they were: they come again, as what failed does."""
        self._outlet.advanced(advances, unsettled)
        return self._after_lanes()

    def advance_failed(
        self, advance: Advance, kind: Literal["transient", "moved", "fatal"], reason: str, now: float
    ) -> list[Command]:
        """The broker was not told: try again in order, drop the lane quietly, or end the group."""
        self._outlet.advance_failed(advance, kind, reason, now)
        if self._outlet.failure is not None:
            self.is_stopping = True
        return self._after_lanes()

    def assigned(self, key: Hashable) -> tuple[int, list[Command]]:
        """The lane is ours from now on, with this epoch. What an earlier assignment left is dropped."""
        epoch = self._outlet.assigned(key)
        return epoch, self._after_lanes()

    def revoked(self, keys: Iterable[Hashable]) -> tuple[list[tuple[Hashable, AdvanceBatch]], list[Command]]:
        """The lanes are gone. What was resolved and not yet given away comes back, for a last settlement."""
        return self._outlet.revoked(keys), self._after_lanes()

    def _after_lanes(self) -> list[Command]:
        killed = self._outlet.killed
        if killed:
            self._outlet.killed = []
            self._tries.forget_lanes(killed)
        self._outlet.mark_stream()
        return self._outbox.drain()

    # Time and the end ------------------------------------------------------------------------------------------------

    def time_passed(self, now: float) -> list[Command]:
        """Retries that are due: of a try, for one watcher alone, or of an advance."""
        while (due := self._timers.pop(now)) is not None:
            seat, what = due
            if isinstance(what, Advance):
                self._outlet.repeat(what)
            elif seat is not None:
                self._tries.due(seat, what)
        self._outlet.mark_stream()
        return self._outbox.drain()

    def stop(self) -> list[Command]:
        """No more polls and tries; what is resolved, or will be by a commit under way, is still advanced."""
        self.is_stopping = True
        for seat in self.seats.values():
            self._tries.give_back(seat)
        return self._outbox.drain()


def _records(poll: Poll, routed: Routed, stale: set[int]) -> list[Record]:
    """All that a poll caused, for one transaction. A stale slice caused nothing: it comes again."""
    unreadable: list[Record] = [
        Reject(EVERY_WATCHER, poll.payloads[i], poll.bodies[i], fault.reason, fault.error)
        for i, fault in routed.faults.items()
        if i not in stale
    ]
    records = routed.records
    if stale:
        records = [r for i, r in zip(routed.places, routed.records, strict=True) if i not in stale]
    return [*unreadable, *records] if unreadable else records
