"""Rows that go into the store: what one commit makes durable."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal, Protocol

from msgspec import Struct

from bridge.core.model import Run


class Origin(Protocol):
    """Where a message comes from. `id` is the part of run keys; neither call may raise."""

    @property
    def stream(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def relays(self) -> bool:
        """Whether dead letters of it are to be copied to the broker's own place."""
        ...

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

    `headers` is a JSON list of [name, base64 of the value, or null]. `tombstone`: the message had no body, and `body`
    is what stands for it. `relays`: it is to be copied to the broker's own place.
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
    tombstone: bool = False
    relays: bool = False


class AttemptRow(Struct, frozen=True, gc=False):
    """A failed try. Replaces an older row of the same (watcher, source, identity)."""

    watcher: str
    source: str
    identity: str
    tries: int
    error: str


class OpenedRow(Struct, frozen=True, gc=False):
    """A try is about to begin, alone in the whole process: if it dies now, this event is what it died of.

    `deaths` is how often that happened before, in a row. Whatever was opened before it is open no longer. An
    AttemptRow of the same event sets the deaths back to nought, a ForgetRow ends it.
    """

    watcher: str
    source: str
    identity: str
    deaths: int = 0


class ClosedRow(Struct, frozen=True, gc=False):
    """Suspect mode is over: what was opened last is open no longer, so no death is charged to it from now on."""


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


class RelayedRow(Struct, frozen=True, gc=False):
    """What came of copying a dead letter: `error` empty: it is there. Else it is tried again at `due`; None: never."""

    dead_letter: int
    error: str = ""
    due: float | None = None


Row = RunRow | DeadLetterRow | AttemptRow | OpenedRow | ClosedRow | ForgetRow | ResultRow | ReplayedRow | RelayedRow


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
