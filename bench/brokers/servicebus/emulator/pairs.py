"""Requests and their answers: `$cbs` for tokens, `<entity>/$management` for everything that has no outcome of its own.

The two differ in how they spell the status, and a client looks for the spelling that belongs to the path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proton import Delivery, Receiver

from bench.brokers.servicebus.emulator.management import Reply, execute
from bench.brokers.servicebus.emulator.message import answer, request
from bench.brokers.servicebus.emulator.values import Int, Malformed, Symbol, Timestamp, Value

if TYPE_CHECKING:
    from bench.brokers.servicebus.emulator.broker import Broker
    from bench.brokers.servicebus.emulator.connection import Client

CBS = "$cbs"
MANAGEMENT = "/$management"
CREDIT = 100


def is_paired(path: str) -> bool:
    return path.lower() == CBS or path.lower().endswith(MANAGEMENT)


class Pair:
    """The half by which requests come; the client object knows the other."""

    def __init__(self, broker: Broker, client: Client, link: Receiver, path: str) -> None:
        self.path = path
        self._broker = broker
        self._client = client
        self._link = link
        link.flow(CREDIT)

    def delivered(self, delivery: Delivery, raw: bytes, format: int) -> None:
        delivery.update(Delivery.ACCEPTED)
        delivery.settle()
        if self._link.credit < CREDIT // 2:
            self._link.flow(CREDIT // 2)
        try:
            id, properties, body = request(raw)
        except Malformed:
            return
        if self.path.lower() == CBS:
            self._token(id, properties)
        else:
            self._manage(id, properties, body)

    def _token(self, id: Value, properties: dict[str, Value]) -> None:
        broker, refusal = self._broker, self._broker.faults.refusal
        broker.tokens["refused" if refusal else "accepted"] += 1
        if broker.faults.is_silent("tokens", *self._client.paths):
            return
        expires = properties.get("expiration")
        if refusal is None and isinstance(expires, Timestamp):
            self._client.token_until = expires / 1000
        told: dict[str, Value] = {
            "status-code": Int(refusal.status if refusal else 202),
            "status-description": refusal.description if refusal else "Accepted",
        }
        self._reply(answer(id, told, None))

    def _manage(self, id: Value, properties: dict[str, Value], body: Value) -> None:
        broker, path = self._broker, self.path[: -len(MANAGEMENT)]
        operation = str(properties.get("operation", ""))
        broker.management[operation.removeprefix("com.microsoft:")] += 1
        is_silent = broker.faults.is_silent("management", path)
        if is_silent and not broker.faults.is_applied_in_silence:
            return
        reply = execute(broker, path, operation, body if isinstance(body, dict) else {})
        if not is_silent:
            self._reply(_management_answer(id, reply))

    def _reply(self, raw: bytes) -> None:
        self._broker.answer(self._client, lambda: self._client.reply(self.path, raw))

    def flowed(self) -> None:
        """Nothing to do: the credit is ours to give."""

    def closed(self) -> None:
        """Nothing is left."""


def _management_answer(id: Value, reply: Reply) -> bytes:
    told: dict[str, Value] = {"statusCode": Int(reply.status), "statusDescription": reply.description}
    if reply.condition:
        told["errorCondition"] = Symbol(reply.condition)
    return answer(id, told, reply.body)
