"""What a user writes for a stream of kind `sqs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Meta, Struct

from bridge.core.units import Duration

Text = Annotated[str, Meta(min_length=1)]
RECEIVE_MOST: Final = 10
"""Messages in one receive, entries in one batch. A limit of SQS."""


class Credentials(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keys that are written down, `session_token` with those that are temporary. Better is AWS's own chain."""

    access_key_id: Text
    secret_access_key: Text
    session_token: Text | None = None

    def __repr__(self) -> str:
        return "Credentials(…)"


class DeadLetterQueue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queue that dead letters are copied to: a URL, an ARN or a name, in the region of the stream."""

    queue: Text


class SqsOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`queue` is a URL, an ARN or a name. `region` is by default that of the URL or ARN, else AWS's own default.

    `endpoint` is for emulators and private endpoints. Credentials come from AWS's own chain (environment, profile, web
    identity, container, instance), or from `profile`, or from `credentials`; `role_arn` is a role to take on with them.
    `visibility_timeout` is how long a message is lent: it is renewed until it is settled. `wait_time` is that of a long
    poll, `receivers` how many of them run at once while messages flow.
    """

    queue: Text
    region: Text | None = None
    endpoint: Text | None = None
    profile: Text | None = None
    credentials: Credentials | None = None
    role_arn: Text | None = None
    external_id: Text | None = None
    visibility_timeout: Duration = 60.0
    wait_time: Duration = 10.0
    receivers: Annotated[int, Meta(ge=1, le=32)] = 3
    max_messages: Annotated[int, Meta(ge=1, le=RECEIVE_MOST)] = RECEIVE_MOST
    dead_letter: DeadLetterQueue | None = None

    def __repr__(self) -> str:
        return f"SqsOptions({self.queue!r}, …)"  # may hold keys


def check(options: SqsOptions) -> Sequence[str]:
    """Start-up problems, as sentences; connects to nothing."""
    from connectors.sqs.check import problems_of  # which needs the options

    return problems_of(options)
