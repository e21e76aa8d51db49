"""Awaiting a filter so that it can be told why it is interrupted.

asyncio can only cancel; a filter that took too long must see `AckTimeout` where it waits. So the step between the
event loop and the filter's own await is ours: a cancellation that we asked for is thrown into the filter as the error
that was meant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Interruptible(Awaitable[T]):
    """Awaits `inner`. `enter` and `leave` are called around every step in which the inner code has the thread;

    `translate` gets each CancelledError and returns what the inner code shall see instead.
    """

    def __init__(
        self,
        inner: Awaitable[T],
        enter: Callable[[], None],
        leave: Callable[[], None],
        translate: Callable[[asyncio.CancelledError], BaseException],
    ) -> None:
        self._inner = inner
        self._enter = enter
        self._leave = leave
        self._translate = translate

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._inner.__await__()
        resume: Callable[[], Any] = lambda: next(steps)  # noqa: E731
        while True:
            self._enter()
            try:
                waited_for = resume()
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self._leave()
            try:
                sent = yield waited_for
            except asyncio.CancelledError as cancelled:
                resume = _throw(steps, self._translate(cancelled))
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # what it waited for failed: for the inner code to catch
                resume = _throw(steps, error)
            else:
                resume = _send(steps, sent)


def _send(steps: Generator[Any, Any, Any], value: Any) -> Callable[[], Any]:
    if value is None:
        return lambda: next(steps)
    return lambda: steps.send(value)


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)
