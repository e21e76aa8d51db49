"""The versions of the schema: a newer one is refused, an older one is brought forward when an instance opens it.

Each step adds what its version added, in the transaction in which the store is opened: all of it, or nothing. It takes
the tables from the schema as long as these are still what its version made; whoever changes them spells the step out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Column, Table, select, update
from sqlalchemy.schema import CreateColumn

from bridge.core.errors import StoreRefused
from bridge.store.schema import SCHEMA_VERSION, attempts, business_keys, dead_letters, meta, places, runs
from bridge.store.writer import Transaction


def check_schema(tx: Transaction, path: str) -> str:
    """The store's id. Raises StoreRefused when the tables are not those that this program knows."""
    version, store_id = _found(tx, path)
    if version < SCHEMA_VERSION:
        raise StoreRefused(
            f"the store {path} has schema version {version}, and this program reads {SCHEMA_VERSION}: start "
            "`headrace run`, which brings it forward"
        )
    return store_id


def bring_forward(tx: Transaction, path: str) -> str:
    """The store's id. Raises StoreRefused when the tables are newer than this program."""
    version, store_id = _found(tx, path)
    if version < SCHEMA_VERSION:
        for step in _STEPS[version - 1 :]:
            step(tx)
        tx.connection.execute(update(meta).values(schema_version=SCHEMA_VERSION))
    return store_id


def _found(tx: Transaction, path: str) -> tuple[int, str]:
    version, store_id = tx.connection.execute(select(meta.c.schema_version, meta.c.store_id)).one()
    if not 1 <= version <= SCHEMA_VERSION:
        raise StoreRefused(
            f"the store {path} has schema version {version}, and this program knows {SCHEMA_VERSION}: "
            "run the version of headrace that made it, or a later one"
        )
    return int(version), str(store_id)


def _add(tx: Transaction, table: Table, *columns: Column[object]) -> None:
    for column in columns:
        written = CreateColumn(column).compile(dialect=tx.database.dialect)
        tx.connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {written}")


def _to_2(tx: Transaction) -> None:
    """Business keys."""
    _add(tx, runs, runs.c.key, runs.c.key_until, runs.c.suppressed_by)
    business_keys.create(tx.connection, checkfirst=False)


def _to_3(tx: Transaction) -> None:
    """Relays, tombstones, places, and tries that a process may die of."""
    letters, tries = dead_letters.c, attempts.c
    relay = (letters.relay_due, letters.relayed_at, letters.relay_error, letters.relay_failures)
    _add(tx, dead_letters, letters.tombstone, *relay)
    _add(tx, attempts, tries.opened, tries.deaths)
    for table, name in ((dead_letters, "dead_letters_relay"), (attempts, "attempts_opened")):
        next(index for index in table.indexes if index.name == name).create(tx.connection)
    places.create(tx.connection, checkfirst=False)


_STEPS: Final[tuple[Callable[[Transaction], None], ...]] = (_to_2, _to_3)
"""The first leads from version 1 to 2."""
