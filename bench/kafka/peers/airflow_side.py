"""Airflow: the Kafka provider's shared-stream trigger under its manager, in process, without a triggerer or a database.

    python -m bench.kafka.peers.airflow_side ORDER

Every event counts as stored at once, which is the best that can happen. The provider's classes are used as they are;
its consumer and its commit are looked at on the way.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bench.kafka import sides
from bench.kafka.sides import Meter, Order, Report


class Tenant(msgspec.Struct):
    tenant: str


def connect(given: Order) -> None:
    """Airflow's connection, which it takes from the environment. Before its first import."""
    settings = {
        "bootstrap.servers": given.bootstrap,
        "group.id": given.group,
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": sides.SESSION_MS,
        "heartbeat.interval.ms": sides.HEARTBEAT_MS,
        "fetch.wait.max.ms": sides.FETCH_WAIT_MS,
        "max.poll.interval.ms": 300_000,
    }
    os.environ["AIRFLOW_HOME"] = tempfile.mkdtemp(prefix="headrace-bench-")
    os.environ["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": settings})
    logging.disable(logging.ERROR)


async def read(given: Order) -> Report:
    from airflow.providers.apache.kafka.triggers import (  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
        shared_stream as provider,
    )
    from airflow.triggers.base import TriggerEvent  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
    from airflow.triggers.shared_stream import (  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
        SharedStreamManager,
    )

    meter, done = Meter(), asyncio.Event()
    loop = asyncio.get_running_loop()
    committed: dict[int, int] = {}
    decode = msgspec.json.Decoder(Tenant).decode
    commit = provider.KafkaSharedStreamProducer._commit

    def looked_at(self: Any, topic: str, partition: int, offset: int) -> None:
        commit(self, topic, partition, offset)
        committed[partition] = offset
        if sum(committed.values()) >= given.events and not done.is_set():
            meter.stop()
            loop.call_soon_threadsafe(done.set)

    provider.KafkaSharedStreamProducer._commit = looked_at

    class Watch(provider.KafkaSharedStreamTrigger):  # type: ignore[misc]
        async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
            async for value in shared_stream:
                if not meter.began:
                    meter.start()
                if decode(value).tenant == "absent":
                    yield TriggerEvent(value.decode())

    manager = SharedStreamManager(ack_timeout=300.0)
    watch = Watch(topics=[given.topic], kafka_config_id="kafka_default", poll_timeout=1.0)
    key = watch.shared_stream_key()

    async def consume() -> None:
        subscribed = manager.subscribe(trigger_id=0, trigger=watch, key=key)
        async for _ in watch.filter_shared_stream(subscribed):
            number = manager.bind_pending_event(trigger_id=0, key=key)
            if number is not None:
                manager.confirm_persisted([number])

    consuming = asyncio.create_task(consume())
    ended = asyncio.create_task(done.wait())
    await asyncio.wait({consuming, ended}, return_when=asyncio.FIRST_COMPLETED)
    if consuming.done():
        consuming.result()
        raise RuntimeError("the stream ended by itself")
    return Report(events=sum(committed.values()), seconds=meter.seconds, cpu=meter.cpu, most=sides.rss())


async def main() -> None:
    given = sides.order()
    connect(given)
    sides.report(await read(given))
    os._exit(0)  # its thread is inside a poll


if __name__ == "__main__":
    asyncio.run(main())
