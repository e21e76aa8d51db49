from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from bridge.core.errors import Refused, Transient
from bridge.core.retry import Backoff
from bridge.ports import Claim, Launched, Receipt, Row
from bridge.runtime.clock import FakeClock
from bridge.runtime.dispatcher import FORGET_AGE, FORGET_EVERY, Dispatcher, TargetRuntime
from bridge.runtime.line import AHEAD_MOST, MARGIN
from bridge.runtime.results import ERROR_MOST
from bridge.store.memory import MemoryStore
from bridge.store.memory_tables import StoredRun
from bridge.targets.fake import FakeTarget
from bridge.testing import run_row

RETRY = Backoff(delay=10.0, factor=2.0, max=100.0, jitter=0.0)


class Died(BaseException):
    """The process ends here."""


class DirectCommitter:
    """A commit for each submit, in the next turn of the loop; while it is `away`, later."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.submits: list[list[Row]] = []
        self.away = False
        self._waiting: list[tuple[list[Row], Callable[[Receipt], None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, rows: Sequence[Row] | Callable[[], Sequence[Row]], confirmed: Callable[[Receipt], None]) -> None:
        given = list(rows() if callable(rows) else rows)
        self.submits.append(given)
        self._waiting.append((given, confirmed))
        if not self.away:
            self.back()

    def back(self) -> None:
        self.away = False
        task = asyncio.create_task(self._commit())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        for rows, confirmed in waiting:
            confirmed(await self.store.commit(rows, f"c{len(self.submits)}-{id(rows)}"))


class Outbox:
    """A store in memory with a clock of its own, a committer, and one dispatcher after the other."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(now=self.clock.now)
        self.committer = DirectCommitter(self.store)
        self.rolls: list[float | Exception] = []
        self.dispatcher: Dispatcher | None = None
        self.life: asyncio.Task[None] | None = None
        self._stored = 0

    async def put(self, count: int = 1, target: str = "t") -> list[str]:
        keys = [f"w/s/{self._stored + n}/0" for n in range(count)]
        rows = [run_row(key, identity=key, target=target, received_at=self.clock.now()) for key in keys]
        await self.store.commit(rows, f"put{self._stored}")
        self._stored += count
        return keys

    async def open(self, **targets: FakeTarget | TargetRuntime) -> Dispatcher:
        runtimes: Mapping[str, TargetRuntime] = {
            name: each if isinstance(each, TargetRuntime) else TargetRuntime(each, retry=RETRY, attempts=4)
            for name, each in targets.items()
        }
        self.dispatcher = Dispatcher(self.store, self.committer, runtimes, self.clock, self._roll)
        self.life = asyncio.create_task(self.dispatcher.run())
        await self.clock.settle()
        return self.dispatcher

    async def die(self) -> None:
        """The life ends as with kill -9, and the next one finds the store as it is."""
        if self.life is not None:
            self.life.cancel()
            await asyncio.gather(self.life, return_exceptions=True)
        self.store = self.store.restarted()
        self.committer = DirectCommitter(self.store)

    async def wake(self, target: str = "t") -> None:
        assert self.dispatcher is not None
        self.dispatcher.wake(target)
        await self.clock.settle()

    def row(self, key: str) -> StoredRun:
        return self.store.tables.runs[key]

    def states(self, keys: Sequence[str]) -> list[str]:
        return [self.row(key).state for key in keys]

    def shown(self, name: str, target: str = "t") -> object:
        assert self.dispatcher is not None
        return self.dispatcher.snapshot()[target][name]

    def _roll(self) -> float:
        roll = self.rolls.pop(0) if self.rolls else 0.0
        if isinstance(roll, Exception):
            raise roll
        return roll


@pytest.fixture
async def outbox() -> AsyncIterator[Outbox]:
    outbox = Outbox()
    yield outbox
    if outbox.life is not None:
        outbox.life.cancel()
        await asyncio.gather(outbox.life, return_exceptions=True)


# Claiming ------------------------------------------------------------------------------------------------------------


async def test_claims_keep_their_distance_while_runs_come_one_by_one(outbox: Outbox) -> None:
    target = FakeTarget()
    await outbox.open(t=TargetRuntime(target, retry=RETRY, attempts=4, claim_every=0.5))
    await outbox.clock.advance(1.0)
    first = await outbox.put()
    await outbox.wake()
    assert outbox.states(first) == ["succeeded"]
    more = await outbox.put()
    await outbox.wake()
    more += await outbox.put()
    assert outbox.states(more) == ["pending", "pending"]
    await outbox.clock.advance(0.5)
    assert outbox.states(more) == ["succeeded", "succeeded"]


