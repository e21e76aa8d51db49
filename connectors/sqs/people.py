"""For people at a keyboard: messages sent to the queue of a stream. Seeing one would take it: there is no `tail`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

from bridge.core.errors import HeadraceError, Refused, Transient
from bridge.ports import Outgoing
from connectors.sqs.client import Account, Client, url_of
from connectors.sqs.letters import (
    ATTRIBUTES_MOST,
    SIZE_MOST,
    Attribute,
    Entry,
    attribute_of,
    group_of,
    is_attribute_name,
    size_of,
)
from connectors.sqs.messages import text_of
from connectors.sqs.options import SqsOptions
from connectors.sqs.places import queue_of
from connectors.sqs.sending import send_all

_GROUP: Final = "headrace"
"""The message group of what is sent to a FIFO queue without a lane or a key."""


class QueueSender:
    """`bridge.ports.Sender`. Connects at the first message."""

    def __init__(self, options: SqsOptions) -> None:
        self._options = options
        self._queue = queue_of(options.queue)
        self._client: Client | None = None
        self._url = ""

    async def send(self, messages: Sequence[Outgoing]) -> Sequence[str]:
        """The message id of each, once SQS has it."""
        entries = [entry_of(message, is_fifo=self._queue.is_fifo) for message in messages]
        client = await self._opened()
        said = await send_all(client, self._url, entries, SIZE_MOST, stops=True)
        positions = [each for each in said if isinstance(each, str)]
        failed = next((each for each in said if isinstance(each, HeadraceError)), None)
        if failed is not None:
            before = f"{len(positions)} of {len(messages)} messages were confirmed; then " if len(messages) > 1 else ""
            kind = Transient if isinstance(failed, Transient) else Refused
            raise kind(f"{before}sending to {self._queue.name!r}: {failed}") from failed
        return positions

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _opened(self) -> Client:
        if self._client is None:
            self._client = Client(Account(self._options), 1)
            await self._client.open()
            self._url = await url_of(self._client, self._queue)
        return self._client


def entry_of(message: Outgoing, *, is_fifo: bool) -> Entry:
    """Raises Refused for what SQS can't carry."""
    body = text_of(message.body or b"")
    if body is None:
        what = "without a body" if not message.body else "whose body is no text"
        raise Refused(
            f"SQS takes no message {what}: it takes UTF-8 of one character or more, without control characters; bytes "
            "go as base64, with `decode: [base64, ...]` at the stream"
        )
    if message.key is not None and not is_fifo:
        raise Refused("messages of a standard queue have no key: send it as a header, or to a FIFO queue")
    attributes = _attributes(message)
    said: dict[str, Any] = {"MessageBody": body}
    if attributes:
        said["MessageAttributes"] = attributes
    if message.lane is not None or is_fifo:
        said["MessageGroupId"] = group_of(message.lane.encode() if message.lane else message.key, _GROUP)
    if is_fifo:
        said["MessageDeduplicationId"] = uuid4().hex  # who sends the same twice means two messages
    return Entry(said, size_of(body, attributes))


def _attributes(message: Outgoing) -> dict[str, Attribute]:
    if len(message.headers) > ATTRIBUTES_MOST:
        raise Refused(f"{len(message.headers)} headers: SQS takes {ATTRIBUTES_MOST} message attributes at most")
    attributes: dict[str, Attribute] = {}
    for name, value in message.headers:
        if not is_attribute_name(name):
            raise Refused(
                f"header {name[:80]!r} can't be the name of a message attribute: letters, digits, '_', '-' and '.', "
                "and not `AWS.` or `Amazon.` in front"
            )
        if not value:
            raise Refused(f"header {name!r} is empty: SQS takes no attribute without a value")
        attributes[name] = attribute_of(value)
    return attributes
