"""What the settings of a subscription mean for a stream: findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bridge.core.units import format_duration
from bridge.ports import Finding
from connectors.pubsub.options import PubSubOptions, topic_of
from connectors.pubsub.people import DELETED

_DAY: Final = 86_400
_EXACTLY_ONCE_LEAST: Final = 60.0
"""Seconds: what Google's own clients lend for at least where a subscription delivers exactly once."""


def error(message: str, hint: str = "") -> Finding:
    return Finding("error", message, hint)


def warning(message: str, hint: str = "") -> Finding:
    return Finding("warning", message, hint)


def of_subscription(described: Any, options: PubSubOptions) -> Iterator[Finding]:
    """`described` is a protobuf `Subscription`."""
    yield from _of_delivery(described)
    yield from _of_dead_letters(described, options)
    yield from _of_time(described, options)
    if described.filter:
        yield warning(
            f"the subscription has a filter, {described.filter[:200]!r}: what does not pass it is never seen here",
            "watchers may filter as well; a subscription's filter can't be changed",
        )


def _of_delivery(described: Any) -> Iterator[Finding]:
    if described.detached:
        yield error("the subscription is detached from its topic: nothing comes any more", "create a new one")
    for kind in ("bigquery_config", "cloud_storage_config", "bigtable_config"):
        if kind in described.DESCRIPTOR.fields_by_name and described.HasField(kind):
            yield error(
                f"the subscription writes to elsewhere ({kind}): it can't be pulled", "create one that is pulled"
            )
    if described.push_config.push_endpoint:
        yield error(
            f"the subscription pushes to {described.push_config.push_endpoint}: it can't be pulled",
            "create one that is pulled, or clear its endpoint (gcloud pubsub subscriptions modify-push-config)",
        )
    if described.topic == DELETED:
        yield error("the topic of the subscription was deleted: nothing comes any more", "create both anew")


def _of_dead_letters(described: Any, options: PubSubOptions) -> Iterator[Finding]:
    if options.dead_letter is not None and topic_of(options, options.dead_letter) == described.topic:
        yield error(
            f"`dead_letter.topic` {described.topic} is the topic of the subscription: every dead letter comes again",
            "name another topic",
        )
    policy = described.dead_letter_policy
    if not policy.dead_letter_topic:
        return
    most = policy.max_delivery_attempts or 5
    yield warning(
        f"after {most} deliveries the service itself moves a message to {policy.dead_letter_topic}, whether or not it "
        "was good: each release counts, and each lease that runs out",
        "raise max-delivery-attempts (100 is the most), or take the policy away: a stream has dead letters of its own",
    )


def _of_time(described: Any, options: PubSubOptions) -> Iterator[Finding]:
    retention = described.message_retention_duration.seconds
    if 0 < retention < _DAY:
        yield warning(
            f"the subscription keeps messages for {format_duration(retention)}: what is not read by then is lost",
            "raise message-retention-duration (7d is usual)",
        )
    ttl = described.expiration_policy.ttl.seconds if described.HasField("expiration_policy") else 0
    if ttl:
        yield warning(
            f"the subscription is deleted, with its messages, when nobody has read it for {format_duration(ttl)}",
            "set its expiration to never (gcloud pubsub subscriptions update --expiration-period=never)",
        )
    if described.enable_exactly_once_delivery and options.ack_deadline < _EXACTLY_ONCE_LEAST:
        yield warning(
            f"the subscription delivers exactly once, and `ack_deadline` is {format_duration(options.ack_deadline)}",
            f"{format_duration(_EXACTLY_ONCE_LEAST)} or more: acks take longer there, and late ones are refused",
        )
    if described.enable_message_ordering and options.streams > 1:
        yield warning(
            f"the subscription keeps an order, and `streams` is {options.streams}: when a key changes from one stream "
            "to another, messages of it can come out of order",
            "`streams: 1`",
        )
