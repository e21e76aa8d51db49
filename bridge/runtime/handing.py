"""Tickets out to the Python watchers of one group, and verdicts back: in batches, or in suspect mode one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.core.commands import Command
from bridge.core.group import StreamGroup
from bridge.core.seat import Seat, Ticket
from bridge.core.window import Verdict
from bridge.ports import Clock
from bridge.runtime.suspicion import Suspicion
from bridge.runtime.watchers import Watchers

MOST_TICKETS = 100
QUICK = 0.05
"""Seconds in which a batch of tickets should be done: the next one is sized by it."""


class Handing:
    """Implements `bridge.runtime.watchers.Front`. `do` carries out what the core decides; `progress` is told the time.

    In suspect mode a seat asks for its turn, opens one event, is given it once that is durable, and passes the turn on
    when the try is over: or when it is gone, down, or left without an event.
    """

    def __init__(
        self,
        core: StreamGroup,
        watchers: Watchers,
        suspicion: Suspicion,
        clock: Clock,
        do: Callable[[Sequence[Command]], None],
        progress: Callable[[float], None],
    ) -> None:
        self.down: dict[str, str] = {}
        """Watchers that are not up, and why."""
        self._core = core
        self._watchers = watchers
        self._suspicion = suspicion
        self._clock = clock
        self._do = do
        self._progress = progress
        self._quota: dict[str, tuple[int, float]] = {}
        suspicion.tell(self._trust)

    def close(self) -> None:
        """The group ends: none of its seats has a turn any more, or waits for one."""
        self._suspicion.forget(self._trust)
        for seat in self._core.seats.values():
            self._suspicion.pass_on(seat)

    # Out -------------------------------------------------------------------------------------------------------------

    def hand_over(self, seat: Seat) -> None:
        """There is work for it, or what it waited for has come."""
        if seat.open:
            return
        if self._core.seats.get(seat.id) is not seat or not self._watchers.is_up(seat):
            self._suspicion.pass_on(seat)
        elif not self._core.is_suspect or self._suspicion.has_turn(seat):
            self._give(seat)
        else:
            self._suspicion.ask(seat, lambda: self._turn(seat))

    def _give(self, seat: Seat) -> None:
        quota, _ = self._quota.get(seat.id, (10, 0.0))
        tickets = self._core.hand_over(seat, quota)
        if tickets:
            self._quota[seat.id] = (quota, self._clock.monotonic())
            self._watchers.give(seat, tickets)
        elif self._core.is_suspect and seat.opening is None:  # the lane of what it opened has gone
            self._suspicion.pass_on(seat)
            self.hand_over(seat)

    def _turn(self, seat: Seat) -> None:
        """What it opens now is the only event that a Python watcher of this process holds."""
        commands = self._core.open_one(seat)
        if commands:
            self._suspicion.opened()
            self._do(commands)
        else:
            self._suspicion.pass_on(seat)

    def _trust(self) -> None:
        self._do(self._core.trust())

    # Back ------------------------------------------------------------------------------------------------------------

    def on_verdicts(self, seat: Seat, verdicts: list[tuple[Ticket, Verdict]]) -> None:
        now = self._clock.monotonic()
        self._progress(now)
        self._do(self._core.returned(seat, verdicts, now))
        if not seat.open:
            quota, since = self._quota.get(seat.id, (10, now))
            quick = now - since < QUICK
            self._quota[seat.id] = (min(MOST_TICKETS, quota * 2) if quick else max(1, quota // 2), now)
            if seat.opening is None:  # else these are verdicts on what it was given before
                self._suspicion.pass_on(seat)
            self.hand_over(seat)

    def on_state(self, seat: Seat, is_up: bool, trouble: str) -> None:
        if is_up:
            self.down.pop(seat.id, None)
            self.hand_over(seat)
            return
        self.down[seat.id] = trouble
        if self._suspicion.has_turn(seat):  # the others don't wait until it is up again
            self._do(self._core.abandon(seat))
        self._suspicion.pass_on(seat)

    def on_left_behind(self, seat: Seat, held: Ticket | None) -> None:
        if seat.id not in self._core.seats:
            return
        if held is not None and self._is_first(seat, held):
            error = "AckTimeout: its code held the watchers' thread past ack_timeout"
            verdict = Verdict("failed", error=error)
            self._do(self._core.returned(seat, [(held, verdict)], self._clock.monotonic()))
        if seat.id in self._core.seats:
            self._do(self._core.abandon(seat))
        self._suspicion.pass_on(seat)

    def _is_first(self, seat: Seat, held: Ticket) -> bool:
        """False: the verdict on an earlier event of the lane is lost, and that one can't wait behind a failed one."""
        lane = held.span.lane
        return not lane.ordered or next((t for t in seat.out if t.span.lane is lane and not t.done), held) is held

    def left(self, seat: Seat) -> None:
        """It owes nothing any more, and is gone."""
        self.down.pop(seat.id, None)
        self._suspicion.pass_on(seat)

    def expel(self, seat: Seat, reason: str) -> None:
        """A watcher was disabled: what it owes becomes dead letters, replayable."""
        if seat.id in self._core.seats:
            self._do(self._core.expel(seat, reason))
        self._suspicion.pass_on(seat)
