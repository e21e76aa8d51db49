"""One process per database file: a lock beside it, which the kernel releases when its holder dies."""

from __future__ import annotations

import errno
import fcntl
import os

import msgspec
from msgspec import Struct

from bridge.core.errors import StoreRefused


class Holder(Struct, frozen=True):
    """Who has the lock. `started_at` in seconds since 1970."""

    pid: int
    host: str
    started_at: float


class StoreLock:
    """Held from `take` to `release`. Children don't inherit it, so a command that outlives us never holds it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: str, holder: Holder) -> StoreLock:
        """Raises StoreRefused with the pid and the host of whoever has it."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StoreRefused(f"the lock {path} can't be opened: {error.strerror}; check its permissions") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, msgspec.json.encode(holder), 0)
        except OSError as error:
            reason = _reason(path, descriptor, error)
            os.close(descriptor)
            raise StoreRefused(reason) from error
        return cls(descriptor)

    def release(self) -> None:
        """The file stays: to remove it would let two processes lock two files of one name."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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
