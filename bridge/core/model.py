"""What the core speaks in: polls and records that come in, outcomes and batches that go out.

Every object here is data. Objects on the hot path are msgspec Structs: a quarter of the cost of a dataclass, and the
cost of a poll of one is nothing else (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from enum import Enum
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, overload

from msgspec import Struct


class Unordered(Enum):
    """The lane of events that need no order: each is released as it resolves, and none holds another."""

    UNORDERED = "unordered"

    def __repr__(self) -> str:
        return "UNORDERED"


UNORDERED: Final = Unordered.UNORDERED


class Slice(NamedTuple):
    """Events `start` to `stop` (exclusive) of a poll, all of one lane. `epoch` None means: whatever is current."""

    lane: Hashable
    start: int
    stop: int
    epoch: int | None = None


class Poll(Struct, eq=False):
    """What one fetch gave: `slices` cut `bodies` and `payloads` (same length) by lane. The core owns the lists.

    `received` is when it came, in monotonic seconds: leases count from there, and the age of what is outstanding. A
    producer that keeps messages back for a while sets it; 0.0: it comes straight from the broker.
    """

    slices: list[Slice]
    bodies: list[bytes]
    payloads: list[Any]
    received: float = 0.0
    _size: int = -1

    @property
    def size(self) -> int:
        """Bytes of all bodies; counted once."""
        if self._size < 0:
            self._size = sum(map(len, self.bodies))
        return self._size


class Lent(Struct, eq=False):
    """The payload of a message that is lent (`bridge.ports.Lends`). Connectors derive theirs from it, with `kw_only`.

    `key` is the same for every delivery of the message; `handle` is the newest (receipt handle, ack id, lock token),
    and `deliveries` how often the broker says that it gave it away, 1 at the first. What follows is the core's:
    `since`, when the lease began, in monotonic seconds; `lane`; `lost`: the broker refused to renew it; `short`: little
    of it is left.
    """

    key: str
    handle: Any
    deliveries: int | None = None
    since: float = 0.0
    lane: Hashable = None
    lost: bool = False
    short: bool = False


class Tombstone(bytes):
    """The type of TOMBSTONE: bytes that read as JSON `null`, and are told from the text `null` by their type."""

    __slots__ = ()


TOMBSTONE: Final = Tombstone(b"null")
"""The body of a message that has none (a null value in Kafka). Every decoder takes it for null."""


class Meta(Struct, frozen=True):
    """What a producer knows of a message beside its body. `timestamp` in seconds since 1970, `position` for people.

    `message_id` and `delivery_attempt` (1 at the first) are the broker's, where it has them; `lane` is a text. The
    value of a header may be None: a null, told from an empty one. `tombstone`: the message has no body.
    """

    position: str
    timestamp: float | None = None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    lane: str = ""
    message_id: str = ""
    delivery_attempt: int | None = None
    tombstone: bool = False


def _unknown(payload: Any) -> Meta:
    return Meta(position=repr(payload)[:200])


class Context(Struct, frozen=True):
    """What filters may ask of a poll beside its bodies: the stream's name, each message's Meta, and the time.

    `now` in seconds since 1970, the same for all events of the poll. `describe` may raise: the code of a producer.
    """

    stream: str = ""
    describe: Callable[[Any], Meta] = _unknown
    now: float = 0.0


class Rejection(NamedTuple):
    """Why a watcher refused an event: it is a dead letter by the time that anybody sees this."""

    watcher: str
    reason: str
    attempts: int = 0
    error: str = ""


class AdvanceOutcome(Struct, frozen=True):
    """How the watchers that owed an event resolved it; each is counted once."""

    acked: int
    failed: int
    rejected: int = 0
    rejections: tuple[Rejection, ...] = ()

    @property
    def is_clean(self) -> bool:
        """No reject, no failure, and at least one watcher acked."""
        return self.acked > 0 and self.failed == 0 and self.rejected == 0


@lru_cache(maxsize=4096)
def outcome_of(acked: int, failed: int, rejected: int) -> AdvanceOutcome:
    """An interned outcome: runs of equal outcome are joined by identity."""
    return AdvanceOutcome(acked, failed, rejected)


class AdvanceItem(NamedTuple):
    """One resolved event: what the broker needs to settle it, and how it ended."""

    broker_payload: Any
    outcome: AdvanceOutcome


_items = partial(tuple.__new__, AdvanceItem)  # twice the speed of AdvanceItem._make


class AdvanceBatch(Sequence[AdvanceItem]):
    """Resolved events of one lane in fan-out order, never empty, kept as runs of equal outcome.

    An AdvanceItem is made only when somebody looks at it: a producer that needs the last offset alone reads
    `last_payload`, one that settles by the message reads `runs`.
    """

    __slots__ = ("_length", "runs")

    def __init__(self, runs: list[tuple[AdvanceOutcome, list[Any]]], length: int) -> None:
        self.runs = runs
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[AdvanceItem]:
        return chain.from_iterable(map(_items, zip(p, repeat(o))) for o, p in self.runs)

    @overload
    def __getitem__(self, index: int) -> AdvanceItem: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[AdvanceItem]: ...
    def __getitem__(self, index: int | slice) -> AdvanceItem | Sequence[AdvanceItem]:
        if isinstance(index, slice):
            return list(self)[index]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        index %= self._length
        for outcome, payloads in self.runs:
            if index < len(payloads):
                return AdvanceItem(payloads[index], outcome)
            index -= len(payloads)
        raise IndexError(index)

    @property
    def last_payload(self) -> Any:
        return self.runs[-1][1][-1]

    @property
    def payloads(self) -> list[Any]:
        """Every payload of the batch, in order."""
        return self.runs[0][1] if len(self.runs) == 1 else [p for _, run in self.runs for p in run]

    def __repr__(self) -> str:
        return f"AdvanceBatch({[(o, len(p)) for o, p in self.runs]})"


# Records: what a poll or a window of a Python watcher causes. They become rows of one commit -------------------------


class Plan(Struct, frozen=True, eq=False):
    """What a watcher's matches ask for; one object per watcher, shared by all its records.

    `watcher` is the id that run keys are made of, `tags` a JSON object. `key_ttl` in seconds: how long a business key
    (`Run.key`) keeps further runs of it away; None where runs have none.
    """

    watcher: str
    asset: str
    target: str
    job: str
    tags: bytes = b"{}"
    max_attempts: int = 5
    key_ttl: float | None = None


class Run(Struct, eq=False, gc=False):
    """A run request to be. `params` is a JSON object, strict and complete; `n` the ordinal within its event.

    `tags` None: those of the plan. `key` is the business key: of the runs of a watcher with an equal one only the
    first is started, until `plan.key_ttl` is over.
    """

    plan: Plan
    payload: Any
    body: bytes
    params: bytes
    n: int = 0
    tags: bytes | None = None
    key: str | None = None


class Reject(Struct, eq=False, gc=False):
    """A dead letter to be. `watcher` is `*` where the bytes can't be read by anybody."""

    watcher: str
    payload: Any
    body: bytes
    reason: str
    error: str = ""
    attempts: int = 0


