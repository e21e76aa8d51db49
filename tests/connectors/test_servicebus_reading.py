"""A queue without sessions, on our emulator: settled, renewed, given back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import Control
from bench.brokers.servicebus.emulated import Emulated
from bench.brokers.servicebus.fixtures import NewEntity
from bench.brokers.servicebus.serving import ServiceBus
from bridge.core.errors import Transient
from bridge.core.model import AdvanceBatch, AdvanceOutcome, Rejection, outcome_of
from connectors.servicebus import KIND, ServiceBusOptions, ServiceBusProducer
from connectors.servicebus.bodies import UNREADABLE
from tests.contract.connectors.driving import Life, Store
from tests.contract.connectors.promises import ACKED, FAILED, Event

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


# Settling ------------------------------------------------------------------------------------------------------------


async def test_a_message_comes_at_once_and_not_after_the_200_ms_that_a_receive_waits_for_more(
    begin: Begin, send: Send
) -> None:
    life = begin()
    await send([b"first"])
    await life.until(b"first")
    waits = []
    for n in range(5):
        began = time.monotonic()
        await send([b"%d" % n])
        await life.until(b"%d" % n)
        waits.append(time.monotonic() - began)
    assert min(waits) < 0.1


async def test_a_dead_letter_has_the_reason_the_description_and_the_message_as_it_was(
    begin: Begin, send: Send, servicebus: ServiceBus, queue: str
) -> None:
    life = begin()
    await send([entities.message(b"\xff no json", properties={"kind": "order"}, id="m-1")])
    events = await life.until(b"\xff no json")
    rejection = Rejection("eu_orders", "malformed", 1, "no JSON: byte 0")
    assert await advanced(life, events, AdvanceOutcome(0, 0, 1, (rejection,))) == []
    (letter,) = await entities.peek(servicebus.connection_string, f"{queue}/$DeadLetterQueue", 5)
    assert b"".join(letter.body) == b"\xff no json"
    assert letter.dead_letter_reason == "malformed"
    assert letter.dead_letter_error_description == "eu_orders: malformed: no JSON: byte 0"
    assert (letter.message_id, (letter.application_properties or {})[b"kind"]) == ("m-1", b"order")


async def test_dead_letters_are_a_stream_of_their_own(begin: Begin, send: Send) -> None:
    life, letters = begin(), begin(subqueue="dead_letter")
    await send([b"bad"])
    await advanced(life, await life.until(b"bad"), outcome_of(0, 0, 1))
    (event,) = await letters.until(b"bad")
    headers = dict(letters.producer.describe(event.payload).headers)
    assert headers["DeadLetterReason"] == b"rejected"
    assert await advanced(letters, [event]) == []


async def test_a_subscription_to_a_topic_is_read(begin: Begin, entity: NewEntity, servicebus: ServiceBus) -> None:
    made = entity.subscription(lock=LOCK)
    life = begin(queue=None, topic=made.topic, subscription=made.name)
    await entities.send(servicebus.connection_string, made.topic, [b"1", b"2"])
    assert await advanced(life, await life.until(b"1", b"2")) == []


async def test_what_failed_comes_again_after_a_while_and_counts(begin: Begin, send: Send) -> None:
    life = begin()
    await send([b"m"])
    events = await life.until(b"m")
    began = time.monotonic()
    await advanced(life, events, FAILED)
    (again,) = await life.until(b"m")
    assert time.monotonic() - began > 0.9
    assert (events[0].payload.deliveries, again.payload.deliveries) == (1, 2)


async def test_as_many_failures_as_there_is_room_for_do_not_hold_good_messages_up(begin: Begin, send: Send) -> None:
    life = begin(max_messages=10)
    await send([b"bad-%d" % n for n in range(10)])
    await advanced(life, await life.until(*[b"bad-%d" % n for n in range(10)]), FAILED)
    good = [b"good-%d" % n for n in range(50)]
    began = time.monotonic()
    await send(good)
    found = [event for event in await life.until(*good) if event.body.startswith(b"good")]
    await advanced(life, found)
    assert time.monotonic() - began < 5


async def test_a_failed_message_rests_under_a_lock_that_is_renewed(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    life = begin(lock_duration=6.0)  # renewed every 2 s; the entity's lock is longer
    await send([b"m"])
    (event,) = await life.until(b"m")
    event.payload.deliveries = 3  # as if it had failed before: it rests for 4 s
    await advanced(life, [event], FAILED)
    await until(lambda: sum(servicebus_control.counts(queue).renewals.values()) >= 1)
    (again,) = await life.until(b"m")
    assert again.payload.deliveries == 2


@pytest.mark.parametrize("failing", [1, 5])
async def test_a_lock_that_is_lost_at_settling_is_returned_and_its_message_comes_again(
    begin: Begin, send: Send, servicebus_control: Control, failing: int
) -> None:
    life = begin()
    sent = [b"%d" % n for n in range(5)]
    await send(sent)
    events = await life.until(*sent)
    servicebus_control.fail_settlements(failing, 5)
    lost = await advanced(life, events)
    assert len(lost) == failing
    again = await life.until(*[event.body for event in events if event.payload in lost])
    assert {event.identity for event in again} == {payload.key for payload in lost}
    assert await advanced(life, again) == []


async def test_a_newer_handle_is_tried_where_the_older_one_is_refused(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    life = begin()
    await send([b"m"])
    (first,) = await life.until(b"m")
    servicebus_control.expire_locks(queue)
    (second,) = await life.until(b"m")
    settling = asyncio.create_task(advanced(life, [first]))
    await asyncio.sleep(0)  # the call has looked at the old handle
    first.payload.handle = second.payload.handle
    assert await settling == []
    await until(lambda: servicebus_control.counts(queue).messages == 0)


@pytest.mark.parametrize("condition", ["com.microsoft:server-busy", "amqp:internal-error"])
async def test_a_broker_that_can_not_settle_now_is_asked_again_and_what_is_settled_is_remembered(
    begin: Begin, send: Send, servicebus_control: Control, queue: str, condition: str
) -> None:
    life = begin()
    sent = [b"%d" % n for n in range(4)]
    await send(sent)
    events = await life.until(*sent)
    servicebus_control.fail_settlements(2, 4, condition=condition)
    with pytest.raises(Transient):
        await advanced(life, events)
    assert sum(event.payload.is_settled for event in events) == 2
    assert await advanced(life, events) == []
    assert servicebus_control.counts(queue).messages == 0


async def test_a_settlement_without_an_answer_is_given_up_within_its_bound(
    begin: Begin, send: Send, servicebus_control: Control
) -> None:
    life = begin(request_timeout=1.0)
    await send([b"m"])
    events = await life.until(b"m")
    servicebus_control.silence("dispositions")
    began = time.monotonic()
    with pytest.raises(Transient, match="not confirmed in time"):
        await advanced(life, events)
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("how", ["end_links", "reset_connections", "detach_idle"])
async def test_what_came_on_a_link_that_is_gone_is_settled_over_the_next_one(
    begin: Begin, send: Send, servicebus_control: Control, queue: str, how: str
) -> None:
    life = begin()
    sent = [b"%d" % n for n in range(3)]
    await send(sent)
    events = await life.until(*sent)
    life.begin()
    getattr(servicebus_control, how)(queue)
    await until(lambda: producer_of(life).report().get("breaks"))
    await until(lambda: producer_of(life).report().get("links") == 1)
    assert await advanced(life, events[:2]) == []
    assert await advanced(life, events[2:], outcome_of(0, 0, 1)) == []
    counts = servicebus_control.counts(queue)
    assert (counts.messages, counts.dead_letters) == (0, 1)


# Leases --------------------------------------------------------------------------------------------------------------


async def test_many_locks_are_renewed_by_few_requests(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    life = begin(max_messages=300)
    sent = [b"%d" % n for n in range(250)]
    await send(sent)
    events = await life.until(*sent)
    servicebus_control.forget()
    assert await producer_of(life).renew([event.payload for event in events]) == []
    assert servicebus_control.stats().management == {"renew-lock": 3}
    assert len(servicebus_control.counts(queue).renewals) == 250


async def test_of_many_locks_those_that_are_lost_are_found(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    life = begin()
    sent = [b"%d" % n for n in range(40)]
    await send(sent)
    payloads = [event.payload for event in await life.until(*sent)]
    life.producer.ask(0)  # type: ignore[attr-defined]  # it lends
    gone = sorted(payload.sequence for payload in payloads[5:8])
    servicebus_control.expire_locks(queue, gone)
    lost = await producer_of(life).renew(payloads)
    assert sorted(payload.sequence for payload in lost) == gone
    assert producer_of(life).report()["locks_lost"] == 3


async def test_a_renewal_that_the_broker_does_not_answer_is_transient_within_a_sixth_of_the_lease(
    begin: Begin, send: Send, servicebus_control: Control
) -> None:
    life = begin()
    await send([b"m"])
    (event,) = await life.until(b"m")
    servicebus_control.silence("management")
    began = time.monotonic()
    with pytest.raises(Transient):
        await producer_of(life).renew([event.payload])
    assert time.monotonic() - began < LOCK / 6 + 1


@pytest.mark.parametrize("seconds", [-600.0, 600.0])
async def test_a_clock_that_is_off_decides_nothing_and_is_told(
    begin: Begin, send: Send, servicebus_control: Control, queue: str, seconds: float
) -> None:
    servicebus_control.skew(seconds)  # at -600 s every lock has ended long ago by this machine's clock
    life = begin()
    await send([b"m"])
    events = await life.until(b"m")
    assert await producer_of(life).renew([event.payload for event in events]) == []
    assert await advanced(life, events) == []
    assert servicebus_control.counts(queue).messages == 0
    assert "clock" in str(producer_of(life).report()["trouble"])


async def test_a_closed_tap_takes_nothing_more(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    life = begin(max_messages=10)
    await send([b"first"])
    await life.until(b"first")
    life.producer.ask(0)  # type: ignore[attr-defined]  # it lends
    await asyncio.sleep(0.2)
    await send([b"%d" % n for n in range(30)])
    assert await life.is_silent(0.5)
    assert servicebus_control.counts(queue).active == 30
    life.producer.ask(5)  # type: ignore[attr-defined]  # it lends
    assert len(await life.poll()) <= 5


# Ending --------------------------------------------------------------------------------------------------------------


async def test_a_stop_gives_back_at_once_what_is_not_settled_and_spends_no_delivery(
    begin: Begin, send: Send, servicebus_control: Control, queue: str
) -> None:
    life = begin()
    sent = [b"%d" % n for n in range(20)]
    await send(sent)
    events = await life.until(*sent)
    await advanced(life, events[:5])
    await advanced(life, events[5:7], FAILED)  # which rest
    await producer_of(life).release([event.payload for event in events[7:12]])
    await life.close()
    counts = servicebus_control.counts(queue)
    assert (counts.active, counts.locked, counts.dead_letters) == (15, 0, 0)
    again = begin()
    assert {event.payload.deliveries for event in await again.until(*[e.body for e in events[5:]])} == {1}


async def test_a_stop_with_nothing_to_give_back_is_quick(begin: Begin) -> None:
    life = begin()
    life.begin()
    await until(lambda: producer_of(life).report().get("links") == 1)
    began = time.monotonic()
    await life.close()
    assert time.monotonic() - began < 0.5


async def test_a_stop_while_the_broker_is_silent_is_quick(own_servicebus: Emulated) -> None:
    control = own_servicebus.control
    control.make_queue("q", lock=LOCK)
    await entities.send(own_servicebus.connection_string, "q", [b"m"])
    options = ServiceBusOptions(queue="q", connection_string=own_servicebus.connection_string)
    life = Life(KIND.build(options), Store())
    await life.until(b"m")
    control.silence("all")
    began = time.monotonic()
    await life.close()
    assert time.monotonic() - began < 6


# Bodies --------------------------------------------------------------------------------------------------------------


async def test_bodies_of_every_kind_come_as_something_that_can_be_decoded_or_as_why_not(
    begin: Begin, send: Send
) -> None:
    life = begin()
    kinds = [
        entities.message([b'{"a":', b"1}"]),
        entities.message(b""),
        entities.message('{"b":2}', kind="value"),
        entities.message({"c": 3, "d": ["x"]}, kind="value"),
        entities.message([["e", 4], ["f"]], kind="sequence"),
        entities.message({"bin": b"\xff"}, kind="value"),
    ]
    for each in kinds:
        await send([each])
    events = await life.take(len(kinds))
    bodies = {event.body for event in events}
    assert {b'{"a":1}', b"", b'{"b":2}', b'{"c":3,"d":["x"]}', b'["e",4,"f"]'} < bodies
    (unsayable,) = [body for body in bodies if body.startswith(UNREADABLE)]
    assert b"no UTF-8" in unsayable
    assert await advanced(life, events) == []
