"""The table of `headrace run` on a terminal: how it goes, once a second, with the log scrolling above it.

A thread draws. So a terminal that takes nothing for a while (Ctrl-S, a slow line) holds up no message; what is logged
meanwhile waits, and of a flood the oldest lines are left out, with a word about how many. The cursor is never hidden
and the terminal's mode never changed: however the process ends, there is nothing to put right.
"""

from __future__ import annotations

import io
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, TextIO

from rich.ansi import AnsiDecoder
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from bridge.cli.health import number, reported
from bridge.cli.tables import STYLES, Column, listing
from bridge.cli.words import printable, span

if TYPE_CHECKING:
    from bridge.store.views import Counts

LINES_MOST: Final = 1000
"""Lines that wait for the thread."""
_EVERY: Final = 0.1  # seconds between two looks for lines
_REFRESH: Final = 1.0
_WINDOW: Final = 5  # statuses over which a rate is taken
_SHARE: Final = 20  # counting the store takes at most one part in so many of the time

Status = Mapping[str, Any]


class Above(io.TextIOBase):
    """A terminal whose lines go above the table while there is one, and straight to it otherwise."""

    def __init__(self, name: str) -> None:
        """Takes the place of `sys.<name>` until `end`."""
        self.terminal: TextIO = getattr(sys, name)
        self._name = name
        setattr(sys, name, self)
        self.take: Callable[[str], None] | None = None
        self._begun = ""
        self._lock = Lock()

    def write(self, text: str) -> int:
        with self._lock:
            if self.take is None:
                return self.terminal.write(text)
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                self.take(line)
        return len(text)

    def flush(self) -> None:
        if self.take is None:
            self.terminal.flush()

    def isatty(self) -> bool:
        return self.terminal.isatty()

    def fileno(self) -> int:
        return self.terminal.fileno()

    def begin(self, take: Callable[[str], None]) -> None:
        with self._lock:
            self.take = take

    def end(self) -> None:
        """What has no end of line yet is written as it is. May be repeated."""
        with self._lock:
            self.take, begun, self._begun = None, self._begun, ""
        if begun:
            self.terminal.write(begun)
        if getattr(sys, self._name) is self:
            setattr(sys, self._name, self.terminal)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.terminal, name)  # encoding, buffer and the like


