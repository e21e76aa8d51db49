"""The engine alone: from a producer through the shell to `advance`, without a broker and without a disk.

    python -m bench.engine [--json] [CASE...]

The producers here hand over prepared polls and count what is advanced, so what is measured is ours. Every case checks
that each event was advanced once.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from bench.common import Case, Need, Result, cost, documents, main, rate
from bridge.core.commands import Advance, Command, Limits, Persist
from bridge.core.group import StreamGroup
from bridge.core.model import AdvanceItem, Plan, Poll, Routed, Slice
from bridge.core.seat import Seat
from bridge.core.window import SKIPPED
from bridge.filters.recipe import Recipe
from bridge.filters.router import Declared, FilterRouter
from bridge.language.reading.match import compile_match
from bridge.params.plans import compile_params
from bridge.ports import Meta, Receipt, Row
from bridge.runtime.clock import SystemClock
from bridge.runtime.group import GroupShell, Life
from bridge.runtime.persister import Persister
from bridge.runtime.rows import Source
from bridge.runtime.runner import WatcherSpec
from bridge.runtime.watchers import Watchers
from bridge.shared_stream import SharedStreamProducer
from bridge.triggers import BaseEventTrigger, TriggerEvent

EVENTS = 100_000
POLL = 500
WIDE = Limits(max_outstanding=1 << 30, max_outstanding_bytes=1 << 40)


def _poll(bodies: list[bytes], start: int) -> Poll:
    mine = bodies[start : start + POLL]
    return Poll([Slice("lane", 0, len(mine))], mine, list(range(start, start + len(mine))))


class Prepared(SharedStreamProducer):
    """Hands over what it was given in polls of 500, and counts what comes back."""

    def __init__(self, bodies: list[bytes]) -> None:
        self.bodies = bodies
        self.polls = [_poll(bodies, start) for start in range(0, len(bodies), POLL)]
        self.advanced = 0
        self.done = asyncio.Event()

    async def open_batches(self) -> AsyncIterator[Poll]:
        for poll in self.polls:
            yield poll
        await asyncio.Event().wait()

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        for number, body in enumerate(self.bodies):
            yield body, number
        await asyncio.Event().wait()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        self.advanced += len(batch)
        if self.advanced >= len(self.bodies):
            self.done.set()

    def identity(self, broker_payload: Any) -> str:
        return f"{broker_payload}"

    def describe(self, broker_payload: Any) -> Meta:
        return Meta(f"lane at {broker_payload}")


class Plain(Prepared):
    """The plain contract: pairs from `open_stream`, gathered by the default `open_batches`."""

    open_batches = SharedStreamProducer.open_batches


class Counting:
    """A store in memory that keeps the rows: nothing is written, looked up or forgotten."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        self.rows += rows
        return Receipt(1, stored=len(rows))


def router(count: int, prefix: str = "t") -> FilterRouter:
    """`count` watchers with an equality each."""
    nothing = compile_params({})
    return FilterRouter(
        [
            Declared(Plan(f"w{i}", "asset", "target", "job"), compile_match({"tenant": f"{prefix}{i}"}), nothing)
            for i in range(count)
        ],
        max_body=1 << 20,
    )


