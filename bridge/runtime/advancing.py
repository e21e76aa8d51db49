"""Telling the broker: one call for all lanes that are ready where the producer has `advance_lanes`, else side by side.

It decides nothing: what the core sends is called, with a deadline, and what came of it is handed back. Neither an
event nor an `advance` has a task of its own. A worker takes one advance after the other; another begins only while
something is ready and those that work wait for the broker. What several of them were told comes back in one call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, Literal

from bridge.core.commands import Advance
from bridge.core.errors import OwnershipLost, Transient
from bridge.ports import AdvancesLanes, Producer

Said = Exception | int
"""What came of a call: how many events it left unsettled, or what went wrong."""

SLACK: Final = 1.0
"""Seconds by which a deadline may be early: it is moved for a call only when it is older than that."""
TURN_MOST: Final = 100
"""Advances of one worker, after which whoever else waits for the loop has a turn: a call need not wait for anything."""


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
        self._ready: deque[Advance] = deque()
        self._wanted = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._told: list[Advance] = []
        self._unsettled = 0
        self._is_asked = False
        self._is_over = False
        self._loop = asyncio.get_running_loop()

    @property
    def is_together(self) -> bool:
        """One call serves every lane that is ready, so there is nothing to bound."""
        return self._together is not None

    def start(self) -> None:
        if self._together is not None:
            self._begin(self._lanes(self._together))

    def send(self, advance: Advance) -> None:
        self._ready.append(advance)
        if self._together is not None:
            self._wanted.set()
        else:
            self._ask()

    def cancel(self) -> None:
        """Nothing more is told; what was under way comes again from the broker."""
        self._is_over = True
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

    # Side by side ----------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """For a worker in the next turn, if those that work have left something by then."""
        if not self._is_asked:
            self._is_asked = True
            self._loop.call_soon(self._hire)

    def _hire(self) -> None:
        self._is_asked = False
        if self._ready and not self._is_over:
            self._begin(self._work())

    async def _work(self) -> None:
        """Until nothing is ready. A call that outlasts its deadline is the only one that it ends."""
        while self._ready:
            under_way: list[Advance] = []
            try:
                async with asyncio.timeout(None) as limit:
                    await self._tell(limit, under_way)
            except TimeoutError as error:
                self._done(under_way, error)
            await asyncio.sleep(0)

    async def _tell(self, limit: asyncio.Timeout, under_way: list[Advance]) -> None:
        """One advance after the other, each in `under_way` while it is."""
        for _ in range(TURN_MOST):
            if not self._ready:
                return
            advance = self._ready.popleft()
            if self._ready:
                self._ask()
            under_way.append(advance)
            self._move(limit)
            said = await _said(self._producer.advance(advance.batch))
            under_way.clear()
            if isinstance(said, int):
                self._note(advance, said)
            else:
                self._done([advance], said)
            if not self._ready:
                self._report()

    def _move(self, limit: asyncio.Timeout) -> None:
        ends_at, before = self._loop.time() + self._timeout, limit.when()
        if before is None or ends_at - before > min(SLACK, self._timeout / 10):
            limit.reschedule(ends_at)

    def _note(self, advance: Advance, unsettled: int) -> None:
        """Told of with others: now, or in the next turn if the call that follows waits for the broker."""
        if not self._told:
            self._loop.call_soon(self._report)
        self._told.append(advance)
        self._unsettled += unsettled

    def _report(self) -> None:
        if self._told:
            told, unsettled = self._told, self._unsettled
            self._told, self._unsettled = [], 0
            self._done(told, unsettled)

    # All lanes in one call -------------------------------------------------------------------------------------------

    async def _lanes(self, producer: AdvancesLanes) -> None:
        """What becomes ready during one call goes into the next."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            mine = list(self._ready)
            self._ready.clear()
            if mine:
                batches = [(advance.lane.key, advance.batch) for advance in mine]
                try:
                    async with asyncio.timeout(self._timeout):
                        said = await _said(producer.advance_lanes(batches))
                except TimeoutError as error:
                    said = error
                self._done(mine, said)


async def _said(call: Awaitable[Sequence[Any] | None]) -> Said:
    try:
        return len(await call or ())
    except Exception as error:
        return error


def kind_of(error: Exception) -> Literal["transient", "moved", "fatal"]:
    """What the core does about it: try again, drop the lane, or end the group."""
    if isinstance(error, Transient | TimeoutError):
        return "transient"
    return "moved" if isinstance(error, OwnershipLost) else "fatal"
