"""`retry: {mode: broker}`: a failed try is reported to the source, which delivers the event again to everybody."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from bridge.shared_stream import UNORDERED, current_message
from bridge.testing import MemoryProducer
from bridge.triggers import TriggerEvent
from connectors.directory import DirectoryOptions, LineByLine, WholeFiles

Seen = list[tuple[int, int]]


def in_broker_mode(rig: Any) -> None:
    rig.limits = replace(rig.limits, retry_mode="broker")


def brittle(bad: int, until: int, seen: Seen) -> Any:
    """Fails event `bad` before its try number `until`."""

    async def filter(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            seen.append((event["n"], message.attempt))
            if event["n"] == bad and message.attempt < until:
                raise ValueError("boom")
            yield TriggerEvent(event)

    return filter


class Redelivering(MemoryProducer):
    """Without epochs, as a drop folder: what failed is read again once `advance` has returned."""

    async def advance(self, batch: Sequence[Any]) -> None:
        await super().advance(batch)
        for payload, outcome in batch:
            if outcome.failed:
                self.told(payload)
                self._again(payload.lane, payload.offset)

    def told(self, payload: Any) -> None:
        pass

    def _again(self, lane: Hashable, offset: int) -> None:
        self._next[lane] = offset
        self.broker.send([], lane)


@pytest.mark.parametrize("lane", ["lane", UNORDERED])
async def test_what_a_watcher_failed_comes_again_to_all_and_its_budget_holds(
    rig: Any, body: Any, until: Any, lane: Any
) -> None:
    seen: Seen = []
    others: Seen = []
    written: list[int] = []

    class Telling(Redelivering):
        def told(self, payload: Any) -> None:
            ((triple, attempt),) = rig.store.tables.attempts.items()
            assert triple == ("brittle", "memory", f"{lane}:{payload.offset}")
            written.append(attempt.tries)

    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=1, until=99, seen=seen), tries=3)
    rig.python("other", brittle(bad=-1, until=0, seen=others))
    rig.producer = lambda: Telling(rig.broker)
    rig.broker.send([body(n=n) for n in range(4)], lane)
    await rig.start()
    await rig.drained()
    assert written == [1, 2], "the failed try is written before the source is told"
    assert [attempt for n, attempt in seen if n == 1] == [1, 2, 3]
    assert others.count((1, 1)) == 3
    assert rig.letters == [("brittle", f"{lane}:1", "max_attempts")]
    assert rig.runs == sorted(
        [*(f"brittle/memory/{lane}:{n}/0" for n in (0, 2, 3)), *(f"other/memory/{lane}:{n}/0" for n in range(4))]
    )
    assert not rig.store.tables.attempts
    assert rig.stream.failures == 0
    assert rig.stream.shell.core.tally.unsettled == 2


async def test_behind_a_failed_event_of_an_ordered_lane_its_watcher_tries_nothing(rig: Any, body: Any) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=1, until=2, seen=seen))
    rig.producer = lambda: Redelivering(rig.broker)
    rig.broker.send([body(n=n) for n in range(4)])
    await rig.start()
    await rig.drained()
    assert seen == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1)]


async def test_a_producer_that_takes_the_lane_anew_within_its_advance_loses_and_doubles_nothing(
    rig: Any, body: Any, lane_producer: Any
) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=5, until=3, seen=seen))
    rig.declare("all", {"kind": "x"})
    rig.producer = lambda: lane_producer(rig.broker, most=4)
    for lane in ("a", "b"):
        rig.broker.send([body(n=n, kind="x") for n in range(12)], lane)
    await rig.start()
    await rig.drained()
    assert sorted(rig.producers[0].failed) == [("a", 5), ("a", 5), ("b", 5), ("b", 5)]
    assert sorted(attempt for n, attempt in seen if n == 5) == [1, 1, 2, 2, 3, 3]
    assert rig.runs == sorted(
        f"{w}/memory/{lane}:{n}/0" for w in ("all", "brittle") for lane in "ab" for n in range(12)
    )
    assert not rig.letters
    assert rig.stream.shell.core.outstanding == 0
    assert not rig.store.tables.attempts


async def test_the_budget_goes_on_in_the_next_life(rig: Any, body: Any, until: Any) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=0, until=99, seen=seen), tries=2)
    rig.broker.send([body(n=0)])
    await rig.start()
    await until(lambda: rig.stream.shell and rig.stream.shell.core.tally.unsettled == 1)
    await rig.crash()
    rig.store = rig.store.restarted()
    await rig.start()
    await rig.drained()
    assert seen == [(0, 1), (0, 2)]
    assert rig.letters == [("brittle", "lane:0", "max_attempts")]


async def test_the_next_life_counts_a_try_that_the_store_could_not_take_in_this_one(
    rig: Any, body: Any, until: Any
) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=0, until=2, seen=seen))
    rig.store.hold.clear()
    rig.broker.send([body(n=0)])
    await rig.start()
    await until(lambda: rig.store.commits == 1)
    rig.stream.shell.fail(OSError("the broker went away"))
    with suppress(TimeoutError):  # a life that begins too early
        await until(lambda: len(rig.producers) == 2, within=1.5)
    rig.store.hold.set()
    await rig.drained()
    assert seen == [(0, 1), (0, 2)]
    assert not rig.store.tables.attempts


async def test_a_replay_that_fails_is_tried_again_here_since_no_source_has_it(rig: Any, body: Any, until: Any) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=0, until=99, seen=seen), tries=1)
    rig.broker.send([body(n=0)])
    await rig.start()
    await rig.drained()
    (letter,) = rig.store.tables.letters.values()
    rig.watch.clear()
    await rig.stop()
    rig.store = rig.store.restarted()
    rig.python("brittle", brittle(bad=0, until=3, seen=seen), tries=3)
    await rig.start()
    await until(lambda: rig.stream.state == "running")
    rig.store.post("replay", dead_letters=[letter.id])
    await rig.store.take_intents()
    await rig.stream.replay()
    await until(lambda: letter.state == "replayed")
    assert [attempt for _, attempt in seen] == [1, 1, 2, 3]
    assert rig.runs == ["brittle/memory/lane:0/0"]


def folder(path: Path, **options: Any) -> DirectoryOptions:
    return DirectoryOptions(path=str(path), settle=0.0, poll_interval=0.02, **options)


async def test_a_failed_line_of_a_drop_folder_comes_again_with_all_behind_it(
    rig: Any, body: Any, until: Any, tmp_path: Path
) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=2, until=99, seen=seen), tries=2)
    rig.declare("all", {"kind": "x"})
    rig.producer = lambda: LineByLine(folder(tmp_path, lines=True))
    (tmp_path / "lines").write_bytes(b"\n".join(body(n=n, kind="x") for n in range(5)) + b"\n")
    await rig.start()
    await until(lambda: (tmp_path / "done").exists() and list((tmp_path / "done").iterdir()), 20)
    assert seen == [(0, 1), (1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]
    assert [(watcher, reason) for watcher, _, reason in rig.letters] == [("brittle", "max_attempts")]
    assert sorted(key.split("/")[0] for key in rig.runs) == ["all"] * 5 + ["brittle"] * 4
    assert not rig.store.tables.attempts


async def test_a_failed_file_of_a_drop_folder_comes_again_alone(
    rig: Any, body: Any, until: Any, tmp_path: Path
) -> None:
    seen: Seen = []
    in_broker_mode(rig)
    rig.python("brittle", brittle(bad=1, until=2, seen=seen))
    rig.producer = lambda: WholeFiles(folder(tmp_path))
    for n in range(3):
        (tmp_path / f"file-{n}").write_bytes(body(n=n))
    await rig.start()
    await until(lambda: (tmp_path / "done").exists() and len(list((tmp_path / "done").iterdir())) == 3, 20)
    assert sorted(seen) == [(0, 1), (1, 1), (1, 2), (2, 1)]
    assert len(rig.runs) == 3
    assert not rig.letters
    assert not rig.store.tables.attempts


async def test_a_file_that_was_paused_when_its_line_failed_is_read_on(
    rig: Any, body: Any, until: Any, tmp_path: Path
) -> None:
    """It is full while its failed line waits to be told; the way through it that follows must not stay paused."""
    seen: Seen = []
    in_broker_mode(rig)
    rig.limits = replace(rig.limits, max_outstanding=40)
    rig.python("brittle", brittle(bad=2, until=2, seen=seen))
    rig.producer = lambda: LineByLine(folder(tmp_path, lines=True))
    (tmp_path / "lines").write_bytes(b"\n".join(body(n=n) for n in range(700)) + b"\n")
    await rig.start()
    await until(lambda: (tmp_path / "done").exists() and list((tmp_path / "done").iterdir()), 20)
    assert len(rig.runs) == 700
    assert [attempt for n, attempt in seen if n == 2] == [1, 2]


async def test_what_a_watcher_had_done_before_its_thread_was_left_behind_does_not_come_in_the_way(
    rig: Any, body: Any
) -> None:
    """A filter that never waits hands back a batch at a time: the thread is held, and has verdicts still to tell."""
    release = threading.Event()
    seen: Seen = []

    async def stuck(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            seen.append((event["n"], message.attempt))
            if event["n"] == 2 and message.attempt == 1:
                release.wait(20)
            yield TriggerEvent(event)

    in_broker_mode(rig)
    rig.python("stuck", stuck, ack_timeout=1.2)
    rig.producer = lambda: Redelivering(rig.broker)
    rig.broker.send([body(n=n) for n in range(5)])
    await rig.start()
    try:
        await rig.drained()
    finally:
        release.set()
    assert rig.watchers.left_behind == 1
    assert seen == [(0, 1), (1, 1), (2, 1), (2, 2), (3, 1), (4, 1)]
    assert rig.runs == [f"stuck/memory/lane:{n}/0" for n in range(5)]
