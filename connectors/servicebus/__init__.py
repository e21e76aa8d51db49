"""The stream kind `servicebus`: a queue of Azure Service Bus, or a subscription to a topic.

options      what a user writes            naming, client     the entity, and clients of the SDK for it
producer     reads and settles (its head lists the parts)
bodies       AMQP as bytes and headers (pure)
browsing     looks at messages and takes none
examine      `validate --connect`          people             `send` and `tail`
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from bridge.ports import Bounds, Finding, Seen, Sender, StreamKind
from connectors.servicebus.naming import source_of
from connectors.servicebus.options import ServiceBusOptions, check
from connectors.servicebus.producer import OUTSTANDING, ServiceBusProducer, SessionsProducer, build

__all__ = ["KIND", "ServiceBusOptions", "ServiceBusProducer", "SessionsProducer"]


async def examine(options: ServiceBusOptions) -> Sequence[Finding]:
    """What `validate --connect` finds at the namespace."""
    from connectors.servicebus.examine import (
        examine as look,
    )  # these three are for people: a bridge that runs needs none

    return await look(options)


def sender(options: ServiceBusOptions) -> Sender:
    """For `headrace send`."""
    from connectors.servicebus.people import EntitySender

    return EntitySender(options)


def tail(options: ServiceBusOptions, last: int) -> AsyncIterator[Seen]:
    """For `headrace tail`."""
    from connectors.servicebus.people import tail as shown

    return shown(options, last)


def notes(options: ServiceBusOptions) -> Sequence[str]:
    """What `headrace show` says of it."""
    lanes = f"each session is a lane, {options.max_sessions} at once" if options.sessions else "messages in any order"
    return (lanes, "no receive waits for more messages than there are: each is handed on as it comes")


KIND = StreamKind(
    options=ServiceBusOptions,
    build=build,
    source=source_of,
    check=check,
    examine=examine,
    sender=sender,
    tail=tail,
    bounds=Bounds(max_outstanding=OUTSTANDING, max_advancing=32, advance_max=100),
    notes=notes,
)
