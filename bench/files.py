"""Files in, rows on a real disk, runs out: the whole program but for its command line.

    python -m bench.files [--json] [CASE...]

Everything runs in a folder of its own below the temporary folder (TMPDIR chooses the disk), which is removed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.common import Case, Need, Result, documents, main
from bench.engine import Prepared, router, rss
from bridge import telemetry, wiring
from bridge.core.commands import Limits
from bridge.core.model import AdvanceItem, Plan, Poll, Slice
from bridge.core.seat import Seat
from bridge.filters.recipe import Recipe
from bridge.params.plans import compile_params
from bridge.runtime.clock import SystemClock
from bridge.runtime.group import GroupShell, Life
from bridge.runtime.persister import Persister
from bridge.runtime.rows import Source
from bridge.runtime.runner import WatcherSpec
from bridge.runtime.watchers import Watchers
from bridge.store.options import InstanceId
from bridge.store.sql import open_store
from bridge.store.sqlite import Sqlite
from bridge.store.statements import Statements
from bridge.triggers import BaseEventTrigger, TriggerEvent

CONFIG = """
store: sqlite:///{folder}/headrace.db
targets:
  sink: {{kind: log, max_in_flight: 8}}
streams:
  files: {{kind: directory, path: {folder}/drop, settle: 0s, poll_interval: 50ms, lines: {lines}}}
assets:
  all:
    watchers:
      - stream: files
        match: {{tenant: t0}}
        run: {{target: sink, job: job, params: {{event: "${{event.event_id}}", amount: "${{event.amount}}"}}}}
