"""The store: what it takes, what it gives back, and what it promises."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec import Struct

from bridge.ports.rows import Receipt, Row
from bridge.ports.streams import Letter

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
    """A dead letter that somebody asked to have read again. `watcher` `*` means: all of the stream's.

    `tombstone`: the message had no body, and `body` is what stands for it.
    """

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
    tombstone: bool = False


class Prior(NamedTuple):
    """What is known of an event's earlier tries: those that failed, and how often the process died of it in a row."""

    tries: int
    deaths: int = 0


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

    @property
    def store_id(self) -> str:
        """Made once, with the store."""
        ...

    @property
    def sequence(self) -> int:
        """The number of the last commit that this process knows to be durable."""
        ...

    @property
    def was_killed(self) -> bool:
        """An earlier instance did not end cleanly, and was found dead within the last 10 minutes."""
        ...

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt: ...
    async def claim(self, target: str, limit: int, lease: float) -> list[Claim]:
        """Leases up to `limit` runs of a target for `lease` seconds, oldest first; paused watchers are left out.

        A row whose lease ran out is claimed again, with a higher epoch and `ambiguous` set.
        """
        ...

    async def attempts(self, source: str) -> dict[tuple[str, str], Prior]:
        """What an earlier life wrote of events that are not resolved: by (watcher, identity)."""
        ...

    async def places(self, stream: str) -> dict[str, str]:
        """What the stream's producer last had kept with a heartbeat: lane -> place."""
        ...

    async def claim_letters(self, stream: str, limit: int, lease: float) -> list[Letter]:
        """Dead letters that are to be copied to the broker's own place and are due, oldest first.

        They are not due again for `lease` seconds; a RelayedRow says what came of it.
        """
        ...

    async def replays(self, stream: str, limit: int, under_way: Collection[int] = ()) -> list[Replay]:
        """Dead letters that somebody wants to have read again, oldest first, but for those `under_way` already."""
        ...

    async def take_intents(self) -> list[Intent]: ...
    async def heartbeat(self, status: bytes, places: Mapping[str, Mapping[str, str]] = {}) -> None:
        """The instance is alive; `status` is a JSON object that `headrace status` shows.

        `places` by stream: what its producer has settled so far, lane -> place; replaces what was kept of that stream.
        """
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
