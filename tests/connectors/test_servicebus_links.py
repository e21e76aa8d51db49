"""Links to a queue that break, fall silent, or can't be opened, on our emulator: the next message comes anyway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import Control
from bench.brokers.servicebus.emulated import Emulated
from bench.brokers.servicebus.fixtures import NewEntity
from bench.brokers.servicebus.serving import ServiceBus
from bridge.core.model import AdvanceBatch, AdvanceOutcome
from connectors.servicebus import KIND, ServiceBusOptions, ServiceBusProducer
from tests.contract.connectors.driving import Life, Store
from tests.contract.connectors.promises import ACKED, Event

pytestmark = pytest.mark.integration

LOCK = 15.0
Begin = Callable[..., Life]
Send = Callable[..., Awaitable[None]]


@pytest.fixture
def queue(entity: NewEntity, servicebus_control: Control) -> str:
    return entity.queue(lock=LOCK)


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
        lives.append(Life(KIND.build(ServiceBusOptions(**given)), Store()))
        return lives[-1]

    yield made
    for life in lives:
        await life.close()


def producer_of(life: Life) -> ServiceBusProducer:
    assert isinstance(life.producer, ServiceBusProducer)
    return life.producer


async def advanced(life: Life, events: list[Event], outcome: AdvanceOutcome = ACKED) -> list[Any]:
    """What was left unsettled."""
    payloads = [event.payload for event in events]
    return list(await producer_of(life).advance(AdvanceBatch([(outcome, payloads)], len(payloads))) or [])


async def until(what: Callable[[], bool], within: float = 15.0) -> None:
    async with asyncio.timeout(within):
        while not what():  # noqa: ASYNC110  # what is looked at tells nobody
            await asyncio.sleep(0.02)


BREAKS: dict[str, Callable[[Control, str], object]] = {
    "idle detach": lambda control, queue: control.detach_idle(queue),
    "detach without an error": lambda control, queue: control.end_links(queue),
    "reset": lambda control, queue: control.reset_connections(queue),
    "close": lambda control, queue: control.close_connections(queue),
    "expired token": lambda control, queue: control.expire_tokens(queue),
}


@pytest.mark.parametrize("how", BREAKS)
async def test_the_next_message_comes_whatever_has_ended_the_link(
    begin: Begin, send: Send, servicebus_control: Control, servicebus: ServiceBus, queue: str, how: str
) -> None:
    life = begin()
    await send([b"before"])
    await advanced(life, await life.until(b"before"))
    life.begin()
    BREAKS[how](servicebus_control, queue)
    await entities.send(servicebus.connection_string, queue, [b"behind"])
    assert await advanced(life, await life.until(b"behind")) == []


async def test_three_resets_in_a_row_are_survived(
    begin: Begin, servicebus_control: Control, servicebus: ServiceBus, queue: str
) -> None:
    life = begin()
    life.begin()
    for _ in range(3):
        await until(lambda: producer_of(life).report().get("links") == 1)
        servicebus_control.reset_connections(queue)
        await until(lambda: producer_of(life).report().get("links") == 0)
    await entities.send(servicebus.connection_string, queue, [b"behind"])
    assert await advanced(life, await life.until(b"behind")) == []
    assert producer_of(life).report()["breaks"] == {"connection": 3}


async def test_an_entity_that_is_deleted_is_trouble_and_read_again_when_it_is_there_again(
    begin: Begin, servicebus_control: Control, servicebus: ServiceBus, queue: str
) -> None:
    life = begin()
    life.begin()
    await until(lambda: producer_of(life).report().get("links") == 1)
    servicebus_control.delete(queue)
    await until(lambda: "there is no" in str(producer_of(life).report().get("trouble")))
    servicebus_control.make_queue(queue, lock=LOCK)
    await entities.send(servicebus.connection_string, queue, [b"again"])
    await life.until(b"again")
    assert "trouble" not in producer_of(life).report()


async def test_credentials_that_are_refused_are_trouble_until_they_are_taken(
    begin: Begin, servicebus_control: Control
) -> None:
    servicebus_control.refuse_tokens()
    life = begin()
    life.begin()
    await until(lambda: "the claim Listen" in str(producer_of(life).report().get("trouble")))
    servicebus_control.accept_tokens()
    await until(lambda: producer_of(life).report().get("links") == 1)
    assert "trouble" not in producer_of(life).report()


async def test_an_entity_with_sessions_tells_what_to_write(begin: Begin, entity: NewEntity) -> None:
    life = begin(queue=entity.queue(sessions=True))
    life.begin()
    await until(lambda: "`sessions: true`" in str(producer_of(life).report().get("trouble")))


async def test_a_broker_that_falls_silent_is_left_and_the_next_message_comes(own_servicebus: Emulated) -> None:
    control = own_servicebus.control
    control.make_queue("q", lock=LOCK)
    options = ServiceBusOptions(queue="q", connection_string=own_servicebus.connection_string, open_timeout=5.0)
    life = Life(KIND.build(options), Store())
    life.begin()
    await until(lambda: producer_of(life).report().get("links") == 1)
    control.silence("all", "q")
    await until(lambda: "silent" in str(producer_of(life).report().get("breaks")), within=40)
    control.speak()
    await entities.send(own_servicebus.connection_string, "q", [b"m"])
    await life.until(b"m")
    await life.close()


async def test_a_broker_that_is_not_there_is_waited_for(own_servicebus: Emulated) -> None:
    own_servicebus.kill()
    options = ServiceBusOptions(queue="q", connection_string=own_servicebus.connection_string)
    life = Life(KIND.build(options), Store())
    life.begin()
    await until(lambda: "can't be reached" in str(producer_of(life).report().get("trouble")))
    own_servicebus.start()
    own_servicebus.control.make_queue("q", lock=LOCK)
    await until(lambda: producer_of(life).report().get("links") == 1, within=25)
    await life.close()
