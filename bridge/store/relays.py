"""Dead letters on their way to the broker's own place: which are due, and what came of copying them.

A letter that waits has `relay_due`. Those that were superseded, replayed or dropped lose it: what nobody waits for any
more is not copied. While a letter is replayed it is left alone; refused once more, it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import func, null, select, update

from bridge.ports import Letter, RelayedRow
from bridge.store.rules import OPEN_LETTERS, headers_of, storable, within
from bridge.store.schema import dead_letters
from bridge.store.writer import Transaction

_FIELDS: Final = (
    "id", "watcher", "stream", "identity", "position", "body", "key", "headers", "timestamp", "reason", "error",
    "attempts", "created_at", "relay_failures", "tombstone",
)  # fmt: skip


class Relays:
    """Leases letters that are due, and writes what came of them. `store_id` is told once the store is open."""

    def __init__(self) -> None:
        self.store_id = ""

    def claim(self, tx: Transaction, stream: str, limit: int, lease: float) -> list[Letter]:
        """Those that have been due longest; fewer than `limit` where their bytes are many."""
        letters = dead_letters.c
        due = (
            select(letters.id, func.length(letters.body))
            .where(letters.stream == stream, letters.relay_due <= tx.now, letters.state == "dead")
            .order_by(letters.relay_due, letters.id)
            .limit(limit)
        )
        ids = within([(int(number), int(size)) for number, size in tx.connection.execute(due)])
        if not ids:
            return []
        taken = letters.id.in_(ids)
        tx.connection.execute(update(dead_letters).where(taken).values(relay_due=tx.now + lease))
        found = tx.connection.execute(select(*(letters[name] for name in _FIELDS)).where(taken))
        by_id = {row["id"]: self._letter(**row) for row in found.mappings()}
        return [by_id[number] for number in ids]

    def relayed(self, tx: Transaction, rows: Sequence[RelayedRow]) -> None:
        for row in rows:
            _note(tx, row)

    def _letter(self, **row: Any) -> Letter:
        number, failures = row.pop("id"), row.pop("relay_failures") or 0
        if row.pop("tombstone"):
            row["body"] = None
        known = {"number": number, "id": letter_id(self.store_id, number), "failures": failures}
        return Letter(**{**row, **known, "headers": headers_of(row["headers"])})


def letter_id(store_id: str, number: int) -> str:
    """The same for every copy of a dead letter, and no other store's."""
    return f"{store_id}:{number}"


def release_letters(tx: Transaction) -> None:
    """What an earlier process had in hand, or put off, is due at once for the one that starts."""
    letters = dead_letters.c
    tx.connection.execute(update(dead_letters).where(letters.relay_due > tx.now).values(relay_due=tx.now))


def _note(tx: Transaction, row: RelayedRow) -> None:
    letters = dead_letters.c
    mine = update(dead_letters).where(letters.id == row.dead_letter)
    if not row.error:
        tx.connection.execute(mine.values(relayed_at=tx.now, relay_due=null(), relay_error=null()))
        return
    failed = mine.values(relay_error=storable(row.error), relay_failures=func.coalesce(letters.relay_failures, 0) + 1)
    tx.connection.execute(failed.where(letters.relayed_at.is_(None)))
    waits = mine.values(relay_due=row.due).where(letters.relay_due.is_not(None), letters.state.in_(OPEN_LETTERS))
    tx.connection.execute(waits)
