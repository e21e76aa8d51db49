"""FastStream: a subscriber with its own decoding to a dict, acknowledged by hand, a message or a batch at a time.

python -m bench.kafka.peers.faststream_side ORDER
"""

from __future__ import annotations

import asyncio
from typing import Any

from faststream import AckPolicy  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]  # its own venv
from faststream.kafka import KafkaBroker  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
from faststream.kafka.annotations import (  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
    KafkaMessage,
)

from bench.kafka import sides
from bench.kafka.sides import Meter, Order, Report


class Reading:
    """Counts until it has seen enough."""

    def __init__(self, given: Order) -> None:
        self.meter, self.done = Meter(), asyncio.Event()
        self.got = self.matches = 0
        self._events = given.events

    def begin(self) -> None:
        if not self.got:
            self.meter.start()

    def look(self, event: Any) -> None:
        if event["tenant"] == "absent":
            self.matches += 1

    def acknowledged(self, count: int) -> None:
        self.got += count
        if self.got >= self._events and not self.done.is_set():
            self.meter.stop()
            self.done.set()


async def read(given: Order) -> Report:
    broker = KafkaBroker(given.bootstrap, logger=None)  # its line for each message would cost more than the work
    reading = Reading(given)
    settings: dict[str, Any] = {
        "group_id": given.group,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "ack_policy": AckPolicy.MANUAL,
        "session_timeout_ms": sides.SESSION_MS,
        "heartbeat_interval_ms": sides.HEARTBEAT_MS,
        "fetch_max_wait_ms": sides.FETCH_WAIT_MS,
        "max_partition_fetch_bytes": sides.PARTITION_BYTES,
    }

    async def batch(body: list[Any], message: KafkaMessage) -> None:
        reading.begin()
        for event in body:
            reading.look(event)
        await message.ack()
        reading.acknowledged(len(body))

    async def single(body: dict[str, Any], message: KafkaMessage) -> None:
        if reading.done.is_set():
            return
        reading.begin()
        reading.look(body)
        await message.ack()
        reading.acknowledged(1)

    if given.variant == "batch":
        broker.subscriber(given.topic, batch=True, max_records=sides.POLL_RECORDS, **settings)(batch)
    else:
        broker.subscriber(given.topic, **settings)(single)
    await broker.start()
    await reading.done.wait()
    await broker.stop()
    meter = reading.meter
    return Report(events=reading.got, seconds=meter.seconds, cpu=meter.cpu, matches=reading.matches, most=sides.rss())


if __name__ == "__main__":
    # FastStream looks the annotations of a handler up by name, in the module.
    sides.report(asyncio.run(read(sides.order())))
