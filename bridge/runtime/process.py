"""The process: streams, store, watchers and dispatcher from start to a stop within one deadline.

A stop has one deadline, cut into a share for each step; a step that is done early leaves its time to those after it:

    60 %  streams: no more polls and tries, what is resolved is advanced, the rest goes back to the broker;
          relays beside them: the batch under way ends, no new one begins
    25 %  dispatcher: launches in flight end, no new ones begin
    15 %  the last commits, then the store is closed with a clean end
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import structlog
from msgspec import Struct

from bridge.core.errors import Refused, StartRefused, StoreUnavailable
from bridge.ports import Clock, ClosedRow, Intent, Store
from bridge.runtime.dispatcher import Dispatcher
from bridge.runtime.persister import Persister
from bridge.runtime.relay import Relaying
from bridge.runtime.supervisor import Services, StreamSpec, StreamSupervisor
from bridge.runtime.suspicion import SECONDS, Suspicion
from bridge.runtime.watchers import Watchers

log = structlog.get_logger("headrace.process")

EXIT_OK: Final = 0
ONE_SIGNAL: Final = 0.5
"""Seconds in which two signals are one: `timeout` sends its own to the process, and then to the group that it is in."""
EXIT_REFUSED: Final = 3
"""A stream can't begin: `Process.refusal` says why."""
EXIT_UNFINISHED: Final = 4
"""The stop's deadline ran out: nothing is lost, some work comes again."""
EXIT_WATCHERS: Final = 70
"""Too many threads were left behind by code that held them."""

LAG_EVERY: Final = 0.5
PRUNE_EVERY: Final = 3600.0
INTENTS_EVERY: Final = 0.5

RELAYS_OPEN_MOST: Final = 10.0
RELAYS_CLOSE_MOST: Final = 4.0
"""Seconds that the start waits for the places of dead letters, and a start that is refused for their clients to end."""


class ProcessSpec(Struct, frozen=True, eq=False):
    """`stop_timeout`, `heartbeat` and `suspect_for` (suspect mode lasts at most so long) in seconds.

    `disabled` are ids of watchers that somebody disabled earlier.
    """

    streams: Sequence[StreamSpec]
    disabled: frozenset[str]
    heartbeat: float
    stop_timeout: float
    suspect_for: float = SECONDS


