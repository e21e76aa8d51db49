"""Dead letters, and what replaces them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from sqlalchemy import select

from bridge.core.model import EVERY_WATCHER, TOMBSTONE
from bridge.ports import DeadLetterRow, Replay, ReplayedRow, RunRow
from bridge.store.rules import OPEN_LETTERS, is_whole, storable_letter
from bridge.store.schema import dead_letters
from bridge.store.statements import Statements
from bridge.store.writer import Transaction

_REMEMBERED_MOST: Final = 100_000
_OF_REPLAYS: Final = (
    "id", "watcher", "stream", "source", "identity", "position", "body", "timestamp", "key", "headers", "tombstone",
)  # fmt: skip


class Letters:
    """Writes dead letters, and marks them.

    It remembers a hash of every open dead letter, so that a run request costs a look into a set and no statement to
    find out that it supersedes none. Past `_REMEMBERED_MOST` it asks the database about every run request instead.
    """

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._open: set[int] = set()
        self._too_many = False

    def refresh(self, tx: Transaction) -> None:
        letters = dead_letters.c
        query = select(letters.watcher, letters.source, letters.identity).where(letters.state.in_(OPEN_LETTERS))
        found = tx.connection.execute(query.limit(_REMEMBERED_MOST + 1)).all()
        self._open = {hash(tuple(row)) for row in found}
        self._too_many = len(found) > _REMEMBERED_MOST

    @property
    def is_overflowing(self) -> bool:
        """It remembers no longer, but would again after `refresh` if enough of them have been settled."""
        return self._too_many

    # dead letters ----------------------------------------------------------------------------------------------------

    def supersede(self, tx: Transaction, rows: Sequence[RunRow], commit_id: str) -> None:
        """A run request of an event replaces the dead letter of its watcher, and that of "nobody can read it"."""
        if not self._open:
            return
        found: list[tuple[str, str, str, str]] = []
        for row in rows:
            for watcher in (row.watcher, EVERY_WATCHER):
                triple = (watcher, row.source, row.identity)
                if self._too_many or hash(triple) in self._open:
                    found.append((*triple, row.stream))
        tx.many(self._statements.supersede, [(tx.now, *letter, commit_id) for letter in found])

    def put(self, tx: Transaction, rows: Sequence[DeadLetterRow], commit_id: str) -> None:
        values: list[tuple[Any, ...]] = []
        for given in rows:
            row = storable_letter(given)
            triple = (row.watcher, row.source, row.identity)
            self._open.add(hash(triple))
            values.append(
                (
                    *triple, int(is_whole(row)), row.stream, row.position, row.reason, row.error, row.attempts,
                    row.timestamp, row.received_at, tx.now, tx.now, commit_id, row.key, row.headers, row.body,
                    int(row.tombstone), tx.now if row.relays else None,
                )
            )  # fmt: skip
        tx.many(self._statements.put_letter, values)
        self._too_many = self._too_many or len(self._open) > _REMEMBERED_MOST

    def replayed(self, tx: Transaction, rows: Sequence[ReplayedRow]) -> None:
        tx.many(self._statements.replayed, [(tx.now, row.dead_letter) for row in rows])

    # replays ---------------------------------------------------------------------------------------------------------

    def to_replay(self, tx: Transaction, stream: str, limit: int, under_way: Collection[int]) -> list[Replay]:
        """Those that somebody asked for and that are not under way, oldest first."""
        letters = dead_letters.c
        waiting = select(letters.id).where(letters.state == "replaying", letters.stream == stream).order_by(letters.id)
        ids = [i for i in tx.connection.execute(waiting).scalars() if i not in under_way][:limit]
        query = select(*(letters[name] for name in _OF_REPLAYS)).where(letters.id.in_(ids)).order_by(letters.id)
        return [_replay(**row) for row in tx.connection.execute(query).mappings()]


def _replay(**row: Any) -> Replay:
    """What stands for no body is told from the text `null` by its type."""
    number, tombstone = row.pop("id"), bool(row.pop("tombstone"))
    body = TOMBSTONE if tombstone else row.pop("body")
    return Replay(**{**row, "dead_letter": number, "body": body, "tombstone": tombstone})
