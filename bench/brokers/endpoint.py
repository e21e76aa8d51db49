"""Where a broker is, and where it came from."""

from __future__ import annotations

import os
from typing import Literal, get_args

from msgspec import Struct

Source = Literal["given", "containers", "local"]

SOURCES: tuple[Source, ...] = get_args(Source)


REQUIRED = "HEADRACE_REQUIRED_BROKERS"
"""Sources that must work here, with commas between them: a test that needs one of them fails where others skip it."""


class BrokerEndpoint(Struct, frozen=True):
    """`bootstrap` is `host:port`; `what` says for people what answers there, such as `Apache Kafka 4.3.1`."""

    broker: str
    source: Source
    bootstrap: str
    what: str

    def __str__(self) -> str:
        return f"{self.broker}: {self.source} ({self.what} at {self.bootstrap})"


class Unavailable(Exception):
    """This source can't serve this broker here. The text says why, and what would help."""


def sources() -> tuple[Source, ...]:
    """Those to try, in order. `HEADRACE_BROKERS` names the only one that counts."""
    chosen = os.environ.get("HEADRACE_BROKERS")
    if not chosen:
        return SOURCES
    if chosen not in SOURCES:
        raise ValueError(f"HEADRACE_BROKERS is {chosen!r}: one of {', '.join(SOURCES)} is possible")
    return tuple(source for source in SOURCES if source == chosen)


def is_required(*wanted: Source) -> bool:
    """One of these must work here."""
    return bool({*os.environ.get(REQUIRED, "").split(",")} & {*wanted})
