"""An event loop whose time stands still until a test lets it pass, and then takes no time.

As long as something is ready, it runs. When nothing is, and the time may pass, the loop jumps to its next timer instead
of waiting for it: `asyncio.sleep(60)` is over at once, and in the right order with everything else that waits.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from math import inf, nextafter
from typing import Final, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_BEGINNING: Final = 1000.0
_GRACE: Final = 0.05  # real seconds that open sockets get before the time jumps past them
_OWN_FILES: Final = 1  # the loop's own, by which other threads wake it


class JumpingLoop(asyncio.SelectorEventLoop):
    """Its `time()` may pass up to `limit` and stands still there.

    `idle` is called, on the loop's thread, whenever nothing will happen any more before somebody calls from outside. A
    thread that the loop started (`asyncio.to_thread`) has its time: meanwhile the loop waits and does not jump.
    """

    def __init__(self, idle: Callable[[], None]) -> None:
        self.limit = _BEGINNING
        self._now = _BEGINNING
        self._idle = idle
        self._threads = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._now

    def freeze(self) -> None:
        self.limit = self._now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _: object) -> None:
        self._threads -= 1

    @property
    def is_busy(self) -> bool:
        return self._threads > 0

    def jump(self, seconds: float | None) -> bool:
        """Passes the time until the next timer, in `seconds`, as far as it may. False: there is nothing to pass."""
        if seconds is not None and self._now + seconds <= self.limit:
            self._now = max(self._now + seconds, nextafter(self._now, inf))
            return True
        if self.limit not in (self._now, inf):
            self._now = self.limit
            return True
        return False

    def rest(self) -> None:
        self._idle()


class _Selector(selectors.DefaultSelector):
    """Where a loop waits: this one jumps."""

    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._loop.is_busy:
            return super().select(None)
        found = super().select(_GRACE if len(self.get_map()) > _OWN_FILES else 0)
        if found or self._loop.jump(timeout):
            return found
        self._loop.rest()
        return super().select(None)
