"""What a broker of the contract suite can do, and what its sentences share."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pytest
from msgspec import Struct

from bridge.core.model import outcome_of
from bridge.ports import Producer

PATIENCE: Final = 20.0
"""Seconds for whatever must happen at all."""
MEBIBYTE: Final = 1024 * 1024

Headers = Sequence[tuple[str, bytes | None]]


class Features(Struct, frozen=True, kw_only=True):
    """What a broker and its producer can do.

    ordered: events of a lane come in the order in which they were sent      cumulative: only a prefix can be settled
    lanes: how many a test may send to, each held up by none of the others   appends: what is sent later joins its lane
    redelivers: what a watcher failed comes again to the same producer       counts_deliveries: `Meta` has the number
    closes_again: a second `aclose` is harmless                              leases: what is held too long comes again
    rebalances: lanes that one reader holds are given to another that comes
    blocks: of a lane nothing more comes before what came is settled, so sentences that read on are not asked of it
    keeps: bytes that a body may have; `largest` many of them                has_empty: bodies of no byte are events
    """

    ordered: bool
    cumulative: bool
    lanes: int
    appends: bool = True
    pauses: bool = False
    takes_lanes: bool = False
    rebalances: bool = False
    releases: bool = False
    redelivers: bool = True
    counts_deliveries: bool = False
    leases: bool = False
    blocks: bool = False
    closes_again: bool = True
    keys: bool = False
    headers: bool = False
    timestamps: bool = False
    tombstones: bool = False
    has_empty: bool = True
    keeps: bytes = bytes(range(256))
    largest: int = MEBIBYTE


class Broker(Protocol):
    """A source of its own for one test; it outlives the producers that read it."""

    features: Features

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        """Returns once the broker has them. None: a message without a body."""
        ...

    def producer(self) -> Producer:
        """A fresh one that has connected to nothing; to the broker it is always the same reader."""
        ...

    async def settled(self) -> list[bytes]:
        """The bodies that nobody will get again. Exact when no producer is open."""
        ...

    async def expire(self) -> None:
        """Lets all leases run out."""
        ...


class Event(NamedTuple):
    """One delivery. `epoch` is what its slice carried."""

    body: bytes
    payload: Any
    lane: Hashable
    epoch: int | None
    identity: str


ACKED = outcome_of(1, 0, 0)
FAILED = outcome_of(0, 1, 0)
REJECTED = outcome_of(0, 0, 1)


# What sentences share -------------------------------------------------------------------------------------------------


def needs(is_there: bool, what: str) -> None:
    if not is_there:
        pytest.skip(what)


def numbered(count: int, name: str = "m", start: int = 0) -> list[bytes]:
    return [f"{name}-{n}".encode() for n in range(start, start + count)]


def bodies(events: Iterable[Event]) -> list[bytes]:
    return [event.body for event in events]


def like(broker: Broker, found: Iterable[bytes], sent: Iterable[bytes]) -> bool:
    """The same, each once, and in the same order where the broker keeps one."""
    return list(found) == list(sent) if broker.features.ordered else sorted(found) == sorted(sent)
