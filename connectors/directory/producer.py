"""What both ways of reading a folder share: one thread for all that blocks, patience, and rest."""

from __future__ import annotations

import asyncio
import random
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from itertools import groupby
from typing import Any, Final, TypeVar

import structlog

from bridge.core.errors import IllegalStep, OwnershipLost, Transient
from bridge.core.model import AdvanceBatch, AdvanceItem, AdvanceOutcome, Poll
from bridge.core.retry import Backoff
from bridge.ports import Clock
from bridge.shared_stream import SharedStreamProducer
from connectors.directory.files import words
from connectors.directory.folder import Counts, Folder, Verdict
from connectors.directory.options import DirectoryOptions, OnDone
from connectors.directory.scanner import Scanner

log = structlog.get_logger("headrace.directory")

POLL_BYTES: Final = 8 * 1024 * 1024  # a poll ends when it has so many; a stream holds 64 MiB by default
_PATIENCE: Final = Backoff(delay=0.2, max=5.0)
_TRIES: Final = 6  # about 6 s; then the group starts again under supervision, with delays of its own
_AGAIN: Final = Backoff(delay=1.0, max=60.0)

T = TypeVar("T")


class SystemClock:
    """The machine's own."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DirectoryProducer(SharedStreamProducer):
    """Reads a drop folder. Opened once; everything is decided on the loop, and done in a thread of its own.

    One thread, so that steps never overlap: the lock is let go after the last rename, even when we are cancelled
    in the midst of it.
    """

    def __init__(self, options: DirectoryOptions, clock: Clock | None = None) -> None:
        self.folder = Folder(options.path, options.on_done)
        self._options = options
        self._clock: Clock = clock or SystemClock()
        self._scanner = Scanner(
            self.folder, options.pattern, options.settle, options.poll_interval, self._clock.monotonic
        )
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"directory:{self.folder.name}")
        self._wake = asyncio.Event()
        self._is_opened = False
        self._is_closed = False

    @property
    def counts(self) -> Counts:
        """Files that were claimed, settled, … since the start."""
        return self.folder.counts

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """The same events one by one."""
        async with aclosing(self.open_batches()) as polls:
            async for poll in polls:
                for pair in zip(poll.bodies, poll.payloads, strict=True):
                    yield pair

    @abstractmethod
    def open_batches(self) -> AsyncGenerator[Poll, None]:
        """Polls of up to 500 events. Raises Transient or Refused if the folder can't be read (any more)."""

    @abstractmethod
    async def advance_lanes(self, batches: Sequence[tuple[Hashable, AdvanceBatch]]) -> None:
        """Settles what is in them, all in one go. Raises Transient; what was settled then is not settled again."""

    async def aclose(self) -> None:
        """Lets the folder go once the step under way has ended. May be called again."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._shut)
        finally:
            self._thread.shutdown(wait=False)

    def _shut(self) -> None:
        self._scanner.close()
        self.folder.unlock()

    async def _open(self) -> None:
        if self._is_opened:
            raise IllegalStep(f"the stream of {self.folder.path} is opened a second time")
        self._is_opened = True
        await self._do(self.folder.open)

    async def _do(self, work: Callable[[], T]) -> T:
        """Runs it in the thread, after what runs there."""
        if self._is_closed:
            raise OwnershipLost(f"the folder {self.folder.path} was closed")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _patiently(self, work: Callable[[], T]) -> T:
        """Again and again while the folder has trouble that may pass, up to a point."""
        tries = 0
        while True:
            try:
                return await self._do(work)
            except OSError as error:
                tries += 1
                path, why = self.folder.path, words(error, self.folder.path)
                if tries >= _TRIES:
                    raise Transient(f"the folder {path} can't be read: {why}") from error
                log.warning("folder can't be read, tried again", folder=path, error=why)
                await self._clock.sleep(_PATIENCE.after(tries, _roll()))

    async def _rest(self, until: float) -> None:
        """Until that time, or until `_wake` is set."""
        sleeping = asyncio.ensure_future(self._clock.sleep(max(0.0, until - self._clock.monotonic())))
        waking = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()

    def _again_at(self, tries: int) -> float:
        """When an event that somebody failed is delivered again, after so many failures."""
        return self._clock.monotonic() + _AGAIN.after(tries, _roll())


def verdict_of(outcome: AdvanceOutcome, on_done: OnDone) -> Verdict | None:
    """What becomes of a whole file; None: it is delivered again.

    `dead` if some watcher rejected it and none took it. One that merely does not match has taken it.
    """
    if is_unsettled(outcome):
        return None
    return "dead" if outcome.rejected and not outcome.acked else on_done


def is_unsettled(outcome: AdvanceOutcome) -> bool:
    """Some watcher failed, or there was none to look at it."""
    return outcome.failed > 0 or not (outcome.acked or outcome.rejected)


def runs_of(batch: Sequence[AdvanceItem]) -> Sequence[tuple[AdvanceOutcome, list[Any]]]:
    """Payloads by stretches of equal outcome, in order."""
    if isinstance(batch, AdvanceBatch):
        return batch.runs
    return [(outcome, [p for p, _ in run]) for outcome, run in groupby(batch, key=lambda item: item[1])]


def _roll() -> float:
    return random.random()  # noqa: S311  # spreads retries, keeps no secret
