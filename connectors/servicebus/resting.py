"""Messages that a watcher failed, until they are given back: abandoned at once they would come again at once (B44).

They are leased meanwhile, so their locks are renewed here; the runtime knows them no more.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from bridge.core.errors import HeadraceError
from bridge.core.retry import Backoff
from connectors.servicebus.messages import Message

log = structlog.get_logger("headrace.servicebus")

AGAIN: Final = Backoff(delay=1.0, factor=2.0, max=60.0)
MOST: Final = 500
"""What can be renewed in time; a message more sends the one that has rested longest back."""
_IDLE: Final = 3600.0


class Resting:
    """`abandon` and `renew` are given messages. What goes wrong here only means that a message comes by itself."""

    def __init__(
        self,
        lease: float,
        abandon: Callable[[Sequence[Message]], Awaitable[object]],
        renew: Callable[[Sequence[Message]], Awaitable[Sequence[Message]]],
    ) -> None:
        self._lease = lease
        self._abandon = abandon
        self._renew = renew
        self._order = itertools.count()
        self._due: list[tuple[float, int, Message]] = []
        self._renewed: dict[Message, float] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def put(self, message: Message) -> None:
        """It is given back after a delay that grows with its deliveries."""
        now = time.monotonic()
        delay = AGAIN.after(message.deliveries or 1, random.random())  # noqa: S311  # no secret
        if len(self._due) >= MOST:
            _, number, oldest = heapq.heappop(self._due)
            heapq.heappush(self._due, (now, number, oldest))
        heapq.heappush(self._due, (now + delay, next(self._order), message))
        self._renewed[message] = message.since or now
        self._changed.set()

    def take_all(self) -> list[Message]:
        """They rest no longer."""
        messages = [message for _, _, message in self._due]
        self._due.clear()
        self._renewed.clear()
        return messages

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            self._changed.clear()
            wait = self._next() - time.monotonic()
            if wait > 0:
                try:
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
                except TimeoutError:
                    pass
                continue
            await self._tend()

    def _next(self) -> float:
        """When there is something to do."""
        if not self._due:
            return time.monotonic() + _IDLE
        return min(self._due[0][0], min(self._renewed.values()) + self._lease / 3)

    async def _tend(self) -> None:
        now = time.monotonic()
        back: list[Message] = []
        while self._due and self._due[0][0] <= now:
            message = heapq.heappop(self._due)[2]
            self._renewed.pop(message, None)
            back.append(message)
        await self._try("giving failed messages back", self._abandon, back)
        old = [message for message, renewed in self._renewed.items() if renewed + self._lease / 3 <= now]
        for message in old:
            self._renewed[message] = now
        await self._try("renewing failed messages", self._renew, old)

    async def _try(
        self, doing: str, what: Callable[[Sequence[Message]], Awaitable[object]], messages: Sequence[Message]
    ) -> None:
        if not messages:
            return
        try:
            await what(messages)
        except HeadraceError as error:
            log.warning(doing, reason=str(error), messages=len(messages), outcome="they come again when locks run out")
