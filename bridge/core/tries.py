"""Tries: what Python watchers owe, how a try ends, and what that makes durable.

verdict    nothing derived, no failed try   resolved at once: a healthy event costs no write
           acked / rejected                 one commit (runs, dead letter, attempts forgotten), then resolved
           failed                           the attempt is written, then the next try may begin at `due`
           failed, `retry_mode` broker      the attempt is written, then resolved as failed: it comes again to all
           failed, budget spent             a dead letter, then resolved as rejected
           returned                         back in front of the queue, nothing spent

Suspect mode: after a death of the process a try is written before it begins, and begins alone. Whose turn it is, over
all groups, is not decided here: `open_one` is that turn, and `trust` ends the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from bridge.core.commands import Left, Limits, Outbox, Persist, Recall, Timers, Token, Wake
from bridge.core.errors import IllegalStep
from bridge.core.lane import Lane, Span
from bridge.core.model import Attempt, Forget, Opened, Record, Reject, Rejection, Run
from bridge.core.release import Outlet
from bridge.core.seat import UNTRIED, Binding, Past, Seat, Ticket, is_lost
from bridge.core.window import Verdict

MOST_DEATHS: Final = 3
"""An event that the process died of so often in a row, while nothing else was open, is not tried again."""


class History(Protocol):
    """What is written of earlier tries. False while that is nothing at all, which is asked once a slice."""

    def __bool__(self) -> bool: ...
    def __call__(self, watcher: str, payload: Any) -> tuple[int, int] | None:
        """Failed tries, and deaths in a row; None where nothing is written."""
        ...


class Tries:
    """See the head of the file."""

    def __init__(self, limits: Limits, outlet: Outlet, outbox: Outbox, timers: Timers, history: History | None) -> None:
        self.seats: dict[str, Seat] = {}
        self.committing = 0
        self.is_suspect = False
        self._limits = limits
        self._outlet = outlet
        self._outbox = outbox
        self._timers = timers
        self._history = history

    # Seats -----------------------------------------------------------------------------------------------------------

    def join(self, seat: Seat) -> None:
        if seat.id in self.seats:
            raise IllegalStep(f"watcher {seat.id!r} has a seat already")
        self.seats[seat.id] = seat

    def require(self, seat: Seat) -> None:
        if self.seats.get(seat.id) is not seat:
            raise IllegalStep(f"watcher {seat.id!r} has no seat in this group")

    @property
    def audience(self) -> list[Seat]:
        """The seats that owe what is admitted now."""
        return [s for s in self.seats.values() if not s.retired]

    def retire(self, seat: Seat, now: float) -> None:
        """It owes nothing new and finishes what it owes; what rests gets one last try at once."""
        seat.retired = seat.last_try = True
        for span, is_written in seat.resting.items():
            if is_written:
                self._timers.arm(now, seat, span)
        self.leave(seat)

    def expel(self, seat: Seat, reason: str) -> None:
        """What it still owes becomes dead letters with `reason`."""
        seat.retired = seat.last_try = True
        rested = list(seat.resting)
        spans = seat.take_all()
        for span in rested:
            self._woke(span)
        self._outbox.append(Recall(seat))
        for span in spans:
            self._reject(seat, span, reason, "", seat.past.get(span, UNTRIED).tries)
        seat.past.clear()
        self.leave(seat)

    def give_back(self, seat: Seat) -> None:
        """We ended its tries: no outcome, no attempt spent."""
        seat.call_back()
        self._outbox.append(Recall(seat))

    def leave(self, seat: Seat) -> None:
        """A retired seat goes once it owes nothing."""
        if seat.retired and not seat.owes and self.seats.get(seat.id) is seat:
            del self.seats[seat.id]
            self._outbox.append(Left(seat))

    def forget_lanes(self, lanes: Sequence[Lane]) -> None:
        """The lanes are dead: tries at their events end, and nothing is owed of them."""
        for seat in list(self.seats.values()):
            for span in seat.drop_lanes(lanes):
                self._woke(span)
            if any(not t.done and not t.span.lane.live for t in seat.out):
                self._outbox.append(Recall(seat))
            if seat.retired or self._limits.queue_size is not None:
                seat.drop_dead()  # else it is dropped when it is met
                self.leave(seat)

    # Owing -----------------------------------------------------------------------------------------------------------

    def owe(self, seats: Sequence[Seat], spans: list[Span]) -> None:
        """Each of the seats owes each of the spans, which are of one lane and not in it yet."""
        if not spans:
            return
        for seat in seats:
            room = self._room(seat, spans[0].lane)
            mine = spans if room is None or room >= len(spans) else self._overflow(seat, spans, room)
            if self._history:
                mine = [span for span in mine if self._may_be_tried(seat, span, self._history)]
            if mine:
                seat.queue.extend(mine)
                self._wake(seat)

    def _room(self, seat: Seat, lane: Lane) -> int | None:
        """How many more events the seat takes; None: any number. A replay comes from no broker, and always fits."""
        if lane in seat.barred:
            return 0
        size = self._limits.queue_size
        return None if size is None or lane.internal else max(0, size - seat.behind)

    def _overflow(self, seat: Seat, spans: list[Span], room: int) -> list[Span]:
        """What there is no room for fails at once: nothing is tried, and nothing written. Returns what fits.

        In an ordered lane whatever follows fails as well: it comes again anyhow, behind what failed here.
        """
        for span in spans[room:]:
            span.failed += 1
            span.pending -= 1
            if not span.pending:
                span.body = b""
        seat.overflowed += len(spans) - room
        if spans[0].lane.ordered:
            seat.barred.add(spans[0].lane)
        return spans[:room]

    def _may_be_tried(self, seat: Seat, span: Span, history: History) -> bool:
        """Takes over what is written of earlier tries. False: the process died of it too often, and it is rejected."""
        known = history(seat.id, span.payloads[0])
        if known is None:
            return True
        past = seat.past[span] = Past(*known)
        if past.deaths < MOST_DEATHS:
            return True
        error = f"the process died {past.deaths} times in a row while this watcher held nothing but this event"
        self._reject(seat, span, "killed_process", error, past.tries + past.deaths)
        return False

    def _wake(self, seat: Seat) -> None:
        if seat.idle:
            seat.idle = False
            self._outbox.append(Wake(seat))

    def due(self, seat: Seat, span: Span) -> None:
        """The delay after a failed try is over."""
        if span in seat.resting:
            self._woke(span)
            seat.due(span)
            self._wake(seat)

    def _woke(self, span: Span) -> None:
        span.resting -= 1
        if not span.resting:
            self._outlet.retrying -= 1

    # Handing over ----------------------------------------------------------------------------------------------------

    def hand_over(self, seat: Seat, limit: int) -> list[Ticket]:
        return seat.take_ready() if self.is_suspect else seat.pull(limit, scarce=self._is_scarce)

    @property
    def _is_scarce(self) -> bool:
        return self._outlet.leases is not None and self._outlet.leases.is_scarce

    def drop_lost(self) -> None:
        """What is queued and has lost its lease: whoever gets it next has it from the broker."""
        for seat in self.seats.values():
            for span in [span for span in seat.queue if is_lost(span)]:
                self._outlet.drop(span)

    def wake_all(self) -> None:
        """Whatever waited for its lease to be renewed may be handed over."""
        for seat in self.seats.values():
            if seat.queue and not seat.open:
                self._wake(seat)

    def open_one(self, seat: Seat) -> None:
        """Its next try is written; it begins once that is durable."""
        span = seat.pull_one(scarce=self._is_scarce)
        if span is not None:
            past = seat.past.setdefault(span, UNTRIED)
            seat.opening = Binding(seat, span, opens=True)
            self.persist([seat.opening], [Opened(seat.id, span.payloads[0], past.deaths)])

    def _opened(self, binding: Binding) -> None:
        """It is durable that a try begins. Whoever waits for that goes on, also if nothing comes of it any more."""
        seat = binding.seat
        if seat.opening is binding:
            seat.opening, seat.ready = None, binding.span
        if self.seats.get(seat.id) is seat:
            self._outbox.append(Wake(seat))

    def trust(self) -> None:
        """Suspect mode is over: those that waited for their turn go on."""
        self.is_suspect = False
        for seat in self.seats.values():
            seat.close()
            if seat.queue and not seat.open:
                self._outbox.append(Wake(seat))

    # Verdicts --------------------------------------------------------------------------------------------------------

    def returned(self, seat: Seat, verdicts: Sequence[tuple[Ticket, Verdict]], now: float) -> None:
        for ticket, verdict in verdicts:
            if ticket.done or not ticket.live:
                continue
            ticket.done = True
            seat.open -= 1
            span = ticket.span
            if not span.lane.live:
                seat.past.pop(span, None)
            elif verdict.kind == "returned":
                ticket.returned = True
            elif verdict.kind == "failed":
                self._failed(seat, span, verdict.error, now)
            else:
                self._moved_past(seat, span, verdict)
        if not seat.open and seat.out:
            seat.put_back()
            if seat.queue:
                self._wake(seat)
        self.leave(seat)

    def _moved_past(self, seat: Seat, span: Span, verdict: Verdict) -> None:
        rejected = verdict.kind == "rejected"
        if not (rejected or verdict.derived or span in seat.past):
            seat.skipped += 1
            if seat.held:
                seat.moved_past(span)
            span.acked += 1
            self._outlet.done(span)
            return
        payload = span.payloads[0]
        runs: list[Record] = [
            Run(seat.plan, payload, span.body, d.params, n, d.tags, d.key) for n, d in enumerate(verdict.derived)
        ]
        if rejected:
            self._reject(seat, span, verdict.reason, verdict.error, seat.past.get(span, UNTRIED).tries, runs)
            return
        seat.derived += len(runs)
        seat.skipped += not runs
        self._bind(Binding(seat, span), runs)

    def _reject(
        self, seat: Seat, span: Span, reason: str, error: str, attempts: int, runs: Sequence[Record] = ()
    ) -> None:
        """A row first: the broker hears of it only once the dead letter is durable."""
        seat.rejected += 1
        dead = Reject(seat.id, span.payloads[0], span.body, reason, error, attempts)
        self._bind(Binding(seat, span, Rejection(seat.id, reason, attempts, error)), [dead, *runs])

    def _bind(self, binding: Binding, records: list[Record]) -> None:
        seat, span = binding.seat, binding.span
        if span in seat.past:
            records.append(Forget(seat.id, span.payloads[0]))
        seat.moved_past(span)
        seat.draining += 1
        self.persist([binding], records)

    def _failed(self, seat: Seat, span: Span, error: str, now: float) -> None:
        seat.failures += 1
        tries = seat.past.get(span, UNTRIED).tries + 1
        seat.past[span] = Past(tries)
        if seat.last_try or tries >= seat.plan.max_attempts:
            self._reject(seat, span, "watcher_removed" if seat.last_try else "max_attempts", error, tries)
            return
        record = Attempt(seat.id, span.payloads[0], tries, error)
        if self._limits.retry_mode == "broker" and not span.lane.internal:
            seat.give_up(span)
            seat.draining += 1
            self.persist([Binding(seat, span, failed=True)], [record])
            return
        due = now + self._limits.retry.after(tries)
        seat.rest(span)
        span.resting += 1
        if span.resting == 1:
            self._outlet.retrying += 1
        self.persist([Binding(seat, span, due=due)], [record])

    # Confirmations ---------------------------------------------------------------------------------------------------

    def persist(self, tokens: list[Token], records: list[Record]) -> None:
        self.committing += len(tokens)
        self._outbox.append(Persist(tokens, records))

    def confirmed(self, binding: Binding, now: float) -> None:
        """What became of a try is durable."""
        seat, span = binding.seat, binding.span
        if binding.opens:
            self._opened(binding)
            return
        if binding.due is not None:
            if span in seat.resting:
                seat.resting[span] = True
                self._timers.arm(now if seat.last_try else max(binding.due, now), seat, span)
            return
        seat.draining -= 1
        if span.lane.live:
            if binding.failed:
                span.failed += 1
            elif binding.rejection is not None:
                span.rejected += 1
                span.rejections += (binding.rejection,)
            else:
                span.acked += 1
            self._outlet.done(span)
        self.leave(seat)
