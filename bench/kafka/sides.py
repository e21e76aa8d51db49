"""What the two sides share: the order that a side is given, what it reports, and the meter.

A side is a process of its own (`python -m bench.kafka.bare`, `python -m bench.kafka.ours`), so that its memory and its
CPU are its own. It reads its order from its argument and prints its report as the last line of its output.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

SESSION_MS: Final = 45_000
HEARTBEAT_MS: Final = 3_000
FETCH_WAIT_MS: Final = 500
PARTITION_BYTES: Final = 1024 * 1024
POLL_RECORDS: Final = 500
"""The client's settings, on both sides; most records that one `getmany` returns."""

Work = Literal["nothing", "tenants", "eighteen", "everything"]
"""What matches: no event, one in a thousand, 18 % of them, or all."""


class Order(Struct, kw_only=True):
    """What a side shall do: read `events` events of `topic` as a member of `group`, and end."""

    bootstrap: str
    topic: str
    group: str
    events: int
    work: Work
    matches: int
    max_outstanding: int = 10_000
    holds: bool = False
    """Store run requests and start none: their watchers are paused, as `headrace pause` does it."""
    others: bool = False
    """Other processes of the same group take a share: the side ends when its standard input is closed."""
    is_paced: bool = False
    """Note when each event was there."""
    rests: bool = False
    """Wait a moment before memory is measured."""
    variant: str = ""
    """Of a peer that can be used in several ways."""
    profile: str = ""
    """A file for cProfile's statistics."""


class Report(Struct, kw_only=True):
    """From the first event to the confirmed commit behind the last: seconds, CPU seconds, memory in bytes.

    `steady` is the memory at the end, after a moment of rest; `most` the most that was seen. `runs` is what was started
    at the end. `times` is when each event was there, by `partition/offset`, in nanoseconds of the monotonic clock.
    """

    events: int
    seconds: float
    cpu: float
    matches: int = 0
    polls: int = 0
    steady: int = 0
    most: int = 0
    times: dict[str, int] = {}
    runs_seconds: float = 0.0

    @property
    def each(self) -> float:
        """Seconds per event."""
        return self.seconds / self.events

    @property
    def cpu_each(self) -> float:
        return self.cpu / self.events


class Meter:
    """Wall time and CPU of this process, all of its threads, between `start` and `stop`."""

    def __init__(self) -> None:
        self.began = self.seconds = self.cpu = 0.0
        self._cpu = 0.0

    def start(self) -> None:
        self.began, self._cpu = time.perf_counter(), used()

    def stop(self) -> None:
        """May be called again: the last call counts."""
        self.seconds, self.cpu = time.perf_counter() - self.began, used() - self._cpu


def used() -> float:
    """CPU seconds of this process so far, user and system."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def rss() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def order() -> Order:
    """What this process was asked to do."""
    return msgspec.json.decode(sys.argv[1], type=Order)


def report(done: Report) -> None:
    print(msgspec.json.encode(done).decode(), flush=True)


async def start(
    side: str, given: Order, python: str = sys.executable, *, quiet: bool = False
) -> asyncio.subprocess.Process:
    """A side that is running; `finished` is to follow."""
    return await asyncio.create_subprocess_exec(
        python, "-m", f"bench.kafka.{side}", msgspec.json.encode(given).decode(),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL if quiet else None, limit=1 << 24,
    )  # fmt: skip


async def finished(side: asyncio.subprocess.Process, within: float = 180.0) -> Report:
    """What it reports, after its input was closed; it is ended when the time is up."""
    assert side.stdin is not None
    side.stdin.close()
    try:
        async with asyncio.timeout(within):
            output, _ = await side.communicate()
    except TimeoutError:
        raise RuntimeError(f"a side was not done within {within:g} s") from None
    finally:
        if side.returncode is None:
            side.kill()
            await side.wait()
    if side.returncode:
        raise RuntimeError(f"a side ended with exit code {side.returncode}")
    return msgspec.json.decode(output.splitlines()[-1], type=Report)


@asynccontextmanager
async def together() -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """A list for sides that run at the same time: what still runs at the end is ended."""
    running: list[asyncio.subprocess.Process] = []
    try:
        yield running
    finally:
        for side in running:
            if side.returncode is None:
                side.kill()
            await side.wait()


async def meanwhile(work: Coroutine[Any, Any, None], running: Sequence[asyncio.subprocess.Process]) -> None:
    """Does the work while all of them run. Raises RuntimeError as soon as one has ended."""
    working = asyncio.create_task(work)
    ending = [asyncio.create_task(side.wait()) for side in running]
    await asyncio.wait([working, *ending], return_when=asyncio.FIRST_COMPLETED)
    for task in (working, *ending):
        task.cancel()  # what is done stays done
    if not working.done():
        await asyncio.wait([working])
        raise RuntimeError("a side has ended early: its own words are above")
    working.result()


async def run(side: str, given: Order) -> Report:
    return await finished(await start(side, given))
