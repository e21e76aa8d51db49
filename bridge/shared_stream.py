"""The public API for producers: the broker side of a shared stream.

The names and signatures are those of Airflow 3.3's shared-stream ack channel (`airflow.triggers.shared_stream`), so
that a producer written for it needs its imports changed and nothing else. What goes beyond it is optional.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Hashable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from bridge.core.errors import AckTimeout, OwnershipLost, Transient
from bridge.core.model import TOMBSTONE, UNORDERED, AdvanceBatch, AdvanceItem, AdvanceOutcome, Poll, Slice
from bridge.ports import Lanes, Meta, Producer

__all__ = [
    "TOMBSTONE",
    "UNORDERED",
    "AckTimeout",
    "AdvanceBatch",
    "AdvanceItem",
    "AdvanceOutcome",
    "Lanes",
    "Message",
    "Meta",
    "OwnershipLost",
    "Poll",
    "SharedStreamProducer",
    "Slice",
    "Transient",
    "current_message",
    "reject_shared_stream_event",
]


log = structlog.get_logger("headrace.shared_stream")

_encode = msgspec.json.Encoder().encode

POLL_MOST = 500  # events a poll: costs are flat from 250 on, and more only adds lag (docs/performance.md)


class SharedStreamProducer(ABC):
    """Reads one source for a whole group of watchers, and settles what they have resolved.

    Three methods are the contract; `open_batches`, `identity` and `describe` have defaults that a producer made for
    this project overrides, and `advance_lanes`, `pause`/`resume` and `release` are looked for once, at start
    (`bridge.ports` says what each promises).
    """

    @abstractmethod
    def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        """Opens the connection and yields `(event, broker_payload)` for ever. An async generator.

        An event is the body as bytes or text, or TOMBSTONE; anything else is encoded as JSON. Returning counts as an
        error.
        """

    @abstractmethod
    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Any] | None:
        """Settles resolved events of one lane: commit, delete, ack, move. What was not settled may be returned."""

    def get_advance_lane(self, broker_payload: Any) -> Hashable:
        """The ordering unit that a message belongs to; `UNORDERED` where there is none to keep."""
        return None

    async def aclose(self) -> None:
        """Closes the connection. Called once, however the poll ended."""
        return

    def open_batches(self) -> AsyncIterator[Poll]:
        """What one fetch gave, cut by lane. The default gathers what `open_stream` yields until it suspends."""
        return gathered(self)

    def identity(self, broker_payload: Any) -> str:
        """What makes the message the same message when it comes again: run keys are made of it. Never the body."""
        raise NotImplementedError(
            f"{type(self).__name__} has no identity(broker_payload): without one a redelivery can't be told from a "
            "new message, and would start a second run"
        )

    def describe(self, broker_payload: Any) -> Meta:
        """Position, key, headers and time of a message, for people and for dead letters."""
        return Meta(position=self.identity(broker_payload))


def has_identity(producer: Producer) -> bool:
    """False where `identity` is only the one that says that there is none."""
    return getattr(producer.identity, "__func__", None) is not SharedStreamProducer.identity


def body_of(event: Any) -> bytes:
    """The bytes of an event that a plain `open_stream` yielded."""
    if isinstance(event, bytes):
        return event
    if isinstance(event, str):
        return event.encode()
    if isinstance(event, bytearray | memoryview):
        return bytes(event)
    return _encode(event)


async def gathered(producer: SharedStreamProducer, most: int = POLL_MOST) -> AsyncIterator[Poll]:
    """Polls from a producer that yields single events: a poll is what came without the producer suspending.

    It needs no timer and adds no latency: the consumer runs as soon as the producer waits, or at `most` events.
    """
    ready, room = asyncio.Event(), asyncio.Event()
    lanes: dict[Hashable, tuple[list[bytes], list[Any]]] = {}
    count = 0

    async def read() -> None:
        nonlocal count
        try:
            async for event, payload in producer.open_stream():
                key = producer.get_advance_lane(payload)
                pair = lanes.get(key)
                if pair is None:
                    pair = lanes[key] = ([], [])
                pair[0].append(event if type(event) is bytes else body_of(event))
                pair[1].append(payload)
                count += 1
                if count == 1:
                    ready.set()
                elif count >= most:
                    room.clear()
                    await room.wait()
        finally:
            ready.set()

    reader = asyncio.create_task(read(), name="gather")
    try:
        while not (reader.done() and not count):
            await ready.wait()
            ready.clear()
            if count:
                slices: list[Slice] = []
                bodies: list[bytes] = []
                payloads: list[Any] = []
                for key, (events, paid) in lanes.items():
                    slices.append(Slice(key, len(bodies), len(bodies) + len(events)))
                    bodies += events
                    payloads += paid
                lanes.clear()
                count = 0
                room.set()
                yield Poll(slices, bodies, payloads)
        await reader
    finally:
        reader.cancel()
        await asyncio.wait({reader})


# What a filter may ask about the event it holds ----------------------------------------------------------------------


class Message(NamedTuple):
    """The message behind the event that a filter holds: its stream, lane and `Meta`, and how often it was tried."""

    stream: str
    lane: Hashable
    identity: str
    meta: Meta
    attempt: int


class Desk(Protocol):
    """What the runtime puts in scope of a filter: the event on it, if there is one."""

    @property
    def message(self) -> Message | None: ...
    def reject(self, reason: str) -> bool:
        """False when no event is held."""
        ...


desk: ContextVar[Desk | None] = ContextVar("headrace_desk", default=None)


def reject_shared_stream_event(reason: str | None = None) -> None:
    """Refuses the event that the calling filter holds, for good: it becomes a dead letter of this watcher.

    Anywhere else (between events, in `run()`, on a stream without settlement, from another task) there is nothing to
    refuse: it logs a warning and does nothing.
    """
    mine = desk.get()
    if mine is None or not mine.reject(reason or "rejected"):
        log.warning("reject_shared_stream_event outside an event, ignored", reason=reason)


def current_message() -> Message | None:
    """The message behind the event that the calling filter holds; None between events."""
    mine = desk.get()
    return mine.message if mine is not None else None
