"""Cutting a poll into spans: the fewest objects that still tell the fates of its events apart.

Everything here works on one slice (`Slice.start` to `Slice.stop`, one lane). `marks` are the indexes of the poll that
are not plain: hits and faults, ascending, so that a slice costs a binary search and never a scan.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from bridge.core.lane import Lane, Span
from bridge.core.model import EVERY_WATCHER, Poll, Record, Reject, Rejection, Routed, Slice


class Audience(Struct, frozen=True):
    """Who owes an event: `declared` declarative watchers, resolved at admission, and `seats` Python watchers."""

    declared: int
    seats: int

    @property
    def size(self) -> int:
        return self.declared + self.seats


class Marks(Struct, eq=False):
    """The indexes of a poll that need a look, ascending. `odd` are those with an outcome of their own."""

    odd: dict[int, tuple[int, tuple[Rejection, ...]]]  # index -> (rejected, rejections)
    matching: dict[int, None]
    all: list[int]


def marks_of(routed: Routed, audience: Audience) -> Marks:
    """What stands out in a routed poll: computed once, used by all its slices."""
    odd: dict[int, tuple[int, tuple[Rejection, ...]]] = {
        i: (audience.size, (Rejection(EVERY_WATCHER, fault.reason, 0, fault.error),))
        for i, fault in routed.faults.items()
    }
    for i in routed.refused:
        rejections = rejections_of(routed.records[bisect_left(routed.places, i) : bisect_right(routed.places, i)])
        odd[i] = (len(rejections), rejections)
    matching = dict.fromkeys(routed.places)
    return Marks(odd, matching, sorted({*matching, *odd}) if odd else list(matching))


def rejections_of(records: Sequence[Record]) -> tuple[Rejection, ...]:
    """The watchers that refuse the event at admission, because their run request can't be made of it."""
    return tuple(Rejection(r.watcher, r.reason, r.attempts, r.error) for r in records if type(r) is Reject)


def cut(lane: Lane, poll: Poll, piece: Slice, marks: Marks, audience: Audience) -> list[Span]:
    """Spans of a slice that no Python watcher owes. Those with `pending` hang on the poll's commit."""
    if piece.stop - piece.start == 1:  # many lanes, few events each: nothing to look for, nothing to cut
        return [_alone(lane, poll, piece.start, marks, audience)]
    low = bisect_left(marks.all, piece.start)
    high = bisect_left(marks.all, piece.stop)
    marked = marks.all[low:high]
    if not marked:
        return [_span(lane, poll, range(piece.start, piece.stop), 0, marks, audience)]
    ranges = _in_order(piece, marked, marks) if lane.ordered else _by_fate(piece, marked, marks)
    return [_span(lane, poll, indexes, pending, marks, audience) for indexes, pending in ranges]


def _alone(lane: Lane, poll: Poll, index: int, marks: Marks, audience: Audience) -> Span:
    payloads = [poll.payloads[index]]
    if index in marks.odd:
        rejected, rejections = marks.odd[index]
        return Span(
            lane,
            payloads,
            len(poll.bodies[index]),
            1,
            audience.size - rejected,
            rejected,
            0,
            rejections,
            b"",
            poll.received,
        )
    if index in marks.matching:
        return Span(lane, payloads, len(poll.bodies[index]), 1, audience.size, received=poll.received)
    return Span(lane, payloads, 0, 0, audience.size, received=poll.received)


def _in_order(piece: Slice, marked: list[int], marks: Marks) -> list[tuple[Sequence[int], int]]:
    """Cut in front of the first mark and around odd ones; all behind the first mark waits for the one commit."""
    cuts = {piece.start, piece.stop, marked[0]}
    for i in marked:
        if i in marks.odd:
            cuts |= {i, i + 1}
    edges = sorted(cuts)
    return [(range(a, b), int(a >= marked[0])) for a, b in pairwise(edges)]


def _by_fate(piece: Slice, marked: list[int], marks: Marks) -> list[tuple[Sequence[int], int]]:
    """Nothing holds anything: what is plain is resolved at once, what matched waits together, odd ones alone."""
    known = set(marked)
    plain = [i for i in range(piece.start, piece.stop) if i not in known]
    matched = [i for i in marked if i not in marks.odd]
    groups: list[tuple[Sequence[int], int]] = [([i], 1) for i in marked if i in marks.odd]
    if plain:
        groups.append((plain, 0))
    if matched:
        groups.append((matched, 1))
    return groups


def _span(lane: Lane, poll: Poll, indexes: Sequence[int], pending: int, marks: Marks, audience: Audience) -> Span:
    if isinstance(indexes, range):
        a, b = indexes.start, indexes.stop
        payloads = poll.payloads if b - a == len(poll.payloads) else poll.payloads[a:b]
    else:
        payloads = [poll.payloads[i] for i in indexes]
    size = _kept(poll, indexes, marks) if pending else 0
    rejected, rejections = marks.odd.get(indexes[0], (0, ())) if pending else (0, ())
    return Span(
        lane, payloads, size, pending, audience.size - rejected, rejected, 0, rejections, received=poll.received
    )


def _kept(poll: Poll, indexes: Sequence[int], marks: Marks) -> int:
    """Bytes of the bodies that records hold on to until their commit; what did not match is let go at once."""
    if isinstance(indexes, range):
        low, high = bisect_left(marks.all, indexes.start), bisect_left(marks.all, indexes.stop)
        indexes = marks.all[low:high]
    return poll.size if len(indexes) == len(poll.bodies) else sum(len(poll.bodies[i]) for i in indexes)


def single(lane: Lane, poll: Poll, index: int, marks: Marks, routed: Routed, audience: Audience) -> Span:
    """One event as a span of its own: Python watchers owe it, unless nobody can read it."""
    rejected, rejections = marks.odd.get(index, (0, ()))
    body = poll.bodies[index]
    if index in routed.faults:
        return Span(lane, [poll.payloads[index]], len(body), 1, 0, rejected, 0, rejections, b"", poll.received)
    pending = audience.seats + (1 if index in marks.matching else 0)
    return Span(
        lane,
        [poll.payloads[index]],
        len(body),
        pending,
        audience.declared - rejected,
        rejected,
        0,
        rejections,
        body,
        poll.received,
    )