class Attempt(Struct, eq=False, gc=False):
    """A failed try that must survive a restart: written before the next try starts. `tries` counts this one too."""

    watcher: str
    payload: Any
    tries: int
    error: str = ""


class Opened(Struct, eq=False, gc=False):
    """A try is about to begin, alone in the whole process: written before, so that a death is charged to this event.

    `deaths`: how often the process died of it before, in a row.
    """

    watcher: str
    payload: Any
    deaths: int = 0


class Forget(Struct, eq=False, gc=False):
    """The event resolved, and something was written of its tries: that goes, in the commit that resolves it."""

    watcher: str
    payload: Any


Record = Run | Reject | Attempt | Opened | Forget


class Fault(Struct, eq=False, gc=False):
    """Why bytes could not be read: a reason from a short list (`malformed`, `encoding`, `too_deep`, ...) and words."""

    reason: str
    error: str


class Outcome(Struct, frozen=True):
    """What became of the events that a declarative watcher was asked about; what simply did not match is not counted.

    `matched`: run requests. `missing`: a field that the condition needs was missing or null. `errors`: the condition
    could not be asked, and `last_error` says why. `rejected`: dead letters of this watcher.
    """

    matched: int = 0
    missing: int = 0
    errors: int = 0
    rejected: int = 0
    last_error: str = ""


class Routed(Struct, frozen=True):
    """A poll's verdicts. Indexes are into the poll, ascending; all empty when nothing matched.

    `records` is all that the poll causes, flat, for one commit; `places` has the index of each record's event, the same
    once for every watcher that matched. `refused` are the indexes with a Reject among their records.
    """

    records: list[Record] = []
    places: list[int] = []
    faults: dict[int, Fault] = {}
    refused: Sequence[int] = ()

    @classmethod
    def of(cls, hits: dict[int, list[Record]], faults: dict[int, Fault]) -> Routed:
        """From the records of each event that matched."""
        flat = [(index, record) for index, records in hits.items() for record in records]
        refused = dict.fromkeys(index for index, record in flat if type(record) is Reject)
        return cls([record for _, record in flat], [index for index, _ in flat], faults, tuple(refused))

    @property
    def hits(self) -> dict[int, list[Record]]:
        """The same by event."""
        hits: dict[int, list[Record]] = {}
        for index, record in zip(self.places, self.records, strict=True):
            hits.setdefault(index, []).append(record)
        return hits


EVERY_WATCHER: Final = "*"
