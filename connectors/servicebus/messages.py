"""What is handed to the runtime of a message: its payload, its names, and what people see of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from bridge.core.model import Lent, Meta
from connectors.servicebus.bodies import headers_of, name_of

if TYPE_CHECKING:
    from connectors.servicebus.link import Link
    from connectors.servicebus.session import Session

_SEQUENCE: Final = b"x-opt-sequence-number"
_ENQUEUED: Final = b"x-opt-enqueued-time"
_LOCKED: Final = b"x-opt-locked-until"


class Delivery(NamedTuple):
    """The handle of one delivery: the link that it came on, its number there, and its tag, which is the lock token."""

    link: Link
    id: int
    tag: bytes

    @property
    def token(self) -> UUID:
        """The tag is the token in the byte order of .NET (learn.microsoft.com, "AMQP 1.0 in Service Bus")."""
        return UUID(bytes_le=self.tag)


class Message(Lent, kw_only=True):
    """A payload; its key is its identity. Sequence numbers begin again when an entity is deleted and made again: the
    time tells those messages apart.

    `amqp` is the message as the client has decoded it, `enqueued` in ms since 1970 (0: not said).

    `session` is the one that it came in, with the `epoch` that it had then. `is_settled`: nothing is left to be done.
    """

    amqp: Any
    sequence: int
    enqueued: int
    session: Session | None = None
    epoch: int = 0
    is_settled: bool = False


def message_of(delivery: Delivery, amqp: Any, session: Session | None = None, epoch: int = 0) -> Message:
    """From a transfer. A first delivery may have no count at all."""
    annotations = amqp.message_annotations or {}
    sequence = annotations.get(_SEQUENCE) or 0
    enqueued = annotations.get(_ENQUEUED) or 0
    header = amqp.header
    count = header.delivery_count if header is not None else None
    return Message(
        f"{sequence}/{enqueued}",
        delivery,
        (count or 0) + 1,
        amqp=amqp,
        sequence=sequence,
        enqueued=enqueued,
        session=session,
        epoch=epoch,
    )


def locked_until(amqp: Any) -> int | None:
    """By the broker's clock, in ms since 1970. It is only ever shown: what counts is the clock of the lease."""
    annotations = amqp.message_annotations
    return annotations.get(_LOCKED) if annotations else None


def meta_of(message: Message) -> Meta:
    """What filters and dead letters see of it."""
    return described(message.amqp, message.sequence, message.enqueued, message.deliveries)


def described(amqp: Any, sequence: int, enqueued: int, deliveries: int | None) -> Meta:
    properties = amqp.properties
    session = name_of(properties.group_id) if properties is not None else ""
    return Meta(
        position=f"{session}@{sequence}" if session else str(sequence),
        timestamp=enqueued / 1000 if enqueued else None,
        headers=headers_of(properties, amqp.application_properties),
        lane=session,
        message_id=name_of(properties.message_id) if properties is not None else "",
        delivery_attempt=deliveries,
        tombstone=amqp.data is None and amqp.sequence is None and amqp.value is None,
    )


def sequence_of(amqp: Any) -> int:
    """0 where the broker says none."""
    annotations = amqp.message_annotations
    return (annotations.get(_SEQUENCE) or 0) if annotations else 0


def seen_of(amqp: Any) -> Meta:
    """The same for a message that was only looked at."""
    annotations = amqp.message_annotations or {}
    count = amqp.header.delivery_count if amqp.header is not None else None
    return described(amqp, annotations.get(_SEQUENCE) or 0, annotations.get(_ENQUEUED) or 0, (count or 0) + 1)
