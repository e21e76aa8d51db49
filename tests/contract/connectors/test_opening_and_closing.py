"""The life of a producer: it touches nothing before it is opened, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import Broker, bodies, like, needs, numbered

Begin = Callable[[], Life]


def _left_over(tasks: set[asyncio.Task[Any]], threads: set[threading.Thread], sockets: int) -> list[str]:
    gc.collect()
    found = [repr(task) for task in asyncio.all_tasks() - tasks if not task.done()]
    found += [repr(thread) for thread in set(threading.enumerate()) - threads if thread.is_alive()]
    return found + [f"{more} open files or sockets" for more in [_open_files() - sockets] if more > 0]


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


@pytest.mark.parametrize("when", ["unopened", "waiting", "reading", "settled"])
async def test_nothing_is_left_behind(broker: Broker, live: Begin, when: str) -> None:
    """No task, thread, file or connection, in whichever state it was closed."""
    await broker.send([] if when == "waiting" else numbered(20))
    gc.collect()
    before = asyncio.all_tasks(), set(threading.enumerate()), _open_files()
    life = live()
    if when == "waiting":
        assert await life.is_silent(0.3)
    elif when != "unopened":
        found = await life.until(*numbered(20))
        if when == "settled":
            await life.settle(found)
    await life.close()
    for _ in range(500):  # what was told to end may take a moment
        if not _left_over(*before):
            break
        await asyncio.sleep(0.01)
    assert _left_over(*before) == []


async def test_closing_twice_is_harmless(broker: Broker, live: Begin) -> None:
    needs(broker.features.closes_again, "it holds its caller to one call")
    await broker.send([b"0"])
    life = live()
    await life.until(b"0")
    await life.close()
    await life.producer.aclose()
    unopened = broker.producer()
    await unopened.aclose()
    await unopened.aclose()


async def test_a_closed_reader_is_not_in_the_way_of_the_next(broker: Broker, live: Begin) -> None:
    for n in range(4):
        await broker.send([b"%d" % n])
        life = live()
        found = await life.until(b"%d" % n)
        assert bodies(found) == [b"%d" % n]
        await life.settle(found)
        await life.close()


async def test_making_one_touches_nothing(broker: Broker, live: Begin) -> None:
    await broker.send(numbered(3))
    gc.collect()
    before = asyncio.all_tasks(), set(threading.enumerate()), _open_files()
    made = [broker.producer() for _ in range(3)]
    assert _left_over(*before) == []
    assert like(broker, bodies(await live().until(*numbered(3))), numbered(3))
    for each in made:
        await each.aclose()
