"""A seat is one Python watcher's place in a group: the events that it owes, each in exactly one of five places.

    queued ──hand_over──▶ handed ──verdict──▶ draining (moved past, not durable yet) ──confirmed──▶ resolved
     ▲  │                  ▲ │  │
     │  └─open_one─▶ opening │  └─failed──▶ resting (waits for its next try) ──due──┐
     │     returned          │                                                      │
     └───────────────────────┴──────────────────────────────────────────────────────┘

In an ordered lane what follows a resting event waits behind it (`held`), for this watcher only. At most one batch of
tickets is out at a time, so whatever comes back belongs in front of everything that is still queued.

In suspect mode an event is `opening` until it is written that its try begins, then `ready`, and handed over alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

from bridge.core.lane import Lane, Span
from bridge.core.model import Lent, Plan, Rejection


class Ticket(Struct, eq=False):
    """One try at one event. `live` goes false when we end the try: a verdict on it changes nothing then."""

    span: Span
    attempt: int
    live: bool = True
    done: bool = False
    returned: bool = False

    @property
    def is_current(self) -> bool:
        return self.live and not self.done and self.span.lane.live


def is_short(span: Span) -> bool:
    """What is left of its lease would not do for a try."""
    payload = span.payloads[0]
    return isinstance(payload, Lent) and payload.short


def is_lost(span: Span) -> bool:
    """The broker may have given it to somebody else."""
    payload = span.payloads[0]
    return isinstance(payload, Lent) and payload.lost


class Held(Struct, eq=False):
    """An ordered lane behind a resting event: `head` rests (or has its next try), `waiting` are later events.

    A head that was given up has no next try: the lane is dropped once the broker was told, and so is what waits.
    """

    head: Span
    waiting: deque[Span] = field(default_factory=deque)


class Past(NamedTuple):
    """What is written of a watcher's earlier tries at an event: failed ones, and deaths of the process in a row."""

    tries: int = 0
    deaths: int = 0


UNTRIED: Final = Past()


