"""The whole of one emulator: entities, connections, who waits for what, and the clock.

Everything runs in one loop and one thread. Whoever changes something calls `catch_up` at the end of its turn: what
became ready is then delivered, and every connection that has something to say says it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.brokers.servicebus.emulator.accepting import Accepting
from bench.brokers.servicebus.emulator.faults import SESSION_LOCK_LOST, TEXTS, Faults
from bench.brokers.servicebus.emulator.namespace import Namespace
from bench.brokers.servicebus.emulator.queue import Queue
from bench.brokers.servicebus.figures import Stats

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.connection import Client
    from bench.brokers.servicebus.emulator.links import Outlet

TICK = 0.025
"""Seconds between two looks at the clock: how late a lock may run out."""
BEATS = 1.0
"""Seconds between two looks at heartbeats, idle links and tokens."""


class Broker:
    def __init__(self) -> None:
        self.namespace = Namespace(self.wake)
        self.faults = Faults()
        self.clients: set[Client] = set()
        self.outlets: dict[Queue, deque[Outlet]] = {}
        self.accepting = Accepting(self)
        self._woken: set[Queue] = set()
        self._spoken: set[Client] = set()
        self.forget()

    # Figures ----------------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Counting starts again."""
        self.connections_opened = 0
        self.links_opened: Counter[str] = Counter()
        self.transfers: Counter[str] = Counter()
        self.dispositions: Counter[str] = Counter()
        self.unsettled_dispositions = 0
        self.management: Counter[str] = Counter()
        self.renewals = 0
        self.session_renewals = 0
        self.tokens: Counter[str] = Counter()

    def stats(self) -> Stats:
        return Stats(
            connections=len(self.clients),
            links=sum(len(client.entity_links()) for client in self.clients),
            connections_opened=self.connections_opened,
            links_opened=dict(self.links_opened),
            transfers=dict(self.transfers),
            dispositions=dict(self.dispositions),
            unsettled_dispositions=self.unsettled_dispositions,
            management=dict(self.management),
            renewals=self.renewals,
            session_renewals=self.session_renewals,
            tokens=dict(self.tokens),
        )

    # Turns ------------------------------------------------------------------------------------------------------------

    @staticmethod
    def now() -> float:
        return time.time()

    def told(self, at: float) -> float:
        """A time as clients are told it."""
        return at + self.faults.skew

    def wake(self, queue: Queue) -> None:
        self._woken.add(queue)

    def speaks(self, client: Client) -> None:
        """It has something to write."""
        self._spoken.add(client)

    def catch_up(self) -> None:
        while self._woken:
            queue = self._woken.pop()
            if queue.options.sessions:
                self.accepting.look(queue)
            self._pump(queue)
        while self._spoken:
            self._spoken.pop().write()

    def answer(self, client: Client, act: Callable[[], None]) -> None:
        """Now, or after the delay that tests have asked for. Nothing is said to a client that has gone."""

        def later() -> None:
            if client in self.clients:
                act()
                self.speaks(client)
                self.catch_up()

        if self.faults.delay:
            asyncio.get_running_loop().call_later(self.faults.delay, later)
        else:
            act()
            self.speaks(client)

    def _pump(self, queue: Queue) -> None:
        """One message for each receiver with credit in turn, until there is no credit or no message."""
        outlets = self.outlets.get(queue)
        if not outlets:
            return
        now = self.now()
        idle = 0
        while idle < len(outlets):
            outlet = outlets[0]
            outlets.rotate(-1)
            entry = queue.take(outlet.session, now) if outlet.has_credit else None
            if entry is None:
                idle += 1
            else:
                outlet.deliver(entry, now)
                idle = 0

    # Receivers --------------------------------------------------------------------------------------------------------

    def add(self, outlet: Outlet) -> None:
        self.outlets.setdefault(outlet.queue, deque()).append(outlet)
        self.wake(outlet.queue)

    def remove(self, outlet: Outlet, *, counted: bool = False) -> None:
        """Locks of messages without a session last on; a session is free at once, and so are its messages."""
        found = self.outlets.get(outlet.queue)
        if found is not None and outlet in found:
            found.remove(outlet)
        for session in outlet.queue.sessions.of(outlet):
            outlet.queue.lose_session(session, counted=counted)

    def lose_session(self, queue: Queue, session: str) -> None:
        """Its time is over: the messages go back and count, and its receiver is told."""
        held = queue.sessions.held.get(session)
        queue.lose_session(session, counted=True)
        for outlet in list(self.outlets.get(queue, ())):
            if held is not None and outlet is held.holder:
                outlet.end(SESSION_LOCK_LOST, TEXTS[SESSION_LOCK_LOST])

    # The clock --------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """For ever."""
        beat = 0.0
        while True:
            await asyncio.sleep(TICK)
            now = self.now()
            for queue in list(self.namespace.queues()):
                if (due := queue.next_due()) is not None and due <= now:
                    queue.pass_time(now)
                for session, _ in queue.sessions.over(now) if queue.sessions.held else ():
                    self.lose_session(queue, session)
            self.accepting.give_up(now)
            for client in list(self.clients):
                client.look_at_links(now)
            if now - beat > BEATS:
                beat = now
                for client in list(self.clients):
                    client.beat()
            self.catch_up()
