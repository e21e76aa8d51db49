"""A store that takes no commits for a while: nothing is settled past it, nobody is charged, membership lasts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bench.brokers.topics import apart
from tests.integration.kafka_faults import truth
from tests.integration.kafka_faults.bridging import AUDIENCE, TRIGGERS, WANTS, KafkaBridge
from tests.integration.kafka_faults.feeding import body, feeding
from tests.integration.kafka_faults.lengths import either

pytestmark = pytest.mark.integration

PARTITIONS = 4
AWAY = either(8.0, 30.0)
"""Seconds; a session lasts 6."""


@pytest.mark.timeout(either(110, 200))
def test_a_store_outage_commits_nothing_costs_no_attempt_and_no_membership(
    bridge: KafkaBridge, kafka: Broker, topic: NewTopic
) -> None:
    name = topic.now(partitions=PARTITIONS)
    bridge.python(TRIGGERS)
    bridge.reads(kafka.bootstrap, name, watchers=AUDIENCE, stream={"max_outstanding": 2000})
    bridge.start()
    apart(topics.send(kafka.bootstrap, name, [body(n) for n in range(200)]))
    bridge.settles(within=20)
    member = apart(_members(kafka.bootstrap, bridge.group))
    with feeding(bridge.environment(), kafka.bootstrap, name, PARTITIONS, 500, AWAY + 3) as feed:
        bridge.wait("there is something to lose", lambda: bridge.requests("all") > 600)
        with locked(bridge.database):
            time.sleep(0.5)  # for commits of offsets that were on their way
            stored = truth.requested(bridge.database)
            places = apart(topics.committed(kafka.bootstrap, bridge.group, name))
            ends_at = time.monotonic() + AWAY
            while time.monotonic() < ends_at:
                assert apart(_members(kafka.bootstrap, bridge.group)) == member
                time.sleep(1.0)
            assert truth.requested(bridge.database) == stored
            assert apart(topics.committed(kafka.bootstrap, bridge.group, name)) == places
            assert_behind_the_store(places, stored, name)
            bridge.wait("it says so", lambda: not bridge.health()[0])
            assert bridge.call("status").returncode == 1
        confirmed = feed.confirmed(within=60)
    bridge.settles(within=40)
    bridge.wait("it is well again", lambda: bridge.health()[0])
    assert apart(_members(kafka.bootstrap, bridge.group)) == member
    assert not bridge.said("partitions revoked")
    assert bridge.stop() == 0
    assert len(apart(truth.written(kafka.bootstrap, name))) >= confirmed + 200
    bridge.has_done(WANTS)


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Somebody has the file: it can be read, and takes no writes."""
    connection = sqlite3.connect(database, isolation_level=None, timeout=30.0)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


def assert_behind_the_store(places: dict[int, tuple[int, str]], stored: Any, name: str) -> None:
    """Every record in front of a committed offset has its run request."""
    for partition, (offset, _) in places.items():
        missing = [at for at in range(offset) if not stored["all", f"{name}[{partition}]@{at}"]]
        assert not missing, (partition, missing[:5])


async def _members(bootstrap: str, group: str) -> list[str]:
    """Who is in the group; the ids change with every rebalance that somebody was thrown out of."""
    async with topics.admin(bootstrap) as client:
        (described,) = await client.describe_consumer_groups([group])
        (found,) = described.to_object()["groups"]
        assert found["state"] == "Stable", found["state"]
        return sorted(each["member_id"] for each in found["members"])
