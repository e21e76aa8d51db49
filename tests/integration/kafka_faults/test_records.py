"""Records that are not like the others: transactions, aborted ones, and one that nobody can read."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaProducer

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults.bridging import KafkaBridge
from tests.integration.kafka_faults.feeding import body

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.integration

POISON = b'{"n": 4, \xff\xfe broken'
HEADERS = [("trace", b"\x00\xff"), ("trace", b"again")]


def test_committed_transactions_run_and_aborted_ones_never_do(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic, apache: None
) -> None:
    name = topic.now()
    apart(transact(kafka.bootstrap, name, [body(n) for n in range(3)]))
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(3, 6)]))
    apart(transact(kafka.bootstrap, name, [body(n) for n in range(100, 103)], abort=True))
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}})
    bridge.start()
    bridge.wait("six runs", lambda: bridge.requests() == 6)
    apart(transact(kafka.bootstrap, name, [body(n) for n in range(6, 9)]))
    apart(transact(kafka.bootstrap, name, [body(n) for n in range(103, 106)], abort=True))
    bridge.settles(within=30)  # the markers behind the last record too
    assert bridge.stop() == 0
    bridge.has_done({"all": lambda n: n < 9})
    assert bridge.requests() == 9
    bridge.start()  # and the holes are no reason to read anything again
    bridge.wait("it reads", lambda: bridge.said("partitions assigned"))
    assert bridge.stop() == 0
    assert [run.repeats for run in bridge.runs()] == [0] * 9


async def transact(bootstrap: str, topic: str, values: Sequence[bytes], *, abort: bool = False) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"tx-{uuid4().hex[:8]}")
    await producer.start()
    try:
        await producer.begin_transaction()
        for value in values:
            await producer.send_and_wait(topic, value)
        await (producer.abort_transaction() if abort else producer.commit_transaction())
    finally:
        await producer.stop()


def test_a_poison_record_in_the_middle_is_kept_whole_and_those_behind_it_run(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    name = topic.now()

    async def write() -> None:
        await topics.send(kafka.bootstrap, name, [body(n) for n in range(4)])
        producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap)
        await producer.start()
        try:
            await producer.send_and_wait(name, POISON, key=b"\xfe\xff", headers=HEADERS, timestamp_ms=1_700_000_000_123)
        finally:
            await producer.stop()
        await topics.send(kafka.bootstrap, name, [body(n) for n in range(5, 9)])

    apart(write())
    bridge.python("""
        class Odd(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] % 2:
                        yield TriggerEvent(event)
    """)
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}, "odd": {"trigger": "my_triggers:Odd"}})
    bridge.start()
    bridge.settles(within=20)
    assert bridge.stop() == 0
    assert [run.position for run in bridge.runs() if run.watcher == "all"] == [
        f"{name}[0]@{offset}" for offset in range(9) if offset != 4
    ]
    assert [run.position for run in bridge.runs() if run.watcher == "odd"] == [
        f"{name}[0]@{offset}" for offset in (1, 3, 5, 7)
    ]
    (letter,) = bridge.letters()
    found = bridge.reader().dead_letter(letter.id)
    assert found is not None
    assert (letter.watcher, letter.position) == ("*", f"{name}[0]@4")
    assert (found.body, found.key) == (POISON, b"\xfe\xff")
    assert [(name, b64decode(value)) for name, value in json.loads(found.headers)] == HEADERS
    assert letter.timestamp == pytest.approx(1_700_000_000.123)
