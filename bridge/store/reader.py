"""The command line's side of a store: reads it while an instance runs, and leaves intents for that instance.

It takes no lock and never makes a file. What it changes itself is only what no instance holds in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import Struct
from sqlalchemy import ColumnElement, RowMapping, Select, bindparam, case, func, inspect, select, update

from bridge.core.errors import HeadraceError, StoreRefused, StoreUnavailable
from bridge.ports import RunState
from bridge.store.lock import read_trouble
from bridge.store.schema import attempts, dead_letters, instances, intents, meta, run_keys, runs, watchers
from bridge.store.sqlite import Sqlite, check_place, locate
from bridge.store.statements import is_held
from bridge.store.versions import check_schema
from bridge.store.views import (
    Counts,
    DeadLetterView,
    InstanceState,
    InstanceView,
    IntentView,
    LetterState,
    RunView,
    WatcherView,
    WholeDeadLetter,
)
from bridge.store.writer import Transaction

T = TypeVar("T")

SILENT_AFTER: Final = 15.0
"""Seconds without a sign of life, or three heartbeats where these are longer."""
_BUSY_TIMEOUT: Final = 5.0
_SINCE_3: Final[dict[str, int | str]] = {"tombstone": 0, "relay_error": "", "relay_failures": 0}
"""Columns of dead letters that are NULL in rows of an older schema, and what that means."""
_BEYOND: Final = "\U0010ffff"  # sorts after every text that goes on


class AmbiguousKey(HeadraceError):
    """The start of a run key that several runs have; `keys` holds some of them."""

    def __init__(self, prefix: str, keys: Sequence[str]) -> None:
        super().__init__(f"{prefix!r} is the start of several run keys: {', '.join(keys)}; give more of it")
        self.keys = tuple(keys)


def open_reader(url: str) -> Reader:
    """Raises StoreRefused: a bad URL, no store there, a schema that is newer, or older and not brought forward yet."""
    path = locate(url)
    check_place(path)
    if not os.path.exists(path):
        raise StoreRefused(f"there is no store {path} yet: headrace run makes it; check the store's URL otherwise")
    reader = Reader(Sqlite(path, busy_timeout=_BUSY_TIMEOUT, begin="BEGIN"))
    reader.check()
    return reader


class Reader:
    """Made by `open_reader`. Every call is a connection and a transaction of its own; it may raise StoreUnavailable."""

    def __init__(self, database: Sqlite) -> None:
        self._database = database

    def check(self) -> None:
        def is_store(tx: Transaction) -> None:
            if not inspect(tx.connection).has_table(meta.name):
                raise StoreRefused(f"{self._database.path} is not a store of headrace: check the store's URL")
            check_schema(tx, self._database.path)

        try:
            self._ask(is_store)
        except StoreUnavailable as error:
            raise StoreRefused(str(error)) from error

    # reading ---------------------------------------------------------------------------------------------------------

    def instances(self) -> list[InstanceView]:
        """The latest first."""
        query = select(instances).order_by(instances.c.started_at.desc())
        return self._ask(lambda tx: [_instance(row, tx.now) for row in tx.connection.execute(query).mappings()])

    def trouble(self) -> str:
        """Why the store takes no writes, from which process and since when; "" when it does, or nobody has it.

        An instance leaves it outside the database, so it is told while no heartbeat can be.
        """
        return read_trouble(self._database.lock_path)

    def counts(self, *, finished: bool = True) -> Counts:
        """`finished` False leaves out what is done for good, which takes a look at every run (1 s for a million)."""
        held = runs.c.watcher.in_(select(watchers.c.id).where(is_held()))
        by_state = select(_shown(held).label("shown"), runs.c.target, func.count()).group_by("shown", runs.c.target)
        queries = (
            [by_state.order_by("shown")]
            if finished
            else [by_state.where(runs.c.due.is_not(None)), by_state.where(runs.c.state == _literal("failed"))]
        )
        letters = dead_letters.c
        by_reason = select(letters.state, letters.reason, func.count()).group_by(letters.state, letters.reason)
        waits = letters.relay_due.is_not(None)
        to_relay = select(letters.stream, func.count()).where(waits).group_by(letters.stream).order_by(letters.stream)

        def count(tx: Transaction) -> Counts:
            by_target: list[Any] = [tuple(row) for query in queries for row in tx.connection.execute(query)]
            letters_by_reason: list[Any] = [tuple(row) for row in tx.connection.execute(by_reason)]
            tries = tx.connection.execute(select(func.count()).select_from(attempts)).scalar_one()
            relays: list[Any] = [tuple(row) for row in tx.connection.execute(to_relay)]
            return Counts(tuple(by_target), tuple(letters_by_reason), tries, tuple(relays))

        return self._ask(count)

    def runs(
        self,
        state: RunState | None = None,
        watcher: str | None = None,
        target: str | None = None,
        limit: int = 50,
    ) -> list[RunView]:
        """The latest first."""
        query = _run_query().order_by(runs.c.id.desc()).limit(limit)
        if state is not None:
            held = runs.c.watcher.in_(select(watchers.c.id).where(is_held()))
            stored = runs.c.state == _literal("pending" if state == "held" else state)
            query = query.where(stored)
            if state in ("pending", "held"):
                query = query.where(held if state == "held" else ~held)
        if watcher is not None:
            query = query.where(runs.c.watcher == watcher)
        if target is not None:
            query = query.where(runs.c.target == target)
        return self._ask(lambda tx: [RunView(**row) for row in tx.connection.execute(query).mappings()])

    def run(self, key: str) -> RunView | None:
        """The run of a key, or of the start of one. Raises AmbiguousKey when several start so."""
        exact = _run_query().where(run_keys.c.run_key == key)
        starting = run_keys.c.run_key.between(key, key + _BEYOND)
        similar = _run_query().where(starting).order_by(run_keys.c.run_key).limit(5)

        def find(tx: Transaction) -> RunView | None:
            found = tx.connection.execute(exact).mappings().all() or tx.connection.execute(similar).mappings().all()
            if len(found) > 1:
                raise AmbiguousKey(key, [row["run_key"] for row in found])
            return RunView(**found[0]) if found else None

        return self._ask(find)

    def dead_letters(
        self,
        state: LetterState | None = "dead",
        watcher: str | None = None,
        stream: str | None = None,
        reason: str | None = None,
        limit: int = 50,
    ) -> list[DeadLetterView]:
        """The latest first; `state` None: all of them."""
        columns = dead_letters.c
        query = select(*_letter_columns()).order_by(columns.id.desc()).limit(limit)
        wanted = (
            (columns.state, state),
            (columns.watcher, watcher),
            (columns.stream, stream),
            (columns.reason, reason),
        )
        for column, value in wanted:
            if value is not None:
                query = query.where(column == value)
        return self._ask(lambda tx: [_letter(row) for row in tx.connection.execute(query).mappings()])

    def dead_letter(self, number: int) -> WholeDeadLetter | None:
        columns = dead_letters.c
        query = select(*_letter_columns(), columns.key, columns.headers, columns.body).where(columns.id == number)

        def find(tx: Transaction) -> WholeDeadLetter | None:
            row = tx.connection.execute(query).mappings().first()
            return None if row is None else WholeDeadLetter(_letter(row), row["key"], row["headers"], row["body"])

        return self._ask(find)

    def watchers(self) -> list[WatcherView]:
        """By id; removed ones too."""
        query = select(watchers).order_by(watchers.c.id)
        return self._ask(lambda tx: [WatcherView(**row) for row in tx.connection.execute(query).mappings()])

    # asking ----------------------------------------------------------------------------------------------------------

    def post(
        self,
        kind: Literal["pause", "resume", "disable", "enable", "replay", "retry"],
        *,
        watcher: str = "",
        skip: bool = False,
        run_keys: Sequence[str] = (),
        dead_letters: Sequence[int] = (),
    ) -> int:
        """Leaves an intent for the instance that runs, or the next one, and returns its id.

        `retry` is about `run_keys`, `replay` about ids of `dead_letters`, the others about a `watcher`.
        """
        about = msgspec.json.encode([*run_keys, *dead_letters])

        def put(tx: Transaction) -> int:
            row = intents.insert().values(
                kind=kind, watcher=watcher, skip=skip, about=about, posted_at=tx.now, outcome=""
            )
            return int(tx.connection.execute(row.returning(intents.c.id)).scalar_one())

        return self._ask(put)

    def intent(self, number: int) -> IntentView | None:
        columns = intents.c
        query = select(
            columns.id, columns.kind, columns.watcher, columns.skip, columns.posted_at, columns.done_at, columns.outcome
        ).where(columns.id == number)

        def find(tx: Transaction) -> IntentView | None:
            row = tx.connection.execute(query).mappings().first()
            return None if row is None else IntentView(**row)

        return self._ask(find)

    def intent_done(self, number: int) -> bool:
        found = self.intent(number)
        return found is not None and found.done_at is not None

    def drop_dead_letters(self, numbers: Sequence[int]) -> int:
        """Gives up dead letters that wait, and returns how many did. They are kept for a while, and listed.

        Those that were to be copied to the broker's place are not any more.
        """
        columns = dead_letters.c

        def drop(tx: Transaction) -> int:
            which = columns.id.in_(list(numbers)) & (columns.state == "dead")
            change = update(dead_letters).where(which).values(state="dropped", updated_at=tx.now, relay_due=None)
            return tx.connection.execute(change).rowcount

        return self._ask(drop)

    def _ask(self, question: Callable[[Transaction], T]) -> T:
        try:
            with self._database.connect(create=False) as connection, connection.begin():
                now = connection.execute(select(self._database.clock())).scalar_one()
                return question(Transaction(connection, self._database, now))
        except HeadraceError:
            raise
        except Exception as error:
            if self._database.verdict(error) is None:
                raise
            raise StoreUnavailable(self._database.explain(error)) from error


def _literal(state: str) -> ColumnElement[str]:
    """In the statement itself, so that an index of a single state is found."""
    return bindparam(None, state, literal_execute=True)


def _shown(held: ColumnElement[bool]) -> ColumnElement[str]:
    return case(((runs.c.state == "pending") & held, "held"), else_=runs.c.state)


def _run_query() -> Select[Any]:
    held = runs.c.watcher.in_(select(watchers.c.id).where(is_held()))
    plain = [runs.c[name] for name in RunView.__struct_fields__ if name not in ("state", "repeats")]
    return select(*plain, _shown(held).label("state"), run_keys.c.repeats).join(run_keys, run_keys.c.id == runs.c.id)


def _letter_columns() -> list[ColumnElement[Any]]:
    columns = dead_letters.c
    names = [name for name in DeadLetterView.__struct_fields__ if name not in ("size", *_SINCE_3)]
    size = case((columns.tombstone == 1, 0), else_=func.length(columns.body)).label("size")
    later = [func.coalesce(columns[name], none).label(name) for name, none in _SINCE_3.items()]
    return [*(columns[name] for name in names), size, *later]


def _letter(row: RowMapping) -> DeadLetterView:
    values = {name: row[name] for name in DeadLetterView.__struct_fields__}
    return DeadLetterView(**{**values, "whole": bool(row["whole"]), "tombstone": bool(row["tombstone"])})


def _instance(row: RowMapping, now: float) -> InstanceView:
    seen_ago = max(0.0, now - row["heartbeat_at"])
    state: InstanceState = "running" if seen_ago < max(SILENT_AFTER, 3 * _heartbeat(row["status"])) else "silent"
    if row["ended_at"] is not None:
        state = "ended"
    elif row["crashed_at"] is not None:
        state = "crashed"
    plain = ("id", "host", "pid", "version", "started_at", "heartbeat_at", "status")
    return InstanceView(**{name: row[name] for name in plain}, state=state, seen_ago=seen_ago)


def _heartbeat(status: bytes) -> float:
    """Seconds between two signs of life, as the instance says; 0 before its first."""
    try:
        return msgspec.json.decode(status, type=_Beat).heartbeat
    except msgspec.MsgspecError:
        return 0.0


class _Beat(Struct):
    heartbeat: float = 0.0
