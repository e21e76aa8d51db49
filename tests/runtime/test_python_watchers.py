"""Python watchers end to end: from a broker in memory through their thread to a store in memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from structlog.testing import capture_logs

from bridge.shared_stream import AckTimeout, current_message, reject_shared_stream_event
from bridge.triggers import TriggerEvent


def offsets(runs: list[str], watcher: str) -> list[str]:
    return [key.split("/")[2] for key in runs if key.startswith(f"{watcher}/")]


async def test_what_a_filter_yields_becomes_a_run_and_what_it_skips_is_settled(rig: Any, body: Any) -> None:
    async def even(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] % 2 == 0:
                yield TriggerEvent({"n": event["n"]})

    rig.python("even", even)
    rig.broker.send([body(n=n) for n in range(10)])
    await rig.start()
    await rig.drained()
    assert offsets(rig.runs, "even") == ["lane:0", "lane:2", "lane:4", "lane:6", "lane:8"]
    assert all(outcome.is_clean for outcome in rig.broker.settled.values())


async def test_several_yields_for_one_event_are_several_runs_with_their_ordinal(rig: Any, body: Any) -> None:
    async def twice(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            yield TriggerEvent("a")
            yield TriggerEvent("b")

    rig.python("twice", twice)
    rig.broker.send([body(n=1)])
    await rig.start()
    await rig.drained()
    assert rig.runs == ["twice/memory/lane:0/0", "twice/memory/lane:0/1"]


async def test_a_rejected_event_is_a_dead_letter_before_it_is_settled(rig: Any, body: Any) -> None:
    async def picky(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] == 1:
                reject_shared_stream_event("not mine")
            if False:
                yield

    rig.python("picky", picky)
    rig.broker.send([body(n=n) for n in range(3)])
    await rig.start()
    await rig.drained()
    assert rig.letters == [("picky", "lane:1", "not mine")]
    outcome = rig.broker.settled[("lane", 1)]
    assert (outcome.acked, outcome.rejected) == (0, 1)
    assert outcome.rejections[0].reason == "not mine"


async def test_a_filter_that_raises_is_tried_again_alone_and_then_gives_up(rig: Any, body: Any) -> None:
    seen: list[tuple[int, int]] = []

    async def brittle(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            seen.append((event["n"], message.attempt))
            if event["n"] == 1:
                raise ValueError("boom")
            yield TriggerEvent(event)

    rig.python("brittle", brittle, tries=3)
    rig.broker.send([body(n=n) for n in range(3)])
    await rig.start()
    await rig.drained()
    assert seen == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1)]
    assert rig.letters == [("brittle", "lane:1", "max_attempts")]
    assert offsets(rig.runs, "brittle") == ["lane:0", "lane:2"]
    assert not rig.store.tables.attempts


async def test_a_try_that_takes_too_long_sees_ack_timeout_and_is_repeated(rig: Any, body: Any) -> None:
    seen: list[str] = []

    async def slow(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if not seen:
                try:
                    await asyncio.sleep(60)
                except AckTimeout as error:
                    seen.append(str(error))
                    raise
            yield TriggerEvent(event)

    rig.python("slow", slow, ack_timeout=0.2)
    rig.broker.send([body(n=1)])
    await rig.start()
    await rig.drained()
    assert len(seen) == 1
    assert "0.2 s" in seen[0]
    assert offsets(rig.runs, "slow") == ["lane:0"]


async def test_a_filter_that_swallows_its_timeout_does_not_keep_the_lane(rig: Any, body: Any) -> None:
    entered: list[int] = []

    async def deaf(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            entered.append(event["n"])
            if len(entered) == 1:
                try:
                    await asyncio.sleep(60)
                except AckTimeout:
                    await asyncio.sleep(60)
            if False:
                yield

    rig.python("deaf", deaf, ack_timeout=0.2)
    rig.broker.send([body(n=0), body(n=1)])
    await rig.start()
    await rig.drained()
    assert entered == [0, 0, 1]


async def test_a_filter_that_cancels_itself_has_failed_its_try(rig: Any, body: Any) -> None:
    tries: list[int] = []

    async def suicidal(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            tries.append(1)
            if len(tries) == 1:
                raise asyncio.CancelledError
            if False:
                yield

    rig.python("suicidal", suicidal)
    rig.broker.send([body(n=1)])
    await rig.start()
    await rig.drained()
    assert len(tries) == 2
    assert rig.broker.settled[("lane", 0)].is_clean


async def test_code_that_holds_the_thread_is_left_behind_and_the_others_spend_no_try(rig: Any, body: Any) -> None:
    release = threading.Event()
    attempts: list[int] = []

    async def stuck(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] == 0 and not release.is_set():
                release.wait(20)
            if False:
                yield

    async def good(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            attempts.append(message.attempt)
            yield TriggerEvent(event)

    rig.python("stuck", stuck, ack_timeout=1.2, tries=1)
    rig.python("good", good)
    rig.broker.send([body(n=n) for n in range(3)])
    with capture_logs() as logs:
        await rig.start()
        await rig.drained()
    release.set()
    assert rig.watchers.left_behind == 1
    assert any("release.wait" in entry.get("stack", "") for entry in logs)
    assert rig.letters == [("stuck", "lane:0", "max_attempts")]
    assert offsets(rig.runs, "good") == ["lane:0", "lane:1", "lane:2"]
    assert set(attempts) == {1}


async def test_pure_python_cpu_stops_no_declarative_watcher(rig: Any, body: Any, until: Any) -> None:
    finished: list[float] = []

    async def hot(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            if event["n"] == 0:
                until = time.monotonic() + 1.0
                while time.monotonic() < until:
                    pass
                finished.append(time.monotonic())
            if False:
                yield

    rig.declare("all", {"kind": "x"})
    rig.python("hot", hot)
    rig.broker.send([body(n=n, kind="x") for n in range(20)])
    await rig.start()
    await until(lambda: len(rig.runs) == 20)
    assert not finished, "the runs of the declarative watcher waited for the busy one"
    await rig.drained()
    assert len(finished) == 1


async def test_a_restart_abandons_tries_without_spending_an_attempt(rig: Any, body: Any, until: Any) -> None:
    attempts: list[int] = []
    gate = asyncio.Event()

    async def waits(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            attempts.append(message.attempt)
            if not gate.is_set():
                await asyncio.sleep(60)
            yield TriggerEvent(event)

    rig.python("waits", waits, tries=1)
    rig.broker.send([body(n=1)])
    await rig.start()
    await until(lambda: attempts)
    assert await rig.stop()
    assert not rig.broker.settled
    gate.set()
    await rig.start()
    await rig.drained()
    assert attempts == [1, 1]
    assert not rig.letters


async def test_failed_tries_survive_a_crash(rig: Any, body: Any, until: Any) -> None:
    attempts: list[int] = []

    async def fails(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            message = current_message()
            assert message is not None
            attempts.append(message.attempt)
            if message.attempt == 2:
                await asyncio.sleep(60)
            raise ValueError("no")
            yield

    rig.python("fails", fails, tries=3)
    rig.broker.send([body(n=1)])
    await rig.start()
    await until(lambda: attempts == [1, 2])
    await rig.crash()
    await rig.start()
    await until(lambda: len(attempts) == 3)
    assert attempts[2] == 2, "the first try was forgotten"


async def test_a_watcher_that_cannot_start_is_unhealthy_and_holds_what_it_owes(rig: Any, body: Any, until: Any) -> None:
    def broken(stream: Any) -> Any:
        raise RuntimeError("no filter here")

    rig.python("broken", broken)
    rig.broker.send([body(n=1)])
    await rig.start()
    await until(lambda: rig.stream.shell and rig.stream.shell.trouble(time.monotonic(), 60.0))
    assert "broken" in (rig.stream.shell.trouble(time.monotonic(), 60.0) or "")
    assert not rig.broker.settled
    rig.stream.disable("broken")
    await until(lambda: rig.letters)
    assert rig.letters == [("broken", "lane:0", "watcher_unavailable")]


async def test_cleanup_runs_when_the_watcher_stops(rig: Any, body: Any, until: Any) -> None:
    async def idle(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            if False:
                yield

    trigger = rig.python("idle", idle)
    await rig.start()
    await until(lambda: rig.stream.state == "running" and not rig.stream._late)
    await rig.stop()
    assert trigger.cleaned == 1
