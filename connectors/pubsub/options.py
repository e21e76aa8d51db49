"""What a user writes for a stream of kind `pubsub`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from bridge.core.units import Duration, Size

Text = Annotated[str, Meta(min_length=1)]
FilePath = Annotated[str, Meta(min_length=1, extra={"is_path": True}, description="the path of a file")]
"""A relative one begins at the folder of the YAML file that it stands in."""
Positive = Annotated[Duration, Meta(gt=0)]

LEASE_LEAST: Final = 10.0
LEASE_MOST: Final = 600.0
"""Seconds that a stream may lend messages for. Limits of Pub/Sub."""
GOOGLE: Final = "pubsub.googleapis.com:443"
SECURE: Final = "https://"


class DeadLetterTopic(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The topic that dead letters are copied to: a whole name (`projects/P/topics/T`), or one in the stream's project.

    `ordered` sends each copy with the ordering key of its message.
    """

    topic: Text
    ordered: bool = False


class PubSubOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`subscription` is a whole name (`projects/P/subscriptions/S`), or one in `project`.

    `endpoint` is by default Google's. `host:port` is an emulator: nothing is encrypted, and no credentials are sent;
    `https://host[:port]` is a regional or private endpoint of Google's, `ca_file` its certificates where the usual ones
    don't do. Credentials are Google's own default (environment, workload identity, metadata server), or those of a
    service account in `credentials_file`.

    `ack_deadline` is how long a message is lent: it is renewed until it is settled. `streams` is how many streaming
    pulls are open at once, `max_bytes` how much the service sends before it is acked. What a watcher failed
    (`retry: broker`) comes again after `retry_delay`, four times as long each time, `retry_delay_max` at most. A stream
    on which nothing came for `stalled_after` is opened again.
    """

    subscription: Text
    project: Text | None = None
    endpoint: Text | None = None
    ca_file: FilePath | None = None
    credentials_file: FilePath | None = None
    ack_deadline: Annotated[Duration, Meta(ge=LEASE_LEAST, le=LEASE_MOST)] = 60.0
    streams: Annotated[int, Meta(ge=1, le=16)] = 1
    max_bytes: Annotated[Size, Meta(ge=1024)] = 64 * 1024 * 1024
    retry_delay: Annotated[Duration, Meta(ge=1.0, le=LEASE_MOST)] = 30.0
    retry_delay_max: Annotated[Duration, Meta(ge=1.0, le=LEASE_MOST)] = LEASE_MOST
    stalled_after: Annotated[Duration, Meta(ge=1.0)] = 120.0
    request_timeout: Positive = 10.0
    dead_letter: DeadLetterTopic | None = None


def subscription_of(options: PubSubOptions) -> str:
    """`projects/P/subscriptions/S`"""
    return _whole(options.subscription, "subscriptions", options.project)


def topic_of(options: PubSubOptions, place: DeadLetterTopic) -> str:
    """`projects/P/topics/T`, in the project of the subscription where the name has none."""
    return _whole(place.topic, "topics", project_of(options))


def project_of(options: PubSubOptions) -> str:
    """The project of the subscription; empty where none is named."""
    parts = subscription_of(options).split("/")
    return parts[1] if len(parts) > 1 else ""


def _whole(name: str, kind: str, project: str | None) -> str:
    return name if "/" in name or not project else f"projects/{project}/{kind}/{name}"


def is_plain(options: PubSubOptions) -> bool:
    """Whether `endpoint` is an emulator's: without encryption and credentials."""
    return options.endpoint is not None and not options.endpoint.startswith(SECURE)


def target_of(options: PubSubOptions) -> str:
    """`host:port` to connect to."""
    if options.endpoint is None:
        return GOOGLE
    host = options.endpoint.removeprefix(SECURE).rstrip("/")
    return host if is_plain(options) or ":" in host.rpartition("]")[2] else f"{host}:443"


def check(options: PubSubOptions) -> Sequence[str]:
    """Start-up problems, as sentences; connects to nothing."""
    from connectors.pubsub.check import problems_of  # which needs the options

    return problems_of(options)
