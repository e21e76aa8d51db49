"""The folder on disk: its lock, and each step that a file takes. Blocking; called from one thread only.

    dropped ── claim ──▶ .work ──┬─ leave ──▶ done/ (or deleted)
                  ▲              └─ leave ──▶ dead/
              recover (after a restart)

A step is one rename. Nothing is overwritten: a name that is taken gets a number. A crash between any two steps
leaves the file in one of these places, and every place is looked at again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterable
from typing import Final, Literal

import structlog
from msgspec import Struct

from bridge.core.errors import HeadraceError, Refused, Transient
from connectors.directory.claim import Claim, claim_of, claimed_name, identity_of, is_same_file, printable
from connectors.directory.files import Unreadable, open_claimed, read_at, words
from connectors.directory.lock import is_still, locked, probe
from connectors.directory.options import DEAD, DONE, WORK, OnDone, folder_problems, is_usable, places
from connectors.directory.positions import Positions

log = structlog.get_logger("headrace.directory")

Verdict = Literal["move", "delete", "dead"]

_NOTED_MOST: Final = 1000
_NOT_OURS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV, errno.ETXTBSY})


class Counts(Struct, eq=False):
    """Files since the start; `cut` counts lines."""

    claimed: int = 0
    recovered: int = 0
    settled: int = 0
    dead: int = 0
    grown: int = 0
    gone: int = 0
    cut: int = 0


class Folder:
    """See the head of the file. An OSError that leaves a method is about the folder, not about one file."""

    def __init__(self, path: str, on_done: OnDone) -> None:
        self.path = os.path.abspath(path)
        self.name = printable(os.path.basename(self.path) or self.path)
        self.work = os.path.join(self.path, WORK)
        self.positions = Positions(self.work)
        self.counts = Counts()
        self._on_done: OnDone = on_done
        self._lock_path = os.path.join(self.work, ".lock")
        self._lock: int | None = None
        self._place: tuple[int, int] = (0, 0)
        self._longest = 255
        self._left: deque[str] = deque()
        self._noted: set[str] = set()

    # Opening ---------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Takes the lock and looks up what an earlier life left in `.work`.

        Raises Refused where the folder's layout can't work, Transient where it may later (missing, locked).
        """
        try:
            here = os.stat(self.path)
            self._make_places()
            self._lock = locked(self._lock_path)
            probe(self.path, places(self._on_done))
            self._longest = os.pathconf(self.path, "PC_NAME_MAX")
            self._place = (here.st_dev, here.st_ino)
            self._left.extend(self.positions.sweep(os.listdir(self.work)))
        except OSError as error:
            self.unlock()
            raise Transient(f"the folder {self.path} can't be opened: {words(error, self.path)}") from error
        except HeadraceError:
            self.unlock()
            raise

    def _make_places(self) -> None:
        if problems := folder_problems(self.path, self._on_done):
            raise Refused("; ".join(problems))
        for name in places(self._on_done):
            os.makedirs(os.path.join(self.path, name), exist_ok=True)
        if problems := folder_problems(self.path, self._on_done):
            raise Refused("; ".join(problems))

    def unlock(self) -> None:
        """Gives the folder back. May be called again."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def require_same(self) -> None:
        """Raises Transient if the path leads elsewhere by now (a mount that came or went), OSError if nowhere."""
        here = os.stat(self.path)
        if (here.st_dev, here.st_ino) != self._place:
            raise Transient(f"{self.path} is another folder than the one that was opened: it has to be opened anew")
        if self._lock is None or not is_still(self._lock, self._lock_path):
            raise Transient(f"{self._lock_path} was removed: the folder has to be opened anew")

    # Claiming --------------------------------------------------------------------------------------------------------

    def claim(self, name: str, status: os.stat_result) -> Claim | None:
        """The file becomes ours, as it is now. None: it went away, or can't be taken (reported once)."""
        identity = identity_of(status)
        try:
            file = self._rename(os.path.join(self.path, name), self.work, claimed_name(identity, name, self._longest))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NOT_OURS or not (is_usable(self.path) and is_usable(self.work)):
                raise
            self.note(name, "file can't be claimed, left alone", error=error.strerror)
            return None
        claim = self._verified(file, identity, name)
        self.counts.claimed += claim is not None
        return claim

    def _verified(self, file: str, identity: str, name: str) -> Claim | None:
        """A file may be replaced or written to between the look at it and its rename: what came along counts."""
        try:
            status = os.lstat(os.path.join(self.work, file))
            if (now := identity_of(status)) != identity:
                renamed = claimed_name(now, name, self._longest)
                file = self._rename(os.path.join(self.work, file), self.work, renamed)
        except FileNotFoundError:
            return None
        claim = claim_of(file)
        if claim is not None and not stat.S_ISREG(status.st_mode):
            self.bury(claim, "it is not a plain file any more")
            return None
        return claim

    def recover(self, into: deque[Claim], most: int) -> None:
        """Up to `most` claims that an earlier life left behind; their identity is in their name."""
        while self._left and len(into) < most:
            file = self._left[0]
            claim = self._recovered(file)
            self._left.popleft()
            if claim is not None:
                self.counts.recovered += 1
                into.append(claim)

    @property
    def has_left(self) -> bool:
        """There is something to recover."""
        return bool(self._left)

    def _recovered(self, file: str) -> Claim | None:
        claim = claim_of(file)
        try:
            status = os.lstat(os.path.join(self.work, file))
        except FileNotFoundError:
            return None
        if claim is None or not stat.S_ISREG(status.st_mode):
            log.warning("not a claimed file, left alone", folder=self.path, place=WORK, file=printable(file))
            return None
        if not is_same_file(claim.identity, status) and status.st_size != claim.size:
            # Killed between a rename and the look after it: the name is that of a file that this one replaced.
            return self._verified(file, claim.identity, claim.name)
        return claim

    # Reading ---------------------------------------------------------------------------------------------------------

    def read(self, claim: Claim, most: int) -> bytes:
        """The first `size` bytes. Raises Unreadable where the file is the trouble."""
        if claim.size > most:
            raise Unreadable(f"its {claim.size} bytes are more than `max_file` ({most}) allows")
        fd = open_claimed(os.path.join(self.work, claim.file))
        try:
            body = read_at(fd, claim.size, 0)
        finally:
            os.close(fd)
        if len(body) < claim.size:
            log.warning("file shrank after it was claimed", **self._about(claim), bytes_left=len(body))
        return body

    # Leaving ---------------------------------------------------------------------------------------------------------

    def leave_all(self, leaving: Iterable[tuple[Claim, Verdict]]) -> None:
        """Every file that can go goes; then the first error of those that can't is raised."""
        first: OSError | None = None
        for claim, verdict in leaving:
            try:
                self.leave(claim, verdict)
            except OSError as error:
                first = first or error
        if first is not None:
            raise first

    def leave(self, claim: Claim, verdict: Verdict) -> None:
        """The file is settled. Called again for one that has left, it does nothing."""
        if claim.is_closed:
            return
        path = os.path.join(self.work, claim.file)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            os.stat(self.work)  # if that is what's missing, it concerns all files
            self.counts.gone += 1
            log.warning("claimed file is gone, somebody took it away", **self._about(claim))
        else:
            if status.st_size > claim.size:
                self._report_growth(claim, status.st_size)
                verdict = "dead" if verdict == "delete" else verdict  # never delete what nobody has read
            self._go(path, claim.file, verdict)
            self.counts.settled += verdict != "dead"
            self.counts.dead += verdict == "dead"
        claim.is_closed = True

    def _report_growth(self, claim: Claim, size: int) -> None:
        self.counts.grown += 1
        log.warning("file grew after it was claimed, the growth is not read", **self._about(claim), size_now=size)

    def bury(self, claim: Claim, why: str) -> None:
        """The file can't be read: no event comes of it, so it is put where people see it."""
        log.error("file can't be read, goes to dead/", **self._about(claim), why=why)
        self.leave(claim, "dead")

    def _go(self, path: str, file: str, verdict: Verdict) -> None:
        if verdict == "delete":
            os.unlink(path)
            return
        place = os.path.join(self.path, DEAD if verdict == "dead" else DONE)
        try:
            self._rename(path, place, file)
        except FileNotFoundError:
            os.makedirs(place, exist_ok=True)  # somebody tidied up
            self._rename(path, place, file)

    @staticmethod
    def _rename(path: str, place: str, file: str) -> str:
        """Returns the name that was free. Only the holder of the lock renames here, so a look before is enough."""
        free, number = file, 1
        while os.path.lexists(os.path.join(place, free)):
            number += 1
            free = f"{file}~{number}"
        os.rename(path, os.path.join(place, free))
        return free

    # Telling ---------------------------------------------------------------------------------------------------------

    def note(self, name: str, what: str, **more: object) -> None:
        """A warning about a dropped file, once; a folder full of them is not a log full of them."""
        if name in self._noted or len(self._noted) > _NOTED_MOST:
            return
        self._noted.add(name)
        if len(self._noted) > _NOTED_MOST:
            log.warning("more files are left alone, no longer named one by one", folder=self.path)
            return
        log.warning(what, folder=self.path, file=printable(name), **more)

    def _about(self, claim: Claim) -> dict[str, object]:
        return {"folder": self.path, "file": printable(claim.name), "identity": claim.identity, "size": claim.size}
