"""Topics of the benchmark: made, filled once, written to at a pace, and removed.

A topic holds the same events in every run, spread evenly over its partitions, in aiokafka's usual batches of 16 KiB.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from uuid import uuid4

import msgspec
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from msgspec import Struct

from bench.common import document

PARTITIONS: Final = 4
TENANTS: Final = 1000
"""Tenants `t0` to `t999` have a watcher in `kafka_1000`. One event in a thousand is of one of them."""


REGIONS: Final = ("region-0", "region-1", "region-2")
AMOUNT: Final = 280
"""18 % of the events come from one of these three regions of twelve and are above this amount, as 72 % are."""


class Counts(Struct):
    """What a correct reader has to find: events, those of a watched tenant, and those of the 18 %."""

    events: int = 0
    tenants: int = 0
    eighteen: int = 0


def events(count: int, counts: Counts) -> Iterator[tuple[bytes, bytes, int]]:
    """Key, body of about 300 bytes, and partition; counted as they are taken."""
    rnd = random.Random(20261130)
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    for number in range(count):
        is_watched = number % 1000 == 500
        tenant = f"t{rnd.randrange(TENANTS)}" if is_watched else f"nobody{rnd.randrange(10_000)}"
        body = document(number, rnd, tenant, size=300)
        counts.events += 1
        counts.tenants += is_watched
        event = decode(body)
        counts.eighteen += event["region"] in REGIONS and event["amount"] > AMOUNT
        yield b"c-%04d" % rnd.randrange(1000), body, number % PARTITIONS


async def create(bootstrap: str) -> str:
    """The name of a fresh topic of four partitions."""
    name = f"bench-{uuid4().hex[:10]}"
    async with _admin(bootstrap) as admin:
        response: Any = await admin.create_topics([NewTopic(name, PARTITIONS, 1)])
    for _, code, message in response.topic_errors:
        if code:
            raise RuntimeError(f"topic {name!r} can't be made: {message or f'error {code}'}")
    return name


async def remove(bootstrap: str, name: str) -> None:
    async with _admin(bootstrap) as admin:
        with suppress(KafkaError):
            await admin.delete_topics([name])


@asynccontextmanager
async def _admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


@asynccontextmanager
async def topic(bootstrap: str) -> AsyncIterator[str]:
    """A fresh topic, which is removed at the end."""
    name = await create(bootstrap)
    try:
        yield name
    finally:
        await remove(bootstrap, name)


async def fill(bootstrap: str, name: str, count: int) -> Counts:
    """Writes so many events and waits until all are confirmed."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=20)
    async with producer:
        return await _write(producer, name, count)


async def _write(producer: AIOKafkaProducer, name: str, count: int) -> Counts:
    counts = Counts()
    sent: list[asyncio.Future[object]] = []
    for key, body, partition in events(count, counts):
        sent.append(await producer.send(name, body, key=key, partition=partition))
        if len(sent) >= 5000:
            await asyncio.gather(*sent)
            sent.clear()
    await asyncio.gather(*sent)
    return counts


@asynccontextmanager
async def hidden(bootstrap: str, name: str, count: int) -> AsyncIterator[AIOKafkaProducer]:
    """A topic that is full and looks empty: its events belong to one transaction, committed by `commit_transaction`.

    So a group can be complete before its first event, without anything paused on purpose.
    """
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=f"{name}-tx", transaction_timeout_ms=120_000, linger_ms=20
    )
    async with producer:
        await producer.begin_transaction()
        await _write(producer, name, count)
        yield producer


async def pace(bootstrap: str, name: str, count: int, rate: float) -> None:
    """Writes so many events, one at a time and so many a second, to the partitions in turn."""
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
    async with producer:
        await producer.partitions_for(name)
        began = time.perf_counter()
        for number, (key, body, partition) in enumerate(events(count, Counts())):
            wait = began + number / rate - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            await producer.send(name, body, key=key, partition=partition)
        await producer.flush()
