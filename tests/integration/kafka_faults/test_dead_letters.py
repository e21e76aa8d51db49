"""The topic for dead letters refuses, or the program dies between a copy and its commit. No lane waits for it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from bench.brokers import topics
from bench.brokers.kafka import Kafka
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import KafkaBridge
from tests.integration.kafka_faults.feeding import body
from tests.integration.kafka_faults.lengths import either
from tests.integration.kafka_faults.test_store_away import locked

if TYPE_CHECKING:
    from aiokafka import ConsumerRecord

pytestmark = pytest.mark.integration

AWAY = either(10.0, 60.0)
PARTITIONS = 2


@pytest.fixture
def refusing(bridge: KafkaBridge, own_kafka: Kafka) -> KafkaBridge:
    """A watcher that refuses every tenth message, and one that takes all. Dead letters go to `letters`."""
    apart(topics.create(own_kafka.bootstrap, "orders", PARTITIONS))
    apart(topics.create(own_kafka.bootstrap, "letters"))
    bridge.python("""
        class Refusing(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] % 10 == 0:
                        reject_shared_stream_event("a tenth")
                    elif event["n"] % 10 == 1:
                        yield TriggerEvent(event)
    """)
    watchers = {"all": {}, "refusing": {"trigger": "my_triggers:Refusing"}}
    stream = {"dead_letter": {"topic": "letters"}, "request_timeout": "5s"}
    bridge.reads(own_kafka.bootstrap, "orders", watchers=watchers, stream=stream)
    return bridge


def fill(kafka: Kafka, numbers: range) -> None:
    for partition in range(PARTITIONS):
        values = [body(n) for n in numbers if n % PARTITIONS == partition]
        apart(topics.send(kafka.bootstrap, "orders", values, partition=partition))


def copies(kafka: Kafka) -> list[ConsumerRecord[bytes, bytes]]:
    """All that are in the topic now."""
    return apart(truth.everything(kafka.bootstrap, "letters"))


def ids(records: list[ConsumerRecord[bytes, bytes]]) -> list[bytes]:
    return [dict(record.headers)["headrace-dead-letter"] for record in records]


@pytest.mark.timeout(either(110, 200))
def test_a_topic_that_refuses_dead_letters_holds_no_lane_and_has_them_all_in_the_end(
    refusing: KafkaBridge, own_kafka: Kafka
) -> None:
    bridge = refusing
    bridge.start()
    fill(own_kafka, range(40))
    bridge.settles(within=20)
    bridge.wait("four copies", lambda: len(copies(own_kafka)) == 4)
    apart(topics.delete(own_kafka.bootstrap, "letters"))
    began = time.monotonic()
    fill(own_kafka, range(40, 200))
    bridge.settles(within=20)
    assert bridge.requests("all") == 200
    assert [letter.relayed_at is not None for letter in bridge.letters()] == [True] * 4 + [False] * 16
    bridge.wait("it says so", lambda: bridge.health()[1]["relay"]["trouble"], within=30)
    assert bridge.health()[1]["relay"]["waiting"] == 16
    time.sleep(max(0.0, AWAY - (time.monotonic() - began)))
    fill(own_kafka, range(200, 240))
    bridge.settles(within=20)
    apart(topics.create(own_kafka.bootstrap, "letters"))
    bridge.wait("the copies are there", lambda: len(set(ids(copies(own_kafka)))) == 20, within=AWAY + 40)
    bridge.wait("it is well again", lambda: not bridge.health()[1]["relay"]["trouble"])
    assert bridge.stop() == 0
    found = copies(own_kafka)
    assert sorted(json.loads(record.value or b"")["n"] for record in found) == list(range(40, 240, 10))
    assert len(set(ids(found))) == len(found) == 20
    assert all(letter.relayed_at for letter in bridge.letters())


def test_a_death_between_a_copy_and_its_commit_makes_one_more_copy_with_the_same_id(
    refusing: KafkaBridge, own_kafka: Kafka
) -> None:
    """B20. The copy hangs while its topic is away; then the store is locked, the topic is back, the copy arrives, and
    nobody can note that.
    """
    bridge = refusing
    bridge.start()
    fill(own_kafka, range(1, 10))
    bridge.settles(within=20)
    apart(topics.delete(own_kafka.bootstrap, "letters"))
    fill(own_kafka, range(10, 12))
    bridge.settles(within=20)
    bridge.wait("there is a letter", lambda: bridge.letters())
    with locked(bridge.database):
        apart(topics.create(own_kafka.bootstrap, "letters"))
        bridge.wait("the copy is there", lambda: copies(own_kafka), within=20)
        bridge.kill()
    assert bridge.letters()[0].relayed_at is None
    bridge.start()
    bridge.wait("it is noted", lambda: bridge.letters()[0].relayed_at, within=20)
    fill(own_kafka, range(20, 22))
    bridge.wait("the next one is copied too", lambda: len(copies(own_kafka)) >= 3)
    bridge.settles(within=20)
    assert bridge.stop() == 0
    found = copies(own_kafka)
    first, second, third = ids(found)
    assert first == second != third
    assert [json.loads(record.value or b"")["n"] for record in found] == [10, 10, 20]
    assert len(bridge.letters()) == 2
