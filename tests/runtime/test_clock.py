from __future__ import annotations

import asyncio
import time

from bridge.runtime.clock import FakeClock, SystemClock


async def test_a_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock(now=100.0)
    sleeper = asyncio.create_task(clock.sleep(5))
    await clock.advance(4.5)
    assert not sleeper.done()
    assert (clock.monotonic(), clock.now(), clock.sleepers) == (4.5, 104.5, [0.5])
    await clock.advance(0.5)
    assert sleeper.done()


async def test_sleepers_wake_in_order_each_at_its_own_instant() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, *seconds: float) -> None:
        for each in seconds:
            await clock.sleep(each)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.create_task(sleep("a", 3)), asyncio.create_task(sleep("b", 1, 1, 5))]
    await clock.advance(10)
    assert woken == [("b", 1), ("b", 2), ("a", 3), ("b", 7)]
    await asyncio.gather(*tasks)


async def test_a_sleeper_that_was_cancelled_holds_nobody_up() -> None:
    clock = FakeClock()
    first, second = asyncio.create_task(clock.sleep(1)), asyncio.create_task(clock.sleep(2))
    await clock.settle()
    first.cancel()
    await clock.advance(2)
    assert second.done()


async def test_a_sleep_of_nothing_lets_others_run_and_ends() -> None:
    await asyncio.wait_for(FakeClock().sleep(0), 1)


async def test_the_system_clock_is_the_machines() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 1
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
