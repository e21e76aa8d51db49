"""The stream kind `kafka`: topics, read as a member of a consumer group.

options      what a user writes            security, codecs   how the client gets in and what it can read
start        where reading begins          membership         the partitions that are ours, and rebalances
producer     polls and settles             lanes, gaps        what offsets mean (pure)
passing      goes on behind a gap
relay        dead letters to a topic       examine, people    `validate --connect`, `send` and `tail`
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from bridge.ports import Finding, Seen, Sender, StreamKind
from connectors.kafka.options import KafkaOptions, check
from connectors.kafka.producer import KafkaProducer
from connectors.kafka.relay import relay_of

__all__ = ["KIND", "KafkaOptions", "KafkaProducer"]


def source(options: KafkaOptions) -> str:
    """The cluster. Topics are a part of a record's identity, so that adding one changes no run key."""
    return f"kafka:{options.cluster or ','.join(sorted(options.bootstrap_servers))}"


def share(options: KafkaOptions) -> str:
    """Two streams in one consumer group would take each other's partitions away."""
    return f"{source(options)} group {options.group_id}"


async def examine(options: KafkaOptions) -> Sequence[Finding]:
    """What `validate --connect` finds at the cluster."""
    from connectors.kafka.examine import examine as look  # these three are for people: a bridge that runs needs none

    return await look(options)


def sender(options: KafkaOptions) -> Sender:
    """For `headrace send`."""
    from connectors.kafka.people import sender as made

    return made(options)


def tail(options: KafkaOptions, last: int) -> AsyncIterator[Seen]:
    """For `headrace tail`."""
    from connectors.kafka.people import tail as shown

    return shown(options, last)


KIND = StreamKind(
    options=KafkaOptions,
    build=KafkaProducer,
    source=source,
    check=check,
    share=share,
    examine=examine,
    relay=relay_of,
    sender=sender,
    tail=tail,
)
