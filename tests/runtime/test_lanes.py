"""A producer whose lanes come and go: what happens to commits and advances that are under way then."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from bridge.core.retry import Backoff
from bridge.shared_stream import current_message
from bridge.triggers import TriggerEvent


async def every(stream: Any) -> Any:
    async for event in stream:
        yield TriggerEvent(event)


def load(rig: Any, body: Any, lane_producer: Any, messages: int = 30) -> None:
    rig.declare("eu", {"region": ["eu"]})
    rig.python("every", every)
    rig.producer = lambda: lane_producer(rig.broker, most=7)
    for lane in ("a", "b"):
        rig.broker.send([body(n=n, region=["eu", "us"][n % 2]) for n in range(messages)], lane)


def expected(messages: int = 30) -> list[str]:
    names = {"eu": range(0, messages, 2), "every": range(messages)}
    return sorted(f"{name}/memory/{lane}:{n}/0" for name, of in names.items() for lane in "ab" for n in of)


async def test_a_lane_that_is_revoked_during_its_commit_is_not_settled_by_that(
    rig: Any, body: Any, until: Any, lane_producer: Any
) -> None:
    rig.declare("eu", {"region": ["eu"]})
    rig.producer = lambda: lane_producer(rig.broker)
    rig.broker.send([body(region="eu") for _ in range(3)])
    rig.store.hold.clear()
    await rig.start()
    await until(lambda: rig.store.commits == 1)
    producer, core = rig.producers[0], rig.stream.shell.core
    producer.revoke("lane")
    assert core.outstanding == 0
    rig.store.hold.set()
    await until(lambda: rig.persister.is_idle and rig.runs)
    assert not rig.broker.settled, "the confirmation was for an assignment that has gone"
    assert (core.tally.settled, core.tally.dropped) == (0, 3)
    producer.assign("lane")
    await rig.drained()
    assert rig.runs == [f"eu/memory/lane:{n}/0" for n in range(3)]
    assert [run.repeats for run in rig.store.tables.runs.values()] == [1, 1, 1]


@pytest.mark.parametrize("at", [1, 2, 4, 6])
async def test_lanes_that_are_revoked_and_assigned_again_in_one_turn_lose_nothing(
    rig: Any, body: Any, until: Any, lane_producer: Any, at: int
) -> None:
    load(rig, body, lane_producer)
    await rig.start()
    await until(lambda: rig.store.commits >= at)
    producer = rig.producers[0]
    for lane in ("a", "b"):
        if lane in producer.epochs:
            producer.revoke(lane)
            producer.assign(lane)
    await rig.drained()
    assert rig.runs == expected()
    assert rig.stream.failures == 0
    assert not rig.letters


async def test_a_rebalance_storm_spends_no_tries(rig: Any, body: Any, until: Any, lane_producer: Any) -> None:
    load(rig, body, lane_producer, messages=200)
    await rig.start()
    await until(lambda: rig.stream.state == "running")
    producer = rig.producers[0]
    for _ in range(20):
        for lane in list(producer.epochs):
            producer.revoke(lane)
            producer.assign(lane)
        await until(lambda before=rig.persister.commits: rig.persister.commits > before or rig.broker.is_drained)
    await rig.drained()
    assert rig.runs == expected(200)
    assert not rig.letters
    assert not rig.store.tables.attempts
    assert rig.stream.shell.core.seats["every"].failures == 0


async def test_a_failed_try_counts_when_its_lane_comes_back_in_the_same_life(
    rig: Any, body: Any, until: Any, lane_producer: Any
) -> None:
    """Its event rests between two tries when the lane goes; the budget goes on from there."""
    attempts: list[int] = []

    async def brittle(stream: Any) -> Any:
        async for _ in stream:
            message = current_message()
            assert message is not None
            attempts.append(message.attempt)
            raise ValueError("boom")
            yield

    rig.python("brittle", brittle, tries=2)
    rig.limits = replace(rig.limits, retry=Backoff(delay=600.0))
    rig.producer = lambda: lane_producer(rig.broker)
    rig.broker.send([body(n=0)])
    await rig.start()
    await until(lambda: rig.store.tables.attempts)
    producer, core = rig.producers[0], rig.stream.shell.core
    assert core.retrying == 1
    producer.revoke("lane")
    assert core.retrying == 0
    producer.assign("lane")
    await rig.drained()
    assert attempts == [1, 2]
    assert rig.letters == [("brittle", "lane:0", "max_attempts")]
    assert not rig.store.tables.attempts
