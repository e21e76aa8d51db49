"""Long polls. As many at once as what comes is worth, one where nothing does; none is ever cancelled.

A long poll that is given up goes on at SQS, and what it brings is lent to nobody: it would be gone for a whole
visibility timeout. So when polling ends nothing new is asked for, those under way end by themselves, and what they
bring is given back.

    target    how many polls should run: one more after an answer that was full, one less after one that was not half
              full, one after an empty one or a failure
    most      how many messages may be on their way, in all: asked for, or come and not yet handed out
    rest      after a failure, or where empty answers come early (B32): growing, with jitter, and cut short by the end
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import structlog

from bridge.core.errors import HeadraceError, StartRefused
from bridge.core.retry import Backoff
from connectors.sqs.errors import QueueMissing
from connectors.sqs.health import Health

log = structlog.get_logger("headrace.sqs")

Received = Mapping[str, Any]

_AFTER_FAILURE: Final = Backoff(delay=0.5, factor=2.0, max=30.0, jitter=0.5)
_EARLY: Final = 0.5
"""An empty answer is early when it took less than this share of the wait."""


class Receive(Protocol):
    """One long poll for at most so many messages. Raises HeadraceError. `attempt` is the same when it is repeated."""

    def __call__(self, most: int, attempt: str, /) -> Awaitable[Sequence[Received]]: ...


class Timer(Protocol):
    def cancel(self) -> None: ...


def _later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


class Came(NamedTuple):
    """What one poll brought, and when, in monotonic seconds."""

    messages: Sequence[Received]
    at: float


class Attempt(NamedTuple):
    """A poll whose answer was lost. For 5 minutes a FIFO queue gives the same again to who asks with the same id."""

    id: str
    most: int
    at: float


ATTEMPT_COUNTS: Final = 240.0


class Receiving:
    """See the head of the file. Plain calls on the loop, but for `next` and `close`."""

    def __init__(
        self,
        receive: Receive,
        health: Health,
        *,
        receivers: int,
        batch: int,
        wait: float,
        new_attempt: Callable[[], str] = lambda: "",
        now: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], Timer] = _later,
    ) -> None:
        self.received = 0
        self.polls = 0
        self._receive = receive
        self._health = health
        self._receivers = receivers
        self._batch = batch
        self._wait = wait
        self._new_attempt = new_attempt
        self._now = now
        self._later = later
        self._lost: Attempt | None = None
        self._most = 0
        self._pending = 0
        self._target = 1
        self._early = 0
        self._failures = 0
        self._is_open = False
        self._works = False
        self._rest: Timer | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._ready: list[Came] = []
        self._fatal: Exception | None = None
        self._changed = asyncio.Event()

    @property
    def running(self) -> int:
        return len(self._running)

    def ask(self, most: int) -> None:
        self._most = most
        self._fill()

    def open(self) -> None:
        self._is_open = True
        self._fill()

    def end(self) -> None:
        """Nothing new is asked for."""
        self._is_open = False
        self._stop_resting()

    async def next(self) -> list[Came]:
        """All that has come, at least one. Raises StartRefused where there never was such a queue."""
        while not self._ready:
            if self._fatal is not None:
                raise self._fatal
            self._changed.clear()
            await self._changed.wait()
        return self._taken()

    def _taken(self) -> list[Came]:
        came, self._ready = self._ready, []
        self._pending -= sum(len(each.messages) for each in came)
        self._fill()
        return came

    async def close(self) -> list[Came]:
        """What came and was never handed out, once all polls have ended."""
        self.end()
        while self._running:
            await asyncio.wait(self._running)
        return self._taken()

    async def abandon(self) -> None:
        """Whoever stops us could not wait any longer: polls under way are given up, and what they would bring comes
        again when its visibility timeout is over.
        """
        self.end()
        if not self._running:
            return
        log.warning("long polls were cut short: what they bring comes again later", polls=len(self._running))
        for task in self._running:
            task.cancel()
        await asyncio.wait(self._running, timeout=1.0)

    # One poll --------------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        while self._is_open and self._rest is None and len(self._running) < self._target:
            most = min(self._batch, self._most - self._pending)
            if most <= 0:
                return
            self._pending += most
            task = asyncio.create_task(self._poll(most), name="sqs-receive")
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (defect := task.exception()) is not None:
            self._fail(defect if isinstance(defect, Exception) else RuntimeError(str(defect)))
        self._fill()

    async def _poll(self, most: int) -> None:
        began = self._now()
        attempt = self._attempt(most, began)
        came: Sequence[Received] = ()
        try:
            came = await self._receive(most, attempt)
            self._came(came, most, began)
        except HeadraceError as error:
            self._lost = Attempt(attempt, most, began) if attempt else None
            self._failed(error)
        finally:
            self._pending -= most - len(came)

    def _attempt(self, most: int, now: float) -> str:
        lost, self._lost = self._lost, None
        if lost is not None and lost.most == most and now - lost.at < ATTEMPT_COUNTS:
            return lost.id
        return self._new_attempt()

    def _came(self, messages: Sequence[Received], most: int, began: float) -> None:
        now = self._now()
        self.polls += 1
        self._works = True
        self._failures = 0
        self._health.worked("reading")
        if not messages:
            self._target = 1
            is_early = now - began < self._wait * _EARLY
            self._early = self._early + 1 if is_early else 0
            if self._early:
                self._rest_for(min(0.1 * 2 ** min(self._early, 10), self._wait - (now - began)))
            return
        self._early = 0
        self.received += len(messages)
        if len(messages) >= most:
            self._target = min(self._receivers, self._target + 1)
        elif len(messages) * 2 < most:
            self._target = max(1, self._target - 1)
        self._ready.append(Came(messages, now))
        self._changed.set()

    # What fails, and rests -------------------------------------------------------------------------------------------

    def _failed(self, error: HeadraceError) -> None:
        if isinstance(error, QueueMissing) and not self._works:
            self._fail(StartRefused(str(error)))
            return
        self._target = 1
        self._failures += 1
        self._health.failed("reading", error)
        self._rest_for(_AFTER_FAILURE.after(self._failures, random.random()))  # noqa: S311

    def _fail(self, error: Exception) -> None:
        self._fatal = error
        self._is_open = False
        self._changed.set()

    def _rest_for(self, seconds: float) -> None:
        if self._is_open and self._rest is None:
            self._rest = self._later(seconds, self._rested)

    def _rested(self) -> None:
        self._rest = None
        self._fill()

    def _stop_resting(self) -> None:
        rest, self._rest = self._rest, None
        if rest is not None:
            rest.cancel()
