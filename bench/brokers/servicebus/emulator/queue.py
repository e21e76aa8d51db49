"""The state of one queue or subscription: what is in it, what is locked and by whom.

Nothing here knows of sockets or clocks: `now` is always an argument, in seconds since 1970. A message is active,
locked, deferred or scheduled. A lock is known by its token alone: a token that is not in `locked` is lost, whatever it
once was. With sessions a lock lasts as long as that of its session (sessions.py).

Beliefs about the service that are written into this file: a dead letter keeps its sequence number and its enqueued
time; a message that was released, or whose session was closed, keeps its delivery count
(https://learn.microsoft.com/azure/service-bus-messaging/message-sessions); one that is deferred does not.
"""

from __future__ import annotations

import heapq
import itertools
import math
import uuid
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from typing import Literal
from uuid import UUID

from msgspec import Struct

from bench.brokers.servicebus.emulator.message import Message
from bench.brokers.servicebus.emulator.sessions import Sessions
from bench.brokers.servicebus.figures import Counts

Outcome = Literal["completed", "abandoned", "defered", "suspended", "released"]
"""In the words of `$management`; `defered` is spelled so on the wire."""
SPENT = "MaxDeliveryCountExceeded"
EXPIRED = "TTLExpiredException"


class Options(Struct, frozen=True, kw_only=True):
    """What an entity is made with. Seconds."""

    sessions: bool = False
    lock: float = 60.0
    max_delivery: float = 10
    life: float = math.inf
    expired_are_dead_lettered: bool = False


class LockLost(Exception):
    """Nobody holds such a lock any more."""


class Entry:
    """One message in a queue. `failed` counts deliveries of it that came to nothing."""

    __slots__ = ("enqueued", "expires", "failed", "holder", "message", "sequence", "state", "token", "until")

    def __init__(self, sequence: int, message: Message, enqueued: float, expires: float) -> None:
        self.sequence = sequence
        self.message = message
        self.enqueued = enqueued
        self.expires = expires
        self.failed = 0
        self.state: Literal["active", "locked", "deferred", "scheduled"] = "active"
        self.token: UUID | None = None
        self.until = 0.0
        self.holder: Hashable = None


