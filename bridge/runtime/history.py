"""What is written of the earlier tries of a stream's events: read when a life starts, kept up with what that adds.

A message that the broker delivers again within one life (a lane that came back, `retry: {mode: broker}`) goes on with
the budget that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.core.model import Attempt, Forget, Opened, Record
from bridge.ports import Prior
from bridge.runtime.rows import Source

MOST: Final = 100_000
"""Events that are remembered. What failed here and went elsewhere stays until the life ends; the oldest go first."""


class History:
    """`bridge.core.tries.History` by (watcher, identity). Without identities nothing is known of anything."""

    def __init__(self, source: Source, known: Mapping[tuple[str, str], Prior] = {}) -> None:
        self._source = source
        self._known: dict[tuple[str, str], Prior] = dict(known)

    def __bool__(self) -> bool:
        return bool(self._known)

    def __call__(self, watcher: str, payload: Any) -> Prior | None:
        """Raises what `identity` of the producer raises."""
        return self._known.get((watcher, self._source.identity_of(payload)))

    def take(self, records: Iterable[Record]) -> None:
        """These go into the store now. Raises what `identity` of the producer raises."""
        if self._source.identity is None:
            return
        for record in records:
            if isinstance(record, Attempt | Opened | Forget):
                self._take(record, (record.watcher, self._source.identity_of(record.payload)))
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def _take(self, record: Attempt | Opened | Forget, event: tuple[str, str]) -> None:
        if isinstance(record, Attempt):
            self._known.pop(event, None)  # what is still tried is not the oldest
            self._known[event] = Prior(record.tries)
        elif isinstance(record, Opened):
            self._known.setdefault(event, Prior(0, record.deaths))
        else:
            self._known.pop(event, None)
