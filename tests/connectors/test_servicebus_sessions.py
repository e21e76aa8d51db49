"""Sessions as lanes, on our emulator: in order, held, lost, failed, and given up for others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import structlog

from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import Control
from bench.brokers.servicebus.fixtures import NewEntity
from bench.brokers.servicebus.serving import ServiceBus
from bridge.core.errors import OwnershipLost
from bridge.core.model import AdvanceBatch, AdvanceOutcome
from connectors.servicebus import KIND, ServiceBusOptions, SessionsProducer
from tests.contract.connectors.driving import Life, Store
from tests.contract.connectors.promises import ACKED, FAILED, Event, bodies, numbered

pytestmark = pytest.mark.integration

LOCK = 15.0
Begin = Callable[..., Life]
Send = Callable[..., Awaitable[None]]


@pytest.fixture
def queue(entity: NewEntity, servicebus_control: Control) -> str:
    return entity.queue(lock=LOCK, sessions=True)


@pytest.fixture
async def send(servicebus: ServiceBus, queue: str) -> AsyncIterator[Send]:
    async with entities.sending(servicebus.connection_string, queue) as sending:
        yield sending


@pytest.fixture
async def begin(servicebus: ServiceBus, queue: str) -> AsyncIterator[Begin]:
    """Lives of a reader of the queue, which are closed at the end."""
    lives: list[Life] = []

    def made(**keys: Any) -> Life:
        given = {"queue": queue, "connection_string": servicebus.connection_string, "lock_duration": LOCK, **keys}
        lives.append(Life(KIND.build(ServiceBusOptions(**{"sessions": True, **given})), Store()))
        return lives[-1]

    yield made
    for life in lives:
        await life.close()


def producer_of(life: Life) -> SessionsProducer:
    assert isinstance(life.producer, SessionsProducer)
    return life.producer


async def advanced(life: Life, events: list[Event], outcome: AdvanceOutcome = ACKED) -> None:
    payloads = [event.payload for event in events]
    assert not await producer_of(life).advance(AdvanceBatch([(outcome, payloads)], len(payloads)))


async def until(what: Callable[[], bool], within: float = 15.0) -> None:
    async with asyncio.timeout(within):
        while not what():  # noqa: ASYNC110  # what is looked at tells nobody
            await asyncio.sleep(0.02)


def of(events: list[Event], lane: str) -> list[Event]:
    return [event for event in events if event.lane == lane]


async def test_a_session_is_a_lane_and_keeps_its_order(begin: Begin, send: Send) -> None:
    await send(numbered(30, "a"), session="a")
    await send(numbered(30, "b"), session="b")
    life = begin()
    events = await life.until(*numbered(30, "a"), *numbered(30, "b"))
    assert bodies(of(events, "a")) == numbered(30, "a")
    assert bodies(of(events, "b")) == numbered(30, "b")
    assert life.producer.describe(events[0].payload).lane == events[0].lane


async def test_what_failed_comes_again_first_and_what_was_behind_it_costs_no_delivery(begin: Begin, send: Send) -> None:
    await send(numbered(5), session="a")
    life = begin()
    events = await life.until(*numbered(5))
    await advanced(life, events[:1])
    began = time.monotonic()
    await advanced(life, events[1:2], FAILED)
    await producer_of(life).release([event.payload for event in events[2:]])  # as the runtime does
    again = await life.until(*numbered(4, start=1))
    assert time.monotonic() - began > 0.9
    assert bodies(again) == numbered(4, start=1)
    assert [event.payload.deliveries for event in again] == [2, 1, 1, 1]
    assert {event.epoch for event in again} == {life.epochs["a"]}
    await advanced(life, again)


async def test_a_session_that_failed_delays_no_other(begin: Begin, send: Send) -> None:
    await send([b"bad"], session="a")
    await send([b"good-0"], session="b")
    life = begin()
    events = await life.until(b"bad", b"good-0")
    await advanced(life, of(events, "a"), FAILED)
    began = time.monotonic()
    await send([b"good-1"], session="b")
    await life.until(b"good-1")
    assert time.monotonic() - began < 0.9


async def test_a_lost_session_is_revoked_and_its_rest_comes_again_in_order_while_others_go_on(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    await send(numbered(3, "a"), session="a")
    await send([b"b-0"], session="b")
    life = begin()
    events = await life.until(*numbered(3, "a"), b"b-0")
    epochs = dict(life.epochs)
    await advanced(life, of(events, "a")[:1])
    life.begin()
    assert servicebus_control.expire_sessions(queue, "a") == 1
    await send([b"b-1"], session="b")
    found = await life.until(b"b-1", *numbered(2, "a", start=1))
    assert bodies(of(found, "a")) == numbered(2, "a", start=1)
    assert life.epochs["a"] != epochs["a"]
    assert life.epochs["b"] == epochs["b"]
    assert producer_of(life).report()["locks_lost"] == 1


async def test_what_is_advanced_for_a_session_that_is_lost_changes_nothing(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    await send(numbered(3), session="a")
    life = begin()
    events = await life.until(*numbered(3))
    life.begin()
    servicebus_control.expire_sessions(queue, "a")
    await until(lambda: producer_of(life).report().get("locks_lost") == 1)
    await advanced(life, events)
    again = await life.until(*numbered(3))
    assert bodies(again) == numbered(3)


async def test_a_settlement_that_meets_a_lost_session_drops_the_lane(
    begin: Begin, send: Send, servicebus_control: Control
) -> None:
    await send(numbered(2), session="a")
    life = begin()
    events = await life.until(*numbered(2))
    life.begin()
    servicebus_control.fail_settlements(1, condition="com.microsoft:session-lock-lost")
    with pytest.raises(OwnershipLost):
        await advanced(life, events[:1])
    again = await life.until(*numbered(2))
    assert bodies(again) == numbered(2)


@pytest.mark.parametrize("how", ["reset_connections", "detach_idle", "end_links", "close_connections"])
async def test_a_session_whose_link_breaks_is_taken_again(
    begin: Begin, send: Send, servicebus: ServiceBus, servicebus_control: Control, queue: str, how: str
) -> None:
    await send(numbered(3), session="a")
    life = begin()
    events = await life.until(*numbered(3))
    await advanced(life, events[:1])
    life.begin()
    getattr(servicebus_control, how)(queue)
    again = await life.until(*numbered(2, start=1))
    assert bodies(again) == numbered(2, start=1)
    await advanced(life, again)


async def test_that_there_is_no_session_is_nothing_to_speak_of(begin: Begin, send: Send) -> None:
    life = begin(open_timeout=2.0)  # half of it is waited for
    with structlog.testing.capture_logs() as logs:
        assert await life.is_silent(3.0)
        assert {entry["log_level"] for entry in logs} <= {"debug"}
    assert "trouble" not in producer_of(life).report()
    await send([b"m"], session="a")
    await life.until(b"m")


async def test_an_empty_session_makes_room_for_another_and_one_that_is_worked_on_does_not(
    begin: Begin, send: Send
) -> None:
    life = begin(max_sessions=1, session_idle=0.5)
    await send([b"a"], session="a")
    events = await life.until(b"a")
    await send([b"b"], session="b")
    assert await life.is_silent(2.0)
    await advanced(life, events)
    assert {event.lane for event in await life.until(b"b")} == {"b"}
    assert "a" not in life.epochs


async def test_no_more_sessions_are_held_than_allowed(begin: Begin, send: Send) -> None:
    for session in "abc":
        await send([session.encode()], session=session)
    life = begin(max_sessions=2)
    assert len(await life.take(2)) == 2
    assert await life.is_silent(1.5)
    assert producer_of(life).report()["sessions"] == 2


async def test_a_session_is_renewed_by_itself_and_once_for_all_of_its_messages(
    begin: Begin, servicebus: ServiceBus, servicebus_control: Control, entity: NewEntity
) -> None:
    queue = entity.queue(lock=6.0, sessions=True)
    await entities.send(servicebus.connection_string, queue, numbered(20), session="a")
    life = begin(queue=queue, lock_duration=6.0)
    events = await life.until(*numbered(20))
    assert await life.is_silent(7.0)
    assert servicebus_control.stats().session_renewals >= 2
    servicebus_control.forget()
    assert await producer_of(life).renew([event.payload for event in events]) == []
    assert servicebus_control.stats().session_renewals == 1
    await advanced(life, events)
    assert producer_of(life).report()["breaks"] == {}


async def test_the_messages_of_a_session_that_can_not_be_renewed_any_more_are_lost_together(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    await send(numbered(3), session="a")
    life = begin()
    payloads = [event.payload for event in await life.until(*numbered(3))]
    servicebus_control.fail_renewals(1, condition="com.microsoft:session-lock-lost")
    assert await producer_of(life).renew(payloads) == payloads


async def test_a_stop_gives_a_session_back_at_once_in_order_and_without_a_delivery(begin: Begin, send: Send) -> None:
    await send(numbered(5), session="a")
    life = begin()
    events = await life.until(*numbered(5))
    await advanced(life, events[:2])
    await producer_of(life).release([event.payload for event in events[2:]])
    began = time.monotonic()
    await life.close()
    assert time.monotonic() - began < 3
    again = await begin().until(*numbered(3, start=2))
    assert bodies(again) == numbered(3, start=2)
    assert {event.payload.deliveries for event in again} == {1}


async def test_two_readers_share_the_sessions(begin: Begin, send: Send) -> None:
    one, two = begin(max_sessions=2), begin(max_sessions=2)
    for session in "abcd":
        await send([session.encode()], session=session)
    first, second = await asyncio.gather(one.take(2), two.take(2))
    assert sorted(bodies(first) + bodies(second)) == [b"a", b"b", b"c", b"d"]


async def test_an_entity_without_sessions_is_trouble(begin: Begin, entity: NewEntity) -> None:
    life = begin(queue=entity.queue())
    life.begin()
    await until(lambda: "does it require sessions" in str(producer_of(life).report().get("trouble")))
