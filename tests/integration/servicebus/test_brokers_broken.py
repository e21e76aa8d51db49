"""The emulated Service Bus, broken on purpose in every way that its control knows, as the real client sees it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import INTERNAL_ERROR, SERVER_BUSY, Control, Refused
from bench.brokers.servicebus.fixtures import NewEntity
from bench.brokers.servicebus.serving import ServiceBus

pytestmark = pytest.mark.integration


@pytest.fixture
def place(servicebus: ServiceBus) -> str:
    return servicebus.connection_string


async def test_locks_expire_early_and_a_late_settlement_is_told(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.send(queue, [b"1", b"2"])
    async with entities.receiving(place, queue) as receiver:
        first, second = await receiver.receive_messages(2, max_wait_time=5)
        assert servicebus_control.expire_locks(queue, [1]) == 1
        with pytest.raises(MessageLockLostError):
            await receiver.complete_message(first)
        with pytest.raises(MessageLockLostError):
            await receiver.renew_message_lock(first)
        await receiver.complete_message(second)
        (again,) = await receiver.receive_messages(1, max_wait_time=5)
        assert (str(again), again.delivery_count) == ("1", 1)


async def test_so_many_of_so_many_settlements_fail(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue()
    servicebus_control.send(queue, [b"%d" % n for n in range(6)])
    servicebus_control.fail_settlements(1, of=3, condition=SERVER_BUSY, rounds=2, entity=queue)
    async with entities.receiving(place, queue, retries=0) as receiver:
        failed = []
        for message in await receiver.receive_messages(6, max_wait_time=5):
            try:
                await receiver.complete_message(message)
            except ServiceBusServerBusyError:
                failed.append(message.sequence_number)
    assert failed == [1, 4]
    counts = servicebus_control.counts(queue)
    assert (counts.locked, counts.settled) == (2, {"completed": 4})


async def test_a_settlement_may_happen_though_the_answer_says_no(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.send(queue, [b"1", b"2"])
    async with entities.receiving(place, queue, retries=0) as receiver:
        first, _ = await receiver.receive_messages(2, max_wait_time=5)
        servicebus_control.fail_settlements(1, condition=INTERNAL_ERROR, applied=True)
        with pytest.raises(ServiceBusError):
            await receiver.complete_message(first)
    assert servicebus_control.counts(queue).messages == 1


async def test_a_renewal_fails_and_the_lock_stays(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue()
    servicebus_control.send(queue, [b"1"])
    async with entities.receiving(place, queue, retries=0) as receiver:
        (message,) = await receiver.receive_messages(1, max_wait_time=5)
        servicebus_control.fail_renewals(1)
        with pytest.raises(ServiceBusServerBusyError):
            await receiver.renew_message_lock(message)
        await receiver.renew_message_lock(message)
        await receiver.complete_message(message)


async def test_dispositions_and_management_go_unanswered(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.send(queue, [b"1", b"2"])
    async with entities.receiving(place, queue, retries=0) as receiver:
        first, second = await receiver.receive_messages(2, max_wait_time=5)
        servicebus_control.silence("dispositions", queue)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.7):
                await receiver.complete_message(first)
        assert servicebus_control.counts(queue).settled == {"completed": 1}
        servicebus_control.silence("management", queue, applied=False)
        with pytest.raises(OperationTimeoutError):
            await receiver.renew_message_lock(second, timeout=1)
        assert servicebus_control.stats().renewals == 0
        servicebus_control.speak()
        await receiver.complete_message(second)


async def test_a_silent_service_accepts_and_never_answers_until_it_speaks(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.silence()
    sending = asyncio.create_task(entities.send(place, queue, [b"1"]))
    await asyncio.sleep(1.0)
    assert not sending.done()
    assert servicebus_control.stats().connections == 1
    servicebus_control.speak()
    await sending
    assert servicebus_control.counts(queue).active == 1


async def test_only_the_named_entity_falls_silent(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    quiet, loud = entity.queue(), entity.queue()
    async with entities.sending(place, quiet) as send:
        servicebus_control.silence("all", quiet)
        sending = asyncio.create_task(send([b"1"]))
        await entities.send(place, loud, [b"1"])
        assert not sending.done()
        servicebus_control.mend()
        await sending


@pytest.mark.parametrize("how", ["reset", "close", "detach_idle", "end_links", "expire_tokens"])
async def test_a_receiver_goes_on_after_its_link_or_connection_was_ended(
    place: str, entity: NewEntity, servicebus_control: Control, how: str
) -> None:
    """The client opens another by itself; what the one before had locked is settled by $management."""
    queue = entity.queue()
    servicebus_control.send(queue, [b"1", b"2"])
    async with entities.receiving(place, queue) as receiver:
        (first,) = await receiver.receive_messages(1, max_wait_time=5)
        ended = {
            "reset": lambda: servicebus_control.reset_connections(queue),
            "close": lambda: servicebus_control.close_connections(queue),
            "detach_idle": lambda: servicebus_control.detach_idle(queue),
            "end_links": lambda: servicebus_control.end_links(queue),
            "expire_tokens": lambda: servicebus_control.expire_tokens(queue),
        }[how]()
        assert ended == 1
        second = []
        for _ in range(5):
            try:
                second = await receiver.receive_messages(1, max_wait_time=3)
            except (ServiceBusConnectionError, ServiceBusAuthorizationError, ServiceBusError):
                continue
            if second:
                break
        assert [str(each) for each in second] == ["2"]
        await receiver.complete_message(second[0])
        await receiver.complete_message(first)
    assert servicebus_control.counts(queue).messages == 0
    assert servicebus_control.stats().links_opened["receivers"] == 2


async def test_links_that_are_idle_are_detached(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue()
    async with entities.sending(place, queue):
        servicebus_control.idle_after(0.3)
        for _ in range(100):
            if servicebus_control.stats().links == 0:
                break
            await asyncio.sleep(0.05)
        assert servicebus_control.stats().links == 0


async def test_tokens_are_refused_until_they_are_accepted(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    servicebus_control.refuse_tokens()
    with pytest.raises((ServiceBusAuthenticationError, ServiceBusAuthorizationError)):
        async with entities.receiving(place, queue, retries=0):
            pass
    servicebus_control.accept_tokens()
    await entities.send(place, queue, [b"1"])
    assert servicebus_control.stats().tokens["refused"] >= 1


async def test_a_connection_ends_with_the_token_that_opened_it(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue, ends_at = entity.queue(), int(time.time()) + 3
    endpoint = place.partition(";")[0]
    signature = f"SharedAccessSignature sr=x&sig=y&se={ends_at}&skn=tests"
    short = f"{endpoint};SharedAccessSignature={signature};UseDevelopmentEmulator=true"
    async with entities.sending(short, queue):
        assert servicebus_control.stats().connections == 1
        while servicebus_control.stats().connections:
            assert time.time() < ends_at + 3
            await asyncio.sleep(0.05)
    assert time.time() >= ends_at - 1


async def test_an_entity_that_is_deleted_in_use_is_not_found(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue()
    async with entities.receiving(place, queue, retries=0) as receiver:
        servicebus_control.delete(queue)
        with pytest.raises(MessagingEntityNotFoundError):
            await receiver.receive_messages(1, max_wait_time=3)
    with pytest.raises(ServiceBusError):
        await entities.send(place, queue, [b"1"])
    with pytest.raises(Refused, match="could not be found"):
        servicebus_control.counts(queue)


async def test_deliveries_are_doubled_and_reordered(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue()
    servicebus_control.send(queue, [b"1", b"2", b"3", b"4"])
    servicebus_control.reorder(queue, 3)
    async with entities.receiving(place, queue) as receiver:
        first = await receiver.receive_messages(3, max_wait_time=5)
        servicebus_control.duplicate(queue, 1)
        last, again = await receiver.receive_messages(2, max_wait_time=5)
        assert [str(each) for each in first] == ["3", "2", "1"]
        assert [(each.sequence_number, each.delivery_count) for each in (last, again)] == [(4, 0), (4, 1)]
        with pytest.raises(MessageLockLostError):
            await receiver.complete_message(last)
        await receiver.complete_message(again)


async def test_the_clock_may_be_wrong_and_answers_slow(
    place: str, entity: NewEntity, servicebus_control: Control
) -> None:
    queue = entity.queue(lock=30)
    servicebus_control.send(queue, [b"1"])
    servicebus_control.skew(3600)
    async with entities.receiving(place, queue) as receiver:
        (message,) = await receiver.receive_messages(1, max_wait_time=5)
        assert message.locked_until_utc is not None
        assert message.locked_until_utc > datetime.now(UTC) + timedelta(minutes=59)
        servicebus_control.slow(0.5)
        began_at = time.monotonic()
        await receiver.complete_message(message)
        assert time.monotonic() - began_at >= 0.5


async def test_it_counts_what_happens(place: str, entity: NewEntity, servicebus_control: Control) -> None:
    queue = entity.queue()
    await entities.send(place, queue, [b"%d" % n for n in range(250)])
    async with entities.receiving(place, queue) as receiver:
        found = await receiver.receive_messages(250, max_wait_time=5)
        for message in found[:2]:
            await receiver.complete_message(message)
        stats = servicebus_control.stats()
        assert (stats.connections, stats.links, stats.connections_opened) == (1, 1, 2)
        assert stats.links_opened == {"senders": 1, "receivers": 1}
        assert stats.transfers == {"in": 250, "out": 250}
        assert (stats.dispositions, stats.unsettled_dispositions) == ({"accepted": 2}, 2)
        assert stats.tokens == {"accepted": 2}
