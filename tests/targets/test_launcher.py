"""The launcher as it is used: a process of its own, killed at the instants that matter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.targets import launcher
from bridge.targets.records import Exit, Progress, Records

pytestmark = pytest.mark.integration

SOURCE = launcher.__file__
needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks into /proc")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(str(tmp_path))


@pytest.fixture
def record(records: Records) -> str:
    base = records.base("a/run/key/0", 0)
    records.prepare(base)
    return base


def arguments(record: str, *command: str, timeout: float = 20, grace: float = 0.2, folder: str = "") -> list[str]:
    return [record, str(timeout), str(grace), folder, *command]


def launch(record: str, *command: str, **options: Any) -> subprocess.Popen[bytes]:
    run = [sys.executable, "-I", "-S", SOURCE, *arguments(record, *command, **options)]
    return subprocess.Popen(run, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)


def launched(record: str, *command: str, **options: Any) -> tuple[int, str]:
    process = launch(record, *command, **options)
    said, _ = process.communicate(timeout=20)
    return process.returncode, said.decode()


def changed(record: str, change: str, *command: str, **options: Any) -> int:
    """Runs a launcher in which one line of Python has changed something, and returns its exit code."""
    code = f"import sys; sys.path.insert(0, {os.path.dirname(SOURCE)!r}); import launcher, os, errno\n{change}\n"
    code += "os._exit(launcher.main(*sys.argv[1:]))"
    run = [sys.executable, "-I", "-S", "-c", code, *arguments(record, *command, **options)]
    return subprocess.run(
        run, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=20, check=False, start_new_session=True
    ).returncode


def ended(records: Records, record: str) -> Exit:
    found = records.look(record)
    assert isinstance(found, Exit), found
    return found


SUICIDE = "os.kill(os.getpid(), 9)"


def test_a_command_that_ends_leaves_its_code_and_output(records: Records, record: str) -> None:
    assert launched(record, "sh", "-c", "echo out; echo err >&2; exit 7") == (launcher.RECORDED, "")
    found = ended(records, record)
    assert (found.code, found.reason, found.dropped) == (7, "", 0)
    assert found.output == b"out\nerr\n"
    assert found.ended >= found.started > 0


def test_the_second_launcher_of_a_record_leaves_without_running(record: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    command = ("sh", "-c", f"echo x >> {mark}")
    assert launched(record, *command)[0] == launcher.RECORDED
    assert launched(record, *command)[0] == launcher.TAKEN
    assert mark.read_text() == "x\n"


def test_of_many_launchers_at_once_one_runs_the_command(record: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    processes = [launch(record, "sh", "-c", f"echo x >> {mark}") for _ in range(6)]
    codes = []
    for process in processes:
        process.communicate(timeout=20)
        codes.append(process.returncode)
    assert sorted(codes) == [launcher.RECORDED] + [launcher.TAKEN] * 5
    assert mark.read_text() == "x\n"
    assert not list(Path(record).parent.glob("*.tmp"))


def test_input_and_environment_are_the_commands(records: Records, record: str, tmp_path: Path) -> None:
    (tmp_path / "params").write_bytes(b'{"a":1}')
    run = [sys.executable, "-I", "-S", SOURCE, *arguments(record, "sh", "-c", 'cat; echo " $HEADRACE_JOB"')]
    with (tmp_path / "params").open("rb") as params:
        subprocess.run(run, stdin=params, env={"HEADRACE_JOB": "j", "PATH": os.environ["PATH"]}, check=True, timeout=20)
    assert ended(records, record).output == b'{"a":1} j\n'


def test_it_runs_in_the_folder(records: Records, record: str, tmp_path: Path) -> None:
    folder = tmp_path / "in here"
    folder.mkdir()
    (folder / "tool.sh").write_text("#!/bin/sh\npwd\n")
    (folder / "tool.sh").chmod(0o755)
    launched(record, "./tool.sh", folder=str(folder))
    assert ended(records, record).output.decode().strip() == os.path.realpath(folder)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-program-anywhere", "not found: no-such-program-anywhere"),
        ("/etc/passwd", "not executable: /etc/passwd"),
        ("/dev", "not executable: /dev"),
        ("/etc/passwd/x", "not found: /etc/passwd/x"),
    ],
)
def test_a_command_that_can_never_start_says_why(records: Records, record: str, command: str, reason: str) -> None:
    assert launched(record, command)[0] == launcher.RECORDED
    found = ended(records, record)
    assert (found.pid, found.reason) == (0, reason)


def test_a_script_without_an_interpreter_line_is_not_executable(records: Records, record: str, tmp_path: Path) -> None:
    script = tmp_path / "plain"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    launched(record, str(script))
    assert ended(records, record).reason == f"not executable: {script}"


def test_a_missing_folder_is_named(records: Records, record: str, tmp_path: Path) -> None:
    launched(record, "true", folder=f"{tmp_path}/line\nbreak")
    assert ended(records, record).reason == f"not found: {tmp_path}/line break"


def test_of_endless_output_both_ends_are_kept_and_the_command_lives(records: Records, record: str) -> None:
    script = "echo first; head -c 50000000 /dev/zero; echo last"
    launched(record, "sh", "-c", script)
    found = ended(records, record)
    assert found.code == 0
    assert found.output.startswith(b"first\n")
    assert found.output.endswith(b"\0last\n")
    assert len(found.output) == 2 * launcher.KEPT
    assert found.dropped == 50_000_011 - len(found.output)


@pytest.mark.parametrize("size", [0, 1, launcher.KEPT, launcher.KEPT + 1, 2 * launcher.KEPT, 2 * launcher.KEPT + 1])
def test_output_is_whole_up_to_both_ends(size: int) -> None:
    output, text = launcher.Output(), bytes(i % 251 for i in range(size))
    for start in range(0, size, 1000):
        output.add(text[start : start + 1000])
    output.trim()
    assert output.dropped == max(0, size - 2 * launcher.KEPT)
    assert bytes(output.head) == text[: launcher.KEPT]
    assert bytes(output.tail) == text[launcher.KEPT :][-launcher.KEPT :]


def test_a_command_that_hangs_is_asked_and_then_killed(records: Records, record: str) -> None:
    launched(record, "sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done", timeout=0.2)
    found = ended(records, record)
    assert (found.code, found.reason, found.output) == (-signal.SIGKILL, "timeout", b"deaf\n")
    assert 0.35 < found.ended - found.started < 5


def test_a_timeout_counts_even_where_the_command_ends_well_on_request(records: Records, record: str) -> None:
    launched(record, "sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.02; done", timeout=0.2, grace=5)
    found = ended(records, record)
    assert (found.code, found.reason) == (0, "timeout")


@needs_proc
def test_the_timeout_ends_the_whole_process_group(record: str, tmp_path: Path, until: Callable[..., None]) -> None:
    held = tmp_path / "pid"
    launched(record, "sh", "-c", f"(trap '' TERM; sleep 30) & echo $! > {held}; wait", timeout=0.3)
    child = int(held.read_text())
    until(lambda: not _lives(child), "the grandchild is gone")


def test_children_that_live_on_hold_nobody_up(records: Records, record: str) -> None:
    launched(record, "sh", "-c", "sleep 3 & echo parent")
    found = ended(records, record)
    assert (found.code, found.output) == (0, b"parent\n")
    assert found.ended - found.started < 2


def test_polite_signals_end_the_command_and_leave_a_record(
    records: Records, record: str, tmp_path: Path, until: Callable[..., None]
) -> None:
    mark = tmp_path / "mark"
    process = launch(record, "sh", "-c", f"echo $$ > {mark}; exec sleep 30")
    until(lambda: mark.exists() and mark.read_text().strip(), "the command runs")
    os.kill(process.pid, signal.SIGTERM)  # what a service manager sends to all
    os.kill(int(mark.read_text()), signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == launcher.RECORDED
    assert ended(records, record).code == -signal.SIGTERM


@needs_proc
def test_a_command_gets_no_signal_ignored_and_no_descriptor_but_the_lock(records: Records, record: str) -> None:
    leak_read, leak_write = os.pipe()
    os.set_inheritable(leak_write, True)
    script = "grep -E 'Sig(Ign|Blk)' /proc/self/status; ls -l /proc/self/fd"
    run = [sys.executable, "-I", "-S", SOURCE, *arguments(record, "sh", "-c", script)]
    subprocess.run(run, stdin=subprocess.DEVNULL, check=True, timeout=20, close_fds=False)
    os.close(leak_read)
    os.close(leak_write)
    lines = ended(records, record).output.decode().splitlines()
    masks = {line.split(":")[0]: int(line.split()[1], 16) & 0x7FFFFFFF for line in lines if line.startswith("Sig")}
    assert masks == {"SigIgn": 0, "SigBlk": 0}
    beyond = [line for line in lines if " -> " in line and int(line.split()[-3 if "deleted" not in line else -4]) > 2]
    assert sum("pipe:" in line for line in beyond) == 0
    assert sum(".tmp" in line or ".started" in line for line in beyond) == 1


def test_killed_before_the_link_nothing_has_run_and_the_next_one_runs(records: Records, record: str) -> None:
    assert changed(record, f"launcher.os.link = lambda *_: {SUICIDE}", "true") == -signal.SIGKILL
    assert records.look(record) is Progress.ABSENT
    assert launched(record, "true")[0] == launcher.RECORDED


def test_killed_between_link_and_start_the_run_counts_as_interrupted(records: Records, record: str) -> None:
    assert changed(record, f"launcher.start = lambda *_: {SUICIDE}", "true") == -signal.SIGKILL
    assert records.look(record) is Progress.INTERRUPTED
    assert launched(record, "true")[0] == launcher.TAKEN


def test_killed_between_the_end_and_the_record_the_run_counts_as_interrupted(
    records: Records, record: str, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    command = ("sh", "-c", f"echo x >> {mark}")
    assert changed(record, f"launcher.os.rename = lambda *_: {SUICIDE}", *command) == -signal.SIGKILL
    assert records.look(record) is Progress.INTERRUPTED
    assert launched(record, *command)[0] == launcher.TAKEN
    assert mark.read_text() == "x\n"


def test_while_the_command_of_a_killed_launcher_lives_the_run_is_running(
    records: Records, record: str, tmp_path: Path, until: Callable[..., None]
) -> None:
    go, mark = tmp_path / "go", tmp_path / "mark"
    process = launch(record, "sh", "-c", f"echo x > {mark}; while [ ! -e {go} ]; do sleep 0.02; done")
    until(mark.exists, "the command runs")
    process.kill()
    process.communicate(timeout=20)
    assert records.look(record) is Progress.RUNNING
    go.touch()
    until(lambda: records.look(record) is Progress.INTERRUPTED, "the lock is free")


@pytest.mark.parametrize("error", ["EAGAIN", "ENOMEM", "EMFILE"])
def test_a_start_that_fails_for_now_leaves_no_trace(records: Records, record: str, error: str) -> None:
    change = f"def start(*_): raise OSError(errno.{error}, 'not now')\nlauncher.start = start"
    assert changed(record, change, "true") == launcher.UNABLE
    assert records.look(record) is Progress.ABSENT
    assert not list(Path(record).parent.iterdir())


def test_a_folder_that_refuses_the_lock_is_reported(tmp_path: Path) -> None:
    code, said = launched(str(tmp_path / "missing" / "record"), "true")
    assert code == launcher.UNABLE
    assert "No such file" in said


def test_a_record_that_cannot_be_written_is_said_instead(records: Records, record: str) -> None:
    run = [sys.executable, "-I", "-S", SOURCE, *arguments(record, "sh", "-c", "head -c 9000 /dev/zero; exit 3")]
    limited = ["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", *run]
    done = subprocess.run(limited, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    assert done.returncode == launcher.UNRECORDED
    assert b"code 3\n" in done.stdout
    assert b"dropped 9000\n" in done.stdout
    assert records.look(record) is Progress.INTERRUPTED


def test_nobody_has_to_listen_to_it(records: Records, record: str) -> None:
    """The bridge that asked for the run may be gone: what it says goes nowhere, and nothing else changes."""
    read, write = os.pipe()
    os.close(read)
    run = [sys.executable, "-I", "-S", SOURCE, *arguments(record, "sh", "-c", "echo fine")]
    assert subprocess.run(run, stdin=subprocess.DEVNULL, stdout=write, timeout=20, check=False).returncode == 0
    os.close(write)
    assert ended(records, record).output == b"fine\n"


def test_it_imports_next_to_nothing() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import launcher; print(*sorted(sys.modules))"
    run = [sys.executable, "-I", "-S", "-c", code, os.path.dirname(SOURCE)]
    modules = subprocess.run(run, capture_output=True, timeout=20, check=True, text=True).stdout.split()
    assert {"enum", "re", "json", "subprocess", "typing", "contextlib", "signal", "__future__"}.isdisjoint(modules)
    assert not [name for name in modules if name.startswith(("bridge", "msgspec"))]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
