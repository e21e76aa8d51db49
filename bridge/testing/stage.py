"""The stage that a filter is tried on: the runner of the program, on a thread with an event loop of its own.

The test asks from another thread, and has its answer when nothing will happen any more by itself. The time passes only
while an event is held, or where the test lets it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from math import inf
from typing import Any, Final, Literal

from bridge.core.model import Meta
from bridge.core.seat import Seat, Ticket
from bridge.core.window import Verdict
from bridge.runtime.rows import Source
from bridge.runtime.runner import PROGRAM_ENDS, Runner, WatcherSpec
from bridge.testing.clock import JumpingLoop
from bridge.triggers import BaseEventTrigger, TriggerEvent

_TICK: Final = 0.125  # exact as a float: with round delays, times stay round
_LAST_TURNS: Final = 20  # of the loop, for tasks that the filter left behind and that are cancelled
_OVER: Final = "the test is over"
_left: list[Stage] = []  # whose filters would not end: to destroy a task that runs disturbs whoever comes next


class Stage:
    """One filter. `began` is the wall clock's time at the beginning, in seconds since 1970."""

    def __init__(self, spec: WatcherSpec, stream: str, meta_of: Callable[[Any], Meta], began: float) -> None:
        self.spec = spec
        self.loop = JumpingLoop(self._rested)
        self.verdict: Verdict | None = None
        self.yielded: list[Any] = []  # in the window that was open last
        self.ignored: list[Any] = []  # outside of any
        self.errors: list[BaseException] = []  # that left the filter since the last event was given
        self.trouble = ""  # why the watcher is down
        self.generator: object = None
        self._began = began - self.loop.time()
        self._asked: Future[None] | None = None
        self._last = Future[None]()
        self._last.set_result(None)
        self._ticking: asyncio.Task[None] | None = None
        source = Source(stream, stream, lambda payload: str(payload.identity), meta_of)
        self._runner = Runner(spec, Seat(spec.plan), source, self, lambda: 0.0, self.now)
        self._thread = threading.Thread(target=self._serve, name="trigger-test", daemon=True)

    def now(self) -> float:
        return self._began + self.loop.time()

    # Asked by the test ------------------------------------------------------------------------------------------------

    def start(self) -> Future[None]:
        self._thread.start()
        return self._ask(self._runner.start)

    def give(self, ticket: Ticket) -> Future[None]:
        return self._ask(lambda: self._give(ticket))

    def advance(self, seconds: float) -> Future[None]:
        if seconds < 0:
            raise ValueError(f"the time can't go back by {-seconds:g} s")

        def let_pass() -> None:
            self.errors.clear()
            self.loop.limit = self.loop.time() + seconds

        return self._ask(let_pass)

    def close(self) -> Future[None]:
        return self._ask(self._close)

    @property
    def has_ended(self) -> bool:
        return self._runner.task is None or self._runner.task.done()

    @property
    def place(self) -> str:
        """Where the filter is in its code, if that can be told."""
        frame = getattr(self.generator, "ag_frame", None)
        return f", at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""

    def leave(self) -> None:
        """It did not answer: its thread ends by itself when it comes to itself, and is not waited for."""
        self._stop()

    def join(self) -> None:
        self._stop()
        self._thread.join()

    def _stop(self) -> None:
        with suppress(RuntimeError):  # it is closed already
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _ask(self, what: Callable[[], None]) -> Future[None]:
        """What to do on the loop; done when the loop has nothing to do any more."""
        if not self._last.done():
            raise RuntimeError("one thing at a time: await what was asked before")
        asked = self._last = Future[None]()

        def begin() -> None:
            self._asked = asked
            what()

        self.loop.call_soon_threadsafe(begin)
        return asked

    # On the loop ------------------------------------------------------------------------------------------------------

    def _rested(self) -> None:
        asked, self._asked = self._asked, None
        if asked is not None:
            with suppress(InvalidStateError):  # the test does not wait any more
                asked.set_result(None)

    def _give(self, ticket: Ticket) -> None:
        self.verdict, self.yielded = None, []
        self.errors.clear()
        self.loop.limit = inf
        self._ticking = self.loop.create_task(self._tick())
        self._runner.give([ticket])

    async def _tick(self) -> None:
        """Bounds the time for which an event is held, as the watchers' thread does."""
        while True:
            await asyncio.sleep(_TICK)
            self._runner.tick(self.loop.time(), 0.0)

    def _close(self) -> None:
        self.loop.limit = inf
        if self._runner.task is not None:
            self._runner.task.add_done_callback(lambda _: self.loop.freeze())
        self._runner.close(_OVER)

    def _answered(self) -> None:
        self.loop.freeze()
        if self._ticking is not None:
            self._ticking.cancel()

    # What the runner reports ------------------------------------------------------------------------------------------

    def verdicts(self, runner: Runner, verdicts: list[tuple[Ticket, Verdict]]) -> None:
        for _, verdict in verdicts:
            self.verdict = verdict
        self._answered()

    def state(self, runner: Runner, state: Literal["up", "down"], trouble: str) -> None:
        if state == "down":
            self.trouble = trouble
            self._answered()

    def hold(self, runner: Runner | None) -> None:
        """One watcher has a thread to itself here."""

    def note_yield(self, event: object) -> None:
        payload = getattr(event, "payload", event)
        (self.ignored if self._runner.ticket is None else self.yielded).append(payload)

    # The thread -------------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._has_run_to_its_end():
            pass
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(_turns())
        if asyncio.all_tasks(self.loop):
            _left.append(self)
            return
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def _has_run_to_its_end(self) -> bool:
        try:
            self.loop.run_forever()
        except PROGRAM_ENDS:  # by a task of the filter's own, which has ended by it
            return False
        return True


async def _turns() -> None:
    for _ in range(_LAST_TURNS):
        await asyncio.sleep(0)


class Overheard(BaseEventTrigger):
    """Stands in for a trigger and tells the stage what its filter yields and raises. It changes neither."""

    def __init__(self, trigger: BaseEventTrigger) -> None:
        super().__init__()
        self.stage: Stage | None = None
        self._trigger = trigger

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return self._trigger.serialize()

    def run(self) -> AsyncIterator[TriggerEvent]:
        return self._trigger.run()

    def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        if self.stage is None:
            raise AssertionError("it is on no stage")
        try:
            events = self._trigger.filter_shared_stream(shared_stream)
        except BaseException as error:
            self.stage.errors.append(error)
            raise
        self.stage.generator = events
        return _Events(events, self.stage)

    async def cleanup(self) -> None:
        await self._trigger.cleanup()


class _Events(AsyncIterator[TriggerEvent]):
    def __init__(self, events: AsyncIterator[TriggerEvent], stage: Stage) -> None:
        self._events = events
        self._stage = stage

    async def __anext__(self) -> TriggerEvent:
        try:
            event = await anext(self._events)
        except StopAsyncIteration:
            raise
        except BaseException as error:
            self._stage.errors.append(error)
            raise
        self._stage.note_yield(event)
        return event

    async def aclose(self) -> None:
        aclose = getattr(self._events, "aclose", None)
        if aclose is not None:
            await aclose()