async def test_a_claim_that_got_all_that_it_asked_for_is_followed_at_once(outbox: Outbox) -> None:
    target = FakeTarget()
    await outbox.open(t=TargetRuntime(target, retry=RETRY, attempts=4, claim_every=3600.0))
    keys = await outbox.put(32)
    await outbox.wake()
    assert set(outbox.states(keys)) == {"succeeded"}


async def test_a_wake_launches_what_was_committed_at_once(outbox: Outbox) -> None:
    target = FakeTarget()
    await outbox.open(t=target)
    keys = await outbox.put(3)
    await outbox.wake()
    assert outbox.states(keys) == ["succeeded"] * 3
    assert outbox.clock.monotonic() == 0


async def test_without_a_wake_the_next_tick_finds_it(outbox: Outbox) -> None:
    await outbox.open(t=FakeTarget())
    keys = await outbox.put(1)
    await outbox.clock.advance(0.9)
    assert outbox.states(keys) == ["pending"]
    await outbox.clock.advance(0.2)
    assert outbox.states(keys) == ["succeeded"]


async def test_a_wake_for_an_unknown_target_is_ignored(outbox: Outbox) -> None:
    await outbox.open(t=FakeTarget())
    await outbox.wake("other")


async def test_a_wake_while_a_claim_is_under_way_is_not_lost(outbox: Outbox) -> None:
    target = FakeTarget()
    await outbox.open(t=target)
    claim = outbox.store.claim

    async def slow(name: str, limit: int, lease: float) -> list[Claim]:
        claims = await claim(name, limit, lease)
        await outbox.clock.sleep(0.5)
        return claims

    outbox.store.claim = slow  # type: ignore[method-assign]
    await outbox.wake()
    keys = await outbox.put(1)
    await outbox.wake()
    await outbox.clock.advance(0.99)
    assert outbox.states(keys) == ["dispatching"]


async def test_many_runs_are_claimed_and_committed_in_few_transactions(outbox: Outbox) -> None:
    claims = 0
    claim = outbox.store.claim

    async def counted(name: str, limit: int, lease: float) -> list[Claim]:
        nonlocal claims
        claims += 1
        return await claim(name, limit, lease)

    outbox.store.claim = counted  # type: ignore[method-assign]
    keys = await outbox.put(2000)
    await outbox.open(t=FakeTarget())
    await outbox.clock.advance(0.5)
    for _ in range(10):
        await outbox.clock.settle()
    assert set(outbox.states(keys)) == {"succeeded"}
    assert claims < 40
    assert len(outbox.committer.submits) < 80


async def test_for_a_slow_target_little_is_claimed_ahead(outbox: Outbox) -> None:
    target = FakeTarget(timeout=1000.0)
    target.hold()
    await outbox.open(t=TargetRuntime(target, max_in_flight=4))
    keys = await outbox.put(500)
    await outbox.clock.advance(60)
    assert outbox.states(keys).count("dispatching") <= 2 * 4


async def test_a_target_that_becomes_slow_gets_less_ahead_again(outbox: Outbox) -> None:
    class Slowing(FakeTarget):
        pause = 0.0

        async def launch(self, claim: Claim) -> Launched:
            await outbox.clock.sleep(self.pause)
            return await super().launch(claim)

    target = Slowing(timeout=1000.0)
    await outbox.open(t=TargetRuntime(target, max_in_flight=4))
    await outbox.put(400)
    await outbox.clock.advance(2)
    target.pause = 5.0
    keys = await outbox.put(400)
    await outbox.clock.advance(500)
    assert outbox.states(keys).count("dispatching") <= 3 * 4


async def test_results_of_one_turn_are_one_submit(outbox: Outbox) -> None:
    target = FakeTarget()
    target.hold()
    await outbox.open(t=target)
    await outbox.put(5)
    await outbox.wake()
    target.release()
    await outbox.clock.settle()
    assert [len(rows) for rows in outbox.committer.submits] == [5]


async def test_no_more_launches_at_once_than_allowed(outbox: Outbox) -> None:
    target = FakeTarget()
    target.hold()
    await outbox.open(t=TargetRuntime(target, max_in_flight=3))
    keys = await outbox.put(10)
    await outbox.wake()
    assert (outbox.shown("in_flight"), target.most_at_once) == (3, 3)
    target.release()
    await outbox.clock.advance(3)
    assert outbox.states(keys) == ["succeeded"] * 10
    assert target.most_at_once == 3


