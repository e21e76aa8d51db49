"""Which watchers may match an event: one hash look-up per shape, however many watchers there are.

A *shape* is the tuple of fields that a watcher's equalities are about. All watchers of a shape share a table, from the
tuple of values to the watchers that ask for just these (tuple space search: Srinivasan, Suri, Varghese, 1999). A field
with several values makes several keys.

The table compares as Python does, for which True == 1 == 1.0. Whatever that may confuse, and whatever would make too
many keys, is checked again on the few watchers that a look-up finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from math import prod
from operator import attrgetter
from typing import Any, Final

from msgspec import Struct

from bridge.filters.ir import AllOf, AnyOf, Path, TypedScalar, is_confusable, typed
from bridge.filters.projection import Projection

_by_order = attrgetter("order")

MOST_KEYS: Final = 64
"""Keys per watcher. The narrowest field is a key however many values it lists: they are as long as what was written."""


class Check(Struct, frozen=True):
    """One part of a filter, evaluated: exact in value and type."""

    read: Callable[[Struct], Any]
    values: frozenset[TypedScalar]

    def holds(self, fields: Struct) -> bool:
        try:
            return typed(self.read(fields)) in self.values
        except (TypeError, AttributeError):  # a list or an object; or a path through what is no object
            return False


class Candidate(Struct, frozen=True, eq=False):
    """A watcher by its place in the order of all, and what a look-up leaves to be checked."""

    order: int
    checks: tuple[Check, ...] = ()

    def is_confirmed(self, fields: Struct) -> bool:
        return all(check.holds(fields) for check in self.checks)


Candidates = Sequence[Candidate]


class Shape:
    """The table of one shape: from a value, or a tuple of several, to the watchers that ask for it."""

    __slots__ = ("_key_of", "_table")

    def __init__(self, key_of: Callable[[Struct], Any]) -> None:
        self._key_of = key_of
        self._table: dict[Any, list[Candidate]] = {}

    def add(self, parts: Sequence[AnyOf], candidate: Candidate) -> None:
        keys: Iterable[Any] = parts[0].values if len(parts) == 1 else product(*(part.values for part in parts))
        for key in dict.fromkeys(keys):  # 1 and true are one key here
            self._table.setdefault(key, []).append(candidate)

    def look_up(self, poll: Sequence[Struct]) -> list[list[Candidate] | None]:
        """For each event what its key finds."""
        try:
            return list(map(self._table.get, map(self._key_of, poll)))
        except (TypeError, AttributeError):  # see Check
            return [self._look_up_one(fields) for fields in poll]

    def _look_up_one(self, fields: Struct) -> list[Candidate] | None:
        try:
            return self._table.get(self._key_of(fields))
        except (TypeError, AttributeError):
            return None


class Index:
    """All filters of a group, numbered in their order; None and an AllOf without parts match every event."""

    def __init__(self, filters: Sequence[AllOf | None]) -> None:
        parts = [() if every is None else every.parts for every in filters]
        self._every: Candidates = [Candidate(order) for order, of_one in enumerate(parts) if not of_one]
        self._shapes: dict[tuple[Path, ...], Shape] = {}
        self._has_checks = False
        self.projection = Projection(part.path for of_one in parts for part in of_one)
        for order, of_one in enumerate(parts):
            if of_one:
                self._add(order, of_one)

    @property
    def is_sure(self) -> bool:
        """No look-up leaves anything to be checked."""
        return not self._has_checks

    @property
    def reads_fields(self) -> bool:
        """False where no verdict depends on what an event holds."""
        return bool(self._shapes)

    def candidates(self, poll: Sequence[Struct]) -> dict[int, Candidates]:
        """By index into the poll, ascending: the watchers that match if their checks hold, in their order."""
        found: dict[int, Candidates] = {}
        if self._every:
            found = dict.fromkeys(range(len(poll)), self._every)
        for shape in self._shapes.values():
            hits = shape.look_up(poll)
            if not any(hits):
                continue
            mine: dict[int, Candidates] = {
                index: candidates for index, candidates in enumerate(hits) if candidates is not None
            }
            found = _merged(found, mine) if found else mine
        return found

    def _add(self, order: int, parts: Sequence[AnyOf]) -> None:
        keyed = _keyed(parts)
        paths = tuple(part.path for part in keyed)
        shape = self._shapes.get(paths)
        if shape is None:
            shape = self._shapes[paths] = Shape(self.projection.getter(*paths))
        unsettled = [part for part in parts if part not in keyed or any(map(is_confusable, part.values))]
        self._has_checks = self._has_checks or bool(unsettled)
        shape.add(keyed, Candidate(order, tuple(map(self._check, unsettled))))

    def _check(self, part: AnyOf) -> Check:
        return Check(self.projection.getter(part.path), frozenset(map(typed, part.values)))


def _merged(some: dict[int, Candidates], more: dict[int, Candidates]) -> dict[int, Candidates]:
    """What two look-ups found, in the order of the watchers."""
    for index, candidates in more.items():
        known = some.get(index)
        some[index] = candidates if known is None else sorted((*known, *candidates), key=_by_order)
    return dict(sorted(some.items()))


def _keyed(parts: Sequence[AnyOf]) -> list[AnyOf]:
    """The parts that make the key, by path: the narrowest first, as many as the number of keys allows."""
    keyed: list[AnyOf] = []
    for part in sorted(parts, key=lambda part: len(part.values)):
        if keyed and prod(len(k.values) for k in (*keyed, part)) > MOST_KEYS:
            break
        keyed.append(part)
    return sorted(keyed, key=lambda part: part.path)
