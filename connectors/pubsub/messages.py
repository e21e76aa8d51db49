"""Messages as they come, and what a stream makes of them. Pure.

The hot path: a message costs a microsecond here. What only some are asked for (attributes, the time) stays in the
protobuf message. That is a view into the whole response, so a message that is held for long is detached from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from bridge.core.model import UNORDERED, Lent, Meta, Poll, Slice, Unordered

POLL_MOST: Final = 500
"""Events in a poll: costs are flat from 250 on (docs/performance.md)."""

Headers = tuple[tuple[str, bytes | None], ...]


class Message(Lent, kw_only=True, gc=False):
    """The payload of a message. `key` is its id, `handle` the ack id.

    `ordering` is the ordering key where the subscription keeps an order, and `order` the number of the delivery.
    `is_done`: it was settled or given back, and its handle is used up. `raw` is the protobuf message, until what is
    needed of it stands in `timestamp` and `headers`.
    """

    raw: Any
    ordering: str = ""
    order: int = 0
    is_done: bool = False
    timestamp: float = 0.0
    headers: Headers = ()
    ordering_key: str = ""


def unordered(received: Iterable[Any]) -> tuple[list[bytes], list[Any]]:
    """Bodies and payloads of protobuf `ReceivedMessage`s that have no order."""
    bodies: list[bytes] = []
    payloads: list[Any] = []
    for each in received:
        message = each.message
        bodies.append(message.data)
        payloads.append(Message(message.message_id, each.ack_id, each.delivery_attempt or None, raw=message))
    return bodies, payloads


def lane_of(payload: Message) -> str | Unordered:
    return payload.ordering or UNORDERED


def poll_of(lanes: dict[str, tuple[list[bytes], list[Any]]], received: float) -> Poll:
    """From what came, by ordering key."""
    slices: list[Slice] = []
    bodies: list[bytes] = []
    payloads: list[Any] = []
    for key, (mine, paid) in lanes.items():
        start = len(bodies)
        bodies += mine
        payloads += paid
        slices.append(Slice(key or UNORDERED, start, len(bodies)))
    return Poll(slices, bodies, payloads, received)


def published_at(message: Any) -> float:
    """Seconds since 1970."""
    time = message.publish_time
    return float(time.seconds + time.nanos / 1e9)


def detached(payloads: Sequence[Message]) -> None:
    """From here on they keep nothing of the responses that they came in."""
    for payload in payloads:
        raw = payload.raw
        if raw is not None:
            payload.timestamp, payload.headers = published_at(raw), headers_of(raw)
            payload.ordering_key = raw.ordering_key
            payload.raw = None


def headers_of(message: Any) -> Headers:
    """The attributes, by name: the service keeps no order of them."""
    attributes = message.attributes
    return tuple((name, attributes[name].encode()) for name in sorted(attributes)) if attributes else ()


def meta_of(payload: Message, subscription: str) -> Meta:
    """For people, filters and dead letters; the same for every delivery, but for its number."""
    detached((payload,))
    return Meta(
        position=f"{subscription}/{payload.key}",
        timestamp=payload.timestamp,
        key=payload.ordering_key.encode() or None,
        headers=payload.headers,
        lane=payload.ordering,
        message_id=payload.key,
        delivery_attempt=payload.deliveries,
    )
