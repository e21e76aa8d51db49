"""What can be found wrong with the options of a stream before anything is connected to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Final

from bridge.core.units import format_duration
from connectors.servicebus.naming import parts_of
from connectors.servicebus.options import LONGEST_LOCK, ServiceBusOptions

_ENTITY: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/~-]{0,258}[A-Za-z0-9])?")
_SUBSCRIPTION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,48}[A-Za-z0-9])?")
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)+")
_SHORTEST_LOCK: Final = 5.0
"""Seconds: the shortest lock that an entity can have."""


def problems_of(options: ServiceBusOptions) -> Sequence[str]:
    """Start-up problems, as sentences. None of them quotes a connection string."""
    return [*_entity(options), *_credentials(options), *_times(options), *_numbers(options), *_packages(options)]


def _entity(options: ServiceBusOptions) -> Iterator[str]:
    if (options.queue is None) == (options.topic is None):
        what = "there is neither" if options.queue is None else "both are there"
        yield f"a stream reads a `queue`, or a `topic` by its `subscription`, and {what}: write one of them"
    if options.topic is not None and options.subscription is None:
        yield f"`topic` {options.topic!r} is read by a subscription of it: name it with `subscription`"
    if options.subscription is not None and options.topic is None:
        yield f"`subscription` {options.subscription!r} belongs to a topic: name it with `topic`"
    for key, name in (("queue", options.queue), ("topic", options.topic)):
        if name is not None and name.lower().endswith("/$deadletterqueue"):
            yield f"`{key}` {name!r}: write its dead letters as `subqueue: dead_letter`, beside the plain name"
        elif name is not None and not _ENTITY.fullmatch(name):
            yield f"`{key}` {name!r} can't be a name: letters, digits, '.', '_', '-', '~' and '/', 260 at most"
    if options.subscription is not None and not _SUBSCRIPTION.fullmatch(options.subscription):
        yield f"`subscription` {options.subscription!r} can't be a name: letters, digits, '.', '_' and '-', 50 at most"


def _credentials(options: ServiceBusOptions) -> Iterator[str]:
    if (options.connection_string is None) == (options.namespace is None):
        what = "there is neither" if options.namespace is None else "both are there"
        yield f"a stream needs a `connection_string`, or a `namespace` and credentials, and {what}: write one of them"
    if options.connection_string is not None:
        yield from _connection_string(options, options.connection_string)
    elif options.namespace is not None and not _NAMESPACE.fullmatch(options.namespace):
        yield (
            f"`namespace` {options.namespace!r} is no fully qualified name: write it like "
            "orders.servicebus.windows.net, without sb:// and port"
        )


def _connection_string(options: ServiceBusOptions, text: str) -> Iterator[str]:
    try:
        entity = parts_of(text).entity
    except ValueError as error:
        yield f"`connection_string` can't be used: {error}; copy it whole from the shared access policy"
        return
    wanted = options.queue or options.topic
    if entity and wanted is not None and entity.lower() != wanted.lower():
        yield (
            f"`connection_string` is for {entity!r} alone (its EntityPath), and the stream reads {wanted!r}: take the "
            "policy of that one, or of the namespace"
        )


def _times(options: ServiceBusOptions) -> Iterator[str]:
    lock = options.lock_duration
    if lock is not None and not _SHORTEST_LOCK <= lock <= LONGEST_LOCK:
        yield (
            f"`lock_duration` {format_duration(lock)} can't be: an entity's lock lasts "
            f"{format_duration(_SHORTEST_LOCK)} to {format_duration(LONGEST_LOCK)}. Write what the entity has"
        )


def _numbers(options: ServiceBusOptions) -> Iterator[str]:
    if options.sessions and options.receivers > 1:
        yield "`receivers` is for entities without sessions: with `sessions: true` say `max_sessions`"
    if options.sessions and options.subqueue is not None:
        yield "dead letters have no sessions, whatever the entity has: leave out `sessions`"


def _packages(options: ServiceBusOptions) -> Iterator[str]:
    needed = {"azure.servicebus": "azure-servicebus"}
    if options.namespace is not None:
        needed |= {"azure.identity": "azure-identity", "aiohttp": "aiohttp"}
    if options.transport == "websockets":
        needed["aiohttp"] = "aiohttp"
    for module, package in needed.items():
        if not _is_installed(module):
            yield f"the package {package!r} is missing: pip install {package}"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
