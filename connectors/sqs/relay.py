"""Copies dead letters to a queue: confirmed, and at least once. letters.py says what a copy looks like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.core.errors import HeadraceError, IllegalStep, Refused, Transient
from bridge.ports import Letter
from connectors.sqs.client import Account, Client, url_of
from connectors.sqs.errors import QueueMissing, TooLong
from connectors.sqs.letters import SIZE_MOST, Entry, entry_of, reference_to
from connectors.sqs.options import DeadLetterQueue, SqsOptions
from connectors.sqs.places import queue_of
from connectors.sqs.sending import EntryRefused, Said, send_all

_CONNECTIONS: Final = 2


class QueueRelay:
    """`bridge.ports.Relay` on a queue."""

    def __init__(self, options: SqsOptions, place: DeadLetterQueue) -> None:
        self._options = options
        self._queue = queue_of(place.queue)
        self._client: Client | None = None
        self._url = ""
        self._most = SIZE_MOST

    async def open(self) -> None:
        await self.aclose()
        self._client = client = Client(Account(self._options), _CONNECTIONS)
        await client.open()
        try:
            self._url = await url_of(client, self._queue)
            self._most = await _size_most(client, self._url)
        except QueueMissing as error:
            raise Refused(
                f"the dead-letter queue {self._queue.name!r} does not exist: create it, or correct `dead_letter.queue` "
                f"({error})"
            ) from error

    async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]:
        client = self._client
        if client is None:
            raise IllegalStep("the relay is not open")
        fifo = self._queue.is_fifo
        said = await self._sent(client, [entry_of(letter, self._most, is_fifo=fifo) for letter in letters])
        long = [index for index, each in enumerate(said) if isinstance(each, TooLong)]
        if long:  # the queue takes less than it says, or does not let us ask
            again = await self._sent(client, [reference_to(letters[index], is_fifo=fifo) for index in long])
            for index, each in zip(long, again, strict=True):
                said[index] = each
        return [self._judged(each) for each in said]

    async def _sent(self, client: Client, entries: Sequence[Entry]) -> list[Said]:
        return await send_all(client, self._url, entries, self._most)

    def _judged(self, said: Said) -> Exception | None:
        """A queue can be mended (a right granted, made again): only a letter that SQS itself refuses never goes."""
        if isinstance(said, str):
            return None
        if isinstance(said, TooLong):
            return Refused(f"queue {self._queue.name!r} takes not even a reference to it: {said}")
        if isinstance(said, EntryRefused | Transient):
            return said
        return Transient(f"sending to {self._queue.name!r}: {said}")

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


async def _size_most(client: Client, url: str) -> int:
    """What the queue takes, in bytes; SQS's own limit where we may not ask."""
    try:
        answer = await client.call("get_queue_attributes", QueueUrl=url, AttributeNames=["MaximumMessageSize"])
        return int(answer["Attributes"]["MaximumMessageSize"])
    except (QueueMissing, Transient):
        raise
    except (HeadraceError, KeyError, ValueError):
        return SIZE_MOST


def relay_of(options: SqsOptions) -> QueueRelay | None:
    """None where no queue is named."""
    return None if options.dead_letter is None else QueueRelay(options, options.dead_letter)
