"""Slow watchers, and backlogs that are larger than what may be outstanding."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults.bridging import KafkaBridge
from tests.integration.kafka_faults.feeding import body
from tests.integration.kafka_faults.lengths import either

pytestmark = pytest.mark.integration

BACKLOG = either(30_000, 200_000)
MIB = 1 << 20


def test_a_slow_python_watcher_delays_nobody_until_its_lane_is_full(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    """A lane may hold a quarter of `max_outstanding`. What fits is stored at once for the others; what does not fit
    waits in the broker for all of them.
    """
    name = topic.now()
    bridge.python("""
        class Slow(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    await asyncio.sleep(0.5)
                    yield TriggerEvent(event)
    """)
    watchers = {"all": {}, "slow": {"trigger": "my_triggers:Slow"}}
    bridge.reads(kafka.bootstrap, name, watchers=watchers, stream={"max_outstanding": 400, "poll_records": 20})
    bridge.start()
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(90)]))
    bridge.wait("the declarative one has all", lambda: bridge.requests("all") == 90)
    assert bridge.requests("slow") < 20
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(90, 300)]))
    bridge.wait("the lane is full", lambda: bridge.requests("all") >= 100)
    time.sleep(1.0)
    assert bridge.requests("all") <= 100 + 20 + bridge.requests("slow")  # what fits, and a poll
    bridge.wait("it says so", lambda: bridge.health()[1]["paused"])
    assert bridge.stop() == 0


@pytest.mark.timeout(either(110, 600))
def test_a_large_backlog_drains_with_flat_memory_and_one_outcome_each(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    """With two watchers in Python among them, so that events have to wait: nothing grows with what is still to come."""
    name = topic.now(partitions=4)
    for partition in range(4):
        values = [body(n) for n in range(partition, BACKLOG, 4)]
        apart(topics.send(kafka.bootstrap, name, values, partition=partition, within=120))
    bridge.python("""
        class Every(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] % 10 == 1:
                        yield TriggerEvent(event)

        class Waiting(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    if event["n"] % 100 == 2:
                        await asyncio.sleep(0.002)
                        yield TriggerEvent(event)
    """)
    watchers = {
        "third": {"match": {"third": 0}},
        "every": {"trigger": "my_triggers:Every"},
        "waiting": {"trigger": "my_triggers:Waiting"},
    }
    bridge.reads(kafka.bootstrap, name, watchers=watchers, stream={"max_outstanding": 1000})
    process = bridge.start()
    sizes: list[tuple[int, int]] = []  # run requests so far, memory

    def has_drained() -> bool:
        time.sleep(0.1)
        sizes.append((bridge.requests(), resident(process.pid)))
        return sizes[-1][0] >= due and bridge.lag() == 0

    due = len(range(0, BACKLOG, 3)) + len(range(1, BACKLOG, 10)) + len(range(2, BACKLOG, 100))
    bridge.wait("the backlog is gone", has_drained, within=either(80, 400))
    assert bridge.stop() == 0
    bridge.has_done({"third": lambda n: n % 3 == 0, "every": lambda n: n % 10 == 1, "waiting": lambda n: n % 100 == 2})
    middle = max(size for done, size in sizes if due * 0.3 < done < due * 0.6)
    end = max(size for done, size in sizes if done > due * 0.9)
    assert end - middle < either(10, 15) * MIB, [(done, size // MIB) for done, size in sizes]


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024
