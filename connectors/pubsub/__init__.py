"""The stream kind `pubsub`: a Google Cloud Pub/Sub subscription, read by streaming pull.

options        what a user writes              client, credentials   calls over a channel of our own, and who we are
streaming      one streaming pull              flow                  how much may be on its way (pure)
intake         what came, cut by key           keys, messages        order, and what a message is (pure)
settling       requests, and their answers     outcomes              acks, renewals and give-backs
relay          dead letters to a topic         examine, people       `validate --connect` and `send`
producer       puts them together
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bridge.ports import Bounds, Finding, Producer, Relay, Sender, StreamKind
from connectors.pubsub.options import PubSubOptions, check, subscription_of

if TYPE_CHECKING:
    from connectors.pubsub.producer import PubSubProducer

__all__ = ["KIND", "PubSubOptions"]


def build(options: PubSubOptions) -> PubSubProducer:
    """A fresh producer that has connected to nothing."""
    from connectors.pubsub.producer import PubSubProducer  # Google's packages take a third of a second to import

    return PubSubProducer(options)


def source(options: PubSubOptions) -> str:
    """The subscription, wherever it is reached."""
    return f"pubsub:{subscription_of(options)}"


async def examine(options: PubSubOptions) -> Sequence[Finding]:
    """What `validate --connect` finds at the service."""
    from connectors.pubsub.examine import examine as look

    return await look(options)


def relay(options: PubSubOptions) -> Relay | None:
    """None where no topic is named."""
    if options.dead_letter is None:
        return None
    from connectors.pubsub.relay import TopicRelay

    return TopicRelay(options, options.dead_letter)


def sender(options: PubSubOptions) -> Sender:
    """For `headrace send`. (There is no `tail`: to look at messages is to take them.)"""
    from connectors.pubsub.people import TopicSender

    return TopicSender(options)


def _producer(options: PubSubOptions) -> Producer:
    return build(options)


KIND = StreamKind(
    options=PubSubOptions,
    build=_producer,
    source=source,
    check=check,
    examine=examine,
    relay=relay,
    sender=sender,
    bounds=Bounds(max_outstanding=2000, max_advancing=64, advance_max=1000),
)
