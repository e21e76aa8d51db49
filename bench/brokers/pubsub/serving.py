"""Which Pub/Sub serves: one that was given, our fake, or Google's emulator in a container.

Containers come last, or where HEADRACE_BROKERS=containers asks for them: Google's emulator knows no filters, no
back-off and no flow control of a stream, delivers out of order after a nack, and can't be broken on request.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from bench.brokers.endpoint import BrokerEndpoint, Source, Unavailable, sources
from bench.brokers.processes import answers
from bench.brokers.pubsub.control import Control
from bench.brokers.pubsub.emulated import Emulated

GIVEN: Final = "HEADRACE_PUBSUB"
ORDER: Final[tuple[Source, ...]] = ("given", "local", "containers")


class PubSub(Protocol):
    """`address` is `host:port`, without encryption. `control` is there for our fake alone."""

    @property
    def address(self) -> str: ...
    @property
    def endpoint(self) -> BrokerEndpoint: ...
    @property
    def control(self) -> Control | None: ...
    def close(self) -> None: ...


class Given:
    """Somebody's emulator, from HEADRACE_PUBSUB."""

    control = None

    def __init__(self, address: str) -> None:
        self.address = address
        self.endpoint = BrokerEndpoint("pubsub", "given", address, f"what {GIVEN} names")

    def close(self) -> None:
        """It was here before us, and stays."""


class Served(Struct, frozen=True):
    """A Pub/Sub, and for each source that was tried before, why it does not serve."""

    broker: PubSub
    passed_over: dict[Source, str]


def serve_pubsub(folder: Path, port: int | None = None) -> Served:
    """`port` for one of ours; by default a free one. Raises Unavailable with all reasons where no source can serve."""
    starts: dict[Source, Callable[[], PubSub]] = {
        "given": _given,
        "local": lambda: _local(folder, port),
        "containers": lambda: _contained(port),
    }
    wanted, reasons = sources(), dict[Source, str]()
    for source in ORDER:
        if source not in wanted:
            continue
        try:
            return Served(starts[source](), reasons)
        except Unavailable as error:
            reasons[source] = str(error)
    raise Unavailable("no Pub/Sub: " + "; ".join(f"{source}: {why}" for source, why in reasons.items()))


def _given() -> PubSub:
    address = os.environ.get(GIVEN)
    if not address:
        raise Unavailable(f"{GIVEN} is not set")
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not answers(host, int(port)):
        raise Unavailable(f"{GIVEN} is {address!r}, and nothing answers there; it should be host:port of an emulator")
    return Given(address)


def _local(folder: Path, port: int | None) -> PubSub:
    fake = Emulated(folder, port)
    fake.start()
    return fake


def _contained(port: int | None) -> PubSub:
    try:
        from bench.brokers.pubsub.container import PubSubInContainer  # half a second, and an optional package
    except ImportError as error:
        raise Unavailable(f"Testcontainers is not installed: {error}") from error
    container = PubSubInContainer(port)
    container.start()
    return container
