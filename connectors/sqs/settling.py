"""Settling: messages of many calls go into as few calls of SQS as possible, ten in each.

There is no timer: what is ready in one turn of the loop goes together, and what becomes ready while two calls are under
way waits for the first of them, or until there are ten. So ten lanes of one message each cost one call.

Each entry of a batch fails for itself (B23, B25):

    its handle counts no more    not settled, unless a newer handle has come meanwhile: then that one is tried
    it may work another time     tried again alone, after a growing delay, with the newest handle
    it will never be taken       logged with its code, and not settled
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from bridge.core.errors import HeadraceError, Transient
from bridge.core.retry import Backoff
from connectors.sqs.errors import Verdict, plain, translated, verdict_of
from connectors.sqs.messages import Message
from connectors.sqs.options import RECEIVE_MOST as BATCH

log = structlog.get_logger("headrace.sqs")

Call = Callable[[Sequence[Message]], Awaitable[Sequence[Mapping[str, Any]]]]
"""Settles up to ten, and returns the entries that failed; `Id` is the index. Raises HeadraceError for all of them."""

CALLS_MOST: Final = 8
"""Calls at once, of one kind: 80 messages in each 20 ms."""
_PARTIAL_MOST: Final = 2
_TRIES: Final = 4
AGAIN: Final = Backoff(delay=0.2, factor=3.0, max=5.0, jitter=0.5)


class Ticket:
    """One `advance` waits for it: `left` messages are not decided yet, `unsettled` have come to nothing."""

    __slots__ = ("_done", "error", "left", "unsettled")

    def __init__(self) -> None:
        self.left = 0
        self.unsettled: list[Message] = []
        self.error: HeadraceError | None = None
        self._done: asyncio.Future[None] | None = None

    async def wait(self) -> list[Message]:
        """Once all is decided: what was not settled. Raises Transient where some may yet be."""
        if self.left:
            self._done = asyncio.get_running_loop().create_future()
            await self._done
        if self.error is not None:
            raise Transient(str(self.error)) from self.error
        return self.unsettled

    def decide(self, count: int) -> None:
        self.left -= count
        if self.left <= 0 and self._done is not None and not self._done.done():
            self._done.set_result(None)


class Settling:
    """One way to settle (delete, or hand back), with the call for it. `failed` and `worked` hear how calls went."""

    def __init__(
        self,
        call: Call,
        failed: Callable[[HeadraceError], None],
        worked: Callable[[], None],
        doing: str,
        again: Backoff = AGAIN,
    ) -> None:
        self.calls = 0
        self.settled = 0
        self.expired = 0
        self._call = call
        self._failed = failed
        self._worked = worked
        self._doing = doing
        self._backoff = again
        self._waiting: deque[Message] = deque()
        self._is_due = False
        self._under_way: set[asyncio.Task[None]] = set()
        self._resting: set[asyncio.TimerHandle] = set()

    def add(self, messages: Sequence[Message], ticket: Ticket) -> None:
        """What another call has begun, one that was given up, is only waited for; what is done is done."""
        for message in messages:
            if message.is_done:
                continue
            ticket.left += 1
            message.ticket = ticket
            if not message.is_asked:
                message.is_asked = True
                message.tries = 0
                self._waiting.append(message)
        if self._waiting and not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def close(self, within: float) -> None:
        """What is ready is still settled, within so many seconds; what rests comes again from the broker."""
        for timer in self._resting:
            timer.cancel()
        self._resting.clear()
        try:
            async with asyncio.timeout(within):
                while self._under_way or self._waiting:
                    self._flush()
                    await asyncio.wait(self._under_way)
        except TimeoutError:
            log.warning(f"{self._doing} was given up", messages=len(self._waiting), calls=len(self._under_way))
        finally:
            self._waiting.clear()
            for task in self._under_way:
                task.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way, timeout=1.0)

    # Calls -----------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._is_due = False
        waiting = self._waiting
        while waiting and len(self._under_way) < CALLS_MOST:
            if len(waiting) < BATCH and len(self._under_way) >= _PARTIAL_MOST:
                return
            batch = [waiting.popleft() for _ in range(min(BATCH, len(waiting)))]
            task = asyncio.create_task(self._settle(batch), name=f"sqs-{self._doing}")
            self._under_way.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (defect := task.exception()) is not None:
            log.error("a call that settles is broken", error=f"{type(defect).__name__}: {defect}", exc_info=defect)
        self._flush()

    async def _settle(self, batch: Sequence[Message]) -> None:
        handles = [message.handle for message in batch]
        self.calls += 1
        try:
            failed = await self._call(batch)
        except Exception as raised:
            error = translated(raised, self._doing)
            self._failed(error)
            self._again(batch, error)
            return
        self._worked()
        if failed:
            self._judge(batch, handles, failed)
            broken = {int(each["Id"]) for each in failed}
            batch = [message for index, message in enumerate(batch) if index not in broken]
        for message in batch:
            message.is_asked = False
            message.is_done = True
            message.ticket.decide(1)
        self.settled += len(batch)

    # What failed -----------------------------------------------------------------------------------------------------

    def _judge(self, batch: Sequence[Message], handles: Sequence[str], failed: Sequence[Mapping[str, Any]]) -> None:
        again: list[Message] = []
        for entry in failed:
            index = int(entry["Id"])
            message = batch[index]
            verdict = verdict_of(entry)
            if message.handle != handles[index]:
                self._waiting.append(message)  # lent anew meanwhile: that handle counts
            elif verdict is Verdict.AGAIN:
                again.append(message)
            else:
                self._give_up(message, entry, verdict)
        if again:
            codes = ", ".join(sorted({plain(str(each.get("Code", "?"))) for each in failed}))
            self._again(again, Transient(f"{self._doing}: {len(again)} of {len(batch)} messages refused now ({codes})"))

    def _give_up(self, message: Message, entry: Mapping[str, Any], verdict: Verdict) -> None:
        self.expired += verdict is Verdict.DEAD
        log.warning(
            "a message was not settled, it comes again",
            message=message.key,
            doing=self._doing,
            why=verdict.value,
            code=plain(str(entry.get("Code", "?"))),
            said=str(entry.get("Message") or "")[:200],
            deliveries=message.deliveries,
        )
        message.is_asked = False
        message.ticket.unsettled.append(message)
        message.ticket.decide(1)

    def _again(self, messages: Sequence[Message], error: HeadraceError) -> None:
        """Those that were tried too often go back to who asked, who asks again later."""
        resting: list[Message] = []
        for message in messages:
            message.tries += 1
            if message.tries < _TRIES:
                resting.append(message)
                continue
            message.is_asked = False
            message.ticket.error = error
            message.ticket.decide(1)
        if resting:
            delay = self._backoff.after(max(message.tries for message in resting), random.random())  # noqa: S311
            self._rest(resting, delay)

    def _rest(self, messages: Sequence[Message], delay: float) -> None:
        def rested() -> None:
            self._resting.discard(timer)
            self._waiting.extend(messages)
            self._flush()

        timer = asyncio.get_running_loop().call_later(delay, rested)
        self._resting.add(timer)
