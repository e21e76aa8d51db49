"""Reading claimed files: what is their own trouble, and what concerns the whole folder. Blocking."""

from __future__ import annotations

import errno
import os
from typing import Final

from bridge.core.errors import HeadraceError
from connectors.directory.claim import printable

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ_MOST: Final = 1 << 30  # Linux ends a single read below 2 GiB
_DAMAGED: Final = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENXIO,
        errno.EBADMSG,
        errno.EOVERFLOW,
        errno.ENOENT,
    }
)


class Unreadable(HeadraceError):
    """The file itself is the trouble: it goes to `dead/`, and the next one is read."""


def open_claimed(path: str) -> int:
    """A descriptor. Raises Unreadable for this file's own trouble, OSError (no descriptors left, …) for any other."""
    try:
        return os.open(path, _FLAGS)
    except OSError as error:
        raise _translated(error) from error


def read_at(fd: int, most: int, at: int) -> bytes:
    """`most` bytes from offset `at`, fewer only at the end of the file."""
    try:
        body = os.pread(fd, min(most, _READ_MOST), at)
        if len(body) == most or not body:
            return body
        parts = [body]
        have = len(body)
        while have < most and (body := os.pread(fd, min(most - have, _READ_MOST), at + have)):
            parts.append(body)
            have += len(body)
        return b"".join(parts)
    except OSError as error:
        raise _translated(error) from error


def words(error: OSError, known: str = "") -> str:
    """Which file, unless that is `known`, and what the system says of it."""
    name = error.filename
    where = f"{printable(os.fsdecode(name))}: " if isinstance(name, str | bytes) and name != known else ""
    return f"{where}{error.strerror or error}"


def _translated(error: OSError) -> Exception:
    return Unreadable(words(error)) if error.errno in _DAMAGED else error
