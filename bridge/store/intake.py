"""Run requests into the outbox, each at most once for its run key (targets.md, "Only once", the level of deliveries).

A key is taken or not: one statement for all, and its row count says whether there is anything else to do. Ids are
given out here, so that what was inserted just now can be told from what an earlier run of this commit inserted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, structs
from sqlalchemy import func, select

from bridge.ports import ResultRow, RunRow
from bridge.store.keyed import KeyedRuns
from bridge.store.rules import conflict_key
from bridge.store.schema import run_keys, runs
from bridge.store.statements import Statements, run_fields
from bridge.store.writer import Transaction

_LOOK_UP_MOST: Final = 500  # parameters of one statement


class Taken(Struct):
    """What became of the run requests of a commit. A row counts as stored or as suppressed."""

    stored: int = 0
    suppressed: int = 0
    repeats: list[str] = []
    conflicts: list[str] = []


class _Known(NamedTuple):
    """A key that is in the table."""

    id: int
    digest: bytes
    commit_id: str


class Intake:
    """Writes run requests and what became of them. `next_id` is one past every id that was ever given out."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._keyed = KeyedRuns(statements)
        self._next_id = 1

    def refresh(self, tx: Transaction) -> None:
        """Reads where ids go on. Runs outlive their keys only by mistake, but an id is never given out twice."""
        highest = [tx.connection.execute(select(func.max(c.id))).scalar() or 0 for c in (run_keys.c, runs.c)]
        self._next_id = max(self._next_id, *(h + 1 for h in highest))

    def store(self, tx: Transaction, rows: Sequence[RunRow], commit_id: str) -> Taken:
        """Keys in the order of the keys, so that two instances never wait for each other; runs as they came."""
        ids = range(self._next_id, self._next_id + len(rows))
        self._next_id = ids.stop
        now = tx.now
        keyed = sorted([(row.run_key, i, row.digest) for i, row in zip(ids, rows, strict=True)])
        inserted = tx.many(
            self._statements.insert_keys, [(i, key, digest, commit_id, now, now) for key, i, digest in keyed]
        )
        if inserted == len(rows):
            suppressed = self._insert(tx, list(zip(ids, rows, strict=True)), commit_id)
            return Taken(len(rows) - suppressed, suppressed)
        return self._sort_out(tx, rows, ids, commit_id)

    def _insert(self, tx: Transaction, rows: Sequence[tuple[int, RunRow]], commit_id: str) -> int:
        """Returns how many of them are not to be started, because another run holds their business key."""
        now = tx.now
        keyed = [(i, row) for i, row in rows if row.run.key is not None and row.key is not None]
        if keyed:
            rows = [(i, row) for i, row in rows if row.key is None]
        tx.many(self._statements.insert_runs, [(i, now, now, now, commit_id, *run_fields(row)) for i, row in rows])
        return self._keyed.insert(tx, keyed, commit_id) if keyed else 0

    def _sort_out(self, tx: Transaction, rows: Sequence[RunRow], ids: range, commit_id: str) -> Taken:
        """Some keys were there: by an earlier run of this very commit, as a repeat, or with other bytes."""
        known = self._look_up(tx, [row.run_key for row in rows])
        taken = Taken()
        fresh: list[tuple[int, RunRow]] = []
        before: list[int] = []
        others: list[RunRow] = []
        repeated: Counter[int] = Counter()
        ours: set[str] = set()
        for i, row in zip(ids, rows, strict=True):
            key = known[row.run_key]
            if key.digest != row.digest:
                others.append(row)
            elif key.commit_id != commit_id or row.run_key in ours:
                taken.repeats.append(row.run_key)
                repeated[key.id] += 1
            else:
                ours.add(row.run_key)
                taken.stored += 1
                if key.id == i:
                    fresh.append((i, row))
                elif row.key is not None:
                    before.append(key.id)
        taken.suppressed = self._insert(tx, fresh, commit_id) + self._keyed.suppressed_among(tx, before)
        taken.stored -= taken.suppressed
        counts = [(tx.now, times, commit_id, key, commit_id) for key, times in sorted(repeated.items())]
        tx.many(self._statements.count_repeats, counts)
        if others:
            self._store_apart(tx, others, commit_id, taken)
        return taken

    def _store_apart(self, tx: Transaction, rows: list[RunRow], commit_id: str, taken: Taken) -> None:
        """Other bytes under a key that is taken are no repeat: they get a key of their own, and are reported."""
        apart = [structs.replace(row, run_key=conflict_key(row.run_key, row.digest)) for row in rows]
        then = self.store(tx, apart, commit_id)
        taken.stored += then.stored
        taken.suppressed += then.suppressed
        taken.repeats += then.repeats
        new = Counter(row.run_key for row in apart) - Counter(then.repeats)
        taken.conflicts += dict.fromkeys(
            row.run_key for row, moved in zip(rows, apart, strict=True) if moved.run_key in new
        )

    def _look_up(self, tx: Transaction, keys: list[str]) -> dict[str, _Known]:
        known: dict[str, _Known] = {}
        columns = run_keys.c
        for start in range(0, len(keys), _LOOK_UP_MOST):
            wanted = columns.run_key.in_(keys[start : start + _LOOK_UP_MOST])
            query = select(columns.run_key, columns.id, columns.digest, columns.commit_id).where(wanted)
            known.update((row[0], _Known(*row[1:])) for row in tx.connection.execute(query))
        return known

    # results ---------------------------------------------------------------------------------------------------------

    def settle(self, tx: Transaction, rows: Sequence[ResultRow], commit_id: str) -> int:
        """Writes what targets said and returns how many results were stale: of an older claim, or given twice."""
        now = tx.now
        values: list[tuple[Any, ...]] = [
            (
                max(row.not_before, now) if row.state == "pending" else None,
                now, commit_id, row.state, row.run_id, row.url, row.error, row.run_key, row.epoch,
            )
            for row in rows
        ]  # fmt: skip
        if tx.many(self._statements.results, values) == len(rows):
            return 0
        wanted = {(row.run_key, row.epoch) for row in rows}
        keys = [key for key, _ in wanted]
        written = 0
        for start in range(0, len(keys), _LOOK_UP_MOST):
            query = (
                select(run_keys.c.run_key, runs.c.claim_epoch)
                .join(runs, runs.c.id == run_keys.c.id)
                .where(run_keys.c.run_key.in_(keys[start : start + _LOOK_UP_MOST]), runs.c.commit_id == commit_id)
            )
            written += sum((key, epoch) in wanted for key, epoch in tx.connection.execute(query))
        return len(rows) - written
