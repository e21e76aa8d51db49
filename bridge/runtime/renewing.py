"""Keeping what a broker has lent: renewals when they are due, and asking for no more than can be renewed in time.

The core says what is due; this calls the producer, and tells the core what came of it. A round that fails is repeated
soon, and what it should have renewed is due again. It runs beside polls and settlements and waits for neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from bridge.core.commands import Command
from bridge.core.group import StreamGroup
from bridge.ports import Clock, Lends

log = structlog.get_logger("headrace.stream")

ROUND_MOST: Final = 1 / 6
"""The share of a lease that a round of renewals may take. One that takes longer was asked for too much."""
PAUSE_LEAST: Final = 1 / 24
"""The share of a lease between two rounds, so that what is due a little later goes with the next."""
FEWEST: Final = 10
"""Messages that are held, however slow renewing is."""


class Renewing:
    """See the head of the file. `do` carries out what the core decides. `trouble`: why leases run out, if they do."""

    def __init__(
        self,
        producer: Lends,
        core: StreamGroup,
        stream: str,
        clock: Clock,
        roll: Callable[[], float],
        do: Callable[[Sequence[Command]], None],
    ) -> None:
        self.trouble: str | None = None
        self.most = self._bound = core.most_outstanding
        self._producer = producer
        self._core = core
        self._stream = stream
        self._clock = clock
        self._roll = roll
        self._do = do
        self._asked = -1
        self._ends = False
        self._admitted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, broken: Callable[[Exception], None]) -> None:
        """From before the first message on. `broken` is told of a defect of our own, by which leases would run out."""
        self.mind(is_full=False)
        self._task = asyncio.create_task(self._run(), name=f"renew[{self._stream}]")

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                broken(error)

        self._task.add_done_callback(ended)

    async def stop(self) -> None:
        """Nothing is renewed any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=5.0)

    # How much is asked for -------------------------------------------------------------------------------------------

    def mind(self, *, is_full: bool) -> None:
        """Called after every step of the core: tells the producer when the stream is full, and when it has room."""
        if self._task is not None and self._core.renew_at is not None:
            self._admitted.set()
        wanted = 0 if is_full or self._ends else self.most
        if wanted != self._asked:
            self._asked = wanted
            self._producer.ask(wanted)

    def ask_nothing(self) -> None:
        """The stream ends: what comes from now on would only have to be given back."""
        self._ends = True
        self.mind(is_full=True)

    # Rounds ----------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        lease = self._producer.lease
        while True:
            while self._core.renew_at is None:
                self._admitted.clear()
                await self._admitted.wait()
            pause = lease * PAUSE_LEAST * (1 + 0.2 * self._roll())
            await self._clock.sleep(max(pause, (self._core.renew_at or 0.0) - self._clock.monotonic()))
            await self._round(lease)

    async def _round(self, lease: float) -> None:
        began = self._clock.monotonic()
        due = self._core.due(began)
        if not due:
            self._do(self._core.renewed((), (), began))
            return
        try:
            async with asyncio.timeout(lease * ROUND_MOST * 2):
                refused = await self._producer.renew(due)
        except Exception as error:
            self._failed(f"{type(error).__name__}: {error}", len(due))
            self._do(self._core.renewed((), (), began))
        else:
            if self.trouble:
                log.info("leases are renewed again", stream=self._stream)
            self.trouble = None
            self._do(self._core.renewed(due, refused, began))
        self._adapt(len(due), self._clock.monotonic() - began, lease)

    def _failed(self, error: str, events: int) -> None:
        if self.trouble is None:
            log.warning("leases can't be renewed", stream=self._stream, error=error, events=events)
        self.trouble = f"{events} leases can't be renewed: {error}"

    def _adapt(self, events: int, seconds: float, lease: float) -> None:
        """No more is held than can be renewed within a sixth of the lease; what was lowered grows again slowly."""
        within = lease * ROUND_MOST
        if seconds > within:
            self._hold(max(FEWEST, int(events * within / seconds)))
        elif self.most < self._bound and seconds < within / 2:
            self._hold(min(self._bound, self.most * 2))

    def _hold(self, events: int) -> None:
        if events != self.most:
            log.info(
                "the stream holds another number of messages", stream=self._stream, events=events, before=self.most
            )
            self.most = events
            self._core.hold_at_most(events)
            self._do(())
