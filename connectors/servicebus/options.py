"""What a user writes for a stream of kind `servicebus`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from bridge.core.units import Duration

Text = Annotated[str, Meta(min_length=1)]
Positive = Annotated[Duration, Meta(gt=0)]

LEASE: Final = 30.0
"""Seconds, where `lock_duration` is not given. Locks are renewed when a third of it is over, so that it does for every
entity whose lock lasts 15 s or more; the service's own default is a minute.
"""
LONGEST_LOCK: Final = 300.0
"""Seconds: the longest lock that an entity can have (learn.microsoft.com, "Service Bus quotas")."""


class ServiceBusOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`queue`, or `topic` and `subscription`; `subqueue: dead_letter` reads the dead letters of either.

    Who we are: a `connection_string`, or the fully qualified `namespace` (orders.servicebus.windows.net), for which
    azure-identity finds credentials. `sessions`: the entity requires sessions; each is a lane, `max_sessions` are held
    at once, and one that has been empty for `session_idle` makes room. `lock_duration` is what the entity has.
    `receivers` connections read a queue without sessions, each asks for at most `max_messages` at once.
    """

    queue: Text | None = None
    topic: Text | None = None
    subscription: Text | None = None
    subqueue: Literal["dead_letter"] | None = None
    connection_string: Text | None = None
    namespace: Text | None = None
    transport: Literal["amqp", "websockets"] = "amqp"
    sessions: bool = False
    max_sessions: Annotated[int, Meta(ge=1, le=200)] = 8
    session_idle: Positive = 5.0
    lock_duration: Positive | None = None
    receivers: Annotated[int, Meta(ge=1, le=32)] = 1
    max_messages: Annotated[int, Meta(ge=1, le=2000)] = 100
    open_timeout: Positive = 30.0
    request_timeout: Positive = 10.0

    def __repr__(self) -> str:
        return "ServiceBusOptions(…)"  # may hold a key

    @property
    def lease(self) -> float:
        """Seconds for which messages are lent."""
        return self.lock_duration or LEASE


def check(options: ServiceBusOptions) -> Sequence[str]:
    """Start-up problems, as sentences; connects to nothing."""
    from connectors.servicebus.check import problems_of  # which needs the options

    return problems_of(options)
