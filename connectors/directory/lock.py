"""What makes a folder ours: one lock, and proof that files can be moved the way that they will be. Blocking."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Sequence

from bridge.core.errors import Refused, Transient


def locked(path: str) -> int:
    """A descriptor that holds the lock file `path` until it is closed, by whatever means.

    Raises Transient with the pid and host of who holds it.
    """
    for _ in range(10):
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_still(lock, path):
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
                return lock
        except BlockingIOError:
            holder = os.pread(lock, 200, 0).decode("utf-8", "replace").strip() or "another process"
            os.close(lock)
            raise Transient(
                f"the folder is read by somebody else already: {holder} holds {path}. One reader a folder: stop that "
                "one, or give this stream a folder of its own"
            ) from None
        except OSError:
            os.close(lock)
            raise
        os.close(lock)
    raise Transient(f"{path} vanishes each time that it is locked: is something tidying up there?")


def is_still(lock: int, path: str) -> bool:
    """The lock file has not been removed or replaced: a lock on a file that nobody finds is worth nothing."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(path))
    except FileNotFoundError:
        return False


def probe(path: str, places: Sequence[str]) -> None:
    """Sends an empty file the way that all will take. Raises Refused where a mount forbids it, OSError for the rest.

    The device number is no proof: a mount of the same file system has it too, and still can't be renamed into.
    """
    name = f".headrace-probe-{os.getpid()}"
    at = os.path.join(path, name)
    os.close(os.open(at, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        for place in places:
            to = os.path.join(path, place, name)
            _step(at, to)
            at = to
    finally:
        os.unlink(at)


def _step(at: str, to: str) -> None:
    try:
        os.rename(at, to)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise Refused(
            f"{os.path.dirname(to)} is a mount of its own, where no file can be moved to in one step: unmount it, or "
            "move finished files on from there by other means"
        ) from error