async def test_a_target_that_hangs_delays_no_other(outbox: Outbox) -> None:
    slow, quick = FakeTarget(), FakeTarget()
    slow.hold()
    await outbox.open(slow=slow, quick=quick)
    waiting, done = await outbox.put(20, "slow"), await outbox.put(20, "quick")
    await outbox.clock.advance(2)
    assert outbox.states(done) == ["succeeded"] * 20
    assert "succeeded" not in outbox.states(waiting)


# What becomes of a launch --------------------------------------------------------------------------------------------


async def test_what_the_target_says_is_recorded(outbox: Outbox) -> None:
    said = [Launched("started", "id-1", "http://x/1"), Launched("failed_run", "id-2", error="exit code 3")]
    await outbox.open(t=TargetRuntime(FakeTarget(said), max_in_flight=1))
    keys = await outbox.put(2)
    await outbox.wake()
    first, second = (outbox.row(key) for key in keys)
    assert (first.state, first.run_id, first.url, first.error) == ("started", "id-1", "http://x/1", "")
    assert (second.state, second.run_id, second.error) == ("failed_run", "id-2", "exit code 3")
    assert (outbox.shown("launched"), outbox.shown("failed_runs")) == (1, 1)


async def test_what_is_refused_fails_at_once_and_visibly(outbox: Outbox) -> None:
    target = FakeTarget([Refused("404: no such job")])
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    await outbox.clock.advance(1000)
    assert (outbox.row(key).state, outbox.row(key).error) == ("failed", "404: no such job")
    assert target.launches[key] == 1
    assert outbox.shown("last_error") == "404: no such job"


async def test_what_fails_transiently_is_tried_again_after_a_growing_delay(outbox: Outbox) -> None:
    target = FakeTarget()
    target.fail(2)
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    assert (outbox.row(key).state, target.launches[key]) == ("pending", 1)
    await outbox.clock.advance(9)
    assert target.launches[key] == 1
    await outbox.clock.advance(2)
    assert target.launches[key] == 2
    await outbox.clock.advance(18)
    assert target.launches[key] == 2
    await outbox.clock.advance(3)
    assert (outbox.row(key).state, target.launches[key]) == ("succeeded", 3)


async def test_the_target_may_ask_for_a_longer_delay_but_not_for_a_shorter(outbox: Outbox) -> None:
    target = FakeTarget([Transient("busy", retry_after=60.0), Transient("busy", retry_after=0.001)])
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    await outbox.clock.advance(59)
    assert target.launches[key] == 1
    await outbox.clock.advance(2)
    assert target.launches[key] == 2
    await outbox.clock.advance(15)
    assert target.launches[key] == 2


@pytest.mark.parametrize("asked", [-5.0, float("nan"), float("inf"), 1e300])
async def test_an_absurd_delay_is_not_kept(outbox: Outbox, asked: float) -> None:
    target = FakeTarget([Transient("busy", retry_after=asked)])
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    due = outbox.row(key).due
    assert due is not None
    assert due - outbox.clock.now() <= 86400


async def test_attempts_are_bounded_and_the_last_error_stays(outbox: Outbox) -> None:
    target = FakeTarget([Transient(f"error {n}") for n in range(9)])
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    await outbox.clock.advance(1000)
    assert target.launches[key] == 4
    assert outbox.row(key).state == "failed"
    assert outbox.row(key).error == "gave up after 4 attempts, the last: error 3"
    assert (outbox.shown("retried"), outbox.shown("failed")) == (3, 1)


async def test_an_exception_that_nobody_expects_is_transient_and_shows_its_stack(outbox: Outbox) -> None:
    target = FakeTarget([ZeroDivisionError("a defect")])
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    with capture_logs() as lines:
        await outbox.wake()
    assert (outbox.row(key).state, outbox.row(key).error) == ("pending", "ZeroDivisionError: a defect")
    (entry,) = [entry for entry in lines if entry["log_level"] == "warning"]
    assert (entry["run_key"], entry["exc_info"]) == (key, True)


async def test_a_thousand_failures_are_not_a_thousand_log_lines(outbox: Outbox) -> None:
    target = FakeTarget()
    target.fail(1000)
    await outbox.open(t=target)
    await outbox.put(1000)
    with capture_logs() as lines:
        await outbox.clock.advance(4)
    assert outbox.shown("retried") == 1000
    assert len(lines) == 1


