"""Lines of a file, cut out of chunks. Pure but for `read_lines`.

Lines end at `\\n`; a `\\r` in front of it belongs to the ending. Empty lines are no events. What follows the last
ending is a line as well. The offset of a line is that of its first byte in the file, however it was read.

Of a line that is longer than `max_line` the first `max_line` bytes are delivered, and a byte behind them that no UTF-8
text can hold: the event is there, is nobody's by mistake (a part of a document may be a document), and becomes a dead
letter. The file is then never deleted, since only it has the rest.
"""

from __future__ import annotations

import os
from itertools import accumulate, count
from operator import add
from typing import Final

from msgspec import Struct

from connectors.directory.files import open_claimed, read_at

CUT: Final = b"\xff"


class Stretch(Struct, eq=False):
    """Lines that were cut out, and where to go on. `skips`: at `next` we are inside a line that is done with."""

    bodies: list[bytes]
    offsets: list[int]
    next: int
    skips: bool = False
    is_last: bool = False
    cut: int = 0


def cut_lines(chunk: bytes, at: int, *, is_last: bool, skips: bool, max_line: int) -> Stretch:
    """The lines of `chunk`, which starts at offset `at`. A line that may go on behind it is left for the next one.

    With `skips` the chunk starts inside a line that is done with, and everything up to its end is passed over.
    """
    start = 0
    if skips:
        start = chunk.find(b"\n") + 1
        if not start:
            return Stretch([], [], at + len(chunk), not is_last, is_last)
    rest = chunk.rfind(b"\n") + 1
    bodies, offsets = _ended(chunk, at, start, rest)
    going_on = False
    if rest < len(chunk) and (is_last or len(chunk) - rest > max_line + 1):  # 1: it may yet turn out to be a \r
        going_on = not is_last
        bodies.append(chunk[rest:])
        offsets.append(at + rest)
        rest = len(chunk)
    cut = 0
    if bodies and max(map(len, bodies)) > max_line:
        cut = sum(len(body) > max_line for body in bodies)
        bodies = [body if len(body) <= max_line else body[:max_line] + CUT for body in bodies]
    return Stretch(bodies, offsets, at + rest, going_on, is_last, cut)


def _ended(chunk: bytes, at: int, start: int, stop: int) -> tuple[list[bytes], list[int]]:
    """Lines between `start` and `stop`, which is behind a line's end."""
    if stop <= start:
        return [], []
    bodies = chunk[start : stop - 1].split(b"\n")
    offsets = list(map(add, accumulate(map(len, bodies), initial=at + start), count()))
    offsets.pop()
    if b"\r" in chunk:
        bodies = [body[:-1] if body[-1:] == b"\r" else body for body in bodies]
    if b"" in bodies:
        offsets = [offset for offset, body in zip(offsets, bodies, strict=True) if body]
        bodies = [body for body in bodies if body]
    return bodies, offsets


def read_lines(path: str, at: int, *, size: int, skips: bool, want: int, max_line: int) -> Stretch:
    """Reads about `want` bytes from `at` and cuts them; always gets further, or says that it was the last.

    Nothing from `size` on is read. Raises Unreadable for the file's own trouble.
    """
    fd = open_claimed(path)
    try:
        while True:
            ask = min(want, size - at)
            chunk = read_at(fd, ask, at)
            is_last = len(chunk) < ask or at + ask >= size
            stretch = cut_lines(chunk, at, is_last=is_last, skips=skips, max_line=max_line)
            if is_last or stretch.next > at:
                return stretch
            want = max_line + 2
    finally:
        os.close(fd)


def is_line_start(path: str, at: int) -> bool:
    """A position can be trusted only if a line starts there."""
    if at == 0:
        return True
    fd = open_claimed(path)
    try:
        return read_at(fd, 1, at - 1) == b"\n"
    finally:
        os.close(fd)
