"""For people at a keyboard: messages sent to a queue or a topic, and messages seen as they come.

What is sent is confirmed by the broker. What is seen is only looked at: nothing is locked, no delivery counts, and the
stream gets every message all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import uuid4

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusSender

from bridge.core.errors import Refused, Transient
from bridge.ports import Outgoing, Seen
from connectors.servicebus.bodies import body_of
from connectors.servicebus.browsing import Browser
from connectors.servicebus.client import Account
from connectors.servicebus.closing import closed_within, watched
from connectors.servicebus.errors import translated
from connectors.servicebus.messages import seen_of, sequence_of
from connectors.servicebus.options import ServiceBusOptions

_CLOSED_WITHIN: Final = 5.0
_PAGE: Final = 100
_PAGES_MOST: Final = 1000
_LOOKED_EVERY: Final = 1.0


class EntitySender:
    """`bridge.ports.Sender`. Connects at the first message."""

    def __init__(self, options: ServiceBusOptions) -> None:
        self._options = options
        self._account: Account | None = None
        self._sender: ServiceBusSender | None = None
        self._handlers: list[Any] = []

    async def send(self, messages: Sequence[Outgoing]) -> Sequence[str]:
        """The message id of each: the broker tells nobody which sequence number it has given it."""
        made = [message_for(message, self._options) for message in messages]
        positions: list[str] = []
        sender = self._opened()
        for message in made:
            try:
                async with asyncio.timeout(self._options.open_timeout):
                    await sender.send_messages(message)
            except TimeoutError:
                raise Transient("the broker did not confirm in time: a message may be there or not") from None
            except Exception as error:
                before = f"{len(positions)} of {len(made)} messages were confirmed; then " if len(made) > 1 else ""
                raise translated(error, f"{before}sending") from error
            positions.append(str(message.message_id))
        return positions

    def _opened(self) -> ServiceBusSender:
        if self._sender is None:
            self._account = Account(self._options)
            self._sender = self._account.sender()
            self._handlers = watched(self._sender)
        return self._sender

    async def aclose(self) -> None:
        sender, self._sender = self._sender, None
        account, self._account = self._account, None
        if sender is not None:
            await closed_within(_CLOSED_WITHIN, sender, self._handlers)
        if account is not None:
            await account.aclose()


def message_for(message: Outgoing, options: ServiceBusOptions) -> ServiceBusMessage:
    """The lane is the session. Raises Refused for what Service Bus has no place for."""
    if options.subqueue is not None:
        raise Refused("nobody can send to a dead-letter queue: messages get there by being dead-lettered")
    if options.sessions and not message.lane:
        raise Refused("the entity requires sessions: name one as the lane")
    if message.lane and not options.sessions:
        raise Refused(f"the stream has no sessions (`sessions: true`), so {message.lane!r} can't be its lane")
    if message.key is not None:
        raise Refused("messages of Service Bus have no key: send it as a header")
    properties: dict[str | bytes, Any] = {name: _header(name, value) for name, value in message.headers}
    return ServiceBusMessage(
        message.body,
        session_id=message.lane or None,
        application_properties=properties or None,
        message_id=uuid4().hex,
    )


def _header(name: str, value: bytes | None) -> str | None:
    """Raises Refused for what is no text: the client sends none that is not."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Refused(f"the header {name!r} is no UTF-8, and the client can send nothing else there") from None


async def tail(options: ServiceBusOptions, last: int) -> AsyncIterator[Seen]:
    """Up to `last` of those that are there, then what comes; what the stream settles between two looks is not seen."""
    account = Account(options)
    browser = Browser(options, account)
    try:
        behind, kept = await _ends(browser, last)
        for amqp in kept:
            yield _seen(amqp)
        while True:
            found = await browser.peek(behind + 1, _PAGE)
            for amqp in found:
                behind = max(behind, sequence_of(amqp))
                yield _seen(amqp)
            if not found:
                await asyncio.sleep(_LOOKED_EVERY)
    finally:
        await browser.aclose()
        await account.aclose()


async def _ends(browser: Browser, last: int) -> tuple[int, Sequence[Any]]:
    """The highest sequence number there is, and the last messages up to it. It has to look at all of them."""
    kept: deque[Any] = deque(maxlen=last)
    behind = 0
    for _ in range(_PAGES_MOST):
        found = await browser.peek(behind + 1, _PAGE)
        if not found:
            break
        kept.extend(found)
        behind = sequence_of(found[-1])
    return behind, kept


def _seen(amqp: Any) -> Seen:
    meta = seen_of(amqp)
    return Seen(meta, None if meta.tombstone else body_of(amqp))
