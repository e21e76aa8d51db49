"""SQLite as a dialect: the only place that knows its SQL, its pragmas, its files and its errors.

What a second dialect has to offer is what `Sqlite` offers: connections, the time, an insert that knows conflicts, a
way to name many ids in one parameter, and what an error says. (The lock on the file is taken in `bridge.store.sql`.)
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from enum import Enum
from typing import Final
from urllib.parse import quote

from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Double,
    Engine,
    Text,
    bindparam,
    create_engine,
    event,
    func,
    literal_column,
    select,
)
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from bridge.core.errors import StoreRefused, StoreUnavailable
from bridge.core.units import format_duration, format_size

_OLDEST: Final = (3, 35, 0)  # the first with RETURNING
_FULL_SYNC: Final = 2
_CHECKPOINT_PAGES: Final = 4000  # a 16 MiB log: hot pages are copied back a quarter as often as by default
_LOG_MOST: Final = 64 * 1024 * 1024  # what the log file is cut back to after a burst
_NO_ROOM: Final = 16 * 1024 * 1024  # bytes: less is a full disk
_INTAKE_SHARE: Final = 0.8  # of max_size
_CACHE_KIB: Final = 32 * 1024


class Verdict(Enum):
    """What an error says: about a row's data, about now (the connection is good), or about the connection.

    FULL: the file has reached its limit, though its disk has room.
    """

    DATA = "data"
    FULL = "full"
    WAIT = "wait"
    REOPEN = "reopen"


class Sqlite:
    """One database file. Its connections begin every transaction with `begin` and never leave autocommit otherwise."""

    insert = staticmethod(insert)

    def __init__(self, path: str, *, busy_timeout: float, max_size: int | None = None, begin: str = "BEGIN IMMEDIATE"):
        self.path = path
        self.lock_path = path + ".lock"
        self._busy_timeout = busy_timeout
        self._max_size = max_size
        self._begin = begin
        self._create = False
        self._page_size = 4096
        self._is_intake: bool | None = None  # what the connection's limit was set for
        self._engine = self._make_engine()

    @property
    def dialect(self) -> Dialect:
        return self._engine.dialect

    def clock(self) -> ColumnElement[float]:
        """Now, in seconds since 1970, to about a millisecond. (`unixepoch('subsec')` would need SQLite 3.42.)"""
        return literal_column("(julianday('now') - 2440587.5) * 86400.0", Double)

    def among(self, column: ColumnElement[int], name: str) -> ColumnElement[bool]:
        """Whether a column is one of the ids in the parameter `name`, made by `pack`: the same text for any number."""
        given = func.json_each(bindparam(name, type_=Text)).table_valued("value")
        return column.in_(select(given.c.value))

    def pack(self, ids: Sequence[int]) -> str:
        """The value of such a parameter: a JSON list."""
        return f"[{','.join(map(str, ids))}]"

    def connect(self, *, create: bool) -> Connection:
        """A connection in WAL mode with full synchronisation, verified. Raises what SQLite raises, or StoreRefused."""
        self._create = create
        return self._engine.connect()

    def identify(self) -> tuple[int, int]:
        """What tells the open file from one that takes its place under the same name. Raises StoreUnavailable."""
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise StoreUnavailable(
                f"the store {self.path} was moved or deleted while it was open ({error.strerror}): put it back"
            ) from error
        return found.st_dev, found.st_ino

    # errors ----------------------------------------------------------------------------------------------------------

    def verdict(self, error: BaseException) -> Verdict | None:
        """None: not an error of the database or the machine, so a defect."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        match cause:
            case sqlite3.IntegrityError():
                return Verdict.DATA if _code(cause) in _DATA_CODES else Verdict.REOPEN
            case sqlite3.DataError() | OverflowError() | UnicodeEncodeError():
                return Verdict.DATA
            case sqlite3.InterfaceError() | sqlite3.ProgrammingError() if "binding" in str(cause):
                return Verdict.DATA
            case sqlite3.OperationalError() if _code(cause) & 0xFF in _WAIT_CODES:
                return Verdict.FULL if self._is_at_limit(cause) else Verdict.WAIT
            case MemoryError():
                return Verdict.WAIT
            case sqlite3.Error() | SQLAlchemyError() | OSError():
                return Verdict.REOPEN
            case _:
                return None

    def explain(self, error: BaseException) -> str:
        """What happened, to which file, and what to do, in one sentence."""
        cause = error.orig if isinstance(error, DBAPIError) else error
        code = _code(cause) & 0xFF
        if self._is_at_limit(cause):
            share = f"{_INTAKE_SHARE:.0%} of its max_size of {format_size(self._max_size or 0)}"
            what = (
                f"has reached {share} (the rest is for what becomes of its runs): raise it, or keep rows for less time"
            )
        elif isinstance(cause, MemoryError):
            what = "needs more memory than the machine gives: stop something, or lower max_outstanding_bytes"
        else:
            what = _SENTENCES.get(code, "failed")
        return f"the store {self.path} {what.format(waited=format_duration(self._busy_timeout))} ({_words(cause)})"

    def limit(self, connection: Connection, *, intake: bool) -> None:
        """How far the file may grow in the next transaction: new messages leave a part of `max_size` free.

        So a full store still records what became of its runs, and drains.
        """
        if self._max_size is not None and intake is not self._is_intake:
            size = self._max_size * _INTAKE_SHARE if intake else self._max_size
            pages = max(1, int(size) // self._page_size)
            connection.connection.cursor().execute(f"PRAGMA max_page_count={pages}")
            self._is_intake = intake

    def tidy(self, connection: Connection) -> None:
        """Copies the log back as far as readers allow, without waiting for them."""
        connection.connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _is_at_limit(self, error: BaseException | None) -> bool:
        """SQLite has one error for both: it is the limit unless the disk is full indeed."""
        if self._max_size is None or _code(error) & 0xFF != sqlite3.SQLITE_FULL:
            return False
        disk = os.statvfs(os.path.dirname(self.path))
        return disk.f_bavail * disk.f_frsize > _NO_ROOM

    # connecting ------------------------------------------------------------------------------------------------------

    def _make_engine(self) -> Engine:
        engine = create_engine("sqlite://", creator=self._open, poolclass=NullPool, hide_parameters=True)

        def begin(connection: Connection) -> None:
            connection.exec_driver_sql(self._begin)

        event.listen(engine, "begin", begin)
        return engine

    def _open(self) -> sqlite3.Connection:
        mode = "rwc" if self._create else "rw"
        raw = sqlite3.connect(
            f"file:{quote(self.path)}?mode={mode}",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,
            check_same_thread=False,  # the thread that writes opens it, the one that closes the store may not be it
        )
        try:
            self._prepare(raw)
        except BaseException:
            raw.close()
            raise
        return raw

    def _prepare(self, raw: sqlite3.Connection) -> None:
        mode = raw.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise StoreRefused(
                f"the store {self.path} can't keep a write-ahead log there (journal mode is {mode!r}): "
                "put it on a local disk"
            )
        raw.execute("PRAGMA synchronous=FULL")
        raw.execute("PRAGMA fullfsync=ON")  # macOS: an fsync that reaches the disk; elsewhere it changes nothing
        synchronous = raw.execute("PRAGMA synchronous").fetchone()[0]
        if synchronous != _FULL_SYNC:
            raise StoreRefused(
                f"the store {self.path} would not survive a power failure: synchronous is {synchronous}, and this "
                f"SQLite ({sqlite3.sqlite_version}) won't set it to FULL"
            )
        raw.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        raw.execute(f"PRAGMA journal_size_limit={_LOG_MOST}")
        raw.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        self._page_size = raw.execute("PRAGMA page_size").fetchone()[0]
        self._is_intake = None


def locate(url: str) -> str:
    """The real path of the database file that a URL names. Raises StoreRefused with what to write instead."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreRefused(f"store: {url!r} is not a URL; write sqlite:///headrace.db") from error
    shown = parsed.render_as_string(hide_password=True)
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise StoreRefused(f"store: {shown} is not supported; write sqlite:///headrace.db")
    if parsed.query:
        raise StoreRefused(f"store: {shown} has options ({', '.join(parsed.query)}) that SQLite stores don't take")
    if not parsed.database or parsed.database == ":memory:" or parsed.database.startswith("file:"):
        raise StoreRefused(
            f"store: {shown} names no file, and what is only in memory is lost with the process; "
            "write sqlite:///headrace.db"
        )
    if sqlite3.sqlite_version_info < _OLDEST:
        raise StoreRefused(f"store: SQLite {sqlite3.sqlite_version} is too old; 3.35 or later is needed")
    return os.path.realpath(parsed.database)


def check_place(path: str) -> None:
    """Refuses a path where no database can be, before SQLite says so in fewer words."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreRefused(f"the store {path} has no place: the folder {folder} does not exist; create it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise StoreRefused(f"the store {path} is not a file; name a file in a folder that can be written")
    for needed in (folder, path):  # the log is a file beside the database, so the folder counts too
        if os.path.exists(needed) and not os.access(needed, os.R_OK | os.W_OK):
            raise StoreRefused(f"the store {path} can't be written: no permission to write {needed}")


def _code(error: BaseException | None) -> int:
    code = getattr(error, "sqlite_errorcode", 0)
    return code if isinstance(code, int) else 0


def _words(error: BaseException | None) -> str:
    name = getattr(error, "sqlite_errorname", None)
    return f"{name}: {error}" if name else f"{type(error).__name__}: {error}"


_DATA_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_CONSTRAINT_NOTNULL,  # a NaN is stored as NULL
        sqlite3.SQLITE_CONSTRAINT_CHECK,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_TOOBIG,
    }
)
_WAIT_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM})
_SENTENCES: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another process, for more than {waited}: close what has it open (a shell, a "
    "backup)",
    sqlite3.SQLITE_LOCKED: "is locked by another connection: close what has it open",
    sqlite3.SQLITE_FULL: "can't grow, its disk is full: free some space",
    sqlite3.SQLITE_READONLY: "can't be written, it is read-only: check the permissions and the mount",
    sqlite3.SQLITE_IOERR: "can't be read or written, the disk reports an error: check the disk, its quota and limits",
    sqlite3.SQLITE_CORRUPT: "is damaged: stop, keep the file, and restore a backup",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database: name another file, or move this one away",
    sqlite3.SQLITE_CANTOPEN: "can't be opened: check that the file and its folder exist and can be written",
    sqlite3.SQLITE_NOMEM: "needs more memory than the machine gives",
    sqlite3.SQLITE_PERM: "can't be opened: no permission",
    sqlite3.SQLITE_PROTOCOL: "is being opened by too many processes at once",
}
