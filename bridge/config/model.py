"""A configuration that has been read: frozen, complete, every default filled in. Durations in seconds, sizes in bytes.

The constraints here are the ones that a written configuration is held to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from bridge.config import later
from bridge.config.problems import Problem
from bridge.core.units import Duration, Size, format_duration
from bridge.decode.options import Decoding

KIB: Final = 1024
MIB: Final = 1024 * KIB
MINUTE: Final = 60.0
DAY: Final = 86400.0

SUBSCRIBER_QUEUE_SIZE: Final = 1024
"""With `overflow: fail`, where the configuration names no other."""

Positive = Annotated[Duration, Meta(gt=0)]
NotNegative = Annotated[Duration, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Bytes = Annotated[Size, Meta(ge=1)]
Factor = Annotated[float, Meta(ge=1, le=100)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1)]


# Store and instance --------------------------------------------------------------------------------------------------


class Retention(Struct, frozen=True):
    """How long rows are kept once nothing happens to them any more; runs that are still to be started stay for ever.

    `finished`: runs that are done. `dead_letters`: those that were replayed or dropped. `open`: dead letters and failed
    runs that still wait for a person. `instances`: rows of processes that are gone.
    """

    finished: Positive = 30 * DAY
    dead_letters: Positive = 30 * DAY
    open: Positive = 90 * DAY
    instances: Positive = 7 * DAY


class StoreConfig(Struct, frozen=True):
    """Where everything durable is. `max_size` None: as large as the disk lets it grow.

    `dedupe_horizon` is how long run keys are remembered: a message that comes again later starts a second run.
    """

    LATER: ClassVar[Mapping[str, str]] = later.STORE

    url: Annotated[str, Meta(min_length=1, description="like sqlite:///headrace.db")]
    max_size: Annotated[Size, Meta(ge=MIB)] | None = None
    retention: Retention = Retention()
    dedupe_horizon: Annotated[Duration, Meta(ge=60 * MINUTE)] = 32 * DAY

    def __repr__(self) -> str:
        return "StoreConfig(…)"  # the URL may hold a password


class InstanceConfig(Struct, frozen=True):
    """This process: how often it says that it lives, and how long it may take to stop."""

    LATER: ClassVar[Mapping[str, str]] = later.INSTANCE

    heartbeat: Annotated[Duration, Meta(ge=0.1, le=5 * MINUTE)] = 5.0
    stop_timeout: Annotated[Duration, Meta(ge=1, le=60 * MINUTE)] = 30.0


# Streams and targets -------------------------------------------------------------------------------------------------


class Backoff(Struct, frozen=True):
    """The wait before the n-th retry: `delay * factor ** (n - 1)`, at most `max`, give or take a share of `jitter`."""

    delay: Positive = 1.0
    factor: Factor = 2.0
    max: Positive = 5 * MINUTE
    jitter: Share = 0.2

    def __post_init__(self) -> None:
        if self.max < self.delay:
            raise ValueError(
                f"`delay` ({format_duration(self.delay)}) is longer than `max` ({format_duration(self.max)})"
            )


class StreamRetry(Backoff, frozen=True):
    """How a failed try of a watcher is repeated.

    `process`: in this process, for that watcher alone. `broker`: the source delivers the event again, to all.
    """

    mode: Literal["process", "broker"] = "process"


class TargetRetry(Backoff, frozen=True):
    """How a launch that may work later is repeated: `attempts` in all."""

    attempts: Count = 10


class StreamConfig(Struct, frozen=True):
    """A source of events. `options` holds the keys of its kind, `decode` the keys `decode` and `unwrap`."""

    LATER: ClassVar[Mapping[str, str]] = later.STREAM

    name: str
    kind: str
    options: Any
    decode: Decoding = Decoding()
    max_body: Bytes = MIB
    generation: Count = 1
    max_attempts: Count = 5
    retry: StreamRetry = StreamRetry()
    ack_timeout: Positive = 5 * MINUTE
    cohort_grace_period: NotNegative = 0.0
    max_outstanding: Count = 10_000
    max_outstanding_bytes: Bytes = 64 * MIB
    max_retrying: Count = 1000
    max_advancing: Count = 8
    overflow: Literal["pause", "fail"] = "pause"
    subscriber_queue_size: Count | None = None

    def __post_init__(self) -> None:
        if self.subscriber_queue_size is not None and self.overflow != "fail":
            raise ValueError(
                f"`subscriber_queue_size` ({self.subscriber_queue_size}) means nothing without `overflow: fail`: with "
                "`overflow: pause` no watcher is ever too far behind. Remove it, or add `overflow: fail`"
            )

    @property
    def queue_size(self) -> int | None:
        """How many events a Python watcher may be behind before it fails what comes in addition; None: any number."""
        if self.overflow == "pause":
            return None
        return SUBSCRIBER_QUEUE_SIZE if self.subscriber_queue_size is None else self.subscriber_queue_size

    @property
    def is_strict(self) -> bool:
        """Whether bodies are read as strict JSON."""
        return self.decode.strict

    def __repr__(self) -> str:
        return f"StreamConfig({self.name!r}, {self.kind!r}, …)"  # options may hold a secret


class TargetConfig(Struct, frozen=True):
    """What starts runs. `options` holds the keys of its kind; `timeout` bounds one launch."""

    LATER: ClassVar[Mapping[str, str]] = later.TARGET

    name: str
    kind: str
    options: Any
    timeout: Positive = 30.0
    retry: TargetRetry = TargetRetry()
    max_in_flight: Count = 8

    def __repr__(self) -> str:
        return f"TargetConfig({self.name!r}, {self.kind!r}, …)"


# Watchers ------------------------------------------------------------------------------------------------------------


OnError = Literal["no_match", "reject"]


class WatcherConfig(Struct, frozen=True):
    """A filter on a stream, and the run that a match asks for.

    `id` is what run keys begin with; `name` and `asset` are for people. A declarative watcher has a `condition` (None:
    every event), maybe a `reject`, and `on_error`; a Python watcher has a `trigger` (an import path) with `kwargs`.
    `params`, `tags` and `key` are plans; all compiled forms are those of `bridge.filters`. `key_ttl` is there with a
    key. `definition` is the SHA-256, in hex, of what the watcher does: not of its names, nor of a secret. `written`
    holds the blocks and expressions as they were written, for people, secrets masked: `match`, `when`, `reject`,
    `kwargs`, `params`, `tags`, `key`, and `each`, the item of `for_each` where an expression asks for it.
    """

    id: str
    name: str
    asset: str
    stream: str
    condition: Any
    reject: Any
    on_error: OnError
    params: Any
    tags: Any
    key: Any
    key_ttl: float | None
    target: str
    job: str
    enabled: bool
    max_attempts: int | None
    trigger: str | None
    kwargs: dict[str, Any]
    definition: str
    description: str = ""
    written: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"WatcherConfig({self.id!r}, …)"  # kwargs may hold a secret


class Config(Struct, frozen=True):
    """All of it. `masked` says, by path, what is shown instead of a value that must not be.

    `secrets` are the texts among these that watchers hold: they must not be shown as a part of anything else either.
    """

    store: StoreConfig
    targets: dict[str, TargetConfig]
    streams: dict[str, StreamConfig]
    watchers: tuple[WatcherConfig, ...]
    instance: InstanceConfig
    files: tuple[str, ...]
    warnings: tuple[Problem, ...] = ()
    masked: dict[tuple[str | int, ...], str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"Config({', '.join(self.files)}: {len(self.streams)} streams, {len(self.watchers)} watchers)"
