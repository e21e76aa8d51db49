"""`bridge.testing.TriggerTest`: what a test sees of a filter is what the program would make of it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bridge.language.errors import FilterError
from bridge.shared_stream import AckTimeout, current_message, reject_shared_stream_event
from bridge.testing import FailedTry, FilterDown, RejectedEvent, RunRequest, StuckFilter, TriggerTest, expect_reject
from bridge.triggers import BaseEventTrigger, TriggerEvent

ROOT = Path(__file__).parents[2]

Filter = Callable[[AsyncIterator[Any]], AsyncIterator[TriggerEvent]]


class Filtering(BaseEventTrigger):
    """A trigger whose filter is a function of the stream."""

    def __init__(self, filter: Filter) -> None:
        super().__init__()
        self.filter = filter
        self.cleaned = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "tests.Filtering", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError
        yield

    def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        return self.filter(shared_stream)

    async def cleanup(self) -> None:
        self.cleaned += 1


async def big(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
    """Yields amounts over 100, rejects negative ones, and fails where there is none."""
    async for event in stream:
        if event["amount"] < 0:
            reject_shared_stream_event("negative")
        elif event["amount"] > 100:
            yield TriggerEvent({"amount": event["amount"]})


# Verdicts ------------------------------------------------------------------------------------------------------------


def test_an_event_gives_what_the_filter_yields_for_it() -> None:
    with TriggerTest(Filtering(big)) as stream:
        assert stream.feed({"amount": 250}) == [{"amount": 250}]
        assert stream.feed({"amount": 5}) == []
        assert stream.feed(b'{"amount": 300}') == [{"amount": 300}]
        assert [outcome.verdict for outcome in stream.outcomes] == ["acked", "skipped", "acked"]


async def test_the_same_in_a_test_that_is_a_coroutine() -> None:
    async with TriggerTest(Filtering(big)) as stream:
        assert await stream.feed({"amount": 250}) == [{"amount": 250}]
        with expect_reject("negative"):
            await stream.feed({"amount": -1})
        with pytest.raises(KeyError):
            await stream.feed({})
        await stream.clock.advance(60)
        assert stream.clock.now() == 1_700_000_060.0


def test_several_yields_of_one_event_come_in_order() -> None:
    async def thrice(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            for n in range(event):
                yield TriggerEvent(n)

    with TriggerTest(Filtering(thrice)) as stream:
        assert stream.feed(3) == [0, 1, 2]
        assert stream.last.runs == [RunRequest({"payload": n}, {}) for n in range(3)]


def test_a_yield_belongs_to_the_event_that_is_held_when_it_comes() -> None:
    async def late(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        before: Any = None
        async for event in stream:
            if before is not None:
                yield TriggerEvent(before)
            before = event

    with TriggerTest(Filtering(late)) as stream:
        assert stream.feed("1") == []
        assert stream.feed("2") == [1]
        assert stream.feed("3") == [2]


def test_a_reject_fails_a_test_that_does_not_expect_it_and_keeps_what_was_yielded() -> None:
    async def both(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            yield TriggerEvent(event)
            reject_shared_stream_event("no such currency")
            yield TriggerEvent("more")

    with TriggerTest(Filtering(both)) as stream:
        with pytest.raises(RejectedEvent, match="the event was rejected: no such currency"):
            stream.feed({"a": 1})
        assert (stream.last.verdict, stream.last.reason) == ("rejected", "no such currency")
        assert stream.last.params == [{"a": 1}, {"payload": "more"}]


def test_expect_reject_fails_where_nothing_or_something_else_is_rejected() -> None:
    with TriggerTest(Filtering(big)) as stream:
        with expect_reject():
            stream.feed({"amount": -1})
        with pytest.raises(AssertionError, match="rejected nothing"), expect_reject():
            stream.feed({"amount": 1})
        with pytest.raises(AssertionError, match="'negative', not 'other'"), expect_reject("other"):
            stream.feed({"amount": -1})


def test_a_body_that_can_t_be_read_is_rejected_before_the_filter_sees_it() -> None:
    with TriggerTest(Filtering(big)) as stream:
        with expect_reject("malformed"):
            stream.feed(b"{broken")
        assert stream.feed({"amount": 101}) == [{"amount": 101}]


# Failures ------------------------------------------------------------------------------------------------------------


def test_what_the_filter_raises_is_raised_with_its_own_traceback_and_the_next_event_meets_a_fresh_generator() -> None:
    with TriggerTest(Filtering(big)) as stream:
        with pytest.raises(KeyError) as caught:
            stream.feed({})
        assert "in big" in "".join(traceback.format_tb(caught.value.__traceback__)[-1:])
        assert (stream.last.verdict, stream.last.runs) == ("failed", [])
        assert "KeyError: 'amount' (big, line" in stream.last.error
        assert stream.feed({"amount": 101}) == [{"amount": 101}]


def test_what_a_failed_try_yielded_counts_for_nothing() -> None:
    async def brittle(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            yield TriggerEvent(event)
            raise ValueError("boom")

    with TriggerTest(Filtering(brittle)) as stream:
        with pytest.raises(ValueError, match="boom"):
            stream.feed({"a": 1})
        assert (stream.last.verdict, stream.last.payloads, stream.last.runs) == ("failed", [{"a": 1}], [])


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_would_end_the_program_or_the_task_is_a_failed_try(error: BaseException) -> None:
    async def ends(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            raise error
        yield TriggerEvent(None)

    with TriggerTest(Filtering(ends)) as stream:
        with pytest.raises(FailedTry) as caught:
            stream.feed({})
        assert caught.value.__cause__ is error
        assert stream.last.verdict == "failed"


def test_what_is_no_trigger_event_is_a_failed_try() -> None:
    async def plain(stream: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in stream:
            yield event

    with TriggerTest(Filtering(plain)) as stream, pytest.raises(FailedTry, match="yielded dict, not a TriggerEvent"):
        stream.feed({})


def test_an_error_of_what_a_filter_waits_for_is_the_filters_to_catch() -> None:
    def look_up() -> None:
        raise LookupError("not there")

    async def careful(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            try:
                await asyncio.to_thread(look_up)
            except LookupError as error:
                yield TriggerEvent(str(error))

    with TriggerTest(Filtering(careful)) as stream:
        assert stream.feed({}) == ["not there"]


def test_the_number_of_the_try_is_given_with_the_message() -> None:
    async def third_time_lucky(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            message = current_message()
            assert message is not None
            if message.attempt < 3:
                raise ValueError("not yet")
            yield TriggerEvent(message.attempt)

    with TriggerTest(Filtering(third_time_lucky)) as stream:
        for attempt in (1, 2):
            with pytest.raises(ValueError, match="not yet"):
                stream.feed(stream.message({}, attempt=attempt))
        assert stream.feed(stream.message({}, attempt=3)) == [3]


# Filters that end ----------------------------------------------------------------------------------------------------


def test_a_filter_that_returns_has_moved_on_and_a_fresh_one_takes_the_next_event() -> None:
    lives: list[int] = []

    async def once(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        lives.append(1)
        event = await anext(stream)
        yield TriggerEvent(event)

    with TriggerTest(Filtering(once)) as stream:
        assert [stream.feed(n) for n in (1, 2, 3)] == [[1], [2], [3]]
    assert len(lives) == 4


def test_a_filter_that_returns_without_taking_an_event_is_down() -> None:
    async def lazy(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        for event in ():
            yield event

    with pytest.raises(FilterDown, match="returned without taking an event"), TriggerTest(Filtering(lazy)):
        raise AssertionError("it was entered")


def test_a_filter_that_can_t_begin_raises_when_the_test_begins() -> None:
    async def broken(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        raise LookupError("no table")
        yield

    trigger = Filtering(broken)
    with pytest.raises(LookupError, match="no table"), TriggerTest(trigger):
        raise AssertionError("it was entered")
    assert trigger.cleaned == 1


def test_a_trigger_without_a_filter_is_told() -> None:
    class Alone(Filtering):
        def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
            return BaseEventTrigger.filter_shared_stream(self, shared_stream)

    with pytest.raises(NotImplementedError, match="Alone does not implement"), TriggerTest(Alone(big)):
        raise AssertionError("it was entered")


def test_the_end_of_a_test_ends_the_filter_and_cleans_up() -> None:
    seen: list[str] = []

    async def tidy(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        try:
            async for event in stream:
                yield TriggerEvent(event)
        finally:
            seen.append("finally")

    trigger = Filtering(tidy)
    before = set(threading.enumerate())
    with TriggerTest(trigger) as stream:
        stream.feed({})
    assert (seen, trigger.cleaned) == (["finally"], 1)
    assert set(threading.enumerate()) <= before


def test_a_test_that_is_made_may_be_entered_twice_or_never() -> None:
    made = TriggerTest(Filtering(big))
    for _ in range(2):
        with made as stream:
            assert stream.feed({"amount": 101}) == [{"amount": 101}]
            assert len(stream.outcomes) == 1


async def test_events_are_fed_one_at_a_time() -> None:
    async with TriggerTest(Filtering(big)) as stream:
        first, second = await asyncio.gather(
            stream.feed({"amount": 101}), stream.feed({"amount": 102}), return_exceptions=True
        )
        assert first == [{"amount": 101}]
        assert isinstance(second, RuntimeError)
        assert await stream.feed({"amount": 103}) == [{"amount": 103}]


# Params, tags, key ---------------------------------------------------------------------------------------------------


def test_the_run_request_is_rendered_as_in_the_configuration() -> None:
    with TriggerTest(
        Filtering(big),
        params={"amount": "${trigger.amount}", "order": "${event.id}", "at": "${now}", "from": "${meta.position}"},
        tags={"team": "eu", "order": "${event.id}"},
        key="order-${event.id}",
        now=datetime(2025, 11, 30, 12, tzinfo=UTC),
    ) as stream:
        stream.clock.advance(90)
        stream.feed(stream.message({"amount": 101.50, "id": 7}, position="a:1"))
        assert stream.last.runs == [
            RunRequest(
                {"amount": 101.5, "order": 7, "at": "2025-11-30T12:01:30Z", "from": "a:1"},
                {"team": "eu", "order": 7},
                "order-7",
            )
        ]
        with expect_reject("params"):
            stream.feed({"amount": 101})
        assert "event.id" in stream.last.error


def test_tags_that_are_the_same_for_all_are_there_too() -> None:
    with TriggerTest(Filtering(big), tags={"team": "eu"}) as stream:
        stream.feed({"amount": 101})
        assert stream.last.runs == [RunRequest({"amount": 101}, {"team": "eu"})]


def test_bad_params_are_refused_when_the_test_is_made() -> None:
    with pytest.raises(FilterError, match="trigger"):
        TriggerTest(Filtering(big), params={"a": "${triger.a}"})


def test_a_payload_that_json_does_not_have_is_rejected_as_in_the_program() -> None:
    async def odd(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            yield TriggerEvent({"at": object()})

    with TriggerTest(Filtering(odd)) as stream, expect_reject("params"):
        stream.feed({})


# Messages ------------------------------------------------------------------------------------------------------------


def test_a_filter_sees_the_message_that_a_test_describes() -> None:
    seen: list[Any] = []

    async def looks(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            seen.append((event, message))
        if False:
            yield

    with TriggerTest(Filtering(looks), stream="orders", now=50.0) as stream:
        stream.feed(
            stream.message(
                {"a": 1}, key="k", headers={"x": "y", "z": b"\xff"}, position="orders-0@17", timestamp=5.0,
                message_id="m", delivery_attempt=2, identity="id", lane="l",
            )
        )  # fmt: skip
        stream.feed({"a": datetime(2025, 1, 1, tzinfo=UTC)})
    event, message = seen[0]
    assert (event, message.stream, message.lane, message.identity, message.attempt) == (
        {"a": 1},
        "orders",
        "l",
        "id",
        1,
    )
    meta = message.meta
    assert (meta.key, meta.headers, meta.position) == (b"k", (("x", b"y"), ("z", b"\xff")), "orders-0@17")
    assert (meta.timestamp, meta.message_id, meta.delivery_attempt, meta.lane) == (5.0, "m", 2, "l")
    event, message = seen[1]
    assert event == {"a": "2025-01-01T00:00:00Z"}
    assert (message.meta.position, message.meta.timestamp, message.identity) == ("event 2", 50.0, "2")


def test_a_tombstone_is_none_to_a_filter_which_can_tell_it_from_null() -> None:
    seen: list[Any] = []

    async def looks(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            message = current_message()
            assert message is not None
            seen.append((event, message.meta.tombstone, message.meta.headers))
            yield TriggerEvent({"event": event})

    with TriggerTest(Filtering(looks)) as stream:
        assert stream.feed(stream.message(tombstone=True, key="k", headers={"h": None, "i": ""})) == [{"event": None}]
        assert stream.feed(None) == [{"event": None}]
    assert seen == [(None, True, (("h", None), ("i", b""))), (None, False, ())]


def test_an_event_that_is_held_is_none_between_events() -> None:
    seen: list[Any] = []

    async def looks(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        seen.append(current_message())
        async for _ in stream:
            pass
        if False:
            yield

    with TriggerTest(Filtering(looks)):
        assert seen == [None]


# The clock -----------------------------------------------------------------------------------------------------------


def test_sleeping_takes_no_time_and_the_clock_tells_that_it_did() -> None:
    async def slow(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        loop = asyncio.get_running_loop()
        async for event in stream:
            began = loop.time()
            await asyncio.sleep(event)
            yield TriggerEvent(loop.time() - began)

    began = time.monotonic()
    with TriggerTest(Filtering(slow), ack_timeout=1e6) as stream:
        assert stream.feed(3600) == [3600.0]
        assert stream.clock.now() == 1_700_003_600.0
        assert stream.feed(0) == [0.0]
    assert time.monotonic() - began < 4


def test_timers_fire_in_order_and_at_their_own_time() -> None:
    fired: list[tuple[int, float]] = []

    async def plans(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def fire(delay: int) -> None:
            fired.append((delay, loop.time() - began))

        async for event in stream:
            for delay in event:
                loop.call_later(delay, fire, delay)
        if False:
            yield

    with TriggerTest(Filtering(plans)) as stream:
        stream.feed([90, 10, 30, 200_000])
        assert fired == []
        stream.clock.advance(9.5)
        assert fired == []
        stream.clock.advance(80.5)
        assert fired == [(10, 10), (30, 30), (90, 90)]
        stream.clock.advance(200_000)
        assert fired[-1] == (200_000, 200_000)


def test_a_filter_that_sleeps_before_its_first_event_sleeps_until_there_is_one() -> None:
    async def sleepy(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        await asyncio.sleep(10)
        async for event in stream:
            yield TriggerEvent(event)

    with TriggerTest(Filtering(sleepy)) as stream:
        assert stream.clock.now() == 1_700_000_000.0
        assert stream.feed(1) == [1]
        assert stream.clock.now() == 1_700_000_010.0


def test_a_timeout_runs_out_at_once_where_nothing_happens_and_not_where_something_does() -> None:
    async def waits(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            try:
                async with asyncio.timeout(30):
                    await asyncio.sleep(event)
                yield TriggerEvent("done")
            except TimeoutError:
                yield TriggerEvent("too late")

    with TriggerTest(Filtering(waits)) as stream:
        assert stream.feed(29) == ["done"]
        assert stream.feed(31) == ["too late"]


def test_the_time_stands_still_while_a_thread_of_the_filters_is_at_work() -> None:
    async def asks(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            async with asyncio.timeout(5):
                await asyncio.to_thread(threading.Event().wait, 0.1)
            yield TriggerEvent("answered")

    with TriggerTest(Filtering(asks)) as stream:
        assert stream.feed({}) == ["answered"]
        assert stream.clock.now() == 1_700_000_000.0


def test_a_socket_is_looked_at_before_the_time_jumps() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    async def asks(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            async for event in stream:
                async with asyncio.timeout(5):
                    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                    writer.write(f"{event}\n".encode())
                    line = await reader.readline()
                    writer.close()
                    await writer.wait_closed()
                yield TriggerEvent(line.decode().strip())

    with TriggerTest(Filtering(asks)) as stream:
        assert stream.feed(7) == ["7"]


def test_holding_an_event_for_too_long_is_ack_timeout_in_the_filter_and_in_the_test() -> None:
    seen: list[str] = []

    async def slow(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            try:
                await asyncio.sleep(event)
            except AckTimeout as error:
                seen.append(str(error))
                raise
            yield TriggerEvent(event)

    with TriggerTest(Filtering(slow), ack_timeout=60.0) as stream:
        assert stream.feed(59) == [59]
        with pytest.raises(AckTimeout, match="more than 60 s"):
            stream.feed(62)
        assert (stream.last.verdict, len(seen)) == ("failed", 1)
        assert stream.feed(1) == [1]


def test_waiting_for_what_never_comes_is_ack_timeout_at_once() -> None:
    async def waits(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            await asyncio.Event().wait()
        if False:
            yield

    with TriggerTest(Filtering(waits)) as stream, pytest.raises(AckTimeout):
        stream.feed({})


def test_what_is_yielded_between_events_is_ignored_and_listed() -> None:
    async def digest(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        pulled = asyncio.ensure_future(anext(stream))
        while True:
            done, _ = await asyncio.wait({pulled}, timeout=60)
            if not done:
                yield TriggerEvent("a minute of silence")
                continue
            yield TriggerEvent(pulled.result())
            pulled = asyncio.ensure_future(anext(stream))

    with TriggerTest(Filtering(digest)) as stream:
        assert stream.feed(1) == [1]
        stream.clock.advance(121)
        assert stream.ignored == ["a minute of silence"] * 2
        assert stream.feed(2) == [2]


def test_the_time_does_not_go_back() -> None:
    with TriggerTest(Filtering(big)) as stream, pytest.raises(ValueError, match="can't go back by 5 s"):
        stream.clock.advance(-5)


def test_an_error_between_events_is_raised_where_the_time_passes() -> None:
    async def impatient(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        while True:
            yield TriggerEvent(await asyncio.wait_for(anext(stream), 60))

    with TriggerTest(Filtering(impatient)) as stream:
        assert stream.feed(1) == [1]
        stream.clock.advance(59)
        with pytest.raises(TimeoutError):
            stream.clock.advance(2)
        with pytest.raises(TimeoutError):
            stream.feed(2)


# Filters that get stuck ----------------------------------------------------------------------------------------------


def test_a_filter_that_blocks_its_thread_is_told_with_the_line_where_it_is() -> None:
    release = threading.Event()

    async def blocks(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            release.wait(30)
        if False:
            yield

    with TriggerTest(Filtering(blocks), patience=0.2) as stream:
        with pytest.raises(StuckFilter, match=rf"within 0.2 s .*, at {re.escape(__file__)}:\d+: it has to pull"):
            stream.feed({})
        with pytest.raises(StuckFilter, match="got stuck earlier"):
            stream.feed({})
    release.set()


async def test_a_filter_that_runs_in_circles_is_told_too() -> None:
    async def spins(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            while True:  # noqa: ASYNC110  # that is the point
                await asyncio.sleep(0)
        if False:
            yield

    async with TriggerTest(Filtering(spins), patience=0.2) as stream:
        with pytest.raises(StuckFilter, match="neither moved on nor ended"):
            await stream.feed({})


def test_a_filter_that_swallows_every_interruption_fails_its_try_and_is_then_stuck() -> None:
    async def deaf(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for _ in stream:
            while True:
                try:
                    await asyncio.sleep(3600)
                except BaseException:
                    continue
        if False:
            yield

    with TriggerTest(Filtering(deaf), patience=0.3) as stream:
        with pytest.raises(FailedTry, match="AckTimeout: held the event for more than 300 s"):
            stream.feed(1)
        with pytest.raises(StuckFilter):
            stream.feed(2)


def test_a_filter_that_swallows_an_interruption_and_goes_on_has_failed_its_try_all_the_same() -> None:
    async def stubborn(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            try:
                await asyncio.sleep(event)
            except AckTimeout:
                yield TriggerEvent("too late")
            yield TriggerEvent(event)

    with TriggerTest(Filtering(stubborn), ack_timeout=60.0) as stream:
        with pytest.raises(FailedTry, match="AckTimeout"):
            stream.feed(3600)
        assert stream.last.runs == []
        assert stream.ignored == ["too late", 3600]
        assert stream.feed(1) == [1]


def test_a_test_that_fails_keeps_its_own_error_though_the_filter_will_not_end() -> None:
    async def deaf(stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            yield TriggerEvent(event)
            while True:
                try:
                    await anext(stream)
                except BaseException:
                    await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError), TriggerTest(Filtering(deaf), patience=0.2) as stream:  # noqa: PT012
        assert stream.feed(1) == [1]
        raise ZeroDivisionError


# The documentation ---------------------------------------------------------------------------------------------------


def test_the_examples_of_the_documentation_run_as_they_stand(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (watcher,) = (block for block in blocks if "class RiskyOrders" in block)
    (tmp_path / "risky.py").write_text(watcher)
    tests = [block for block in blocks if "TriggerTest" in block]
    assert tests
    for number, block in enumerate(tests):
        (tmp_path / f"test_{number}.py").write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"]
    for option in ("asyncio_mode=auto", "asyncio_default_fixture_loop_scope=function"):
        command += ["-o", option]
    ran = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    count = sum(block.count("def test_") for block in tests)
    assert f"{count} passed" in ran.stdout
