"""The client that reads, set as a stream needs it: it commits nothing by itself and never decides where to begin."""

from __future__ import annotations

from typing import Final

from aiokafka import AIOKafkaConsumer

from connectors.kafka.options import KafkaOptions
from connectors.kafka.security import client_settings

_MAX_POLL_INTERVAL_MS: Final = 2**31 - 1
"""For ever: whether polls make progress is judged by the stream's own health, and pausing must not cost membership."""


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
