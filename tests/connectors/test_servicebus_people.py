"""What people do from a keyboard: send, look, and have a configuration looked at. It takes nothing from a stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import Control
from bench.brokers.servicebus.emulated import Emulated
from bench.brokers.servicebus.fixtures import NewEntity
from bench.brokers.servicebus.serving import ServiceBus
from bridge.core.errors import Refused
from bridge.ports import Finding, Outgoing, Seen
from connectors.servicebus import ServiceBusOptions, examine, sender, tail
from connectors.servicebus.people import message_for

pytestmark = pytest.mark.integration


def options_of(servicebus: ServiceBus, queue: str, **keys: Any) -> ServiceBusOptions:
    return ServiceBusOptions(**{"queue": queue, "connection_string": servicebus.connection_string, **keys})


async def seen(options: ServiceBusOptions, last: int, count: int) -> list[Seen]:
    shown = tail(options, last)
    async with asyncio.timeout(20):
        found = [await anext(shown) for _ in range(count)]
    await shown.aclose()  # type: ignore[attr-defined]  # it is a generator
    return found


# Sending and looking -------------------------------------------------------------------------------------------------


async def test_what_is_sent_has_its_headers_and_an_id(servicebus: ServiceBus, entity: NewEntity) -> None:
    queue = entity.queue()
    options = options_of(servicebus, queue)
    sending = sender(options)
    (position,) = await sending.send([Outgoing(b'{"id":1}', headers=(("kind", b"order"), ("größe", "5 €".encode())))])
    await sending.aclose()
    (found,) = await seen(options, 5, 1)
    assert found.body == b'{"id":1}'
    assert found.meta.headers == (("kind", b"order"), ("größe", "5 €".encode()))
    assert found.meta.message_id == position
    (received,) = await entities.read(servicebus.connection_string, queue, 1)
    assert (received.delivery_count or 0) == 0


async def test_a_message_without_a_body_is_seen_as_one(servicebus: ServiceBus, entity: NewEntity) -> None:
    queue = entity.queue()
    await entities.send(servicebus.connection_string, queue, [entities.message(None, kind="value")])
    (found,) = await seen(options_of(servicebus, queue), 5, 1)
    assert (found.body, found.meta.tombstone) == (None, True)


async def test_the_lane_of_a_message_is_its_session(servicebus: ServiceBus, entity: NewEntity) -> None:
    options = options_of(servicebus, entity.queue(sessions=True), sessions=True)
    sending = sender(options)
    await sending.send([Outgoing(b"1", lane="a"), Outgoing(b"2", lane="b")])
    await sending.aclose()
    assert [found.meta.lane for found in await seen(options, 5, 2)] == ["a", "b"]


def test_what_service_bus_has_no_place_for_is_refused() -> None:
    queue = ServiceBusOptions(queue="orders", namespace="n.servicebus.windows.net")
    sessions = ServiceBusOptions(queue="orders", namespace="n.servicebus.windows.net", sessions=True)
    letters = ServiceBusOptions(queue="orders", namespace="n.servicebus.windows.net", subqueue="dead_letter")
    for message, options, why in (
        (Outgoing(b"x"), sessions, "requires sessions"),
        (Outgoing(b"x", lane="a"), queue, "no sessions"),
        (Outgoing(b"x", key=b"k"), queue, "no key"),
        (Outgoing(b"x"), letters, "nobody can send"),
        (Outgoing(b"x", headers=(("h", b"\xff"),)), queue, "'h' is no UTF-8"),
    ):
        with pytest.raises(Refused, match=why):
            message_for(message, options)


async def test_sending_to_what_does_not_exist_is_refused(servicebus: ServiceBus) -> None:
    sending = sender(options_of(servicebus, "no-such-queue"))
    with pytest.raises(Refused, match="no-such-queue"):
        await sending.send([Outgoing(b"x")])
    await sending.aclose()


async def test_only_the_last_are_shown_and_then_what_comes(servicebus: ServiceBus, entity: NewEntity) -> None:
    queue = entity.queue()
    await entities.send(servicebus.connection_string, queue, [b"%d" % n for n in range(10)])
    shown = tail(options_of(servicebus, queue), 2)
    async with asyncio.timeout(20):
        earlier = [await anext(shown) for _ in range(2)]
        await entities.send(servicebus.connection_string, queue, [b"new"])
        new = await anext(shown)
    await shown.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert [each.body for each in (*earlier, new)] == [b"8", b"9", b"new"]


# Examining -----------------------------------------------------------------------------------------------------------


async def found_at(options: ServiceBusOptions) -> list[Finding]:
    return list(await examine(options))


async def test_what_is_right_is_not_spoken_of_and_nothing_is_taken(
    servicebus: ServiceBus, entity: NewEntity, servicebus_control: Control
) -> None:
    queue, sessions = entity.queue(), entity.queue(sessions=True)
    await entities.send(servicebus.connection_string, queue, [b"1", b"2"])
    await entities.send(servicebus.connection_string, sessions, [b"1"], session="a")
    assert await found_at(options_of(servicebus, queue)) == []
    assert await found_at(options_of(servicebus, sessions, sessions=True)) == []
    assert await found_at(options_of(servicebus, queue, subqueue="dead_letter")) == []
    counts = servicebus_control.counts(queue)
    assert (counts.active, counts.settled) == (2, {})
    assert servicebus_control.counts(sessions).active == 1


async def test_sessions_that_are_or_are_not_required_are_told(servicebus: ServiceBus, entity: NewEntity) -> None:
    (found,) = await found_at(options_of(servicebus, entity.queue(sessions=True)))
    assert (found.severity, found.hint) == ("error", "set `sessions: true`")
    (found,) = await found_at(options_of(servicebus, entity.queue(), sessions=True))
    assert "does not require sessions" in found.message


async def test_an_entity_that_is_not_there_is_told(servicebus: ServiceBus) -> None:
    (found,) = await found_at(options_of(servicebus, "no-such-queue"))
    assert "there is no no-such-queue" in found.message


async def test_credentials_that_are_refused_are_told(
    servicebus: ServiceBus, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.refuse_tokens()
    (found,) = await found_at(options_of(servicebus, queue))
    assert "the claim Listen" in found.message


async def test_a_namespace_that_is_not_there_or_silent_is_told_in_time(own_servicebus: Emulated) -> None:
    own_servicebus.control.make_queue("q")
    options = ServiceBusOptions(queue="q", connection_string=own_servicebus.connection_string)
    own_servicebus.freeze()
    (found,) = await found_at(options)
    assert "can't be reached" in found.message
    own_servicebus.thaw()
    own_servicebus.kill()
    (found,) = await found_at(options)
    assert "can't be reached" in found.message
