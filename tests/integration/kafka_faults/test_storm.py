"""Rebalances all the time: members come, leave and die while messages pour in. Nothing is lost, doubled or refused."""

from __future__ import annotations

import random
import time

import pytest

from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import AUDIENCE, TRIGGERS, WANTS, KafkaBridge
from tests.integration.kafka_faults.feeding import feeding
from tests.integration.kafka_faults.lengths import either
from tests.integration.kafka_faults.storm import CALM

pytestmark = pytest.mark.integration

PARTITIONS = 6
RATE = either(1000, 2000)
SECONDS = either(15, 120)


@pytest.mark.timeout(either(110, 400))
def test_a_storm_of_rebalances_loses_and_doubles_nothing(bridge: KafkaBridge, kafka: Broker, topic: NewTopic) -> None:
    name = topic.now(partitions=PARTITIONS)
    bridge.python(TRIGGERS)
    bridge.reads(kafka.bootstrap, name, watchers=AUDIENCE, stream={"session_timeout": "3s"})
    seed = time.time_ns()
    bridge.start_members(seed, either(1.5, 3.0), SECONDS)
    with feeding(bridge.environment(), kafka.bootstrap, name, PARTITIONS, RATE, SECONDS) as feed:
        bridge.wait("the storm ends", lambda: bridge.said(CALM), within=SECONDS + 40)
        confirmed = feed.confirmed(within=30)
    bridge.settles(within=either(30, 90))
    assert bridge.stop() == 0
    assert len(apart(truth.written(kafka.bootstrap, name))) >= confirmed > RATE * SECONDS * 0.5
    assert len(bridge.said("a member")) >= SECONDS / either(1.5, 3.0) / 2, seed
    bridge.has_done(WANTS)


@pytest.mark.timeout(either(110, 400))
def test_kill_9_of_the_process_under_load_loses_and_doubles_nothing(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    """After a kill Python watchers take one event at a time, so few are outstanding here."""
    name = topic.now(partitions=PARTITIONS)
    seconds, kills = either(9, 90), either(3, 15)
    bridge.python(TRIGGERS)
    stream = {"session_timeout": "3s", "max_outstanding": 400}
    bridge.reads(kafka.bootstrap, name, watchers=AUDIENCE, stream=stream)
    seed = time.time_ns()
    rnd = random.Random(seed)
    with feeding(bridge.environment(), kafka.bootstrap, name, PARTITIONS, either(300, 600), seconds) as feed:
        for _ in range(kills):
            bridge.start_members(seed, 2.0, 1.0)
            before = bridge.requests()
            bridge.wait("it does something", lambda before=before: bridge.requests() > before, within=20)
            time.sleep(rnd.uniform(0.1, seconds / kills / 2))
            bridge.kill()
        bridge.start_members(seed, 1.5, 5.0)
        confirmed = feed.confirmed(within=seconds + 60)
    bridge.settles(within=either(40, 90))
    assert bridge.stop() == 0
    assert len(apart(truth.written(kafka.bootstrap, name))) >= confirmed > 0
    bridge.has_done(WANTS)