class Process:
    """See the head of the file."""

    def __init__(
        self,
        spec: ProcessSpec,
        store: Store,
        persister: Persister,
        dispatcher: Dispatcher,
        clock: Clock,
        roll: Callable[[], float],
        stopping: asyncio.Event | None = None,
    ) -> None:
        """`stopping` is set by whoever wants it to stop; it may be set before it runs."""
        self.spec = spec
        self.loop_lag = 0.0
        self._store = store
        self._persister = persister
        self._dispatcher = dispatcher
        self._clock = clock
        self._stopping = stopping or asyncio.Event()
        self._exit_code = EXIT_OK
        self.refusal: Refused | None = None
        """Why a stream could not begin; the process has stopped for it."""
        self.watchers = Watchers(roll, self._exhausted)
        events = sum(s.limits.max_outstanding * len(s.watchers) for s in spec.streams)
        self.suspicion = Suspicion(events if store.was_killed else 0, spec.suspect_for)
        self.suspicion.tell(self._close_opened)
        services = Services(store, persister, self.watchers, clock, roll, self._runs_stored, self.suspicion)
        self.streams = [StreamSupervisor(s, services, spec.disabled) for s in spec.streams]
        self.relays = {
            s.name: Relaying(s.name, s.relay, store, persister, clock, roll)
            for s in spec.streams
            if s.relay is not None
        }
        persister.letters_stored = self._letters_stored
        self._began = clock.monotonic()

    def request_stop(self) -> None:
        """Begins the stop; called again it changes nothing."""
        self._stopping.set()

    async def open_relays(self) -> None:
        """Once, before `run`. Raises Refused with a line for each stream whose dead letters have nowhere to go."""
        opened = await asyncio.gather(
            *(relay.open_first(RELAYS_OPEN_MOST) for relay in self.relays.values()), return_exceptions=True
        )
        problems = [error for error in opened if error is not None]
        if problems:
            await asyncio.gather(*(relay.stop(RELAYS_CLOSE_MOST) for relay in self.relays.values()))
            raise Refused("\n".join(map(str, problems)))

    async def run(self) -> int:
        """Until `request_stop`, or until it can't go on. Returns the exit code."""
        self.suspicion.begin()
        persisting = asyncio.create_task(self._persister.run(), name="persister")
        dispatching = asyncio.create_task(self._dispatcher.run(), name="dispatcher")
        keeping = [
            asyncio.create_task(work, name=name)
            for name, work in {
                "watch": self.watchers.watch(),
                "lag": self._measure_lag(),
                "heartbeat": self._every(self.spec.heartbeat, self._beat),
                "intents": self._every(INTENTS_EVERY, self._take_intents),
                "prune": self._every(PRUNE_EVERY, self._prune),
            }.items()
        ]
        polling = [asyncio.create_task(s.run(), name=f"stream[{s.spec.name}]") for s in self.streams]
        relaying = [asyncio.create_task(r.run(), name=f"relay[{name}]") for name, r in self.relays.items()]
        essential = [persisting, dispatching, *keeping, *polling, *relaying]
        stop = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait([stop, *essential], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {stop}:
            self._note_end(task)
        stop.cancel()
        await self._stop(polling, dispatching, keeping, persisting)
        return self._exit_code

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        """A task that was to run until the stop has ended: a stream that can't begin, or a defect."""
        error = task.exception()
        if isinstance(error, StartRefused):
            name = next(s.spec.name for s in self.streams if f"stream[{s.spec.name}]" == task.get_name())
            self.refusal = Refused(f"stream {name!r} can't begin: {error}")
            self._exit_code = EXIT_REFUSED
            return
        log.error("a part of the process ended by itself", part=task.get_name(), error=repr(error))
        self._exit_code = self._exit_code or 1

    async def _stop(
        self,
        polling: Sequence[asyncio.Task[None]],
        dispatching: asyncio.Task[None],
        keeping: Sequence[asyncio.Task[None]],
        persisting: asyncio.Task[None],
    ) -> None:
        ends_at = self._clock.monotonic() + self.spec.stop_timeout
        log.info("stopping", timeout=self.spec.stop_timeout)

        def share(part: float) -> float:
            return max(0.1, (ends_at - self._clock.monotonic()) * part)

        for task in polling:
            task.cancel()
        await _gone(polling, share(0.2))
        finishing = asyncio.gather(*(s.stop(share(0.6)) for s in self.streams))
        finished, _ = await asyncio.gather(finishing, self._stop_relays(share(0.6)))
        await self._dispatcher.stop(share(0.625))
        dispatching.cancel()
        for task in keeping:
            task.cancel()
        await _gone([dispatching, *keeping], share(0.2))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._persister.drained(), share(0.6))
        clean = all(finished) and self._persister.is_idle
        if clean:
            await self._beat_last(share(0.3))
        persisting.cancel()
        self.watchers.stop()
        with suppress(StoreUnavailable, TimeoutError):
            await asyncio.wait_for(self._store.aclose(clean=clean), share(1.0))
        if not clean:
            log.warning("stopped before everything was settled: it comes again")
            self._exit_code = self._exit_code or EXIT_UNFINISHED
        log.info("stopped", exit_code=self._exit_code)

    async def _stop_relays(self, within: float) -> None:
        await asyncio.gather(*(relay.stop(within) for relay in self.relays.values()))

    async def _beat_last(self, within: float) -> None:
        """How far the streams have come by now, for a store that is restored from a copy one day."""
        with suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(within):
                await self._beat()

    def _exhausted(self) -> None:
        self._exit_code = EXIT_WATCHERS
        self._stopping.set()

    def _runs_stored(self, targets: Iterable[str]) -> None:
        for target in targets:
            self._dispatcher.wake(target)

    def _letters_stored(self) -> None:
        for relay in self.relays.values():
            relay.wake()

    def _close_opened(self) -> None:
        """Many events may be open from now on, and what the process dies of is not known any more."""
        self._persister.submit([ClosedRow()], lambda _: None)

    # Regular work -----------------------------------------------------------------------------------------------------

    async def _every(self, seconds: float, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Again and again; a store that is away makes it wait for its next turn, which is said once."""
        was_away = False
        while True:
            try:
                await work()
                was_away = False
            except StoreUnavailable as error:
                if not was_away:
                    log.warning("skipped while the store is away", work=work.__name__.strip("_"), reason=str(error))
                was_away = True
            await self._clock.sleep(seconds)

    async def _measure_lag(self) -> None:
        while True:
            before = self._clock.monotonic()
            await self._clock.sleep(LAG_EVERY)
            self.loop_lag = max(0.0, self._clock.monotonic() - before - LAG_EVERY)
            if self.loop_lag > 1.0:
                log.warning("the main loop stood still", lag=round(self.loop_lag, 2))

    async def _beat(self) -> None:
        places = {stream.spec.name: told for stream in self.streams if (told := stream.places())}
        await self._store.heartbeat(msgspec.json.encode(self.status()), places)

    async def _prune(self) -> None:
        """In bounded steps, with room for commits between them, until nothing is left to forget."""
        while removed := await self._store.prune():
            log.info("pruned", rows=removed)
            await self._clock.sleep(1.0)

    async def _take_intents(self) -> None:
        for intent in await self._store.take_intents():
            self._act_on(intent)
        for stream in self.streams:
            await stream.replay()

    def _act_on(self, intent: Intent) -> None:
        log.info("intent", kind=intent.kind, watcher=intent.watcher)
        for stream in self.streams:
            if intent.kind == "disable":
                stream.disable(intent.watcher)
            elif intent.kind == "enable":
                stream.enable(intent.watcher)

    # For people -------------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, object]:
        """What an instance tells of itself with each heartbeat."""
        now = self._clock.monotonic()
        streams = {s.spec.name: dict(s.status(now)) for s in self.streams}
        for name, relay in self.relays.items():
            streams[name]["relay"] = relay.status()
        return {
            "uptime": round(now - self._began, 1),
            "heartbeat": self.spec.heartbeat,
            "healthy": self._persister.trouble is None and all(s["trouble"] is None for s in streams.values()),
            "store": {
                "trouble": self._persister.trouble,
                "commits": self._persister.commits,
                "rows": self._persister.rows,
            },
            "loop_lag": round(self.loop_lag, 3),
            "watcher_lag": round(self.watchers.lag, 3),
            "left_behind": self.watchers.left_behind,
            "suspect": self.suspicion.status(),
            "streams": streams,
            "targets": self._dispatcher.snapshot(),
        }


async def _gone(tasks: Sequence[asyncio.Task[Any]], seconds: float) -> None:
    """Waits for cancelled tasks, at most so long."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), seconds)


def stop_on_signals(abort: Callable[[int], None]) -> asyncio.Event:
    """SIGTERM and SIGINT set the event, for a graceful stop; a second one of either ends the process at once."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    first = 0.0

    def on_signal(number: int) -> None:
        nonlocal first
        if not stopping.is_set():
            first = loop.time()
            log.info("signal", signal=signal.Signals(number).name)
            stopping.set()
        elif loop.time() - first > ONE_SIGNAL:
            abort(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stopping


def tune_interpreter() -> None:
    """Rarer passes of the garbage collector, none over what is here to stay, and quicker turns between the threads.

    A full pass stops the loop for as long as there are objects. What is outstanding is bounded, and almost all of it
    dies by its reference count. A thread that computes keeps the others waiting for one switch interval each time
    that they want to go on: the store's thread asks once for every row, the main loop after every wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    sys.setswitchinterval(0.0005)
