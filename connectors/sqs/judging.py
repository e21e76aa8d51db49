"""What the attributes of queues say, as findings. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from bridge.core.units import format_duration
from bridge.ports import Finding
from connectors.sqs.options import SqsOptions
from connectors.sqs.places import Queue

Attributes = Mapping[str, str]

IN_FLIGHT_MOST: Final = 120_000
IN_FLIGHT_MOST_FIFO: Final = 20_000
_NEARLY: Final = 0.8
_TRIES: Final = 5
"""The default of a watcher's `max_attempts`."""
_SHORT_RETENTION: Final = 24 * 3600
_HANDS_BACK: Final = "`retry: {mode: broker}`"


def error(message: str, hint: str = "") -> Finding:
    return Finding("error", message, hint)


def warning(message: str, hint: str = "") -> Finding:
    return Finding("warning", message, hint)


def of_queue(queue: Queue, attributes: Attributes, options: SqsOptions) -> Iterator[Finding]:
    """The queue that is read."""
    yield from _redrive(queue, attributes)
    retention = _number(attributes, "MessageRetentionPeriod")
    if retention is not None and retention < _SHORT_RETENTION:
        yield warning(
            f"queue {queue.name!r} keeps messages for {format_duration(float(retention))} only: what is not read by "
            "then is gone, and nobody is told",
            "raise its MessageRetentionPeriod above the longest time that the bridge may be stopped",
        )
    most = IN_FLIGHT_MOST_FIFO if queue.is_fifo else IN_FLIGHT_MOST
    lent = _number(attributes, "ApproximateNumberOfMessagesNotVisible")
    if lent is not None and lent > most * _NEARLY:
        yield warning(
            f"{lent} messages of queue {queue.name!r} are lent, and SQS lends {most} at once",
            "other consumers hold them: look for one that does not delete",
        )
    if key := attributes.get("KmsMasterKeyId"):
        yield warning(
            f"queue {queue.name!r} is encrypted with KMS key {key}: whether we may use it shows with the first message",
            "the identity of this stream needs kms:Decrypt on it",
        )


def _redrive(queue: Queue, attributes: Attributes) -> Iterator[Finding]:
    policy = _policy(attributes)
    count = policy.get("maxReceiveCount")
    try:
        most = int(count) if count is not None else None
    except (TypeError, ValueError):
        most = None
    if most is not None and most <= _TRIES:
        yield warning(
            f"queue {queue.name!r} moves a message away after {most} receives, and each restart of the bridge counts "
            "as one",
            f"raise maxReceiveCount: with {_HANDS_BACK} above the `max_attempts` of every watcher ({_TRIES} by "
            "default), since each try is a receive",
        )


def _policy(attributes: Attributes) -> Mapping[str, Any]:
    try:
        policy = msgspec.json.decode(attributes.get("RedrivePolicy") or "{}")
    except msgspec.DecodeError:
        return {}
    return policy if isinstance(policy, dict) else {}


def of_dead_letters(queue: Queue, attributes: Attributes) -> Iterator[Finding]:
    """The queue that dead letters are copied to."""
    if key := attributes.get("KmsMasterKeyId"):
        yield warning(
            f"the dead-letter queue {queue.name!r} is encrypted with KMS key {key}: whether we may use it shows with "
            "the first dead letter",
            "the identity of this stream needs kms:GenerateDataKey and kms:Decrypt on it",
        )


def of_missing(queue: Queue, key: str, others: Iterable[str], where: str) -> Finding:
    near = difflib.get_close_matches(queue.name, list(others), n=3, cutoff=0.6)
    hint = (
        f"did you mean {' or '.join(map(repr, near))}?" if near else "create it, or correct its name, account or region"
    )
    return error(f"`{key}`: there is no queue {queue.name!r} {where} that we may see", hint)


def _number(attributes: Attributes, name: str) -> int | None:
    said = attributes.get(name, "")
    return int(said) if said.isdecimal() else None
