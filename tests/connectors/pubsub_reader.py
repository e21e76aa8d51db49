"""A Pub/Sub producer that is pulled without pause, as the runtime does, for tests of what comes out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from bench.brokers.pubsub.fixtures import Made
from bridge.core.model import AdvanceBatch, Poll, outcome_of
from connectors.pubsub import PubSubOptions
from connectors.pubsub.messages import Message
from connectors.pubsub.producer import PubSubProducer

ACKED, FAILED, REJECTED, ABANDONED = outcome_of(1, 0, 0), outcome_of(0, 1, 0), outcome_of(0, 0, 1), outcome_of(0, 0, 0)
PATIENCE = 20.0


class Reader:
    def __init__(self, producer: PubSubProducer) -> None:
        self.producer = producer
        self.polls: list[Poll] = []
        self.error: Exception | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            async for poll in self.producer.open_batches():
                self.polls.append(poll)
                self._changed.set()
        except Exception as error:
            self.error = error
            self._changed.set()

    @property
    def bodies(self) -> list[bytes]:
        return [body for poll in self.polls for body in poll.bodies]

    @property
    def payloads(self) -> list[Message]:
        return [payload for poll in self.polls for payload in poll.payloads]

    def last(self, body: bytes) -> Message:
        """Its latest delivery."""
        return next(
            payload for mine, payload in zip(self.bodies[::-1], self.payloads[::-1], strict=True) if mine == body
        )

    async def until(self, holds: Callable[[], bool], within: float = PATIENCE) -> None:
        async with asyncio.timeout(within):
            while not holds():
                if self.error is not None:
                    raise self.error
                self._changed.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.05):  # what is looked at may change without a poll
                        await self._changed.wait()

    async def has(self, *bodies: bytes, times: int = 1) -> None:
        await self.until(lambda: all(self.bodies.count(body) >= times for body in bodies))

    async def settle(self, payloads: Sequence[Message], outcome: Any = ACKED) -> list[Message]:
        return list(await self.producer.advance(AdvanceBatch([(outcome, list(payloads))], len(payloads))) or ())

    @property
    def trouble(self) -> str:
        return str(self.producer.report().get("trouble", ""))

    def ended(self, reason: str) -> int:
        """How often a stream has ended so."""
        ends: Any = self.producer.report().get("reopened", {})
        return int(ends.get(reason, 0))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        async with asyncio.timeout(5):
            await self.producer.aclose()


Read = Callable[..., Reader]


@asynccontextmanager
async def readers() -> AsyncIterator[Read]:
    """`read(address, subscription, most, option=…)` begins one; all are closed at the end."""
    begun: list[Reader] = []

    def read(address: str, made: Made | str, most: int = 2000, **changes: Any) -> Reader:
        name = made if isinstance(made, str) else made.name
        wanted = {"ack_deadline": 10.0, "retry_delay": 1.0, **changes}
        producer = PubSubProducer(PubSubOptions(subscription=name, endpoint=address, **wanted))
        producer.ask(most)
        begun.append(Reader(producer))
        return begun[-1]

    yield read
    for reader in begun:
        await reader.close()
