"""Group commit: whatever was submitted while the last commit ran goes into the next, for all groups together.

A store that can't commit never fails anybody and never costs a try: the same commit is repeated, with back-off, until
it holds. What waits is bounded by the limits of those who submit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from secrets import token_hex

import structlog

from bridge.core.errors import StoreUnavailable
from bridge.core.retry import Backoff
from bridge.ports import Clock, Committer, Receipt, Row, Store

log = structlog.get_logger("headrace.persister")

Rows = Sequence[Row] | Callable[[], Sequence[Row]]

MOST_ROWS = 2000
"""Rows in one commit before what follows waits for the next: the cost of a commit is shared well before that."""


class Persister:
    """Implements `bridge.ports.Committer`. `run` is the one writer of its store."""

    def __init__(self, store: Store, clock: Clock, roll: Callable[[], float], backoff: Backoff | None = None) -> None:
        self.trouble: str | None = None
        self.commits = self.rows = 0
        self.letters_stored: Callable[[], None] | None = None  # somebody may want to copy them
        self._store = store
        self._clock = clock
        self._roll = roll
        self._backoff = backoff or Backoff(delay=0.1, factor=2.0, max=5.0, jitter=0.5)
        self._waiting: deque[tuple[Rows, Callable[[Receipt], None]]] = deque()
        self._wake = asyncio.Event()
        self._busy = False
        self._drained = asyncio.Event()

    def submit(self, rows: Rows, confirmed: Callable[[Receipt], None]) -> None:
        """Never blocks. `confirmed` is called in the turn of the loop in which the commit was confirmed."""
        self._waiting.append((rows, confirmed))
        self._wake.set()

    @property
    def is_idle(self) -> bool:
        return not (self._waiting or self._busy)

    async def drained(self) -> None:
        """Everything that was submitted is committed."""
        while not self.is_idle:
            self._drained.clear()
            await self._drained.wait()

    async def run(self) -> None:
        """Commits until it is cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                self._busy = True
                try:
                    await self._commit_next()
                finally:
                    self._busy = False
                    self._drained.set()

    async def _commit_next(self) -> None:
        rows: list[Row] = []
        confirm: list[Callable[[Receipt], None]] = []
        while self._waiting and len(rows) < MOST_ROWS:
            more, confirmed = self._waiting.popleft()
            rows += more() if callable(more) else more
            confirm.append(confirmed)
        receipt = await self._until_committed(rows) if rows else Receipt(0)
        self.commits += 1
        self.rows += len(rows)
        for confirmed in confirm:
            confirmed(receipt)
        if receipt.dead_letters and self.letters_stored is not None:
            self.letters_stored()

    async def _until_committed(self, rows: list[Row]) -> Receipt:
        """One commit id for all its repetitions: an unknown result is simply run again."""
        commit_id = token_hex(8)
        attempts = 0
        while True:
            try:
                receipt = await self._store.commit(rows, commit_id)
            except StoreUnavailable as error:
                attempts += 1
                self._report(str(error), attempts)
            except Exception as error:  # a defect of the store must not lose a message either
                attempts += 1
                log.exception("commit failed unexpectedly, repeating", attempts=attempts)
                self._note(f"{type(error).__name__}: {error}")
            else:
                if self.trouble is not None:
                    log.info("store is back", attempts=attempts)
                    self._note(None)
                return receipt
            await self._clock.sleep(self._backoff.after(attempts, self._roll()))

    def _report(self, reason: str, attempts: int) -> None:
        if self.trouble != reason or attempts in (10, 100) or attempts % 1000 == 0:
            log.warning("store unavailable, nothing is settled meanwhile", reason=reason, attempts=attempts)
        self._note(reason)

    def _note(self, trouble: str | None) -> None:
        """For whoever asks the store why nothing moves, while it takes no heartbeat that would tell."""
        if trouble != self.trouble:
            self.trouble = trouble
            self._store.note(trouble)


async def everything_written(committer: Committer) -> None:
    """Waits until all that was submitted before is durable: then the store knows every try that failed."""
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def confirmed(_: Receipt) -> None:
        if not written.done():
            written.set_result(None)

    committer.submit((), confirmed)
    await written
