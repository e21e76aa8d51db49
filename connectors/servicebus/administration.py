"""How an entity is set, by the management API over HTTPS: it needs the Manage claim, which a stream does not."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from connectors.servicebus.client import Account
from connectors.servicebus.judging import Settings
from connectors.servicebus.naming import parts_of
from connectors.servicebus.options import ServiceBusOptions

_WITHIN: Final = 8.0


async def settings_of(options: ServiceBusOptions, account: Account) -> Settings | None:
    """None where it can't be had: an emulator, no right to manage, no way out over HTTPS. None of that is wrong."""
    if options.connection_string is not None and parts_of(options.connection_string).is_emulator:
        return None
    from azure.servicebus.aio.management import ServiceBusAdministrationClient

    try:
        async with asyncio.timeout(_WITHIN):
            if options.connection_string is not None:
                client = ServiceBusAdministrationClient.from_connection_string(options.connection_string)
            else:
                credential: Any = account.client._credential
                client = ServiceBusAdministrationClient(str(options.namespace), credential)
            async with client:
                return _told(await _asked(client, options))
    except Exception:
        return None


async def _asked(client: Any, options: ServiceBusOptions) -> Any:
    if options.queue is not None:
        return await client.get_queue(options.queue)
    return await client.get_subscription(str(options.topic), str(options.subscription))


def _told(properties: Any) -> Settings:
    status = properties.status
    return Settings(
        lock_duration=properties.lock_duration,
        requires_session=properties.requires_session,
        max_delivery_count=properties.max_delivery_count,
        status=getattr(status, "value", status),
        forwards_to=properties.forward_to,
    )
