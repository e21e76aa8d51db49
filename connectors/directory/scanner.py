"""Looks through the folder for files that have settled, in bounded steps. Blocking; called from one thread only.

What was seen is not remembered: the rename of a claim is the memory. Only files that have yet to settle are, as
they were when last looked at, and at most `_WAITING_MOST` of them; the rest of a large drop waits in the folder.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from connectors.directory.claim import Claim
from connectors.directory.folder import Folder

_WAITING_MOST: Final = 32_768
_LOOK_MOST: Final = 4_000  # entries in one step: about 10 ms


class Seen(NamedTuple):
    """A file as it was, and since when, on the monotonic clock."""

    inode: int
    size: int
    mtime_ns: int
    since: float


class Scanner:
    """`settle` and `interval` in seconds; `monotonic` is a clock. A *pass* goes once through the whole folder."""

    def __init__(
        self, folder: Folder, pattern: str, settle: float, interval: float, monotonic: Callable[[], float]
    ) -> None:
        self.next_pass = 0.0
        self._folder = folder
        self._matches = re.compile(fnmatch.translate(pattern)).match if pattern != "*" else None
        self._settle = settle
        self._interval = interval
        self._monotonic = monotonic
        self._entries: Iterator[os.DirEntry[str]] | None = None
        self._close: Callable[[], None] | None = None
        self._started = self._spent = 0.0
        self._waiting: dict[str, Seen] = {}  # of this pass
        self._waited: dict[str, Seen] = {}  # of the pass before, as far as not looked at again

    def is_due(self, now: float) -> bool:
        """A pass is under way, or it is time for the next one."""
        return self._entries is not None or now >= self.next_pass

    def claim(self, into: deque[Claim], most: int) -> None:
        """One step: appends claims until there are `most`, the pass has ended, or enough was looked at."""
        now = self._monotonic()
        entries = self._entries if self._entries is not None else self._begin(now)
        looked, had = 0, len(into)
        try:
            for entry in entries:
                looked += 1
                claim = self._look(entry, now)
                if claim is not None:
                    into.append(claim)
                    if len(into) >= most:
                        return
                if looked >= _LOOK_MOST:
                    self._spent += 0.0 if len(into) > had else self._monotonic() - now
                    return
        except OSError:
            self.close()  # the next pass starts afresh; what waits keeps its time
            self._waited |= self._waiting
            self._waiting = {}
            raise
        self._spent += 0.0 if len(into) > had else self._monotonic() - now
        self._end()

    def close(self) -> None:
        """Ends a pass that is under way."""
        if self._close is not None:
            self._close()
        self._entries = self._close = None

    def _begin(self, now: float) -> Iterator[os.DirEntry[str]]:
        self._folder.require_same()
        entries = os.scandir(self._folder.path)
        self._started, self._entries, self._close = now, entries, entries.close
        self._spent = 0.0
        return entries

    def _end(self) -> None:
        self.close()
        self._waited, self._waiting = self._waiting, {}
        due = self._started + self._interval
        if self._waited:
            due = min(due, min(seen.since for seen in self._waited.values()) + self._settle)
        self.next_pass = max(due, self._monotonic() + self._spent)  # at most half of the time goes into vain looks

    def _look(self, entry: os.DirEntry[str], now: float) -> Claim | None:
        name = entry.name
        if name[0] == "." or (self._matches is not None and not self._matches(name)):
            return None
        if not entry.is_file(follow_symlinks=False):
            if not entry.is_dir(follow_symlinks=False):
                what = "symbolic link" if entry.is_symlink() else "special file"
                self._folder.note(name, "not a plain file, left alone", saw=what)
            return None
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode) or not self._has_settled(name, status, now):
            return None
        return self._folder.claim(name, status)

    def _has_settled(self, name: str, status: os.stat_result, now: float) -> bool:
        if not self._settle:
            return True
        before = self._waited.pop(name, None)
        seen = Seen(status.st_ino, status.st_size, status.st_mtime_ns, now)
        if before is not None and before[:3] == seen[:3]:
            if now - before.since >= self._settle:
                return True
            self._waiting[name] = before
        elif len(self._waiting) + len(self._waited) < _WAITING_MOST:
            self._waiting[name] = seen
        return False
