"""Tries: what Python watchers owe, how a try ends, and what that makes durable.

verdict    nothing derived, no failed try   resolved at once: a healthy event costs no write
           acked / rejected                 one commit (runs, dead letter, attempts forgotten), then resolved
           failed                           the attempt is written, then the next try may begin at `due`
           failed, budget spent             a dead letter, then resolved as rejected
           returned                         back in front of the queue, nothing spent
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridge.core.commands import Left, Limits, Outbox, Persist, Recall, Timers, Token, Wake
from bridge.core.errors import IllegalStep
from bridge.core.lane import Lane, Span
from bridge.core.model import Attempt, Forget, Record, Reject, Rejection, Run
from bridge.core.release import Outlet
from bridge.core.seat import Binding, Seat, Ticket
from bridge.core.window import Verdict

Prior = Callable[[str, Any], int]


class Tries:
    """See the head of the file."""

    def __init__(self, limits: Limits, outlet: Outlet, outbox: Outbox, timers: Timers, prior: Prior | None) -> None:
        self.seats: dict[str, Seat] = {}
        self.committing = 0
        self._limits = limits
        self._outlet = outlet
        self._outbox = outbox
        self._timers = timers
        self._prior = prior

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
            self._reject(seat, span, reason, "", seat.tries.get(span, 0))
        seat.tries.clear()
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
            for lane in lanes:
                seat.held.pop(lane, None)
            if any(not t.done and not t.span.lane.live for t in seat.out):
                self._outbox.append(Recall(seat))
            if seat.retired:
                seat.drop_dead()
                self.leave(seat)

    # Owing -----------------------------------------------------------------------------------------------------------

    def owe(self, seats: Sequence[Seat], spans: list[Span]) -> None:
        """Each of the seats owes each of the spans."""
        if not spans:
            return
        for seat in seats:
            if self._prior is not None:
                for span in spans:
                    tries = self._prior(seat.id, span.payloads[0])
                    if tries:
                        seat.tries[span] = tries
            seat.queue.extend(spans)
            self._wake(seat)

    def _wake(self, seat: Seat) -> None:
        if seat.idle:
            seat.idle = False
            self._outbox.append(Wake(seat))

    def due(self, seat: Seat, span: Span) -> None:
        """The delay after a failed try is over."""
        if span in seat.resting:
            self._woke(span)
            if seat.due(span):
                self._wake(seat)
            self.leave(seat)

    def _woke(self, span: Span) -> None:
        span.resting -= 1
        if not span.resting:
            self._outlet.retrying -= 1

    # Verdicts --------------------------------------------------------------------------------------------------------

    def returned(self, seat: Seat, verdicts: Sequence[tuple[Ticket, Verdict]], now: float) -> None:
        for ticket, verdict in verdicts:
            if ticket.done or not ticket.live:
                continue
            ticket.done = True
            seat.open -= 1
            span = ticket.span
            if not span.lane.live:
                seat.tries.pop(span, None)
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
        if not (rejected or verdict.derived or span in seat.tries):
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
            self._reject(seat, span, verdict.reason, verdict.error, seat.tries.get(span, 0), runs)
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
        if span in seat.tries:
            records.append(Forget(seat.id, span.payloads[0]))
        seat.moved_past(span)
        seat.draining += 1
        self.persist([binding], records)

    def _failed(self, seat: Seat, span: Span, error: str, now: float) -> None:
        seat.failures += 1
        tries = seat.tries[span] = seat.tries.get(span, 0) + 1
        if seat.last_try or tries >= seat.plan.max_attempts:
            self._reject(seat, span, "watcher_removed" if seat.last_try else "max_attempts", error, tries)
            return
        record = Attempt(seat.id, span.payloads[0], tries, error)
        if self._limits.retry_mode == "broker":
            seat.moved_past(span)
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
