"""Run requests that have a business key (targets.md, "Only once", the second level).

Of those of a watcher with an equal key the first holds it and is started; the others are rows in state `suppressed`
that name it, until the holder's time is over. It counts from when the holder was stored, whatever becomes of its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct
from sqlalchemy import func, select

from bridge.ports import RunRow
from bridge.store.rules import KeyHolder, storable_key
from bridge.store.schema import business_keys, runs
from bridge.store.statements import Statements, run_fields
from bridge.store.writer import Transaction

_LOOK_UP_MOST: Final = 500  # parameters of one statement

Name = tuple[str, str]  # watcher id, key


class _Request(Struct):
    """A new run request, and what it holds if its key is free."""

    number: int
    row: RunRow
    name: Name
    wanted: KeyHolder


class KeyedRuns:
    """Writes run requests with a key. That they are new messages was found out before, by their run keys."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    def insert(self, tx: Transaction, rows: Sequence[tuple[int, RunRow]], commit_id: str) -> int:
        """Writes them, with the ids that are given, and returns how many of them were suppressed."""
        requests = [_request(number, row, tx.now) for number, row in rows]
        holders = self._hold(tx, requests)
        values = [_values(request, holders[request.name], tx.now, commit_id) for request in requests]
        tx.many(self._statements.insert_keyed_runs, values)
        return sum(value[-1] is not None for value in values)

    def suppressed_among(self, tx: Transaction, ids: Sequence[int]) -> int:
        """How many of these runs were suppressed when they were stored."""
        found = 0
        for start in range(0, len(ids), _LOOK_UP_MOST):
            asked = runs.c.id.in_(ids[start : start + _LOOK_UP_MOST]) & runs.c.suppressed_by.is_not(None)
            found += tx.connection.execute(select(func.count()).select_from(runs).where(asked)).scalar_one()
        return found

    def _hold(self, tx: Transaction, requests: Iterable[_Request]) -> dict[Name, KeyHolder]:
        """Who holds each key now: the first of these that asks for it, unless somebody has it.

        In the order of the keys, so that two instances never wait for each other.
        """
        firsts: dict[Name, KeyHolder] = {}
        for request in requests:
            firsts.setdefault(request.name, request.wanted)
        values = [(*name, *wanted, tx.now) for name, wanted in sorted(firsts.items())]
        return firsts if tx.many(self._statements.hold_keys, values) == len(firsts) else _holders_of(tx, firsts)


def _holders_of(tx: Transaction, names: Iterable[Name]) -> dict[Name, KeyHolder]:
    keys_of: dict[str, list[str]] = {}
    for watcher, key in names:
        keys_of.setdefault(watcher, []).append(key)
    holders: dict[Name, KeyHolder] = {}
    columns = business_keys.c
    for watcher, keys in keys_of.items():
        for start in range(0, len(keys), _LOOK_UP_MOST):
            asked = (columns.watcher == watcher) & columns.key.in_(keys[start : start + _LOOK_UP_MOST])
            query = select(columns.key, columns.holder, columns.expires_at).where(asked)
            holders.update(((watcher, row[0]), KeyHolder(row[1], row[2])) for row in tx.connection.execute(query))
    return holders


def _request(number: int, row: RunRow, now: float) -> _Request:
    wanted = KeyHolder(row.run_key, now + (row.run.plan.key_ttl or 0.0))
    return _Request(number, row, (row.watcher, storable_key(row.key or "")), wanted)


def _values(request: _Request, holder: KeyHolder, now: float, commit_id: str) -> tuple[Any, ...]:
    """As `Statements.insert_keyed_runs` takes them.

    The time is compared too: the holder may be this very message, from before its run key was forgotten.
    """
    free = holder == request.wanted
    return (
        request.number, now if free else None, now, now, commit_id, "pending" if free else "suppressed",
        *run_fields(request.row), request.name[1], holder.until, None if free else holder.run_key,
    )  # fmt: skip
