"""Claims: what a file is called once it is ours, and how its identity is read back from that name."""

from __future__ import annotations

import os
import re
from typing import Final

from msgspec import Struct

_IDENTITY: Final = r"[0-9a-f]{1,16}-[0-9a-f]{1,16}-(?P<size>[0-9a-f]{1,16})-(?P<mtime>-?[0-9a-f]{1,16})"
_CLAIMED: Final = re.compile(rf"(?P<identity>{_IDENTITY})~(?P<name>.+)", re.DOTALL)
_RESERVE: Final = 8  # bytes that a name leaves free, for the number of a name that is taken
_TAIL: Final = 16  # bytes kept of the end of a name that is too long: what a person looks for is the suffix


class Claim(Struct, eq=False, gc=False):
    """A file in `.work`. `file` is its name there, `size` in bytes and `mtime` in seconds as they were at the claim.

    `name` is what it was dropped as; bytes that are not UTF-8 are surrogates, as everywhere in `os`. `is_closed`: it
    was settled, or is delivered again under another claim, so that a late settlement changes nothing.
    """

    identity: str
    name: str
    file: str
    size: int
    mtime: float
    tries: int = 0
    is_closed: bool = False

    def again(self) -> Claim:
        """For another delivery of the same file; this one is closed."""
        self.is_closed = True
        return Claim(self.identity, self.name, self.file, self.size, self.mtime, self.tries + 1)


def identity_of(status: os.stat_result) -> str:
    """Device, inode, size and mtime in nanoseconds (which may be before 1970), in hex."""
    return f"{status.st_dev:x}-{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def is_identity(text: str) -> bool:
    """It looks like what `identity_of` makes."""
    return re.fullmatch(_IDENTITY, text) is not None


def is_same_file(identity: str, status: os.stat_result) -> bool:
    """Device and inode agree; what was copied or restored from elsewhere differs."""
    return identity.startswith(f"{status.st_dev:x}-{status.st_ino:x}-")


def claim_of(file: str) -> Claim | None:
    """Reads a name in `.work`; None if no claim looks like that."""
    found = _CLAIMED.fullmatch(file)
    if found is None:
        return None
    return Claim(found["identity"], found["name"], file, int(found["size"], 16), int(found["mtime"], 16) / 1e9)


def claimed_name(identity: str, name: str, longest: int) -> str:
    """`<identity>~<name>` in at most `longest` bytes less a reserve; a name that is too long loses its middle."""
    room = longest - len(identity) - 1 - _RESERVE
    raw = os.fsencode(name)
    if len(raw) <= room:
        return f"{identity}~{name}"
    tail = raw[-_TAIL:].decode("utf-8", "ignore")  # not in the midst of a character: some file systems refuse that
    head = raw[: room - len(tail.encode()) - 3].decode("utf-8", "ignore")
    return f"{identity}~{head}...{tail}"


def printable(name: str) -> str:
    """The name as it may stand in a log, a table or a database: control characters and wild bytes escaped."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
