"""The shell of one group, for one life of its producer: it does what the core decides, and decides nothing.

One task pulls polls, one call of the core takes each; `advancing.py` tells the broker; one timer stands at the core's
`wake_at`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from msgspec import Struct, field

from bridge.core.commands import (
    Advance,
    Command,
    GiveBack,
    Left,
    Limits,
    PauseLane,
    Persist,
    Recall,
    ResumeLane,
    StopGroup,
    Wake,
)
from bridge.core.errors import HeadraceError
from bridge.core.group import StreamGroup
from bridge.core.model import AdvanceBatch, Run
from bridge.core.seat import Binding, Seat
from bridge.decode.decoder import Decoder
from bridge.ports import (
    Clock,
    Committer,
    Lends,
    Pauses,
    Producer,
    Receipt,
    Releases,
    Replay,
    Router,
    Row,
    TakesLanes,
)
from bridge.runtime.advancing import Advancing, Said, kind_of
from bridge.runtime.handing import Handing
from bridge.runtime.history import History
from bridge.runtime.renewing import Renewing
from bridge.runtime.replaying import Replaying
from bridge.runtime.routing import Routing
from bridge.runtime.rows import Source
from bridge.runtime.schemas import SchemaTeacher
from bridge.runtime.suspicion import Suspicion
from bridge.runtime.watchers import Watchers

log = structlog.get_logger("headrace.stream")

UNBOUNDED = 1 << 30


class GroupFailed(HeadraceError):
    """The group can't go on; it is started again under supervision."""


class Life(Struct, frozen=True, eq=False):
    """What one life of a group is made of."""

    stream: str
    producer: Producer
    router: Router
    source: Source
    limits: Limits
    committer: Committer
    watchers: Watchers
    clock: Clock
    roll: Callable[[], float]
    runs_stored: Callable[[Iterable[str]], None]
    """Called with the targets that have new run requests, in the turn in which they became durable."""
    advance_timeout: float = 30.0
    decoder: Decoder | None = None
    teacher: SchemaTeacher | None = None
    """Where the decoder takes schemas that only a registry has."""
    suspicion: Suspicion = field(default_factory=Suspicion)


