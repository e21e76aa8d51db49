"""The ports: what the runtime needs from the outside, and what it is promised.

Each protocol is the least that its caller needs. Every implementation passes the suite of its port in
`tests/contract/`, the shipped fakes included.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from hashlib import sha256
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from bridge.core.model import AdvanceBatch, AdvanceItem, Context, Outcome, Poll, Routed, Run
from bridge.core.model import Meta as Meta  # a producer's part of the port

# Clock ---------------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time as an argument. `monotonic` for durations, `now` (UTC, seconds since 1970) for what is stored or shown."""

    def monotonic(self) -> float: ...
    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


# Router --------------------------------------------------------------------------------------------------------------


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


# Producer ------------------------------------------------------------------------------------------------------------


class Lanes(Protocol):
    """Given to a producer when its stream opens; both are plain calls on the loop that polls."""

    def assigned(self, lane: Hashable) -> int:
        """The lane is ours from now on: returns its epoch, which the lane's slices carry."""
        ...

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        """Drops the lanes and returns what is resolved and not yet advanced, for a last settlement within a bound."""
        ...


class Producer(Protocol):
    """The broker side of a group, as the runtime drives it. `bridge.shared_stream.SharedStreamProducer` has defaults.

    `open_batches` opens the connection, runs until it is closed, and may suspend for ever while there is nothing.
    `advance` is called in order within an ordered lane; returning means settled, except for the payloads that it
    returns. It raises `Transient` (tried again), `OwnershipLost` (the lane is dropped), anything else is fatal.
    `aclose` is called once, however the poll ended.
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
class Releases(Protocol):
    """Optional: give messages back to the broker at once, without spending a delivery attempt where it allows that."""

    async def release(self, payloads: Sequence[Any]) -> None: ...


# Store: rows that go in ----------------------------------------------------------------------------------------------


class Origin(Protocol):
    """Where a message comes from. `id` is the part of run keys; neither call may raise."""

    @property
    def stream(self) -> str: ...
    @property
    def id(self) -> str: ...
    def position_of(self, payload: Any) -> str:
        """For people. Called on the store's thread."""
        ...


class RunRow(Struct, frozen=True, gc=False):
    """One run request. `run_key` is unique for ever; `digest` is the SHA-256 of the broker's raw bytes (32 bytes).

    Five fields and not fifteen: most are the same for every message of a watcher, and a row is made for each match.
    """

    run_key: str
    identity: str
    origin: Origin
    run: Run
    received_at: float

    @property
    def digest(self) -> bytes:
        return sha256(self.run.body).digest()

    @property
    def body(self) -> bytes:
        return self.run.body

    @property
    def watcher(self) -> str:
        return self.run.plan.watcher

    @property
    def target(self) -> str:
        return self.run.plan.target

    @property
    def stream(self) -> str:
        return self.origin.stream

    @property
    def source(self) -> str:
        return self.origin.id

    @property
    def tags(self) -> bytes:
        own = self.run.tags
        return self.run.plan.tags if own is None else own

    @property
    def key(self) -> str | None:
        """The business key; None too where the plan gives it no time to be held."""
        return self.run.key if self.run.plan.key_ttl else None

    @property
    def position(self) -> str:
        return self.origin.position_of(self.run.payload)


class DeadLetterRow(Struct, frozen=True, gc=False):
    """A message that somebody refused, whole. Unique by (watcher, source, identity).

    `headers` is a JSON list of [name, base64 of the value].
    """

    watcher: str
    stream: str
    source: str
    identity: str
    position: str
    body: bytes
    key: bytes | None
    headers: bytes
    timestamp: float | None
    reason: str
    error: str
    attempts: int
    received_at: float


class AttemptRow(Struct, frozen=True, gc=False):
    """A failed try. Replaces an older row of the same (watcher, source, identity)."""

    watcher: str
    source: str
    identity: str
    tries: int
    error: str


class ForgetRow(Struct, frozen=True, gc=False):
    """The attempts of (watcher, source, identity) are done with."""

    watcher: str
    source: str
    identity: str


class ResultRow(Struct, frozen=True, gc=False):
    """What became of a claimed run. Counts only while `epoch` is still the row's claim epoch.

    `state` is `started` (the target took it), `succeeded` or `failed_run` (the target told how it ended), `failed`
    (given up, visible, can be retried) or `pending` (to be tried again at `not_before`).
    """

    run_key: str
    epoch: int
    state: Literal["started", "succeeded", "failed_run", "failed", "pending"]
    run_id: str = ""
    url: str = ""
    error: str = ""
    not_before: float = 0.0


class ReplayedRow(Struct, frozen=True, gc=False):
    """A replayed dead letter was resolved: `dead_letter` is its id."""

    dead_letter: int


Row = RunRow | DeadLetterRow | AttemptRow | ForgetRow | ResultRow | ReplayedRow


class Receipt(Struct, frozen=True):
    """What a commit did. `sequence` is the store's commit number.

    The counts are of rows. `repeats` holds run keys that were there before with the same digest, `conflicts` those
    with another digest (stored under `<run key>~<first 16 hex digits>`), `refused` pairs of row and reason that the
    database will never take: the commit holds a dead letter for each of them instead. `suppressed` are new messages
    whose business key another run holds: rows of their own, never started, and not among `stored`.
    """

    sequence: int
    stored: int = 0
    repeats: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    dead_letters: int = 0
    refused: tuple[tuple[Row, str], ...] = ()
    stale_results: int = 0
    suppressed: int = 0


