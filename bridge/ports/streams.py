"""What a group needs: its router, and the broker side of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from bridge.core.model import AdvanceBatch, AdvanceItem, Context, Outcome, Poll, Routed
from bridge.core.model import Meta as Meta  # a producer's part of the port


class Router(Protocol):
    """The declarative watchers of a group: one call per poll, no call per watcher. Pure."""

    @property
    def size(self) -> int:
        """How many watchers it stands for: what an unmatched event's `acked` counts."""
        ...

    @property
    def watchers(self) -> Sequence[str]:
        """Their ids, `size` of them."""
        ...

    def outcomes(self) -> Mapping[str, Outcome]:
        """What became of events so far, by watcher; those of which there is nothing to tell may be left out."""
        ...

    @property
    def ignored(self) -> Mapping[str, int]:
        """Messages that are known to mean nothing (a test event of S3), by reason."""
        ...

    @property
    def is_heavy(self) -> bool:
        """Whether an event may take milliseconds, however small it is: then it is routed in a thread."""
        ...

    def enable(self, watcher: str) -> None: ...
    def disable(self, watcher: str) -> None:
        """From the next poll on. Both take an id that the router was made with, and are never called during `route`."""
        ...

    def route(self, poll: Poll, context: Context) -> Routed:
        """Total: any bytes become a hit, a fault or nothing. Never suspends; raises what `context.describe` raises."""
        ...


class Lanes(Protocol):
    """Given to a producer when its stream opens; both are plain calls on the loop that polls."""

    def assigned(self, lane: Hashable) -> int:
        """The lane is ours from now on: returns its epoch, which the lane's slices carry.

        A lane that was paused is resumed by it. Called within `advance`, for what a watcher failed: what comes again is
        delivered with the new epoch.
        """
        ...

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        """Drops the lanes and returns what is resolved and not yet advanced, for a last settlement within a bound."""
        ...


class Producer(Protocol):
    """The broker side of a group, as the runtime drives it. `bridge.shared_stream.SharedStreamProducer` has defaults.

    `open_batches` opens the connection, runs until it is closed, and may suspend for ever while there is nothing.
    `advance` is called in order within an ordered lane; returning means settled, except for the payloads that it
    returns. It raises `Transient` (tried again), `OwnershipLost` (the lane is dropped), anything else is fatal.
    `aclose` is called once, however the poll ended; a second call, or one before opening, does no harm.
    """

    def open_batches(self) -> AsyncIterator[Poll]: ...
    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Any] | None: ...
    async def aclose(self) -> None: ...
    def identity(self, broker_payload: Any) -> str: ...
    def describe(self, broker_payload: Any) -> Meta: ...


@runtime_checkable
class TakesLanes(Protocol):
    """Optional: a producer whose lanes come and go. Called once, before its stream is opened."""

    def take_lanes(self, lanes: Lanes) -> None: ...


@runtime_checkable
class AdvancesLanes(Protocol):
    """Optional: one call for all lanes that are ready, which is what brokers really have."""

    async def advance_lanes(self, batches: Sequence[tuple[Hashable, AdvanceBatch]]) -> Sequence[Any] | None: ...


@runtime_checkable
class Pauses(Protocol):
    """Optional: stop and start the delivery of single lanes. Without it a full stream is simply not pulled."""

    def pause(self, lanes: Sequence[Hashable]) -> None: ...
    def resume(self, lanes: Sequence[Hashable]) -> None: ...


@runtime_checkable
class Lends(Protocol):
    """Optional: a producer whose broker lends its messages: what is neither settled nor renewed in time comes again.

    Its payloads are of `bridge.core.model.Lent`. `lease` is how long they are lent, in seconds, from the moment that
    they were received; it is known before the stream is opened. Whoever drives the producer keeps the time, says what
    is to be renewed, and when a message that is still held comes again joins both: the payload of the first delivery
    stays and gets the newer `handle`. So a producer looks at `payload.handle` when it makes its call, and not before.

    `open_batches` is pulled without pause: how much comes is said by `ask(most)`, a plain call on the loop, made before
    the stream is opened and whenever it changes. The producer asks the broker for no more than `most` messages at once,
    in all; at 0 it asks for nothing more (no receive, no credit), but gives what is already on its way.

    `renew` begins the lease of each anew and returns those whose lease is lost, as the broker says; it bounds itself to
    a sixth of the lease, raises `Transient` where it can't tell, and never waits behind a receive. Payloads that were
    settled or released meanwhile may be among them.

    `advance` returns the payloads whose lease ran out before they were settled, and never tries a handle again that the
    broker has refused, unless a newer one has come.
    """

    @property
    def lease(self) -> float: ...
    def ask(self, most: int) -> None: ...
    async def renew(self, payloads: Sequence[Any]) -> Sequence[Any]: ...


@runtime_checkable
class Releases(Protocol):
    """Optional: give messages back to the broker at once, without spending a delivery attempt where it allows that.

    Called at the end for all that is not settled, and meanwhile for what lies behind a failed message of an ordered
    lane. `aclose` itself gives back what was received and never delivered.
    """

    async def release(self, payloads: Sequence[Any]) -> None: ...


@runtime_checkable
class Reports(Protocol):
    """Optional: what people should know of the source, as JSON: lag, gaps, members. Quick, and never raises.

    A text under `trouble` makes the stream unhealthy.
    """

    def report(self) -> Mapping[str, object]: ...


class Ledger(Struct, frozen=True):
    """What a store can prove: by it a broker that was told more than the store remembers is found out.

    `store` is its id, made once. `sequence()` is the number of the last commit that is durable (0: none).
    `places` is what this stream's producer last had kept (`KeepsPlaces.places`), at most a heartbeat older than the
    store itself. `rewind`: go back to them. `accept`: a broker that was told of another store is meant.
    """

    store: str
    sequence: Callable[[], int]
    places: Mapping[str, str] = {}
    rewind: bool = False
    accept: bool = False


@runtime_checkable
class KeepsPlaces(Protocol):
    """Optional: a producer whose broker keeps its place (an offset), beside which it leaves a mark of the store.

    `take_ledger` is called once, before the stream is opened. `places` are copied into the store with each heartbeat:
    how far every lane is settled, so that a store which is restored from a copy knows how far to go back.
    """

    def take_ledger(self, ledger: Ledger) -> None: ...
    def places(self) -> Mapping[str, str]: ...


# Dead letters to the broker's own place ------------------------------------------------------------------------------


class Letter(Struct, frozen=True):
    """A dead letter to be copied. `id` is the same for every copy of it; `body` None: the message had none.

    `timestamp` and `created_at` in seconds since 1970. `failures`: how often copying it has failed so far.
    """

    number: int
    id: str
    watcher: str
    stream: str
    identity: str
    position: str
    body: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: float | None
    reason: str
    error: str
    attempts: int
    created_at: float
    failures: int = 0


class Relay(Protocol):
    """Copies dead letters to a place at the broker, confirmed and at least once.

    `open` connects; it raises `Refused` where the place does not exist or may not be written, `Transient` where it
    can't tell now. `send` returns one entry per letter: None once the broker has confirmed it, else what went wrong
    (`Refused`: this letter will never be taken). Both bound themselves. `open` may be called again after a failure.
    """

    async def open(self) -> None: ...
    async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]: ...
    async def aclose(self) -> None: ...
