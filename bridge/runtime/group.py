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
from msgspec import Struct

from bridge.core.commands import (
    Advance,
    Command,
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
from bridge.core.model import EVERY_WATCHER, AdvanceBatch, Poll, Record, Reject, Run, Slice
from bridge.core.seat import Seat, Ticket
from bridge.core.window import Verdict
from bridge.decode.decoder import Decoder
from bridge.ports import (
    Clock,
    Committer,
    Pauses,
    Producer,
    Receipt,
    Releases,
    Replay,
    ReplayedRow,
    Router,
    Row,
    TakesLanes,
)
from bridge.runtime.advancing import Advancing, Said, kind_of
from bridge.runtime.routing import Routing
from bridge.runtime.rows import Replayed, Source
from bridge.runtime.schemas import SchemaTeacher
from bridge.runtime.watchers import Watchers

log = structlog.get_logger("headrace.stream")

MOST_TICKETS = 100
QUICK = 0.05
"""Seconds in which a batch of tickets should be done: the next one is sized by it."""

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


class GroupShell:
    """See the head of the file. `run` ends only by raising; `drain` and `close` follow, in that order."""

    def __init__(self, life: Life, seats: Iterable[Seat], prior: Callable[[str, Any], int] | None = None) -> None:
        self.life = life
        self._advancing = Advancing(life.producer, life.stream, life.advance_timeout, self._advanced)
        self._pauses = life.producer if isinstance(life.producer, Pauses) else None
        limits = life.limits
        if self._advancing.is_together:
            limits = msgspec.structs.replace(limits, max_advancing=UNBOUNDED)
        self.core = StreamGroup(life.router.size, limits, seats=seats, prior=prior)
        self.last_progress = life.clock.monotonic()
        self._seats_down: dict[str, str] = {}
        self._quota: dict[str, tuple[int, float]] = {}
        self._changed = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.replaying: set[int] = set()  # ids of dead letters that are read again right now
        self.routing = Routing(
            life.router, life.stream, life.source.seen_by_filters, life.clock, self._recount, life.decoder, life.teacher
        )
        self._perform: dict[type, Callable[[Any], None]] = {
            Persist: self._persist,
            Advance: self._advance,
            Wake: lambda c: self._hand_over(c.seat),
            Recall: lambda c: life.watchers.recall(c.seat),
            PauseLane: self._pause,
            ResumeLane: self._resume,
            Left: lambda c: self._left(c.seat),
            StopGroup: lambda c: self.fail(GroupFailed(c.reason)),
        }

    # One life ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Polls until something fails, and raises what did. Cancelled, it just stops polling."""
        if isinstance(self.life.producer, TakesLanes):
            self.life.producer.take_lanes(self)
        self._advancing.start()
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
                poll.received = clock.monotonic()
                self._do(core.admit(poll, await self.routing.routed(poll)))
                while self._is_full:
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
        """A stream at its bound is not pulled; one that can't pause a single lane neither while any lane is full."""
        return self.core.is_paused or (self._pauses is None and self.core.has_paused_lanes)

    def fail(self, error: Exception) -> None:
        """The group can't go on."""
        if not self._failure.done():
            self._failure.set_exception(error)

    async def drain(self, deadline: float) -> bool:
        """No more tries; what is resolved, or will be by a commit under way, is advanced. False: out of time."""
        self._do(self.core.stop())
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
        """Gives back what is not settled and closes the producer; each within its share, errors logged."""
        if self._timer is not None:
            self._timer.cancel()
        self._advancing.cancel()
        producer = self.life.producer
        if isinstance(producer, Releases):
            unsettled = [p for _, payloads in self.core.unsettled() for p in payloads]
            if unsettled:
                await self._bounded("release", producer.release(unsettled), deadline / 2)
        await self._bounded("aclose", producer.aclose(), deadline / 2)
        if not self._failure.cancel() and not self._failure.cancelled():
            self._failure.exception()  # what failed while it ended is of no interest any more

    async def _bounded(self, what: str, call: Awaitable[object], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):  # and no `wait_for`, which on Python 3.11 may swallow a cancellation
                await call
        except Exception as error:
            log.warning(f"{what} failed", stream=self.life.stream, error=f"{type(error).__name__}: {error}")

    # Commands ---------------------------------------------------------------------------------------------------------

    def _do(self, commands: Sequence[Command]) -> None:
        perform = self._perform
        for command in commands:
            perform[type(command)](command)
        self._arm()
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

    def _persisted(self, command: Persist) -> None:
        self.last_progress = self.life.clock.monotonic()
        self._do(self.core.persisted(command.tokens, self.last_progress))
        targets = {r.plan.target for r in command.records if type(r) is Run}
        if targets:
            self.life.runs_stored(targets)

    # Advancing --------------------------------------------------------------------------------------------------------

    def _advance(self, command: Advance) -> None:
        if command.lane.internal:
            self._replayed(command)
        else:
            self._advancing.send(command)

    def _advanced(self, advances: Sequence[Advance], said: Said) -> None:
        now = self.life.clock.monotonic()
        if isinstance(said, int):
            self.last_progress = now
            self._do(self.core.advanced(advances, said))
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

    # Ownership: given to the producer as `bridge.ports.Lanes` ---------------------------------------------------------

    def assigned(self, lane: Hashable) -> int:
        epoch, commands = self.core.assigned(lane)
        self._do(commands)
        return epoch

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        last, commands = self.core.revoked(lanes)
        self._do(commands)
        return last

    # Python watchers: `bridge.runtime.watchers.Front` -----------------------------------------------------------------

    def _hand_over(self, seat: Seat) -> None:
        if seat.open or seat.id not in self.core.seats or not self.life.watchers.is_up(seat):
            return
        quota, _ = self._quota.get(seat.id, (10, 0.0))
        tickets = self.core.hand_over(seat, quota)
        if tickets:
            self._quota[seat.id] = (quota, self.life.clock.monotonic())
            self.life.watchers.give(seat, tickets)

    def on_verdicts(self, seat: Seat, verdicts: list[tuple[Ticket, Verdict]]) -> None:
        now = self.life.clock.monotonic()
        self.last_progress = now
        self._do(self.core.returned(seat, verdicts, now))
        if not seat.open:
            quota, since = self._quota.get(seat.id, (10, now))
            quick = now - since < QUICK
            self._quota[seat.id] = (min(MOST_TICKETS, quota * 2) if quick else max(1, quota // 2), now)
            self._hand_over(seat)

    def on_state(self, seat: Seat, is_up: bool, trouble: str) -> None:
        if is_up:
            self._seats_down.pop(seat.id, None)
            self._hand_over(seat)
        else:
            self._seats_down[seat.id] = trouble

    def on_left_behind(self, seat: Seat, held: Ticket | None) -> None:
        if seat.id not in self.core.seats:
            return
        if held is not None:
            error = "AckTimeout: its code held the watchers' thread past ack_timeout"
            verdict = Verdict("failed", error=error)
            self._do(self.core.returned(seat, [(held, verdict)], self.life.clock.monotonic()))
        if seat.id in self.core.seats:
            self._do(self.core.abandon(seat))

    def _left(self, seat: Seat) -> None:
        self._seats_down.pop(seat.id, None)

    def expel(self, seat: Seat, reason: str) -> None:
        """A watcher was disabled: what it owes becomes dead letters, replayable."""
        if seat.id in self.core.seats:
            self._do(self.core.expel(seat, reason))

    def _recount(self) -> None:
        self.core.declared = self.life.router.size

    # Replays ----------------------------------------------------------------------------------------------------------

    async def replay(self, replay: Replay, within: float) -> None:
        """Reads a dead letter again, on a lane of its own, for the watchers that refused it.

        What can't be done at this moment, or within so many seconds, is not done: it is asked for again soon.
        """
        payload = Replayed(replay)
        now = self.life.clock.monotonic()
        poll = Poll([Slice(("replay", replay.dead_letter), 0, 1)], [replay.body], [payload], now)
        if replay.dead_letter in self.replaying:
            return
        routed = await self.routing.routed_now(poll, within)
        if routed is None or replay.dead_letter in self.replaying or self.core.is_stopping:
            return
        self.replaying.add(replay.dead_letter)
        everybody = replay.watcher == EVERY_WATCHER
        seats = [s for s in self.core.seats.values() if everybody or s.id == replay.watcher]
        records: list[Record] = [r for r in routed.hits.get(0, ()) if everybody or _watcher_of(r) == replay.watcher]
        for fault in routed.faults.values():  # nobody can read it still: the same dead letter again
            records = [Reject(replay.watcher, payload, replay.body, fault.reason, fault.error)]
            seats = []
        if not (everybody or records or seats or replay.watcher in self.life.router.watchers):
            error = "the watcher is disabled, or gone: enable it, and replay this again"
            records = [Reject(replay.watcher, payload, replay.body, "watcher_unavailable", error)]
        self._do(self.core.admit_replay(poll, records, seats))

    def _replayed(self, command: Advance) -> None:
        """The replay is resolved. A reject has made the row a dead letter again, and that stands."""
        rejected = any(outcome.rejected for outcome, _ in command.batch.runs)
        ids = [payload.replay.dead_letter for payload in command.batch.payloads]
        rows: list[Row] = [] if rejected else [ReplayedRow(i) for i in ids]

        def done(_: Receipt) -> None:
            self.replaying.difference_update(ids)
            self._do(self.core.advanced([command]))

        self.life.committer.submit(rows, done)

    # For people -------------------------------------------------------------------------------------------------------

    def trouble(self, now: float, stalled_after: float) -> str | None:
        """Why the group is not healthy: judged by progress, not by whether its tasks exist."""
        if self.routing.trouble:
            return self.routing.trouble
        if self._seats_down:
            watcher, reason = next(iter(self._seats_down.items()))
            return f"watcher {watcher!r} is down: {reason}"
        if self.core.outstanding and now - self.last_progress > stalled_after:
            return f"no progress for {now - self.last_progress:.0f} s with {self.core.outstanding} events outstanding"
        return None


def _watcher_of(record: Record) -> str:
    return record.plan.watcher if isinstance(record, Run) else record.watcher
