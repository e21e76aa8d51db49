"""What the settings of an entity mean for a stream. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from msgspec import Struct

from bridge.core.units import format_duration
from bridge.ports import Finding
from connectors.servicebus.naming import entity_of
from connectors.servicebus.options import ServiceBusOptions

_FEW_DELIVERIES: Final = 5


class Settings(Struct, frozen=True):
    """As the administration of the namespace tells them; None where it tells nothing."""

    lock_duration: timedelta | None = None
    requires_session: bool | None = None
    max_delivery_count: int | None = None
    status: str | None = None
    forwards_to: str | None = None


def error(message: str, hint: str = "") -> Finding:
    return Finding("error", message, hint)


def warning(message: str, hint: str = "") -> Finding:
    return Finding("warning", message, hint)


def judged(settings: Settings, options: ServiceBusOptions) -> Iterator[Finding]:
    entity = entity_of(options)
    if settings.lock_duration is not None:
        yield from _lock(settings.lock_duration.total_seconds(), entity, options)
    if options.subqueue is None and settings.requires_session is not None:
        if settings.requires_session and not options.sessions:
            yield error(f"{entity} requires sessions", "set `sessions: true`")
        elif options.sessions and not settings.requires_session:
            yield error(f"{entity} does not require sessions, and the stream has `sessions: true`", "leave it out")
    if settings.max_delivery_count is not None and settings.max_delivery_count < _FEW_DELIVERIES:
        yield warning(
            f"{entity} dead-letters a message after {settings.max_delivery_count} deliveries (max delivery count): a "
            "crash of the bridge, or `retry: {mode: broker}`, spends them",
            "raise it to 10 or more",
        )
    if settings.status is not None and settings.status.lower() in ("disabled", "receivedisabled"):
        yield error(f"{entity} is {settings.status}: nothing can be received", "enable it")
    if settings.forwards_to:
        yield error(f"{entity} forwards all messages to {settings.forwards_to!r}: none stays", "read that one instead")


def _lock(seconds: float, entity: str, options: ServiceBusOptions) -> Iterator[Finding]:
    given = options.lock_duration
    if given is not None and abs(seconds - given) > 1:
        yield error(
            f"a lock of {entity} lasts {format_duration(seconds)}, and `lock_duration` says {format_duration(given)}",
            f"set `lock_duration: {format_duration(seconds)}`",
        )
    elif given is None and seconds < options.lease / 2:
        yield error(
            f"a lock of {entity} lasts {format_duration(seconds)}, less than is safe without `lock_duration`",
            f"set `lock_duration: {format_duration(seconds)}`",
        )
