"""The one thread that writes, and the one connection that it owns. What it is given runs in order, a transaction each.

Whatever goes wrong is rolled back here, told apart here (the data, now, the connection, a defect), and leaves a
connection that works or none: the next call opens a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from bridge.core.errors import StoreRefused, StoreUnavailable
from bridge.store.sqlite import Sqlite, Verdict
from bridge.store.statements import prepare

T = TypeVar("T")


class RefusedData(Exception):
    """The database will never take some row of this transaction, which was rolled back."""


class StoreFull(StoreUnavailable):
    """The file has grown as far as it may; the disk may have room."""


class Transaction:
    """One open transaction. `now` is the database's clock when it began, in seconds since 1970."""

    __slots__ = ("connection", "database", "now")

    def __init__(self, connection: Connection, database: Sqlite, now: float) -> None:
        self.connection = connection
        self.database = database
        self.now = now

    def many(self, text: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Runs one prepared statement for each tuple and returns how many rows it touched in all.

        Through the driver, past SQLAlchemy's handling of parameters, which costs more than SQLite's own work.
        """
        return self.connection.exec_driver_sql(text, rows).rowcount if rows else 0

    def refusal(self, work: Callable[[Transaction], object]) -> str | None:
        """Tries something and undoes it: why the database refuses its data, or None."""
        attempt = self.connection.begin_nested()
        try:
            work(self)
        except Exception as error:
            if self.database.verdict(error) is not Verdict.DATA:
                raise
            return str(error.orig if isinstance(error, DBAPIError) else error)
        finally:
            attempt.rollback()
        return None


class Writer:
    """Runs transactions one after the other on a thread of its own.

    `opened` is called in the first transaction of every connection, also of one that replaces a broken one.
    """

    def __init__(
        self, database: Sqlite, opened: Callable[[Transaction], None], now: Callable[[], float] | None = None
    ) -> None:
        self._database = database
        self._opened = opened
        self._now = now
        self._clock = prepare(select(database.clock()), database.dialect)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="headrace-store")
        self._connection: Connection | None = None
        self._file: tuple[int, int] | None = None
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Calls `work` on the writer's thread, after everything that was given before."""
        if self._closed:
            raise StoreRefused(f"the store {self._database.path} is closed")
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        return await self.run(lambda: self.transact(work))

    async def aclose(self) -> None:
        """Copies the log back, closes the connection and ends the thread. Once; never fails."""
        if not self._closed:
            self._closed = True
            try:
                await asyncio.get_running_loop().run_in_executor(self._pool, self._close)
            finally:
                self._pool.shutdown(wait=False)

    # on the writer's thread ------------------------------------------------------------------------------------------

    def transact(self, work: Callable[[Transaction], T], *, create: bool = False, intake: bool = False) -> T:
        """One transaction around `work`: all of it, or none and StoreUnavailable (StoreFull) or RefusedData."""
        try:
            connection = self._ready(create=create)
            self._database.limit(connection, intake=intake)
            begun = connection.begin()
            result = work(self._transaction(connection))
            self.confirm(begun.commit)
        except BaseException as error:
            told = self._undone(error)
            if told is error:
                raise
            raise told from error
        return result

    def confirm(self, commit: Callable[[], None]) -> None:
        """The moment at which a transaction becomes durable; past it, an error no longer says that it did not."""
        commit()

    def _transaction(self, connection: Connection) -> Transaction:
        now = self._now() if self._now else float(connection.exec_driver_sql(self._clock).scalar_one())
        return Transaction(connection, self._database, now)

    def _ready(self, *, create: bool) -> Connection:
        """The connection, if the file is still the one that it was; else a new one.

        Another file under the name is not even opened: SQLite would take the first one's log for a left-over of the
        other, and delete it with what is only there.
        """
        if self._file is not None and self._database.identify() != self._file:
            self._drop()
            raise StoreUnavailable(
                f"the store {self._database.path} was replaced by another file while it was open: put the first one "
                "back, or restart"
            )
        if self._connection is not None:
            return self._connection
        try:
            connection = self._opened_connection(create=create)
        except StoreRefused as error:
            if self._file is None:
                raise
            raise StoreUnavailable(str(error)) from error  # it was good once: it may be good again
        self._file = self._database.identify()
        self._connection = connection
        return connection

    def _opened_connection(self, *, create: bool) -> Connection:
        connection = self._database.connect(create=create)
        try:
            with connection.begin():
                self._opened(self._transaction(connection))
        except BaseException:
            connection.close()
            raise
        return connection

    def _undone(self, error: BaseException) -> BaseException:
        """Rolls back and returns what to raise."""
        verdict = self._database.verdict(error)
        self._roll_back()
        match verdict:
            case Verdict.DATA:
                return RefusedData(str(error))
            case Verdict.FULL:
                return StoreFull(self._database.explain(error))
            case Verdict.WAIT:
                return StoreUnavailable(self._database.explain(error))
            case Verdict.REOPEN:
                self._drop()
                return StoreUnavailable(self._database.explain(error))
            case None:
                return error

    def _roll_back(self) -> None:
        """Leaves no transaction open, whatever state the failed one was left in, or no connection."""
        if self._connection is None:
            return
        try:
            begun = self._connection.get_transaction()
            if begun is not None:
                begun.rollback()
            raw = self._connection.connection.dbapi_connection
            if raw is not None:
                raw.rollback()
        except Exception:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it is broken, that is why it goes
                connection.invalidate()
                connection.close()

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):  # the log is as durable as the database; it is copied back at the next start
                self._database.tidy(self._connection)
        self._drop()
