"""Leases: what a broker has lent us, how long it still holds, and what is to be renewed.

The broker gives a message again once its lease has run out. So everything that is admitted and not yet settled is
renewed when a third of its lease is over (semantics 24), however it is held: routed, queued, tried, resolved behind a
held head, or in a call to the broker that is repeated. A lease counts from the moment of receiving, in monotonic time.

    received ─▶ held ──due──▶ (the shell calls the broker) ─┬─ renewed ─▶ held, from the time of the call on
                 ▲                                          ├─ no answer ─▶ held, and due again
                 └───── joined by its next delivery ◀─ lost ┴─ refused
    settled, given back, or dropped with its lane ─▶ forgotten: the next delivery is a message of its own

One entry a message, in the order in which leases began: what is not due is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bridge.core.model import Lent, Poll, Slice

RENEWED_AT = 1 / 3
"""The share of a lease after which it is renewed."""
SHORT_AT = 5 / 6
"""The share after which a message is not handed to a watcher any more: what is left would not do."""


class Leases:
    """See the head of the file. `lease` in seconds."""

    def __init__(self, lease: float) -> None:
        if lease <= 0:
            raise ValueError(f"a lease must last, and not {lease} seconds")
        self.lease = lease
        self.joined = self.expired = 0
        self.is_scarce = False
        """Some message is short of its lease, or has lost it."""
        self._held: dict[str, Lent] = {}

    def __len__(self) -> int:
        return len(self._held)

    @property
    def due_at(self) -> float | None:
        """When `due` has something to tell."""
        first = next(iter(self._held.values()), None)
        return first.since + self.lease * RENEWED_AT if first is not None else None

    # Coming and going ------------------------------------------------------------------------------------------------

    def received(self, poll: Poll) -> Poll:
        """The poll without what is held already: that joins its first delivery, and brings the newer handle."""
        held, payloads, since = self._held, poll.payloads, poll.received
        again: set[int] = set()
        for piece in poll.slices:
            for i in range(piece.start, piece.stop):
                payload: Lent = payloads[i]
                first = held.setdefault(payload.key, payload)
                if first is payload:
                    payload.since, payload.lane = since, piece.lane
                else:
                    self._join(first, payload, since)
                    again.add(i)
        return _without(poll, again) if again else poll

    def _join(self, first: Lent, again: Lent, since: float) -> None:
        first.handle, first.deliveries = again.handle, again.deliveries
        self.joined += 1
        self._begin(first, since)

    def _begin(self, payload: Lent, since: float) -> None:
        """Its lease begins at `since`."""
        payload.lost = payload.short = False
        self._put_last(payload, since)

    def _put_last(self, payload: Lent, since: float) -> None:
        """So that all stay in the order in which their leases began."""
        payload.since = since
        del self._held[payload.key]
        self._held[payload.key] = payload

    def forget(self, payloads: Iterable[Lent]) -> None:
        """Settled, given back or dropped. A later delivery of the same message is not touched."""
        held = self._held
        for payload in payloads:
            if held.get(payload.key) is payload:
                del held[payload.key]

    # Renewing --------------------------------------------------------------------------------------------------------

    def due(self, now: float) -> list[Lent]:
        """What must be renewed now, oldest first. It marks what is short of its lease."""
        due: list[Lent] = []
        for payload in list(self._before(now - self.lease * RENEWED_AT)):
            if payload.lost:
                self._put_last(payload, now)
                continue
            payload.short = payload.since < now - self.lease * SHORT_AT
            self.is_scarce |= payload.short
            due.append(payload)
        return due

    def _before(self, since: float) -> Iterator[Lent]:
        for payload in self._held.values():
            if payload.since > since:
                return
            yield payload

    def renewed(self, asked: Sequence[Lent], refused: Sequence[Lent], now: float) -> list[Lent]:
        """The broker was asked at `now`, and refused some. Returns those that have lost their lease.

        A message that got a newer handle meanwhile has not lost what was refused for the older one.
        """
        held = self._held
        no = {payload.key: payload for payload in refused}
        lost: list[Lent] = []
        for payload in asked:
            if held.get(payload.key) is not payload or payload.since >= now:
                continue
            was_refused = payload.key in no
            self._begin(payload, now)
            if was_refused:
                payload.lost = payload.short = self.is_scarce = True
                lost.append(payload)
        self.expired += len(lost)
        return lost

    def recovers(self) -> bool:
        """True once nothing is short any more, after something was."""
        if not self.is_scarce or any(payload.short for payload in self._held.values()):
            return False
        self.is_scarce = False
        return True


def _without(poll: Poll, again: set[int]) -> Poll:
    slices: list[Slice] = []
    bodies: list[bytes] = []
    payloads: list[object] = []
    for piece in poll.slices:
        start = len(bodies)
        for i in range(piece.start, piece.stop):
            if i not in again:
                bodies.append(poll.bodies[i])
                payloads.append(poll.payloads[i])
        if len(bodies) > start:
            slices.append(Slice(piece.lane, start, len(bodies), piece.epoch))
    return Poll(slices, bodies, payloads, poll.received)
