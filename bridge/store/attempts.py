"""Tries of Python watchers that must survive a restart: those that failed, and the one that the process may die of.

An event is `opened` when its try is the only one in the whole process. If the process dies, the next one finds it still
open, and that death is counted against it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, func, null, select, update

from bridge.ports import AttemptRow, ClosedRow, ForgetRow, OpenedRow, Prior
from bridge.store.schema import attempts
from bridge.store.statements import Statements
from bridge.store.writer import Transaction

Triple = tuple[str, str, str]  # source, watcher, identity


class Attempts:
    """Writes and reads attempts."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def note(self, tx: Transaction, rows: Sequence[AttemptRow | OpenedRow | ClosedRow | ForgetRow]) -> None:
        """In their order, and many at once where nothing is opened between them."""
        waiting: list[AttemptRow | ForgetRow] = []
        for row in rows:
            if isinstance(row, OpenedRow | ClosedRow):
                self._write(tx, waiting)
                waiting = []
                close_opened(tx)
                if isinstance(row, OpenedRow):
                    _open(tx, row)
            else:
                waiting.append(row)
        self._write(tx, waiting)

    def _write(self, tx: Transaction, rows: Sequence[AttemptRow | ForgetRow]) -> None:
        """The last word about an event counts: a try that failed and its end may come in one commit."""
        last = {_triple(row): row for row in rows}
        failed = [(*t, row.tries, row.error, tx.now) for t, row in last.items() if isinstance(row, AttemptRow)]
        tx.many(self._statements.put_attempt, sorted(failed))
        tx.many(self._statements.forget, sorted(t for t, row in last.items() if isinstance(row, ForgetRow)))

    def prior(self, tx: Transaction, source: str) -> dict[tuple[str, str], Prior]:
        """Of the events of a source, by (watcher, identity)."""
        columns = attempts.c
        deaths = func.coalesce(columns.deaths, 0)
        query = select(columns.watcher, columns.identity, columns.tries, deaths).where(columns.source == source)
        return {(watcher, identity): Prior(*counts) for watcher, identity, *counts in tx.connection.execute(query)}


def charge_deaths(tx: Transaction) -> None:
    """What is open when a process starts is what an earlier one died of: a clean end leaves nothing open."""
    columns = attempts.c
    died = update(attempts).where(columns.opened.is_not(None))
    tx.connection.execute(died.values(opened=null(), deaths=func.coalesce(columns.deaths, 0) + 1))


def close_opened(tx: Transaction) -> None:
    """Nothing is open any more. Rows that hold nothing else go."""
    columns = attempts.c
    is_open = columns.opened.is_not(None)
    nothing_else = (columns.tries == 0) & (func.coalesce(columns.deaths, 0) == 0)
    tx.connection.execute(delete(attempts).where(is_open, nothing_else))
    tx.connection.execute(update(attempts).where(is_open).values(opened=null()))


def _open(tx: Transaction, row: OpenedRow) -> None:
    source, watcher, identity = _triple(row)
    new = tx.database.insert(attempts).values(
        source=source, watcher=watcher, identity=identity, tries=0, error="", updated_at=tx.now, opened=tx.now,
        deaths=row.deaths,
    )  # fmt: skip
    kept = {name: new.excluded[name] for name in ("updated_at", "opened", "deaths")}
    tx.connection.execute(new.on_conflict_do_update(index_elements=["source", "watcher", "identity"], set_=kept))


def _triple(row: AttemptRow | OpenedRow | ForgetRow) -> Triple:
    return row.source, row.watcher, row.identity
