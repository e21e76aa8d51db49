"""Keeping what is lent, and giving it back: both set the visibility timeout of many messages, ten in a call.

Neither waits behind long polls: those have connections of their own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import structlog

from bridge.core.errors import HeadraceError, Transient
from bridge.core.retry import Backoff
from connectors.sqs.errors import Verdict, verdict_of
from connectors.sqs.messages import Message
from connectors.sqs.options import RECEIVE_MOST as BATCH

log = structlog.get_logger("headrace.sqs")

SetVisibility = Callable[[Sequence[tuple[str, int]], float], Awaitable[Sequence[Mapping[str, Any]]]]
"""Receipt handles with seconds from now, ten at most, and a deadline: returns the entries that failed."""

CALLS_MOST: Final = 8
_AGAIN: Final = Backoff(delay=0.1, factor=3.0, max=2.0, jitter=0.5)
_ENTRY_TRIES: Final = 3
_RELEASED_WITHIN: Final = 5.0


class Renewed(NamedTuple):
    """`lost`: SQS lends them to somebody else, or will. `untold`: how many may have been renewed or not, and why."""

    lost: list[Message]
    untold: int = 0
    error: HeadraceError | None = None


async def renew(messages: Sequence[Message], seconds: int, within: float, call: SetVisibility) -> Renewed:
    """Lends all of them for so many seconds from now. Ends within `within` seconds; a call gets a third of that."""
    open_ones = [message for message in messages if not message.is_done]
    round_ = _Round(open_ones, seconds, max(0.5, within / 3), call)
    try:
        async with asyncio.timeout(within):
            await round_.run()
    except TimeoutError:
        round_.error = round_.error or Transient(f"renewing took longer than {within:.1f} s")
    return Renewed(round_.lost, round_.left, round_.error if round_.left else None)


class _Round:
    """`left` counts messages that are not decided yet."""

    def __init__(self, messages: Sequence[Message], seconds: int, within: float, call: SetVisibility) -> None:
        self.lost: list[Message] = []
        self.left = len(messages)
        self.error: HeadraceError | None = None
        self._seconds = seconds
        self._within = within
        self._call = call
        self._batches = _batches(messages)

    async def run(self) -> None:
        workers = min(CALLS_MOST, -(-self.left // BATCH))
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(self._work(), name="sqs-renew")

    async def _work(self) -> None:
        for batch in self._batches:
            await self._renewed(batch)

    async def _renewed(self, batch: Sequence[Message]) -> None:
        """A call that fails is repeated until the round is over; entries that SQS can't do now, twice."""
        tries = entry_tries = 0
        while batch:
            if tries:
                await asyncio.sleep(_AGAIN.after(tries, random.random()))  # noqa: S311
            tries += 1
            handles = [message.handle for message in batch]
            try:
                failed = await self._call([(handle, self._seconds) for handle in handles], self._within)
            except HeadraceError as error:
                self.error = error
                continue
            entry_tries += 1
            again = self._judged(batch, handles, failed, is_last=entry_tries >= _ENTRY_TRIES)
            self.left -= len(batch) - len(again)
            batch = again

    def _judged(
        self, batch: Sequence[Message], handles: Sequence[str], failed: Sequence[Mapping[str, Any]], *, is_last: bool
    ) -> list[Message]:
        """Those to be tried again. What can't be done now and is out of tries is left as it is: it is not lost."""
        again: list[Message] = []
        for entry in failed:
            index = int(entry["Id"])
            message = batch[index]
            if message.is_done:
                continue
            if message.handle != handles[index]:
                again.append(message)  # it came again meanwhile: its newer handle counts
            elif verdict_of(entry) is not Verdict.AGAIN:
                self.lost.append(message)
            elif not is_last:
                again.append(message)
        return again


async def release(messages: Sequence[Message], call: SetVisibility) -> int:
    """Makes them visible at once, as far as that can be done quickly. Returns how many calls failed.

    A FIFO queue gives them again in their order, however many calls this takes: a group rests while any of it is lent.
    """
    batches = _batches([message for message in messages if not message.is_done and not message.is_asked])
    failures = 0

    async def work() -> None:
        nonlocal failures
        for batch in batches:
            try:
                await call([(message.handle, 0) for message in batch], _RELEASED_WITHIN)
            except HeadraceError as error:
                failures += 1
                log.warning("messages can't be given back, they come again later", error=str(error), number=len(batch))

    async with asyncio.TaskGroup() as group:
        for _ in range(min(CALLS_MOST, -(-len(messages) // BATCH))):
            group.create_task(work(), name="sqs-release")
    return failures


def _batches(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    return (messages[start : start + BATCH] for start in range(0, len(messages), BATCH))
