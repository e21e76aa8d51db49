"""Watchers of which a look-up can't say that they don't match: their key has a field that the event lacks.

None of them matches, and yet each wants to have it counted. Where they are many, that is done together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge.filters.watch import Watch


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
