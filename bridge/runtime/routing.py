"""From polls to verdicts: schemas first, slow work in a thread, and the router left alone while that runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from bridge.core.errors import HeadraceError
from bridge.core.model import Context, Meta, Poll, Routed
from bridge.decode.decoder import Decoder
from bridge.ports import Clock, Router
from bridge.runtime.schemas import SchemaTeacher

BIG_BODY = 256 * 1024
BIG_POLL = 1024 * 1024
"""Bytes of a body, or of a poll, above which it is decoded in a thread, so that the loop never stands still for it."""

PREPARED_WITHIN = 1.0
"""Seconds that a replay waits for a schema."""

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
        self._is_busy = False
        self._changes: deque[Change] = deque()

    @property
    def trouble(self) -> str | None:
        """Why a poll waits, where it does."""
        return self._teacher.trouble if self._teacher is not None else None

    async def routed(self, poll: Poll) -> Routed:
        """Waits for schemas that the decoder has not seen yet, however long that takes: nothing is polled meanwhile."""
        await self._prepare(poll.bodies)
        if not (self._router.is_heavy or _is_big(poll)):
            return self._router.route(poll, self._context())
        self._is_busy = True
        routing = asyncio.ensure_future(asyncio.to_thread(self._router.route, poll, self._context()))
        try:
            return await asyncio.shield(routing)
        finally:
            if not routing.done():  # cancelled: a thread can't be, and the router is its own until it has ended
                await asyncio.wait({routing})
            self._is_busy = False
            while self._changes:
                self._change(self._changes.popleft())

    async def routed_now(self, poll: Poll) -> Routed | None:
        """The same for a message that is asked for again within a second: None where it can't be done at once."""
        try:
            await asyncio.wait_for(self._prepare(poll.bodies), PREPARED_WITHIN)
        except (TimeoutError, HeadraceError):
            return None
        return None if self._is_busy else self._router.route(poll, self._context())

    def change(self, change: Change) -> None:
        """The declarative watchers change; polls that were admitted before are not affected."""
        if self._is_busy:
            self._changes.append(change)
        else:
            self._change(change)

    def _change(self, change: Change) -> None:
        change(self._router)
        self._changed()

    async def _prepare(self, bodies: Sequence[bytes]) -> None:
        if self._teacher is not None and self._decoder is not None:
            await self._teacher.prepare(self._decoder, bodies)

    def _context(self) -> Context:
        return Context(self._stream, self._describe, self._clock.now())


def _is_big(poll: Poll) -> bool:
    return poll.size > BIG_POLL or (poll.size > BIG_BODY and max(map(len, poll.bodies)) > BIG_BODY)
