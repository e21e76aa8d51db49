"""Which SQS serves: one that was given, fauxqs (moto where there is no Node.js), or one in a container.

Containers come last, or where HEADRACE_BROKERS=containers asks for them: each image has its own ways, and the tests
have been run against the other two.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from bench.brokers.endpoint import BrokerEndpoint, Source, Unavailable, sources
from bench.brokers.processes import answers
from bench.brokers.sqs.emulated import Fauxqs, Moto

GIVEN: Final = "HEADRACE_SQS"
ORDER: Final[tuple[Source, ...]] = ("given", "local", "containers")
REGION: Final = "eu-central-1"
KEYS: Final = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests", "AWS_DEFAULT_REGION": REGION}
"""Anybody's: no emulator looks at them."""


class Sqs(Protocol):
    """`url` is what clients take for their endpoint."""

    @property
    def url(self) -> str: ...
    @property
    def endpoint(self) -> BrokerEndpoint: ...
    def close(self) -> None: ...


class Given:
    """Somebody else's, from HEADRACE_SQS."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.endpoint = BrokerEndpoint("sqs", "given", urlsplit(url).netloc, f"what {GIVEN} names")

    def close(self) -> None:
        """It was here before us, and stays."""


class Served(Struct, frozen=True):
    """An SQS, and for each source that was tried before, why it does not serve."""

    broker: Sqs
    passed_over: dict[Source, str]


def serve_sqs(folder: Path, port: int | None = None) -> Served:
    """`port` for one of ours; by default a free one. Raises Unavailable with all reasons where no source can serve."""
    starts: dict[Source, Callable[[], Sqs]] = {
        "given": _given,
        "containers": lambda: _contained(port),
        "local": lambda: _local(folder, port),
    }
    wanted, reasons = sources(), dict[Source, str]()
    for source in ORDER:
        if source not in wanted:
            continue
        try:
            return Served(starts[source](), reasons)
        except Unavailable as error:
            reasons[source] = str(error)
    raise Unavailable("no SQS: " + "; ".join(f"{source}: {why}" for source, why in reasons.items()))


def _given() -> Sqs:
    url = os.environ.get(GIVEN)
    if not url:
        raise Unavailable(f"{GIVEN} is not set")
    parts = urlsplit(url)
    if not parts.hostname or not answers(parts.hostname, parts.port or 80):
        raise Unavailable(f"{GIVEN} is {url!r}, and nothing answers there; it should be http://host:port")
    return Given(url)


def _contained(port: int | None) -> Sqs:
    try:
        from bench.brokers.sqs.container import SqsInContainer  # half a second, and an optional package
    except ImportError as error:
        raise Unavailable(f"Testcontainers is not installed: {error}") from error
    container = SqsInContainer(port)
    container.start()
    return container


def _local(folder: Path, port: int | None) -> Sqs:
    reasons: list[str] = []
    for kind in (Fauxqs, Moto):
        server = kind(folder / kind.__name__.lower(), port)
        try:
            server.start()
        except Unavailable as error:
            reasons.append(str(error))
        else:
            return server
    raise Unavailable("; ".join(reasons))
