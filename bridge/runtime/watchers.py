"""Python watchers, on a second event loop in a thread of its own.

Blocking or heavy user code never stops polls, commits and heartbeats, which live on the main loop. Hand-over is by
batch in both directions. A thread whose code holds it for longer than that watcher's `ack_timeout` is left behind: the
try has failed, a new thread takes the other watchers, and their tries are abandoned.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Literal, Protocol

import structlog

from bridge.core.seat import Seat, Ticket
from bridge.core.window import Verdict
from bridge.runtime.rows import Source
from bridge.runtime.runner import CLOSING, PROGRAM_ENDS, Runner, WatcherSpec

log = structlog.get_logger("headrace.watchers")

TICK = 0.1
"""Seconds between two looks at who holds what."""

LAGGING = 1.0
"""Seconds without a turn of the watchers' loop after which the watcher that holds it is named."""

MOST_LEFT_BEHIND = 3
"""Threads that may be left behind before the process gives up (exit code 70)."""


class Front(Protocol):
    """The group of a watcher, told on the main loop."""

    def on_verdicts(self, seat: Seat, verdicts: list[tuple[Ticket, Verdict]]) -> None: ...
    def on_state(self, seat: Seat, is_up: bool, trouble: str) -> None: ...
    def on_left_behind(self, seat: Seat, held: Ticket | None) -> None:
        """Its thread is gone: `held` is the try that held it, for the watcher that did; all others are void."""
        ...


class Desk:
    """What the main loop knows of one Python watcher."""

    def __init__(self, spec: WatcherSpec, seat: Seat, source: Source, front: Front) -> None:
        self.spec = spec
        self.seat = seat
        self.source = source
        self.front = front
        self.runner: Runner | None = None
        self.is_up = False
        self.trouble = "starting"


