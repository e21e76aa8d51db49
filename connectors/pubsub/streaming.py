"""One streaming pull: opened again whenever it ends, and read whether or not anybody wants messages.

The service ends every stream, every half an hour or so. What it sends is lent from that moment on, so nothing may wait
in the client unread; how much comes is for the service to bound (flow.py). A stream that we end is ended politely: we
say that we have no more to say, read what is on its way, and cut it off only when the service does not end it then.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import grpc
import structlog
from grpc.aio import AioRpcError

from bridge.core.errors import HeadraceError
from bridge.core.retry import Backoff
from connectors.pubsub.client import Client
from connectors.pubsub.errors import is_for_people, told, translated

log = structlog.get_logger("headrace.pubsub")

TROUBLE_AFTER: Final = 5.0
"""Seconds that a stream may fail to open before that is told: the service moves its streams about."""

_AGAIN: Final = Backoff(delay=0.5, factor=2.0, max=30.0, jitter=0.5)
_PROVEN_AFTER: Final = 10.0
"""Seconds after which a stream on which nothing came counts as one that works."""
_ENDED_WITHIN: Final = 2.0
_EOF: Any = grpc.aio.EOF  # pyright: ignore[reportAttributeAccessIssue]  # it comes out of an extension module
_OPENED_WITHIN: Final = 20.0


class Stream:
    """`deliver(response, received)` is called with each response, `failed` when it could not be opened, or broke.

    `request` makes the first request of an opening.
    """

    def __init__(
        self,
        client: Client,
        request: Callable[[], Any],
        deliver: Callable[[Any, float], None],
        failed: Callable[[], None],
    ) -> None:
        self.ends: Counter[str] = Counter()
        self.last = time.monotonic()  # when something came, or it was opened
        self.closed = asyncio.Event()
        self.closed.set()
        self._client = client
        self._request = request
        self._deliver = deliver
        self._heard = failed
        self._wanted = asyncio.Event()
        self._call: Any = None
        self._ending = ""
        self._enders: set[asyncio.Task[None]] = set()
        self._failures = 0
        self._failing_since = 0.0
        self._failure: HeadraceError | None = None
        self._is_hopeless = False
        self._has_worked = False
        self._is_missing = False

    @property
    def missing(self) -> HeadraceError | None:
        """What to say where there never was such a subscription, as far as we have seen."""
        return self._failure if self._is_missing and not self._has_worked else None

    @property
    def is_open(self) -> bool:
        return self._call is not None

    def want(self, *, wanted: bool) -> None:
        """Whether it is opened again once it has ended. One that is open stays so."""
        if wanted:
            self.last = time.monotonic()  # until now nothing had to come
            self._wanted.set()
        else:
            self._wanted.clear()

    def trouble(self, now: float) -> str | None:
        """Why nothing can come, when that is not a matter of seconds."""
        if self._failure is None or not (self._is_hopeless or now - self._failing_since >= TROUBLE_AFTER):
            return None
        return f"{self._failure} (for {now - self._failing_since:.0f} s now, tried again all the time)"

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._wanted.wait()
            reason, is_failure = await self._once()
            self.ends[reason] += 1
            log.debug("a streaming pull has ended", reason=reason, subscription=self._client.subscription)
            if is_failure:
                self._failures += 1
                await asyncio.sleep(_AGAIN.after(self._failures, random.random()))  # noqa: S311

    async def _once(self) -> tuple[str, bool]:
        """From its opening to its end: why that came, and whether it is one that opening again may not help against."""
        self._ending = ""
        try:
            async with asyncio.timeout(_OPENED_WITHIN):
                call = await self._client.stream()
        except (HeadraceError, TimeoutError) as error:
            return self._failed(translated(error, "opening a streaming pull"), type(error).__name__, hopeless=False)
        self._call, self.last = call, time.monotonic()
        self.closed.clear()
        try:
            return await self._read(call)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._ending or "cut off", False  # it was the call that was cancelled, and not we (`end`)
        except AioRpcError as error:
            return self._ended(error)
        finally:
            self._call = None
            self.closed.set()
            call.cancel()
            for ender in self._enders:
                ender.cancel()

    async def _read(self, call: Any) -> tuple[str, bool]:
        proof = asyncio.get_running_loop().call_later(_PROVEN_AFTER, self._works)
        try:
            with suppress(asyncio.InvalidStateError):  # it has ended already: reading tells why
                await call.write(self._request())
            while True:
                response = await call.read()
                if response is _EOF:
                    return self._ending or "ended by the service", False
                self.last = time.monotonic()
                if self._failures or not self._has_worked:
                    self._works()
                self._deliver(response, self.last)
        finally:
            proof.cancel()

    def _ended(self, error: AioRpcError) -> tuple[str, bool]:
        self._client.heed(error)
        if self._ending:
            return self._ending, False
        reason = error.code().name
        lived = time.monotonic() - self.last
        if not is_for_people(error) and not self._failures and lived >= _PROVEN_AFTER:
            return reason, True  # a stream that worked: that is its usual end
        self._is_missing = error.code() is grpc.StatusCode.NOT_FOUND
        failure = translated(error, f"pulling from {self._client.subscription}")
        tell = log.debug if self._failures else log.warning  # once, and not with each attempt
        tell("a streaming pull was ended", reason=told(error), subscription=self._client.subscription)
        return self._failed(failure, reason, hopeless=is_for_people(error))

    def _failed(self, failure: HeadraceError, reason: str, *, hopeless: bool) -> tuple[str, bool]:
        if self._failure is None:
            self._failing_since = time.monotonic()
        self._failure, self._is_hopeless = failure, hopeless
        self._heard()
        return reason, True

    def _works(self) -> None:
        self._failure, self._failures, self._is_hopeless = None, 0, False
        self._has_worked = True

    # Ending it -------------------------------------------------------------------------------------------------------

    def end(self, reason: str, within: float = _ENDED_WITHIN) -> None:
        """Politely; whatever is on its way is delivered still. Nothing where it is not open, or ends already."""
        call = self._call
        if call is None or self._ending:
            return
        self._ending = reason
        ender = asyncio.create_task(_end(call, within), name="pubsub end")
        self._enders.add(ender)
        ender.add_done_callback(self._enders.discard)


async def _end(call: Any, within: float) -> None:
    try:
        async with asyncio.timeout(within):
            await call.done_writing()
            await asyncio.sleep(within)
    except (TimeoutError, AioRpcError, asyncio.InvalidStateError):
        pass
    call.cancel()
