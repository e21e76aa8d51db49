"""What somebody writes by hand: aiokafka, `getmany`, msgspec for the fields in use, a predicate, a commit a round.

    python -m bench.kafka.bare ORDER

It promises nothing: no bound on what waits, no rebalance, no dead letters, and one error ends it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer
from msgspec import Struct

from bench.kafka import sides
from bench.kafka.sides import Meter, Order, Report
from bench.kafka.topic import AMOUNT, REGIONS


class Tenant(Struct):
    tenant: str


class RegionAndAmount(Struct):
    region: str
    amount: float


class Runs:
    """A table for run requests in SQLite, WAL and `synchronous=FULL`, one transaction a batch."""

    def __init__(self, folder: str) -> None:
        self._database = sqlite3.connect(f"{folder}/bare.db", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        self._database.execute(
            "CREATE TABLE runs (id INTEGER PRIMARY KEY, run_key TEXT NOT NULL UNIQUE, position TEXT NOT NULL,"
            " watcher TEXT NOT NULL, params BLOB NOT NULL, created_at REAL NOT NULL)"
        )

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(
            "INSERT INTO runs (run_key, position, watcher, params, created_at) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            rows,
        )
        self._database.execute("COMMIT")

    @property
    def count(self) -> int:
        (count,) = self._database.execute("SELECT count(*) FROM runs").fetchone()
        return int(count)


def consumer(given: Order) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        given.topic,
        bootstrap_servers=given.bootstrap,
        group_id=given.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=sides.SESSION_MS,
        heartbeat_interval_ms=sides.HEARTBEAT_MS,
        fetch_max_wait_ms=sides.FETCH_WAIT_MS,
        max_partition_fetch_bytes=sides.PARTITION_BYTES,
    )


async def read(given: Order) -> Report:
    """Decodes, asks and counts; one commit a round."""
    meter, reader = Meter(), consumer(given)
    decode: Callable[[Any], Tenant] = msgspec.json.Decoder(Tenant).decode  # a record without a value ends it
    await reader.start()
    got = matches = polls = 0
    while got < given.events:
        polled = await reader.getmany(timeout_ms=1000, max_records=sides.POLL_RECORDS)
        if not polled:
            continue
        if not got:
            meter.start()
        for records in polled.values():
            got += len(records)
            for record in records:
                if decode(record.value).tenant == "absent":
                    matches += 1
        await reader.commit()
        polls += 1
    meter.stop()
    await reader.stop()
    return Report(events=got, seconds=meter.seconds, cpu=meter.cpu, matches=matches, polls=polls, most=sides.rss())


async def store(given: Order) -> Report:
    """The same, and what matches goes to SQLite before the commit."""
    meter, reader = Meter(), consumer(given)
    decode: Callable[[Any], RegionAndAmount] = msgspec.json.Decoder(RegionAndAmount).decode
    await reader.start()
    got = matches = polls = 0
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        runs = Runs(folder)
        while got < given.events:
            polled = await reader.getmany(timeout_ms=1000, max_records=sides.POLL_RECORDS)
            if not polled:
                continue
            if not got:
                meter.start()
            rows: list[tuple[Any, ...]] = []
            for records in polled.values():
                got += len(records)
                for record in records:
                    event = decode(record.value)
                    if event.region in REGIONS and event.amount > AMOUNT:
                        position = f"{record.topic}/{record.partition}/{record.offset}"
                        rows.append((f"w/{position}", position, "w", record.value, time.time()))
            if rows:
                await asyncio.to_thread(runs.write, rows)
                matches += len(rows)
            await reader.commit()
            polls += 1
        meter.stop()
        await reader.stop()
        assert runs.count == matches
    return Report(events=got, seconds=meter.seconds, cpu=meter.cpu, matches=matches, polls=polls, most=sides.rss())


async def note(given: Order) -> Report:
    """Notes when each event was there."""
    meter, reader = Meter(), consumer(given)
    await reader.start()
    times: dict[str, int] = {}
    meter.start()
    while len(times) < given.events:
        polled = await reader.getmany(timeout_ms=1000)
        now = time.monotonic_ns()
        for records in polled.values():
            for record in records:
                times[f"{record.partition}/{record.offset}"] = now
    meter.stop()
    await reader.stop()
    return Report(events=len(times), seconds=meter.seconds, cpu=meter.cpu, times=times)


def main() -> None:
    given = sides.order()
    work: Any = note if given.is_paced else (store if given.work == "eighteen" else read)
    done: Report = asyncio.run(work(given))
    if not given.is_paced:
        assert done.matches == given.matches, f"{done.matches} matches, {given.matches} expected"
    sides.report(done)


if __name__ == "__main__":
    main()
