"""The state files that the launcher leaves (its head says which and why), read from the bridge's side.

    commands/<first 2 hex digits>/<other 62 of the SHA-256 of the run key>[.<n of a manual retry>][.r<n of a rerun>]

with `.started` and `.exit` behind it. Once the store has the result, `.exit` is renamed to `.done`: only then may the
files ever be removed, since before that they alone tell that the command has run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from fcntl import LOCK_NB, LOCK_SH, flock
from hashlib import sha256
from typing import Final, NamedTuple

from bridge.core.errors import Refused

FOLDER: Final = "commands"


class Progress(Enum):
    """What became of a run that has not told how it ended."""

    ABSENT = "absent"
    RUNNING = "running"
    INTERRUPTED = "interrupted"


class Exit(NamedTuple):
    """How a command ended. `code` is negative for a signal; `output` lacks `dropped` bytes in its middle."""

    pid: int
    code: int
    reason: str
    started: float
    ended: float
    dropped: int
    output: bytes


class Records:
    """All state files below one folder, which lives as long as the store that the runs come from."""

    def __init__(self, state_dir: str) -> None:
        self._root = os.path.abspath(os.path.join(state_dir, FOLDER))
        try:
            os.makedirs(self._root, mode=0o700, exist_ok=True)
            self._require_links()
        except OSError as error:
            raise Refused(
                f"{self._root}: commands need a folder for their state, on a file system with hard links and locks: "
                f"{error.strerror}"
            ) from error

    @property
    def root(self) -> str:
        return self._root

    def base(self, run_key: str, retry: int) -> str:
        """The path that the state files of a run are named after. The same for the same run, for ever."""
        name = sha256(run_key.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{self._root}/{name[:2]}/{name[2:]}" + (f".{retry}" if retry else "")

    def latest(self, base: str) -> tuple[str, int]:
        """The newest rerun of a run and how many there were; the run itself where there was none."""
        reruns = 0
        while os.path.exists(f"{rerun_of(base, reruns + 1)}.started"):
            reruns += 1
        return rerun_of(base, reruns), reruns

    def prepare(self, base: str) -> None:
        """Makes the folder that a record goes to. Raises OSError."""
        folder = os.path.dirname(base)
        if not os.path.isdir(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _sync(self._root)

    def look(self, base: str) -> Exit | Progress:
        """What the files say. Raises OSError where they can't be read: that is no answer."""
        for _ in range(2):
            for suffix in (".exit", ".done"):
                found = _read(base + suffix)
                if found is not None:
                    return found
            progress = _probe(f"{base}.started")
            if progress is not Progress.INTERRUPTED:
                return progress
            # The lock may have been let go just now, and the record be there since: a second look is final.
        return Progress.INTERRUPTED

    def settle(self, base: str) -> None:
        """The store has the result: the files may be forgotten. Never raises; at worst they stay for good."""
        _, reruns = self.latest(base)
        for each in range(reruns + 1):
            name = rerun_of(base, each)
            with suppress(OSError):
                os.rename(f"{name}.exit", f"{name}.done")
                continue
            with suppress(OSError):
                os.link(f"{name}.started", f"{name}.done")

    def forget(self, before: float) -> int:
        """Removes the files of runs that are settled and older than `before`. -> how many runs. Slow: use a thread."""
        count = 0
        for entry in self._files():
            name, _, suffix = entry.path.rpartition(".")
            if suffix not in ("done", "tmp") or not _is_older(entry, before):
                continue
            with suppress(OSError):
                if suffix == "done":
                    with suppress(FileNotFoundError):
                        os.unlink(f"{name}.started")
                    count += 1
                os.unlink(entry.path)
        return count

    def _files(self) -> Iterator[os.DirEntry[str]]:
        with os.scandir(self._root) as folders:
            for folder in folders:
                if folder.is_dir(follow_symlinks=False):
                    with os.scandir(folder.path) as files:
                        yield from files

    def _require_links(self) -> None:
        own, linked = f"{self._root}/.{os.getpid()}.try", f"{self._root}/.{os.getpid()}.tried"
        fd = os.open(own, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            flock(fd, LOCK_SH | LOCK_NB)
            os.link(own, linked)
            os.unlink(linked)
        finally:
            os.close(fd)
            os.unlink(own)


def rerun_of(base: str, number: int) -> str:
    return f"{base}.r{number}" if number else base


def _probe(started: str) -> Progress:
    try:
        fd = os.open(started, os.O_RDONLY)
    except FileNotFoundError:
        return Progress.ABSENT
    try:
        flock(fd, LOCK_SH | LOCK_NB)
    except BlockingIOError:
        return Progress.RUNNING
    finally:
        os.close(fd)
    return Progress.INTERRUPTED


def _read(path: str) -> Exit | None:
    """A record, None where there is none or a power cut has torn it."""
    try:
        with open(path, "rb") as file:
            head, _, output = file.read().partition(b"\n\n")
    except FileNotFoundError:
        return None
    return parse(head, output)


def parse(head: bytes, output: bytes) -> Exit | None:
    """The `name value` lines of a record; None where they are not whole."""
    fields: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        fields[name] = value
    try:
        if int(fields["size"]) != len(output):
            return None
        return Exit(
            int(fields["pid"]),
            int(fields["code"]),
            fields["reason"],
            float(fields["started"]),
            float(fields["ended"]),
            int(fields["dropped"]),
            output,
        )
    except (KeyError, ValueError):
        return None


def _is_older(entry: os.DirEntry[str], before: float) -> bool:
    try:
        return entry.stat(follow_symlinks=False).st_mtime < before
    except FileNotFoundError:
        return False


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems can't; then only a power cut is not covered
            os.fsync(fd)
    finally:
        os.close(fd)