# Store: what comes out -----------------------------------------------------------------------------------------------

RunState = Literal[
    "pending", "held", "skipped", "dispatching", "started", "suppressed", "failed", "succeeded", "failed_run"
]


class Claim(Struct, frozen=True):
    """A run request that this instance may launch until `until` (seconds since 1970, the store's clock).

    `retry` counts manual retries (0 at first), `attempts` launches so far without this one; `ambiguous` says that an
    earlier launch may have reached the target.
    """

    run_key: str
    epoch: int
    until: float
    retry: int
    attempts: int
    ambiguous: bool
    watcher: str
    asset: str
    stream: str
    position: str
    target: str
    job: str
    params: bytes
    tags: bytes
    host: str


class Replay(Struct, frozen=True):
    """A dead letter that somebody asked to have read again. `watcher` `*` means: all of the stream's."""

    dead_letter: int
    watcher: str
    stream: str
    source: str
    identity: str
    position: str
    body: bytes
    timestamp: float | None
    key: bytes | None
    headers: bytes


class Intent(Struct, frozen=True):
    """What a person asked an instance to do: a row that it picks up within a second."""

    id: int
    kind: Literal["pause", "resume", "disable", "enable", "replay", "retry"]
    watcher: str = ""
    skip: bool = False


class Store(Protocol):
    """What is durable. One writer, commits in order; every method is safe to call again after `StoreUnavailable`.

    `commit` is one transaction: all rows or none. It raises `StoreUnavailable` while it can't commit (disk full,
    locked, read-only); a row that the database refuses for its data never makes the others wait (see `Receipt`).
    A commit whose result is unknown may be repeated: rows carry the commit's id, a conflict with it means "stored".
    """

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt: ...
    async def claim(self, target: str, limit: int, lease: float) -> list[Claim]:
        """Leases up to `limit` runs of a target for `lease` seconds, oldest first; paused watchers are left out.

        A row whose lease ran out is claimed again, with a higher epoch and `ambiguous` set.
        """
        ...

    async def attempts(self, source: str) -> dict[tuple[str, str], int]:
        """Failed tries that an earlier life wrote: (watcher, identity) -> tries."""
        ...

    async def replays(self, stream: str, limit: int, under_way: Collection[int] = ()) -> list[Replay]:
        """Dead letters that somebody wants to have read again, oldest first, but for those `under_way` already."""
        ...

    async def take_intents(self) -> list[Intent]: ...
    async def heartbeat(self, status: bytes) -> None:
        """The instance is alive; `status` is a JSON object that `headrace status` shows."""
        ...

    def note(self, trouble: str | None) -> None:
        """What keeps it from committing, or None again; left where `headrace status` finds it without a commit.

        Quick, and never raises.
        """
        ...

    async def prune(self) -> int: ...
    async def aclose(self, *, clean: bool) -> None: ...


class Committer(Protocol):
    """Group commit: whatever is submitted while one commit runs goes into the next, in order.

    `submit` never blocks and never fails; `confirmed` is called on the loop, in the turn in which the commit was
    confirmed. A store that is away only makes it later. What is submitted is bounded by its callers' own limits.
    `rows` may be a function, called just before the commit.
    """

    def submit(
        self, rows: Sequence[Row] | Callable[[], Sequence[Row]], confirmed: Callable[[Receipt], None]
    ) -> None: ...


# Target --------------------------------------------------------------------------------------------------------------


class Launched(NamedTuple):
    """What a target said. `state` is `started` where it doesn't tell how the run ends."""

    state: Literal["started", "succeeded", "failed_run"]
    run_id: str = ""
    url: str = ""
    error: str = ""


class Target(Protocol):
    """What starts runs. `launch` is called with the same claim again after a failure or a crash, so it must be keyed.

    It raises `Transient` (tried again with back-off, bounded) or `Refused` (never again: `failed`); anything else
    counts as Transient and is logged with its stack. It bounds itself by `timeout` seconds.
    """

    kind: ClassVar[str]
    guarantee: ClassVar[str]  # one of: keyed, looked-up, at least once
    timeout: float

    async def launch(self, claim: Claim) -> Launched: ...
    async def aclose(self) -> None: ...


# What a kind of stream or target brings along ------------------------------------------------------------------------


class StreamKind(NamedTuple):
    """One connector: what its registry entry (`connectors.KINDS`) points to.

    `options` is the Struct of its own keys (fields may be `Duration` and `Size` of `bridge.core.units`); `build`
    makes a fresh producer without connecting; `source` is what the broker calls the source, the part of run keys
    that no rename may change; `check` returns start-up problems as sentences and connects to nothing remote.
    """

    options: type[Struct]
    build: Callable[[Any], Producer]
    source: Callable[[Any], str]
    check: Callable[[Any], Sequence[str]] = lambda _options: ()


class TargetKind(NamedTuple):
    """One orchestrator: `build(name, options, state_dir)`; `state_dir` is a folder of the instance for local files."""

    options: type[Struct]
    build: Callable[[str, Any, str], Target]
    check: Callable[[Any], Sequence[str]] = lambda _options: ()
