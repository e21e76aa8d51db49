"""One target's line: runs claimed ahead, the seats that launch them, the results on their way to the store.

    store ── claim, in batches ──▶ ahead ── a free seat ──▶ launch ──▶ results ── one submit a turn ──▶ committer

A claim is a lease. A run whose lease is too short for one more launch is not sent: it becomes claimable by itself, and
whoever has it then knows that it may have been launched (`Claim.ambiguous`). The same happens to what a crash leaves.

What the line holds is bounded by `AHEAD_MOST`, results that the store has not confirmed included: while the store is
away no run is claimed and, soon, none is launched.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, runtime_checkable

import structlog
from msgspec import Struct

from bridge.core.errors import Refused, StoreUnavailable, Transient
from bridge.core.retry import Backoff
from bridge.ports import Claim, Clock, Committer, Launched, Receipt, ResultRow, Store, Target

log = structlog.get_logger("headrace.dispatcher")

AHEAD_MOST: Final = 256
"""Runs claimed and not yet confirmed, per target: one claim and one commit serve so many."""
MARGIN: Final = 15.0
"""Seconds that a launch may take beyond its own timeout before it is cancelled."""
LEASE_LEAST: Final = 60.0
QUICK, SLOW = 0.25, 2.0  # seconds in which a batch is used up: below it the next is twice as large, above it half
TURN_MOST: Final = 64  # launches that never suspend, before others get their turn
ERROR_MOST: Final = 4000  # characters
RETRY_AFTER_MOST: Final = 86400.0
QUIET: Final = 5.0  # seconds between two log lines of one kind
_AWAY: Final = Backoff(delay=0.1, factor=2.0, max=10.0, jitter=1.0)


class TargetRuntime(Struct, frozen=True, eq=False):
    """A target and how it is to be used.

    `timeout` bounds one launch, in seconds, and never below what the target says of itself; `attempts` are launches in
    all before a run that fails transiently is given up.
    """

    target: Target
    max_in_flight: int = 8
    retry: Backoff = Backoff()
    attempts: int = 20
    timeout: float = 0.0


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


class Counts(Struct):
    """Since the start. `failed` was given up, `failed_runs` ran and failed, `unsent` had too little lease left."""

    launched: int = 0
    failed_runs: int = 0
    failed: int = 0
    retried: int = 0
    overdue: int = 0
    unsent: int = 0


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
        self.counts = Counts()
        self.seats = [Seat() for _ in range(runtime.max_in_flight)]
        self.target = runtime.target
        self._runtime = runtime
        self._store, self._committer, self._clock, self._roll = store, committer, clock, roll
        self._longest = max(runtime.timeout, runtime.target.timeout) + MARGIN
        self._lease = max(LEASE_LEAST, 2 * self._longest)
        self._batch_least = min(runtime.max_in_flight, AHEAD_MOST)
        self._batch = self._batch_least
        self._claimed_at = clock.monotonic()
        self._ahead: deque[tuple[Claim, float]] = deque()
        self._filled, self._wanted = asyncio.Event(), asyncio.Event()
        self._may_be_more = True
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
        """For `status`: plain values."""
        return {
            "in_flight": self.in_flight,
            "max_in_flight": len(self.seats),
            "claimed_ahead": len(self._ahead),
            "unconfirmed": self._unconfirmed,
            **{name: getattr(self.counts, name) for name in self.counts.__struct_fields__},
            "last_error": self._last_error,
            "last_error_at": self._last_error_at,
            "trouble": self._trouble,
        }

    # Claims ------------------------------------------------------------------------------------------------------

    async def feed(self) -> None:
        """Claims ahead, in batches that grow while they are used up quickly."""
        failures, not_before = 0, 0.0
        while not self._is_closed:
            self._wanted.clear()
            room = self._room()
            if room <= 0 or not self._may_be_more or self._clock.monotonic() < not_before:
                await self._wanted.wait()  # a tick comes every second
                continue
            self._may_be_more = False  # before the claim: a wake during it counts
            try:
                await self._claim(room)
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

    async def _claim(self, room: int) -> None:
        asked_at = self._clock.monotonic()
        claims = await self._store.claim(self.name, room, self._lease)
        if len(claims) >= room:
            self._may_be_more = True
            self._resize(asked_at - self._claimed_at)
        self._claimed_at = asked_at
        # Counted from before the question, by our own clock: the store's may be another machine's.
        expires = asked_at + self._lease
        self._ahead.extend((claim, expires) for claim in claims)
        if self._is_closed:
            self.close()
        elif claims:
            self._filled.set()

    def _resize(self, took: float) -> None:
        if took < QUICK:
            self._batch = min(self._batch * 2, AHEAD_MOST)
        elif took > SLOW:
            self._batch = max(self._batch // 2, self._batch_least)

    def _store_is_away(self, error: Exception) -> None:
        self._trouble = _bounded(str(error) or repr(error))
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
            if len(self._ahead) <= self._batch // 2:
                self._wanted.set()
            now = self._clock.monotonic()
            if expires - now < self._longest:
                self.counts.unsent += 1
                continue
            await self._launch(seat, claim, now)
            in_turn += 1
            if in_turn >= TURN_MOST:
                in_turn = 0
                await asyncio.sleep(0)

    async def _launch(self, seat: Seat, claim: Claim, now: float) -> None:
        seat.since = now
        try:
            self._answered(claim, await self.target.launch(claim))
        except asyncio.CancelledError:
            if not seat.is_overdue or self._is_cancelled_too(seat):
                raise
            self._outlasted(claim)
        except Exception as error:
            self._failed(claim, error)
        finally:
            seat.since = None
            if seat.is_overdue:  # it ended by itself just before
                self._is_cancelled_too(seat)

    def _is_cancelled_too(self, seat: Seat) -> bool:
        """Takes back the cancellation of an overdue launch; whether somebody else has asked for one as well."""
        seat.is_overdue = False
        return seat.task is not None and seat.task.uncancel() > 0

    # Results -----------------------------------------------------------------------------------------------------

    def _answered(self, claim: Claim, said: Launched) -> None:
        self.counts.launched += 1
        error = said.error
        if said.state == "failed_run":
            self.counts.failed_runs += 1
            error = self._note(claim, "The run failed", error or "the target gives no reason")
        self._settle(claim, ResultRow(claim.run_key, claim.epoch, said.state, said.run_id, said.url, error))

    def _failed(self, claim: Claim, error: Exception) -> None:
        text, is_defect = str(error) or repr(error), not isinstance(error, Transient | Refused)
        if is_defect:
            text = f"{type(error).__name__}: {text}"
        if isinstance(error, Refused):
            self._give_up(claim, text)
            return
        tries = claim.attempts + 1
        if tries >= self._runtime.attempts:
            self._give_up(claim, f"gave up after {tries} attempts, the last: {text}", stack=is_defect)
            return
        self.counts.retried += 1
        text = self._note(claim, "The launch failed, it is tried again", text, stack=is_defect)
        due = self._clock.now() + self._pause(tries, error)
        self._put(ResultRow(claim.run_key, claim.epoch, "pending", error=text, not_before=due))

    def _outlasted(self, claim: Claim) -> None:
        """It may have reached the target. Without a result the lease runs out, and the next claim is ambiguous."""
        self.counts.overdue += 1
        tries = claim.attempts + 1
        text = f"no answer after {self._longest:g}s"
        if tries >= self._runtime.attempts:
            self._give_up(claim, f"gave up after {tries} attempts, the last: {text}")
        else:
            self._note(claim, "The launch outlasted its time, it is looked for when its claim ends", text)

    def _pause(self, tries: int, error: Exception) -> float:
        pause = self._runtime.retry.after(tries, self._roll())
        wanted = error.retry_after if isinstance(error, Transient) else None
        return max(pause, min(wanted, RETRY_AFTER_MOST)) if wanted is not None and wanted > 0 else pause

    def _give_up(self, claim: Claim, text: str, *, stack: bool = False) -> None:
        self.counts.failed += 1
        text = self._note(claim, "The run is given up, it can be retried", text, stack=stack)
        self._settle(claim, ResultRow(claim.run_key, claim.epoch, "failed", error=text))

    def _settle(self, claim: Claim, row: ResultRow) -> None:
        if self._remembers is not None:
            self._settled.append(claim)
        self._put(row)

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

    def _note(self, claim: Claim, event: str, text: str, *, stack: bool = False) -> str:
        """Keeps the error for `status` and logs it, but not thousands of times. -> the text as it may be stored"""
        self._last_error, self._last_error_at = _bounded(text), self._clock.now()
        if self._may_say(event):
            log.warning(event, target=self.name, run_key=claim.run_key, error=self._last_error, exc_info=stack)
        return self._last_error

    def _may_say(self, kind: str) -> bool:
        now = self._clock.monotonic()
        if now - self._said.get(kind, -QUIET) < QUIET:
            return False
        self._said[kind] = now
        return True


def _bounded(text: str) -> str:
    """Text that every database takes: no NUL, no half of a surrogate pair, and not endless."""
    text = text if len(text) <= ERROR_MOST else f"{text[: ERROR_MOST // 2]} … {text[-ERROR_MOST // 2 :]}"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
