"""What a topic holds, against what the store has made of it: exactly one run request for each match, and no other."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from bench.brokers import topics

Wants = Mapping[str, Callable[[int], bool]]
"""By the id of a watcher: which numbers it matches."""


class Written(NamedTuple):
    """A record: its position as the store has it, and its number."""

    position: str
    n: int


async def written(bootstrap: str, *names: str, within: float = 60.0) -> list[Written]:
    """All records that may be read, as a reader without a group sees them."""
    records = [record for name in names for record in await everything(bootstrap, name, within)]
    return [Written(f"{r.topic}[{r.partition}]@{r.offset}", int(json.loads(r.value or b"")["n"])) for r in records]


async def everything(bootstrap: str, name: str, within: float = 60.0) -> list[ConsumerRecord[bytes, bytes]]:
    """The records of a topic; each partition in its order."""
    async with asyncio.timeout(within):
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
        try:
            await consumer.start()
            partitions = await _partitions(consumer, name)
            ends = await consumer.end_offsets(partitions)
            consumer.assign(partitions)
            await consumer.seek_to_beginning(*partitions)
            found: list[ConsumerRecord[bytes, bytes]] = []
            while not all([await consumer.position(p) >= end for p, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
            return found
        finally:
            await consumer.stop()


async def _partitions(consumer: AIOKafkaConsumer, name: str) -> list[TopicPartition]:
    cluster = await consumer._client.fetch_all_metadata()
    partitions = [TopicPartition(name, p) for p in sorted(cluster.partitions_for_topic(name) or ())]
    assert partitions, f"there is no topic {name}"
    return partitions


async def lag(bootstrap: str, group: str, *names: str) -> int:
    """Records that are not settled yet, markers of transactions included."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    try:
        await consumer.start()
        behind = 0
        for name in names:
            ends = await consumer.end_offsets(await _partitions(consumer, name))
            places = await topics.committed(bootstrap, group, name)
            behind += sum(end - places.get(p.partition, (0, ""))[0] for p, end in ends.items())
        return behind
    finally:
        await consumer.stop()


# The store -----------------------------------------------------------------------------------------------------------


def asked(database: Path, question: str, *values: object) -> list[tuple[object, ...]]:
    """Rows of the store, read as any reader does."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10.0)) as connection:
        return connection.execute(question, values).fetchall()


def requested(database: Path) -> Counter[tuple[str, str]]:
    """Run requests by (watcher, position)."""
    rows = asked(database, "SELECT watcher, position, count(*) FROM runs GROUP BY 1, 2")
    return Counter({(str(watcher), str(position)): int(str(count)) for watcher, position, count in rows})


def numbers(database: Path, watcher: str) -> Counter[int]:
    """How many run requests of a watcher there are for each number, wherever the records with it are or were."""
    rows = asked(database, "SELECT params FROM runs WHERE watcher = ?", watcher)
    return Counter(int(json.loads(str(bytes(params), "utf-8"))["n"]) for (params,) in rows if isinstance(params, bytes))


def letters(database: Path) -> list[tuple[object, ...]]:
    """(watcher, position, reason, error) of all dead letters."""
    return asked(database, "SELECT watcher, position, reason, error FROM dead_letters ORDER BY id")


def attempts(database: Path) -> int:
    """Events that have failed tries and are not resolved."""
    ((count,),) = asked(database, "SELECT count(*) FROM attempts")
    return int(str(count))


def compare(records: Collection[Written], database: Path, wants: Wants) -> None:
    """Fails with a few examples of what is missing, and of what is there too often or should not be there."""
    due = Counter({(w, r.position): 1 for w, matches in wants.items() for r in records if matches(r.n)})
    there = requested(database)
    missing, extra = due - there, there - due
    assert not missing, f"{missing.total()} of {due.total()} run requests are missing, like {_some(missing)}"
    assert not extra, f"{extra.total()} run requests too many, like {_some(extra)}"


def _some(counts: Counter[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(counts)[:5]
