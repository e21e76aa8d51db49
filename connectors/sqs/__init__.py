"""The stream kind `sqs`: a queue of Amazon SQS, standard or FIFO.

options, check, places    what a user writes         credentials, client, errors   how SQS is called
producer                  one life of the stream     receiving    long polls       messages   what came (pure)
settling                  deletes, ten in a call     renewing     leases           health, skew, depth   what people see
relay, letters            dead letters to a queue    examine, judging, people      `validate --connect`, `send`
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.ports import Bounds, Finding, Relay, Sender, StreamKind
from connectors.sqs.options import SqsOptions, check
from connectors.sqs.places import queue_of, source_of
from connectors.sqs.producer import SqsProducer

__all__ = ["KIND", "SqsOptions", "SqsProducer"]


def source(options: SqsOptions) -> str:
    """The queue as it was written: region, account and name, `-` for what was left out. A message's id is its own."""
    return source_of(options)


def share(options: SqsOptions) -> str:
    """Two streams on one queue would take each other's messages away."""
    return f"{source_of(options)} at {options.endpoint or 'AWS'}"


async def examine(options: SqsOptions) -> Sequence[Finding]:
    """What `validate --connect` finds at SQS."""
    from connectors.sqs.examine import examine as look  # these are for people: a bridge that runs needs none of them

    return await look(options)


def relay(options: SqsOptions) -> Relay | None:
    """Where dead letters are copied to; None where no queue is named."""
    from connectors.sqs.relay import relay_of

    return relay_of(options)


def sender(options: SqsOptions) -> Sender:
    """For `headrace send`."""
    from connectors.sqs.people import QueueSender

    return QueueSender(options)


def notes(options: SqsOptions) -> Sequence[str]:
    """What `headrace show` says of it."""
    if queue_of(options.queue).is_fifo:
        return ("a FIFO queue: each message group is a lane, in order",)
    return ("a standard queue: messages in any order",)


KIND = StreamKind(
    options=SqsOptions,
    build=SqsProducer,
    source=source,
    check=check,
    share=share,
    examine=examine,
    relay=relay,
    sender=sender,
    bounds=Bounds(max_outstanding=2000, max_advancing=64, advance_max=10),
    notes=notes,
)
