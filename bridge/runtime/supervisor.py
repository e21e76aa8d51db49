"""One stream, for as long as the process lives: lives of its group, one after the other, with growing delays between.

A life ends when the producer fails, when it ends its stream, or when the broker can't be told. Nothing is settled past
that, so the broker delivers again what was outstanding; what was stored is recognised by its run key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from heapq import nlargest
from typing import Literal

import msgspec
import structlog
from msgspec import Struct

from bridge.core.commands import Limits
from bridge.core.errors import HeadraceError, StartRefused, Transient
from bridge.core.model import Outcome
from bridge.core.retry import Backoff
from bridge.core.seat import Seat
from bridge.decode.decoder import Decoder
from bridge.ports import Clock, Committer, Producer, Relay, Router, Store
from bridge.runtime.accounts import Meant, Places, give_ledger, places_of, report_of
from bridge.runtime.group import GroupShell, Life
from bridge.runtime.history import History
from bridge.runtime.persister import everything_written
from bridge.runtime.rows import Source
from bridge.runtime.runner import CLOSING, WatcherSpec
from bridge.runtime.schemas import SchemaTeacher
from bridge.runtime.suspicion import Suspicion
from bridge.runtime.watchers import Watchers
from bridge.shared_stream import has_identity

log = structlog.get_logger("headrace.stream")

SOUND = 60.0
"""Seconds after which a life counts as a success: the next failure begins with the shortest delay again."""

STARTING = 60.0
"""Seconds of the process in which a stream that refuses to begin ends it. Later it is in trouble, and others go on."""

MOST_TOLD = 200
"""Watchers whose outcomes the status row holds: it is written with each heartbeat."""

REPLAYS_WAIT = 1.0
BRIEFLY = 0.01
"""Seconds that the replays of one turn wait for schemas, all of them together, and then each that is left. What people
ask for comes in the same turns, and answers that come later are there in the next."""

COUNTED = ("received", "unmatched", "faults", "settled", "unsettled", "dropped", "stale", "joined", "expired")
"""What is counted of a stream, over all its lives: `bridge.core.commands.Tally`."""


class StreamSpec(Struct, frozen=True, eq=False):
    """What a stream is made of, as the composition root knows it.

    `router` is given the ids of the watchers that are disabled now, and called once; `source` is the part of run keys
    that says where messages come from. `relay` copies its dead letters; `meant` is what a person said at this start.
    """

    name: str
    key: str
    source: str
    producer: Callable[[], Producer]
    router: Callable[[frozenset[str]], Router]
    watchers: tuple[WatcherSpec, ...]
    declared: tuple[str, ...]
    limits: Limits
    cohort_grace_period: float = 0.0
    restart: Backoff = Backoff(delay=1.0, factor=2.0, max=60.0, jitter=0.5)
    stalled_after: float = 60.0
    decoder: Decoder | None = None
    teacher: SchemaTeacher | None = None
    relay: Relay | None = None
    meant: Meant = Meant()


class Services(Struct, frozen=True, eq=False):
    """What all streams of a process share."""

    store: Store
    committer: Committer
    watchers: Watchers
    clock: Clock
    roll: Callable[[], float]
    runs_stored: Callable[[Iterable[str]], None]
    suspicion: Suspicion = msgspec.field(default_factory=Suspicion)


class StreamSupervisor:
    """See the head of the file. `run` until it is cancelled or raises StartRefused, then `stop`."""

    def __init__(self, spec: StreamSpec, services: Services, disabled: Iterable[str] = ()) -> None:
        self.spec = spec
        self.shell: GroupShell | None = None
        self.failures = 0
        self.state: Literal["starting", "running", "waiting", "idle", "stopped"] = "starting"
        self.trouble: str | None = None
        self._trouble_before: str | None = None
        self._services = services
        self._disabled = set(disabled)
        self._seats: list[Seat] = []
        self._changed = asyncio.Event()
        self._announced = False
        self._counts_before: Counter[str] = Counter()
        self._derived_before: Counter[str] = Counter()
        self._router: Router | None = None  # outlives the lives of the group, and keeps what it counts
        self._former: GroupShell | None = None  # whose thread may still have the router
        self._places_before: Places = {}

    async def run(self) -> None:
        """Lives of the group, until cancelled."""
        since = self._services.clock.monotonic()
        while True:
            if not self._has_audience:
                self.state = "idle"
                self._changed.clear()
                await self._changed.wait()
                continue
            began = self._services.clock.monotonic()
            try:
                await self._live()
            except StartRefused as error:
                if not self._has_begun and began - since <= STARTING:
                    raise  # only a person can help, and is there: the process has just been started
                await self._ended(error, began)
            except Exception as error:
                if self._has_audience:
                    await self._ended(error, began)
                else:
                    await self._end_life(drain=5.0, close=5.0)

    async def _ended(self, error: Exception, began: float) -> None:
        now = self._services.clock.monotonic()
        self.failures = 1 if now - began > SOUND else self.failures + 1
        self.trouble = f"{type(error).__name__}: {error}"
        self.state = "waiting"
        delay = self.spec.restart.after(self.failures, self._services.roll())
        if isinstance(error, Transient) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        log.error(
            "stream failed, started again later",
            stream=self.spec.name,
            error=self.trouble,
            delay=round(delay, 2),
            exc_info=None if isinstance(error, HeadraceError) else error,  # a defect, ours or the producer's
        )
        await self._end_life(drain=1.0, close=5.0)
        await self._services.clock.sleep(delay)

    @property
    def _has_begun(self) -> bool:
        """It was open in this process before: what is refused now came up while others ran."""
        received = self._counts_before["received"] + (self.shell.core.tally.received if self.shell is not None else 0)
        return bool(received or self.places())

    @property
    def _has_audience(self) -> bool:
        ids = {*self.spec.declared, *(w.plan.watcher for w in self.spec.watchers)}
        return bool(ids - self._disabled)

    async def _live(self) -> None:
        spec, services = self.spec, self._services
        if self._former is not None:
            await self._former.routing.freed()
            await everything_written(self._services.committer)
            self._former = None
        source = await self._source()
        shell = self.shell = GroupShell(*source)
        for seat in self._seats:
            watcher = next(w for w in spec.watchers if w.plan is seat.plan)
            services.watchers.open(watcher, seat, shell.life.source, shell.front)
        await self._cohort()
        if not self._announced:
            self._announced = True
            log.info(f"Shared stream group started key={spec.key}", stream=spec.name)
        self.state = "running"
        self._trouble_before, self.trouble = self.trouble, None
        await shell.run()

    async def _source(self) -> tuple[Life, list[Seat], History]:
        """A fresh producer, and what an earlier life left behind."""
        spec, services = self.spec, self._services
        attempts = await services.store.attempts(spec.source)
        producer = spec.producer()
        await give_ledger(producer, services.store, spec.name, self._meant)
        can_tell = has_identity(producer)
        identity, relays = producer.identity if can_tell else None, spec.relay is not None
        source = Source(spec.name, spec.source, identity, producer.describe, relays)
        if not can_tell and not self._announced:
            log.warning("messages have no identity, a redelivery is a second run", stream=spec.name)
        if self._router is None:
            self._router = spec.router(frozenset(self._disabled))
        self._seats = [Seat(w.plan) for w in spec.watchers if w.plan.watcher not in self._disabled]
        life = Life(
            stream=spec.name,
            producer=producer,
            router=self._router,
            source=source,
            limits=spec.limits,
            committer=services.committer,
            watchers=services.watchers,
            clock=services.clock,
            roll=services.roll,
            runs_stored=services.runs_stored,
            decoder=spec.decoder,
            teacher=spec.teacher,
            suspicion=services.suspicion,
        )
        return life, self._seats, History(source, attempts if can_tell else {})

    @property
    def _meant(self) -> Meant:
        """Back to the places only until a message has come: from then on it would go back over its own work.

        That another store's broker is meant holds as long as the process: a lane may be quiet for more than one life.
        """
        return Meant(self.spec.meant.rewind and not self._counts_before["received"], self.spec.meant.accept)

    async def _cohort(self) -> None:
        """The first poll waits for the watchers, at most for the grace period, and only ever the first."""
        grace = 0.0 if self._announced else self.spec.cohort_grace_period
        waited = 0.0
        while (late := self._late) and waited < grace:
            await self._services.clock.sleep(0.05)
            waited += 0.05
        if grace and late:
            log.warning("polling begins without these watchers", stream=self.spec.name, late=late)

    @property
    def _late(self) -> list[str]:
        return [seat.id for seat in self._seats if not self._services.watchers.is_up(seat)]

    # The end ----------------------------------------------------------------------------------------------------------

    async def stop(self, deadline: float) -> bool:
        """After `run` was cancelled: advances what is resolved, gives the rest back. False: the time was not enough."""
        ended = await self._end_life(drain=deadline * 0.6, close=deadline * 0.4, within=deadline)
        if self.spec.teacher is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    await self.spec.teacher.aclose()
        self.state = "stopped"
        return ended

    async def _end_life(self, *, drain: float, close: float, within: float = 0.0) -> bool:
        """`close` is what closing has in any case; of `within` it may take all that is left."""
        ends_at = self._services.clock.monotonic() + within
        shell, self.shell = self.shell, None
        if shell is None:
            return True
        self._former = shell
        ended = await shell.drain(drain)
        self._places_before = places_of(shell.life.producer, self.spec.name) or self._places_before
        self._counts_before += _counts_of(shell)
        self._derived_before += _derived_of(shell)
        reason = self.trouble or "the stream stops"
        closing = [self._services.watchers.close(seat, reason) for seat in self._seats]
        self._seats = []
        with suppress(TimeoutError):
            async with asyncio.timeout(close / 2):
                await asyncio.gather(*closing)
        await shell.close(max(close / 2, ends_at - self._services.clock.monotonic()))
        return ended

    # Intents ----------------------------------------------------------------------------------------------------------

    def disable(self, watcher: str) -> None:
        """It owes nothing any more; what it owed becomes dead letters, replayable."""
        if watcher in self._disabled or not self.knows(watcher):
            return
        self._disabled.add(watcher)
        self._change(watcher, lambda router: router.disable(watcher))
        if self.shell is None:
            return
        for seat in self._seats:
            if seat.id == watcher:
                self.shell.expel(seat, "watcher_unavailable")
        if not self._has_audience:
            self.shell.fail(Transient("no watcher is enabled"))

    def enable(self, watcher: str) -> None:
        """It owes polls from now on."""
        if watcher not in self._disabled or not self.knows(watcher):
            return
        self._disabled.discard(watcher)
        self._changed.set()
        self._change(watcher, lambda router: router.enable(watcher))
        shell = self.shell
        if shell is None:
            return
        for spec in self.spec.watchers:
            if spec.plan.watcher != watcher:
                continue
            if watcher in shell.core.seats:  # disabled a moment ago, and what it owed is not durable yet
                shell.fail(Transient(f"watcher {watcher!r} is enabled again while it is still leaving"))
            else:
                seat = Seat(spec.plan)
                self._seats.append(seat)
                shell.core.join(seat)
                self._services.watchers.open(spec, seat, shell.life.source, shell.front)

    def _change(self, watcher: str, change: Callable[[Router], None]) -> None:
        """Of a declarative watcher. Between two lives the thread of the one before may have the router."""
        shell = self.shell or self._former
        if watcher not in self.spec.declared or self._router is None:
            return
        if shell is not None:
            shell.routing.change(change)
        else:
            change(self._router)

    def knows(self, watcher: str) -> bool:
        return watcher in self.spec.declared or any(w.plan.watcher == watcher for w in self.spec.watchers)

    async def replay(self) -> None:
        """Dead letters that somebody asked to have read again."""
        if self.shell is None or self.state != "running":
            return
        clock = self._services.clock
        replays = await self._services.store.replays(self.spec.name, 100, self.shell.replaying)
        ends = clock.monotonic() + REPLAYS_WAIT
        for replay in replays:
            if self.shell is not None:
                await self.shell.replay(replay, max(BRIEFLY, ends - clock.monotonic()))

    def places(self) -> Places:
        """How far the lanes are settled, as far as a producer has told; empty: what is kept stays as it is."""
        now = places_of(self.shell.life.producer, self.spec.name) if self.shell is not None else {}
        return now or self._places_before

    # For people -------------------------------------------------------------------------------------------------------

    def status(self, now: float) -> Mapping[str, object]:
        """What `headrace status` shows of this stream."""
        shell = self.shell
        report = report_of(shell.life.producer) if shell is not None else {}
        trouble = self._trouble(now) or report.get("trouble") or None
        status: dict[str, object] = {"state": self.state, "failures": self.failures, "trouble": trouble}
        if report:
            status["report"] = report
        counts = self._counts_before + (_counts_of(shell) if shell is not None else Counter())
        status |= {name: counts[name] for name in COUNTED}
        derived = self._derived_before + (_derived_of(shell) if shell is not None else Counter())
        outcomes = self._router.outcomes() if self._router is not None else {}
        status["matched"] = derived + Counter({name: outcome.matched for name, outcome in outcomes.items()})
        status["outcomes"] = _told(outcomes)
        status["ignored"] = dict(self._router.ignored) if self._router is not None else {}
        if shell is not None:
            core, oldest = shell.core, shell.core.oldest
            status |= {
                "outstanding": core.outstanding,
                "oldest": round(now - oldest, 1) if oldest is not None else None,
                "retrying": core.retrying,
                "paused": core.is_paused or core.has_paused_lanes,
                "holds": core.most_outstanding,
                "watchers": {s.id: self._watcher(s) for s in core.seats.values()},
            }
        return status

    def _watcher(self, seat: Seat) -> Mapping[str, object]:
        return {
            "up": self._services.watchers.is_up(seat),
            "trouble": self._services.watchers.trouble(seat),
            "derived": seat.derived,
            "skipped": seat.skipped,
            "rejected": seat.rejected,
            "failed_tries": seat.failures,
            "overflowed": seat.overflowed,
            "queued": len(seat.queue),
        }

    def _trouble(self, now: float) -> str | None:
        if self.state == "waiting" or self.shell is None:
            return self.trouble
        told = self.shell.trouble(now, self.spec.stalled_after)
        is_well = self.shell.is_answered or now - self.shell.began > SOUND
        return told or (None if is_well else self._trouble_before)  # it may still wait for a broker that is away


def _counts_of(shell: GroupShell) -> Counter[str]:
    return Counter({name: getattr(shell.core.tally, name) for name in COUNTED})


def _derived_of(shell: GroupShell) -> Counter[str]:
    """Run requests of Python watchers."""
    return Counter({s.id: s.derived for s in shell.core.seats.values()})


def _told(outcomes: Mapping[str, Outcome]) -> Mapping[str, object]:
    """What declarative watchers make of events beside matches: of those with most to tell, where they are many."""
    told = {name: o for name, o in outcomes.items() if o.errors or o.missing or o.rejected}
    most = nlargest(MOST_TOLD, told, key=lambda name: (told[name].errors, told[name].rejected, told[name].missing))
    return {name: msgspec.structs.asdict(told[name]) for name in most}
