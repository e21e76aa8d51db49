"""For people at a keyboard: messages dropped into the folder, and messages seen as they come.

What is sent is written under a hidden name first, which no scanner looks at, and appears whole. What is seen is left
where it lies: nothing is claimed, and whoever reads the folder gets all of it.
"""

from __future__ import annotations

import asyncio
import fnmatch
import heapq
import os
import re
import secrets
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from bridge.core.errors import Refused
from bridge.core.model import Meta
from bridge.core.units import format_size
from bridge.ports import Outgoing, Seen
from connectors.directory.claim import claim_of, claimed_name, identity_of, is_same_file, printable
from connectors.directory.files import Unreadable, open_claimed, read_at, words
from connectors.directory.lines import cut_lines
from connectors.directory.options import DEAD, DONE, WORK, DirectoryOptions

_CHUNK: Final = 1024 * 1024


# Sending -------------------------------------------------------------------------------------------------------------


class FolderSender:
    """`bridge.ports.Sender`: a file for each message, or with `lines` one for all that are sent together."""

    def __init__(self, options: DirectoryOptions) -> None:
        self._options = options
        self._folder = os.path.abspath(options.path)

    async def send(self, messages: Sequence[Outgoing]) -> Sequence[str]:
        """The path of each below the folder's name, and with `lines` where its line begins."""
        bodies = [_body_of(message, self._options) for message in messages]
        return await asyncio.to_thread(self._drop, bodies)

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _drop(self, bodies: Sequence[bytes]) -> list[str]:
        about = os.path.basename(self._folder)
        try:
            if not self._options.lines:
                return [f"{about}/{self._write(body)}" for body in bodies]
            name = self._write(b"".join(body + b"\n" for body in bodies))
        except OSError as error:
            raise Refused(f"the folder {self._folder} can't be written to: {words(error, self._folder)}") from error
        starts = [0]
        for body in bodies:
            starts.append(starts[-1] + len(body) + 1)
        return [f"{about}/{name}:{start}" for start, _ in zip(starts, bodies, strict=False)]

    def _write(self, content: bytes) -> str:
        name = name_for(self._options.pattern, f"sent-{time.time_ns():x}-{secrets.token_hex(4)}")
        path, hidden = os.path.join(self._folder, name), os.path.join(self._folder, f".{name}.sending")
        if os.path.lexists(path):  # a pattern without * has room for one
            raise Refused(f"{path} is still there: it has to be read first, as only files of this name are")
        try:
            with open(hidden, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(hidden, path)
        except OSError:
            with suppress(OSError):
                os.unlink(hidden)
            raise
        return name


def sender(options: DirectoryOptions) -> FolderSender:
    return FolderSender(options)


def name_for(pattern: str, unique: str) -> str:
    """A file name that the glob pattern takes. Raises Refused where none is found."""
    name = pattern.replace("*", unique, 1).replace("*", "")
    if name.startswith(".") or re.compile(fnmatch.translate(pattern)).match(name) is None:
        raise Refused(f"no name was found that fits `pattern` {pattern!r}: put the file into the folder yourself")
    return name


def _body_of(message: Outgoing, options: DirectoryOptions) -> bytes:
    """Raises Refused for what a file can't hold."""
    if message.key is not None or message.headers or message.lane is not None:
        raise Refused("a message in a folder is a file's bytes alone: it has no key, no headers and no lane")
    if message.body is None:
        raise Refused("a file has a body, if only an empty one: there is no message without")
    body, most = message.body, options.max_line if options.lines else options.max_file
    if len(body) > most:
        name = "max_line" if options.lines else "max_file"
        raise Refused(f"a message of {format_size(len(body))} is larger than `{name}` {format_size(most)} allows")
    if options.lines and (b"\n" in body or not body):
        what = "a line break in it" if body else "nothing in it"
        raise Refused(f"each line is a message here, and one with {what} can't be one line")
    return body


# Seeing --------------------------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """A file: `name` is what it was dropped as; `mtime` in seconds."""

    identity: str
    name: str
    size: int
    mtime: float


async def tail(options: DirectoryOptions, last: int) -> AsyncIterator[Seen]:
    """Up to `last` messages that were read before, by the files' times; then those that lie there, and those that come.

    Somebody may read the folder meanwhile. A file that is taken up and settled between two looks, `poll_interval`
    apart, is missed: one that must settle for longer than that never is.
    """
    eyes = Eyes(options, time.monotonic)
    try:
        for seen in await asyncio.to_thread(eyes.earlier, last):
            yield seen
        while True:
            for found in await asyncio.to_thread(eyes.look):
                messages = eyes.messages(found)
                while (seen_now := await asyncio.to_thread(next, messages, None)) is not None:
                    yield seen_now
            await asyncio.sleep(options.poll_interval)
    except OSError as error:
        raise Refused(f"the folder {eyes.folder} can't be looked at: {words(error, eyes.folder)}") from error


class Eyes:
    """Looks at a folder and changes nothing. Blocking."""

    def __init__(self, options: DirectoryOptions, monotonic: Callable[[], float]) -> None:
        self.folder = os.path.abspath(options.path)
        self._options = options
        self._monotonic = monotonic
        self._matches = re.compile(fnmatch.translate(options.pattern)).match
        self._longest = 255
        self._seen: set[str] = set()  # of what lies there now
        self._waiting: dict[str, tuple[Found, float]] = {}  # by identity, and since when

    def earlier(self, last: int) -> list[Seen]:
        """The last messages of files that somebody has taken up; what lies in the folder is still to come."""
        self._longest = os.pathconf(self.folder, "PC_NAME_MAX")
        self._seen = {found.identity for found in self._in(WORK)}
        if not last:
            return []
        files = heapq.nlargest(
            last, (found for place in (WORK, DONE, DEAD) for found in self._in(place)), key=lambda found: found.mtime
        )
        messages: list[Seen] = []
        for found in files:
            messages = [*list(self.messages(found))[-last:], *messages][-last:]
            if len(messages) >= last:
                break
        return messages

    def look(self) -> list[Found]:
        """Files that have settled since the last look, or were taken up meanwhile."""
        now = self._monotonic()
        dropped = {found.identity: found for found in self._in("")}
        taken = {found.identity: found for found in self._in(WORK)}
        ready = {identity: found for identity, found in taken.items() if identity not in self._seen}
        known = self._seen | taken.keys()
        ready |= {identity: found for identity, found in self._settled(dropped, now) if identity not in known}
        for identity, found in dropped.items():
            if identity not in known and identity not in ready:
                self._waiting.setdefault(identity, (found, now))
        self._seen = (self._seen & (dropped.keys() | taken.keys())) | ready.keys()
        return sorted(ready.values(), key=lambda found: found.mtime)

    def _settled(self, dropped: Mapping[str, Found], now: float) -> Iterator[tuple[str, Found]]:
        """What has waited long enough, or was taken up and settled since the last look."""
        if not self._options.settle:
            yield from dropped.items()
        for identity, (found, since) in list(self._waiting.items()):
            is_there = identity in dropped
            if not is_there or now - since >= self._options.settle:
                del self._waiting[identity]
                if is_there or self._lies_in(found, (DONE, DEAD)):
                    yield identity, found

    def messages(self, found: Found) -> Iterator[Seen]:
        """What is in the file; nothing of one that is gone or can't be read."""
        fd = self._opened(found, ("", WORK, DONE, DEAD))
        if fd is None:
            return
        about = f"{os.path.basename(self.folder)}/{printable(found.name)}"
        try:
            if not self._options.lines:
                if found.size <= self._options.max_file:
                    yield Seen(Meta(position=about, timestamp=found.mtime), read_at(fd, found.size, 0))
                return
            lane = printable(found.name)
            for offset, body in _lines_in(fd, found.size, self._options.max_line):
                yield Seen(Meta(position=f"{about}:{offset}", timestamp=found.mtime, lane=lane), body)
        except Unreadable:
            return
        finally:
            os.close(fd)

    def _in(self, place: str) -> Iterator[Found]:
        """Files in the folder itself, or in one of those that whoever reads it moves them to."""
        try:
            entries = os.scandir(os.path.join(self.folder, place))
        except FileNotFoundError:
            if place:
                return
            raise
        with entries:
            for entry in entries:
                found = self._found(entry, is_taken=bool(place))
                if found is not None:
                    yield found

    def _found(self, entry: os.DirEntry[str], *, is_taken: bool) -> Found | None:
        claim = claim_of(entry.name) if is_taken else None
        name = claim.name if claim is not None else entry.name
        if (claim is None) == is_taken or name.startswith(".") or self._matches(name) is None:
            return None
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        if claim is not None:
            return Found(claim.identity, name, claim.size, claim.mtime)
        return Found(identity_of(status), name, status.st_size, status.st_mtime)

    def _lies_in(self, found: Found, places: Sequence[str]) -> bool:
        claimed = claimed_name(found.identity, found.name, self._longest)
        return any(os.path.lexists(os.path.join(self.folder, place, claimed)) for place in places)

    def _opened(self, found: Found, places: Sequence[str]) -> int | None:
        """A descriptor of the file, wherever it is by now; None where it is nowhere, or can't be read."""
        claimed = claimed_name(found.identity, found.name, self._longest)
        for place in places:
            try:
                fd = open_claimed(os.path.join(self.folder, place, claimed if place else found.name))
            except Unreadable:
                continue
            if is_same_file(found.identity, os.fstat(fd)):
                return fd
            os.close(fd)
        return None


def _lines_in(fd: int, size: int, max_line: int) -> Iterator[tuple[int, bytes]]:
    """Lines of the first `size` bytes, with their offsets."""
    at, skips, want = 0, False, max(_CHUNK, max_line + 2)
    while True:
        chunk = read_at(fd, min(want, size - at), at)
        is_last = not chunk or at + len(chunk) >= size
        stretch = cut_lines(chunk, at, is_last=is_last, skips=skips, max_line=max_line)
        yield from zip(stretch.offsets, stretch.bodies, strict=True)
        if is_last or stretch.next <= at:
            return
        at, skips = stretch.next, stretch.skips
