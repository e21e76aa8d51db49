"""The client that reads, set as a stream needs it: it commits nothing by itself and never decides where to begin.

And what it knows and tells nobody.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from bridge.core.errors import Transient
from connectors.kafka.errors import told
from connectors.kafka.lanes import lane_text
from connectors.kafka.options import KafkaOptions
from connectors.kafka.security import client_settings

_MAX_POLL_INTERVAL_MS: Final = 2**31 - 1
"""For ever: whether polls make progress is judged by the stream's own health, and pausing must not cost membership."""
_AT_ONCE: Final = 0.01


def consumer_of(options: KafkaOptions) -> AIOKafkaConsumer:
    def ms(seconds: float) -> int:
        return int(seconds * 1000)

    return AIOKafkaConsumer(
        **client_settings(options),
        group_id=options.group_id,
        group_instance_id=options.group_instance_id,
        client_rack=options.client_rack,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level=options.isolation,
        metadata_max_age_ms=ms(options.discovery),
        session_timeout_ms=ms(options.session_timeout),
        heartbeat_interval_ms=ms(options.heartbeat_interval),
        rebalance_timeout_ms=ms(options.rebalance_timeout),
        max_poll_interval_ms=_MAX_POLL_INTERVAL_MS,
        fetch_max_wait_ms=ms(options.fetch_max_wait),
        fetch_min_bytes=options.fetch_min_bytes,
        fetch_max_bytes=options.fetch_max_bytes,
        max_partition_fetch_bytes=options.max_partition_fetch_bytes,
    )


async def position_of(consumer: AIOKafkaConsumer, partition: TopicPartition) -> int:
    """Where the next fetch begins; -1: it is not ours any more, or has no position yet."""
    try:
        async with asyncio.timeout(_AT_ONCE):
            return int(await consumer.position(partition))
    except (KafkaError, TimeoutError):
        return -1


def require_alive(consumer: Any) -> None:
    """Raises Transient when a task of the client's has ended by itself: it would find no record, for ever, and say so
    nowhere.
    """
    tasks: dict[str, asyncio.Task[None] | None] = {
        "fetches": consumer._fetcher._fetch_task,
        "looks for leaders": consumer._client._sync_task,
    }
    for what, task in tasks.items():
        if task is not None and task.done():
            error = None if task.cancelled() else task.exception()
            why = told(error.__cause__ or error) if error is not None else "no more is known"
            raise Transient(f"the part of the client that {what} has ended ({why}): the stream is opened again")


def broken_off(consumer: Any) -> str:
    """The partition and the offset at which the client has failed to take a record apart; empty where it can't tell."""
    for partition, fetched in consumer._fetcher._records.items():
        reading = getattr(getattr(fetched, "_partition_records", None), "_records_iterator", None)
        if reading is not None and reading.gi_frame is None:  # it has ended, and not by coming to its end
            return f"{lane_text(partition)} from offset {fetched._partition_records.next_fetch_offset} on"
    return ""
