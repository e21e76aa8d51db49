"""Links to entities: what clients send comes in by an inlet, what they receive leaves by an outlet."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, cast

from proton import Condition, Delivery, Endpoint, Link, Receiver, Sender, Terminus

from bench.brokers.servicebus.emulator import settlement
from bench.brokers.servicebus.emulator.message import BATCH, parse, unbatched
from bench.brokers.servicebus.emulator.namespace import NotFound, SessionNeeded
from bench.brokers.servicebus.emulator.queue import Entry, Queue
from bench.brokers.servicebus.emulator.values import Malformed

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.broker import Broker
    from bench.brokers.servicebus.emulator.connection import Client

SETTLED = 1
"""A sender settle mode: receive and delete."""
LARGEST = 1024 * 1024
"""Bytes of a message; that of the service's premium tier, which its client also takes as the bound of a batch."""
CREDIT = 500
IDLE = (
    "The link '{name}' is force detached. Code: {kind}(link1). "
    "Details: AmqpMessage{what}.IdleTimerExpired: Idle timeout: 00:10:00."
)


def refuse(link: Link, condition: str, description: str) -> None:
    """Before it was answered: its source (or target) is answered as null and the link closed at once, or the client
    would believe that it is open.
    """
    (link.source if link.is_sender else link.target).type = Terminus.UNSPECIFIED
    link.open()
    end(link, condition, description)


def end(link: Link, condition: str | None, description: str = "") -> None:
    if link.state & Endpoint.LOCAL_ACTIVE:
        if condition is not None:
            link.condition = Condition(condition, description)
        link.close()


class Inlet:
    """A client sends to `path`, a queue or topic."""

    def __init__(self, broker: Broker, client: Client, link: Receiver, path: str) -> None:
        self.path = path
        self.used = broker.now()
        self._broker = broker
        self._client = client
        self._link = link
        link.max_message_size = LARGEST
        link.open()
        link.flow(CREDIT)

    def delivered(self, delivery: Delivery, raw: bytes, format: int) -> None:
        broker = self._broker
        self.used = broker.now()
        try:
            messages = [parse(each) for each in (unbatched(raw) if format == BATCH else [raw])]
            broker.namespace.send(self.path, messages, self.used)
        except Malformed as error:
            delivery.local.condition = Condition("amqp:decode-error", str(error))
        except NotFound as error:
            delivery.local.condition = Condition("amqp:not-found", str(error))
        except SessionNeeded:
            told = "The SessionId was not set on a message, and it cannot be sent to the entity."
            delivery.local.condition = Condition("amqp:not-allowed", told)
        else:
            broker.transfers["in"] += len(messages)
        refused = delivery.local.condition is not None
        broker.answer(self._client, lambda: self._settle(delivery, refused))

    def _settle(self, delivery: Delivery, refused: bool) -> None:
        delivery.update(Delivery.REJECTED if refused else Delivery.ACCEPTED)
        delivery.settle()
        if self._link.credit < CREDIT // 2:
            self._link.flow(CREDIT // 2)

    def flowed(self) -> None:
        """Nothing to do: the credit is ours to give."""

    def closed(self) -> None:
        """Nothing is left."""

    def end(self, condition: str | None, description: str) -> None:
        end(self._link, condition, description)
        self._broker.speaks(self._client)

    def idle_text(self) -> str:
        return IDLE.format(name=self._link.name, kind="publisher", what="Publisher")


class Outlet:
    """A client receives from `queue`; `session` is the one it holds."""

    def __init__(self, broker: Broker, client: Client, link: Sender, queue: Queue, session: str | None = None) -> None:
        self.queue = queue
        self.path = queue.path
        self.session = session
        self.used = broker.now()
        self._broker = broker
        self._client = client
        self._link = link
        self._deletes = link.remote_snd_settle_mode == SETTLED

    @property
    def has_credit(self) -> bool:
        return self._link.credit > 0 and not self._client.is_frozen

    def deliver(self, entry: Entry, now: float) -> None:
        broker, queue, link = self._broker, self.queue, self._link
        self.used = now
        token = None if self._deletes else queue.lock(entry, self, now)
        tag = (token or uuid.uuid4()).bytes_le
        delivery = link.delivery(cast("str", tag))  # it takes bytes, whatever it says
        until = broker.told(entry.until) if token else None
        link.stream(entry.message.delivered(entry.sequence, broker.told(entry.enqueued), entry.failed, until))
        link.advance()
        broker.transfers["out"] += 1
        broker.speaks(self._client)
        if token is None:
            delivery.settle()
            queue.remove(entry)
            return
        delivery.token = token
        if broker.faults.is_duplicated(queue.path):
            queue.lose(token)

    def delivered(self, delivery: Delivery) -> None:
        """The client has settled it, or wants it settled."""
        self.used = self._broker.now()
        settlement.settle(self._broker, self._client, self.queue, delivery)

    def flowed(self) -> None:
        """It has given credit, or wants the rest of it back."""
        self.used = self._broker.now()
        self._broker.wake(self.queue)
        if self._link.drain_mode:
            self._broker.catch_up()
            self._link.drained()

    def closed(self) -> None:
        self._broker.remove(self)

    def end(self, condition: str | None, description: str) -> None:
        end(self._link, condition, description)
        self._broker.remove(self)
        self._broker.speaks(self._client)

    def idle_text(self) -> str:
        return IDLE.format(name=self._link.name, kind="consumer", what="Consumer")
