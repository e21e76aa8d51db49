"""The cases: which sides run, in which turns, and what is made of their reports."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import msgspec
from msgspec import Struct

from bench.common import Result
from bench.kafka import sides
from bench.kafka.groups import groups
from bench.kafka.sides import Order, Report, Work
from bench.kafka.topic import Counts, hidden, pace, topic

Pair = tuple[Report, Report]
"""Ours, and the bare loop's right after it."""

LATENCY: Final = {20: 200, 500: 2500}
"""Events of a latency case by its rate, per second."""


class Filled(Struct):
    """The topic that all but a few cases read, and what is in it."""

    bootstrap: str
    topic: str
    counts: Counts

    def order(self, work: Work) -> Order:
        """For a new group, which reads it all."""
        found = self.counts
        matches = {"nothing": 0, "tenants": found.tenants, "eighteen": found.eighteen, "everything": found.events}
        return Order(
            bootstrap=self.bootstrap,
            topic=self.topic,
            group=f"bench-{uuid4().hex[:10]}",
            events=found.events,
            work=work,
            matches=matches[work],
        )


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


# Throughput ----------------------------------------------------------------------------------------------------------


def pairs(filled: Filled, ours: Work, bare: Work, runs: int, *, holds: bool = False) -> list[Pair]:
    """Ours, bare, ours, bare, ..., each in a process and a group of its own; the first pair counts for nothing."""
    found: list[Pair] = []
    for _ in range(runs + 1):
        order = msgspec.structs.replace(filled.order(ours), holds=holds)
        mine = asyncio.run(sides.run("ours", order))
        found.append((mine, asyncio.run(sides.run("bare", filled.order(bare)))))
    return found[1:]


def rate(case: str, found: Sequence[Pair], loop: str) -> Result:
    """Events per second, and how many times the bare loop's rate that is."""
    bare = round(1 / median([theirs.each for _, theirs in found]))
    ratio = median([theirs.each / mine.each for mine, theirs in found])
    value = round(1 / median([mine.each for mine, _ in found]))
    return Result(case, value, "events/s", round(ratio, 2), f"{loop}, {bare:,}/s", len(found))


def cpu(case: str, found: Sequence[Pair], loop: str) -> Result:
    """CPU of an event, and how many times the bare loop's that is."""
    bare = median([theirs.cpu_each for _, theirs in found]) * 1e6
    ratio = median([mine.cpu_each / theirs.cpu_each for mine, theirs in found])
    value = median([mine.cpu_each for mine, _ in found]) * 1e6
    return Result(case, round(value, 2), "us CPU/event", round(ratio, 2), f"{loop}, {bare:.2f} us", len(found))


def all_match(filled: Filled, runs: int) -> Result:
    """Everything becomes a run request and is launched."""
    found = [asyncio.run(sides.run("ours", filled.order("everything"))) for _ in range(runs)]
    value = median([f.events / f.runs_seconds for f in found])
    return Result("kafka_all_match", round(value), "events/s", None, "nothing", runs)


# Memory --------------------------------------------------------------------------------------------------------------


def steady(filled: Filled) -> Result:
    """After the whole topic, at rest."""
    order = msgspec.structs.replace(filled.order("eighteen"), rests=True)
    found = asyncio.run(sides.run("ours", order))
    return Result("kafka_rss", round(found.steady / 1e6, 1), "MB", None, "nothing", 1)


def backlog(filled: Filled) -> Result:
    """The most that was ever in use while the topic was drained with few events outstanding."""
    order = msgspec.structs.replace(filled.order("eighteen"), max_outstanding=1000)
    found = asyncio.run(sides.run("ours", order))
    return Result("kafka_rss_backlog", round(found.most / 1e6, 1), "MB", None, "nothing", 1)


# Two processes in one group ------------------------------------------------------------------------------------------


async def _share(bootstrap: str, events: int, processes: int) -> float:
    """CPU seconds per event of all processes together; their group is complete before it can see the first event."""
    async with (
        topic(bootstrap) as name,
        groups(bootstrap) as known,
        hidden(bootstrap, name, events) as writer,
        sides.together() as members,
    ):
        order = Filled(bootstrap, name, Counts(events=events)).order("nothing")
        order = msgspec.structs.replace(order, others=True)
        for number in range(processes):  # one by one: the first decides where the group begins
            members.append(await sides.start("ours", order))
            await sides.meanwhile(known.complete(order.group, number + 1), members)
        await writer.commit_transaction()
        await known.read(order.group, events)
        await asyncio.sleep(0.5)  # the broker's answer is still on its way to them
        reports = await asyncio.gather(*(sides.finished(m, 30.0) for m in members))
    total = sum(r.events for r in reports)
    assert total == events, f"{total} of {events} events settled"
    assert all(r.events for r in reports), "a process had no share"
    return sum(r.cpu for r in reports) / events


def two(bootstrap: str, events: int, runs: int) -> Result:
    twos: list[float] = []
    ones: list[float] = []
    for _ in range(runs):
        twos.append(asyncio.run(_share(bootstrap, events, 2)))
        ones.append(asyncio.run(_share(bootstrap, events, 1)))
    ratio = median([b / a for a, b in zip(ones, twos, strict=True)])
    against = f"one process, {median(ones) * 1e6:.2f} us"
    return Result("kafka_two", round(median(twos) * 1e6, 2), "us CPU/event", round(ratio, 2), against, runs)


# Latency -------------------------------------------------------------------------------------------------------------


async def _added(bootstrap: str, rate: int) -> list[float]:
    """Seconds from a bare consumer's receipt of an event to its committed run request, sorted."""
    events = LATENCY[rate]
    async with topic(bootstrap) as name, groups(bootstrap) as known, sides.together() as running:
        filled = Filled(bootstrap, name, Counts(events=events))
        for side in ("ours", "bare"):
            order = msgspec.structs.replace(filled.order("everything"), is_paced=True)
            running.append(await sides.start(side, order))
            await sides.meanwhile(known.complete(order.group, 1), running)
        await pace(bootstrap, name, events, rate)
        ours, bare = await asyncio.gather(*(sides.finished(side, 30.0) for side in running))
    return sorted((ours.times[event] - received) / 1e9 for event, received in bare.times.items())


def added(bootstrap: str, rate: int, runs: int) -> tuple[float, float]:
    """Median and 99th percentile in ms, each the median of so many runs."""
    found = [asyncio.run(_added(bootstrap, rate)) for _ in range(runs)]
    p50, p99 = ([f[min(len(f) - 1, int(len(f) * share))] for f in found] for share in (0.5, 0.99))
    return median(p50) * 1e3, median(p99) * 1e3
