"""A process with three members of one group that come, leave and die all the time.

    python -m tests.integration.kafka_faults.storm CONFIG SEED EVERY SECONDS

For SECONDS one of them changes every EVERY seconds or so, in an order that SEED decides; then all of them are there
until SIGTERM. An end that was asked for has exit code 0.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Final

import structlog

from bridge import telemetry, wiring
from bridge.runtime.process import stop_on_signals
from tests.integration.kafka_faults.members import Group, Member, group_of

log = structlog.get_logger("tests.storm")

MEMBERS: Final = 3
DIES: Final = 4
"""One in so many says no farewell: the group stands still until its session is over."""
CALM: Final = "the storm is over"
"""What the log says then."""


class Storm:
    """Seats for members: each is taken or free."""

    def __init__(self, group: Group, seed: int) -> None:
        self._group = group
        self._random = random.Random(seed)
        self._seats: list[Member | None] = [None] * MEMBERS
        self._leaving: set[asyncio.Task[None]] = set()  # the storm does not wait for them

    async def blow(self, every: float, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        self._fill()
        while loop.time() < ends_at:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * every)
            self._change(self._random.randrange(MEMBERS))
        self._fill()

    def _change(self, seat: int) -> None:
        member = self._seats[seat]
        if member is None:
            log.info("a member joins", seat=seat)
            self._seats[seat] = self._group.join()
            return
        self._seats[seat] = None
        is_dying = len(self._leaving) % DIES == 1
        what = "a member dies" if is_dying else "a member leaves"
        log.info(what, seat=seat, partitions=sorted(member.partitions))
        self._leaving.add(asyncio.create_task(member.die() if is_dying else member.leave()))

    def _fill(self) -> None:
        self._seats = [member or self._group.join() for member in self._seats]

    async def end(self) -> None:
        await asyncio.gather(*self._leaving, *(member.leave() for member in self._seats if member is not None))


async def blow(config: str, seed: int, every: float, seconds: float) -> None:
    stopping = stop_on_signals(wiring.abort)
    async with group_of(wiring.load_config([Path(config)])) as group:
        storm = Storm(group, seed)
        blowing = asyncio.create_task(storm.blow(every, seconds))
        stopped = asyncio.create_task(stopping.wait())
        await asyncio.wait({blowing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            await blowing
            log.info(CALM)
        await stopped
        blowing.cancel()
        await asyncio.wait({blowing})
        await storm.end()


def main(config: str, seed: str, every: str, seconds: str) -> None:
    telemetry.configure("info")
    asyncio.run(blow(config, int(seed), float(every), float(seconds)))


if __name__ == "__main__":
    main(*sys.argv[1:])
