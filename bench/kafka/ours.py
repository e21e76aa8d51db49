"""The real thing: a configuration, a store on disk, the whole process; only its command line is left out.

    python -m bench.kafka.ours ORDER

Counters of the stream are looked at every few milliseconds; nothing is put between its parts but, where times are
asked for, a look at each commit.
"""

from __future__ import annotations

import asyncio
import cProfile
import json
import os
import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.kafka import sides
from bench.kafka.sides import Meter, Order, Report
from bench.kafka.topic import AMOUNT, REGIONS, TENANTS
from bridge import telemetry, wiring
from bridge.config.model import Config
from bridge.ports import Receipt, Row, RunRow
from bridge.runtime.process import Process, tune_interpreter
from bridge.store.sql import SqlStore
from bridge.wiring import Said

GLANCE: Final = 0.003
RARE_GLANCE: Final = 0.02
"""Seconds between two looks at the counters: often for wall time, rarely where CPU is all that counts."""

REST: Final = 2.0


def configuration(given: Order, folder: str) -> dict[str, Any]:
    stream = {
        "kind": "kafka",
        "bootstrap_servers": [given.bootstrap],
        "group_id": given.group,
        "topics": [given.topic],
        "start": "earliest",
        "session_timeout": f"{sides.SESSION_MS}ms",
        "heartbeat_interval": f"{sides.HEARTBEAT_MS}ms",
        "fetch_max_wait": f"{sides.FETCH_WAIT_MS}ms",
        "max_partition_fetch_bytes": f"{sides.PARTITION_BYTES}B",
        "poll_records": sides.POLL_RECORDS,
        "max_outstanding": given.max_outstanding,
    }
    return {
        "store": f"sqlite:///{folder}/headrace.db",
        "targets": {"sink": {"kind": "log", "max_in_flight": 8}},
        "streams": {"orders": stream},
        "assets": {name: {"watchers": [watcher]} for name, watcher in watchers(given).items()},
    }


def watchers(given: Order) -> dict[str, dict[str, Any]]:
    matches: dict[str, dict[str, Any]]
    if given.work == "tenants":
        matches = {f"tenant{i}": {"tenant": f"t{i}"} for i in range(TENANTS)}
    elif given.work == "eighteen":
        matches = {"eighteen": {"region": list(REGIONS), "amount": {">": AMOUNT}}}
    elif given.work == "everything":
        matches = {"all": {"currency": "EUR"}}
    else:
        matches = {"none": {"tenant": "absent"}}
    run = {"target": "sink", "job": "job", "params": {"event": "${event.event_id}", "amount": "${event.amount}"}}
    return {name: {"stream": "orders", "match": match, "run": run} for name, match in matches.items()}


class Noting:
    """Notes when the run request of each event was committed, by `partition/offset`."""

    def __init__(self, store: SqlStore) -> None:
        self.times: dict[str, int] = {}
        self._commit = store.commit
        store.commit = self.commit  # type: ignore[method-assign]  # the rest stays the store's own

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        receipt = await self._commit(rows, commit_id)
        now = time.monotonic_ns()
        for row in rows:
            if isinstance(row, RunRow):
                _, partition, offset, _ = row.identity.rsplit("/", 3)
                self.times[f"{partition}/{offset}"] = now
        return receipt


async def opened(config: Config, *, holds: bool) -> SqlStore:
    """As `bridge.wiring.run` does it; with `holds` every watcher is paused before anything is read."""
    store = await wiring.open_store_of(config)
    sources = {s.name: wiring.KINDS.streams[s.kind]().source(s.options) for s in config.streams.values()}
    await store.register({w.id: w.definition for w in config.watchers}, sources)
    if holds:
        reader = wiring.open_reader(config.store.url)
        for watcher in config.watchers:
            reader.post("pause", watcher=watcher.id)
        await store.take_intents()
    return store


