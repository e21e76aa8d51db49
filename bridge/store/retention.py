"""What is forgotten, and when: in small transactions, so that commits wait for none of them long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlalchemy import Column, ColumnElement, Table, delete, func, or_, select, tuple_

from bridge.store.options import StoreOptions
from bridge.store.rules import FINISHED, OPEN_LETTERS, SETTLED_LETTERS
from bridge.store.schema import attempts, business_keys, dead_letters, instances, intents, run_keys, runs
from bridge.store.writer import Transaction

_STRIDE: Final = 2000  # rows looked at in one transaction
_STRIDES: Final = 10  # transactions for each large table in one call

Step = Callable[[Transaction], int]


class Pruning:
    """Removes what is past its time. Large tables are walked in the order of their ids, which is that of time.

    So no index is kept for it: a walk goes on where the last call left it, and starts anew when it has reached rows
    that are too young.
    """

    def __init__(self, options: StoreOptions) -> None:
        self._keep = options.retention
        self._horizon = options.dedupe_horizon
        self._walked: dict[str, int] = {}
        self._more_keys = False

    def steps(self) -> Iterator[Step]:
        """Transactions to run one after the other; each returns how many rows it removed."""
        for table, step in ((runs, self._runs), (run_keys, self._keys)):
            for _ in range(_STRIDES):
                yield step
                if not self._walked[table.name]:
                    break
        for _ in range(_STRIDES):
            yield self._business_keys
            if not self._more_keys:
                break
        yield self._letters
        yield self._others

    def _runs(self, tx: Transaction) -> int:
        """Finished runs, and later those that failed and that nobody retried. Never what is still to be started."""
        columns = runs.c
        finished = columns.state.in_(FINISHED) & (columns.updated_at < tx.now - self._keep.finished)
        given_up = (columns.state == "failed") & (columns.updated_at < tx.now - self._keep.open)
        youngest = tx.now - min(self._keep.finished, self._keep.open)
        return self._walk(tx, runs, columns.created_at, youngest, or_(finished, given_up))

    def _keys(self, tx: Transaction) -> int:
        """Run keys that were not seen within the horizon, but never the key of a run that is still there."""
        oldest = tx.now - self._horizon
        unused = ~select(runs.c.id).where(runs.c.id == run_keys.c.id).exists()
        return self._walk(tx, run_keys, run_keys.c.first_seen, oldest, (run_keys.c.last_seen < oldest) & unused)

    def _walk(self, tx: Transaction, table: Table, born: Column[float], oldest: float, old: ColumnElement[bool]) -> int:
        start = self._walked.get(table.name, 0)
        window = select(table.c.id, born).where(table.c.id > start).order_by(table.c.id).limit(_STRIDE).subquery()
        looked_at = select(func.count(), func.max(window.c.id), func.max(window.c[born.name]))
        count, last, youngest = tx.connection.execute(looked_at).one()
        at_end = count < _STRIDE or youngest >= oldest
        self._walked[table.name] = 0 if at_end else last
        if not count:
            return 0
        return tx.connection.execute(delete(table).where(table.c.id > start, table.c.id <= last, old)).rowcount

    def _business_keys(self, tx: Transaction) -> int:
        """Those whose time is over: they hold nothing back any more."""
        columns = business_keys.c
        over = select(columns.watcher, columns.key).where(columns.expires_at <= tx.now).limit(_STRIDE)
        which = tuple_(columns.watcher, columns.key).in_(over)
        removed = tx.connection.execute(delete(business_keys).where(which)).rowcount
        self._more_keys = removed == _STRIDE
        return removed

    def _letters(self, tx: Transaction) -> int:
        letters = dead_letters.c
        settled = letters.state.in_(SETTLED_LETTERS) & (letters.updated_at < tx.now - self._keep.dead_letters)
        waiting = letters.state.in_(OPEN_LETTERS) & (letters.updated_at < tx.now - self._keep.open)
        removed = 0
        for old in (settled, waiting):
            ids = select(letters.id).where(old).limit(_STRIDE)
            removed += tx.connection.execute(delete(dead_letters).where(letters.id.in_(ids))).rowcount
        return removed

    def _others(self, tx: Transaction) -> int:
        gone = tx.now - self._keep.instances
        ended = func.coalesce(instances.c.ended_at, instances.c.crashed_at)
        statements = (
            delete(attempts).where(attempts.c.updated_at < tx.now - self._horizon),
            delete(instances).where(ended < gone),
            delete(intents).where(intents.c.done_at < gone),
        )
        return sum(tx.connection.execute(statement).rowcount for statement in statements)
