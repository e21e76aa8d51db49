"""Bodies that take long to read: the loop keeps its turns, a stop its deadline, and the router one user at a time."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

from bridge.core.model import Context, Poll, Routed
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.options import Decoding
from bridge.filters.router import NOWHERE, FilterRouter
from bridge.shared_stream import reject_shared_stream_event
from bridge.triggers import TriggerEvent

BOMB = gzip.compress(b"[" + b"[]," * 100_000 + b"0]")  # 300 bytes, and 30 ms or more


def declared(**options: Any) -> Decoder:
    decoder = decoder_of(Decoding(**options), max_body=1 << 20, read=lambda _: b"")
    assert decoder is not None
    return decoder


class Gate(FilterRouter):
    """Reads a poll for as long as `opened` is not set, and notes how many do so at once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.opened = threading.Event()
        self.inside = self.most = self.calls = 0

    def route(self, poll: Poll, context: Context = NOWHERE) -> Routed:
        self.calls += 1
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.opened.wait(20)
        try:
            return super().route(poll, context)
        finally:
            self.inside -= 1


def gated(rig: Any) -> list[Gate]:
    made: list[Gate] = []

    def router(disabled: frozenset[str]) -> Gate:
        made.append(Gate(rig.declared, max_body=1 << 20, disabled=disabled, decoder=rig.decoder))
        return made[-1]

    rig._router = router
    return made


async def refuse(stream: Any) -> AsyncIterator[TriggerEvent]:
    async for _ in stream:
        reject_shared_stream_event("no")
        if False:
            yield


async def turns_until_drained(rig: Any) -> int:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0.005)
            turns += 1

    taking = asyncio.create_task(take_turns())
    await rig.drained(30)
    taking.cancel()
    return turns


async def test_small_bodies_that_unpack_to_large_ones_leave_the_loop_its_turns(rig: Any) -> None:
    rig.decoder = declared(wrappers=("gzip",))
    rig.declare("w", {"x": [1]})
    rig.broker.send([BOMB] * 10)
    await rig.start()
    assert await turns_until_drained(rig) >= 4  # on the loop all of them are one call: none or one


async def test_replays_of_such_bodies_do_too(rig: Any, until: Any) -> None:
    rig.decoder = declared(wrappers=("gzip",))
    rig.python("python", refuse)
    rig.declare("w", {"x": [1]})
    rig.broker.send([BOMB])
    await rig.start()
    await rig.drained(30)
    threads: list[threading.Thread] = []
    route = rig.stream._router.route

    def noted(*args: Any) -> Routed:
        threads.append(threading.current_thread())
        return route(*args)

    rig.stream._router.route = noted
    for letter in rig.store.tables.letters.values():
        letter.state = "replaying"
    await rig.stream.replay()
    await until(lambda: [x.state for x in rig.store.tables.letters.values()] == ["dead"])
    assert threads
    assert threads[0] is not threading.main_thread()


async def test_a_stop_does_not_wait_for_a_thread_past_its_deadline_and_says_so(rig: Any, until: Any) -> None:
    rig.decoder = declared(wrappers=("gzip",))
    rig.declare("w", {"x": [1]}, {})
    routers = gated(rig)
    rig.broker.send([gzip.compress(b'{"x": 1}')])
    await rig.start()
    await until(lambda: routers and routers[0].calls)
    persisting, watching, polling = rig._tasks
    for _ in range(2):  # the first ends the life, the second the wait for its poll: as the process does it
        polling.cancel()
        await asyncio.wait({polling}, timeout=0.1)
    assert polling.done()
    assert not await asyncio.wait_for(rig.stream.stop(0.5), 2.0)
    routers[0].opened.set()
    await rig._end([persisting, watching])
    assert not rig.runs
    assert not rig.broker.settled


async def test_a_life_waits_for_the_thread_of_the_one_before_and_changes_meanwhile_are_kept(
    rig: Any, until: Any
) -> None:
    rig.decoder = declared(wrappers=("gzip",))
    rig.declare("stays", {"x": [1]}, {})
    rig.declare("goes", {"x": [1]}, {})
    routers = gated(rig)
    rig.broker.send([gzip.compress(b'{"x": 1}')])
    await rig.start()
    await until(lambda: routers and routers[0].calls)
    rig.stream.shell.fail(RuntimeError("the producer failed"))
    await until(lambda: rig.stream.shell is None, 15)
    rig.stream.disable("goes")
    await asyncio.sleep(1.5)  # past the drain of the first life, and the delay before the next
    assert routers[0].calls == 1
    assert routers[0].watchers == ("stays", "goes")  # not while a thread has it
    routers[0].opened.set()
    await rig.drained()
    assert routers[0].most == 1
    assert rig.runs == ["stays/memory/lane:0/0"]


# Replays --------------------------------------------------------------------------------------------------------------


async def test_a_replay_for_a_watcher_that_is_disabled_is_a_dead_letter_again_and_not_lost(
    rig: Any, body: Any, until: Any
) -> None:
    rig.python("python", refuse)
    rig.declare("declared", {"x": [1]}, {"p": "${event.missing}"})
    rig.declare("other", {"x": [2]})
    rig.broker.send([body(x=1)])
    await rig.start()
    await rig.drained()
    letters = rig.store.tables.letters
    for watcher in ("python", "declared"):
        rig.stream.disable(watcher)
    await until(lambda: "python" not in rig.stream.shell.core.seats)
    for letter in letters.values():
        letter.state = "replaying"
    await rig.stream.replay()
    await until(lambda: [x.state for x in letters.values()] == ["dead", "dead"])
    assert {x.row.reason for x in letters.values()} == {"watcher_unavailable"}
    assert all("enable it" in x.row.error for x in letters.values())


def batch(*values: int) -> bytes:
    records = [{"eventSource": "aws:s3", "n": n} | ({"p": n} if n else {}) for n in values]
    return json.dumps({"Records": records}).encode()


async def test_a_try_that_fails_at_the_second_event_of_a_message_begins_again_at_the_first(rig: Any) -> None:
    rig.decoder = declared(unwrap=("s3",))
    seen: list[int] = []

    async def filter(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            seen.append(event["n"])
            if event["n"] == 2 and seen.count(2) < 3:
                raise RuntimeError("not yet")
            yield TriggerEvent({"n": event["n"]})

    rig.python("python", filter)
    rig.broker.send([batch(1, 2, 3), batch(4)])
    await rig.start()
    await rig.drained()
    assert seen == [1, 2, 1, 2, 1, 2, 3, 4]
    assert rig.runs == [*(f"python/memory/lane:0/{n}" for n in range(3)), "python/memory/lane:1/0"]
    assert not rig.letters


async def test_a_message_of_which_one_event_is_refused_is_replayed_without_doubling_the_others(
    rig: Any, until: Any
) -> None:
    rig.decoder = declared(unwrap=("s3",))
    rig.declare("w", {"eventSource": ["aws:s3"]}, {"p": "${event.p}"})
    rig.broker.send([batch(1, 0, 3)])
    await rig.start()
    await rig.drained()
    assert rig.runs == ["w/memory/lane:0/0", "w/memory/lane:0/2"]
    assert rig.letters == [("w", "lane:0", "params")]
    (letter,) = rig.store.tables.letters.values()
    for _ in range(2):
        letter.state = "replaying"
        await rig.stream.replay()
        await until(lambda: letter.state == "dead" and not rig.stream.shell.replaying)
    assert rig.runs == ["w/memory/lane:0/0", "w/memory/lane:0/2"]
    assert rig.broker.settlements == 1