class Watchers:
    """All Python watchers of the process. Called on the main loop."""

    def __init__(self, roll: Callable[[], float], exhausted: Callable[[], None]) -> None:
        self.lag = 0.0
        self.left_behind = 0
        self._roll = roll
        self._exhausted = exhausted
        self._desks: dict[Seat, Desk] = {}
        self._thread: WatcherThread | None = None
        self._warned = False

    def open(self, spec: WatcherSpec, seat: Seat, source: Source, front: Front) -> None:
        """Starts the watcher; it reports to `front`."""
        desk = self._desks[seat] = Desk(spec, seat, source, front)
        self._start(desk)

    def _start(self, desk: Desk) -> None:
        if self._thread is None:
            self._thread = WatcherThread(asyncio.get_running_loop(), self)
        desk.runner = Runner(desk.spec, desk.seat, desk.source, self._thread, self._roll)
        self._thread.add(desk.runner)

    def is_up(self, seat: Seat) -> bool:
        desk = self._desks.get(seat)
        return desk is not None and desk.is_up

    def trouble(self, seat: Seat) -> str:
        desk = self._desks.get(seat)
        return desk.trouble if desk is not None else "not running"

    def give(self, seat: Seat, tickets: list[Ticket]) -> None:
        self._tell(seat, lambda runner: runner.give(tickets))

    def recall(self, seat: Seat) -> None:
        self._tell(seat, lambda runner: runner.recall())

    def _tell(self, seat: Seat, what: Callable[[Runner], None]) -> None:
        desk = self._desks.get(seat)
        if desk is not None and desk.runner is not None and self._thread is not None:
            self._thread.call(what, desk.runner)

    async def close(self, seat: Seat, reason: str) -> None:
        """Ends the watcher within its bound; its tries must have been abandoned before."""
        desk = self._desks.pop(seat, None)
        if desk is not None and desk.runner is not None and self._thread is not None:
            await self._thread.remove(desk.runner, reason)

    def stop(self) -> None:
        """The end of the process: the thread is told to end and not waited for."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    # Reports, on the main loop ----------------------------------------------------------------------------------------

    def on_verdicts(self, runner: Runner, verdicts: list[tuple[Ticket, Verdict]]) -> None:
        desk = self._desks.get(runner.seat)
        if desk is not None and desk.runner is runner:
            desk.front.on_verdicts(desk.seat, verdicts)

    def on_state(self, runner: Runner, state: Literal["up", "down"], trouble: str) -> None:
        desk = self._desks.get(runner.seat)
        if desk is not None and desk.runner is runner:
            desk.is_up, desk.trouble = state == "up", trouble
            desk.front.on_state(desk.seat, desk.is_up, trouble)

    async def watch(self) -> None:
        """Looks after the thread until cancelled."""
        while True:
            await asyncio.sleep(TICK)
            self.look(time.monotonic())

    def look(self, now: float) -> None:
        """Names a watcher that holds the thread, and leaves the thread behind when it holds it too long."""
        thread = self._thread
        if thread is None:
            return
        self.lag = max(0.0, now - thread.beat - TICK)
        holder = thread.holder
        if self.lag < LAGGING or holder is None:
            self._warned = False
            return
        if not self._warned:
            self._warned = True
            log.warning("watcher blocks the others", watcher=holder.id, lag=round(self.lag, 1))
        if self.lag > holder.spec.ack_timeout:
            self._leave_behind(thread, holder)

    def _leave_behind(self, thread: WatcherThread, holder: Runner) -> None:
        self.left_behind += 1
        self._warned = False
        self._thread = None
        held = holder.ticket
        log.error(
            "thread left behind: code held it past ack_timeout",
            watcher=holder.id,
            ack_timeout=holder.spec.ack_timeout,
            left_behind=self.left_behind,
            stack=thread.stack(),
        )
        thread.abandon()
        if untold := holder.untold():
            self.on_verdicts(holder, untold)
        is_over = self.left_behind > MOST_LEFT_BEHIND
        for desk in list(self._desks.values()):
            mine = desk.runner is holder
            desk.is_up = False
            if not is_over:
                self._start(desk)
            desk.front.on_left_behind(desk.seat, held if mine else None)  # a failed try is written in any case
        if is_over:
            self._exhausted()


class WatcherThread:
    """One thread with an event loop. Implements `Office` for its runners; `beat` and `holder` are read from outside."""

    def __init__(self, main: asyncio.AbstractEventLoop, watchers: Watchers) -> None:
        self.beat = time.monotonic()
        self.holder: Runner | None = None
        self._main = main
        self._watchers = watchers
        self._runners: list[Runner] = []
        self._is_dead = False
        self._loop = asyncio.new_event_loop()
        self._culprit: Runner | None = None
        self._thread = threading.Thread(target=self._serve, name="watchers", daemon=True)
        self._thread.start()

    # From the main loop -----------------------------------------------------------------------------------------------

    def add(self, runner: Runner) -> None:
        self.call(self._begin, runner)

    def call(self, what: Callable[[Runner], None], runner: Runner) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(what, runner)

    async def remove(self, runner: Runner, reason: str) -> None:
        """Closes a runner; a filter that does not end within its bound is left to itself."""
        done: Future[None] = Future()

        def close(runner: Runner) -> None:
            runner.close(reason)
            task = runner.task
            if task is None:
                done.set_result(None)
            else:
                task.add_done_callback(lambda _: done.set_result(None))
            if runner in self._runners:
                self._runners.remove(runner)

        self.call(close, runner)
        try:
            await asyncio.wait_for(asyncio.wrap_future(done), 2 * CLOSING)
        except TimeoutError:
            runner.is_dead = True
            log.warning("watcher did not end in time", watcher=runner.id)

    def abandon(self) -> None:
        """Nothing that still comes from here counts."""
        self._is_dead = True
        for runner in self._runners:
            runner.is_dead = True

    def stop(self) -> None:
        self.abandon()
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)

    def stack(self) -> str:
        """Where its code is right now."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)[-8:]) if frame is not None else ""

    # On the thread ----------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        ticker = self._loop.create_task(self._tick())
        try:
            while not self._has_run_to_its_end():
                pass
        finally:
            left = [ticker, *(t for t in asyncio.all_tasks(self._loop) if t is not ticker)]
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.wait(left, timeout=1.0))
            self._loop.close()

    def _has_run_to_its_end(self) -> bool:
        """False: a task that a watcher made has called sys.exit(), which ends that task and nothing else."""
        try:
            self._loop.run_forever()
        except PROGRAM_ENDS as error:
            log.error("code of a watcher tried to end the program", error=repr(error))
            return False
        return True

    async def _tick(self) -> None:
        """Time in which the loop made no turn is charged to nobody but the code that held it."""
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            late = max(0.0, now - self.beat - TICK)
            self.beat = now
            culprit, self._culprit = self._culprit, None
            for runner in self._runners:
                runner.tick(now, 0.0 if runner is culprit else late)

    def _begin(self, runner: Runner) -> None:
        self._runners.append(runner)
        runner.start()

    def hold(self, runner: Runner | None) -> None:
        if runner is None:
            self._culprit = self.holder
        self.holder = runner

    def verdicts(self, runner: Runner, verdicts: list[tuple[Ticket, Verdict]]) -> None:
        self._report(self._watchers.on_verdicts, runner, verdicts)

    def state(self, runner: Runner, state: Literal["up", "down"], trouble: str) -> None:
        self._report(self._watchers.on_state, runner, state, trouble)

    def _report(self, what: Callable[..., None], *args: Any) -> None:
        if not self._is_dead and not self._main.is_closed():
            self._main.call_soon_threadsafe(what, *args)
