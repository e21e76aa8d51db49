"""A store from a copy has forgotten what the broker was told since; and another tool has moved the group."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, OffsetAndMetadata, TopicPartition

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import AUDIENCE, TRIGGERS, WANTS, KafkaBridge
from tests.integration.kafka_faults.feeding import body

pytestmark = pytest.mark.integration

PARTITIONS = 3


def fill(kafka: Broker, name: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        values = [body(n) for n in numbers if n % PARTITIONS == partition]
        apart(topics.send(kafka.bootstrap, name, values, partition=partition))


def copy(database: Path, to: Path) -> None:
    """As a backup is made while the program runs."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


def put_back(copied: Path, database: Path) -> None:
    for suffix in ("-wal", "-shm"):
        database.with_name(database.name + suffix).unlink(missing_ok=True)
    database.write_bytes(copied.read_bytes())


def test_a_store_from_a_copy_is_refused_and_rewinds_to_what_it_does_not_know(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    name = topic.now(partitions=PARTITIONS)
    bridge.python(TRIGGERS)
    bridge.reads(kafka.bootstrap, name, watchers=AUDIENCE)
    copied = bridge.folder / "copy.db"
    fill(kafka, name, range(300))
    bridge.start()
    bridge.settles(within=30)
    copy(bridge.database, copied)
    fill(kafka, name, range(300, 900))
    bridge.settles(within=30)
    assert bridge.stop() == 0
    before = apart(topics.committed(kafka.bootstrap, bridge.group, name))
    put_back(copied, bridge.database)
    forgotten = bridge.requests()

    bridge.start(until=None)
    assert bridge.ended(within=30) == 3
    assert "--rewind" in bridge.tail()
    assert "after commit" in bridge.tail()
    assert bridge.requests() == forgotten
    assert apart(topics.committed(kafka.bootstrap, bridge.group, name)) == before

    bridge.start_with("--rewind", "in")
    bridge.wait("it went back", lambda: bridge.said("rewound"))
    bridge.wait("it has caught up", lambda: bridge.requests("all") == 900, within=40)
    bridge.settles(within=30)
    assert bridge.stop() == 0
    bridge.has_done(WANTS)
    bridge.start()  # and that was that
    bridge.wait("it reads", lambda: bridge.said("partitions assigned"))
    bridge.wait("it is well", lambda: bridge.health()[0])
    assert bridge.stop() == 0
    bridge.has_done(WANTS)


def test_a_group_that_another_tool_has_moved_is_accepted(bridge: KafkaBridge, kafka: Broker, topic: NewTopic) -> None:
    """Back, and what comes again is known; or on, and what is passed over was meant to be."""
    name = topic.now(partitions=PARTITIONS)
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}})
    fill(kafka, name, range(30))
    bridge.start()
    bridge.settles(within=20)
    assert bridge.stop() == 0
    apart(move(kafka.bootstrap, bridge.group, name, {0: 4}))
    bridge.start()
    bridge.settles(within=20)
    assert bridge.said("offsets without a mark")
    assert bridge.stop() == 0
    assert sorted(Counter(run.repeats for run in bridge.runs()).items()) == [(0, 24), (1, 6)]
    fill(kafka, name, range(30, 60))
    apart(move(kafka.bootstrap, bridge.group, name, {0: 15}))
    bridge.start()
    bridge.settles(within=20)
    assert bridge.stop() == 0
    passed_over = {30, 33, 36, 39, 42}
    assert truth.numbers(bridge.database, "all") == Counter(n for n in range(60) if n not in passed_over)


async def move(bootstrap: str, group: str, name: str, places: dict[int, int]) -> None:
    """What kafka-consumer-groups.sh --reset-offsets does: an offset with nothing beside it."""
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    try:
        await consumer.start()
        partitions = {TopicPartition(name, number): offset for number, offset in places.items()}
        consumer.assign(list(partitions))
        await consumer.commit({partition: OffsetAndMetadata(offset, "") for partition, offset in partitions.items()})
    finally:
        await consumer.stop()
