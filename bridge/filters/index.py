"""Which watchers may match an event: one hash look-up per shape, however many watchers there are.

A watcher is entered once for each alternative of its condition (`keys.py`), in the table of its shape, of its text,
or among those that are asked about every event. What can't be compared in a way that Python's own equality would get
right (fractions) is asked again of the few that a look-up finds.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Sequence
from typing import Final

from msgspec import Struct

from bridge.filters.buckets import Bucket, Candidate, Step
from bridge.filters.events import Views
from bridge.filters.keys import Affix, Alternative, Outside, alternatives_of, fields_of
from bridge.filters.projection import Projection, Use
from bridge.filters.shapes import Affixes, Outsides, Shape, Table
from bridge.filters.watch import Watch
from bridge.language.ir import AllOf, Path

Candidates = Sequence[Candidate]

MOST_LENGTHS: Final = 16
"""Lengths of prefixes, or suffixes, of one field that have a table; longer ones use a shorter table, and are asked."""


class Found(Struct, eq=False, gc=False):
    """Of a poll, by index: the candidates of each event, and the tables for which it is doubtful."""

    candidates: dict[int, Candidates]
    doubtful: dict[int, list[Table]]


class Index:
    """All watchers of a group. They may come and go; the cost is theirs, not that of all."""

    def __init__(self) -> None:
        self.projection = Projection()
        self._watches: dict[Watch, list[Alternative]] = {}
        self._every: list[Candidate] = []
        self._always = Bucket()
        self._tables: dict[object, Table] = {}
        self._lengths: dict[tuple[Path, bool], set[int]] = {}
        self._asking: Counter[Watch] = Counter()

    @property
    def is_sure(self) -> bool:
        """No look-up leaves anything to be asked."""
        return not self._asking

    @property
    def reads_fields(self) -> bool:
        """False where no verdict depends on the fields of an event."""
        return bool(self._tables) or not self._always.is_empty or not self.projection.is_empty

    def __iter__(self) -> Iterator[Watch]:
        return iter(self._watches)

    def add(self, watch: Watch) -> None:
        """Enters a watcher behind all others."""
        condition = watch.condition
        alternatives = [] if condition == AllOf(()) else alternatives_of(condition)
        self._watches[watch] = alternatives
        uses = [self.projection.use(path, use) for path, use in self._uses(watch)]
        if all(uses):
            self._enter(watch, alternatives)
        else:
            self._enter_all_again()

    def remove(self, watch: Watch) -> None:
        """Takes a watcher out; what was counted of it stays with it."""
        for alternative in self._watches.pop(watch):
            self._leave(watch, alternative)
        self._every = [candidate for candidate in self._every if candidate.watch is not watch]
        del self._asking[watch]
        for path, use in self._uses(watch):
            self.projection.drop(path, use)

    @staticmethod
    def _uses(watch: Watch) -> Iterator[tuple[Path, Use]]:
        yield from fields_of(watch.condition)
        if watch.declared.reject is not None:
            yield from fields_of(watch.declared.reject)

    def refresh(self) -> None:
        """Brings projection and tables up to date with what came and went."""
        if self.projection.refresh():
            for table in self._tables.values():
                if isinstance(table, Shape):
                    table.refresh()

    def settle(self) -> None:
        """Shares out what was counted for many watchers at once."""
        self._always.settle()
        for table in self._tables.values():
            table.settle()

    def candidates(
        self, poll: Sequence[Struct], loose: Sequence[int], views: Views, faults: Container[int] = ()
    ) -> Found:
        """The watchers that match if what is left of their conditions holds, in their order.

        `loose` are the events whose fields are not of the kinds that the projection promises, `faults` those that
        nobody can read: of them nothing is counted.
        """
        found: dict[int, Candidates] = {}
        doubtful: dict[int, list[Table]] = {}
        if self._every:
            found = dict.fromkeys(range(len(poll)), self._every)
        if not self._always.is_empty:
            more = self._asked_always(poll, faults)
            found = _merged(found, more) if found else more
        for table in self._tables.values():
            hits, in_doubt = table.look_up(poll, loose, views)
            for index in in_doubt:
                doubtful.setdefault(index, []).append(table)
            if not any(hits):
                continue
            mine = {
                index: bucket.of(poll[index]) if bucket.ladders and index not in faults else bucket
                for index, bucket in enumerate(hits)
                if bucket is not None
            }
            found = _merged(found, mine) if found else mine
        return Found(found, doubtful)

    def _asked_always(self, poll: Sequence[Struct], faults: Container[int]) -> dict[int, Candidates]:
        """Of the watchers that have no key, those that don't say no: one loop over the poll for each."""
        more: dict[int, Candidates] = {}
        if self._always.ladders:
            reached = self._always.reached
            more = {i: steps for i, fields in enumerate(poll) if i not in faults and (steps := reached(fields))}
        asked: defaultdict[int, list[Candidate]] = defaultdict(list)
        for candidate in self._always:
            for index in candidate.condition(self.projection).open(poll):
                asked[index].append(candidate)
        in_order: dict[int, Candidates] = dict(sorted(asked.items()))
        return _merged(more, in_order) if more else in_order

    # Entering and leaving ---------------------------------------------------------------------------------------------

    def _enter_all_again(self) -> None:
        """A field has got fields below it, or the other way round: everything that reads it is made anew."""
        self.settle()
        self._every, self._always, self._tables, self._lengths = [], Bucket(), {}, {}
        self._asking.clear()
        for watch, alternatives in self._watches.items():
            watch.forget()
            self._enter(watch, alternatives)

    def _enter(self, watch: Watch, alternatives: Sequence[Alternative]) -> None:
        if not alternatives:
            self._every.append(Candidate(watch))
        for alternative in alternatives:
            self._enter_one(watch, alternative, is_only=len(alternatives) == 1)

    def _enter_one(self, watch: Watch, alternative: Alternative, *, is_only: bool) -> None:
        candidate = self._candidate(watch, alternative, is_only=is_only)
        if alternative.equalities:
            shape: tuple[tuple[Path, Use], ...] = tuple((e.path, e.use) for e in alternative.equalities)
            table = self._tables.get(shape)
            if table is None:
                table = self._tables[shape] = Shape(shape, self.projection)
            assert isinstance(table, Shape)
            table.add([e.values for e in alternative.equalities], candidate)
        elif alternative.outside is not None:
            self._enter_outside(alternative.outside, candidate)
        elif alternative.affix is not None:
            candidate = self._enter_affix(alternative.affix, candidate)
        else:
            if candidate.rest is None:
                candidate = Candidate(watch, watch.condition)
            self._always.add(candidate, self.projection)
        if candidate.rest is not None:
            self._asking[watch] += 1

    def _candidate(self, watch: Watch, alternative: Alternative, *, is_only: bool) -> Candidate:
        if not alternative.rest:
            return Candidate(watch)
        if not is_only:
            return Candidate(watch, watch.condition)
        if alternative.is_single_threshold and alternative.threshold is not None:
            return Step(watch, alternative.threshold, self.projection.getter(alternative.threshold.path))
        return Candidate(watch, alternative.rest[0] if len(alternative.rest) == 1 else AllOf(alternative.rest))

    def _enter_outside(self, outside: Outside, candidate: Candidate) -> None:
        key = (outside.root, outside.path)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = Outsides(*key, self.projection)
        assert isinstance(table, Outsides)
        table.add(outside.values, candidate)

    def _enter_affix(self, affix: Affix, candidate: Candidate) -> Candidate:
        """Returns the candidate that was entered: one that is asked for all where its table has shorter texts."""
        length = self._length(affix)
        if length < len(affix.text):
            candidate = Candidate(candidate.watch, candidate.watch.condition)
        key = (affix.path, affix.at_end, length)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = Affixes(affix.path, length, self.projection, at_end=affix.at_end)
        assert isinstance(table, Affixes)
        table.add([affix.shortened(length)], candidate)
        return candidate

    def _leave_affix(self, affix: Affix, watch: Watch) -> None:
        lengths = self._lengths.get((affix.path, affix.at_end), set())
        for length in lengths.copy():
            key = (affix.path, affix.at_end, length)
            table = self._tables.get(key)
            if isinstance(table, Affixes):
                table.remove([affix.shortened(length)], watch)
                if self._drop_if_empty(key, table):
                    lengths.discard(length)

    def _length(self, affix: Affix) -> int:
        """The length of the texts in the table that it is kept in."""
        lengths, length = self._lengths.setdefault((affix.path, affix.at_end), set()), len(affix.text)
        if length in lengths or len(lengths) < MOST_LENGTHS or length < min(lengths):
            lengths.add(length)
            return length
        return max(known for known in lengths if known <= length)

    def _leave(self, watch: Watch, alternative: Alternative) -> None:
        if alternative.equalities:
            shape: tuple[tuple[Path, Use], ...] = tuple((e.path, e.use) for e in alternative.equalities)
            table = self._tables.get(shape)
            if isinstance(table, Shape):
                table.remove([e.values for e in alternative.equalities], watch)
                self._drop_if_empty(shape, table)
        elif alternative.outside is not None:
            key = (alternative.outside.root, alternative.outside.path)
            outsides = self._tables.get(key)
            if isinstance(outsides, Outsides):
                outsides.remove(alternative.outside.values, watch)
                self._drop_if_empty(key, outsides)
        elif alternative.affix is not None:
            self._leave_affix(alternative.affix, watch)
        else:
            self._always.leave(watch)

    def _drop_if_empty(self, key: object, table: Table) -> bool:
        if not table.is_empty:
            return False
        table.settle()
        del self._tables[key]
        return True


def _merged(some: dict[int, Candidates], more: dict[int, Candidates]) -> dict[int, Candidates]:
    """What two look-ups found, in the order of the watchers; one that both found is there once."""
    for index, candidates in more.items():
        known = some.get(index)
        some[index] = candidates if known is None else _united(known, candidates)
    return dict(sorted(some.items()))


def _united(some: Candidates, more: Candidates) -> Candidates:
    by_order: dict[int, Candidate] = {candidate.order: candidate for candidate in some}
    for candidate in more:
        known = by_order.get(candidate.order)
        if known is None or candidate.rest is None:  # what holds for sure need not be asked
            by_order[candidate.order] = candidate
    return [by_order[order] for order in sorted(by_order)]
