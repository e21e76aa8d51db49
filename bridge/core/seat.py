"""A seat is one Python watcher's place in a group: the events that it owes, each in exactly one of four places.

    queued ──hand_over──▶ handed ──verdict──▶ draining (moved past, not durable yet) ──confirmed──▶ resolved
      ▲                     │  │
      │     returned        │  └─failed──▶ resting (waits for its next try) ──due──┐
      └─────────────────────┴──────────────────────────────────────────────────────┘

In an ordered lane what follows a resting event waits behind it (`held`), for this watcher only. At most one batch of
tickets is out at a time, so whatever comes back belongs in front of everything that is still queued.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from bridge.core.lane import Lane, Span
from bridge.core.model import Plan, Rejection


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


class Held(Struct, eq=False):
    """An ordered lane behind a resting event: `head` rests (or has its next try), `waiting` are later events."""

    head: Span
    waiting: deque[Span] = field(default_factory=deque)


class Seat(Struct, eq=False):
    """`plan` says what its trigger events ask for. Counters are for people."""

    plan: Plan
    queue: deque[Span] = field(default_factory=deque)
    out: list[Ticket] = field(default_factory=list)  # the batch that is handed over
    open: int = 0  # tickets of it without a verdict
    held: dict[Lane, Held] = field(default_factory=dict)
    tries: dict[Span, int] = field(default_factory=dict)  # failed ones so far
    resting: dict[Span, bool] = field(default_factory=dict)  # and whether the failed try is written
    draining: int = 0
    idle: bool = True  # asked for work and got none: wants to be woken
    retired: bool = False  # owes nothing new
    last_try: bool = False  # a failure now ends it
    skipped: int = 0
    derived: int = 0
    rejected: int = 0
    failures: int = 0

    @property
    def id(self) -> str:
        return self.plan.watcher

    @property
    def owes(self) -> bool:
        return bool(self.queue or self.open or self.held or self.resting or self.draining)

    def pull(self, limit: int) -> list[Ticket]:
        """The next batch of tries, in lane order; later events of a lane that waits are set aside."""
        batch: list[Ticket] = []
        queue, held, tries = self.queue, self.held, self.tries
        while queue and len(batch) < limit:
            span = queue.popleft()
            if not span.lane.live:
                tries.pop(span, None)
                continue
            if held and (behind := held.get(span.lane)) is not None and behind.head is not span:
                behind.waiting.append(span)
                continue
            batch.append(Ticket(span, tries.get(span, 0) + 1 if tries else 1))
        self.out = batch
        self.open = len(batch)
        self.idle = not batch
        return batch

    def put_back(self) -> None:
        """The batch is over: what came back unopened goes in front of everything that is still queued, in order."""
        for ticket in reversed(self.out):
            if ticket.returned and (span := ticket.span).lane.live:
                behind = self.held.get(span.lane)
                if behind is None or behind.head is span:
                    self.queue.appendleft(span)
                else:
                    behind.waiting.appendleft(span)
        self.out = []

    def call_back(self) -> None:
        """We ended what is out: those tickets are void, and their events owed as before."""
        for ticket in self.out:
            if not ticket.done:
                ticket.live, ticket.returned = False, True
        self.put_back()
        self.open = 0

    def rest(self, span: Span) -> None:
        """The try failed, and the next one comes later."""
        self.resting[span] = False
        if span.lane.ordered and span.lane not in self.held:
            self.held[span.lane] = Held(span)

    def due(self, span: Span) -> bool:
        """Its delay is over: it goes to the front. False if its lane has gone meanwhile."""
        del self.resting[span]
        if not span.lane.live:
            self.tries.pop(span, None)
            return False
        self.queue.appendleft(span)
        return True

    def drop_dead(self) -> None:
        """Forgets what is queued of lanes that have gone."""
        self.queue = deque(s for s in self.queue if s.lane.live)

    def moved_past(self, span: Span) -> None:
        """Done with the event for good: what waited behind it in its lane may go on."""
        self.tries.pop(span, None)
        behind = self.held.get(span.lane)
        if behind is not None and behind.head is span:
            del self.held[span.lane]
            self.queue.extendleft(reversed(behind.waiting))

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
        return spans


class Binding(Struct, eq=False):
    """The token of a watcher's commit: what becomes of the event once it is durable.

    `due` None: the event is resolved, as acked, or with `rejection`. Else a failed try was written, and the next one
    may begin at `due`; with `failed` it is reported to the broker instead.
    """

    seat: Seat
    span: Span
    rejection: Rejection | None = None
    due: float | None = None
    failed: bool = False
