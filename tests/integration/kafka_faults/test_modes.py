"""`retry: {mode: broker}` and `overflow: fail`: the broker delivers again, to all, in order, and every budget holds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import KafkaBridge
from tests.integration.kafka_faults.feeding import body

pytestmark = pytest.mark.integration


def test_a_failed_record_comes_again_after_a_delay_in_order_until_its_budget_is_spent(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    name = topic.now()
    bridge.python("""
        class Failing(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    tell(event["n"], current_message().attempt, time.monotonic())
                    if event["n"] == 12 or event["n"] == 5 and current_message().attempt < 2:
                        raise RuntimeError("no")
                    yield TriggerEvent(event)
    """)
    watchers = {"all": {}, "failing": {"trigger": "my_triggers:Failing", "max_attempts": 3}}
    bridge.reads(kafka.bootstrap, name, watchers=watchers, stream={"retry": {"mode": "broker"}})
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(20)]))
    bridge.start()
    bridge.settles(within=30)
    assert bridge.stop() == 0
    (letter,) = bridge.letters()
    assert (letter.watcher, letter.position, letter.reason) == ("failing", f"{name}[0]@12", "max_attempts")
    assert letter.attempts == 3
    records = apart(truth.written(kafka.bootstrap, name))
    truth.compare(records, bridge.database, {"all": lambda n: True, "failing": lambda n: n != 12})
    assert truth.attempts(bridge.database) == 0
    tries = [(int(n), int(attempt), float(at)) for n, attempt, at in map(str.split, bridge.told())]
    resolved = [n for n, _, _ in tries]
    assert resolved == sorted(resolved), "a later record was resolved before an earlier one"
    assert [attempt for n, attempt, _ in tries if n == 5] == [1, 2]
    at = [at for n, _, at in tries if n == 12]
    assert len(at) == 3
    assert all(later - earlier > 0.5 for earlier, later in pairwise(at))


def test_a_watcher_that_is_too_far_behind_fails_what_comes_and_gets_all_of_it_again(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    name = topic.now()
    bridge.python("""
        class Slow(Filter):
            async def filter_shared_stream(self, stream):
                async for event in stream:
                    await asyncio.sleep(0.005)
                    yield TriggerEvent(event)
    """)
    watchers = {"all": {}, "slow": {"trigger": "my_triggers:Slow", "max_attempts": 2}}
    bridge.reads(kafka.bootstrap, name, watchers=watchers, stream={"overflow": "fail", "subscriber_queue_size": 50})
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(150)]))
    bridge.start()
    bridge.settles(within=40)
    overflowed = bridge.wait("it says so", lambda: bridge.health()[1]["watchers"]["slow"]["overflowed"])
    assert bridge.stop() == 0
    assert overflowed >= 100
    bridge.has_done({"all": lambda n: True, "slow": lambda n: True})