async def test_errors_are_text_that_a_store_takes(outbox: Outbox) -> None:
    target = FakeTarget([Refused("a\0b\ud800" + "x" * 100_000 + "end"), Launched("failed_run", error="")])
    await outbox.open(t=TargetRuntime(target, max_in_flight=1))
    first, second = await outbox.put(2)
    await outbox.wake()
    error = outbox.row(first).error
    assert error.startswith("a\ufffdb?x")
    assert error.endswith("end")
    assert len(error) <= ERROR_MOST + 10
    assert outbox.row(second).error == "the target gives no reason"


async def test_a_target_that_answers_nonsense_is_a_defect_of_the_target(outbox: Outbox) -> None:
    class Mute(FakeTarget):
        async def launch(self, claim: Claim) -> Launched:
            await super().launch(claim)
            return None  # type: ignore[return-value]

    await outbox.open(t=Mute())
    (key,) = await outbox.put(1)
    await outbox.wake()
    assert outbox.row(key).state == "pending"
    assert "AttributeError" in outbox.row(key).error


# Time ----------------------------------------------------------------------------------------------------------------


async def test_a_launch_that_outlasts_its_time_is_ended_and_comes_back_as_ambiguous(outbox: Outbox) -> None:
    target = FakeTarget(timeout=10.0)
    target.hold()
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    await outbox.clock.advance(10 + MARGIN + 2)
    assert (outbox.shown("in_flight"), outbox.shown("overdue")) == (0, 1)
    assert outbox.row(key).state == "dispatching"
    target.release()
    await outbox.clock.advance(60)
    assert (outbox.row(key).state, outbox.row(key).ambiguous) == ("succeeded", True)


async def test_launches_that_always_outlast_their_time_are_given_up(outbox: Outbox) -> None:
    target = FakeTarget(timeout=10.0)
    target.hold()
    await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.clock.advance(400)
    assert outbox.row(key).state == "failed"
    assert outbox.row(key).error == "gave up after 4 attempts, the last: no answer after 25s"


async def test_a_target_that_ends_well_although_it_was_told_to_stop_counts(outbox: Outbox) -> None:
    class Stubborn(FakeTarget):
        async def launch(self, claim: Claim) -> Launched:
            try:
                return await super().launch(claim)
            except asyncio.CancelledError:
                return Launched("succeeded", "after all")

    target = Stubborn(timeout=10.0)
    target.hold()
    await outbox.open(t=TargetRuntime(target, max_in_flight=1))
    keys = await outbox.put(2)
    await outbox.clock.advance(10 + MARGIN + 3)
    assert outbox.row(keys[0]).run_id == "after all"
    assert outbox.shown("in_flight") == 1  # the seat goes on with the next
    await outbox.clock.advance(10 + MARGIN + 3)
    assert outbox.row(keys[1]).run_id == "after all"


async def test_a_run_with_too_little_lease_left_is_not_sent_and_comes_back(outbox: Outbox) -> None:
    target = FakeTarget(timeout=100.0)
    target.hold()
    await outbox.open(t=TargetRuntime(target, max_in_flight=1))
    first, second = await outbox.put(2)
    await outbox.clock.advance(100 + MARGIN + 2)
    assert (target.launches[first], target.launches[second]) == (1, 0)
    assert outbox.shown("unsent") == 1
    target.release()
    await outbox.clock.advance(200)
    assert outbox.states([first, second]) == ["succeeded"] * 2
    assert outbox.row(second).ambiguous


async def test_the_lease_covers_a_launch_of_the_configured_time(outbox: Outbox) -> None:
    leases: list[float] = []
    claim = outbox.store.claim

    async def noted(name: str, limit: int, lease: float) -> list[Claim]:
        leases.append(lease)
        return await claim(name, limit, lease)

    outbox.store.claim = noted  # type: ignore[method-assign]
    await outbox.open(a=TargetRuntime(FakeTarget(timeout=1.0)), b=TargetRuntime(FakeTarget(), timeout=1000.0))
    assert leases[0] >= 60
    assert leases[1] >= 2000


# A store that is away ------------------------------------------------------------------------------------------------


