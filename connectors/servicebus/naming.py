"""What things are called: the namespace, the entity, and the stream's source."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from connectors.servicebus.options import ServiceBusOptions


class Parts(NamedTuple):
    """What a connection string says, without its secrets. `host` may have a port; `entity` is its EntityPath."""

    host: str
    entity: str
    is_emulator: bool


def parts_of(connection_string: str) -> Parts:
    """Raises ValueError, with a sentence that quotes nothing of it, where it is not one."""
    pairs = [part.partition("=") for part in connection_string.strip().rstrip(";").split(";")]
    if not all(sign for _, sign, _ in pairs):
        raise ValueError("it is not made of Name=value parts with `;` in between")
    found = {name.strip().lower(): value.strip() for name, _, value in pairs}
    host = urlsplit(found.get("endpoint", "")).netloc
    if not host:
        raise ValueError("it has no Endpoint=sb://<namespace>.servicebus.windows.net/")
    if not ("sharedaccesskeyname" in found and "sharedaccesskey" in found) and "sharedaccesssignature" not in found:
        raise ValueError("it has neither SharedAccessKeyName and SharedAccessKey nor SharedAccessSignature")
    return Parts(host.lower(), found.get("entitypath", ""), found.get("usedevelopmentemulator") == "true")


def host_of(options: ServiceBusOptions) -> str:
    """The namespace's host; with a port where that is written. Empty where the options name none (`check` says so)."""
    if options.connection_string is not None:
        try:
            return parts_of(options.connection_string).host
        except ValueError:
            return ""
    return (options.namespace or "").lower()


def entity_of(options: ServiceBusOptions) -> str:
    """`orders`, `events/Subscriptions/billing`, `orders/$DeadLetterQueue`: how the service names it."""
    path = options.queue or f"{options.topic}/Subscriptions/{options.subscription}"
    return f"{path}/$DeadLetterQueue" if options.subqueue == "dead_letter" else path


def source_of(options: ServiceBusOptions) -> str:
    """The part of run keys that says where messages are from. Names of entities count in any case."""
    return f"servicebus:{host_of(options)}/{entity_of(options).lower()}"
