"""How the command begins and ends: help, versions, errors, pipes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from io import RawIOBase, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import asking, endings, output
from bridge.cli import main as command

COMMANDS = [
    "init", "validate", "test", "explain", "run", "send", "tail", "status", "show", "schema", "pause", "resume",
    "disable", "enable",
    "completion", "version", "runs list", "runs show", "runs retry", "dlq list", "dlq show", "dlq replay", "dlq drop",
]  # fmt: skip

Rows = Callable[..., Any]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_each_command_has_an_example_of_it(headrace: Any, name: str) -> None:
    said = headrace(*name.split(), "--help")
    assert said.code == 0
    assert "Example" in said.out
    examples = said.out.partition("Example")[2]
    assert f"    headrace {name}" in examples
    assert "Traceback" not in said.err


def test_the_help_lists_what_there_is_and_nothing_else(headrace: Any) -> None:
    said = headrace("--help")
    listed = {line.split()[0] for line in said.out.partition("Commands:")[2].splitlines() if line.startswith("  ")}
    assert listed - {"Exit", "More"} == {name.split()[0] for name in COMMANDS}
    assert "--install-completion" not in said.out
    for group in ("runs", "dlq"):
        lines = headrace(group, "--help").out.partition("Commands:")[2].splitlines()
        assert {f"{group} {line.split()[0]}" for line in lines if line} == {n for n in COMMANDS if n.startswith(group)}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_manual_with_an_example(name: str) -> None:
    manual = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    assert f"\nheadrace {name}" in manual


@pytest.mark.parametrize(
    "arguments", [("nope",), ("runs", "lst"), ("status", "--nope"), ("runs", "list", "--state", "x"), ("runs", "retry")]
)
def test_a_wrong_call_is_told_and_ends_with_2(headrace: Any, arguments: tuple[str, ...]) -> None:
    said = headrace(*arguments)
    assert (said.code, said.out) == (2, "")
    assert "Try 'headrace" in said.err


def test_a_mistyped_command_is_suggested(headrace: Any) -> None:
    assert "'validate'" in headrace("vaildate").err


# version -------------------------------------------------------------------------------------------------------------


def test_the_versions_are_shown(headrace: Any) -> None:
    python = sys.version.split()[0]
    said = headrace("version", "--output", "table")
    assert said.out.startswith("headrace ")
    assert f"Python {python}" in said.out
    for arguments in ((), ("-o", "json")):
        shown = headrace("version", *arguments).json
        assert set(shown) == {"version", "python", "sqlite"}
        assert shown["python"] == python


def test_the_version_costs_no_more_than_the_interpreter_and_its_parser(headrace_process: Any) -> None:
    """What takes time is imported inside of the commands that need it."""
    script = (
        "import sys; from bridge.cli.main import main; code = main(['version']); "
        "heavy = {'sqlalchemy', 'ruamel', 'structlog', 'asyncio', 'bridge.wiring', 'rich', 'pydantic'}; "
        "heavy &= set(sys.modules); "
        "print(sorted(heavy), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "[]\n")


# errors --------------------------------------------------------------------------------------------------------------


def broken(*_: object) -> None:
    raise ZeroDivisionError("by zero\x1b[2J")


def test_a_defect_is_one_line_that_says_where_to_report_it(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.cli.opening.config_paths", broken)
    said = headrace("validate")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("headrace: unexpected ZeroDivisionError: by zero\\x1b[2J. This is a defect")
    assert "report" in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize("how", ["environment", "option"])
def test_the_stack_of_a_defect_is_shown_at_debug(headrace: Any, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr("bridge.cli.opening.config_paths", broken)
    if how == "environment":
        monkeypatch.setenv(endings.LOG_LEVEL, "DEBUG")
        said = headrace("validate")
    else:
        said = headrace("run", "--log-level", "debug")
    assert "Traceback" in said.err
    assert "in broken\n" in said.err


def test_a_known_error_never_shows_a_stack(headrace: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(endings.LOG_LEVEL, "debug")
    (home.folder / "headrace.db").write_bytes(b"dear diary, " * 1000)
    said = headrace("runs", "list")
    assert said.code == 3
    assert "not a SQLite database" in said.err
    assert "Traceback" not in said.err


# pipes and signals ---------------------------------------------------------------------------------------------------


async def test_a_reader_that_has_enough_ends_it_quietly(headrace_process: Any, home: Any, run_row: Rows) -> None:
    await home.filled(*(run_row(f"{n}-{'x' * 200}") for n in range(1000)))
    process = headrace_process(
        "runs", "list", "--limit", "1000", "-o", "table", env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    assert process.stdout.readline().startswith("run key")
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr.read() == ""


class Narrow(RawIOBase):
    """An unbuffered output, as with PYTHONUNBUFFERED in many containers: a write takes what there is room for."""

    def __init__(self) -> None:
        self.taken = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.taken += bytes(data[:1000])
        return min(len(data), 1000)


def test_a_large_answer_arrives_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = Narrow()
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(narrow, write_through=True))  # type: ignore[type-var]
    output.say_json(["x" * 100] * 100)
    output.say("y" * 5000)
    monkeypatch.undo()
    document, _, line = narrow.taken.decode().partition("]\n")
    assert json.loads(document + "]") == ["x" * 100] * 100
    assert line == "y" * 5000 + "\n"


async def test_ctrl_c_while_it_waits_ends_it_quietly_and_the_intent_stays(
    headrace: Any, home: Any, run_row: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    store = await home.open()
    monkeypatch.setattr(asking.time, "sleep", interrupted)
    said = headrace("pause", "eu_orders")
    assert (said.code, said.out, said.err) == (130, "", "")
    assert [intent.kind for intent in await store.take_intents()] == ["pause"]


async def test_a_list_has_colour_where_that_is_wanted(
    headrace: Any, home: Any, run_row: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.filled(run_row(1))
    assert "\x1b" not in headrace("runs", "list", "-o", "table").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[33mpending" in headrace("runs", "list", "-o", "table").out


async def test_a_terminal_gets_a_spinner_while_it_waits_and_no_json(
    headrace_process: Any, terminal: Any, home: Any
) -> None:
    store = await home.open()
    with terminal() as (ours, theirs):
        environment = {**os.environ, "TERM": "xterm"}
        process = headrace_process("pause", "eu_orders", stdout=theirs, stderr=theirs, env=environment)
        seen = b""
        while b"waiting for the instance" not in seen:  # the timeout of the test bounds it
            seen += os.read(ours, 4096)
        await store.take_intents()
        seen = _until_end(process, ours)
    assert b"eu_orders is paused" in seen


def _until_end(process: subprocess.Popen[str], terminal: int) -> bytes:
    """What a process wrote until it ended; at most so long."""
    seen = b""
    ends_at = time.monotonic() + 30
    os.set_blocking(terminal, False)
    while time.monotonic() < ends_at:
        has_ended = process.poll() is not None
        try:
            seen += os.read(terminal, 65536)
        except BlockingIOError:
            if has_ended:
                break
            time.sleep(0.01)
    os.set_blocking(terminal, True)
    assert process.wait(1) == 0, seen
    return seen


def test_an_interrupt_anywhere_is_130(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command.version, "version", interrupted)
    said = headrace("version")
    assert (said.code, said.out, said.err) == (endings.INTERRUPTED, "", "")
    assert endings.INTERRUPTED == 128 + signal.SIGINT


def test_a_closed_output_is_no_error() -> None:
    script = f"{sys.executable} -m bridge.cli.main version >&-"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_input_is_an_empty_message(home: Any) -> None:
    script = f"{sys.executable} -m bridge.cli.main explain --output table <&-"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=30, cwd=home.folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "the body is empty" in done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no device that is full")
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_full_disk_is_no_defect(home: Any, form: str) -> None:
    script = f"{sys.executable} -m bridge.cli.main show --output {form} >/dev/full"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=30, cwd=home.folder)
    assert done.returncode == endings.ENVIRONMENT
    assert done.stderr == "headrace: the answer can't be written: No space left on device\n"


@pytest.mark.parametrize("name", ["validate", "test", "run", "status", "show"])
def test_a_configuration_that_is_named_as_other_commands_want_it_is_put_right(headrace: Any, name: str) -> None:
    said = headrace(name, "--config", "headrace.yaml")
    assert said.code == 2
    assert f"headrace {name} PATH" in said.err
    assert "as its argument" not in headrace(name, "--confg", "headrace.yaml").err