class Queue:
    """`woken` is called with this queue whenever something in it may be delivered that could not before."""

    def __init__(self, path: str, options: Options, woken: Callable[[Queue], None], letters: Queue | None) -> None:
        self.path = path
        self.options = options
        self.letters = letters
        self.entries: dict[int, Entry] = {}
        self.locked: dict[UUID, Entry] = {}
        self.sessions = Sessions()
        self.settled: Counter[str] = Counter()
        self.renewals: Counter[int] = Counter()
        self.reordered = 0
        """Of the next deliveries: they leave in the reverse order."""
        self._woken = woken
        self._sequence = itertools.count(1)
        self._ready: dict[str | None, list[int]] = {}
        self._due: list[tuple[float, int, UUID | None]] = []

    # In ---------------------------------------------------------------------------------------------------------------

    def enqueue(self, message: Message, now: float) -> int:
        """Its sequence number."""
        sequence = next(self._sequence)
        entry = Entry(sequence, message, now, now + min(message.life, self.options.life))
        self.entries[sequence] = entry
        if message.scheduled is not None and message.scheduled > now:
            entry.state = "scheduled"
            heapq.heappush(self._due, (message.scheduled, sequence, None))
        else:
            self._make_ready(entry)
        return sequence

    def cancel(self, sequence: int) -> bool:
        """Of a scheduled message. False if there is none."""
        entry = self.entries.get(sequence)
        if entry is None or entry.state != "scheduled":
            return False
        del self.entries[sequence]
        return True

    def _make_ready(self, entry: Entry) -> None:
        entry.state, entry.token, entry.holder = "active", None, None
        heapq.heappush(self._ready.setdefault(self._lane(entry), []), entry.sequence)
        self._woken(self)

    def _lane(self, entry: Entry) -> str | None:
        return entry.message.session if self.options.sessions else None

    # Out --------------------------------------------------------------------------------------------------------------

    def take(self, session: str | None, now: float) -> Entry | None:
        """The next message of that session (None: of a queue without), no longer ready and not yet locked."""
        lane = self._ready.get(session)
        while lane:
            sequence = self._next(lane)
            entry = self.entries.get(sequence)
            if entry is None or entry.state != "active":
                continue
            if entry.expires > now:
                return entry
            self._expire(entry)
        self._ready.pop(session, None)
        return None

    def _next(self, lane: list[int]) -> int:
        if not self.reordered:
            return heapq.heappop(lane)
        sequence = heapq.nsmallest(self.reordered, lane)[-1]
        self.reordered -= 1
        lane.remove(sequence)
        heapq.heapify(lane)
        return sequence

    def lock(self, entry: Entry, holder: Hashable, now: float) -> UUID:
        token = uuid.uuid4()
        entry.state, entry.token, entry.holder = "locked", token, holder
        held = self.sessions.held.get(entry.message.session or "") if self.options.sessions else None
        entry.until = held.until if held else now + self.options.lock
        self.locked[token] = entry
        if not self.options.sessions:
            heapq.heappush(self._due, (entry.until, entry.sequence, token))
        return token

    def remove(self, entry: Entry) -> None:
        """Received and deleted in one."""
        del self.entries[entry.sequence]

    def deferred(self, sequence: int) -> Entry | None:
        entry = self.entries.get(sequence)
        return entry if entry is not None and entry.state == "deferred" else None

    def peeked(self, first: int, count: int, session: str | None) -> list[Entry]:
        found = (
            entry
            for sequence, entry in sorted(self.entries.items())
            if sequence >= first and (session is None or entry.message.session == session)
        )
        return list(itertools.islice(found, count))

    # Settling ---------------------------------------------------------------------------------------------------------

    def renew(self, token: UUID, now: float) -> float:
        """Until when it is locked now. Raises LockLost."""
        entry = self._held(token)
        entry.until = now + self.options.lock
        self.renewals[entry.sequence] += 1
        return entry.until

    def settle(self, token: UUID, outcome: Outcome, reason: str | None = None, description: str | None = None) -> None:
        """Raises LockLost, and changes nothing then."""
        entry = self._held(token)
        del self.locked[token]
        self.settled[outcome] += 1
        if outcome == "completed":
            del self.entries[entry.sequence]
        elif outcome == "suspended":
            self._dead_letter(entry, reason, description)
        elif outcome == "defered":
            entry.failed += 1
            entry.state, entry.token, entry.holder = "deferred", None, None
        else:
            self._give_back(entry, counted=outcome == "abandoned")

    def lose(self, token: UUID) -> None:
        """The lock runs out now. Raises LockLost."""
        entry = self._held(token)
        del self.locked[token]
        self._give_back(entry, counted=True)

    def lose_session(self, session: str, *, counted: bool) -> None:
        """Its lock ends, and with it those of its messages; `counted` where it ran out, not where it was given up."""
        self.sessions.held.pop(session, None)
        for token, entry in list(self.locked.items()):
            if entry.message.session == session:
                del self.locked[token]
                self._give_back(entry, counted=counted)
        self._woken(self)

    def _held(self, token: UUID) -> Entry:
        try:
            return self.locked[token]
        except KeyError:
            raise LockLost(token) from None

    def _give_back(self, entry: Entry, *, counted: bool) -> None:
        entry.failed += counted
        if entry.failed >= self.options.max_delivery and self.letters is not None:
            told = f"Message could not be consumed after {self.options.max_delivery:.0f} delivery attempts."
            self._dead_letter(entry, SPENT, told)
        else:
            self._make_ready(entry)

    def _dead_letter(self, entry: Entry, reason: str | None, description: str | None) -> None:
        if self.letters is None:  # a dead letter can't die a second time
            self._make_ready(entry)
            return
        del self.entries[entry.sequence]
        self.letters.adopt(entry, entry.message.dead_lettered(self.path, reason, description))

    def adopt(self, entry: Entry, message: Message) -> None:
        """A dead letter, with the sequence number and the enqueued time that it had."""
        kept = Entry(entry.sequence, message, entry.enqueued, math.inf)
        kept.failed = entry.failed
        self.entries[kept.sequence] = kept
        self._make_ready(kept)

    # Time -------------------------------------------------------------------------------------------------------------

    def next_due(self) -> float | None:
        """When `pass_time` has something to do: a lock that runs out, or a scheduled message."""
        return self._due[0][0] if self._due else None

    def pass_time(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            _, sequence, token = heapq.heappop(self._due)
            if token is None:
                self._activate(sequence, now)
            elif (entry := self.locked.get(token)) is not None and entry.until > now:
                heapq.heappush(self._due, (entry.until, sequence, token))  # it was renewed
            elif entry is not None:
                self.lose(token)

    def _activate(self, sequence: int, now: float) -> None:
        """A scheduled message gets another sequence number when its time has come
        (https://learn.microsoft.com/azure/service-bus-messaging/message-sequencing).
        """
        entry = self.entries.get(sequence)
        if entry is None or entry.state != "scheduled":
            return
        del self.entries[sequence]
        entry.sequence, entry.enqueued = next(self._sequence), now
        self.entries[entry.sequence] = entry
        self._make_ready(entry)

    def _expire(self, entry: Entry) -> None:
        if self.options.expired_are_dead_lettered and self.letters is not None:
            self._dead_letter(entry, EXPIRED, "The message expired and was dead lettered.")
        else:
            del self.entries[entry.sequence]

    # Questions --------------------------------------------------------------------------------------------------------

    def ready_sessions(self, now: float) -> Iterator[str]:
        """Sessions with messages that nobody holds, the one with the oldest message first."""
        for _, session in sorted((lane[0], session) for session, lane in self._ready.items() if session and lane):
            if not self.sessions.is_held(session, now) and self._has_ready(session, now):
                yield session

    def _has_ready(self, session: str, now: float) -> bool:
        found = (self.entries.get(sequence) for sequence in self._ready[session])
        return any(entry is not None and entry.state == "active" and entry.expires > now for entry in found)

    def counts(self) -> Counts:
        states = Counter(entry.state for entry in self.entries.values())
        return Counts(
            active=states["active"],
            locked=states["locked"],
            deferred=states["deferred"],
            scheduled=states["scheduled"],
            dead_letters=len(self.letters.entries) if self.letters is not None else 0,
            settled=dict(self.settled),
            renewals=dict(self.renewals),
        )
