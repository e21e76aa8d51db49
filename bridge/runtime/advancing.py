"""Telling the broker: one call for all lanes that are ready where the producer has `advance_lanes`, else a task a lane.

It decides nothing: what the core sends is called, with a deadline, and what came of it is handed back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal

from bridge.core.commands import Advance
from bridge.core.errors import OwnershipLost, Transient
from bridge.ports import AdvancesLanes, Producer

Said = Exception | int
"""What came of a call: how many events it left unsettled, or what went wrong."""


class Advancing:
    """`done` gets the advances of a call, and what it said. Bounded by the core's `max_advancing`.

    `broken` is told of a defect of our own: without whoever tells the broker, the stream would stand still in silence.
    """

    def __init__(
        self,
        producer: Producer,
        stream: str,
        timeout: float,
        done: Callable[[Sequence[Advance], Said], None],
        broken: Callable[[Exception], None],
    ) -> None:
        self._producer = producer
        self._together = producer if isinstance(producer, AdvancesLanes) else None
        self._stream = stream
        self._timeout = timeout
        self._done = done
        self._broken = broken
        self._ready: list[Advance] = []
        self._wanted = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_together(self) -> bool:
        """One call serves every lane that is ready, so there is nothing to bound."""
        return self._together is not None

    def start(self) -> None:
        if self._together is not None:
            self._begin(self._lanes(self._together))

    def send(self, advance: Advance) -> None:
        if self._together is not None:
            self._ready.append(advance)
            self._wanted.set()
        else:
            self._begin(self._one(advance))

    def cancel(self) -> None:
        """Nothing more is told; what was under way comes again from the broker."""
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"advance[{self._stream}]")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._broken(error)

    async def _one(self, advance: Advance) -> None:
        said = await self._call(partial(self._producer.advance, advance.batch))
        self._done([advance], said)

    async def _lanes(self, producer: AdvancesLanes) -> None:
        """What becomes ready during one call goes into the next."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            mine, self._ready = self._ready, []
            if mine:
                batches = [(advance.lane.key, advance.batch) for advance in mine]
                said = await self._call(partial(producer.advance_lanes, batches))
                self._done(mine, said)

    async def _call(self, call: Callable[[], Awaitable[Sequence[Any] | None]]) -> Said:
        try:
            async with asyncio.timeout(self._timeout):
                return len(await call() or ())
        except Exception as error:
            return error


def kind_of(error: Exception) -> Literal["transient", "moved", "fatal"]:
    """What the core does about it: try again, drop the lane, or end the group."""
    if isinstance(error, Transient | TimeoutError):
        return "transient"
    return "moved" if isinstance(error, OwnershipLost) else "fatal"
