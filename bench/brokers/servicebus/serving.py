"""Which Service Bus serves: one that was given, our emulator, or Microsoft's emulator in containers.

Unlike the other brokers, containers come last: Microsoft's emulator can be broken in no way and makes no entities while
it runs, so most tests can't use it; HEADRACE_BROKERS=containers asks for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from bench.brokers.endpoint import BrokerEndpoint, Source, Unavailable, sources
from bench.brokers.processes import answers
from bench.brokers.servicebus.control import Control
from bench.brokers.servicebus.emulated import Emulated

if TYPE_CHECKING:
    from bench.brokers.servicebus.container import ServiceBusInContainer

GIVEN = "HEADRACE_SERVICEBUS"
ORDER: tuple[Source, ...] = ("given", "local", "containers")
TLS_PORT = 5671
PLAIN_PORT = 5672


class ServiceBus(Protocol):
    """`control` is there for our emulator alone. The connection string is a secret unless it is that of an emulator."""

    @property
    def connection_string(self) -> str: ...

    @property
    def endpoint(self) -> BrokerEndpoint: ...

    @property
    def control(self) -> Control | None: ...

    def close(self) -> None: ...


class Given:
    """A real namespace, or somebody's emulator."""

    control = None

    def __init__(self, connection_string: str) -> None:
        self.connection_string = connection_string
        self.endpoint = BrokerEndpoint("servicebus", "given", _host(connection_string), f"what {GIVEN} names")

    def close(self) -> None:
        """It was here before us, and stays."""


class Served(Struct, frozen=True):
    """A Service Bus, and for each source that was tried before, why it does not serve."""

    broker: ServiceBus
    passed_over: dict[Source, str]


def serve_servicebus(folder: Path, port: int | None = None) -> Served:
    """`port` for our emulator; by default a free one. Raises Unavailable with all reasons where no source can serve."""
    starts: dict[Source, Callable[[], ServiceBus]] = {
        "given": _given,
        "local": lambda: _local(folder / "emulator", port),
        "containers": lambda: _contained(folder / "container"),
    }
    wanted, reasons = sources(), dict[Source, str]()
    for source in ORDER:
        if source not in wanted:
            continue
        try:
            return Served(starts[source](), reasons)
        except Unavailable as error:
            reasons[source] = str(error)
    raise Unavailable("no Service Bus: " + "; ".join(f"{source}: {why}" for source, why in reasons.items()))


def _given() -> ServiceBus:
    connection_string = os.environ.get(GIVEN)
    if not connection_string:
        raise Unavailable(f"{GIVEN} is not set")
    host = _host(connection_string)
    name, _, port = host.partition(":")
    is_emulator = "usedevelopmentemulator=true" in connection_string.lower().replace(" ", "")
    number = int(port) if port.isdigit() else PLAIN_PORT if is_emulator else TLS_PORT
    if not host or not answers(name, number):
        raise Unavailable(
            f"{GIVEN} names {host or 'no Endpoint'!r}, and nothing answers there on port {number}; it should be a "
            "connection string: Endpoint=sb://...;SharedAccessKeyName=...;SharedAccessKey=..."
        )
    return Given(connection_string)


def _host(connection_string: str) -> str:
    """With the port if there is one; empty if there is no endpoint. The only part of it that may be shown."""
    for part in connection_string.split(";"):
        name, _, value = part.partition("=")
        if name.strip().lower() == "endpoint":
            return value.strip().partition("://")[2].strip("/")
    return ""


def _local(folder: Path, port: int | None) -> ServiceBus:
    emulator = Emulated(folder, port)
    emulator.start()
    return emulator


def _contained(folder: Path) -> ServiceBus:
    container = servicebus_in_container(folder)
    container.start()
    return container


def servicebus_in_container(folder: Path) -> ServiceBusInContainer:
    """Not started. Raises Unavailable where there is no engine or no Testcontainers."""
    try:
        from bench.brokers.servicebus.container import ServiceBusInContainer  # half a second, and an optional package
    except ImportError as error:
        raise Unavailable(f"Testcontainers is not installed: {error}") from error
    return ServiceBusInContainer(folder)
