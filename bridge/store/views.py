"""What the command line shows of a store: frozen pictures of rows. Times are seconds since 1970."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from bridge.ports import RunState

InstanceState = Literal["running", "silent", "ended", "crashed"]
LetterState = Literal["dead", "replaying", "replayed", "superseded", "dropped"]


class InstanceView(Struct, frozen=True):
    """`silent`: it neither ended nor gave a sign of life for `seen_ago` seconds. `status` is a JSON object."""

    id: str
    host: str
    pid: int
    version: str
    state: InstanceState
    started_at: float
    heartbeat_at: float
    seen_ago: float
    status: bytes


class Counts(Struct, frozen=True):
    """`runs`: (state, target, how many); `dead_letters`: (state, reason, how many). `attempts`: events being tried.

    `relays`: (stream, how many dead letters of it are still to be copied to the broker's own place).
    """

    runs: tuple[tuple[RunState, str, int], ...]
    dead_letters: tuple[tuple[LetterState, str, int], ...]
    attempts: int
    relays: tuple[tuple[str, int], ...] = ()


class RunView(Struct, frozen=True):
    """A run request. `state` is `held` while a pending one's watcher is paused or disabled.

    `due` is when it may be claimed, or when its lease ends. `repeats` counts how often its message came again. `key`
    is its business key, if it has one, which it holds until `key_until`; a `suppressed` run names the one that does.
    """

    run_key: str
    state: RunState
    watcher: str
    asset: str
    stream: str
    source: str
    identity: str
    position: str
    target: str
    job: str
    params: bytes
    tags: bytes
    received_at: float
    created_at: float
    updated_at: float
    due: float | None
    retry: int
    attempts: int
    claim_epoch: int
    claimed_by: str
    host: str
    run_id: str
    url: str
    error: str
    repeats: int
    key: str | None
    key_until: float | None
    suppressed_by: str | None


class DeadLetterView(Struct, frozen=True):
    """A dead letter without its bytes. `size` is their number; `whole` says that they are the message's own.

    `tombstone`: the message had none. `relay_due` is when it is copied to the broker's own place, or tried again;
    `relayed_at` when the copy was confirmed; `relay_error` why copying failed last, `relay_failures` times so far. With
    neither time, and an error, it is not tried any more.
    """

    id: int
    state: LetterState
    watcher: str
    stream: str
    source: str
    identity: str
    position: str
    reason: str
    error: str
    attempts: int
    repeats: int
    whole: bool
    size: int
    timestamp: float | None
    received_at: float
    created_at: float
    updated_at: float
    tombstone: bool
    relay_due: float | None
    relayed_at: float | None
    relay_error: str
    relay_failures: int


class WholeDeadLetter(Struct, frozen=True):
    """A dead letter with its bytes. `headers` is a JSON list of [name, base64 of the value]."""

    letter: DeadLetterView
    key: bytes | None
    headers: bytes
    body: bytes


class WatcherView(Struct, frozen=True):
    """`definition` is a digest; `removed_at` None while the watcher is configured."""

    id: str
    definition: str
    paused: bool
    disabled: bool
    removed_at: float | None


class IntentView(Struct, frozen=True):
    """`outcome` is `done`, or what kept it from being done; empty while it waits."""

    id: int
    kind: str
    watcher: str
    skip: bool
    posted_at: float
    done_at: float | None
    outcome: str
