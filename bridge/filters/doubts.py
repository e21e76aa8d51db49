"""Watchers of which a look-up can't say that they don't match: their key has a field that the event lacks.

None of them matches, and yet each wants to have it counted. Where they are many, that is done together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from bridge.filters.watch import Watch

MOST_WAYS: Final = 8
"""Ways of a table to be doubtful whose watchers are kept."""


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

    def add(self, watch: Watch) -> None:
        self.watches[watch] = None
        if watch.is_rejecting:
            self.rejecting[watch] = None

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


class _Passing(Doubt):
    """One that nobody keeps: what is counted is shared out at once."""

    __slots__ = ()

    def count(self, error: str | None) -> None:
        super().count(error)
        self.settle()


class Doubts:
    """The doubtful watchers of a table, by which parts of the key are as expected and what they are.

    Of k fields any may be missing, in 2^k ways, and each way takes as much room as the table. So only the first few
    ways that occur are kept; for others those are found, at each event, that are listed under all of its parts.
    """

    def __init__(self) -> None:
        self._by_parts: dict[tuple[int, ...], dict[Any, Doubt]] = {}
        self._listed: dict[tuple[int, Any], dict[Watch, None]] | None = None  # by part and what that is

    def find(self, parts: tuple[int, ...], key: Any, entries: Iterable[tuple[Any, Watch]]) -> Doubt | None:
        """`entries` are all keys with their watchers: read once for each of the ways that are kept."""
        table = self._by_parts.get(parts)
        if table is None:
            if parts and len(self._by_parts) >= MOST_WAYS:
                return self._found(parts, key, entries)
            table = self._by_parts[parts] = {}
            for whole, watch in entries:
                _put(table, parts, whole, watch)
        return table.get(tuple(key[part] for part in parts))

    def _found(self, parts: tuple[int, ...], key: Any, entries: Iterable[tuple[Any, Watch]]) -> Doubt:
        if self._listed is None:
            self._listed = {}
            for whole, watch in entries:
                _list(self._listed, whole, watch)
        fewest, *others = sorted((self._listed.get((part, key[part]), {}) for part in parts), key=len)
        doubt = _Passing()
        for watch in fewest:
            if all(watch in other for other in others):
                doubt.add(watch)
        return doubt

    def add(self, keys: Iterable[Any], watch: Watch) -> None:
        for key in keys:
            for parts, table in self._by_parts.items():
                _put(table, parts, key, watch)
            if self._listed is not None:
                _list(self._listed, key, watch)

    def remove(self, keys: Iterable[Any], watch: Watch) -> None:
        """`keys` are those that it was added with; all of them go."""
        for key in keys:
            for parts, table in self._by_parts.items():
                _take(table, tuple(key[part] for part in parts), watch)
            if self._listed is not None:
                for place in enumerate(key):
                    _strike(self._listed, place, watch)

    def settle(self) -> None:
        for table in self._by_parts.values():
            for doubt in table.values():
                doubt.settle()


def _put(table: dict[Any, Doubt], parts: tuple[int, ...], key: Any, watch: Watch) -> None:
    doubt = table.setdefault(tuple(key[part] for part in parts), Doubt())
    doubt.settle()
    doubt.add(watch)


def _take(table: dict[Any, Doubt], known: tuple[Any, ...], watch: Watch) -> None:
    doubt = table.get(known)
    if doubt is not None and watch in doubt.watches:
        doubt.settle()
        del doubt.watches[watch]
        doubt.rejecting.pop(watch, None)
        if not doubt.watches:
            del table[known]


def _list(listed: dict[tuple[int, Any], dict[Watch, None]], key: Any, watch: Watch) -> None:
    for place in enumerate(key):
        listed.setdefault(place, {})[watch] = None


def _strike(listed: dict[tuple[int, Any], dict[Watch, None]], place: tuple[int, Any], watch: Watch) -> None:
    watches = listed.get(place)
    if watches is not None:
        watches.pop(watch, None)
        if not watches:
            del listed[place]
