"""Looks at the messages of an entity, in any state, and takes none: no link is opened, only requests are made.

A receiver of the SDK opens a link before it peeks, which an entity with sessions refuses; without one, all do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from azure.servicebus._common import mgmt_handlers
from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus.aio import _session_browser_async as browsing

from connectors.servicebus.client import Account
from connectors.servicebus.closing import closed_within, watched
from connectors.servicebus.errors import translating
from connectors.servicebus.naming import entity_of
from connectors.servicebus.options import ServiceBusOptions

_PEEK: Final = b"com.microsoft:peek-message"
_CLOSED_WITHIN: Final = 2.0
_NOTHING: Final = (202, 204)


class Browser:
    """Connects with the first request. Raises Refused or Transient."""

    def __init__(self, options: ServiceBusOptions, account: Account) -> None:
        self._options = options
        client: Any = account.client
        browser: Any = browsing._SessionBrowserAsync  # which has no types
        self._handler = browser(
            client.fully_qualified_namespace,
            entity_of(options),
            client._credential,
            amqp_transport=client._amqp_transport,
            transport_type=client._config.transport_type,
            use_tls=client._config.use_tls,
            retry_total=0,
            try_timeout=options.open_timeout,
        )
        self._handlers = watched(self._handler)

    async def peek(self, first: int, most: int) -> Sequence[Any]:
        """Up to `most` messages whose sequence numbers begin at `first`, as the client decodes them, in their order."""
        with translating(f"looking at {entity_of(self._options)}"):
            async with asyncio.timeout(self._options.open_timeout):
                messages: Sequence[Any] = await self._handler._mgmt_request_response(
                    _PEEK,
                    {"from-sequence-number": _long(first), "message-count": most},
                    _peeked,
                    keep_alive_associated_link=False,
                    timeout=self._options.open_timeout,
                )
        return messages

    async def aclose(self) -> None:
        await closed_within(_CLOSED_WITHIN, self._handler, self._handlers)


def _long(number: int) -> dict[str, object]:
    """In the type that the service wants."""
    return {"TYPE": "LONG", "VALUE": number}


def _peeked(status: int, answer: Any, description: Any, amqp_transport: Any) -> Sequence[Any]:
    if status in _NOTHING:
        return []
    default: Any = mgmt_handlers.default  # which has no types
    value = default(status, answer, description, amqp_transport)
    return [decode_payload(memoryview(each[b"message"])) for each in value[b"messages"]]
