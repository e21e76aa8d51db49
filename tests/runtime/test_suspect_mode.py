"""Suspect mode through the shell: after a death, Python watchers open one event at a time, and what kills is found."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

from bridge.ports import OpenedRow
from bridge.runtime.clock import SystemClock
from bridge.runtime.dispatcher import Dispatcher
from bridge.runtime.persister import Persister
from bridge.runtime.process import Process, ProcessSpec
from bridge.runtime.supervisor import StreamSpec
from bridge.runtime.suspicion import Suspicion
from bridge.shared_stream import current_message, reject_shared_stream_event
from bridge.triggers import TriggerEvent


class Watched:
    """Filters that note what is open, and check that it is written and alone. `hold`: event `n` waits for `go_on`."""

    def __init__(self, rig: Any, hold: int = -1) -> None:
        self.rig = rig
        self.open: set[tuple[str, int]] = set()
        self.seen: list[tuple[str, int]] = []
        self.most = 0
        self.unwritten: list[tuple[str, int]] = []
        self.hold = hold
        self.go_on = threading.Event()

    def filter(self, name: str) -> Any:
        async def filter(stream: Any) -> AsyncIterator[TriggerEvent]:
            async for event in stream:
                await self.look(name, event["n"])
                yield TriggerEvent(event)

        return filter

    async def look(self, name: str, n: int) -> None:
        message = current_message()
        assert message is not None
        key = (name, n)
        self.seen.append(key)
        self.open.add(key)
        self.most = max(self.most, len(self.open))
        attempt = self.rig.store.tables.attempts.get((name, "memory", message.identity))
        if attempt is None or not attempt.is_open:
            self.unwritten.append(key)
        try:
            await asyncio.sleep(0.001)
            while n == self.hold and not self.go_on.is_set():  # noqa: ASYNC110  # it is set on another loop
                await asyncio.sleep(0.005)
        finally:
            self.open.discard(key)


def suspected(rig: Any, events: int = 1000, seconds: float = 300.0) -> None:
    rig.suspicion = Suspicion(events, seconds)
    rig.suspicion.begin()


def runs(watchers: str, messages: int, lanes: Sequence[str] = "ab") -> list[str]:
    return sorted(f"{w}/memory/{lane}:{n}/0" for w in watchers for lane in lanes for n in range(messages))


async def test_one_event_is_open_in_the_whole_process_and_it_is_written_before(rig: Any, body: Any) -> None:
    watched = Watched(rig)
    suspected(rig)
    for name in "pqr":
        rig.python(name, watched.filter(name))
    rig.declare("d", {"kind": "x"})
    for lane in "ab":
        rig.broker.send([body(n=n, kind="x") for n in range(8)], lane)
    await rig.start()
    await rig.drained()
    assert watched.most == 1
    assert not watched.unwritten
    assert rig.runs == runs("pqrd", 8)
    assert [name for name, _ in watched.seen[:9]] == [*"pqr"] * 3, "turns go round"
    assert rig.suspicion.left == 1000 - 3 * 16
    assert not rig.store.tables.attempts, "what resolved is forgotten"


async def test_a_declarative_watcher_does_not_wait_for_anybodys_turn(rig: Any, body: Any, until: Any) -> None:
    watched = Watched(rig, hold=0)
    suspected(rig)
    rig.python("p", watched.filter("p"))
    rig.declare("d", {"kind": "x"})
    rig.broker.send([body(n=n, kind="x") for n in range(5)])
    await rig.start()
    await until(lambda: len(rig.runs) == 5 and watched.seen)
    assert watched.seen == [("p", 0)]
    watched.go_on.set()
    await rig.drained()


async def test_after_its_events_all_goes_on_as_usual(rig: Any, body: Any) -> None:
    watched = Watched(rig)
    suspected(rig, events=3)
    rig.python("p", watched.filter("p"))
    rig.python("q", watched.filter("q"))
    rig.broker.send([body(n=n) for n in range(30)])
    await rig.start()
    await rig.drained()
    assert not rig.suspicion.is_active
    assert len(watched.unwritten) == 2 * 30 - 3
    assert rig.runs == runs("pq", 30, ["lane"])
    assert not rig.store.tables.attempts


async def test_the_end_of_its_time_frees_those_that_wait_for_a_slow_one(rig: Any, body: Any, until: Any) -> None:
    watched = Watched(rig, hold=0)
    rig.python("slow", watched.filter("slow"))
    rig.python("quick", Watched(rig).filter("quick"))
    suspected(rig, seconds=0.3)
    rig.broker.send([body(n=n) for n in range(5)])
    await rig.start()
    await until(lambda: sum(key.startswith("quick/") for key in rig.runs) == 5)
    assert watched.seen == [("slow", 0)]
    watched.go_on.set()
    await rig.drained()
    assert len(rig.runs) == 10


async def test_an_event_that_the_process_died_of_three_times_is_a_dead_letter(rig: Any, body: Any, until: Any) -> None:
    """The death itself is played: the shell is dropped while the event is open, and the store finds it so."""
    watched = Watched(rig, hold=1)
    rig.python("p", watched.filter("p"))
    rig.broker.send([body(n=n) for n in range(3)])
    for death in range(4):
        suspected(rig, events=1000 if death else 0)
        await rig.start()
        await until(lambda before=death + 1: watched.seen.count(("p", 1)) == before)
        await rig.crash()
        watched.open.clear()
        rig.store = rig.store.restarted()
        assert rig.store.was_killed
    suspected(rig)
    await rig.start()
    await rig.drained()
    assert watched.seen.count(("p", 1)) == 4, "the first death is charged to nobody, three are"
    assert rig.letters == [("p", "lane:1", "killed_process")]
    (letter,) = rig.store.tables.letters.values()
    assert "the process died 3 times in a row" in letter.row.error
    assert rig.runs == ["p/memory/lane:0/0", "p/memory/lane:2/0"]
    assert rig.broker.settled["lane", 1].rejected == 1
    assert not rig.store.tables.attempts


async def test_a_try_that_fails_ends_the_row_of_deaths(rig: Any, body: Any) -> None:
    tries: list[int] = []

    async def raises_once(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            tries.append(event["n"])
            if len(tries) == 1:
                raise ValueError("boom")
            yield TriggerEvent(event)

    suspected(rig)
    opened = OpenedRow("p", "memory", "lane:0", deaths=1)
    await rig.store.commit([opened], "an earlier life")
    rig.store = rig.store.restarted()
    rig.python("p", raises_once)
    rig.broker.send([body(n=0)])
    deaths: list[int] = []
    commit = rig.store.commit

    async def noting(rows: Any, commit_id: str) -> Any:
        deaths.extend(row.deaths for row in rows if isinstance(row, OpenedRow))
        return await commit(rows, commit_id)

    rig.store.commit = noting
    await rig.start()
    await rig.drained()
    assert deaths == [2, 0]
    assert tries == [0, 0]
    assert not rig.letters


async def test_a_lane_that_is_revoked_frees_the_turn_that_its_event_has(
    rig: Any, body: Any, until: Any, lane_producer: Any
) -> None:
    watched = Watched(rig, hold=0)
    suspected(rig)
    rig.python("p", watched.filter("p"))
    rig.python("q", Watched(rig).filter("q"))
    rig.producer = lambda: lane_producer(rig.broker)
    rig.broker.send([body(n=0)], "a")
    await rig.start()
    await until(lambda: watched.open)
    rig.broker.send([body(n=n) for n in range(1, 4)], "b")
    producer = rig.producers[0]
    await until(lambda: "b" in producer.epochs)
    producer.revoke("a")
    await until(lambda: sum("/b:" in key for key in rig.runs) == 6)
    watched.go_on.set()
    producer.assign("a")
    await rig.drained()
    assert rig.runs == sorted([*runs("pq", 1, "a"), *runs("pq", 3, "b")])
    assert rig.stream.shell.core.seats["p"].failures == 0


async def test_a_lane_that_is_revoked_while_a_try_is_being_written_frees_the_turn(
    rig: Any, body: Any, until: Any, lane_producer: Any
) -> None:
    watched = Watched(rig)
    suspected(rig)
    for name in "pq":
        rig.python(name, watched.filter(name))
    rig.producer = lambda: lane_producer(rig.broker)
    rig.store.hold.clear()
    rig.broker.send([body(n=0)], "a")
    await rig.start()
    await until(lambda: rig.store.commits == 1)
    producer = rig.producers[0]
    producer.revoke("a")
    producer.assign("a")
    rig.store.hold.set()
    await rig.drained()
    assert rig.runs == runs("pq", 1, "a")
    assert (watched.most, watched.unwritten) == (1, [])


async def test_a_watcher_that_is_disabled_frees_its_turn(rig: Any, body: Any, until: Any) -> None:
    watched = Watched(rig, hold=0)
    suspected(rig)
    rig.python("p", watched.filter("p"))
    rig.python("q", Watched(rig).filter("q"))
    rig.broker.send([body(n=n) for n in range(3)])
    await rig.start()
    await until(lambda: watched.open)
    rig.stream.disable("p")
    await rig.drained()
    assert rig.runs == runs("q", 3, ["lane"])
    assert {reason for _, _, reason in rig.letters} == {"watcher_unavailable"}


async def test_a_group_that_ends_frees_its_turn_and_the_next_life_goes_on_in_suspect_mode(
    rig: Any, body: Any, until: Any
) -> None:
    watched = Watched(rig, hold=0)
    suspected(rig)
    rig.python("p", watched.filter("p"))
    rig.broker.send([body(n=n) for n in range(3)])
    await rig.start()
    await until(lambda: watched.open)
    status = rig.suspicion.status()
    assert (status["events"], status["open"]) == (999, "p")
    watched.go_on.set()
    rig.stream.shell.fail(OSError("the broker has gone"))
    await rig.drained()
    assert len(rig.producers) == 2
    assert rig.suspicion.is_active
    assert rig.suspicion.status()["open"] is None
    assert (watched.most, watched.unwritten) == (1, [])
    assert rig.runs == runs("p", 3, ["lane"])


async def test_a_watcher_that_is_down_does_not_keep_its_turn(rig: Any, body: Any, until: Any) -> None:
    """It dies between two events, with a ticket that it has not taken: the others go on, and so does it later."""
    deaths = [1]

    async def weak(stream: Any) -> AsyncIterator[TriggerEvent]:
        if deaths:
            deaths.pop()
            await asyncio.sleep(0.05)  # the ticket is here by now
            raise OSError("no network")
        async for event in stream:
            yield TriggerEvent(event)

    suspected(rig)
    rig.python("weak", weak)
    rig.python("q", Watched(rig).filter("q"))
    rig.broker.send([body(n=n) for n in range(4)])
    await rig.start()
    await rig.drained()
    assert len(rig.runs) == 8
    assert not rig.letters
    assert not rig.store.tables.attempts


async def test_a_rejected_event_passes_its_turn_on(rig: Any, body: Any) -> None:
    async def picky(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] == 0:
                reject_shared_stream_event("not mine")
            yield TriggerEvent(event)

    suspected(rig)
    rig.python("picky", picky)
    rig.broker.send([body(n=n) for n in range(2)])
    await rig.start()
    await rig.drained()
    assert rig.letters == [("picky", "lane:0", "not mine")]
    assert not rig.store.tables.attempts


async def test_what_is_still_open_when_the_mode_ends_is_charged_with_no_death(rig: Any, body: Any, until: Any) -> None:
    """From then on others are open beside it, and it is only slow."""
    watched = Watched(rig, hold=0)
    rig.python("slow", watched.filter("slow"))
    rig.store = rig.store.restarted()  # the one before was killed
    rig.broker.send([body(n=0)])
    clock = SystemClock()
    persister = Persister(rig.store, clock, lambda: 0.0)
    stream = StreamSpec("stream", "memory", "memory", rig._produce, rig._router, tuple(rig.watch), (), rig.limits)
    spec = ProcessSpec([stream], frozenset(), heartbeat=3600.0, stop_timeout=10.0, suspect_for=0.3)
    dispatcher = Dispatcher(rig.store, persister, {}, clock, lambda: 0.0)
    process = Process(spec, rig.store, persister, dispatcher, clock, lambda: 0.0)
    running = asyncio.create_task(process.run())
    await until(lambda: watched.open)
    assert not watched.unwritten
    await until(lambda: not process.suspicion.is_active and persister.commits == 2)
    assert await rig.store.restarted().attempts("memory") == {}
    watched.go_on.set()
    await rig.drained()
    process.request_stop()
    assert await running == 0