class Watched:
    """A process whose one stream is looked at from outside."""

    def __init__(self, process: Process, events: int, glance: float) -> None:
        self.process = process
        self._glance = glance
        self.meter = Meter()
        self.settled = 0
        self._events = events
        self._running = asyncio.create_task(process.run())

    def _look(self) -> int:
        """How many events came in."""
        (stream,) = self.process.streams
        if self._running.done() or stream.failures:
            raise RuntimeError(f"the stream failed: {stream.trouble}")
        if stream.shell is None:
            return 0
        tally = stream.shell.core.tally
        if tally.settled != self.settled:
            self.settled = tally.settled
            self.meter.stop()
        return tally.received

    async def begin(self, over: asyncio.Event) -> None:
        """Until the first event, or until it is over."""
        while not self._look() and not over.is_set():  # noqa: ASYNC110  # a counter has no event to wait for
            await asyncio.sleep(0.001)
        self.meter.start()

    async def settle(self, over: asyncio.Event) -> None:
        """Until every event is settled, or until it is over."""
        while self.settled < self._events and not over.is_set():
            await asyncio.sleep(self._glance)
            self._look()

    async def started(self) -> float:
        """Seconds from the first event until so many runs were started."""
        began = self.meter.began
        while _started(self.process) < self._events:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return time.perf_counter() - began

    async def end(self) -> None:
        self.process.request_stop()
        code = await self._running
        assert code == 0, f"exit code {code}"


def _started(process: Process) -> int:
    targets: Any = process.status()["targets"]
    return int(targets["sink"]["launched"] - targets["sink"]["unconfirmed"])


def loaded(given: Order, folder: str) -> Config:
    path = Path(folder, "headrace.yaml")
    path.write_text(json.dumps(configuration(given, folder)))
    return wiring.load_config([path])


async def through(given: Order, folder: str) -> Report:
    config = loaded(given, folder)
    store = await opened(config, holds=given.holds)
    noting = Noting(store) if given.is_paced else None
    said = Said(accept=frozenset({"orders"})) if given.others else Said()  # the others have stores of their own
    process = wiring.compose(config, store, said=said)
    tune_interpreter()
    over = asyncio.Event()
    if given.others:
        _end_with_input(over)
    watched = Watched(process, given.events, RARE_GLANCE if given.others else GLANCE)
    await watched.begin(over)
    await watched.settle(over)
    runs_seconds = await watched.started() if given.work == "everything" and not given.is_paced else 0.0
    await asyncio.sleep(REST if given.rests else 0.0)
    steady = sides.rss()
    await watched.end()
    return Report(
        events=watched.settled,
        seconds=watched.meter.seconds,
        cpu=watched.meter.cpu,
        matches=_count(folder),
        steady=steady,
        most=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        times=noting.times if noting is not None else {},
        runs_seconds=runs_seconds,
    )


def _end_with_input(over: asyncio.Event) -> None:
    """Sets the event when standard input is closed."""
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()

    def ended() -> None:
        loop.remove_reader(number)
        over.set()

    loop.add_reader(number, ended)


def _count(folder: str) -> int:
    """Run requests, counted by a fresh connection to the file."""
    database = sqlite3.connect(f"{folder}/headrace.db")
    try:
        (count,) = database.execute("SELECT count(*) FROM runs").fetchone()
    finally:
        database.close()
    return int(count)


def main() -> None:
    given = sides.order()
    telemetry.configure("info", stream=open(os.devnull, "w"), as_json=True)  # noqa: SIM115  # until the process ends
    profile = cProfile.Profile() if given.profile else None
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        if profile is not None:
            profile.enable()
        done = asyncio.run(through(given, folder))
        if profile is not None:
            profile.disable()
            profile.dump_stats(given.profile)
    if not given.others:
        assert done.matches == given.matches, f"{done.matches} run requests, {given.matches} expected"
    sides.report(done)


if __name__ == "__main__":
    main()