async def test_while_the_store_is_away_claims_back_off_and_then_go_on(outbox: Outbox) -> None:
    calls = 0
    claim = outbox.store.claim

    async def counted(name: str, limit: int, lease: float) -> list[Claim]:
        nonlocal calls
        calls += 1
        return await claim(name, limit, lease)

    outbox.store.claim = counted  # type: ignore[method-assign]
    await outbox.open(t=FakeTarget())
    keys = await outbox.put(1)
    outbox.store.available = False
    calls = 0
    with capture_logs() as lines:
        for _ in range(120):
            await outbox.wake()
            await outbox.clock.advance(0.5)
    assert 3 < calls < 20
    assert len(lines) < 20
    assert "away" in str(outbox.shown("trouble"))
    outbox.store.available = True
    await outbox.clock.advance(12)
    assert outbox.states(keys) == ["succeeded"]
    assert outbox.shown("trouble") == ""


async def test_while_results_are_not_confirmed_no_more_than_the_bound_is_launched(outbox: Outbox) -> None:
    target = FakeTarget()
    await outbox.open(t=target)
    outbox.committer.away = True
    keys = await outbox.put(5 * AHEAD_MOST)
    await outbox.clock.advance(30)
    assert 0 < len(target.effects) <= AHEAD_MOST
    outbox.committer.back()
    await outbox.clock.advance(5)
    assert set(outbox.states(keys)) == {"succeeded"}
    assert outbox.shown("unconfirmed") == 0


# Ends ----------------------------------------------------------------------------------------------------------------


async def test_stop_waits_for_what_is_in_flight_and_gives_the_rest_back(outbox: Outbox) -> None:
    target = FakeTarget()
    target.hold()
    dispatcher = await outbox.open(t=TargetRuntime(target, max_in_flight=2))
    keys = await outbox.put(6)
    await outbox.wake()
    stopping = asyncio.create_task(dispatcher.stop(20.0))
    await outbox.clock.advance(5)
    assert not stopping.done()
    assert outbox.states(keys).count("pending") == 4
    target.release()
    await outbox.clock.settle()
    assert await stopping
    assert outbox.states(keys).count("succeeded") == 2
    assert not any(outbox.row(key).ambiguous for key in keys)
    assert outbox.life is not None
    await outbox.life
    await outbox.clock.advance(100)
    assert len(target.effects) == 2


async def test_what_is_claimed_while_the_dispatcher_stops_goes_back(outbox: Outbox) -> None:
    target = FakeTarget()
    dispatcher = await outbox.open(t=target)
    claim = outbox.store.claim

    async def slow(name: str, limit: int, lease: float) -> list[Claim]:
        claims = await claim(name, limit, lease)
        await outbox.clock.sleep(0.5)
        return claims

    outbox.store.claim = slow  # type: ignore[method-assign]
    keys = await outbox.put(3)
    await outbox.wake()
    stopping = asyncio.create_task(dispatcher.stop(20.0))
    await outbox.clock.advance(1)
    assert await stopping
    assert outbox.states(keys) == ["pending"] * 3
    assert target.effects == []


async def test_stop_leaves_after_its_share_and_the_next_life_looks(outbox: Outbox) -> None:
    target = FakeTarget()
    target.hold()
    dispatcher = await outbox.open(t=target)
    (key,) = await outbox.put(1)
    await outbox.wake()
    stopping = asyncio.create_task(dispatcher.stop(20.0))
    await outbox.clock.advance(19)
    assert not stopping.done()
    await outbox.clock.advance(2)
    assert await stopping is False
    assert outbox.row(key).state == "dispatching"
    target.release()
    await outbox.die()
    await outbox.open(t=target)
    await outbox.clock.advance(1)
    assert (outbox.row(key).state, outbox.row(key).ambiguous) == ("succeeded", True)
    assert target.effects == [(key, 0)]


async def test_stop_is_quick_while_the_store_is_away(outbox: Outbox) -> None:
    dispatcher = await outbox.open(t=FakeTarget())
    outbox.store.available = False
    await outbox.clock.advance(30)
    assert await asyncio.wait_for(dispatcher.stop(20.0), 1)


async def test_stopping_twice_or_before_the_start_is_harmless(outbox: Outbox) -> None:
    idle = Dispatcher(outbox.store, outbox.committer, {}, outbox.clock, lambda: 0.0)
    assert await idle.stop(1.0)
    dispatcher = await outbox.open(t=FakeTarget())
    assert await dispatcher.stop(1.0)
    assert await dispatcher.stop(1.0)


async def test_without_a_target_it_runs_until_it_is_stopped(outbox: Outbox) -> None:
    dispatcher = await outbox.open()
    await outbox.clock.advance(5)
    assert outbox.life is not None
    assert not outbox.life.done()
    assert await dispatcher.stop(1.0)
    await asyncio.wait_for(outbox.life, 1)


