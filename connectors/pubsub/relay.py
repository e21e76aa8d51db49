"""Copies dead letters to a topic: confirmed, with what is known of them in attributes.

The data and the attributes are those of the message, as far as its limits allow. Ours begin with `headrace_`:

    headrace_dead_letter    the letter's id, the same on every copy of it
    headrace_stream, _message_id, _position, _published         where it came from (the time in seconds since 1970)
    headrace_watcher, _reason, _attempts, _error                who refused it, and why
    headrace_left_out       how many attributes had no room, or a name that is reserved
    headrace_by_reference   the size of the data in bytes, where it is too large with all this and was left out: the
                            store has it, `headrace dlq show` prints it
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from bridge.core.errors import HeadraceError, IllegalStep, Refused, Transient
from bridge.ports import Letter
from connectors.pubsub.client import Client
from connectors.pubsub.errors import translated
from connectors.pubsub.options import DeadLetterTopic, PubSubOptions, topic_of
from connectors.pubsub.publishing import (
    ATTRIBUTES_MOST,
    KEY_MOST,
    SIZE_MOST,
    VALUE_MOST,
    Attributes,
    attributes_of,
    cut,
    fits,
    message_of,
    published,
)

_AT_ONCE: Final = 16
_OURS: Final = "headrace_"


class TopicRelay:
    """`bridge.ports.Relay` on a topic."""

    def __init__(self, options: PubSubOptions, place: DeadLetterTopic) -> None:
        self._options = options
        self._place = place
        self._topic = topic_of(options, place)
        self._client: Client | None = None

    async def open(self) -> None:
        """Looks whether the topic is there, where we may; who may only publish finds out with the first letter."""
        await self.aclose()
        self._client = client = Client(self._options)
        try:
            await client.topic(self._topic)
        except AioRpcError as error:
            if error.code() is StatusCode.PERMISSION_DENIED:
                return
            if error.code() is StatusCode.NOT_FOUND:
                raise Refused(f"the dead-letter topic {self._topic} does not exist: create it") from error
            raise translated(error, f"looking for the dead-letter topic {self._topic}") from error

    async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]:
        """Each by itself, so that none is refused for another; one answer each."""
        if self._client is None:
            raise IllegalStep("the relay is not open")
        client, turn = self._client, asyncio.Semaphore(_AT_ONCE)

        async def sent(letter: Letter) -> Exception | None:
            async with turn:
                return await self._send(client, letter)

        return await asyncio.gather(*(sent(letter) for letter in letters))

    async def _send(self, client: Client, letter: Letter) -> HeadraceError | None:
        answer = await published(client, self._topic, copy_of(letter, ordered=self._place.ordered))
        if isinstance(answer, str):
            return None
        cause = answer.__cause__
        if isinstance(cause, AioRpcError) and cause.code() is StatusCode.INVALID_ARGUMENT:
            return answer
        return Transient(str(answer))  # a right may be granted, a topic made again

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def copy_of(letter: Letter, *, ordered: bool) -> Any:
    """The message that a letter becomes."""
    key = (letter.key or b"").decode("utf-8", "replace") if ordered else ""
    body = letter.body or b""
    copy = message_of(body, attributes_for(letter), cut(key, KEY_MOST))
    if copy.ByteSize() <= SIZE_MOST:
        return copy
    attributes = {**ours_of(letter), f"{_OURS}by_reference": str(len(body))}
    return message_of(b"", attributes, cut(key, KEY_MOST))


def attributes_for(letter: Letter) -> Attributes:
    """Those of the message that there is room for, and ours."""
    ours = ours_of(letter)
    theirs = {name: value for name, value in attributes_of(letter.headers).items() if name not in ours}
    room = ATTRIBUTES_MOST - len(ours) - 1
    kept = dict([each for each in theirs.items() if fits(*each)][:room])
    left_out = len(theirs) - len(kept)
    return {**kept, **ours, **({f"{_OURS}left_out": str(left_out)} if left_out else {})}


def ours_of(letter: Letter) -> Attributes:
    known: dict[str, object] = {
        "dead_letter": letter.id,
        "stream": letter.stream,
        "message_id": letter.identity,
        "position": letter.position,
        "watcher": letter.watcher,
        "reason": letter.reason,
        "attempts": letter.attempts,
    }
    if letter.timestamp is not None:
        known["published"] = f"{letter.timestamp:.3f}"
    if letter.error:
        known["error"] = letter.error
    return {f"{_OURS}{name}": cut(str(value), VALUE_MOST) for name, value in known.items()}
