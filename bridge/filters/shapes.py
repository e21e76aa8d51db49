"""Tables from what an event holds to the watchers that ask for just that.

A *shape* is the tuple of fields that a watcher's equalities are about. All watchers of a shape share a table, from the
tuple of values to those that ask for it (tuple space search: Srinivasan, Suri, Varghese, 1999). A field with several
values makes several keys. Watchers without an equality and with a prefix, or suffix, share a table for each length.

An event that lacks a field of a shape, or has something else there, is *doubtful*: no key is found for it, and yet the
answer of some watchers is not "no". Those are told by the fields that are as expected.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any, Final

from msgspec import Struct

from bridge.filters.buckets import Bucket, Candidate
from bridge.filters.doubts import Doubt, Doubts
from bridge.filters.events import Views
from bridge.filters.phrases import look
from bridge.filters.projection import Projection, Use
from bridge.filters.watch import Watch
from bridge.language.ir import Path
from bridge.language.values import Value

CLASSES: Final[dict[Use, frozenset[type]]] = {
    "text": frozenset({str}),
    "number": frozenset({int, float}),
    "bool": frozenset({bool}),
}

Hits = list[Bucket | None]


_ODD: Final = Bucket()
"""What a table of one field has for a field that is missing."""


class _Keyed(ABC):
    """What all tables have: buckets by key, and the doubts that go with them."""

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._table: dict[Any, Bucket] = {}
        self._doubts = Doubts()

    @property
    def is_empty(self) -> bool:
        return not self._table

    def settle(self) -> None:
        """Shares out what was counted for many watchers at once."""
        self._doubts.settle()
        for bucket in self._table.values():
            bucket.settle()

    @abstractmethod
    def look_up(self, poll: Sequence[Struct], loose: Sequence[int], views: Views) -> tuple[Hits, list[int]]:
        """For each event what its key finds (nothing at all where none does), and which events are doubtful.

        `loose` are those whose fields may be of another kind than the projection promises.
        """

    @abstractmethod
    def doubt(self, fields: Struct, views: Views) -> tuple[Doubt | None, bool]:
        """The watchers that a doubtful event may concern; whether a field is of another kind, and not just missing."""

    def _put(self, key: Any, candidate: Candidate) -> None:
        self._table.setdefault(key, Bucket()).add(candidate, self._projection)

    def _drop(self, key: Any, watch: Watch) -> None:
        bucket = self._table.get(key)
        if bucket is not None:
            bucket.leave(watch)
            if bucket.is_empty:
                del self._table[key]


class Shape(_Keyed):
    """The table of one set of fields, each compared with one kind of value."""

    def __init__(self, fields: Sequence[tuple[Path, Use]], projection: Projection) -> None:
        super().__init__(projection)
        self._fields = fields
        self._is_single = len(fields) == 1
        self._key_of = projection.getter(*(path for path, _ in fields))
        self._readers = [(projection.getter(path), CLASSES[use]) for path, use in fields]
        if self._is_single:
            self._table[None] = _ODD
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
            self._put(key[0] if self._is_single else key, candidate)
        self._doubts.add(keys, candidate.watch)

    def remove(self, values: Sequence[Sequence[Any]], watch: Watch) -> None:
        keys = list(dict.fromkeys(product(*values)))
        for key in keys:
            self._drop(key[0] if self._is_single else key, watch)
        self._doubts.remove(keys, watch)

    def look_up(self, poll: Sequence[Struct], loose: Sequence[int], views: Views) -> tuple[Hits, list[int]]:
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

    def doubt(self, fields: Struct, views: Views) -> tuple[Doubt | None, bool]:
        values = self._values(fields)
        expected = tuple(i for i, (value, kinds) in enumerate(values) if value.__class__ in kinds)
        is_wrong = any(value is not None and value.__class__ not in kinds for value, kinds in values)
        key = [value for value, _ in values]
        return self._doubts.find(expected, key, self._entries()), is_wrong

    def _entries(self) -> Iterable[tuple[Any, Watch]]:
        for key, bucket in self._table.items():
            for watch in () if bucket is _ODD else bucket.watches:
                yield (key,) if self._is_single else key, watch


class _OneText(_Keyed):
    """From texts to the watchers that ask for them; subclasses say where an event has its text."""

    def add(self, texts: Iterable[str], candidate: Candidate) -> None:
        for text in texts:
            self._put(text, candidate)
            self._doubts.add([(text,)], candidate.watch)

    def remove(self, texts: Iterable[str], watch: Watch) -> None:
        for text in texts:
            self._drop(text, watch)
            self._doubts.remove([(text,)], watch)

    def look_up(self, poll: Sequence[Struct], loose: Sequence[int], views: Views) -> tuple[Hits, list[int]]:
        get, value_of = self._table.get, self._value_of
        hits: Hits = []
        doubtful: list[int] = []
        for index, fields in enumerate(poll):
            views.index = index
            value = value_of(fields, views)
            if isinstance(value, str):
                hits.append(get(self._key_of(value)))
            else:
                hits.append(None)
                doubtful.append(index)
        return hits, doubtful

    def doubt(self, fields: Struct, views: Views) -> tuple[Doubt | None, bool]:
        """All of them."""
        entries = (((text,), watch) for text, bucket in self._table.items() for watch in bucket.watches)
        return self._doubts.find((), (), entries), self._value_of(fields, views) is not None

    @abstractmethod
    def _value_of(self, fields: Struct, views: Views) -> Value:
        """Its text; something else, or None, where it has none."""

    def _key_of(self, text: str) -> str:
        return text


class Affixes(_OneText):
    """The beginning, or the end, of a field of the event: one table for each length."""

    def __init__(self, path: Path, length: int, projection: Projection, *, at_end: bool) -> None:
        super().__init__(projection)
        self._read = projection.getter(path)
        self._cut = slice(-length, None) if at_end else slice(length)

    def _value_of(self, fields: Struct, views: Views) -> Value:
        try:
            value: Value = self._read(fields)
        except AttributeError:
            return None
        return value

    def _key_of(self, text: str) -> str:
        return text[self._cut]


class Outsides(_OneText):
    """A header, the key, or a field of `meta`: asked of the view of each event, once for all watchers."""

    def __init__(self, root: str, path: Path, projection: Projection) -> None:
        super().__init__(projection)
        self._root = root
        self._path = path

    def _value_of(self, fields: Struct, views: Views) -> Value:
        return look(views(), self._root, self._path)


Table = Shape | Affixes | Outsides