async def test_cancelling_ends_every_task(outbox: Outbox) -> None:
    target = FakeTarget()
    target.hold()
    before = asyncio.all_tasks()
    await outbox.open(t=target, u=FakeTarget())
    await outbox.put(3)
    await outbox.wake()
    await outbox.die()
    await outbox.clock.settle()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_death_at_a_launch_ends_the_life_and_the_next_has_one_effect_each(outbox: Outbox, when: str) -> None:
    target = FakeTarget()
    target.die(when, 3, Died())
    await outbox.open(t=target)
    keys = await outbox.put(8)
    await outbox.wake()
    assert outbox.life is not None
    with pytest.raises(Died):
        await outbox.life
    await outbox.die()
    await outbox.open(t=target)
    await outbox.clock.advance(1)
    assert outbox.states(keys) == ["succeeded"] * 8
    assert sorted(target.effects) == [(key, 0) for key in keys]


async def test_a_defect_of_ours_costs_one_seat_one_turn(outbox: Outbox) -> None:
    target = FakeTarget([Transient("no")])
    outbox.rolls = [RuntimeError("a defect in the back-off")]
    await outbox.open(t=TargetRuntime(target, max_in_flight=1))
    keys = await outbox.put(3)
    with capture_logs() as lines:
        await outbox.wake()
        await outbox.clock.advance(5)
    assert any("started again" in entry["event"] for entry in lines)
    assert outbox.states(keys) == ["dispatching", "succeeded", "succeeded"]
    await outbox.clock.advance(60)
    assert outbox.states(keys) == ["succeeded"] * 3


# What a target keeps -------------------------------------------------------------------------------------------------


async def test_a_target_hears_which_results_are_durable_and_only_of_those(outbox: Outbox) -> None:
    target = FakeTarget([Transient("later"), Refused("never"), Launched("failed_run")])
    await outbox.open(t=TargetRuntime(target, max_in_flight=1, retry=RETRY))
    later, never, failed = await outbox.put(3)
    outbox.committer.away = True
    await outbox.wake()
    await outbox.clock.advance(1)
    assert target.recordings == []
    outbox.committer.back()
    await outbox.clock.advance(1)
    assert target.recordings[0] == never
    assert failed in target.recordings
    assert later not in target.recordings
    await outbox.clock.advance(20)
    assert target.recordings[-1] == later


async def test_of_a_commit_with_a_stale_result_nothing_is_said(outbox: Outbox) -> None:
    target = FakeTarget()
    target.hold()
    await outbox.open(t=target)
    keys = await outbox.put(2)
    await outbox.wake()
    other = await outbox.store.claim("t", 10, 60.0)
    assert other == []
    outbox.row(keys[0]).epoch += 1  # another instance has claimed it meanwhile
    target.release()
    await outbox.clock.settle()
    assert outbox.states(keys) == ["dispatching", "succeeded"]
    assert target.recordings == []


async def test_a_target_that_fails_to_take_note_stops_nothing(outbox: Outbox) -> None:
    class Deaf(FakeTarget):
        def recorded(self, claims: Sequence[Claim]) -> None:
            raise OSError("disk full")

    await outbox.open(t=Deaf())
    keys = await outbox.put(1)
    await outbox.wake()
    keys += await outbox.put(1)
    await outbox.wake()
    assert outbox.states(keys) == ["succeeded"] * 2
    assert outbox.shown("unconfirmed") == 0


async def test_targets_forget_once_an_hour_what_is_older_than_a_day(outbox: Outbox) -> None:
    asked: list[float] = []
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Forgetful(FakeTarget):
        def forget(self, before: float) -> int:
            asked.append(before)
            loop.call_soon_threadsafe(heard.set)
            return 1

    await outbox.open(t=Forgetful())
    await outbox.clock.advance(FORGET_EVERY - 1)
    assert asked == []
    await outbox.clock.advance(2)
    await asyncio.wait_for(heard.wait(), 5)
    assert asked[0] == pytest.approx(outbox.clock.now() - FORGET_AGE, abs=2)


async def test_a_snapshot_is_plain_values(outbox: Outbox) -> None:
    dispatcher = await outbox.open(t=FakeTarget())
    await outbox.put(2)
    await outbox.wake()
    shown = dispatcher.snapshot()["t"]
    assert shown["launched"] == 2
    assert all(isinstance(value, int | float | str) for value in shown.values())
