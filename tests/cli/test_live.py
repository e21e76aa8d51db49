"""The table of `run` on a terminal: what it shows, what scrolls above it, and that it leaves nothing behind."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from bridge.cli.live import LINES_MOST, Above, LiveTable, dead_letters, rate, table_of, terminals
from bridge.store.views import Counts

COUNTS = Counts(
    (("pending", "shell", 1200), ("held", "shell", 3), ("failed", "shell", 2), ("pending", "notes", 1)),
    (("dead", "malformed", 3), ("dropped", "malformed", 5), ("dead", "rejected", 1)),
    0,
)
ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")


def status(uptime: float = 7.0, received: int = 0, **stream: Any) -> dict[str, Any]:
    told = {
        "state": "running", "received": received, "matched": {"eu": 2, "us": 3}, "unmatched": 4, "outstanding": 5,
        "oldest": 12.5, "faults": 1, "trouble": None, "watchers": {"py": {"rejected": 2}}, **stream,
    }  # fmt: skip
    targets = {"shell": {"in_flight": 2, "last_error": "exit code 1"}, "notes": {"in_flight": 0}}
    return {
        "uptime": uptime,
        "healthy": True,
        "store": {"trouble": None},
        "streams": {"orders": told},
        "targets": targets,
    }


def drawn(statuses: list[dict[str, Any]], counts: Counts | None = COUNTS, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as shown:
        console.print(table_of(statuses, counts, width))
    return "\n".join(line.rstrip() for line in shown.get().splitlines())


def test_streams_targets_and_what_waits_for_a_person_are_in_the_table() -> None:
    assert drawn([status(2.0, 1000), status(7.0, 6000)]) == (
        "healthy: up 7 s, 4 dead letters wait; Ctrl-C stops\n"
        "\n"
        "stream  state    received  per second  matched  unmatched  outstanding  oldest  dead letters\n"
        "orders  running     6,000       1,000        5          4            5    12 s             3\n"
        "\n"
        "target  pending  in flight  failed  last error\n"
        "shell     1,203          2       2  exit code 1\n"
        "notes         1          0       0"
    )


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    lines = drawn([status()], width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert "oldest" not in "".join(lines)
    assert "state" in "".join(lines)


def test_what_the_store_can_not_tell_is_left_open() -> None:
    assert re.search(r"shell +\? +2 +\?", drawn([status()], None))


def test_the_end_is_said() -> None:
    one = Counts((), (("dead", "malformed", 1),), 0)
    assert drawn([status(state="stopped")], one).startswith("stopped: up 7 s, 1 dead letter waits\n")


def test_trouble_is_said_below() -> None:
    told = {**status(trouble="no such broker"), "healthy": False, "store": {"trouble": "disk full"}}
    shown = drawn([told])
    assert shown.startswith("not healthy: ")
    assert shown.endswith("\n\nstore: disk full\nstream orders: no such broker")


def test_what_a_message_said_can_not_command_the_terminal() -> None:
    assert "\x1b" not in drawn([status(trouble="\x1b[2J")])


def test_a_stream_that_is_full_says_so() -> None:
    assert "running, full" in drawn([status(paused=True)])


def test_a_rate_needs_two_statuses_and_is_never_negative() -> None:
    assert rate([status(1.0, 500)], "orders") == 0
    assert rate([status(1.0, 500), status(3.0, 700)], "orders") == 100
    assert rate([status(1.0, 500), status(3.0, 0)], "orders") == 0
    assert rate([status(1.0, 500), status(3.0, 0)], "unknown") == 0


def test_dead_letters_are_what_could_not_be_read_and_what_was_rejected() -> None:
    outcomes = {"eu": {"missing": 7, "rejected": 3}}
    assert dead_letters({"faults": 2, "outcomes": outcomes, "watchers": {"a": {"rejected": 4}}}) == 9
    assert dead_letters({}) == 0


# Drawing -------------------------------------------------------------------------------------------------------------


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], tuple[LiveTable, Tty]]]:
    """A table on a terminal that is `sys.stderr` for the time being."""
    made: list[LiveTable] = []

    def make(count: Callable[[], Counts] = lambda: COUNTS) -> tuple[LiveTable, Tty]:
        terminal = Tty()
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal)
        console = Console(file=terminal, force_terminal=True, width=100)
        made.append(LiveTable(console, (Above("stderr"),), count))
        return made[-1], terminal

    yield make
    for table in made:
        table.close()


def test_before_the_first_status_lines_go_straight_to_the_terminal(screen: Any) -> None:
    table, terminal = screen()
    print("headrace starts", file=sys.stderr)
    assert terminal.getvalue() == "headrace starts\n"
    table.close()
    assert sys.stderr is terminal


def test_lines_are_above_the_last_table_and_those_that_come_later_below(screen: Any) -> None:
    table, terminal = screen()
    table.show(status())
    print("a line", file=sys.stderr)
    print("no end", end="", file=sys.stderr)
    table.show(status(received=77))
    table.close()
    table.close()
    print(" after all\nlater", file=sys.stderr)
    shown = terminal.getvalue()
    assert shown.index("a line") < shown.rindex("up 7 s") < shown.rindex("77") < shown.index("no end after all")
    assert shown.endswith("later\n")


def test_of_a_flood_the_last_lines_are_shown_and_the_others_counted(screen: Any) -> None:
    table, terminal = screen()
    table.show(status())
    for number in range(5 * LINES_MOST):
        print(f"line {number}", file=sys.stderr)
    table.close()
    shown = terminal.getvalue()
    left_out = sum(int(n.replace(",", "")) for n in re.findall(r"\.\.\. ([\d,]+) lines", shown))
    assert len(re.findall(r"^line \d+", shown, re.MULTILINE)) + left_out == 5 * LINES_MOST
    assert f"line {5 * LINES_MOST - 1}\n" in shown


def test_a_store_that_is_away_ends_nothing(screen: Any) -> None:
    def away() -> Counts:
        raise OSError("gone")

    table, terminal = screen(away)
    table.show(status())
    table.close()
    assert "orders" in terminal.getvalue()


def test_the_cursor_is_never_left_hidden(screen: Any) -> None:
    table, terminal = screen()
    table.show(status())
    table.close()
    shown = terminal.getvalue()
    assert shown.index("\x1b[?25h") < shown.index("healthy")


@pytest.mark.parametrize(("name", "is_drawn"), [("xterm", True), ("dumb", False)])
def test_only_a_terminal_that_can_move_its_cursor_gets_a_table(
    monkeypatch: pytest.MonkeyPatch, name: str, is_drawn: bool
) -> None:
    terminal = Tty()
    monkeypatch.setenv("TERM", name)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    found = terminals()
    assert (found is not None) is is_drawn
    assert (sys.stderr is terminal) is not is_drawn


def test_what_is_no_terminal_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert terminals() is None


# The real one --------------------------------------------------------------------------------------------------------


def _until(process: subprocess.Popen[str], ours: int, what: bytes, seen: bytes = b"") -> bytes:
    ends_at = time.monotonic() + 30
    os.set_blocking(ours, False)
    while what not in ESCAPE.sub(b"", seen):
        assert time.monotonic() < ends_at, seen
        try:
            seen += os.read(ours, 65536)
        except BlockingIOError:
            assert process.poll() is None, seen
            time.sleep(0.01)
    return seen


def _rest(process: subprocess.Popen[str], ours: int) -> bytes:
    seen = b""
    while True:
        has_ended = process.poll() is not None
        try:
            seen += os.read(ours, 65536)
        except BlockingIOError:
            if has_ended:
                return seen
            time.sleep(0.01)


@pytest.mark.integration
def test_run_on_a_terminal_shows_the_table_and_leaves_the_terminal_as_it_was(
    headrace_process: Any, terminal: Any, home: Any
) -> None:
    with terminal() as (ours, theirs):
        environment = {**os.environ, "TERM": "xterm"}
        process = headrace_process("run", stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        seen = _until(process, ours, b"orders  running")
        (home.folder / "drop" / ".a").write_text('{"region": "eu", "order_id": "o-1"}\n')
        (home.folder / "drop" / ".a").rename(home.folder / "drop" / "a.jsonl")
        seen = _until(process, ours, b"Ctrl-C stops", _until(process, ours, b"orders  running         1", seen))
        process.send_signal(signal.SIGINT)
        seen += _rest(process, ours)
    assert process.returncode == 0
    plain = ESCAPE.sub(b"", seen)
    assert b"headrace starts" in plain
    assert b"stopped" in plain
    assert b"Traceback" not in plain
    assert seen.rfind(b"\x1b[?25h") > seen.rfind(b"\x1b[?25l")
    assert b"\x1b[?1049h" not in seen


@pytest.mark.integration
@pytest.mark.parametrize("option", [("--no-live",), ("--log-level", "debug")])
def test_without_the_table_a_terminal_gets_the_log_alone(
    headrace_process: Any, terminal: Any, option: tuple[str, ...]
) -> None:
    with terminal() as (ours, theirs):
        environment = {**os.environ, "TERM": "xterm"}
        process = headrace_process("run", *option, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        seen = _until(process, ours, b"group started")
        process.send_signal(signal.SIGTERM)
        seen += _rest(process, ours)
    assert process.returncode == 0
    assert b"Ctrl-C stops" not in seen
