"""Tables from what an event holds to the watchers that ask for just that.

A *shape* is the tuple of fields that a watcher's equalities are about. All watchers of a shape share a table, from the
tuple of values to those that ask for it (tuple space search: Srinivasan, Suri, Varghese, 1999). A field with several
values makes several keys. Watchers without an equality and with a prefix share a table for each length of prefix.

An event that lacks a field of a shape, or has something else there, is *doubtful*: no key is found for it, and yet the
answer of some watchers is not "no". Those are told by the fields that are as expected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final

from msgspec import Struct

from bridge.filters.buckets import Bucket, Candidate
from bridge.filters.projection import Projection, Use
from bridge.filters.watch import Watch
from bridge.language.ir import Path

CLASSES: Final[dict[Use, frozenset[type]]] = {
    "text": frozenset({str}),
    "number": frozenset({int, float}),
    "bool": frozenset({bool}),
}

Hits = list[Bucket | None]


class Doubt:
    """Watchers of which it can't be said that they don't match, for events that are doubtful in one way.

    Where they are many, how often it happened is kept here and shared out when somebody asks.
    """

    __slots__ = ("_errors", "_last_error", "_missing", "rejecting", "watches")

    def __init__(self) -> None:
        self.watches: dict[Watch, None] = {}
        self.rejecting: dict[Watch, None] = {}  # those of them that want to know of every error
        self._missing = self._errors = 0
        self._last_error = ""

    def count(self, error: str | None) -> None:
        """One more event: an error in words, or None where a field is just missing."""
        if error is None:
            self._missing += 1
        else:
            self._errors += 1
            self._last_error = error

    def settle(self) -> None:
        """Shares out what was counted."""
        if not (self._missing or self._errors):
            return
        for watch in self.watches:
            watch.missing += self._missing
            if self._errors and not watch.is_rejecting:  # those were asked, each
                watch.errors += self._errors
                watch.last_error = self._last_error
        self._missing = self._errors = 0


class Doubts:
    """The doubtful watchers of a table, by which parts of the key are as expected and what they are."""

    def __init__(self) -> None:
        self._by_parts: dict[tuple[int, ...], dict[Any, Doubt]] = {}

    def find(self, parts: tuple[int, ...], key: Any, entries: Iterable[tuple[Any, Watch]]) -> Doubt | None:
        """`entries` are all keys with their watchers: read once for each combination of parts that occurs."""
        table = self._by_parts.get(parts)
        if table is None:
            table = self._by_parts[parts] = {}
            for whole, watch in entries:
                _put(table, parts, whole, watch)
        return table.get(tuple(key[part] for part in parts))

    def add(self, keys: Iterable[Any], watch: Watch) -> None:
        for parts, table in self._by_parts.items():
            for key in keys:
                _put(table, parts, key, watch)

    def remove(self, watch: Watch) -> None:
        for table in self._by_parts.values():
            for doubt in table.values():
                if watch in doubt.watches:
                    doubt.settle()
                    del doubt.watches[watch]
                    doubt.rejecting.pop(watch, None)

    def settle(self) -> None:
        for table in self._by_parts.values():
            for doubt in table.values():
                doubt.settle()


def _put(table: dict[Any, Doubt], parts: tuple[int, ...], key: Any, watch: Watch) -> None:
    doubt = table.setdefault(tuple(key[part] for part in parts), Doubt())
    doubt.settle()
    doubt.watches[watch] = None
    if watch.is_rejecting:
        doubt.rejecting[watch] = None


_ODD: Final = Bucket()
"""What a table of one field has for a field that is missing."""


class Shape:
    """The table of one set of fields, each compared with one kind of value."""

    def __init__(self, fields: Sequence[tuple[Path, Use]], projection: Projection) -> None:
        self._fields = fields
        self._projection = projection
        self._is_single = len(fields) == 1
        self._key_of = projection.getter(*(path for path, _ in fields))
        self._readers = [(projection.getter(path), CLASSES[use]) for path, use in fields]
        self._table: dict[Any, Bucket] = {None: _ODD} if self._is_single else {}
        self._doubts = Doubts()
        self._doubtful_columns: list[int] = []
        self.refresh()

    def refresh(self) -> None:
        """Which fields may be of another kind: depends on what else they are asked for."""
        self._doubtful_columns = [i for i, f in enumerate(self._fields) if not self._projection.is_certain(*f)]

    @property
    def is_empty(self) -> bool:
        return len(self._table) == self._is_single

    def add(self, values: Sequence[Sequence[Any]], candidate: Candidate) -> None:
        """`values` has those of each field, in the order of the fields."""
        keys = list(dict.fromkeys(product(*values)))
        for key in keys:
            bucket = self._table.setdefault(key[0] if self._is_single else key, Bucket())
            bucket.add(candidate, self._projection.getter)
        self._doubts.add(keys, candidate.watch)

    def remove(self, values: Sequence[Sequence[Any]], watch: Watch) -> None:
        for key in product(*values):
            found = key[0] if self._is_single else key
            bucket = self._table.get(found)
            if bucket is not None:
                bucket.leave(watch)
                if bucket.is_empty:
                    del self._table[found]
        self._doubts.remove(watch)

    def settle(self) -> None:
        """Shares out what was counted for many watchers at once."""
        self._doubts.settle()
        for bucket in self._table.values():
            bucket.settle()

    def look_up(self, poll: Sequence[Struct], loose: Sequence[int]) -> tuple[Hits, list[int]]:
        """For each event what its key finds (nothing at all where none does), and which events are doubtful.

        `loose` are those whose fields may be of another kind than the projection promises.
        """
        try:
            keys = list(map(self._key_of, poll))
            hits: Hits = list(map(self._table.get, keys))
        except (TypeError, AttributeError):  # a list or an object; or a path through what is no object
            return self._look_up_each(poll)
        if loose or self._doubtful_columns:
            if not loose and not any(map(self._is_odd, *self._numbered(keys))):
                return hits, []
            doubtful = [i for i, fields in enumerate(poll) if self._is_doubtful(fields)]
        elif self._is_single:
            if not any(hits):
                return [], []
            doubtful = [i for i, found in enumerate(hits) if found is _ODD]
        else:
            if not any(None in column for column in zip(*keys, strict=True)):
                return hits, []
            doubtful = [i for i, key in enumerate(keys) if None in key]
        for i in doubtful:
            hits[i] = None
        return hits, doubtful

    def _numbered(self, keys: Sequence[Any]) -> tuple[Iterable[int], Iterable[Sequence[Any]]]:
        return range(len(self._fields)), (keys,) if self._is_single else zip(*keys, strict=True)

    def _is_odd(self, number: int, column: Sequence[Any]) -> bool:
        if number not in self._doubtful_columns:
            return None in column
        return not self._readers[number][1].issuperset(map(type, column))

    def _is_doubtful(self, fields: Struct) -> bool:
        return any(value.__class__ not in kinds for value, kinds in self._values(fields))

    def _values(self, fields: Struct) -> list[tuple[Any, frozenset[type]]]:
        found = []
        for read, kinds in self._readers:
            try:
                found.append((read(fields), kinds))
            except AttributeError:
                found.append((None, kinds))
        return found

    def _look_up_each(self, poll: Sequence[Struct]) -> tuple[Hits, list[int]]:
        hits: Hits = []
        doubtful: list[int] = []
        for i, fields in enumerate(poll):
            if self._is_doubtful(fields):
                hits.append(None)
                doubtful.append(i)
            else:
                hits.append(self._table.get(self._key_of(fields)))
        return hits, doubtful

    def doubt(self, fields: Struct) -> tuple[Doubt | None, bool]:
        """The watchers that a doubtful event may concern; whether a field is of another kind, and not just missing."""
        values = self._values(fields)
        expected = tuple(i for i, (value, kinds) in enumerate(values) if value.__class__ in kinds)
        is_wrong = any(value is not None and value.__class__ not in kinds for value, kinds in values)
        key = [value for value, _ in values]
        return self._doubts.find(expected, key, self._entries()), is_wrong

    def _entries(self) -> Iterable[tuple[Any, Watch]]:
        for key, bucket in self._table.items():
            for watch in () if bucket is _ODD else bucket.watches:
                yield (key,) if self._is_single else key, watch


class Prefixes:
    """The table of one field and one length: from the beginning of a text to the watchers that ask for it."""

    def __init__(self, path: Path, length: int, projection: Projection) -> None:
        self._read = projection.getter(path)
        self._length = length
        self._projection = projection
        self._table: dict[str, Bucket] = {}
        self._doubts = Doubts()

    @property
    def is_empty(self) -> bool:
        return not self._table

    def refresh(self) -> None:
        """Nothing here depends on what else is asked."""

    def add(self, text: str, candidate: Candidate) -> None:
        self._table.setdefault(text, Bucket()).add(candidate, self._projection.getter)
        self._doubts.add([(text,)], candidate.watch)

    def remove(self, text: str, watch: Watch) -> None:
        bucket = self._table.get(text)
        if bucket is not None:
            bucket.leave(watch)
            if bucket.is_empty:
                del self._table[text]
        self._doubts.remove(watch)

    def settle(self) -> None:
        """Shares out what was counted for many watchers at once."""
        self._doubts.settle()
        for bucket in self._table.values():
            bucket.settle()

    def look_up(self, poll: Sequence[Struct], loose: Sequence[int]) -> tuple[Hits, list[int]]:
        """As in Shape."""
        length, get = self._length, self._table.get
        values = list(map(self._value, poll))
        hits = [get(value[:length]) if value.__class__ is str else None for value in values]
        return hits, [i for i, value in enumerate(values) if value.__class__ is not str]

    def _value(self, fields: Struct) -> Any:
        try:
            return self._read(fields)
        except AttributeError:
            return None

    def doubt(self, fields: Struct) -> tuple[Doubt | None, bool]:
        """As in Shape: all of them."""
        entries = (((text,), watch) for text, bucket in self._table.items() for watch in bucket.watches)
        return self._doubts.find((), (), entries), self._value(fields) is not None


Table = Shape | Prefixes
