"""Dead letters of one stream on their way to the broker's own place, out of an outbox, as runs go to their targets.

A dead letter is a row first, and nothing waits for its copy: no lane, no commit, no stop. Copies are made at least
once, each with the id of its letter. What fails is tried again for ever, later each time; what the broker will never
take is kept in the store with the reason, and tried no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from bridge.core.errors import HeadraceError, Refused, StoreUnavailable, Transient
from bridge.core.retry import Backoff
from bridge.ports import Clock, Committer, Letter, Receipt, Relay, RelayedRow, Store

log = structlog.get_logger("headrace.relay")

LETTERS_MOST: Final = 100
"""Letters in one batch; the store hands out fewer where their bytes are many."""
POLL: Final = 1.0
"""Seconds between looks for letters that have become due: those that were stored just now wake it at once."""
OPEN_MOST: Final = 30.0
SEND_MOST: Final = 60.0
LEASE: Final = 2 * SEND_MOST
RETRY: Final = Backoff(delay=1.0, factor=2.0, max=300.0, jitter=0.5)
RETRY_AFTER_MOST: Final = 3600.0  # whatever the broker asks for

Said = Sequence[Exception | None]


class Relaying:
    """`open_first`, then `run` until it is cancelled; `stop` ends it in good order. `roll` spreads what is retried."""

    def __init__(
        self, stream: str, relay: Relay, store: Store, committer: Committer, clock: Clock, roll: Callable[[], float]
    ) -> None:
        self.stream = stream
        self.relayed = self.refused = 0
        self.trouble: str | None = None
        self._relay = relay
        self._store = store
        self._committer = committer
        self._clock = clock
        self._roll = roll
        self._is_open = False
        self._failures = 0  # in a row, of everything that was tried
        self._in_hand = 0
        self._woken = asyncio.Event()
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Dead letters were stored: they may be of this stream."""
        self._woken.set()

    async def open_first(self, within: float) -> None:
        """Before anything polls. Raises Refused, for a person to mend; what may pass is tried again by `run`."""
        try:
            async with asyncio.timeout(within):
                await self._relay.open()
        except Refused as error:
            raise Refused(f"stream {self.stream!r}: its dead letters can't be copied: {error}") from error
        except Exception as error:
            self._failed(error, "the place for dead letters can't be reached, tried again later")
        else:
            self._is_open = True

    async def run(self) -> None:
        """Relays until it is cancelled or stopped."""
        self._running = asyncio.current_task()
        while not self._stopping.is_set():
            try:
                await (self._turn() if self._is_open else self._open())
            except StoreUnavailable:
                await self._wait(POLL, self._stopping)
            except Exception as error:
                self._is_open = False
                self._failed(error, "dead letters can't be copied now, tried again later")
                await self._back_off()

    async def stop(self, within: float) -> None:
        """No new batch; the one under way may end within half of the time, and what is left is due again later."""
        self._stopping.set()
        self.wake()
        running, self._running = self._running, None
        if running is not None:
            await asyncio.wait({running}, timeout=within / 2)
            running.cancel()
            await asyncio.wait({running}, timeout=within / 4)
        try:
            async with asyncio.timeout(within / 4):
                await self._relay.aclose()
        except Exception as error:
            log.warning("the relay can't be closed", stream=self.stream, error=_told(error))

    # One batch --------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        async with asyncio.timeout(OPEN_MOST):
            await self._relay.open()
        self._is_open = True

    async def _turn(self) -> None:
        """A batch from the claim to the commit of what came of it, or a pause where there is none."""
        self._woken.clear()
        letters = await self._store.claim_letters(self.stream, LETTERS_MOST, LEASE)
        if not letters:
            await self._wait(POLL, self._woken)
            return
        self._in_hand = len(letters)
        try:
            said = await self._sent(letters)
            await self._committed([self._row(*pair) for pair in zip(letters, said, strict=True)])
            await self._judge(said)
        finally:
            self._in_hand = 0

    async def _sent(self, letters: Sequence[Letter]) -> Said:
        """One entry per letter, whatever happens; a call that fails as a whole needs a new connection."""
        try:
            async with asyncio.timeout(SEND_MOST):
                said = await self._relay.send(letters)
        except Exception as error:
            self._is_open = False
            return [error] * len(letters)
        if len(said) != len(letters):
            raise ValueError(f"the relay answered for {len(said)} of {len(letters)} dead letters")
        return said

    def _row(self, letter: Letter, error: Exception | None) -> RelayedRow:
        if error is None:
            return RelayedRow(letter.number)
        if isinstance(error, Refused):
            log.warning(
                "a dead letter is not copied, it stays in the store",
                stream=self.stream, dead_letter=letter.number, error=_told(error),
            )  # fmt: skip
            return RelayedRow(letter.number, _told(error))
        delay = RETRY.after(letter.failures + 1, self._roll())
        if isinstance(error, Transient) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, RETRY_AFTER_MOST))
        return RelayedRow(letter.number, _told(error), self._clock.now() + delay)

    async def _committed(self, rows: Sequence[RelayedRow]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def confirmed(_: Receipt) -> None:
            if not done.done():
                done.set_result(None)

        self._committer.submit(rows, confirmed)
        await done

    async def _judge(self, said: Said) -> None:
        """Any answer is a sign of life; where there is none, the others wait too, and are not claimed in vain."""
        self.relayed += sum(error is None for error in said)
        self.refused += sum(isinstance(error, Refused) for error in said)
        failed = [error for error in said if error is not None and not isinstance(error, Refused)]
        if len(failed) < len(said):
            if self.trouble is not None:
                log.info("dead letters are copied again", stream=self.stream)
            self.trouble, self._failures = None, 0
            return
        self._failed(failed[0], "dead letters can't be copied now, tried again later")
        await self._back_off()

    # Waiting and telling ----------------------------------------------------------------------------------------------

    async def _back_off(self) -> None:
        await self._wait(RETRY.after(self._failures, self._roll()), self._stopping)

    async def _wait(self, seconds: float, event: asyncio.Event) -> None:
        """Until so much time has passed, or the event is set."""
        tasks = {asyncio.create_task(self._clock.sleep(seconds)), asyncio.create_task(event.wait())}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def _failed(self, error: Exception, what: str) -> None:
        self._failures += 1
        told = _told(error)
        if told != self.trouble or self._failures in (10, 100) or self._failures % 1000 == 0:
            defect = None if isinstance(error, HeadraceError | TimeoutError) else error
            log.warning(what, stream=self.stream, error=told, failures=self._failures, exc_info=defect)
        self.trouble = told

    def status(self) -> dict[str, object]:
        """`in_hand`: letters of the batch under way. Counts are of this process; the store knows how many wait."""
        return {
            "in_hand": self._in_hand,
            "relayed": self.relayed,
            "refused": self.refused,
            "trouble": self.trouble,
        }


def _told(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