class GroupShell:
    """See the head of the file. `run` ends only by raising; `drain` and `close` follow, in that order."""

    def __init__(self, life: Life, seats: Iterable[Seat], history: History | None = None) -> None:
        self.life = life
        self._history = history if history is not None else History(life.source)
        self._advancing = Advancing(life.producer, life.stream, life.advance_timeout, self._advanced, self.fail)
        self._pauses = life.producer if isinstance(life.producer, Pauses) else None
        limits = life.limits
        if self._advancing.is_together:
            limits = msgspec.structs.replace(limits, max_advancing=UNBOUNDED)
        suspects = life.suspicion.is_active
        lends = life.producer if isinstance(life.producer, Lends) else None
        self.core = StreamGroup(
            life.router.size,
            limits,
            seats=seats,
            history=self._history,
            is_suspect=suspects,
            lease=lends.lease if lends is not None else None,
        )
        self.renewing = Renewing(lends, self.core, life.stream, life.clock, life.roll, self._do) if lends else None
        self.front = Handing(self.core, life.watchers, life.suspicion, life.clock, self._do, self._progressed)
        self.began = self.last_progress = life.clock.monotonic()
        self._has_lanes = False
        self._changed = asyncio.Event()
        self._giving_back: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.routing = Routing(
            life.router, life.stream, life.source.seen_by_filters, life.clock, self._recount, life.decoder, life.teacher
        )
        self._replays = Replaying(self.core, life.router, self.routing, life.committer, life.clock, self._do)
        self._perform: dict[type, Callable[[Any], None]] = {
            Persist: self._persist,
            Advance: self._advance,
            Wake: lambda c: self.front.hand_over(c.seat),
            Recall: lambda c: life.watchers.recall(c.seat),
            PauseLane: self._pause,
            ResumeLane: self._resume,
            GiveBack: self._give_back,
            Left: lambda c: self.front.left(c.seat),
            StopGroup: lambda c: self.fail(GroupFailed(c.reason)),
        }

    # One life ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Polls until something fails, and raises what did. Cancelled, it just stops polling."""
        if isinstance(self.life.producer, TakesLanes):
            self.life.producer.take_lanes(self)
        self._advancing.start()
        if self.renewing is not None:
            self.renewing.start(self.fail)
        poll = asyncio.create_task(self._poll(), name=f"shared-stream-poll[{self.life.stream}]")
        try:
            await asyncio.wait((poll, self._failure), return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            poll.result()
            raise GroupFailed("the producer's stream ended, and must run for ever")
        finally:
            poll.cancel()
            await asyncio.wait({poll}, timeout=5.0)  # and not a wait that would swallow our own cancellation
            if poll.done() and not poll.cancelled():
                poll.exception()

    async def _poll(self) -> None:
        clock, core = self.life.clock, self.core
        batches = self.life.producer.open_batches()
        try:
            async for poll in batches:
                poll.received = poll.received or clock.monotonic()
                poll = core.received(poll)
                if poll.bodies:
                    self._do(core.admit(poll, await self.routing.routed(poll)))
                while self._is_full and self.renewing is None:
                    self._changed.clear()
                    await self._changed.wait()
                await asyncio.sleep(0)  # a producer that never waits must not starve the loop
        finally:
            aclose = getattr(batches, "aclose", None)
            if aclose is not None:
                with suppress(Exception):
                    await aclose()

    @property
    def _is_full(self) -> bool:
        """A stream at its bound is not pulled; one that can't pause a single lane neither while any lane is full.

        One whose broker lends is told to ask for nothing: what is on its way must be known, to be renewed.
        """
        return self.core.is_paused or (self._pauses is None and self.core.has_paused_lanes)

    def fail(self, error: Exception) -> None:
        """The group can't go on."""
        if not self._failure.done():
            self._failure.set_exception(error)

    async def drain(self, deadline: float) -> bool:
        """No more tries; what is resolved, or will be by a commit under way, is advanced. False: out of time."""
        if self.renewing is not None:
            self.renewing.ask_nothing()
        self._do(self.core.stop())
        self.front.close()
        try:
            async with asyncio.timeout(deadline):
                while not self.core.is_settled:
                    self._changed.clear()
                    await self._changed.wait()
                await self.routing.freed()  # by a poll that nothing will come of
        except TimeoutError:
            return False
        return True

    async def close(self, deadline: float) -> None:
        """Gives back what is not settled and closes the producer; errors logged. What is given back gets half of it."""
        ends_at = self.life.clock.monotonic() + deadline
        if self._timer is not None:
            self._timer.cancel()
        self._advancing.cancel()
        if self.renewing is not None:
            await self.renewing.stop()
        for task in self._giving_back:
            task.cancel()
        producer = self.life.producer
        if isinstance(producer, Releases):
            unsettled = [p for _, payloads in self.core.unsettled() for p in payloads]
            if unsettled:
                await self._bounded("release", producer.release(unsettled), deadline / 2)
        await self._bounded("aclose", producer.aclose(), max(0.1, ends_at - self.life.clock.monotonic()))
        if not self._failure.cancel() and not self._failure.cancelled():
            self._failure.exception()  # what failed while it ended is of no interest any more

    async def _bounded(self, what: str, call: Awaitable[object], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # and no `wait_for`, which on Python 3.11 may swallow a cancellation
                await call
        except TimeoutError:
            log.warning(f"{what} failed", stream=self.life.stream, error=f"it took longer than {seconds:.1f} s")
        except Exception as error:
            log.warning(f"{what} failed", stream=self.life.stream, error=f"{type(error).__name__}: {error}")

    # Commands ---------------------------------------------------------------------------------------------------------

    def _do(self, commands: Sequence[Command]) -> None:
        perform = self._perform
        for command in commands:
            perform[type(command)](command)
        self._arm()
        if self.renewing is not None:
            self.renewing.mind(is_full=self._is_full)
        self._changed.set()

    def _arm(self) -> None:
        """One timer, at the core's wish, plus some jitter so that what failed together doesn't come back together."""
        wake_at = self.core.wake_at
        if wake_at == self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = wake_at
        if wake_at is not None:
            delay = max(0.0, wake_at - self.life.clock.monotonic())
            jitter = self.life.limits.retry.jitter
            self._timer = asyncio.get_running_loop().call_later(delay * (1 + jitter * self.life.roll()), self._time)

    def _time(self) -> None:
        self._timer = self._timer_at = None
        self._do(self.core.time_passed(self.life.clock.monotonic()))

    def _persist(self, command: Persist) -> None:
        failed = False
        received_at = self.life.clock.now()
        if isinstance(command.tokens[0], Binding):
            self._remember(command)

        def rows() -> Sequence[Row]:
            """Made when their commit begins: what waits for it stays small."""
            nonlocal failed
            try:
                return self.life.source.rows(command.records, received_at)
            except Exception as error:  # the producer's own identity() or describe()
                failed = True
                self.fail(error)
                return ()

        def confirmed(_: Receipt) -> None:
            if not failed:
                self._persisted(command)

        self.life.committer.submit(rows, confirmed)

    def _remember(self, command: Persist) -> None:
        """From now on, and not only once it is durable: the event may come again before."""
        try:
            self._history.take(command.records)
        except Exception as error:  # the producer's own identity()
            self.fail(error)

    def _persisted(self, command: Persist) -> None:
        self.last_progress = self.life.clock.monotonic()
        self._do(self.core.persisted(command.tokens, self.last_progress))
        targets = {r.plan.target for r in command.records if type(r) is Run}
        if targets:
            self.life.runs_stored(targets)

    # Advancing --------------------------------------------------------------------------------------------------------

    def _advance(self, command: Advance) -> None:
        if command.lane.internal:
            self._replays.resolved(command)
        else:
            self._advancing.send(command)

    def _advanced(self, advances: Sequence[Advance], said: Said) -> None:
        now = self.life.clock.monotonic()
        if isinstance(said, int):
            before = self.core.tally.settled
            self._do(self.core.advanced(advances, said))
            if self.core.tally.settled > before:  # what only comes again is no progress
                self.last_progress = now
            return
        kind = kind_of(said)
        reason = f"{type(said).__name__}: {said}"
        log.warning("advance failed", stream=self.life.stream, kind=kind, error=reason, lanes=len(advances))
        for advance in advances:
            self._do(self.core.advance_failed(advance, kind, reason, now))

    def _pause(self, command: PauseLane) -> None:
        if self._pauses is not None:
            self._pauses.pause([command.key])

    def _resume(self, command: ResumeLane) -> None:
        if self._pauses is not None:
            self._pauses.resume([command.key])

    def _give_back(self, command: GiveBack) -> None:
        """At once, and beside everything else: what waits for its lease to run out holds up its lane."""
        producer = self.life.producer
        if isinstance(producer, Releases):
            call = self._bounded("release", producer.release(command.payloads), self.life.advance_timeout)
            task = asyncio.create_task(call, name=f"release[{self.life.stream}]")
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)

    # Ownership: given to the producer as `bridge.ports.Lanes` ---------------------------------------------------------

    def assigned(self, lane: Hashable) -> int:
        self._has_lanes = True
        epoch, commands = self.core.assigned(lane)
        self._do(commands)
        return epoch

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        last, commands = self.core.revoked(lanes)
        self._do(commands)
        return last

    # Watchers ---------------------------------------------------------------------------------------------------------

    def expel(self, seat: Seat, reason: str) -> None:
        """A watcher was disabled: what it owes becomes dead letters, replayable."""
        self.front.expel(seat, reason)

    def _progressed(self, now: float) -> None:
        self.last_progress = now

    def _recount(self) -> None:
        self.core.declared = self.life.router.size

    # Replays ----------------------------------------------------------------------------------------------------------

    @property
    def replaying(self) -> set[int]:
        """Ids of the dead letters that are read again right now."""
        return self._replays.under_way

    async def replay(self, replay: Replay, within: float) -> None:
        """Reads a dead letter again, for the watchers that refused it."""
        await self._replays.replay(replay, within)

    # For people -------------------------------------------------------------------------------------------------------

    @property
    def is_answered(self) -> bool:
        """Messages have come in this life, or lanes: the broker is there."""
        return self._has_lanes or self.core.tally.received > 0

    def trouble(self, now: float, stalled_after: float) -> str | None:
        """Why the group is not healthy: judged by progress, not by whether its tasks exist."""
        if self.routing.trouble:
            return self.routing.trouble
        if self.renewing is not None and self.renewing.trouble:
            return self.renewing.trouble
        if self.front.down:
            watcher, reason = next(iter(self.front.down.items()))
            return f"watcher {watcher!r} is down: {reason}"
        if self.core.outstanding and now - self.last_progress > stalled_after:
            return f"no progress for {now - self.last_progress:.0f} s with {self.core.outstanding} events outstanding"
        return None
