"""A topic that is deleted and made again begins with offset 0 once more. What was run before must not hide that."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import KafkaBridge
from tests.integration.kafka_faults.feeding import body

pytestmark = pytest.mark.integration

FIRST, MORE, FEWER = range(10), range(100, 120), range(200, 203)


def fill(kafka: Broker, name: str, numbers: range) -> None:
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in numbers]))


def make_again(kafka: Broker, name: str) -> None:
    apart(topics.delete(kafka.bootstrap, name))
    apart(topics.create(kafka.bootstrap, name))


@pytest.mark.parametrize("numbers", [MORE, FEWER], ids=["more", "fewer"])
def test_a_topic_that_is_made_again_while_nobody_looks_is_read_from_its_beginning(
    numbers: range, bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    name = topic.now()
    fill(kafka, name, FIRST)
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}})
    bridge.start()
    bridge.settles(within=20)
    assert bridge.stop() == 0
    make_again(kafka, name)
    fill(kafka, name, numbers)
    bridge.start()
    bridge.settles(within=20)
    assert bridge.stop() == 0
    assert truth.numbers(bridge.database, "all") == Counter([*FIRST, *numbers])
    assert truth.letters(bridge.database) == []


@pytest.mark.parametrize("numbers", [MORE, FEWER], ids=["more", "fewer"])
def test_a_topic_that_is_made_again_while_it_is_read_is_read_from_its_beginning(
    numbers: range, bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    """Written to at once: with as many records as before, and more, there is no offset that could be missing."""
    name = topic.now()
    fill(kafka, name, FIRST)
    bridge.reads(kafka.bootstrap, name, watchers={"all": {}})
    bridge.start()
    bridge.settles(within=20)
    make_again(kafka, name)
    fill(kafka, name, numbers)
    bridge.wait("the new ones run", lambda: bridge.requests() == len(FIRST) + len(numbers), within=30)
    bridge.settles(within=20)
    assert bridge.stop() == 0
    assert truth.numbers(bridge.database, "all") == Counter([*FIRST, *numbers])
    assert truth.letters(bridge.database) == []
