"""One process per database file: a lock beside it, which the kernel releases when its holder dies.

The file tells who holds it, and what keeps the store from committing: the one thing that can be told while the
database takes nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from typing import Final

import msgspec
from msgspec import Struct

from bridge.core.errors import StoreRefused

_SIZE: Final = 1024
"""Bytes of the file from the start on, so that what is told later is written over it, and needs no room on the disk."""


class Holder(Struct, frozen=True, omit_defaults=True):
    """Who has the lock, and why the store takes no writes, if so. `started_at` and `since` in seconds since 1970."""

    pid: int
    host: str
    started_at: float
    trouble: str | None = None
    since: float | None = None


class StoreLock:
    """Held from `take` to `release`. Children don't inherit it, so a command that outlives us never holds it."""

    def __init__(self, descriptor: int, holder: Holder) -> None:
        self._descriptor: int | None = descriptor
        self._holder = holder
        self._is_written = True

    @classmethod
    def take(cls, path: str, holder: Holder) -> StoreLock:
        """Raises StoreRefused with the pid and the host of whoever has it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreRefused(f"the lock {path} can't be opened: {error.strerror}; check its permissions") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, holder)
        except OSError as error:
            reason = _reason(path, descriptor, error)
            os.close(descriptor)
            raise StoreRefused(reason) from error
        return cls(descriptor, holder)

    def note(self, trouble: str | None) -> None:
        """Why the store takes no writes, or None, for `read_trouble`. Never raises: a disk may refuse this as well.

        It does nothing when the file says so already, so what was refused can be noted again.
        """
        if self._descriptor is None:
            return
        since = (self._holder.since or time.time()) if trouble else None
        told = msgspec.structs.replace(self._holder, trouble=trouble or None, since=since)
        if told == self._holder and self._is_written:
            return
        self._holder = told
        try:
            _write(self._descriptor, told)
        except OSError:
            self._is_written = False
        else:
            self._is_written = True

    def release(self) -> None:
        """The file stays: to remove it would let two processes lock two files of one name."""
        self.note(None)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def read_trouble(path: str) -> str:
    """What the holder of the lock noted, with who it is and since when, or "". It takes no lock.

    What a process left behind that died is told apart where it ran on this host; elsewhere it counts until the next
    one takes the lock.
    """
    try:
        with open(path, "rb") as file:
            held = msgspec.json.decode(file.read(2 * _SIZE), type=Holder)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return ""
    if not held.trouble or _is_gone(held):
        return ""
    seconds = max(0, int(time.time() - (held.since or held.started_at)))
    age = f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
    return f"{held.trouble} (process {held.pid} on {held.host}, since {age})"


def _is_gone(holder: Holder) -> bool:
    if holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # it is there, and of somebody else
    return False


def _write(descriptor: int, holder: Holder) -> None:
    """In place: a file that has its size keeps its blocks."""
    record = _record(holder)
    if os.pwrite(descriptor, record, 0) < len(record):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, len(record))


def _record(holder: Holder) -> bytes:
    """JSON and spaces, `_SIZE` bytes in all; a trouble of many words is cut."""
    trouble = (holder.trouble or "").encode("utf-8", "replace").decode()  # a path may hold what is no UTF-8
    whole = holder if holder.trouble is None else msgspec.structs.replace(holder, trouble=trouble)
    record = msgspec.json.encode(whole)
    while len(record) >= _SIZE and trouble:
        trouble = trouble[: len(trouble) * 7 // 8]
        record = msgspec.json.encode(msgspec.structs.replace(holder, trouble=f"{trouble}..."))
    return record.ljust(_SIZE - 1) + b"\n"


def _reason(path: str, descriptor: int, error: OSError) -> str:
    if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
        return f"the lock {path} can't be taken: {error.strerror}; put the store on a local disk with space left"
    try:
        held = msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return f"the store is in use: another process holds {path}; stop it, or name another store"
    return (
        f"the store is in use by process {held.pid} on {held.host} (it holds {path}): stop that one, or name another "
        "store"
    )
