"""Every place in which the process may die, one at a time: lost 0, doubled 0.

`Dying` kills the whole shell before or after the n-th call of one method; what was in memory is gone, the broker and
the store stay, and the next life begins.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from bridge.core.errors import OwnershipLost, Transient
from bridge.shared_stream import UNORDERED, Poll, reject_shared_stream_event
from bridge.testing import Dying, MemoryProducer
from bridge.triggers import TriggerEvent

LANES: list[Any] = ["a", "b", UNORDERED]


def load(rig: Any, body: Any, each: int = 40) -> None:
    """Messages of every kind, over ordered lanes and the unordered one."""
    rig.declare("eu", {"region": ["eu", "uk"]}, {"n": "${event.n}"})
    rig.declare("gold", {"customer": {"tier": "gold"}})
    rig.python("odd", odd)
    for lane in LANES:
        rig.broker.send(
            [
                b"{broken"
                if n % 13 == 5
                else body(n=n, region=["eu", "us"][n % 2], customer={"tier": ["gold", "tin"][n % 3 > 0]})
                for n in range(each)
            ],
            lane,
        )


async def odd(stream: Any) -> AsyncIterator[TriggerEvent]:
    async for event in stream:
        if event["n"] % 10 == 7:
            reject_shared_stream_event("sevens")
        elif event["n"] % 2:
            yield TriggerEvent({"n": event["n"]})


def expected(each: int = 40) -> tuple[list[str], Counter[str]]:
    runs: list[str] = []
    letters: Counter[str] = Counter()
    for lane in LANES:
        for n in range(each):
            where = f"memory/{lane}:{n}/0"
            if n % 13 == 5:
                letters["malformed"] += 1
                continue
            if n % 2 == 0:
                runs.append(f"eu/{where}")
            if n % 3 == 0:
                runs.append(f"gold/{where}")
            if n % 10 == 7:
                letters["sevens"] += 1
            elif n % 2:
                runs.append(f"odd/{where}")
    return sorted(runs), letters


async def live_until_death_and_again(rig: Any, until: Any, died: asyncio.Event) -> None:
    await rig.start()
    await until(lambda: died.is_set() or rig.broker.is_drained, 60)  # calls join up: there may be fewer than `at`
    await rig.crash()
    rig.store = rig.store_after()
    rig.producer = lambda: MemoryProducer(rig.broker, most=7)
    await rig.start()
    await until(lambda: rig.broker.is_drained, 60)


def arrange(rig: Any, port: str, method: str, at: int, after: bool) -> asyncio.Event:
    """The n-th call of a method of a port is where everything ends."""
    died = asyncio.Event()
    loop = asyncio.get_running_loop()

    def die() -> None:
        loop.call_soon(died.set)
        raise asyncio.CancelledError  # the task that made the call goes no further

    inner = rig.store
    rig.store_after = lambda: inner.restarted()
    rig.producer = lambda: MemoryProducer(rig.broker, most=7)
    if port == "store":
        rig.store = Dying(inner, method, at=at, after=after, die=die)
    else:
        rig.producer = lambda: Dying(MemoryProducer(rig.broker, most=7), method, at=at, after=after, die=die)
    return died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 7])
@pytest.mark.parametrize(("port", "method"), [("store", "commit"), ("producer", "advance")])
async def test_a_crash_around_any_call_loses_and_doubles_nothing(
    rig: Any, body: Any, until: Any, port: str, method: str, at: int, after: bool
) -> None:
    load(rig, body)
    died = arrange(rig, port, method, at, after)
    await live_until_death_and_again(rig, until, died)
    runs, letters = expected()
    assert rig.runs == runs
    assert Counter(reason for _, _, reason in rig.letters) == letters


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.parametrize("commit", [1, 2, 5])
async def test_a_commit_whose_result_is_unknown_is_simply_run_again(
    rig: Any, body: Any, until: Any, commit: int, how: Any
) -> None:
    load(rig, body)
    rig.store.faults = {commit: how}
    await rig.start()
    await until(lambda: rig.broker.is_drained, 60)
    runs, letters = expected()
    assert rig.runs == runs
    assert Counter(reason for _, _, reason in rig.letters) == letters
    assert not any(run.repeats for run in rig.store.tables.runs.values())


async def test_nothing_is_settled_while_the_store_is_away_and_no_try_is_spent(rig: Any, body: Any, until: Any) -> None:
    load(rig, body, each=0)
    await rig.start()
    await until(lambda: rig.stream.state == "running")
    rig.store.available = False
    rig.declared, rig.watch = [], []
    load(rig, body)
    await until(lambda: rig.persister.trouble is not None, 60)
    settled = dict(rig.broker.settled)
    seats = rig.stream.shell.core.seats
    await asyncio.sleep(0.1)  # real time: the outage lasts for many repetitions of the commit
    assert not rig.runs
    assert all(outcome.is_clean for outcome in settled.values())
    assert seats["odd"].failures == 0
    rig.store.available = True
    await until(lambda: rig.broker.is_drained, 60)
    assert rig.runs == expected()[0]
    assert rig.stream.failures == 0


async def test_a_replay_is_read_again_by_the_watcher_that_refused_it_alone(rig: Any, body: Any, until: Any) -> None:
    seen: list[int] = []

    async def picky(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            seen.append(event["n"])
            if len(seen) == 1:
                reject_shared_stream_event("not today")
            else:
                yield TriggerEvent(event)

    rig.declare("all", {"n": [1]})
    rig.python("picky", picky)
    rig.broker.send([body(n=1)])
    await rig.start()
    await rig.drained()
    assert (rig.runs, rig.letters) == (["all/memory/lane:0/0"], [("picky", "lane:0", "not today")])
    (letter,) = rig.store.tables.letters.values()
    rig.store.post("replay", dead_letters=[letter.id])
    await rig.store.take_intents()
    await rig.stream.replay()
    await until(lambda: letter.state == "replayed" and not rig.stream.shell.replaying)
    assert rig.runs == ["all/memory/lane:0/0", "picky/memory/lane:0/0"]
    assert seen == [1, 1]
    assert not any(run.repeats for run in rig.store.tables.runs.values())


async def test_a_transient_failure_to_advance_is_repeated_in_order(rig: Any, body: Any) -> None:
    class Shaky(MemoryProducer):
        calls = 0

        async def advance(self, batch: Any) -> None:
            Shaky.calls += 1
            if Shaky.calls % 3 == 0:
                raise Transient("try again")
            await super().advance(batch)

    load(rig, body)
    rig.producer = lambda: Shaky(rig.broker, most=5)
    await rig.start()
    await rig.drained()
    assert rig.runs == expected()[0]
    assert rig.stream.failures == 0


async def test_a_lane_that_went_elsewhere_is_dropped_and_its_runs_are_recognised_when_it_comes_again(
    rig: Any, body: Any, until: Any
) -> None:
    class Losing(MemoryProducer):
        lost = False

        async def advance(self, batch: Any) -> None:
            if batch[0].broker_payload.lane == "a" and not Losing.lost:
                Losing.lost = True
                self._next.pop("a")  # the broker delivers the lane again
                self.broker.send([], "a")
                raise OwnershipLost("rebalanced")
            await super().advance(batch)

    load(rig, body)
    rig.producer = lambda: Losing(rig.broker, most=5)
    await rig.start()
    await until(lambda: rig.broker.is_drained, 60)
    assert rig.runs == expected()[0]
    assert rig.stream.failures == 0


async def test_any_other_error_of_advance_ends_the_group_and_it_starts_again(rig: Any, body: Any, until: Any) -> None:
    class Broken(MemoryProducer):
        broken = False

        async def advance(self, batch: Any) -> None:
            if not Broken.broken:
                Broken.broken = True
                raise ValueError("a defect")
            await super().advance(batch)

    load(rig, body)
    rig.producer = lambda: Broken(rig.broker, most=5)
    await rig.start()
    await until(lambda: rig.broker.is_drained, 60)
    assert rig.runs == expected()[0]
    assert rig.stream.failures == 1
    assert len(rig.producers) == 2
    assert rig.producers[0].is_closed


async def test_a_producer_that_ends_or_raises_is_started_again(rig: Any, body: Any, until: Any) -> None:
    lives: list[int] = []

    class Ending(MemoryProducer):
        async def open_batches(self) -> Any:
            lives.append(1)
            if len(lives) == 1:
                return
            if len(lives) == 2:
                raise OSError("no broker")
            async for poll in super().open_batches():
                yield poll

    load(rig, body)
    rig.producer = lambda: Ending(rig.broker, most=5)
    await rig.start()
    await until(lambda: rig.broker.is_drained, 60)
    assert rig.runs == expected()[0]
    assert len(lives) == 3
    assert all(p.is_closed for p in rig.producers[:2])


async def test_a_stop_in_the_instant_in_which_a_life_has_ended_is_heeded(rig: Any, until: Any) -> None:
    """`asyncio.wait_for` of Python 3.11 swallows a cancellation that comes together with the result."""

    class Ending(MemoryProducer):
        async def open_batches(self) -> AsyncIterator[Poll]:
            raise ConnectionError("no broker")
            yield

        async def aclose(self) -> None:
            rig._tasks[-1].cancel()

    rig.declare("w", {"n": [1]})
    rig.producer = lambda: Ending(rig.broker)
    await rig.start()
    polling = rig._tasks[-1]
    await until(polling.done)
    assert len(rig.producers) == 1


async def test_a_graceful_stop_settles_what_is_resolved_and_nothing_else(rig: Any, body: Any, until: Any) -> None:
    async def half(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] >= 20:
                await asyncio.sleep(60)
            yield TriggerEvent(event)

    rig.python("half", half)
    rig.broker.send([body(n=n) for n in range(40)])
    await rig.start()
    await until(lambda: len(rig.runs) == 20)
    assert await rig.stop()
    assert sorted(p.offset for p in rig.broker.settled) == list(range(20))
    assert rig.producers[0].is_closed


async def test_a_backlog_larger_than_the_limits_drains_with_one_outcome_an_event(
    rig: Any, body: Any, until: Any
) -> None:
    async def slow(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] % 50 == 0:
                await asyncio.sleep(0.001)
            if False:
                yield

    rig.python("slow", slow)
    rig.declare("some", {"n": [1, 2, 3]})
    rig.limits = replace(rig.limits, max_outstanding=40)
    for lane in ("a", "b"):
        rig.broker.send([body(n=n) for n in range(1000)], lane)
    most = 0

    await rig.start()

    def drained() -> bool:
        nonlocal most
        shell = rig.stream.shell
        most = max(most, shell.core.outstanding if shell is not None else 0)
        return bool(rig.broker.is_drained)

    await until(drained, 30)
    assert rig.broker.settlements == 2000
    assert len(rig.runs) == 6
    assert most <= 40 + 2 * 100  # the bound, and the one poll that went over it


async def test_a_declarative_watcher_is_disabled_and_enabled_while_its_stream_runs(
    rig: Any, body: Any, until: Any
) -> None:
    rig.declare("one", {"kind": "x"})
    rig.declare("two", {"kind": "x"})
    await rig.start()
    for number, change in enumerate([None, rig.stream.disable, rig.stream.enable]):
        if change is not None:
            change("two")
        rig.broker.send([body(kind="x")])
        await until(lambda: rig.broker.is_drained)
        assert rig.broker.settled["lane", number].acked == (1 if number == 1 else 2)
    assert [key.split("/")[0] + key.split(":")[1] for key in rig.runs] == [
        "one0/0",
        "one1/0",
        "one2/0",
        "two0/0",
        "two2/0",
    ]
    assert rig.stream.failures == 0


async def test_a_python_watcher_that_is_disabled_and_enabled_at_once_is_there_again(
    rig: Any, body: Any, until: Any
) -> None:
    async def every(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] == 0:
                await asyncio.sleep(60)
            yield TriggerEvent(event)

    rig.declare("never", {"n": [-1]})
    rig.python("every", every)
    rig.broker.send([body(n=0)])
    await rig.start()
    await until(lambda: rig.stream.shell and rig.stream.shell.core.seats["every"].open)
    rig.stream.disable("every")
    rig.stream.enable("every")
    await until(lambda: len(rig.producers) == 2 and rig.stream.state == "running")
    rig.broker.send([body(n=1)])
    await until(lambda: rig.broker.is_drained and len(rig.runs) == 1)
    assert rig.letters == [("every", "lane:0", "watcher_unavailable")]
    assert rig.runs == ["every/memory/lane:1/0"]
