"""A round: one batch of tickets as a watcher works through it, on the watchers' own thread.

It keeps the two rules that only whoever runs the filter can keep: a ticket that is not current is not opened, and
once a try in an ordered lane failed or was ended, what follows of that lane in the batch goes back unopened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from bridge.core.errors import IllegalStep
from bridge.core.lane import Lane
from bridge.core.seat import Ticket
from bridge.core.window import RETURNED, Verdict, Window


class Round:
    """`window` is open while the filter holds the event of `ticket`. `verdicts` wait to be handed back."""

    __slots__ = ("_broken", "_left", "ticket", "verdicts", "window")

    def __init__(self) -> None:
        self.ticket: Ticket | None = None
        self.window: Window | None = None
        self.verdicts: list[tuple[Ticket, Verdict]] = []
        self._left: deque[Ticket] = deque()
        self._broken: set[Lane] = set()

    @property
    def is_over(self) -> bool:
        return self.ticket is None and not self._left

    def give(self, tickets: Sequence[Ticket]) -> None:
        """A new batch; the one before must be over."""
        if not self.is_over:
            raise IllegalStep("a batch while another is under way")
        self._broken.clear()
        self._left.extend(tickets)

    def pull(self) -> Ticket | None:
        """The filter moves past what it holds and takes the next event. None: the batch is over."""
        self.leave()
        while self._left:
            ticket = self._left.popleft()
            if ticket.is_current and not (self._broken and ticket.span.lane in self._broken):
                self.ticket, self.window = ticket, Window()
                return ticket
            self.verdicts.append((ticket, RETURNED))
        return None

    def leave(self) -> None:
        """The filter moves past what it holds, if anything."""
        ticket = self.ticket
        if ticket is not None and self.window is not None:
            self.ticket = None
            self.verdicts.append((ticket, self.window.leave()))

    def fail(self, error: str) -> None:
        """The try raised, cancelled itself or took too long."""
        self._end(self._held().fail(error))

    def abandon(self) -> None:
        """We ended the try."""
        self._end(self._held().abandon())

    def drop_stale(self) -> None:
        """Tickets that we have ended are not waited for: what comes next may come at once."""
        stale = [ticket for ticket in self._left if not ticket.is_current]
        if stale:
            self._left = deque(ticket for ticket in self._left if ticket.is_current)
            self.verdicts += [(ticket, RETURNED) for ticket in stale]

    def take_verdicts(self) -> list[tuple[Ticket, Verdict]]:
        """What is to be handed back now."""
        verdicts, self.verdicts = self.verdicts, []
        return verdicts

    def _held(self) -> Window:
        if self.ticket is None or self.window is None:
            raise IllegalStep("no event is held")
        return self.window

    def _end(self, verdict: Verdict) -> None:
        ticket = self.ticket
        if ticket is None:
            raise IllegalStep("no event is held")
        self.ticket = None
        if verdict.kind in ("failed", "returned") and ticket.span.lane.ordered:
            self._broken.add(ticket.span.lane)
        self.verdicts.append((ticket, verdict))
