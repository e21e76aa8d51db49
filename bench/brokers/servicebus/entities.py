"""What tests and people do to a Service Bus beside the program: send messages of every kind, read them, look at them.

Each is a coroutine and stands on a connection of its own; an open takes half a second, so tests that send often keep a
`sending` open. `apart` runs one from code that has no loop. An `entity` is a path as in control.py: `orders`,
`orders/$DeadLetterQueue`, `topic`, `topic/Subscriptions/name`. How many messages are where, `Control.counts` says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, Literal, TypeAlias

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
)
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageHeader, AmqpMessageProperties
from azure.servicebus.exceptions import MessageSizeExceededError, OperationTimeoutError

from bench.brokers.topics import apart

__all__ = ["apart", "message", "peek", "read", "receiving", "send", "sending"]

PATIENCE = 30.0
"""Seconds for each of them."""
LETTERS = "/$DeadLetterQueue"
SUBSCRIPTIONS = "/Subscriptions/"
AT_ONCE = 100

Kind = Literal["data", "value", "sequence"]
Sent: TypeAlias = ServiceBusMessage | AmqpAnnotatedMessage


def message(
    body: Any,
    *,
    kind: Kind = "data",
    session: str | None = None,
    properties: Mapping[str, Any] | None = None,
    id: str | None = None,
    life: float | None = None,
    at: datetime | None = None,
) -> Sent:
    """`data`: bytes, or a list of bytes for several sections. `value`: anything AMQP can hold. `sequence`: a list of
    lists. `life`: time to live, in seconds. `at`: scheduled for then, only of `data` in one section.
    """
    told: dict[Any, Any] = dict(properties or {})  # the client's own types differ from one class to the other
    if kind == "data" and isinstance(body, bytes | str):
        made = ServiceBusMessage(body, session_id=session, message_id=id)
        if told:
            made.application_properties = told
        made.scheduled_enqueue_time_utc = at
        if life is not None:
            made.raw_amqp_message.header = AmqpMessageHeader(time_to_live=int(life * 1000))
        return made
    named = AmqpMessageProperties(group_id=session, message_id=id)
    header = None if life is None else AmqpMessageHeader(time_to_live=int(life * 1000))
    given: dict[str, Any] = {f"{kind}_body": body}
    return AmqpAnnotatedMessage(**given, properties=named, application_properties=told or None, header=header)


class Sending:
    """An open sender."""

    def __init__(self, sender: ServiceBusSender) -> None:
        self._sender = sender

    async def __call__(
        self, messages: Iterable[bytes | Sent], *, session: str | None = None, batched: bool = True
    ) -> None:
        """As many batches as it takes; `batched` false: one transfer each. `session` is that of plain bytes."""
        made = [message(each, session=session) if isinstance(each, bytes) else each for each in messages]
        async with asyncio.timeout(PATIENCE):
            if not batched:
                for each in made:
                    await self._sender.send_messages(each)
                return
            batch = await self._sender.create_message_batch()
            for each in made:
                try:
                    batch.add_message(each)
                except MessageSizeExceededError:
                    await self._sender.send_messages(batch)
                    batch = await self._sender.create_message_batch()
                    batch.add_message(each)
            if len(batch):
                await self._sender.send_messages(batch)


@asynccontextmanager
async def sending(connection_string: str, entity: str) -> AsyncIterator[Sending]:
    """To a queue or a topic: `async with sending(...) as send: await send([b"1", b"2"], session="a")`."""
    async with ServiceBusClient.from_connection_string(connection_string) as client:
        sender = client.get_queue_sender(entity)  # a topic is addressed in the same way
        async with asyncio.timeout(PATIENCE):
            await sender.__aenter__()
        try:
            yield Sending(sender)
        finally:
            await sender.close()


async def send(
    connection_string: str,
    entity: str,
    messages: Iterable[bytes | Sent],
    *,
    session: str | None = None,
    batched: bool = True,
) -> None:
    async with sending(connection_string, entity) as each:
        await each(messages, session=session, batched=batched)


@asynccontextmanager
async def receiving(
    connection_string: str,
    entity: str,
    *,
    session: str | None = None,
    next_session: bool = False,
    retries: int = 3,
    **options: Any,
) -> AsyncIterator[ServiceBusReceiver]:
    """An open receiver in peek-lock mode; `options` are the client's own. `next_session`: whichever is free.
    `retries` are those of the client, for every call; 3 is its default.
    """
    async with ServiceBusClient.from_connection_string(connection_string, retry_total=retries) as client:
        if session is not None or next_session:
            options["session_id"] = session if session is not None else NEXT_AVAILABLE_SESSION
        receiver = _receiver(client, entity, options)
        async with asyncio.timeout(PATIENCE):
            await receiver.__aenter__()
        try:
            yield receiver
        finally:
            await receiver.close()


def _receiver(client: ServiceBusClient, entity: str, options: dict[str, Any]) -> ServiceBusReceiver:
    path = entity
    if path.endswith(LETTERS):
        path = path.removesuffix(LETTERS)
        options["sub_queue"] = ServiceBusSubQueue.DEAD_LETTER
    topic, _, subscription = path.partition(SUBSCRIPTIONS)
    if subscription:
        return client.get_subscription_receiver(topic, subscription, **options)
    return client.get_queue_receiver(topic, **options)


async def read(
    connection_string: str, entity: str, count: int, *, within: float = PATIENCE, session: str | None = None
) -> list[ServiceBusReceivedMessage]:
    """The first `count` messages, which are gone then. Raises TimeoutError if there are fewer."""
    options: dict[str, Any] = {"receive_mode": ServiceBusReceiveMode.RECEIVE_AND_DELETE}
    found: list[ServiceBusReceivedMessage] = []
    async with (
        asyncio.timeout(within),
        receiving(connection_string, entity, session=session, **options) as receiver,
    ):
        while len(found) < count:
            found += await receiver.receive_messages(min(AT_ONCE, count - len(found)), max_wait_time=1)
    return found


async def read_sessions(
    connection_string: str, entity: str, *, idle: float = 1.0
) -> dict[str, list[ServiceBusReceivedMessage]]:
    """All messages of all sessions, which are gone then; it ends when no session has had any for `idle` seconds."""
    receives = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    options: dict[str, Any] = {"receive_mode": receives, "max_wait_time": idle, "retries": 0}
    found: dict[str, list[ServiceBusReceivedMessage]] = {}
    while True:
        try:
            async with receiving(connection_string, entity, next_session=True, **options) as receiver:
                session = str(receiver.session.session_id)
                while more := await receiver.receive_messages(AT_ONCE, max_wait_time=0.3):
                    found.setdefault(session, []).extend(more)
        except OperationTimeoutError:
            return found


async def peek(connection_string: str, entity: str, count: int) -> list[ServiceBusReceivedMessage]:
    """The first `count` messages or fewer, which stay. Not of an entity with sessions (its dead letters yes)."""
    async with asyncio.timeout(PATIENCE), receiving(connection_string, entity) as receiver:
        return await receiver.peek_messages(count)
