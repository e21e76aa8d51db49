"""From polls to verdicts: schemas first, slow work in a thread, and the router left alone while that runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bridge.core.errors import HeadraceError
from bridge.core.model import Context, Meta, Poll, Routed
from bridge.decode.decoder import Decoder
from bridge.ports import Clock, Router
from bridge.runtime.schemas import SchemaTeacher

BIG_BODY = 256 * 1024
BIG_POLL = 1024 * 1024
"""Bytes of a body, or of a poll, above which it is decoded in a thread, so that the loop never stands still for it."""

BIG_CODED_POLL = 32 * 1024
"""The same for bodies that are no JSON: to decode one takes up to 3 µs a byte."""

Change = Callable[[Router], None]


class Routing:
    """The router of a group, for one life of it. `changed` is told when its watchers came or went."""

    def __init__(
        self,
        router: Router,
        stream: str,
        describe: Callable[[Any], Meta],
        clock: Clock,
        changed: Callable[[], None],
        decoder: Decoder | None,
        teacher: SchemaTeacher | None,
    ) -> None:
        self._router = router
        self._stream = stream
        self._describe = describe
        self._clock = clock
        self._changed = changed
        self._decoder = decoder
        self._teacher = teacher
        self._turn = asyncio.Lock()  # held while the router is asked
        self._threads: ThreadPoolExecutor | None = None
        self._changes: deque[Change] = deque()

    @property
    def trouble(self) -> str | None:
        """Why a poll waits, where it does."""
        return self._teacher.trouble if self._teacher is not None else None

    async def routed(self, poll: Poll) -> Routed:
        """Waits for schemas that the decoder has not seen yet, however long that takes: nothing is polled meanwhile."""
        await self._prepare(poll.bodies)
        async with self._turn:
            return await self._routed(poll)

    async def routed_now(self, poll: Poll, within: float) -> Routed | None:
        """The same for a message that is asked for again: None where it can't begin within so many seconds."""
        try:
            async with asyncio.timeout(within):
                await self._prepare(poll.bodies)
                await self._turn.acquire()
        except (TimeoutError, HeadraceError):
            return None
        try:
            return await self._routed(poll)
        finally:
            self._turn.release()

    @property
    def is_busy(self) -> bool:
        """A thread has the router, maybe for longer than anybody waits for what it finds."""
        return self._turn.locked()

    async def freed(self) -> None:
        """Waits until no thread has the router."""
        async with self._turn:
            pass

    def change(self, change: Change) -> None:
        """The declarative watchers change; polls that were admitted before are not affected."""
        if self.is_busy:
            self._changes.append(change)
        else:
            self._change(change)

    async def _routed(self, poll: Poll) -> Routed:
        if not self._is_slow(poll):
            return self._router.route(poll, self._context())
        if self._threads is None:  # its own: the loop waits for those of its default one before it ends
            self._threads = ThreadPoolExecutor(1, "routing")
        loop = asyncio.get_running_loop()
        routing = loop.run_in_executor(self._threads, self._router.route, poll, self._context())
        try:
            return await asyncio.shield(routing)
        finally:
            if not routing.done():  # cancelled: a thread can't be, and the router is its own until it has ended
                await asyncio.wait({routing})
            while self._changes:
                self._change(self._changes.popleft())

    def _is_slow(self, poll: Poll) -> bool:
        if self._router.is_heavy:
            return True
        if self._decoder is None:
            return poll.size > BIG_POLL or (poll.size > BIG_BODY and max(map(len, poll.bodies)) > BIG_BODY)
        return self._decoder.unpacks or poll.size > BIG_CODED_POLL

    def _change(self, change: Change) -> None:
        change(self._router)
        self._changed()

    async def _prepare(self, bodies: Sequence[bytes]) -> None:
        if self._teacher is not None and self._decoder is not None:
            await self._teacher.prepare(self._decoder, bodies)

    def _context(self) -> Context:
        return Context(self._stream, self._describe, self._clock.now())
