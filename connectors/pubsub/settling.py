"""Acks, renewals and give-backs, sent in as few requests as the load allows.

There is no timer: a request takes all that has gathered while others were on their way. Each is confirmed by the
answer of the service, or repeated until its time is over. Requests that the service refuses for some of their ack ids
cost the others nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from grpc.aio import AioRpcError
from msgspec import Struct

from bridge.core.errors import HeadraceError, IllegalStep, Transient
from bridge.core.retry import Backoff
from connectors.pubsub.errors import translated, verdict_of

IDS_MOST: Final = 2500
BYTES_MOST: Final = 500 * 1024
"""Of one request: Pub/Sub takes 512 KiB, names included. 2,500 ids is what Google's own clients send."""

_AT_ONCE: Final = 4  # requests under way
_ID_COSTS: Final = 3  # bytes of an id beside its letters
_AGAIN: Final = Backoff(delay=0.1, factor=2.0, max=2.0, jitter=1.0)
_SAID: Final = {None: "acking", 0: "giving back"}

Post = Callable[[int | None, list[str], float], Awaitable[None]]
"""Sends one request (`Client.settle`). Raises AioRpcError."""


class Errand(Struct, eq=False):
    """What one caller wants, and when it has waited long enough (monotonic). `answer`: the ids whose lease was lost."""

    ids: Sequence[str]
    ends_at: float
    answer: asyncio.Future[list[str]]


class Settler:
    """Requests of one stream. `timeout` bounds each, in seconds."""

    def __init__(self, post: Post, timeout: float) -> None:
        self._post = post
        self._timeout = timeout
        self._waiting: dict[int | None, deque[Errand]] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.requests = 0

    async def settle(self, seconds: int | None, ids: Sequence[str], within: float) -> list[str]:
        """Acks (None), or lends for so many seconds from now; 0 gives back. Returns those whose lease was over.

        Raises Transient when that could not be confirmed within so many seconds: some of it may be done.
        """
        if not ids:
            return []
        if self._is_closed:
            raise IllegalStep("the stream is closed")
        errand = Errand(ids, time.monotonic() + within, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(seconds, deque()).append(errand)
        if len(self._workers) < _AT_ONCE:
            worker = asyncio.create_task(self._work(), name="pubsub settle")
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await errand.answer

    async def aclose(self) -> None:
        """What is on its way is given up."""
        self._is_closed = True
        workers = list(self._workers)
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers)
        for errand in [each for kind in self._waiting.values() for each in kind]:
            errand.answer.cancel()
        self._waiting.clear()

    async def _work(self) -> None:
        while self._waiting:
            seconds = next(iter(self._waiting))
            errands = self._gathered(seconds)
            try:
                lost = await self._deliver_all(seconds, errands)
            except asyncio.CancelledError:
                for errand in errands:
                    errand.answer.cancel()
                raise
            except Exception as error:  # which is for those who wait
                for errand in errands:
                    if not errand.answer.done():
                        errand.answer.set_exception(error)
            else:
                for errand in errands:
                    if not errand.answer.done():
                        errand.answer.set_result([each for each in errand.ids if each in lost] if lost else [])

    def _gathered(self, seconds: int | None) -> list[Errand]:
        """Errands for one request; a caller who wants more than fits into one goes alone."""
        waiting = self._waiting[seconds]
        errands = [waiting.popleft()]
        count = len(errands[0].ids)
        while waiting and count + len(waiting[0].ids) <= IDS_MOST:
            count += len(waiting[0].ids)
            errands.append(waiting.popleft())
        del self._waiting[seconds]
        if waiting:
            self._waiting[seconds] = waiting  # behind the other kinds
        return errands

    async def _deliver_all(self, seconds: int | None, errands: list[Errand]) -> set[str]:
        ids = errands[0].ids if len(errands) == 1 else [each for errand in errands for each in errand.ids]
        ends_at = min(errand.ends_at for errand in errands)
        lost: set[str] = set()
        for part in parts_of(ids):
            await self._deliver(seconds, part, ends_at, lost)
        return lost

    async def _deliver(self, seconds: int | None, ids: list[str], ends_at: float, lost: set[str]) -> None:
        """One request, until the service has said what became of each. Adds to `lost`."""
        doing = _SAID.get(seconds, "renewing leases")
        failures = 0
        while ids:
            error = await self._try(seconds, ids, ends_at, doing)
            if error is None:
                return
            verdict = verdict_of(error, ids)
            if verdict is None:
                raise Transient(str(translated(error, doing))) from error
            lost |= verdict.lost
            if verdict.halves:
                half = len(ids) // 2
                await self._deliver(seconds, ids[:half], ends_at, lost)
                await self._deliver(seconds, ids[half:], ends_at, lost)
                return
            ids = list(verdict.again)
            if ids:
                failures += 1
                wait = _AGAIN.after(failures, random.random())  # noqa: S311
                if time.monotonic() + wait >= ends_at:
                    raise Transient(str(translated(error, doing))) from error
                await asyncio.sleep(wait)

    async def _try(self, seconds: int | None, ids: list[str], ends_at: float, doing: str) -> AioRpcError | None:
        left = ends_at - time.monotonic()
        if left <= 0:
            raise Transient(f"{doing}: not confirmed in time")
        self.requests += 1
        try:
            await self._post(seconds, ids, min(left, self._timeout))
        except AioRpcError as error:
            return error
        except HeadraceError as error:  # no credentials, by now: that may pass, and the messages wait
            raise Transient(f"{doing}: {error}") from error
        return None


def parts_of(ids: Sequence[str]) -> Iterator[list[str]]:
    """Cut so that each fits into a request, in order."""
    part: list[str] = []
    size = 0
    if len(ids) <= IDS_MOST and sum(map(len, ids)) + _ID_COSTS * len(ids) <= BYTES_MOST:
        yield list(ids)
        return
    for each in ids:
        size += len(each) + _ID_COSTS
        if part and (len(part) == IDS_MOST or size > BYTES_MOST):
            yield part
            part, size = [], len(each) + _ID_COSTS
        part.append(each)
    if part:
        yield part
