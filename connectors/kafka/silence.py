"""Brokers that don't answer, and topics that are gone. The client tries for ever and tells nobody: it would look like a
quiet topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.kafka.lanes import lane_text
from connectors.kafka.options import KafkaOptions

PATIENCE: Final = 5.0
"""Seconds: an election, or a rolling restart, is over by then."""


class Silence:
    """Asked with each report. `now` in seconds, of a clock that never goes back."""

    def __init__(self) -> None:
        self._since: float | None = None

    def trouble(
        self, consumer: AIOKafkaConsumer, held: Iterable[TopicPartition], options: KafkaOptions, now: float
    ) -> str | None:
        """What does not answer, and for how long; None where all does, or did a moment ago."""
        what = _silent(consumer, held, options)
        if what is None:
            self._since = None
            return None
        if self._since is None:
            self._since = now
        seconds = now - self._since
        return f"{what}, for {seconds:.0f} s now: tried again all the time" if seconds >= PATIENCE else None


def _silent(consumer: AIOKafkaConsumer, held: Iterable[TopicPartition], options: KafkaOptions) -> str | None:
    """By what the client itself knows: heartbeats find out about a coordinator, fetches about a leader."""
    if getattr(consumer._coordinator, "coordinator_id", None) is None:
        return f"no broker answers as the coordinator of group {options.group_id!r}"
    cluster = consumer._client.cluster
    for topic in options.topics:
        if not cluster.partitions_for_topic(topic):
            return f"no broker knows of topic {topic!r}: it was deleted, or we may not describe it any more"
    headless = [lane_text(partition) for partition in held if cluster.leader_for_partition(partition) in (None, -1)]
    if headless:
        return f"no broker leads {headless[0]}{f' and {len(headless) - 1} more' if len(headless) > 1 else ''}"
    return None