"""


@contextmanager
def folder() -> Any:
    path = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    (path / "drop").mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def _until_run(path: Path, events: int, *, lines: bool) -> tuple[float, float]:
    """Seconds until so many runs were started, and rows per commit."""
    config = path / "headrace.yaml"
    config.write_text(CONFIG.format(folder=path, lines=str(lines).lower()))
    loaded = wiring.load_config([config])
    store = await wiring.open_store_of(loaded)
    process = wiring.compose(loaded, store)
    began = time.perf_counter()
    running = asyncio.create_task(process.run())
    async with asyncio.timeout(60):
        while _started(process.status()) < events:  # noqa: ASYNC110  # the process has no event for it
            await asyncio.sleep(0.02)
    took = time.perf_counter() - began
    persister = process.status()["store"]
    process.request_stop()
    assert await running == 0
    assert isinstance(persister, dict)
    return took, persister["rows"] / persister["commits"]


def _started(status: dict[str, Any]) -> int:
    sink = status["targets"]["sink"]
    return int(sink["launched"] - sink["unconfirmed"])


def _count(path: Path) -> int:
    """Runs that were started, counted by a fresh connection to the file."""
    database = sqlite3.connect(path / "headrace.db")
    try:
        (count,) = database.execute("SELECT count(*) FROM runs WHERE state = 'started'").fetchone()
    finally:
        database.close()
    return int(count)


def _through(events: int, fill: Callable[[Path], None], *, lines: bool) -> tuple[float, float]:
    with folder() as path:
        fill(path / "drop")
        took, batch = asyncio.run(_until_run(path, events, lines=lines))
        assert _count(path) == events
        return took / events, batch


def _bare(events: int, batch: int) -> float:
    """The store's own statements by sqlite3 alone: two inserts, a claim and a result an event, batches of one size."""
    with folder() as path:

        async def make() -> None:
            store = await open_store(f"sqlite:///{path}/headrace.db", instance=InstanceId("bare", "bare", 0, ""))
            await store.aclose(clean=True)

        asyncio.run(make())
        sql = Statements(Sqlite(f"{path}/headrace.db", busy_timeout=1.0))
        database = sqlite3.connect(path / "headrace.db", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        began = time.perf_counter()
        for start in range(0, events, batch):
            ids = range(start + 1, min(events, start + batch) + 1)
            for statement, values in _work(sql, ids, time.time()):
                database.execute("BEGIN IMMEDIATE")
                for text, rows in zip(statement, values, strict=True):
                    database.executemany(text, rows)
                database.execute("COMMIT")
        took = time.perf_counter() - began
        (count,) = database.execute("SELECT count(*) FROM runs WHERE state = 'started'").fetchone()
        assert count == events
        database.close()
        return took / events


def _work(sql: Statements, ids: Sequence[int], now: float) -> Iterator[tuple[list[str], list[list[tuple[Any, ...]]]]]:
    """The three transactions of a batch: intake, claim, results."""
    source, identity = "/tmp/headrace/drop", "fe00-9a890a-1fe-18ecdabbc3c6d3da"
    keys = [(i, _key(i), b"d" * 32, "commit", now, now) for i in ids]
    runs = [
        (i, now, now, now, "commit", _key(i), "all", "all", "files", source, f"{identity}@{i * 1024}",
         f"drop/lines-0.jsonl:{i * 1024}", "sink", "job", now, b"p" * 44, b"{}")
        for i in ids
    ]  # fmt: skip
    yield [sql.insert_keys, sql.insert_runs], [keys, runs]
    yield [sql.take], [[(now + 60, now, "instance", "host", str(list(ids)))]]
    yield [sql.results], [[(None, now, "commit", "started", "", "", "", _key(i), 1) for i in ids]]


def _key(number: int) -> str:
    return f"all//tmp/headrace/drop/fe00-9a890a-1fe-18ecdabbc3c6d3da@{number * 1024}/0"


def _all_match() -> Result:
    events = 30_000
    bodies = documents(events, 1024, 1)

    def fill(drop: Path) -> None:
        for i in range(4):
            (drop / f"lines-{i}.jsonl").write_bytes(b"\n".join(bodies[i::4]) + b"\n")

    mine: list[float] = []
    ratios: list[float] = []
    for _ in range(5):
        ours, batch = _through(events, fill, lines=True)
        mine.append(ours)
        ratios.append(_bare(events, round(batch)) / ours)
    rate = round(1 / statistics.median(mine))
    return Result("files_all_match", rate, "events/s", round(statistics.median(ratios), 2), "bare sqlite3", 5)


def _each() -> Result:
    events = 20_000
    bodies = documents(events, 300, 1)

    def fill(drop: Path) -> None:
        for i, body in enumerate(bodies):
            (drop / f"event-{i}.json").write_bytes(body)

    mine = [_through(events, fill, lines=False)[0] for _ in range(3)]
    return Result("files_each", round(1 / statistics.median(mine)), "events/s", None, "nothing", 3)


# Latency -------------------------------------------------------------------------------------------------------------


class Paced(Prepared):
    """One event at a time, so many a second; notes how long each took from the poll to `advance`."""

    def __init__(self, bodies: list[bytes], rate: float) -> None:
        super().__init__(bodies)
        self.rate = rate
        self.received: list[float] = []
        self.took: list[float] = []

    async def open_batches(self) -> AsyncIterator[Poll]:
        began = time.perf_counter()
        for number, body in enumerate(self.bodies):
            wait = began + number / self.rate - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            self.received.append(time.perf_counter())
            yield Poll([Slice("lane", 0, 1)], [body], [number])
        await asyncio.Event().wait()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        now = time.perf_counter()
        self.took += [now - self.received[payload] for payload, _ in batch]
        await super().advance(batch)


async def _life(path: Path, producer: Prepared, watcher: WatcherSpec | None, limits: Limits) -> int:
    """The producer's events through the shell to a store on disk; returns how many bytes the process grew."""
    clock = SystemClock()
    store = await open_store(f"sqlite:///{path}/headrace.db", instance=InstanceId("bench", "bench", 0, ""))
    persister = Persister(store, clock, random.random)
    watchers = Watchers(random.random, lambda: None)
    source = Source("stream", "source", producer.identity, producer.describe)
    routes = router(1) if watcher is None else router(0)
    life = Life("stream", producer, routes, source, limits, persister, watchers, clock, random.random, lambda _: None)
    seats = [Seat(watcher.plan)] if watcher is not None else []
    shell = GroupShell(life, seats)
    if watcher is not None:
        watchers.open(watcher, seats[0], source, shell.front)
    gc.collect()
    before = rss()
    persisting = asyncio.create_task(persister.run())
    running = asyncio.create_task(shell.run())
    async with asyncio.timeout(120):
        await producer.done.wait()
    grown = rss() - before
    for task in (running, persisting):
        task.cancel()
    await asyncio.gather(running, persisting, return_exceptions=True)
    watchers.stop()
    await store.aclose(clean=True)
    return grown


def _latency(name: str, rate: float, events: int, share: float) -> Result:
    bodies = documents(events, 1024, 1)
    seen: list[float] = []
    for _ in range(3):
        with folder() as path:
            producer = Paced(bodies, rate)
            asyncio.run(_life(path, producer, None, Limits()))
            seen.append(sorted(producer.took)[min(len(producer.took) - 1, int(len(producer.took) * share))])
    return Result(name, round(statistics.median(seen) * 1e3, 2), "ms", None, "nothing", 3)


# Backlog -------------------------------------------------------------------------------------------------------------


class Slow(BaseEventTrigger):
    """Waits a millisecond for one event in ten."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "bench.files.Slow", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError
        yield

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        number = 0
        async for _ in shared_stream:
            number += 1
            if number % 10 == 0:
                await asyncio.sleep(0.001)
            if False:
                yield


class Once(Prepared):
    """Notes that each event was advanced, and refuses a second time."""

    def __init__(self, bodies: list[bytes]) -> None:
        super().__init__(bodies)
        self.outcomes: set[int] = set()

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for payload, outcome in batch:
            assert payload not in self.outcomes
            assert (outcome.acked, outcome.failed, outcome.rejected) == (1, 0, 0)
            self.outcomes.add(payload)
        await super().advance(batch)


def _backlog() -> Result:
    events = 20_000
    bodies = documents(events, 1024, 1)
    spec = WatcherSpec(
        plan=Plan("slow", "asset", "target", "job"),
        make=Slow,
        recipe=Recipe(compile_params({}, roots=("event", "trigger"))),
        ack_timeout=60.0,
    )
    grown: list[float] = []
    for _ in range(3):
        with folder() as path:
            producer = Once(bodies)
            grown.append(asyncio.run(_life(path, producer, spec, Limits(max_outstanding=200))) / 1e6)
            assert len(producer.outcomes) == events
    return Result("backlog", round(statistics.median(grown), 1), "MB grown", None, "nothing", 3)


def _under(limit: float) -> Need:
    return Need(at_most=limit, of="value")


CASES: dict[str, Case] = {
    "files_all_match": ((Need(at_least=15_000, of="value"), Need(at_least=0.3)), _all_match),
    "files_each": (Need(at_least=3000, of="value"), _each),
    "files_latency_20_p50": (_under(5), lambda: _latency("files_latency_20_p50", 20, 100, 0.5)),
    "files_latency_20_p99": (_under(50), lambda: _latency("files_latency_20_p99", 20, 100, 0.99)),
    "files_latency_500_p50": (_under(5), lambda: _latency("files_latency_500_p50", 500, 2500, 0.5)),
    "files_latency_500_p99": (_under(50), lambda: _latency("files_latency_500_p99", 500, 2500, 0.99)),
    "backlog": (_under(10), _backlog),
}


if __name__ == "__main__":
    telemetry.configure("info", stream=open(os.devnull, "w"), as_json=True)  # noqa: SIM115  # until the process ends
    raise SystemExit(main(CASES))
