"""Proton's engine for one connection: bytes in, events, bytes out.

The loop over events goes past Proton's own event objects, which wrap five things for each event; at some thousand
messages a second these were most of the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import cast

from cproton import (  # type: ignore[import-untyped]  # it has no stubs
    PN_CONNECTION_REMOTE_CLOSE,
    PN_CONNECTION_REMOTE_OPEN,
    PN_DELIVERY,
    PN_LINK_FLOW,
    PN_LINK_REMOTE_CLOSE,
    PN_LINK_REMOTE_DETACH,
    PN_LINK_REMOTE_OPEN,
    PN_SESSION_REMOTE_CLOSE,
    PN_SESSION_REMOTE_OPEN,
    isnull,
    pn_cast_pn_connection,
    pn_cast_pn_delivery,
    pn_cast_pn_link,
    pn_cast_pn_session,
    pn_collector_peek,
    pn_collector_pop,
    pn_event_context,
    pn_event_type,
)
from proton import SASL, Collector, Connection, Delivery, Link, Session, Transport, TransportException

__all__ = ["Engine", "Event", "Link"]

Event = Connection | Session | Link | Delivery

# They have no annotations in Proton; a link is wrapped as the Sender or the Receiver that it is.
_delivery = cast("Callable[[object], Delivery]", Delivery.wrap)
_link = cast("Callable[[object], Link]", Link.wrap)
_session = cast("Callable[[object], Session]", Session.wrap)
_connection = cast("Callable[[object], Connection]", Connection.wrap)

CONNECTIONS = {PN_CONNECTION_REMOTE_OPEN: "connection_opened", PN_CONNECTION_REMOTE_CLOSE: "connection_closed"}
SESSIONS = {PN_SESSION_REMOTE_OPEN: "session_opened", PN_SESSION_REMOTE_CLOSE: "session_closed"}
LINKS = {
    PN_LINK_REMOTE_OPEN: "link_opened",
    PN_LINK_REMOTE_CLOSE: "link_closed",
    PN_LINK_REMOTE_DETACH: "link_closed",
    PN_LINK_FLOW: "link_flow",
}
FRAME = 65_536
"""What the service takes in one frame."""
EVERY = 240.0
"""Seconds without a frame of the client after which it would be dropped; the service's own number."""


class Engine:
    def __init__(self) -> None:
        self._transport = Transport(Transport.SERVER)
        sasl: SASL = self._transport.sasl()
        sasl.allowed_mechs("ANONYMOUS")
        self._transport.max_frame_size = FRAME
        self._transport.idle_timeout = EVERY
        self.connection = Connection()
        self.connection.container = "headrace-servicebus-emulator"
        self._collector = Collector()
        self.connection.collect(self._collector)
        self._transport.bind(self.connection)

    def feed(self, data: bytes) -> Iterator[tuple[str, Event]]:
        """What happens because of it: a name, and what it happened to."""
        while data:
            room = self._transport.capacity()
            if room <= 0:
                return
            try:
                self._transport.push(data[:room])
            except TransportException:  # the events say so, too
                data = b""
            data = data[room:]
            yield from self.events()

    def events(self) -> Iterator[tuple[str, Event]]:
        collector = self._collector._impl
        while not isnull(event := pn_collector_peek(collector)):
            kind = pn_event_type(event)
            if kind == PN_DELIVERY:
                yield "delivery", _delivery(pn_cast_pn_delivery(pn_event_context(event)))
            elif kind in LINKS:
                yield LINKS[kind], _link(pn_cast_pn_link(pn_event_context(event)))
            elif kind in SESSIONS:
                yield SESSIONS[kind], _session(pn_cast_pn_session(pn_event_context(event)))
            elif kind in CONNECTIONS:
                yield CONNECTIONS[kind], _connection(pn_cast_pn_connection(pn_event_context(event)))
            pn_collector_pop(collector)

    def written(self) -> bytes:
        """What is to be sent now."""
        parts = []
        while (size := self._transport.pending()) > 0:
            parts.append(bytes(self._transport.peek(size) or b""))
            self._transport.pop(size)
        return b"".join(parts)

    @property
    def is_over(self) -> bool:
        """Nothing will be written any more."""
        return bool(self._transport.pending() < 0)

    def tick(self, now: float) -> None:
        """Writes heartbeats when they are due. Seconds, monotonic."""
        self._transport.tick(now)

    def lost(self) -> Iterator[tuple[str, Event]]:
        """The socket is gone: frees everything."""
        try:
            self._transport.close_tail()
            self._transport.close_head()
        except TransportException:
            pass
        yield from self.events()
        self._transport.unbind()
        self.connection.free()
