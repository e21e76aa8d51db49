"""The three queue brokers as whole processes are tested against: what to read, how it is filled, and what is left."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from bench.brokers.pubsub import topics
from bench.brokers.pubsub.control import Control as PubSubControl
from bench.brokers.pubsub.fixtures import Made
from bench.brokers.servicebus.control import Control as ServiceBusControl
from bench.brokers.sqs import queues
from bench.brokers.topics import apart


class Queue(Protocol):
    """One queue, or subscription, of a test's own. `stream` is what a configuration says of it; `lease` in seconds."""

    stream: Mapping[str, Any]
    lease: float

    def send(self, numbers: Sequence[int]) -> None: ...
    def left(self) -> int:
        """Messages that nobody has settled, lent or not."""
        ...

    def moved_away(self) -> int:
        """Messages that the broker itself has taken for dead letters."""
        ...


def body(n: int) -> str:
    """A message of about 100 bytes; `k` is what 18 of the watchers ask for."""
    return json.dumps({"n": n, "k": n % 20, "note": "x" * 60})


class SqsQueue:
    """A standard queue; a message that is received five times is moved away."""

    lease = 5.0

    def __init__(self, url: str, queue: str, dead: str) -> None:
        self._url, self._queue, self._dead = url, queue, dead
        self.stream = {
            "kind": "sqs", "queue": queue, "endpoint": url, "region": "eu-central-1", "visibility_timeout": "5s",
            "wait_time": "2s",
        }  # fmt: skip

    def send(self, numbers: Sequence[int]) -> None:
        apart(queues.send(self._url, self._queue, [body(n) for n in numbers]))

    def left(self) -> int:
        return sum(apart(queues.counts(self._url, self._queue)))

    def moved_away(self) -> int:
        return sum(apart(queues.counts(self._url, self._dead)))


class PubSubSubscription:
    """After five deliveries a message is moved away."""

    lease = 10.0

    def __init__(self, address: str, made: Made, control: PubSubControl) -> None:
        self._address, self._made, self._control = address, made, control
        self.stream = {"kind": "pubsub", "subscription": made.name, "endpoint": address, "ack_deadline": "10s"}

    def send(self, numbers: Sequence[int]) -> None:
        apart(topics.publish(self._address, self._made.topic, [body(n).encode() for n in numbers]))

    def left(self) -> int:
        return len(self._control.unacked(self._made.name))

    def moved_away(self) -> int:
        return len(self._control.unacked(self._made.dead_letter))


class ServiceBusQueue:
    """A queue without sessions; after five deliveries a message is moved away."""

    lease = 5.0

    def __init__(self, connection_string: str, path: str, control: ServiceBusControl) -> None:
        self._path, self._control = path, control
        self.stream = {
            "kind": "servicebus", "connection_string": connection_string, "queue": path, "lock_duration": "5s",
        }  # fmt: skip

    def send(self, numbers: Sequence[int]) -> None:
        self._control.send(self._path, [body(n).encode() for n in numbers])

    def left(self) -> int:
        counts = self._control.counts(self._path)
        return counts.active + counts.locked

    def moved_away(self) -> int:
        return self._control.counts(self._path).dead_letters
