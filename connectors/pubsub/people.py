"""For people at a keyboard: messages sent to the topic of the subscription. (To look at some is to take them.)"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from grpc.aio import AioRpcError

from bridge.core.errors import HeadraceError, Refused
from bridge.ports import Outgoing
from connectors.pubsub.client import Client
from connectors.pubsub.errors import translated
from connectors.pubsub.options import PubSubOptions
from connectors.pubsub.publishing import NAME_MOST, VALUE_MOST, attributes_of, fits, message_of, published

DELETED: Final = "_deleted-topic_"
"""What the service calls the topic of a subscription whose topic was deleted."""


class TopicSender:
    """`bridge.ports.Sender`. Asks for the topic before the first message."""

    def __init__(self, options: PubSubOptions) -> None:
        self._client = Client(options)
        self._topic = ""

    async def send(self, messages: Sequence[Outgoing]) -> Sequence[str]:
        """`TOPIC/MESSAGE-ID` for each, once the service has it; one after the other, so that keys keep their order."""
        topic = await self._named()
        sent: list[str] = []
        for message in messages:
            answer = await published(self._client, topic, _message_of(message))
            if isinstance(answer, HeadraceError):
                told = f"{answer} ({len(sent)} of {len(messages)} were sent)"
                raise type(answer)(told) from answer
            sent.append(f"{topic.rpartition('/')[2]}/{answer}")
        return sent

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _named(self) -> str:
        if not self._topic:
            try:
                self._topic = (await self._client.described()).topic
            except AioRpcError as error:
                raise translated(error, f"asking for the topic of {self._client.subscription}") from error
        if self._topic == DELETED:
            raise Refused(f"the topic of {self._client.subscription} was deleted: nothing can be sent to it any more")
        return self._topic


def _message_of(message: Outgoing) -> object:
    """The ordering key is the lane, or else the key. Raises Refused for what Pub/Sub does not take."""
    attributes = attributes_of(message.headers)
    for name, value in attributes.items():
        if not fits(name, value):
            raise Refused(
                f"attribute {name[:NAME_MOST]!r} can't be sent: names have up to {NAME_MOST} bytes and don't begin "
                f"with 'goog', values up to {VALUE_MOST}"
            )
    if not message.body and not attributes:
        raise Refused("Pub/Sub takes no message without data and attributes: give it one of them")
    key = message.lane if message.lane is not None else (message.key or b"").decode("utf-8", "replace")
    return message_of(message.body or b"", attributes, key)
