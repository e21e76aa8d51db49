"""Leases on run requests: who may launch a run, and until when."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, Final

from sqlalchemy import select, update

from bridge.ports import Claim
from bridge.store.options import InstanceId
from bridge.store.schema import instances, runs, watchers
from bridge.store.statements import Statements, is_held
from bridge.store.writer import Transaction

_STEP_MOST: Final = 1.0  # seconds that the clock may go back without anything to mend
_CLAIM_MOST: Final = 5000  # rows of one claim, whatever is asked for: it is one statement


class Claims:
    """Claims the oldest runs that are due.

    Where watchers are held, their runs lie in front of the others in the index for as long as it lasts; `floors` keep
    how far a target's walk has come, so that they are passed over once and not at every claim. A row that becomes
    claimable later is due later, except when the clock goes back.
    """

    def __init__(self, statements: Statements, instance: InstanceId) -> None:
        self._statements = statements
        self._instance = instance
        self._any_held: bool | None = None
        self._floors: dict[str, float] = {}
        self._latest = inf  # the first claim has to look

    def look_again(self) -> None:
        """Some watcher may be held now, or no longer."""
        self._any_held = None
        self._floors.clear()

    def start_again(self) -> None:
        """A claim may have been rolled back, or this is another connection: what was learnt may be wrong."""
        self.look_again()
        self._latest = inf

    def claim(self, tx: Transaction, target: str, limit: int, lease: float) -> list[Claim]:
        self._notice_clock(tx)
        until = tx.now + lease
        rows = self._claimable(tx, target, min(limit, _CLAIM_MOST), until)
        if rows:
            ids = tx.database.pack([row[-2] for row in rows])
            taken = (until, tx.now, self._instance.id, self._instance.host, ids)
            tx.connection.exec_driver_sql(self._statements.take, taken)
        return [_claim(row, self._instance.host) for row in rows]

    def _claimable(self, tx: Transaction, target: str, limit: int, until: float) -> Sequence[Sequence[Any]]:
        if self._any_held is None:
            self._any_held = tx.connection.execute(select(watchers.c.id).where(is_held()).limit(1)).first() is not None
        text = self._statements.claimable_past_held if self._any_held else self._statements.claimable
        floor = self._floors.get(target, 0.0) if self._any_held else 0.0
        found = tx.connection.exec_driver_sql(text, (until, target, floor, tx.now, limit)).all()
        if self._any_held:
            self._floors[target] = (found[-1][-1] if len(found) == limit else tx.now) - _STEP_MOST
        return found

    def _notice_clock(self, tx: Transaction) -> None:
        if tx.now < self._latest - _STEP_MOST:
            self._floors.clear()
            bring_back(tx)
            self._latest = tx.now
        self._latest = max(self._latest, tx.now)


def _claim(row: Sequence[Any], host: str) -> Claim:
    """`row` as `Statements.claimable` gives it. A run stays with the host that launched it first."""
    return Claim(
        row[0], row[1], row[2], row[3], row[4], bool(row[5]),
        row[6], row[7], row[8], row[9], row[10], row[11], row[12], row[13], row[14] or host,
    )  # fmt: skip


def bring_back(tx: Transaction) -> None:
    """Rows that were written while the clock was ahead keep their delay, counted from now: they would wait for ever."""
    columns = runs.c
    tx.connection.execute(
        update(runs)
        .where(columns.due > tx.now, columns.updated_at > tx.now)
        .values(due=tx.now + (columns.due - columns.updated_at), updated_at=tx.now)
    )


def release_dead(tx: Transaction, instance: InstanceId) -> None:
    """The leases of earlier instances of this host end: the lock on the file proves that they are gone."""
    earlier = select(instances.c.id).where(instances.c.host == instance.host)
    tx.connection.execute(
        update(runs).where(runs.c.due.is_not(None), runs.c.state == "dispatching", runs.c.claimed_by.in_(earlier))
        .values(due=0.0)
    )  # fmt: skip
