"""A wrapper that dies at a chosen call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Died(BaseException):
    """What a `Dying` raises: not an Exception, so that no handler of the program takes it for a mere error."""


class Dying:
    """Wraps a port and dies before or after the n-th call of one of its coroutine methods.

    `die` is what dying means: raising `Died` by default, `os._exit` in a process of its own.
    """

    def __init__(
        self, inner: Any, method: str, *, at: int = 1, after: bool = False, die: Callable[[], None] | None = None
    ) -> None:
        self._inner = inner
        self._method = method
        self._at = at
        self._after = after
        self._die = die or self._raise
        self._calls = 0

    @staticmethod
    def _raise() -> None:
        raise Died

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._counted(found) if name == self._method else found

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self._calls += 1
            if self._calls == self._at and not self._after:
                self._die()
            result = await method(*args, **kwargs)
            if self._calls == self._at and self._after:
                self._die()
            return result

        return call