async def _through(producer: Prepared, routes: FilterRouter, watcher: WatcherSpec | None, limits: Limits) -> float:
    clock = SystemClock()
    persister = Persister(Counting(), clock, random.random)  # type: ignore[arg-type]
    watchers = Watchers(random.random, lambda: None)
    source = Source("stream", "source", producer.identity, producer.describe)
    life = Life("stream", producer, routes, source, limits, persister, watchers, clock, random.random, lambda _: None)
    seats = [Seat(watcher.plan)] if watcher is not None else []
    shell = GroupShell(life, seats)
    if watcher is not None:
        watchers.open(watcher, seats[0], source, shell.front)
        while not watchers.is_up(seats[0]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    persisting = asyncio.create_task(persister.run())
    began = time.perf_counter()
    running = asyncio.create_task(shell.run())
    async with asyncio.timeout(120):
        await producer.done.wait()
    took = time.perf_counter() - began
    for task in (running, persisting):
        task.cancel()
    await asyncio.gather(running, persisting, return_exceptions=True)
    watchers.stop()
    assert producer.advanced == len(producer.bodies)
    return took / len(producer.bodies)


def engine(
    bodies: list[bytes],
    routes: FilterRouter,
    kind: Callable[[list[bytes]], Prepared] = Prepared,
    watcher: Callable[[], WatcherSpec] | None = None,
    limits: Limits = WIDE,
) -> float:
    """Seconds per event through the whole shell."""
    return asyncio.run(_through(kind(bodies), routes, watcher() if watcher else None, limits))


def bare(bodies: list[bytes]) -> float:
    """Seconds per event of a loop that decodes each whole document, and does nothing else."""
    decode = msgspec.json.Decoder().decode
    began = time.perf_counter()
    for body in bodies:
        decode(body)
    return (time.perf_counter() - began) / len(bodies)


def _one(name: str, size: int) -> Result:
    bodies = documents(EVENTS, size, 10_000, prefix="nobody")
    routes = router(1)
    return rate(name, lambda: engine(bodies, routes), lambda: bare(bodies), "bare loop, whole document")


def _many(name: str, count: int) -> Result:
    bodies = documents(EVENTS, 300, 10_000, prefix="nobody")
    one, many = router(1), router(count)
    return rate(name, lambda: engine(bodies, many), lambda: engine(bodies, one), "engine_1")


def _hit() -> Result:
    hits = documents(EVENTS, 300, 1000)
    misses = documents(EVENTS, 300, 10_000, prefix="nobody")
    one, many = router(1), router(1000)
    return rate("engine_1000_hit", lambda: engine(hits, many), lambda: engine(misses, one), "engine_1")


def _plain() -> Result:
    bodies = documents(EVENTS, 300, 10_000, prefix="nobody")
    routes = router(1)
    return rate(
        "engine_plain", lambda: engine(bodies, routes, Plain), lambda: bare(bodies), "bare loop, whole document"
    )


# Lanes and slopes: the core alone, so that a shell's constant does not hide a curve ----------------------------------

LANES = 10_000


def _admit(core: StreamGroup, lanes: int, events: int, hits: bool) -> list[Persist]:
    """Polls of 500 over so many lanes; every event matches, one commit a poll."""
    plan = Plan("w", "asset", "target", "job")
    routes = FilterRouter([Declared(plan, None, compile_params({}))] if hits else [], max_body=1 << 20)
    persists: list[Persist] = []
    for start in range(0, events, POLL):
        bodies = [b"{}"] * POLL
        payloads: list[Any] = list(range(start, start + POLL))
        slices = [Slice(0, 0, POLL)] if lanes == 1 else [Slice((start + i) % lanes, i, i + 1) for i in range(POLL)]
        poll = Poll(slices, bodies, payloads)
        commands = core.admit(poll, routes.route(poll))
        persists += [c for c in commands if isinstance(c, Persist)]
    return persists


def _settle(core: StreamGroup, commands: Sequence[Command]) -> int:
    settled = 0
    advances = [c for c in commands if isinstance(c, Advance)]
    while advances:
        settled += sum(len(a.batch) for a in advances)
        advances = [c for c in core.advanced(advances) if isinstance(c, Advance)]
    return settled


def _lanes_cost(lanes: int) -> float:
    core = StreamGroup(1, msgspec.structs.replace(WIDE, max_advancing=1 << 30))
    began = time.perf_counter()
    persists = _admit(core, lanes, LANES, hits=True)
    random.Random(7).shuffle(persists)
    settled = sum(_settle(core, core.persisted(p.tokens, 0.0)) for p in persists)
    took = time.perf_counter() - began
    assert settled == LANES
    return took / LANES


def _lanes() -> Result:
    return cost("engine_lanes", lambda: _lanes_cost(LANES), lambda: _lanes_cost(1), "the same events in one lane", 7)


def _behind_a_blocked_head(count: int) -> float:
    core = StreamGroup(1, msgspec.structs.replace(WIDE, max_advancing=1 << 30))
    (blocked,) = _admit(core, 1, POLL, hits=True)
    routed = Routed()
    began = time.perf_counter()
    for start in range(0, count, POLL):
        poll = Poll([Slice(0, 0, POLL)], [b"{}"] * POLL, list(range(start, start + POLL)))
        core.admit(poll, routed)
    settled = _settle(core, core.persisted(blocked.tokens, 0.0))
    took = time.perf_counter() - began
    assert settled == count + POLL
    return took / count


def _with_many_lanes(count: int) -> float:
    core = StreamGroup(1, msgspec.structs.replace(WIDE, max_advancing=1 << 30))
    began = time.perf_counter()
    persists = _admit(core, count, count, hits=True)
    random.Random(7).shuffle(persists)
    settled = sum(_settle(core, core.persisted(p.tokens, 0.0)) for p in persists)
    took = time.perf_counter() - began
    assert settled == count
    return took / count


def _with_a_stuck_watcher(count: int) -> float:
    """One Python watcher holds its first event for ever, a quick one goes through all of them."""
    stuck, quick = (Seat(Plan(name, "asset", "target", "job")) for name in ("stuck", "quick"))
    core = StreamGroup(1, msgspec.structs.replace(WIDE, max_advancing=1 << 30), seats=[stuck, quick])
    routed = Routed()
    began = time.perf_counter()
    for start in range(0, count, POLL):
        poll = Poll([Slice(0, 0, POLL)], [b"{}"] * POLL, list(range(start, start + POLL)))
        core.admit(poll, routed)
        while tickets := core.hand_over(quick, 100):
            core.returned(quick, [(t, SKIPPED) for t in tickets], 0.0)
    settled = 0
    while tickets := core.hand_over(stuck, 100):
        settled += _settle(core, core.returned(stuck, [(t, SKIPPED) for t in tickets], 0.0))
    took = time.perf_counter() - began
    assert settled == count
    return took / count


def _slope(name: str, at: Callable[[int], float]) -> Result:
    few = 25_000
    return cost(name, lambda: at(4 * few), lambda: at(few), "a quarter of the events", 7)


# A Python watcher ----------------------------------------------------------------------------------------------------


class SkipAll(BaseEventTrigger):
    """Takes every event and wants none."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "bench.engine.SkipAll", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError
        yield

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in shared_stream:
            if False:
                yield


def _skipper() -> WatcherSpec:
    return WatcherSpec(
        plan=Plan("skip", "asset", "target", "job"),
        make=SkipAll,
        recipe=Recipe(compile_params({}, roots=("event", "trigger"))),
        ack_timeout=60.0,
    )


async def _bare_queue(bodies: list[bytes]) -> float:
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    decode = msgspec.json.Decoder().decode

    async def stream() -> AsyncIterator[Any]:
        for _ in range(len(bodies)):
            yield decode(await queue.get())

    async def produce() -> None:
        for body in bodies:
            await queue.put(body)

    began = time.perf_counter()
    producing = asyncio.create_task(produce())
    async for _ in SkipAll().filter_shared_stream(stream()):
        pass
    await producing
    return (time.perf_counter() - began) / len(bodies)


def _python() -> Result:
    bodies = documents(30_000, 300, 1000)
    routes = router(0)
    limits = Limits()
    return cost(
        "engine_python",
        lambda: engine(bodies, routes, Prepared, _skipper, limits),
        lambda: asyncio.run(_bare_queue(bodies)),
        "asyncio.Queue and async generator",
    )


# Memory: a process of its own, since a process does not give memory back ---------------------------------------------

HELD = 100_000


def rss() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _hold(bodies: list[bytes], watcher: WatcherSpec | None) -> dict[str, float]:
    """Fills a group with events that nobody resolves, and watches the loop meanwhile."""

    class Never(Counting):
        async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
            await asyncio.Event().wait()
            raise AssertionError

    clock = SystemClock()
    producer = Prepared(bodies)
    persister = Persister(Never(), clock, random.random)  # type: ignore[arg-type]
    watchers = Watchers(random.random, lambda: None)
    source = Source("stream", "source", producer.identity, producer.describe)
    routes = router(1000) if watcher is None else router(0)
    life = Life("stream", producer, routes, source, WIDE, persister, watchers, clock, random.random, lambda _: None)
    shell = GroupShell(life, [Seat(watcher.plan)] if watcher is not None else [])
    longest = 0.0

    async def heartbeat() -> None:
        nonlocal longest
        before = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

    gc.collect()
    before = rss()
    beating = asyncio.create_task(heartbeat())
    persisting = asyncio.create_task(persister.run())
    running = asyncio.create_task(shell.run())
    while shell.core.outstanding < len(bodies):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    grown = rss() - before
    for task in (beating, running, persisting):
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(beating, running, persisting, return_exceptions=True)
    return {"grown": grown / 1e6, "block": longest * 1e3}


def _memory_child(kind: str) -> None:
    bodies = documents(HELD, 1024, 1000)
    print(msgspec.json.encode(asyncio.run(_hold(bodies, _skipper() if kind == "python" else None))).decode())


def _memory(name: str, kind: str, what: str) -> Result:
    runs = []
    for _ in range(3):
        child = subprocess.run(
            [sys.executable, "-m", "bench.engine", "--memory-child", kind], capture_output=True, check=True, timeout=120
        )
        runs.append(msgspec.json.decode(child.stdout, type=dict[str, float])[what])
    unit, against = ("MB", "the raw bytes") if what == "grown" else ("ms", "nothing")
    return Result(name, round(sorted(runs)[1], 1), unit, None, against, len(runs))


CASES: dict[str, Case] = {
    "engine_1": (Need(at_least=1.5), lambda: _one("engine_1", 300)),
    "engine_1_1k": (Need(at_least=2.5), lambda: _one("engine_1_1k", 1024)),
    "engine_1000": (Need(at_least=0.8), lambda: _many("engine_1000", 1000)),
    "engine_10000": (Need(at_least=0.8), lambda: _many("engine_10000", 10_000)),
    "engine_1000_hit": (Need(at_least=0.2), _hit),
    "engine_plain": (Need(at_least=0.5), _plain),
    "engine_lanes": (Need(at_most=10), _lanes),
    "engine_slope_blocked": (Need(at_most=1.2), lambda: _slope("engine_slope_blocked", _behind_a_blocked_head)),
    "engine_slope_lanes": (Need(at_most=1.2), lambda: _slope("engine_slope_lanes", _with_many_lanes)),
    "engine_slope_stuck": (Need(at_most=1.2), lambda: _slope("engine_slope_stuck", _with_a_stuck_watcher)),
    "engine_python": (Need(at_most=6), _python),
    "engine_memory_match": (Need(at_most=30, of="value"), lambda: _memory("engine_memory_match", "match", "grown")),
    "engine_memory_python": (Need(at_most=30, of="value"), lambda: _memory("engine_memory_python", "python", "grown")),
    "engine_block": (Need(at_most=100, of="value"), lambda: _memory("engine_block", "match", "block")),
}


if __name__ == "__main__":
    if "--memory-child" in sys.argv:
        _memory_child(sys.argv[-1])
    else:
        raise SystemExit(main(CASES))
