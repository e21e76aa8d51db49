"""One subscription of the fake: what is waiting, what is lent, and what comes again. No I/O; `now` in seconds.

Documented behaviour that it keeps: a new ack id with each delivery; a nack is a deadline of 0; with ordering, after a
nack or an expiry that message and all later ones of its key are delivered again, in order ("Order messages", "If a
message is redelivered"); a delivery attempt is counted only with a dead-letter policy ("Handle message failures").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Any, Final

from msgspec import Struct, field

MOST_OF_A_RESPONSE: Final = 1000
BYTES_OF_A_RESPONSE: Final = 4 * 1024 * 1024


class Taker(Struct, eq=False):
    """A stream that is open, or a pull: `most` and `most_bytes` bound what it has outstanding, 0 for no bound."""

    most: int = 0
    most_bytes: int = 0
    messages: int = 0
    size: int = 0

    @property
    def has_room(self) -> bool:
        return (not self.most or self.messages < self.most) and (not self.most_bytes or self.size < self.most_bytes)


class Held(Struct, eq=False):
    """A message of the subscription. `ack_id` while it is lent, until `until`, to `taker`."""

    number: int
    message: Any  # google.pubsub.v1.PubsubMessage
    key: str
    deliveries: int = 0
    extended: int = 0
    ack_id: str = ""
    until: float = 0.0
    taker: Taker | None = None
    ready_at: float = 0.0


class Chain(Struct, eq=False):
    """The messages of an ordering key that nobody has acked, in order; those before `next` are lent."""

    held: list[Held] = field(default_factory=list)
    next: int = 0
    is_listed: bool = False


class Figures(Struct):
    """What has happened, in messages."""

    delivered: int = 0
    acked: int = 0
    nacked: int = 0
    expired: int = 0
    extended: int = 0
    invalid: int = 0
    dead_lettered: int = 0


class Subscription(Struct, eq=False):
    """`dead_letter` is told of a message that failed `attempts` times; None: there is no such policy."""

    name: str
    ordered: bool = False
    exactly_once: bool = False
    deadline: float = 10.0
    backoff: float = 0.0
    attempts: int = 0
    dead_letter: Callable[[Held], None] | None = None
    figures: Figures = field(default_factory=Figures)
    reorders: bool = False
    doubles: bool = False
    _all: dict[int, Held] = field(default_factory=dict)
    _lent: dict[str, Held] = field(default_factory=dict)
    _ready: deque[Held] = field(default_factory=deque)
    _later: list[tuple[float, int]] = field(default_factory=list)
    _ends: list[tuple[float, str]] = field(default_factory=list)
    _chains: dict[str, Chain] = field(default_factory=dict)
    _listed: deque[str] = field(default_factory=deque)
    _number: int = 0

    # In and out ------------------------------------------------------------------------------------------------------

    def publish(self, message: Any) -> None:
        self._number += 1
        held = self._all[self._number] = Held(self._number, message, message.ordering_key if self.ordered else "")
        if held.key:
            self._chains.setdefault(held.key, Chain()).held.append(held)
            self._list(held.key)
        else:
            self._ready.append(held)

    def take(self, most: int, deadline: float, taker: Taker, now: float) -> list[Held]:
        """The next deliveries, lent for `deadline`."""
        self.sweep(now)
        taken: list[Held] = []
        size = 0
        for held in self._next(now):
            size += len(held.message.data) + 64
            self._lend(held, deadline, taker, now)
            taken.append(held)
            if len(taken) >= min(most, MOST_OF_A_RESPONSE) or size >= BYTES_OF_A_RESPONSE or not taker.has_room:
                break
        if self.reorders:
            taken.reverse()
        self.figures.delivered += len(taken)
        return taken

    def _next(self, now: float) -> Iterator[Held]:
        while self._ready:
            yield self._ready.popleft()
        for _ in range(len(self._listed)):
            key = self._listed.popleft()
            chain = self._chains.get(key)
            if chain is None:
                continue
            chain.is_listed = False
            while chain.next < len(chain.held) and chain.held[chain.next].ready_at <= now:
                chain.next += 1
                self._list(key)
                yield chain.held[chain.next - 1]
            if chain.next < len(chain.held) and not chain.is_listed:
                heappush(self._later, (chain.held[chain.next].ready_at, chain.held[chain.next].number))

    def _list(self, key: str) -> None:
        chain = self._chains[key]
        if not chain.is_listed:
            chain.is_listed = True
            self._listed.append(key)

    def _lend(self, held: Held, deadline: float, taker: Taker, now: float) -> None:
        held.deliveries += 1
        held.ack_id = f"{self.name.rpartition('/')[2]}-{held.number}-{held.deliveries}"
        held.until = now + deadline
        held.taker = taker
        taker.messages += 1
        taker.size += len(held.message.data)
        self._lent[held.ack_id] = held
        heappush(self._ends, (held.until, held.ack_id))

    def _take_back(self, held: Held) -> None:
        self._lent.pop(held.ack_id, None)
        if held.taker is not None:
            held.taker.messages -= 1
            held.taker.size -= len(held.message.data)
        held.ack_id, held.taker = "", None

    # What clients say ------------------------------------------------------------------------------------------------

    def ack(self, ack_id: str) -> bool:
        """False: the id is not valid, or not any more."""
        held = self._lent.get(ack_id)
        if held is None:
            self.figures.invalid += 1
            return False
        self._take_back(held)
        self.figures.acked += 1
        self._forget(held)
        return True

    def extend(self, ack_id: str, seconds: float, now: float) -> bool:
        """A new deadline from now on; 0 is a nack. False: the id is not valid."""
        held = self._lent.get(ack_id)
        if held is None:
            self.figures.invalid += 1
            return False
        if seconds <= 0:
            self.figures.nacked += 1
            self._again(held, now)
        else:
            self.figures.extended += 1
            held.extended += 1
            held.until = now + seconds
            heappush(self._ends, (held.until, ack_id))
        return True

    def _forget(self, held: Held) -> None:
        self._all.pop(held.number, None)
        chain = self._chains.get(held.key) if held.key else None
        if chain is not None:
            at = chain.held.index(held)
            del chain.held[at]
            chain.next -= at < chain.next
            if not chain.held:
                del self._chains[held.key]

    # What comes again ------------------------------------------------------------------------------------------------

    def _again(self, held: Held, now: float) -> None:
        self._take_back(held)
        if self.dead_letter is not None and held.deliveries >= self.attempts:
            self.figures.dead_lettered += 1
            self.dead_letter(held)
            self._forget(held)
            return
        held.ready_at = now + self.backoff
        chain = self._chains.get(held.key) if held.key else None
        if chain is None:
            heappush(self._later, (held.ready_at, held.number))
            return
        at = chain.held.index(held)
        for behind in chain.held[at + 1 : chain.next]:
            self._take_back(behind)
        chain.next = min(chain.next, at)
        heappush(self._later, (held.ready_at, held.number))

    def sweep(self, now: float) -> None:
        """What has run out, and what has waited long enough."""
        while self._ends and self._ends[0][0] <= now:
            _, ack_id = heappop(self._ends)
            held = self._lent.get(ack_id)
            if held is not None and held.until <= now:
                self.figures.expired += 1
                self._again(held, now)
        while self._later and self._later[0][0] <= now:
            _, number = heappop(self._later)
            held = self._all.get(number)
            if held is None or held.ack_id:
                continue
            if held.key:
                self._list(held.key)
            else:
                self._ready.append(held)

    @property
    def wake_at(self) -> float | None:
        """When `sweep` has something to do."""
        times = [heap[0][0] for heap in (self._ends, self._later) if heap]
        return min(times, default=None)

    # For tests -------------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> int:
        """All leases end."""
        lent = sorted(self._lent.values(), key=lambda held: held.number)
        for held in lent:
            if held.ack_id:
                self.figures.expired += 1
                self._again(held, now)
        return len(lent)

    def double(self, held: Held) -> None:
        """The message comes once more, as another delivery: the ack id that was given is not valid any more."""
        if held.ack_id and not held.key:
            self._take_back(held)
            self._ready.append(held)

    @property
    def unacked(self) -> list[Held]:
        return list(self._all.values())

    @property
    def lent(self) -> int:
        return len(self._lent)
