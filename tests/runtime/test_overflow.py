"""`overflow: fail`: a Python watcher that is too far behind fails what comes in addition, and that comes again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from bridge.shared_stream import UNORDERED, current_message
from bridge.testing import MemoryProducer
from bridge.triggers import TriggerEvent


class Redelivering(MemoryProducer):
    """What failed is read again after a moment, as a broker does it."""

    def __init__(self, broker: Any, most: int = 100) -> None:
        super().__init__(broker, most)
        self.rounds = 0

    async def advance(self, batch: Any) -> None:
        await super().advance(batch)
        failed = [payload for payload, outcome in batch if outcome.failed]
        if failed:
            self.rounds += 1
            asyncio.get_running_loop().call_later(0.005, self._again, failed[0])

    def _again(self, payload: Any) -> None:
        self._next[payload.lane] = min(self._next[payload.lane], payload.offset)
        self.broker.send([], payload.lane)


def stuck(go_on: threading.Event) -> Any:
    """Holds its first event until somebody says so."""

    async def filter(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            while not go_on.is_set():  # noqa: ASYNC110  # it is set on another loop
                await asyncio.sleep(0.005)
            if False:
                yield

    return filter


def overflowing(rig: Any, size: int) -> None:
    rig.limits = replace(rig.limits, queue_size=size)
    rig.producer = lambda: Redelivering(rig.broker)


@pytest.mark.parametrize("lane", ["lane", UNORDERED])
async def test_a_backlog_larger_than_the_queue_drains_and_no_try_is_spent(rig: Any, body: Any, lane: Any) -> None:
    attempts: set[int] = set()

    async def slow(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            attempts.add(message.attempt)
            await asyncio.sleep(0)
            yield TriggerEvent(event)

    overflowing(rig, size=20)
    rig.python("slow", slow)
    rig.declare("all", {"kind": "x"})
    rig.broker.send([body(n=n, kind="x") for n in range(300)], lane)
    await rig.start()
    await rig.drained(30)
    assert rig.runs == sorted(f"{w}/memory/{lane}:{n}/0" for w in ("all", "slow") for n in range(300))
    assert attempts == {1}
    assert not rig.letters
    assert not rig.store.tables.attempts
    seat = rig.stream.shell.core.seats["slow"]
    assert seat.overflowed
    assert seat.failures == 0
    assert rig.stream.status(0.0)["watchers"]["slow"]["overflowed"] == seat.overflowed


async def test_what_is_within_the_size_makes_progress_each_round(rig: Any, body: Any) -> None:
    seen: list[int] = []

    async def patient(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            seen.append(event["n"])
            if False:
                yield

    overflowing(rig, size=10)
    rig.python("patient", patient)
    rig.broker.send([body(n=n) for n in range(100)])
    await rig.start()
    await rig.drained()
    assert seen == list(range(100)), "each event once, in order"
    assert rig.producers[0].rounds == 9


async def test_declarative_watchers_never_overflow(rig: Any, body: Any) -> None:
    overflowing(rig, size=1)
    rig.declare("all", {"kind": "x"})
    rig.broker.send([body(kind="x") for _ in range(500)])
    await rig.start()
    await rig.drained()
    assert len(rig.runs) == 500
    assert rig.producers[0].rounds == 0


async def test_what_failed_for_the_slow_one_reaches_a_quick_one_at_once(rig: Any, body: Any, until: Any) -> None:
    go_on = threading.Event()

    async def quick(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            yield TriggerEvent(event)

    overflowing(rig, size=50)
    rig.python("stuck", stuck(go_on))
    rig.python("quick", quick)
    rig.declare("all", {"kind": "x"})
    rig.broker.send([body(n=n, kind="x") for n in range(40)])
    await rig.start()
    await until(lambda: len(rig.runs) == 80)
    rig.broker.send([body(n=n, kind="x") for n in range(40, 60)])
    await until(lambda: sum(key.startswith("all/") for key in rig.runs) == 60)
    assert rig.stream.shell.core.seats["stuck"].overflowed == 10
    assert not rig.broker.settled
    go_on.set()
    await rig.drained()
    assert len(rig.runs) == 120


async def test_the_limits_of_the_stream_go_on_to_hold(rig: Any, body: Any, until: Any) -> None:
    go_on = threading.Event()

    overflowing(rig, size=10)
    rig.limits = replace(rig.limits, max_outstanding=200)
    rig.python("stuck", stuck(go_on))
    rig.broker.send([body(n=n) for n in range(1000)])
    await rig.start()
    await until(lambda: rig.stream.shell and rig.stream.shell.core.has_paused_lanes)
    assert rig.stream.shell.core.outstanding <= 200
    go_on.set()
    await rig.drained(30)
    assert not rig.letters


async def test_what_fails_and_comes_again_for_ever_is_no_progress(rig: Any, body: Any, until: Any) -> None:
    """Or a stream that settles nothing would be shown healthy."""
    go_on = threading.Event()
    overflowing(rig, size=1)
    rig.python("stuck", stuck(go_on))
    rig.broker.send([body(n=0)], "a")
    await rig.start()
    await until(lambda: rig.stream.shell and rig.stream.shell.core.outstanding)
    rig.broker.send([body(n=0)], "b")
    await until(lambda: rig.producers[0].rounds > 2)
    shell = rig.stream.shell
    before, rounds = shell.last_progress, rig.producers[0].rounds
    await until(lambda: rig.producers[0].rounds > rounds + 2)
    assert shell.last_progress == before
    assert shell.trouble(before + 61.0, 60.0).startswith("no progress for 61 s")
    go_on.set()
    await rig.drained()
