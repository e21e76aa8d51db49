"""Back-pressure: a lane that is paused gives nothing, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable

from tests.contract.connectors.driving import Life
from tests.contract.connectors.promises import Broker, bodies, needs, numbered

Begin = Callable[[], Life]


async def test_a_paused_lane_gives_nothing_and_the_others_go_on(broker: Broker, live: Begin) -> None:
    needs(broker.features.pauses and broker.features.lanes > 1, "no single lane can be paused")
    many = numbered(1500, "held")
    await broker.send(many, 0)
    life = live()
    first = await life.poll()
    life.pause(first[0].lane)
    for n in range(4):
        await broker.send([b"free-%d" % n], 1)
        assert bodies(await life.until(b"free-%d" % n)) == [b"free-%d" % n]
    life.resume(first[0].lane)
    assert bodies(first) + bodies(await life.until(many[-1])) == many


async def test_a_lane_that_is_paused_while_a_poll_waits_gives_no_more_than_that(broker: Broker, live: Begin) -> None:
    needs(broker.features.pauses and broker.features.appends, "what comes later is another lane")
    await broker.send([b"0"])
    life = live()
    (first,) = await life.until(b"0")
    life.begin()
    life.pause(first.lane)
    await broker.send(numbered(10))
    if not await life.is_silent(0.5):
        assert bodies(await life.poll()) == numbered(10)[:1]
        assert await life.is_silent(0.5)
    life.resume(first.lane)
    await broker.send([b"end"])
    await life.until(b"end")


async def test_a_stream_that_is_paused_whole_gives_nothing_until_it_is_resumed(broker: Broker, live: Begin) -> None:
    needs(broker.features.pauses, "it can't be paused")
    lanes = range(broker.features.lanes)
    for lane in lanes:
        await broker.send(numbered(3, f"lane{lane}"), lane)
    life = live()
    found = await life.until(*[body for lane in lanes for body in numbered(3, f"lane{lane}")])
    mine = {event.lane for event in found}
    life.pause(*mine)
    if broker.features.appends:
        for lane in lanes:
            await broker.send([b"more-%d" % lane], lane)
    assert await life.is_silent(1.0)
    await life.settle(found)  # which goes on
    life.resume(*mine)
    more = [b"more-%d" % lane for lane in lanes] if broker.features.appends else [b"end"]
    if not broker.features.appends:
        await broker.send([b"end"])
    assert sorted(bodies(await life.until(*more))) == sorted(more)


async def test_pausing_twice_and_what_is_not_there_is_harmless(broker: Broker, live: Begin) -> None:
    needs(broker.features.pauses, "it can't be paused")
    life = live()
    life.pause("nowhere")
    life.resume("nowhere")
    await broker.send([b"0"])
    (first,) = await life.until(b"0")
    life.pause(first.lane, first.lane)
    life.pause(first.lane)
    life.resume(first.lane)
    life.resume(first.lane)
    await broker.send([b"1"])
    assert bodies(await life.until(b"1")) == [b"1"]
