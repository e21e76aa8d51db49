"""Messages of SQS as payloads and polls, and what is known of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bridge.core.model import UNORDERED, Lent, Meta, Poll, Slice

TYPES: Final = "headrace-types"
"""A header of ours: the types of attributes that are no plain `String`, as `name=Number,other=Binary.png`."""
SYSTEM: Final = ("MessageDeduplicationId", "AWSTraceHeader", "DeadLetterQueueSourceArn")
"""What SQS itself knows of a message and people may ask for, as headers."""

_NOTHING: Final[Mapping[str, Any]] = {}
FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Headers = tuple[tuple[str, bytes | None], ...]


class Message(Lent, eq=False, kw_only=True):
    """One message. `key` is its id, `handle` its newest receipt handle. `attributes` and `system` are as they came.

    `is_asked`: a call that settles it waits or is under way, and `ticket` is told of it. `is_done`: SQS has confirmed.
    `tries` counts calls that failed. `wait` is the visibility timeout that it gets where it is handed back.
    """

    system: Mapping[str, str]
    attributes: Mapping[str, Any]
    is_asked: bool = False
    is_done: bool = False
    tries: int = 0
    wait: int = 0
    ticket: Any = None


def message_of(received: Mapping[str, Any]) -> Message:
    """Its handle and its id are kept before anything is read of it (B36)."""
    system = received.get("Attributes") or _NOTHING
    count = system.get("ApproximateReceiveCount")
    return Message(
        key=received["MessageId"],
        handle=received["ReceiptHandle"],
        deliveries=int(count) if count is not None and count.isdecimal() else None,
        system=system,
        attributes=received.get("MessageAttributes") or _NOTHING,
    )


def body_of(received: Mapping[str, Any]) -> bytes:
    """Its bytes. What is no text in any encoding (half a character) stays visible as bytes that are no UTF-8."""
    body: str = received.get("Body") or ""
    return body.encode("utf-8", "surrogatepass")


def poll_of(received: Sequence[Mapping[str, Any]], at: float, *, is_fifo: bool) -> Poll:
    """`at`: when the first of them came, in monotonic seconds. In order; on FIFO queues cut by message group."""
    if not is_fifo:
        whole = [Slice(UNORDERED, 0, len(received))]
        return Poll(whole, [body_of(each) for each in received], [message_of(each) for each in received], at)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for each in received:
        groups.setdefault((each.get("Attributes") or _NOTHING).get("MessageGroupId", ""), []).append(each)
    poll = Poll([], [], [], at)
    for group, members in groups.items():
        start = len(poll.bodies)
        poll.bodies += map(body_of, members)
        poll.payloads += map(message_of, members)
        poll.slices.append(Slice(group, start, len(poll.bodies)))
    return poll


# What is known of it -------------------------------------------------------------------------------------------------


def meta_of(message: Message) -> Meta:
    system = message.system
    sent = system.get("SentTimestamp", "")
    group = system.get("MessageGroupId")
    return Meta(
        position=message.key,
        timestamp=int(sent) / 1000 if sent.isdecimal() else None,
        key=None if group is None else group.encode(),
        headers=headers_of(message),
        lane=group or "",
        message_id=message.key,
        delivery_attempt=message.deliveries,
    )


def headers_of(message: Message) -> Headers:
    """The attributes, behind what SQS itself says."""
    known = [(name, message.system[name].encode()) for name in SYSTEM if name in message.system]
    declared = message.attributes
    types = ",".join(
        f"{name}={value.get('DataType')}" for name, value in declared.items() if value.get("DataType") != "String"
    )
    if types:
        known.append((TYPES, types.encode()))
    return (*known, *((name, _value_of(value)) for name, value in declared.items()))


def _value_of(declared: Mapping[str, Any]) -> bytes:
    """A number keeps its digits: it is what was sent."""
    binary = declared.get("BinaryValue")
    if binary is not None:
        return bytes(binary)
    return str(declared.get("StringValue") or "").encode("utf-8", "surrogatepass")


def text_of(body: bytes) -> str | None:
    """As a text that SQS takes; None where it is none, or holds characters that SQS refuses."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if text and FORBIDDEN.search(text) is None else None