class LiveTable:
    """Drawn from the first `show` to `close`. `count` asks the store; it may raise, and then says nothing."""

    def __init__(self, console: Console, above: tuple[Above, ...], count: Callable[[], Counts]) -> None:
        self._console = console
        self._above = above
        self._count = count
        self._statuses: deque[Status] = deque(maxlen=_WINDOW + 1)
        self._lines: deque[str] = deque()
        self._left_out = 0
        self._counts: Counts | None = None
        self._count_at = 0.0
        self._ended = Event()
        self._thread: Thread | None = None

    def show(self, status: Status) -> None:
        """What the process tells of itself. Quick: it only keeps it."""
        self._statuses.append(status)
        if self._thread is None and not self._ended.is_set():
            for stream in self._above:
                stream.begin(self._put)
            self._thread = Thread(target=self._draw, name="headrace-table", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The last table and all that was logged stay on the screen; what comes later goes below. May be repeated."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(2.0)  # a terminal that takes nothing does not hold up the end
        for stream in self._above:
            stream.end()

    def _put(self, line: str) -> None:
        self._lines.append(line)
        if len(self._lines) > LINES_MOST:
            with suppress(IndexError):
                self._lines.popleft()
                self._left_out += 1

    # In the thread ---------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        live = Live(console=self._console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        decoder = AnsiDecoder()
        try:
            live.start()
            self._console.show_cursor(True)
            refresh_at = 0.0
            while not self._ended.wait(_EVERY):
                self._scroll(decoder)
                if time.monotonic() >= refresh_at:
                    refresh_at = time.monotonic() + _REFRESH
                    self._look_into_store()
                    live.update(self._table(), refresh=True)
            self._scroll(decoder)
            live.update(self._table())
            live.stop()
        except OSError:  # the terminal is gone
            self._ended.set()
            for stream in self._above:
                stream.end()

    def _scroll(self, decoder: AnsiDecoder) -> None:
        lines: list[str] = []
        if self._left_out:
            lines.append(f"... {self._left_out:,} lines of the log are left out here: they came too fast")
            self._left_out = 0
        with suppress(IndexError):
            while True:
                lines.append(self._lines.popleft())
        if lines:
            self._console.print(Text("\n").join(map(decoder.decode_line, lines)), soft_wrap=True)

    def _look_into_store(self) -> None:
        """A store with a million runs that wait is not counted every second."""
        began = time.monotonic()
        if began < self._count_at:
            return
        try:
            self._counts = self._count()
        except Exception:  # it is away, or not there yet: the status says so
            self._counts = None
        self._count_at = time.monotonic() + _SHARE * (time.monotonic() - began)

    def _table(self) -> RenderableType:
        return table_of(list(self._statuses), self._counts, self._console.width)


def terminals() -> tuple[Console, tuple[Above, ...]] | None:
    """Where a table can be drawn, and what must go through it then; None where nobody would see it.

    The terminal behind standard error, where the log goes; else the one behind standard output.
    """
    ttys = [name for name in ("stderr", "stdout") if getattr(sys, name).isatty()]
    if not ttys:
        return None
    console = Console(file=getattr(sys, ttys[0]), highlight=False, markup=False, emoji=False)
    if not console.is_terminal or console.is_dumb_terminal:
        return None
    return console, tuple(map(Above, ttys))  # both: what code of watchers prints must go above as well


# The table -----------------------------------------------------------------------------------------------------------


def table_of(statuses: list[Status], counts: Counts | None, width: int) -> RenderableType:
    """From the last statuses of the process, the latest last, and what the store counts. Pure."""
    if not statuses:
        return Text("")
    latest = statuses[-1]
    streams = [(name, said) for name, said in latest.get("streams", {}).items()]
    targets = [(name, said) for name, said in latest.get("targets", {}).items()]
    parts: list[RenderableType] = [_headline(latest, counts)]
    if streams:
        parts += ["", listing(streams, _stream_columns(statuses), width)]
    if targets:
        parts += ["", listing(targets, _target_columns(counts), width)]
    troubles = list(_troubles(latest))
    return Group(*parts, *([""] if troubles else []), *troubles)


def _headline(status: Status, counts: Counts | None) -> Text:
    waiting = sum(n for state, _, n in counts.dead_letters if state == "dead") if counts is not None else 0
    up = f"up {span(float(status.get('uptime') or 0))}"
    letters = (
        [f"{waiting:,} dead letter waits" if waiting == 1 else f"{waiting:,} dead letters wait"] if waiting else []
    )
    states = {said.get("state") for said in status.get("streams", {}).values()}
    if states == {"stopped"}:
        return Text.assemble(("stopped", "bold"), f": {', '.join((up, *letters))}")
    is_healthy = status.get("healthy") is True
    word = ("healthy", "bold green") if is_healthy else ("not healthy", "bold red")
    return Text.assemble(word, f": {', '.join((up, *letters))}; Ctrl-C stops")


Row = tuple[str, Status]


def _stream_columns(statuses: list[Status]) -> list[Column[Row]]:
    def told(key: str) -> Callable[[Row], str]:
        return lambda row: f"{number(row[1], key):,}"

    return [
        Column("stream", lambda row: row[0]),
        Column("state", lambda row: f"{row[1].get('state', '')}{', full' if row[1].get('paused') else ''}"),
        Column("received", told("received"), 2, right=True),
        Column("per second", lambda row: f"{rate(statuses, row[0]):,.0f}", 1, right=True),
        Column("matched", lambda row: f"{_sum(row[1].get('matched')):,}", 1, right=True),
        Column("unmatched", told("unmatched"), 3, right=True),
        Column("outstanding", told("outstanding"), 1, right=True),
        Column("oldest", lambda row: _oldest(row[1]), 2, right=True),
        Column("partitions", lambda row: reported(row[1], "partitions"), 4, right=True),
        Column("lag", lambda row: reported(row[1], "lag"), 1, right=True),
        Column("dead letters", lambda row: f"{dead_letters(row[1]):,}", 1, right=True),
    ]


def _target_columns(counts: Counts | None) -> list[Column[Row]]:
    def stored(*states: str) -> Callable[[Row], str]:
        def cell(row: Row) -> str:
            if counts is None:
                return "?"
            return f"{sum(n for state, target, n in counts.runs if target == row[0] and state in states):,}"

        return cell

    return [
        Column("target", lambda row: row[0]),
        Column("pending", stored("pending", "held"), right=True),
        Column("in flight", lambda row: f"{number(row[1], 'in_flight'):,}", right=True),
        Column("failed", stored("failed"), right=True),
        Column("last error", lambda row: str(row[1].get("last_error") or ""), 2, "folded"),
    ]


def rate(statuses: list[Status], stream: str) -> float:
    """Messages received each second, over the statuses that there are."""
    first, last = statuses[0], statuses[-1]
    seconds = float(last.get("uptime") or 0) - float(first.get("uptime") or 0)
    then, now = (number(status.get("streams", {}).get(stream, {}), "received") for status in (first, last))
    return max(0, now - then) / seconds if seconds > 0 else 0.0


def dead_letters(stream: Status) -> int:
    """What a stream refused since the start: what could not be read, and what watchers rejected."""
    parts = [stream.get("outcomes") or {}, stream.get("watchers") or {}]
    watchers = [said for part in parts for said in part.values() if isinstance(said, Mapping)]
    return number(stream, "faults") + sum(number(said, "rejected") for said in watchers)


def _oldest(stream: Status) -> str:
    age = stream.get("oldest")
    return span(age) if isinstance(age, int | float) else ""


def _sum(matched: object) -> int:
    return sum(n for n in matched.values() if isinstance(n, int)) if isinstance(matched, Mapping) else 0


def _troubles(status: Status) -> Iterator[Text]:
    store = status.get("store") or {}
    told = [("store", "", store)]
    told += [(what[:-1], f" {name}", said) for what in ("streams", "targets") for name, said in status[what].items()]
    for what, name, said in told:
        if said.get("trouble"):
            yield Text(f"{what}{name}: {printable(str(said['trouble']))}", STYLES["failed"])
