"""The Service Bus of the tests itself: our emulator, seen by the real client, and what breaks it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import (
    OperationTimeoutError,
    ServiceBusError,
    SessionCannotBeLockedError,
    SessionLockLostError,
)

from bench.brokers.endpoint import Unavailable
from bench.brokers.processes import free_port
from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import Control, Refused
from bench.brokers.servicebus.emulated import Emulated
from bench.brokers.servicebus.fixtures import NewEntity
from bench.brokers.servicebus.serving import ServiceBus, serve_servicebus

if TYPE_CHECKING:
    from bench.brokers.servicebus.container import ServiceBusInContainer

pytestmark = pytest.mark.integration

LETTERS = "/$DeadLetterQueue"


@pytest.fixture
def place(servicebus: ServiceBus) -> str:
    return servicebus.connection_string


# What it does ---------------------------------------------------------------------------------------------------------


async def test_a_queue_gives_what_was_sent_in_order_and_numbered(place: str, entity: NewEntity) -> None:
    queue, before = entity.queue(), datetime.now(UTC) - timedelta(seconds=5)
    sent = [entities.message(b"%d" % n, properties={"n": n}, id=f"m{n}") for n in range(3)]
    await entities.send(place, queue, sent)
    found = await entities.read(place, queue, 3)
    assert [(each.sequence_number, str(each), each.message_id, each.delivery_count) for each in found] == [
        (1, "0", "m0", 0),
        (2, "1", "m1", 0),
        (3, "2", "m2", 0),
    ]
    assert [each.application_properties for each in found] == [{b"n": 0}, {b"n": 1}, {b"n": 2}]
    assert all(each.enqueued_time_utc and each.enqueued_time_utc > before for each in found)


@pytest.mark.parametrize("batched", [True, False])
async def test_every_body_type_passes_unchanged(place: str, entity: NewEntity, batched: bool) -> None:
    bodies: list[tuple[entities.Kind, object]] = [
        ("data", b'{"n": 1}'),
        ("data", b""),
        ("data", [b'{"n"', b": 1}"]),
        ("value", '{"n": 1}'),
        ("value", {b"n": [1, 2.5, True, None]}),
        ("sequence", [[1, b"two"], [3]]),
    ]
    queue = entity.queue()
    await entities.send(place, queue, [entities.message(body, kind=kind) for kind, body in bodies], batched=batched)
    found = await entities.read(place, queue, len(bodies))
    assert [each.body_type for each in found] == [AmqpMessageBodyType(kind) for kind, _ in bodies]
    assert [b"".join(each.body) for each in found[:3]] == [b'{"n": 1}', b"", b'{"n": 1}']
    assert len(list(found[2].body)) == 2
    assert found[3].body == b'{"n": 1}'
    assert found[4].body == {b"n": [1, 2.5, True, None]}
    assert list(found[5].body) == [[1, b"two"], [3]]


async def test_a_body_that_looks_like_a_batch_is_not_split(place: str, entity: NewEntity) -> None:
    """A whole encoded message as the body: only the message format tells a batch."""
    queue, encoded = entity.queue(), b"\x00\x53\x75\xa0\x01x"
    await entities.send(place, queue, [encoded], batched=False)
    await entities.send(place, queue, [encoded])
    assert [b"".join(each.body) for each in await entities.read(place, queue, 2)] == [encoded, encoded]


async def test_a_message_over_several_frames_arrives_whole(place: str, entity: NewEntity) -> None:
    queue, body = entity.queue(), bytes(range(256)) * 1000
    await entities.send(place, queue, [body, b"small", body], batched=False)
    assert [b"".join(each.body) for each in await entities.read(place, queue, 3)] == [body, b"small", body]


async def test_settling_does_what_it_says(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue()
    await entities.send(place, queue, [b"done", b"again", b"later", b"bad"])
    async with entities.receiving(place, queue) as receiver:
        done, again, later, bad = await receiver.receive_messages(4, max_wait_time=5)
        await receiver.complete_message(done)
        await receiver.abandon_message(again)
        await receiver.defer_message(later)
        await receiver.dead_letter_message(bad, "no order", "it has no id")
        counts = servicebus_control.counts(queue)
        assert (counts.active, counts.locked, counts.deferred, counts.dead_letters) == (1, 0, 1, 1)
        assert counts.settled == {"completed": 1, "abandoned": 1, "defered": 1, "suspended": 1}
        (back,) = await receiver.receive_messages(1, max_wait_time=5)
        assert (str(back), back.sequence_number, back.delivery_count) == ("again", 2, 1)
        (deferred,) = await receiver.receive_deferred_messages([3])
        await receiver.complete_message(deferred)
        await receiver.complete_message(back)
    (letter,) = await entities.peek(place, queue + LETTERS, 5)
    assert (str(letter), letter.sequence_number) == ("bad", bad.sequence_number)
    assert letter.enqueued_time_utc == bad.enqueued_time_utc
    assert (letter.dead_letter_reason, letter.dead_letter_error_description) == ("no order", "it has no id")
    assert letter.dead_letter_source == queue


async def test_a_message_that_fails_too_often_becomes_a_dead_letter(place: str, entity: NewEntity) -> None:
    queue = entity.queue(max_delivery=2)
    await entities.send(place, queue, [entities.message([b"a", b"b"], properties={"kept": 1})])
    async with entities.receiving(place, queue) as receiver:
        for _ in range(2):
            (message,) = await receiver.receive_messages(1, max_wait_time=5)
            await receiver.abandon_message(message)
    (letter,) = await entities.read(place, queue + LETTERS, 1)
    assert list(letter.body) == [b"a", b"b"]
    assert letter.dead_letter_reason == "MaxDeliveryCountExceeded"
    assert letter.application_properties is not None
    assert letter.application_properties[b"kept"] == 1


async def test_a_lock_runs_out_unless_it_is_renewed(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue(lock=1.0)
    await entities.send(place, queue, [b"kept", b"lost"])
    async with entities.receiving(place, queue) as receiver:
        kept, _ = await receiver.receive_messages(2, max_wait_time=5)
        ends_at = time.monotonic() + 1.6
        while time.monotonic() < ends_at:
            await receiver.renew_message_lock(kept)
            await asyncio.sleep(0.2)
        (again,) = await receiver.receive_messages(2, max_wait_time=2)
        assert (str(again), again.delivery_count) == ("lost", 1)
        await receiver.complete_message(kept)
    counts = servicebus_control.counts(queue)
    assert counts.renewals[1] >= 5
    assert servicebus_control.stats().renewals == sum(counts.renewals.values())


async def test_each_subscription_has_its_own_copies_and_dead_letters(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    first = entity.subscription()
    second = servicebus_control.make_subscription(first.topic, "second")
    await entities.send(place, first.topic, [b"1", b"2"])
    async with entities.receiving(place, second) as receiver:
        for message in await receiver.receive_messages(2, max_wait_time=5):
            await receiver.dead_letter_message(message, "bad", "worse")
    assert [str(each) for each in await entities.read(place, first.path, 2)] == ["1", "2"]
    assert [str(each) for each in await entities.read(place, second + LETTERS, 2)] == ["1", "2"]


async def test_scheduled_messages_wait_and_expired_ones_become_dead_letters(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.make_queue(queue, life=60, expired_are_dead_lettered=True)
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    async with ServiceBusClient.from_connection_string(place) as client, client.get_queue_sender(queue) as sender:
        await sender.schedule_messages(entities.message(b"soon"), soon)
        (never,) = await sender.schedule_messages(entities.message(b"never"), soon)
        await sender.cancel_scheduled_messages(never)
        await sender.send_messages(entities.message(b"short", life=0.05))
    assert servicebus_control.counts(queue).scheduled == 1
    (found,) = await entities.read(place, queue, 1)
    assert str(found) == "soon"
    assert datetime.now(UTC) >= soon
    (letter,) = await entities.read(place, queue + LETTERS, 1)
    assert (str(letter), letter.dead_letter_reason) == ("short", "TTLExpiredException")


async def test_what_a_receiver_had_fetched_ahead_comes_back_when_it_closes(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    await entities.send(place, queue, [b"%d" % n for n in range(30)])
    async with entities.receiving(place, queue, prefetch_count=20) as receiver:
        (first,) = await receiver.receive_messages(1, max_wait_time=5)
        assert servicebus_control.counts(queue).locked > 1
        await receiver.complete_message(first)
    counts = servicebus_control.counts(queue)
    assert (counts.active, counts.locked) == (29, 0)
    assert [each.delivery_count for each in await entities.read(place, queue, 29)] == [0] * 29


# Sessions -------------------------------------------------------------------------------------------------------------


async def test_the_next_free_session_is_given_and_held(place: str, entity: NewEntity) -> None:
    queue = entity.queue(sessions=True)
    async with entities.sending(place, queue) as send:
        await send([b"a1", b"a2"], session="a")
        await send([b"b1"], session="b")
    async with entities.receiving(place, queue, next_session=True) as first:
        assert first.session.session_id == "a"
        assert first.session.locked_until_utc is not None
        assert first.session.locked_until_utc > datetime.now(UTC) + timedelta(seconds=50)
        async with entities.receiving(place, queue, next_session=True) as second:
            assert second.session.session_id == "b"
            assert [str(each) for each in await second.receive_messages(5, max_wait_time=1)] == ["b1"]
        with pytest.raises(SessionCannotBeLockedError):
            async with entities.receiving(place, queue, session="a", retries=0):
                pass
        assert [str(each) for each in await first.receive_messages(5, max_wait_time=1)] == ["a1", "a2"]
        assert await first.session.renew_lock() > datetime.now(UTC)
        await first.session.set_state(b"half")
        assert await first.session.get_state() == b"half"
    found = await entities.read_sessions(place, queue)
    assert {session: [str(each) for each in each] for session, each in found.items()} == {
        "a": ["a1", "a2"],
        "b": ["b1"],
    }
    assert [each.delivery_count for each in found["a"]] == [0, 0]  # the session was closed, not lost


async def test_an_attach_is_held_until_there_is_a_session_or_the_time_is_up(place: str, entity: NewEntity) -> None:
    queue = entity.queue(sessions=True)
    began_at = time.monotonic()
    with pytest.raises(OperationTimeoutError):
        async with entities.receiving(place, queue, next_session=True, max_wait_time=1, retries=0):
            pass
    assert time.monotonic() - began_at > 0.5

    async def first() -> str:
        async with entities.receiving(place, queue, next_session=True, max_wait_time=20) as receiver:
            return str(receiver.session.session_id)

    waiting = asyncio.create_task(first())
    await asyncio.sleep(0.8)
    assert not waiting.done()
    await entities.send(place, queue, [b"1"], session="late")
    assert await waiting == "late"


async def test_a_lost_session_lock_ends_the_link_and_the_messages_come_again(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue(sessions=True)
    servicebus_control.send(queue, [b"1", b"2", b"3"], session="s")
    async with entities.receiving(place, queue, session="s", retries=0) as receiver:
        (first,) = await receiver.receive_messages(1, max_wait_time=5)
        assert servicebus_control.expire_sessions(queue, "s") == 1
        with pytest.raises(SessionLockLostError):
            await receiver.receive_messages(1, max_wait_time=2)
        with pytest.raises((SessionLockLostError, ServiceBusError)):
            await receiver.complete_message(first)
    async with entities.receiving(place, queue, session="s") as receiver:
        found = await receiver.receive_messages(3, max_wait_time=2)
    assert [(str(each), each.delivery_count) for each in found] == [("1", 1), ("2", 0), ("3", 0)]


async def test_a_session_lock_runs_out_by_itself(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue(sessions=True, lock=1.0)
    servicebus_control.send(queue, [b"1"], session="s")
    async with entities.receiving(place, queue, session="s", retries=0) as receiver:
        assert len(await receiver.receive_messages(1, max_wait_time=5)) == 1
        with pytest.raises(SessionLockLostError):
            await receiver.receive_messages(1, max_wait_time=4)
    counts = servicebus_control.counts(queue)
    assert (counts.active, counts.locked) == (1, 0)


async def test_thousands_of_messages_pass_within_seconds(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue, many = entity.queue(), 3000
    servicebus_control.send(queue, [b"%d" % n for n in range(many)])
    began_at = time.monotonic()
    found = await entities.read(place, queue, many)
    assert [int(str(each)) for each in found] == list(range(many))
    assert time.monotonic() - began_at < 15


# Where it comes from --------------------------------------------------------------------------------------------------


async def test_an_emulator_that_was_killed_comes_back_empty_on_its_port(own_servicebus: Emulated) -> None:
    place, queue = own_servicebus.connection_string, "kept-by-nobody"
    own_servicebus.control.make_queue(queue)
    await entities.send(place, queue, [b"1"])
    await asyncio.to_thread(own_servicebus.kill)
    await asyncio.to_thread(own_servicebus.start)
    with pytest.raises(Refused):
        own_servicebus.control.counts(queue)


def test_entities_are_made_and_used_without_a_loop_too(place: str, entity: NewEntity) -> None:
    queue = entity.queue()
    entities.apart(entities.send(place, queue, [b"1"]))
    assert [str(each) for each in entities.apart(entities.peek(place, queue, 2))] == ["1"]


async def test_microsofts_emulator_serves_in_a_container(servicebus_in_a_container: ServiceBusInContainer) -> None:
    place = servicebus_in_a_container.connection_string
    await entities.send(place, "orders", [b"1"])
    assert [str(each) for each in await entities.read(place, "orders", 1)] == ["1"]


def test_a_given_address_that_does_not_answer_is_told_without_its_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEADRACE_BROKERS", "given")
    address = f"Endpoint=sb://127.0.0.1:{free_port()};SharedAccessKeyName=n;SharedAccessKey=secret"
    monkeypatch.setenv("HEADRACE_SERVICEBUS", address)
    with pytest.raises(Unavailable, match="nothing answers there on port") as raised:
        serve_servicebus(tmp_path)
    assert "secret" not in str(raised.value)


def test_what_serves_says_that_it_is_not_service_bus(servicebus: ServiceBus) -> None:
    assert servicebus.endpoint.source == "given" or "NOT" in servicebus.endpoint.what
