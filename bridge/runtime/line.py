"""One target's line: runs claimed ahead, the seats that launch them, the results on their way to the store.

    store ── claim, in batches ──▶ ahead ── a free seat ──▶ launch ──▶ results ── one submit a turn ──▶ committer

A claim is a lease. A run whose lease is too short for one more launch is not sent: it becomes claimable by itself, and
whoever has it then knows that it may have been launched (`Claim.ambiguous`). The same happens to what a crash leaves.

What the line holds is bounded by `AHEAD_MOST`, results that the store has not confirmed included: while the store is
away no run is claimed and, soon, none is launched.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, runtime_checkable

import structlog
from msgspec import Struct

from bridge.core.errors import StoreUnavailable
from bridge.core.retry import Backoff
from bridge.ports import Claim, Clock, Committer, Receipt, ResultRow, Store, Target
from bridge.runtime.results import EVENTS, KINDS, Result, of_answer, of_error, of_silence, storable

log = structlog.get_logger("headrace.dispatcher")

AHEAD_MOST: Final = 1024
"""Runs claimed and not yet confirmed, per target: one claim and one commit serve so many. 256 cost twice the time."""
CLAIM_EVERY: Final = 0.02
"""Seconds from claim to claim while runs come in one by one. Each is a transaction on the thread that new messages wait
for: at 500 of them a second this halves their way into the store (`kafka_latency`). The first is made at once."""
MARGIN: Final = 15.0
"""Seconds that a launch may take beyond its own timeout before it is cancelled."""
LEASE_LEAST: Final = 60.0
QUICK, SLOW = 0.25, 2.0  # seconds for half a batch: in less the next is twice as large, in more half as large
TURN_MOST: Final = 64  # launches that never suspend, before others get their turn
QUIET: Final = 5.0  # seconds between two log lines of one kind
_AWAY: Final = Backoff(delay=0.1, factor=2.0, max=10.0, jitter=1.0)


class TargetRuntime(Struct, frozen=True, eq=False):
    """A target and how it is to be used.

    `timeout` bounds one launch, in seconds, and never below what the target says of itself; `attempts` are launches in
    all before a run that fails transiently is given up. `claim_every`: the least time from one claim to the next, in
    seconds, while the last one got less than it asked for.
    """

    target: Target
    max_in_flight: int = 8
    retry: Backoff = Backoff()
    attempts: int = 20
    timeout: float = 0.0
    claim_every: float = 0.0


@runtime_checkable
class Remembers(Protocol):
    """Optional, of a target: it keeps something about each run until the store has the result."""

    def recorded(self, claims: Sequence[Claim]) -> None:
        """The results of these are durable, and the runs will not be launched again under the same `retry`."""
        ...

    def forget(self, before: float) -> int:
        """Drops what it keeps about recorded runs from before (seconds since 1970). May block: called in a thread."""
        ...


class Seat(Struct, eq=False):
    """One launch at a time. `since` is when it began, None between launches."""

    task: asyncio.Task[None] | None = None
    since: float | None = None
    is_overdue: bool = False


class Line:
    """Feeds and works until it is closed; the dispatcher runs its coroutines and ticks it once a second."""

    def __init__(
        self,
        name: str,
        runtime: TargetRuntime,
        store: Store,
        committer: Committer,
        clock: Clock,
        roll: Callable[[], float],
    ) -> None:
        self.name = name
        self.counts: dict[str, int] = dict.fromkeys((*KINDS, "unsent"), 0)
        self.seats = [Seat() for _ in range(runtime.max_in_flight)]
        self.target = runtime.target
        self._runtime = runtime
        self._store, self._committer, self._clock, self._roll = store, committer, clock, roll
        self._longest = max(runtime.timeout, runtime.target.timeout) + MARGIN
        self._lease = max(LEASE_LEAST, 2 * self._longest)
        self._batch_least = min(runtime.max_in_flight, AHEAD_MOST)
        self._batch = self._batch_least
        self._taken, self._taken_since = 0, clock.monotonic()
        self._ahead: deque[tuple[Claim, float]] = deque()
        self._filled, self._wanted = asyncio.Event(), asyncio.Event()
        self._may_be_more = True
        self._is_full = False  # the last claim got all that it asked for
        self._is_closed = False
        self._results: list[ResultRow] = []
        self._settled: list[Claim] = []
        self._unconfirmed = 0
        self._remembers = self.target if isinstance(self.target, Remembers) else None
        self._last_error, self._last_error_at, self._trouble = "", 0.0, ""
        self._said: dict[str, float] = {}

    # From outside ------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There may be runs to claim."""
        self._may_be_more = True
        self._wanted.set()

    def tick(self) -> None:
        """Once a second: looks for runs that have become due, and ends launches that have outlasted their time."""
        self.wake()
        now = self._clock.monotonic()
        for seat in self.seats:
            if seat.since is not None and seat.task is not None and not seat.is_overdue:
                seat.is_overdue = now - seat.since > self._longest
                if seat.is_overdue:
                    seat.task.cancel()

    def close(self) -> None:
        """No new launches: what was claimed ahead goes back to the store, and seats leave after their launch."""
        self._is_closed = True
        while self._ahead:
            claim, _ = self._ahead.popleft()
            self._put(ResultRow(claim.run_key, claim.epoch, "pending"))
        self._filled.set()
        self._wanted.set()

    def flush(self) -> None:
        """Hands the results of this turn to the committer."""
        rows, settled = self._results, self._settled
        if rows:
            self._results, self._settled = [], []
            self._unconfirmed += len(rows)
            self._committer.submit(rows, partial(self._confirmed, len(rows), settled))

    @property
    def in_flight(self) -> int:
        return sum(seat.since is not None for seat in self.seats)

    def snapshot(self) -> dict[str, object]:
        """For `status`: plain values. Counts are since the start; `unsent` runs had too little of their lease left."""
        return {
            "in_flight": self.in_flight,
            "max_in_flight": len(self.seats),
            "claimed_ahead": len(self._ahead),
            "unconfirmed": self._unconfirmed,
            **self.counts,
            "last_error": self._last_error,
            "last_error_at": self._last_error_at,
            "trouble": self._trouble,
        }

    # Claims ------------------------------------------------------------------------------------------------------

    async def feed(self) -> None:
        """Claims ahead, in batches that grow while they are used up quickly."""
        failures, not_before, claimed_at = 0, 0.0, -math.inf
        while not self._is_closed:
            self._wanted.clear()
            self._resize()
            room = self._room()
            if room <= 0 or not self._may_be_more or self._clock.monotonic() < not_before:
                await self._wanted.wait()  # a tick comes every second
                continue
            early = claimed_at + self._runtime.claim_every - self._clock.monotonic()
            if early > 0 and not self._is_full:
                await self._clock.sleep(early)
                continue  # it may be closed by now
            self._may_be_more = False  # before the claim: a wake during it counts
            try:
                if await self._claim(room):
                    claimed_at = self._clock.monotonic()
            except Exception as error:
                failures += 1
                self._may_be_more = True
                self._store_is_away(error)
                not_before = self._clock.monotonic() + _AWAY.after(failures, self._roll())
            else:
                failures, self._trouble = 0, ""

    def _room(self) -> int:
        held = len(self._ahead) + len(self._results) + self._unconfirmed
        return self._batch - held if held <= self._batch // 2 else 0

    async def _claim(self, room: int) -> int:
        """How many it got."""
        asked_at = self._clock.monotonic()
        claims = await self._store.claim(self.name, room, self._lease)
        self._is_full = len(claims) >= room
        if self._is_full:
            self._may_be_more = True
        # Counted from before the question, by our own clock: the store's may be another machine's.
        expires = asked_at + self._lease
        self._ahead.extend((claim, expires) for claim in claims)
        if self._is_closed:
            self.close()
        elif claims:
            self._filled.set()
        return len(claims)

    def _resize(self) -> None:
        """How long half a batch takes to be used up says how much is worth claiming at once."""
        now = self._clock.monotonic()
        took, half = now - self._taken_since, max(1, self._batch // 2)
        if took <= SLOW and self._taken < half:
            return
        if took > SLOW:
            self._batch = max(half, self._batch_least)
        elif took < QUICK:
            self._batch = min(self._batch * 2, AHEAD_MOST)
        self._taken, self._taken_since = 0, now

    def _store_is_away(self, error: Exception) -> None:
        self._trouble = storable(str(error) or repr(error))
        if self._may_say("claim"):
            stack = not isinstance(error, StoreUnavailable)
            log.warning("Runs can't be claimed", target=self.name, error=self._trouble, exc_info=stack)

    # Launches ----------------------------------------------------------------------------------------------------

    async def work(self, seat: Seat) -> None:
        """Launches one run after the other, until the line is closed."""
        seat.task = asyncio.current_task()
        in_turn = 0
        while not self._is_closed:
            if not self._ahead:
                self._filled.clear()
                await self._filled.wait()
                in_turn = 0
                continue
            claim, expires = self._ahead.popleft()
            self._taken += 1
            if len(self._ahead) <= self._batch // 2:
                self._wanted.set()
            now = self._clock.monotonic()
            if expires - now < self._longest:
                self.counts["unsent"] += 1
                continue
            await self._launch(seat, claim, now)
            in_turn += 1
            if in_turn >= TURN_MOST:
                in_turn = 0
                await asyncio.sleep(0)

    async def _launch(self, seat: Seat, claim: Claim, now: float) -> None:
        seat.since = now
        try:
            self._conclude(claim, of_answer(claim, await self.target.launch(claim)))
        except asyncio.CancelledError:
            if not seat.is_overdue or self._is_cancelled_too(seat):
                raise
            self._conclude(claim, of_silence(claim, self._longest, self._runtime.attempts))
        except Exception as error:
            use = self._runtime
            self._conclude(claim, of_error(claim, error, use.attempts, use.retry, self._clock.now(), self._roll))
        finally:
            seat.since = None
            if seat.is_overdue:  # it ended by itself just before
                self._is_cancelled_too(seat)

    def _is_cancelled_too(self, seat: Seat) -> bool:
        """Takes back the cancellation of an overdue launch; whether somebody else has asked for one as well."""
        seat.is_overdue = False
        return seat.task is not None and seat.task.uncancel() > 0

    # Results -----------------------------------------------------------------------------------------------------

    def _conclude(self, claim: Claim, result: Result) -> None:
        self.counts[result.kind] += 1
        if result.error:
            self._note(claim, result)
        if result.row is not None:
            if result.is_final and self._remembers is not None:
                self._settled.append(claim)
            self._put(result.row)

    def _note(self, claim: Claim, result: Result) -> None:
        """Keeps the error for `status` and logs it, but not thousands of times."""
        self._last_error, self._last_error_at = result.error, self._clock.now()
        event = EVENTS[result.kind]
        if self._may_say(event):
            stack = result.is_defect
            log.warning(event, target=self.name, run_key=claim.run_key, error=result.error, exc_info=stack)

    def _put(self, row: ResultRow) -> None:
        if not self._results:
            asyncio.get_running_loop().call_soon(self.flush)
        self._results.append(row)

    def _confirmed(self, count: int, settled: Sequence[Claim], receipt: Receipt) -> None:
        self._unconfirmed -= count
        self._wanted.set()
        # Of a commit with a stale result nobody can say whose it was: better to keep too much.
        if self._remembers is not None and settled and not receipt.stale_results and not receipt.refused:
            try:
                self._remembers.recorded(settled)
            except Exception:
                log.exception("A target failed to take note of results", target=self.name)

    def _may_say(self, kind: str) -> bool:
        now = self._clock.monotonic()
        if now - self._said.get(kind, -QUIET) < QUIET:
            return False
        self._said[kind] = now
        return True
