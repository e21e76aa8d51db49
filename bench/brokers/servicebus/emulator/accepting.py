"""Receivers that wait for a session. Until there is one, nobody answers their attach, as the service does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from proton import Link, Sender, symbol

from bench.brokers.servicebus.emulator.links import Outlet, refuse
from bench.brokers.servicebus.emulator.queue import Queue

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.broker import Broker
    from bench.brokers.servicebus.emulator.connection import Client

FILTER = "com.microsoft:session-filter"
LOCKED_UNTIL = "com.microsoft:locked-until-utc"
CANNOT_BE_LOCKED = "com.microsoft:session-cannot-be-locked"
TIMEOUT = "com.microsoft:timeout"
TICKS_OF_1970 = 621_355_968_000_000_000
"""In units of 100 ns since the year 1, as .NET counts."""


class Waiting(Struct, frozen=True):
    """`session` None: the next one that is free. `until` is when the attach is refused."""

    client: Client
    link: Sender
    queue: Queue
    session: str | None
    until: float


class Accepting:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: list[Waiting] = []

    def wait(self, waiting: Waiting) -> None:
        self._waiting.append(waiting)
        self.look(waiting.queue)

    def forget(self, link: Link) -> None:
        self._waiting = [each for each in self._waiting if each.link != link]

    def forget_client(self, client: Client) -> None:
        self._waiting = [each for each in self._waiting if each.client is not client]

    def look(self, queue: Queue) -> None:
        """Whoever can have a session gets it, in the order in which they came."""
        now = self._broker.now()
        for waiting in [each for each in self._waiting if each.queue is queue]:
            if waiting.session is None:
                session = next(queue.ready_sessions(now), None)
                if session is None:
                    return
            elif queue.sessions.is_held(session := waiting.session, now):
                told = f"The requested session '{session}' cannot be accepted. It may be locked by another receiver."
                self._refuse(waiting, CANNOT_BE_LOCKED, told)
                continue
            self._accept(waiting, session, now)

    def give_up(self, now: float) -> None:
        for waiting in [each for each in self._waiting if each.until <= now]:
            self._refuse(waiting, TIMEOUT, "The operation did not complete within the allotted timeout.")

    def drop(self, queue: Queue, condition: str, description: str) -> None:
        """The entity has gone."""
        for waiting in [each for each in self._waiting if each.queue is queue]:
            self._refuse(waiting, condition, description)

    def _accept(self, waiting: Waiting, session: str, now: float) -> None:
        self.forget(waiting.link)
        broker, link, queue = self._broker, waiting.link, waiting.queue
        outlet = Outlet(broker, waiting.client, link, queue, session)
        until = now + queue.options.lock
        queue.sessions.accept(session, outlet, until)
        _write_filter(link, session)
        link.properties = {symbol(LOCKED_UNTIL): int(TICKS_OF_1970 + broker.told(until) * 10_000_000)}
        link.open()
        waiting.client.adopt(link, outlet)
        broker.add(outlet)
        broker.speaks(waiting.client)

    def _refuse(self, waiting: Waiting, condition: str, description: str) -> None:
        self.forget(waiting.link)
        refuse(waiting.link, condition, description)
        self._broker.speaks(waiting.client)


def _write_filter(link: Link, session: str) -> None:
    """The filter of the answer names the session that was given."""
    data = link.source.filter
    data.clear()
    data.put_map()
    data.enter()
    data.put_symbol(symbol(FILTER))
    data.put_string(session)
    data.exit()
