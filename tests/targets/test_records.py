from __future__ import annotations

import os
import time
from collections.abc import Iterator
from fcntl import LOCK_EX, flock
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.errors import Refused
from bridge.targets.records import Exit, Progress, Records, parse, rerun_of

EXIT = b"pid 7\ncode 3\nreason \nstarted 1.5\nended 2.5\ndropped 0\nsize 4\n\nout\n"


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(str(tmp_path))


@pytest.fixture
def base(records: Records) -> str:
    base = records.base("a/run/key/0", 0)
    records.prepare(base)
    return base


@pytest.fixture
def lock(base: str) -> Iterator[int]:
    fd = os.open(f"{base}.started", os.O_RDWR | os.O_CREAT)
    flock(fd, LOCK_EX)
    yield fd
    os.close(fd)


def write(path: str, text: bytes = b"", age: float = 0.0) -> None:
    Path(path).write_bytes(text)
    then = time.time() - age
    os.utime(path, (then, then))


def test_a_run_has_one_name_and_each_manual_retry_its_own(records: Records) -> None:
    names = {records.base("k", 0), records.base("k", 1), records.base("k", 2), records.base("k2", 0)}
    assert len(names) == 4
    assert records.base("k", 1) == records.base("k", 1)
    assert records.base("k", 1).startswith(records.root)


def test_a_name_does_not_depend_on_where_the_bridge_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Records("state").base("k", 0) == Records(str(tmp_path / "state")).base("k", 0)


def test_no_files_mean_that_it_never_ran(records: Records, base: str) -> None:
    assert records.look(base) is Progress.ABSENT


def test_a_held_lock_means_that_it_runs(records: Records, base: str, lock: int) -> None:
    assert records.look(base) is Progress.RUNNING


def test_a_free_lock_without_a_record_means_interrupted(records: Records, base: str) -> None:
    write(f"{base}.started")
    assert records.look(base) is Progress.INTERRUPTED


def test_a_record_counts_even_while_the_lock_is_held(records: Records, base: str, lock: int) -> None:
    write(f"{base}.exit", EXIT)
    assert records.look(base) == Exit(7, 3, "", 1.5, 2.5, 0, b"out\n")


def test_a_run_that_ends_between_two_looks_is_not_taken_for_interrupted(
    records: Records, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record yet; then it is written and the lock let go; then the lock is found free."""

    def free_just_now(_started: str) -> Progress:
        write(f"{base}.exit", EXIT)
        return Progress.INTERRUPTED

    monkeypatch.setattr("bridge.targets.records._probe", free_just_now)
    assert isinstance(records.look(base), Exit)


@pytest.mark.parametrize("torn", [b"", EXIT[:20], EXIT[:-1], b"\0" * 50, EXIT.replace(b"code 3", b"code ?")])
def test_a_record_that_a_power_cut_tore_is_none(records: Records, base: str, torn: bytes) -> None:
    write(f"{base}.started")
    write(f"{base}.exit", torn)
    assert records.look(base) is Progress.INTERRUPTED


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_any_bytes_are_a_record_or_none(head: bytes, output: bytes) -> None:
    found = parse(head, output)
    assert found is None or found.output == output


def test_looking_does_not_keep_the_lock(records: Records, base: str) -> None:
    write(f"{base}.started")
    for _ in range(3):
        assert records.look(base) is Progress.INTERRUPTED
    fd = os.open(f"{base}.started", os.O_RDWR)
    flock(fd, LOCK_EX)
    os.close(fd)


def test_the_latest_rerun_is_found(records: Records, base: str) -> None:
    assert records.latest(base) == (base, 0)
    write(f"{base}.started")
    assert records.latest(base) == (base, 0)
    write(f"{rerun_of(base, 1)}.started")
    write(f"{rerun_of(base, 2)}.started")
    assert records.latest(base) == (rerun_of(base, 2), 2)


def test_only_what_is_settled_and_old_is_forgotten(records: Records, base: str) -> None:
    other, fresh = records.base("other", 0), records.base("fresh", 0)
    for name, age in ((base, 100), (other, 100), (fresh, 0)):
        records.prepare(name)
        write(f"{name}.started", age=age)
        write(f"{name}.exit", EXIT, age=age)
    records.settle(base)
    records.settle(fresh)
    assert records.forget(time.time() - 50) == 1
    assert records.look(base) is Progress.ABSENT
    assert isinstance(records.look(other), Exit)  # its result is nowhere else
    assert isinstance(records.look(fresh), Exit)


def test_an_interrupted_run_and_its_reruns_are_forgotten_as_well(records: Records, base: str) -> None:
    for name in (base, rerun_of(base, 1)):
        write(f"{name}.started", age=100)
    write(f"{rerun_of(base, 2)}.started", age=100)
    write(f"{rerun_of(base, 2)}.exit", EXIT, age=100)
    records.settle(base)
    assert records.look(base) is Progress.INTERRUPTED
    assert records.forget(time.time() - 50) == 3
    assert not list(Path(base).parent.iterdir())


def test_settling_twice_or_nothing_is_harmless(records: Records, base: str) -> None:
    records.settle(base)
    assert records.look(base) is Progress.ABSENT
    write(f"{base}.started")
    write(f"{base}.exit", EXIT)
    records.settle(base)
    records.settle(base)
    assert isinstance(records.look(base), Exit)


def test_what_a_killed_launcher_left_half_made_goes(records: Records, base: str) -> None:
    write(f"{base}.4711.1.tmp", age=100)
    write(f"{base}.exit.tmp", age=0)
    assert records.forget(time.time() - 50) == 0
    assert [entry.name for entry in Path(base).parent.iterdir()] == [f"{Path(base).name}.exit.tmp"]


def test_a_place_where_state_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    (tmp_path / "commands").write_text("a file")
    with pytest.raises(Refused, match="commands need a folder for their state"):
        Records(str(tmp_path))
