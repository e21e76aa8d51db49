"""Suspect mode: after a death of the process its Python watchers open one event at a time, all streams together.

So what kills it again is known: the event that was open. The mode ends after so many events, or after a time.

    ask ─▶ waits ─▶ has the turn: one event is opened, tried and over ─▶ pass_on ─▶ the next that waits
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from bridge.core.seat import Seat

log = structlog.get_logger("headrace.watchers")

SECONDS: Final = 300.0
"""How long the mode lasts at most."""


class Suspicion:
    """Whose turn it is. Called on the main loop; `begin` starts the time. Without `events` there is no such mode.

    Turns go round: who asks again stands behind all that wait, so none starves. A turn ends with `pass_on`, whatever
    became of it. At the end of the mode all groups are told, and nobody asks any more.
    """

    def __init__(self, events: int = 0, seconds: float = SECONDS) -> None:
        self.left = events
        self.is_active = events > 0
        self._seconds = seconds
        self._holder: Seat | None = None
        self._waiting: dict[Seat, Callable[[], None]] = {}
        self._groups: list[Callable[[], None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_passing = False

    def begin(self) -> None:
        """The process polls from now on."""
        if self.is_active and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end, "time")
            log.warning(
                "suspect mode: an earlier instance was killed, Python watchers open one event at a time",
                events=self.left,
                seconds=self._seconds,
            )

    # Groups ----------------------------------------------------------------------------------------------------------

    def tell(self, ended: Callable[[], None]) -> None:
        """A group begins: it wants to know when the mode ends."""
        if self.is_active:
            self._groups.append(ended)

    def forget(self, ended: Callable[[], None]) -> None:
        """It has ended. Its seats pass on what they hold."""
        if ended in self._groups:
            self._groups.remove(ended)

    # Turns -----------------------------------------------------------------------------------------------------------

    def has_turn(self, seat: Seat) -> bool:
        return self._holder is seat

    def ask(self, seat: Seat, turn: Callable[[], None]) -> None:
        """`turn` is called when it is the seat's, perhaps at once; `pass_on` must follow. Asking again is harmless."""
        if self.is_active and self._holder is not seat:
            self._waiting.setdefault(seat, turn)
            self._next()

    def opened(self) -> None:
        """Whoever has the turn opens an event."""
        self.left -= 1

    def pass_on(self, seat: Seat) -> None:
        """What it opened is over, or the seat is gone: its turn ends, and it does not wait for one."""
        if not self.is_active:
            return
        self._waiting.pop(seat, None)
        if self._holder is seat:
            self._holder = None
            if self.left <= 0:
                self._end("events")
            self._next()

    def _next(self) -> None:
        if self._is_passing:  # a turn that opened nothing was passed on within this loop
            return
        self._is_passing = True
        try:
            while self._holder is None and self._waiting:
                seat = next(iter(self._waiting))
                turn = self._waiting.pop(seat)
                self._holder = seat
                turn()
        finally:
            self._is_passing = False

    def _end(self, why: str) -> None:
        if not self.is_active:
            return
        log.info("suspect mode is over", after=why)
        self.is_active = False
        self._holder = None
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
        groups, self._groups = self._groups, []
        for ended in groups:
            ended()

    # For people ------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, object] | None:
        """What is left of the mode, and who has an event open; None when all is as usual."""
        if not self.is_active:
            return None
        seconds = self._seconds
        if self._timer is not None:
            seconds = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
        open_at = self._holder.id if self._holder is not None else None
        return {"events": max(0, self.left), "seconds": round(seconds, 1), "open": open_at}
