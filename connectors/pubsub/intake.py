"""What the streams bring, until the next poll is pulled: then it is cut by ordering key, or dropped."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from bridge.core.model import UNORDERED, Poll, Slice
from connectors.pubsub.flow import Flow
from connectors.pubsub.keys import Given, Keys
from connectors.pubsub.messages import POLL_MOST, Message, poll_of, published_at, unordered


class Intake:
    """`put_off(seconds, ack ids)` gives back what is dropped; it must not wait.

    `ordering` and `exactly_once` are what the service says of the subscription; None: it has not said. `skew`: how many
    seconds before it was published the last message came.
    """

    def __init__(self, keys: Keys, flow: Flow, put_off: Callable[[int, list[str]], None]) -> None:
        self.arrived = asyncio.Event()
        self.received = 0
        self.dropped = 0
        self.ordering: bool | None = None
        self.exactly_once: bool | None = None
        self.skew = 0.0
        self._keys = keys
        self._flow = flow
        self._put_off = put_off
        self._ready: deque[tuple[Sequence[Any], float]] = deque()

    @property
    def is_empty(self) -> bool:
        return not self._ready

    def take(self, response: Any, received: float) -> None:
        """A response of a stream, in the moment in which it came (monotonic)."""
        if response.HasField("subscription_properties"):
            properties = response.subscription_properties
            self.ordering = properties.message_ordering_enabled
            self.exactly_once = properties.exactly_once_delivery_enabled
        messages = response.received_messages
        count = len(messages)
        if not count:
            return
        self.received += count
        self._flow.came(count)
        self.skew = published_at(messages[-1].message) - time.time()
        if count <= POLL_MOST:
            self._ready.append((messages, received))
        else:
            self._ready += [(messages[n : n + POLL_MOST], received) for n in range(0, count, POLL_MOST)]
        self.arrived.set()

    def poll(self, now: float) -> Poll | None:
        """One response, or several that are here already; None where all of it was dropped."""
        messages, received = self._ready.popleft()
        if self._ready and len(messages) + len(self._ready[0][0]) <= POLL_MOST:
            messages = list(messages)
            while self._ready and len(messages) + len(self._ready[0][0]) <= POLL_MOST:
                messages.extend(self._ready.popleft()[0])
        if self.ordering is False and self._keys.is_quiet:
            bodies, payloads = unordered(messages)
            return Poll([Slice(UNORDERED, 0, len(bodies))], bodies, payloads, received)
        return self._by_key(messages, received, now)

    def _by_key(self, messages: Sequence[Any], received: float, now: float) -> Poll | None:
        lanes: dict[str, tuple[list[bytes], list[Any]]] = {}
        dropped: dict[int, list[str]] = {}
        keys, is_ordered, is_quiet = self._keys, self.ordering is not False, self._keys.is_quiet
        first = keys.numbered(len(messages))
        for order, each in enumerate(messages, first):
            message = each.message
            key = message.ordering_key if is_ordered else ""
            id_, handle = message.message_id, each.ack_id
            if not is_quiet and not keys.is_plain(key):
                rest = keys.arrived(key, Given(id_, order, handle), now)
                if rest is not None:
                    dropped.setdefault(rest, []).append(handle)
                    continue
            pair = lanes.get(key)
            if pair is None:
                pair = lanes[key] = ([], [])
            pair[0].append(message.data)
            pair[1].append(Message(id_, handle, each.delivery_attempt or None, raw=message, ordering=key, order=order))
        for rest, handles in dropped.items():
            self.dropped += len(handles)
            self._put_off(rest, handles)
        return poll_of(lanes, received) if lanes else None

    def unread(self) -> list[str]:
        """The ack ids of what no poll has had, and never will."""
        handles = [each.ack_id for messages, _ in self._ready for each in messages]
        self._ready.clear()
        return handles
