"""Service Bus behind the door of the contract suite: a queue, a subscription to a topic, and a queue with sessions."""

from __future__ import annotations

from collections.abc import Sequence

from azure.servicebus import ServiceBusMessage

from bench.brokers.servicebus import entities
from bench.brokers.servicebus.control import Control
from bridge.ports import Producer
from connectors.servicebus import KIND, ServiceBusOptions
from connectors.servicebus.bodies import body_of
from connectors.servicebus.browsing import Browser
from connectors.servicebus.client import Account
from tests.contract.connectors.promises import Features, Headers

LOCK = 15.0
"""Seconds: what lies in a queue of the suite is lent for so long."""
_PAGE = 200
_ALL_BYTES = 250 * 1024  # the largest message of the service's standard tier is 256 KiB with its properties


class ServiceBusQueue:
    """`path` is read; what is sent goes to `target`, a queue or a topic."""

    features = Features(
        ordered=False,
        cumulative=False,
        lanes=1,
        releases=True,
        counts_deliveries=True,
        leases=True,
        timestamps=True,
        largest=_ALL_BYTES,
    )
    sessions = False

    def __init__(self, connection_string: str, path: str, control: Control, *, target: str | None = None) -> None:
        self._connection_string = connection_string
        self._path = path
        self._control = control
        self._target = target or path
        self._sent: list[bytes] = []

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        if not bodies:
            return
        properties: dict[str | bytes, object] = dict(headers)
        session = f"lane {lane}" if self.sessions else None
        messages = [
            ServiceBusMessage(body, session_id=session, application_properties=properties or None)  # type: ignore[arg-type]
            for body in bodies
            if body is not None
        ]
        self._sent += [body for body in bodies if body is not None]
        await entities.send(self._connection_string, self._target, messages, session=session)

    def _options(self) -> ServiceBusOptions:
        topic, _, subscription = self._path.partition("/Subscriptions/")
        return ServiceBusOptions(
            connection_string=self._connection_string,
            queue=None if subscription else self._path,
            topic=topic if subscription else None,
            subscription=subscription or None,
            sessions=self.sessions,
            lock_duration=LOCK,
        )

    def producer(self) -> Producer:
        options = self._options()
        assert not KIND.check(options)
        return KIND.build(options)

    async def settled(self) -> list[bytes]:
        left = list(self._sent)
        account = Account(self._options())
        browser = Browser(self._options(), account)
        try:
            first = 1
            while found := await browser.peek(first, _PAGE):
                for message in found:
                    left.remove(body_of(message))
                    first = message.message_annotations[b"x-opt-sequence-number"] + 1
        finally:
            await browser.aclose()
            await account.aclose()
        return left

    async def expire(self) -> None:
        self._control.expire_locks(self._path)


class ServiceBusSessions(ServiceBusQueue):
    """A lane is a session."""

    features = Features(
        ordered=True,
        cumulative=False,
        lanes=4,
        pauses=True,
        takes_lanes=True,
        releases=True,
        counts_deliveries=True,
        leases=True,
        timestamps=True,
        largest=_ALL_BYTES,
    )
    sessions = True

    async def expire(self) -> None:
        self._control.expire_sessions(self._path)