class Seat(Struct, eq=False):
    """`plan` says what its trigger events ask for. Counters are for people."""

    plan: Plan
    queue: deque[Span] = field(default_factory=deque)
    out: list[Ticket] = field(default_factory=list)  # the batch that is handed over
    open: int = 0  # tickets of it without a verdict
    opening: Binding | None = None  # in suspect mode: its next try is being written
    ready: Span | None = None  # that is durable: the next ticket
    held: dict[Lane, Held] = field(default_factory=dict)
    aside: int = 0  # events that wait in `held`
    barred: set[Lane] = field(default_factory=set)  # ordered lanes with a failed event of this watcher
    past: dict[Span, Past] = field(default_factory=dict)  # of events of which the store has something
    resting: dict[Span, bool] = field(default_factory=dict)  # and whether the failed try is written
    draining: int = 0
    idle: bool = True  # asked for work and got none: wants to be woken
    retired: bool = False  # owes nothing new
    last_try: bool = False  # a failure now ends it
    skipped: int = 0
    derived: int = 0
    rejected: int = 0
    failures: int = 0
    overflowed: int = 0

    @property
    def id(self) -> str:
        return self.plan.watcher

    @property
    def owes(self) -> bool:
        return bool(self.queue or self.open or self.opening or self.ready or self.held or self.resting or self.draining)

    @property
    def behind(self) -> int:
        """Events that wait for this watcher."""
        alone = self.opening is not None or self.ready is not None
        return len(self.queue) + self.open + alone + self.aside + len(self.resting)

    # Tickets ---------------------------------------------------------------------------------------------------------

    def pull(self, limit: int, *, scarce: bool = False) -> list[Ticket]:
        """The next batch of tries, in lane order; later events of a lane that waits are set aside.

        Where leases are `scarce` it ends in front of the first event that is short of its own.
        """
        batch: list[Ticket] = []
        queue, held, past = self.queue, self.held, self.past
        while queue and len(batch) < limit:
            span = queue.popleft()
            if not span.lane.live:
                past.pop(span, None)
                continue
            if held and (behind := held.get(span.lane)) is not None and behind.head is not span:
                behind.waiting.append(span)
                self.aside += 1
                continue
            if scarce and is_short(span):
                queue.appendleft(span)
                break
            batch.append(Ticket(span, past.get(span, UNTRIED).tries + 1 if past else 1))
        self.out = batch
        self.open = len(batch)
        self.idle = not batch
        return batch

    def pull_one(self, *, scarce: bool = False) -> Span | None:
        """The event that is next: taken from the queue, and not handed over yet. What was ready before goes back."""
        self.close()
        batch = self.pull(1, scarce=scarce)
        self.out, self.open = [], 0
        return batch[0].span if batch else None

    def take_ready(self) -> list[Ticket]:
        """The one ticket of which it is durable that its try begins."""
        span, self.ready = self.ready, None
        if span is not None:
            self.out = [Ticket(span, self.past.get(span, UNTRIED).tries + 1)]
            self.open = 1
            return self.out
        return []

    def close(self) -> None:
        """What is opening, or ready, is queued again: in front, where it came from."""
        span = self.ready if self.opening is None else self.opening.span
        self.opening = self.ready = None
        if span is not None:
            self._back_to_queue(span)

    def put_back(self) -> None:
        """The batch is over: what came back unopened goes in front of everything that is still queued, in order."""
        for ticket in reversed(self.out):
            if ticket.returned and (span := ticket.span).lane.live:
                self._back_to_queue(span)
        self.out = []

    def _back_to_queue(self, span: Span) -> None:
        behind = self.held.get(span.lane)
        if behind is None or behind.head is span:
            self.queue.appendleft(span)
        else:
            behind.waiting.appendleft(span)
            self.aside += 1

    def call_back(self) -> None:
        """We ended what is out: those tickets are void, and their events owed as before."""
        self.close()
        for ticket in self.out:
            if not ticket.done:
                ticket.live, ticket.returned = False, True
        self.put_back()
        self.open = 0

    # Failed tries ----------------------------------------------------------------------------------------------------

    def rest(self, span: Span) -> None:
        """The try failed, and the next one comes later."""
        self.resting[span] = False
        if span.lane.ordered and span.lane not in self.held:
            self.held[span.lane] = Held(span)

    def give_up(self, span: Span) -> None:
        """The broker will hear that it failed. In an ordered lane all behind it comes again: none of it is tried."""
        self.past.pop(span, None)
        if span.lane.ordered:
            self.barred.add(span.lane)
            self.held.setdefault(span.lane, Held(span))

    def due(self, span: Span) -> None:
        """Its delay is over: it goes to the front."""
        del self.resting[span]
        self.queue.appendleft(span)

    # Done with -------------------------------------------------------------------------------------------------------

    def moved_past(self, span: Span) -> None:
        """Done with the event for good: what waited behind it in its lane may go on."""
        self.past.pop(span, None)
        behind = self.held.get(span.lane)
        if behind is not None and behind.head is span:
            del self.held[span.lane]
            self.aside -= len(behind.waiting)
            self.queue.extendleft(reversed(behind.waiting))

    def drop_lanes(self, lanes: Sequence[Lane]) -> list[Span]:
        """They have gone: nothing in them waits or rests any more. Returns what rested; queued is dropped when met."""
        for lane in lanes:
            self.barred.discard(lane)
            behind = self.held.pop(lane, None)
            if behind is not None:
                self.aside -= len(behind.waiting)
                self._forget(behind.waiting)
        span = self.ready if self.opening is None else self.opening.span
        if span is not None and not span.lane.live:
            self.opening = self.ready = None
            self.past.pop(span, None)
        rested = [s for s in self.resting if not s.lane.live]
        for span in rested:
            del self.resting[span]
        self._forget(rested)
        self._forget([ticket.span for ticket in self.out if not ticket.span.lane.live])
        return rested

    def drop_dead(self) -> None:
        """Forgets what is queued of lanes that have gone."""
        self._forget([s for s in self.queue if not s.lane.live])
        self.queue = deque(s for s in self.queue if s.lane.live)

    def _forget(self, spans: Sequence[Span]) -> None:
        for span in spans if self.past else ():
            self.past.pop(span, None)

    def take_all(self) -> list[Span]:
        """Empties every place but `draining`, in lane order: what it owed, without duplicates."""
        self.call_back()
        spans = [s for s in self.queue if s.lane.live]
        for lane, behind in self.held.items():
            if lane.live:
                spans += behind.waiting
        spans += [s for s in self.resting if s.lane.live]
        self.queue.clear()
        self.held.clear()
        self.resting.clear()
        self.aside = 0
        return spans


class Binding(Struct, eq=False):
    """The token of a watcher's commit: what becomes of the event once it is durable.

    `due` None: the event is resolved, as acked, or with `rejection`. Else a failed try was written, and the next one
    may begin at `due`; with `failed` it is reported to the broker instead. With `opens` the try may begin, alone.
    """

    seat: Seat
    span: Span
    rejection: Rejection | None = None
    due: float | None = None
    failed: bool = False
    opens: bool = False
