"""What tests do to the emulator while it runs: one JSON object a line on a TCP port, one answer a line.

    {"do": "silence", "with": {"what": "management"}}   ->   {"done": null}   or   {"refused": "why"}

control.py beside this package is the other end; its docstrings say what each command does.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from proton import Link

from bench.brokers.servicebus.emulator.broker import Broker
from bench.brokers.servicebus.emulator.connection import Client
from bench.brokers.servicebus.emulator.faults import Failure, Faults, Plan, Refusal, Silent
from bench.brokers.servicebus.emulator.links import Inlet, Outlet
from bench.brokers.servicebus.emulator.message import parse, plain
from bench.brokers.servicebus.emulator.namespace import NotFound
from bench.brokers.servicebus.emulator.queue import Options, Queue
from bench.brokers.servicebus.figures import Counts, Stats


class Command(msgspec.Struct, frozen=True):
    do: str
    given: dict[str, Any] = msgspec.field(name="with", default_factory=dict)


class Commands:
    """Each public method is one."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until the other end goes."""
        try:
            while line := await reader.readline():
                writer.write(msgspec.json.encode(self._answer(line)) + b"\n")
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):  # cancelled only when the whole emulator ends
            pass
        finally:
            writer.close()

    def _answer(self, line: bytes) -> dict[str, object]:
        try:
            command = msgspec.json.decode(line, type=Command)
            act: Callable[..., object] = getattr(self, command.do if not command.do.startswith("_") else "")
            done = act(**command.given)
            self._broker.catch_up()
        except Exception as error:  # the test must hear of it, whatever it is
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"done": done}

    # Entities ---------------------------------------------------------------------------------------------------------

    def make_queue(self, name: str, **options: Any) -> None:
        self._broker.namespace.make_queue(name, msgspec.convert(options, Options))

    def make_topic(self, name: str) -> None:
        self._broker.namespace.make_topic(name)

    def make_subscription(self, topic: str, name: str, **options: Any) -> str:
        return self._broker.namespace.make_subscription(topic, name, msgspec.convert(options, Options))

    def delete(self, entity: str) -> None:
        queues = {queue.path: queue for queue in self._broker.namespace.queues()}
        for path in self._broker.namespace.delete(entity):
            told = str(NotFound(path))
            self.detach(path, "amqp:not-found", told)
            if (queue := queues.get(path)) is not None:
                self._broker.accepting.drop(queue, "amqp:not-found", told)
                self._broker.outlets.pop(queue, None)

    def counts(self, entity: str) -> Counts:
        return self._queue(entity).counts()

    def send(self, entity: str, bodies: list[str], session: str | None, properties: dict[str, Any]) -> list[int]:
        raws = [plain(base64.b64decode(body), session, properties) for body in bodies]
        self._broker.transfers["in"] += len(raws)
        return self._broker.namespace.send(entity, [parse(raw) for raw in raws], self._broker.now())

    # Figures ----------------------------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        return self._broker.stats()

    def forget(self) -> None:
        self._broker.forget()

    # Locks ------------------------------------------------------------------------------------------------------------

    def expire_locks(self, entity: str, sequences: list[int] | None = None) -> int:
        queue = self._queue(entity)
        lost = [token for token, entry in queue.locked.items() if sequences is None or entry.sequence in sequences]
        for token in lost:
            queue.lose(token)
        return len(lost)

    def expire_sessions(self, entity: str, session: str | None = None) -> int:
        queue = self._queue(entity)
        lost = [each for each in queue.sessions.held if session in (None, each)]
        for each in lost:
            self._broker.lose_session(queue, each)
        return len(lost)

    # Answers ----------------------------------------------------------------------------------------------------------

    def fail_settlements(self, **plan: Any) -> None:
        self._broker.faults.settlements = _plan(**plan)

    def fail_renewals(self, **plan: Any) -> None:
        self._broker.faults.renewals = _plan(**plan)

    def silence(self, what: Silent = "all", entity: str | None = None, applied: bool = True) -> None:
        self._broker.faults.is_applied_in_silence = applied
        self._broker.faults.silence(what, entity)

    def speak(self) -> None:
        self._broker.faults.speak()
        for client in list(self._broker.clients):
            client.thaw()
        for queue in self._broker.namespace.queues():
            self._broker.wake(queue)

    def slow(self, seconds: float) -> None:
        self._broker.faults.delay = seconds

    def skew(self, seconds: float) -> None:
        self._broker.faults.skew = seconds

    # Connections and links --------------------------------------------------------------------------------------------

    def reset_connections(self, entity: str | None = None) -> int:
        clients = list(self._clients(entity))
        for client in clients:
            client.reset()
        return len(clients)

    def close_connections(self, condition: str, description: str, entity: str | None = None) -> int:
        clients = list(self._clients(entity))
        for client in clients:
            client.close(condition, description)
        return len(clients)

    def detach(self, entity: str | None, condition: str | None, description: str = "") -> int:
        links = list(self._links(entity))
        for client, link, served in links:
            client.end(link, served, condition, description)
        return len(links)

    def detach_idle(self, entity: str | None = None) -> int:
        links = list(self._links(entity))
        for client, link, served in links:
            client.end_idle(link, served)
        return len(links)

    def idle_after(self, seconds: float | None) -> None:
        self._broker.faults.idle = seconds

    # Tokens -----------------------------------------------------------------------------------------------------------

    def refuse_tokens(self, status: int, description: str) -> None:
        self._broker.faults.refusal = Refusal(status, description)

    def accept_tokens(self) -> None:
        self._broker.faults.refusal = None

    def expire_tokens(self, entity: str | None = None) -> int:
        clients = list(self._clients(entity))
        for client in clients:
            client.token_until = 0.0
            client.look_at_links(self._broker.now())
        return len(clients)

    # Messages ---------------------------------------------------------------------------------------------------------

    def duplicate(self, entity: str, count: int = 1) -> None:
        self._broker.faults.duplicates[entity.lower()] = count

    def reorder(self, entity: str, count: int) -> None:
        self._queue(entity).reordered = count

    def mend(self) -> None:
        for queue in self._broker.namespace.queues():
            queue.reordered = 0
        self._broker.faults, silent = Faults(), self._broker.faults
        if silent.is_silent("all", *(path for client in self._broker.clients for path in client.paths)):
            self.speak()

    # ------------------------------------------------------------------------------------------------------------------

    def _queue(self, entity: str) -> Queue:
        return self._broker.namespace.queue(entity)

    def _clients(self, entity: str | None) -> Iterator[Client]:
        for client in self._broker.clients:
            if entity is None or entity.lower() in (path.lower() for path in client.paths):
                yield client

    def _links(self, entity: str | None) -> Iterator[tuple[Client, Link, Inlet | Outlet]]:
        for client in self._broker.clients:
            for link, served in client.entity_links():
                if entity is None or served.path.lower() == entity.lower():
                    yield client, link, served


def _plan(
    failing: int,
    of: int,
    condition: str,
    rounds: int | None,
    applied: bool,
    entity: str | None,
) -> Plan | None:
    return Plan(Failure(condition, applied), failing, of, rounds, entity) if failing else None
