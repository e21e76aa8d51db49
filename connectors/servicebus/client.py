"""Clients of the SDK, made from options. Nothing here connects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from azure.servicebus import NEXT_AVAILABLE_SESSION, ServiceBusSubQueue, TransportType
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from connectors.servicebus.chatter import calm_down
from connectors.servicebus.options import ServiceBusOptions

ACCEPTED_WITHIN: Final = 10.0
"""Seconds that the broker may hold back a request for the next session."""
_CLOSED_WITHIN: Final = 2.0


class Account:
    """Who we are at the namespace: makes receivers and senders, and owns the credentials that they share."""

    def __init__(self, options: ServiceBusOptions) -> None:
        calm_down()
        self._options = options
        self._credential: Any = None
        self.client = self._made()

    def _made(self) -> ServiceBusClient:
        settings = self._settings()
        if self._options.connection_string is not None:
            return ServiceBusClient.from_connection_string(self._options.connection_string, **settings)
        from azure.identity.aio import DefaultAzureCredential  # imports for a while, and only this way in needs it

        self._credential = DefaultAzureCredential()
        return ServiceBusClient(str(self._options.namespace), self._credential, **settings)

    def _settings(self) -> dict[str, Any]:
        """No retries of the client's own: it would repeat for minutes what we want to hear of."""
        websockets = self._options.transport == "websockets"
        return {
            "retry_total": 0,
            "try_timeout": self._options.open_timeout,
            "transport_type": TransportType.AmqpOverWebsocket if websockets else TransportType.Amqp,
            "user_agent": "headrace",
        }

    def receiver(self) -> ServiceBusReceiver:
        return self._receiver({})

    def session_receiver(self, session: str | None, wait: float) -> ServiceBusReceiver:
        """For one session; None: the next that has messages and no reader, which is waited for so many seconds."""
        return self._receiver(
            {"session_id": NEXT_AVAILABLE_SESSION if session is None else session, "max_wait_time": wait}
        )

    def _receiver(self, more: Mapping[str, Any]) -> ServiceBusReceiver:
        options = self._options
        settings = dict(more)
        if options.subqueue == "dead_letter":
            settings["sub_queue"] = ServiceBusSubQueue.DEAD_LETTER
        if options.queue is not None:
            return self.client.get_queue_receiver(options.queue, **settings)
        return self.client.get_subscription_receiver(str(options.topic), str(options.subscription), **settings)

    def sender(self) -> ServiceBusSender:
        if self._options.queue is not None:
            return self.client.get_queue_sender(self._options.queue)
        return self.client.get_topic_sender(str(self._options.topic))

    async def aclose(self) -> None:
        """Bounded. Receivers and senders are closed by whoever has them."""
        credential, self._credential = self._credential, None
        if credential is not None:
            try:
                async with asyncio.timeout(_CLOSED_WITHIN):
                    await credential.close()
            except TimeoutError:
                return
