"""What can be found wrong with the options of a stream before anything is connected to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from bridge.core.units import format_duration
from connectors.sqs.options import SqsOptions
from connectors.sqs.places import Queue, queue_of

VISIBILITY_MOST: Final = 12 * 3600.0
"""Seconds from a receive, however often it is renewed. A limit of SQS."""
VISIBILITY_LEAST: Final = 2.0
WAIT_MOST: Final = 20.0
_REGION: Final = re.compile(r"[a-z]{2,}(?:-[a-z0-9]+)+")
_ROLE: Final = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/.+")


def problems_of(options: SqsOptions) -> Sequence[str]:
    """Start-up problems, as sentences."""
    return [*_queues(options), *_endpoint(options), *_times(options), *_identity(options)]


def _queues(options: SqsOptions) -> Iterator[str]:
    queue, problem = _read(options.queue)
    if problem:
        yield f"`queue`: {problem}"
    if queue is not None:
        yield from _region(queue, options, "queue")
    if options.dead_letter is None:
        return
    place, problem = _read(options.dead_letter.queue)
    if problem:
        yield f"`dead_letter.queue`: {problem}"
    if place is None or queue is None:
        return
    yield from _region(place, options, "dead_letter.queue")
    if place.name == queue.name and place.account in (queue.account, None):
        yield (
            f"`dead_letter.queue` {options.dead_letter.queue!r} is the queue that this stream reads: its dead letters "
            "would come round again; name another"
        )
    elif place.is_fifo != queue.is_fifo:
        is_one, other = ("FIFO", "standard") if place.is_fifo else ("standard", "FIFO")
        yield (
            f"`dead_letter.queue` {options.dead_letter.queue!r} is a {is_one} queue and `queue` a {other} one: SQS "
            f"could not move messages back from it; name a {other} queue"
        )
    if place.region and queue.region and place.region != queue.region:
        yield (
            f"`dead_letter.queue` is in region {place.region!r} and `queue` in {queue.region!r}: a stream talks to one "
            "region; name a queue there"
        )


def _read(written: str) -> tuple[Queue | None, str]:
    try:
        return queue_of(written), ""
    except ValueError as error:
        return None, str(error)


def _region(queue: Queue, options: SqsOptions, key: str) -> Iterator[str]:
    if queue.region and options.region and queue.region != options.region:
        yield f"`region` {options.region!r} is not that of `{key}`, {queue.region!r}: leave `region` out"


def _endpoint(options: SqsOptions) -> Iterator[str]:
    if options.region is not None and _REGION.fullmatch(options.region) is None:
        yield f"`region` {options.region!r} can't be one: write it like eu-west-1"
    if options.endpoint is not None:
        parts = urlsplit(options.endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            yield f"`endpoint` {options.endpoint!r} is no URL: write it like http://127.0.0.1:4566"
        return
    queue, _ = _read(options.queue)
    if queue is not None and not queue.is_aws and queue.url is not None:
        parts = urlsplit(queue.url)
        yield (
            f"`queue` {queue.url!r} is not at a host of AWS: if an emulator or a private endpoint is meant, say so "
            f"with `endpoint: {parts.scheme}://{parts.netloc}`"
        )


def _times(options: SqsOptions) -> Iterator[str]:
    visibility, wait = options.visibility_timeout, options.wait_time
    if not VISIBILITY_LEAST <= visibility <= VISIBILITY_MOST:
        yield (
            f"`visibility_timeout` {format_duration(visibility)} is not between {format_duration(VISIBILITY_LEAST)} "
            f"and {format_duration(VISIBILITY_MOST)}: renewals keep a message longer, so 30s to 5m do for any work"
        )
    elif visibility != int(visibility):
        yield f"`visibility_timeout` {format_duration(visibility)}: SQS takes whole seconds; round it"
    if not 1 <= wait <= WAIT_MOST or wait != int(wait):
        yield f"`wait_time` {format_duration(wait)}: SQS takes whole seconds, 1s to {format_duration(WAIT_MOST)}"


def _identity(options: SqsOptions) -> Iterator[str]:
    if options.profile is not None and options.credentials is not None:
        yield "`profile` and `credentials` are both there: they are two answers to who we are; write one"
    if options.role_arn is not None and _ROLE.fullmatch(options.role_arn) is None:
        yield f"`role_arn` {options.role_arn!r} is no ARN of a role: write arn:aws:iam::ACCOUNT:role/NAME"
    if options.external_id is not None and options.role_arn is None:
        yield "`external_id` without `role_arn`: it belongs to a role that is taken on; write both"
