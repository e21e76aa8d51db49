"""One TCP connection of a client, and the links that it opened."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from typing import TYPE_CHECKING, cast

from proton import Condition, Connection, Delivery, Endpoint, Link, Receiver, Sender, Session

from bench.brokers.servicebus.emulator.accepting import FILTER, Waiting
from bench.brokers.servicebus.emulator.engine import Engine, Event
from bench.brokers.servicebus.emulator.formats import Formats
from bench.brokers.servicebus.emulator.links import Inlet, Outlet, refuse
from bench.brokers.servicebus.emulator.namespace import NotFound, path_of
from bench.brokers.servicebus.emulator.pairs import Pair, is_paired
from bench.brokers.servicebus.emulator.queue import Queue

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.broker import Broker

Served = Inlet | Outlet | Pair
SESSION_TIMEOUT = "com.microsoft:timeout"
PATIENCE = 60.0
"""Seconds that an attach waits for a session if the client names none."""
WINDOW = 32 * 1024 * 1024
"""Bytes that a client may send ahead of us."""


class Client(asyncio.Protocol):
    def __init__(self, broker: Broker) -> None:
        self.paths: set[str] = set()
        self.links: dict[Link, Served] = {}
        self.token_until: float | None = None
        self._broker = broker
        self._engine = Engine()
        self._formats = Formats()
        self._backlog = bytearray()
        self._transport: asyncio.Transport | None = None
        self._replies: dict[str, Sender] = {}

    # Bytes ------------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._broker.clients.add(self)
        self._broker.connections_opened += 1

    def data_received(self, data: bytes) -> None:
        if self.is_frozen:
            self._backlog += data
            return
        self._formats.feed(data)
        for name, of in self._engine.feed(data):
            self._react(name, of)
        self._broker.speaks(self)
        self._broker.catch_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._broker.clients.discard(self)
        for served in list(self.links.values()):
            served.closed()
        self._broker.accepting.forget_client(self)
        self.links.clear()
        self._replies.clear()
        for _ in self._engine.lost():
            pass
        self._broker.catch_up()

    def write(self) -> None:
        if self._transport is None or self.is_frozen:
            return
        if data := self._engine.written():
            self._transport.write(data)
        if self._engine.is_over:
            self._transport.close()

    @property
    def is_frozen(self) -> bool:
        return self._broker.faults.is_silent("all", *self.paths)

    def thaw(self) -> None:
        """What came in meanwhile is looked at now."""
        data, self._backlog = bytes(self._backlog), bytearray()
        self.data_received(data)

    def reset(self) -> None:
        """The peer sees a connection reset, not an end."""
        if self._transport is not None:
            opened = self._transport.get_extra_info("socket")
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def close(self, condition: str, description: str) -> None:
        self._engine.connection.condition = Condition(condition, description)
        self._engine.connection.close()
        self._broker.speaks(self)

    # Time -------------------------------------------------------------------------------------------------------------

    def beat(self) -> None:
        if not self.is_frozen:
            self._engine.tick(time.monotonic())
            self._broker.speaks(self)

    def look_at_links(self, now: float) -> None:
        """Ends those that were idle for too long, and all if the token has run out."""
        if self.token_until is not None and self.token_until <= now:
            self.token_until = None
            self.close("amqp:unauthorized-access", "ExpiredToken: The token is expired.")
        if self._broker.faults.idle is None:
            return
        for link, served in self.entity_links():
            if now - served.used >= self._broker.faults.idle:
                self.end_idle(link, served)

    def end_idle(self, link: Link, served: Inlet | Outlet) -> None:
        self.end(link, served, "amqp:link:detach-forced", served.idle_text())

    def end(self, link: Link, served: Inlet | Outlet, condition: str | None, description: str) -> None:
        self.links.pop(link, None)
        served.end(condition, description)

    def entity_links(self) -> list[tuple[Link, Inlet | Outlet]]:
        """All but those to `$cbs` and `$management`."""
        return [(link, served) for link, served in self.links.items() if not isinstance(served, Pair)]

    # Events -----------------------------------------------------------------------------------------------------------

    def _react(self, name: str, of: Event) -> None:
        match of:
            case Delivery():
                self._delivery(of)
            case Link():
                {"link_opened": self._attach, "link_closed": self._detach, "link_flow": self._flow}[name](of)
            case Session() | Connection() if name.endswith("closed"):
                of.close()
            case Session():
                of.incoming_capacity = WINDOW
                of.open()
            case Connection():
                of.open()

    def _delivery(self, delivery: Delivery) -> None:
        link = delivery.link
        served = self.links.get(link)
        if link.is_receiver:
            if not delivery.readable or delivery.partial:
                return
            raw = bytes(link.recv(delivery.pending) or b"")
            link.advance()
            format = self._formats.next()
            if isinstance(served, Inlet | Pair):
                served.delivered(delivery, raw, format)
        elif delivery.updated:
            if isinstance(served, Outlet):
                served.delivered(delivery)
            elif delivery.settled:
                delivery.settle()

    def _flow(self, link: Link) -> None:
        if (served := self.links.get(link)) is not None:
            served.flowed()

    def _detach(self, link: Link) -> None:
        self._broker.accepting.forget(link)
        self._replies = {path: other for path, other in self._replies.items() if other != link}
        served = self.links.pop(link, None)
        if served is not None:
            served.closed()
        if link.state & Endpoint.LOCAL_ACTIVE:
            link.close()

    # Links ------------------------------------------------------------------------------------------------------------

    def _attach(self, link: Link) -> None:
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        path = path_of(link.remote_target.address if link.is_receiver else link.remote_source.address)
        if is_paired(path):
            self._attach_pair(link, path)
            return
        self.paths.add(path)
        if not self._broker.namespace.has(path):
            refuse(link, "amqp:not-found", str(NotFound(path)))
        elif isinstance(link, Receiver):
            self.adopt(link, Inlet(self._broker, self, link, path))
        elif isinstance(link, Sender):
            self._attach_receiver(link, path)

    def _attach_pair(self, link: Link, path: str) -> None:
        if isinstance(link, Receiver):
            self.links[link] = Pair(self._broker, self, link, path)
        elif isinstance(link, Sender):
            self._replies[path] = link
        link.open()

    def _attach_receiver(self, link: Sender, path: str) -> None:
        try:
            queue = self._broker.namespace.queue(path)
        except NotFound as error:  # a topic itself can't be read
            refuse(link, "amqp:not-allowed", str(error))
            return
        if queue.options.sessions:
            self._wait_for_session(link, queue)
            return
        link.open()
        outlet = Outlet(self._broker, self, link, queue)
        self.adopt(link, outlet)
        self._broker.add(outlet)

    def _wait_for_session(self, link: Sender, queue: Queue) -> None:
        filters = _filters(link)
        if FILTER not in filters:
            told = (
                "It is not possible for an entity that requires sessions to create a non-sessionful message receiver."
            )
            refuse(link, "amqp:not-allowed", told)
            return
        wanted = filters[FILTER]
        properties = {str(key): value for key, value in (link.remote_properties or {}).items()}
        patience = properties.get(SESSION_TIMEOUT)
        until = self._broker.now() + (int(patience) / 1000 if patience is not None else PATIENCE)
        session = None if wanted is None else str(wanted)
        self._broker.accepting.wait(Waiting(self, link, queue, session, until))

    def adopt(self, link: Link, served: Inlet | Outlet) -> None:
        self.links[link] = served
        self._broker.links_opened["senders" if isinstance(served, Inlet) else "receivers"] += 1

    def reply(self, path: str, raw: bytes) -> None:
        """To the link on which the client reads the answers of `path`."""
        link = self._replies.get(path)
        if link is not None:
            delivery = link.delivery(str(time.monotonic_ns()))
            link.stream(raw)
            link.advance()
            delivery.settle()


def _filters(link: Link) -> dict[str, object]:
    """Of its source: plain values, whether they came described or not."""
    data = link.remote_source.filter
    if not data.next():
        return {}
    found = data.get_object()
    return {str(key): getattr(value, "value", value) for key, value in (found or {}).items()}
