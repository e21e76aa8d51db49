"""Pub/Sub behind the door of the contract suite: a subscription without order, one with ordering keys, and one that
delivers exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from bridge.ports import Producer
from connectors.pubsub import KIND, PubSubOptions
from connectors.pubsub.client import Client, PubsubMessage
from tests.contract.connectors.promises import Features, Headers

LEASE = 10.0
"""Seconds: the shortest that Pub/Sub lends for."""
_A_REQUEST = 500


class Control(Protocol):
    """What a test broker does beside being Pub/Sub. Subscriptions by their whole names."""

    async def expire(self, subscription: str) -> None:
        """Ends all its leases."""
        ...

    async def unacked(self, subscription: str) -> list[bytes]:
        """The data of what nobody has acked, lent or not."""
        ...


class PubSub:
    """`endpoint` is `host:port`, `subscription` and `topic` are whole names; the subscription counts deliveries, which
    it does where it has a dead-letter policy.
    """

    features = Features(
        ordered=False,
        cumulative=False,
        lanes=1,
        pauses=True,
        releases=True,
        counts_deliveries=True,
        leases=True,
        timestamps=True,
        has_empty=False,  # it takes no message without data and attributes
    )

    def __init__(self, endpoint: str, subscription: str, topic: str, control: Control) -> None:
        self._endpoint = endpoint
        self._subscription = subscription
        self._topic = topic
        self._control = control
        self._sent: list[bytes] = []

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        given = [body for body in bodies if body is not None]
        ordering = f"lane {lane}" if self.features.ordered else ""
        client = Client(self._options())
        try:
            for start in range(0, len(given), _A_REQUEST):
                part = given[start : start + _A_REQUEST]
                await client.publish(self._topic, [PubsubMessage(data=body, ordering_key=ordering) for body in part])
                self._sent += part
        finally:
            await client.aclose()

    def _options(self) -> PubSubOptions:
        return PubSubOptions(
            subscription=self._subscription,
            endpoint=self._endpoint,
            ack_deadline=LEASE,
            retry_delay=1.0,
            retry_delay_max=1.0,
            request_timeout=5.0,
        )

    def producer(self) -> Producer:
        options = self._options()
        assert not KIND.check(options)
        return KIND.build(options)

    async def settled(self) -> list[bytes]:
        settled = list(self._sent)
        for body in await self._control.unacked(self._subscription):
            settled.remove(body)
        return settled

    async def expire(self) -> None:
        await self._control.expire(self._subscription)


class PubSubOrdered(PubSub):
    """A lane is an ordering key; the subscription has no dead-letter policy."""

    features = Features(
        ordered=True,
        cumulative=False,
        lanes=4,
        pauses=True,
        releases=True,
        leases=True,
        timestamps=True,
        has_empty=False,
    )


class PubSubExactlyOnce(PubSub):
    """The subscription delivers exactly once: whether an ack has counted is told. It has no dead-letter policy."""

    features = Features(
        ordered=False,
        cumulative=False,
        lanes=1,
        pauses=True,
        releases=True,
        leases=True,
        timestamps=True,
        has_empty=False,
    )
