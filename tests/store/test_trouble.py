"""Why a store takes no writes is told past the database, in the lock file that its process holds."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.core.errors import StoreRefused, StoreUnavailable
from bridge.store.lock import Holder, StoreLock, read_trouble

HOLDER = Holder(4711, "elsewhere", 1.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "headrace.db.lock"


@pytest.fixture
def lock(path: Path) -> Iterator[StoreLock]:
    taken = StoreLock.take(str(path), HOLDER)
    yield taken
    taken.release()


def leave_behind(path: Path, **told: object) -> None:
    """What a process that was killed leaves in the file."""
    path.write_text(json.dumps({"pid": 1, "host": "h", "started_at": 1, **told}))


def test_the_lock_tells_its_trouble_from_whom_and_since_when(lock: StoreLock, path: Path) -> None:
    assert read_trouble(str(path)) == ""
    lock.note("the disk is full")
    assert re.fullmatch(r"the disk is full \(process 4711 on elsewhere, since \d s\)", read_trouble(str(path)))
    lock.note(None)
    assert read_trouble(str(path)) == ""
    assert json.loads(path.read_bytes()) == {"pid": 4711, "host": "elsewhere", "started_at": 1.0}


def test_a_trouble_that_changes_has_lasted_since_the_first(lock: StoreLock, path: Path) -> None:
    def since() -> float:
        return float(json.loads(path.read_bytes())["since"])

    lock.note("locked")
    first = since()
    lock.note("full")
    assert since() == first
    assert read_trouble(str(path)).startswith("full (")
    lock.note(None)
    lock.note("full")
    assert since() > first


@pytest.mark.parametrize(("seconds", "age"), [(12, "12 s"), (600, "10 min"), (-500, "0 s")])
def test_the_age_is_told_in_words(path: Path, seconds: float, age: str) -> None:
    leave_behind(path, trouble="t", since=time.time() - seconds)
    assert read_trouble(str(path)) == f"t (process 1 on h, since {age})"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(st.characters(), min_size=1) | st.sampled_from(['"' * 5000, "\0" * 700, "\udcff" * 999, "ü" * 700]))
def test_whatever_is_noted_the_file_keeps_its_size_and_tells_the_beginning(
    lock: StoreLock, path: Path, trouble: str
) -> None:
    lock.note(trouble)
    assert path.stat().st_size == 1024
    told = read_trouble(str(path))
    assert told.endswith(" s)")
    assert told[:9] == f"{trouble} (process".encode("utf-8", "replace").decode()[:9]
    lock.note(None)
    assert path.stat().st_size == 1024
    assert read_trouble(str(path)) == ""


@pytest.mark.parametrize("left", [b"", b'{"pid":1,"host":"h","started_at":1}', b"\xff" * 5000, b" " * 5000])
def test_what_was_left_in_the_file_is_replaced(path: Path, left: bytes) -> None:
    path.write_bytes(left)
    assert read_trouble(str(path)) == ""
    lock = StoreLock.take(str(path), HOLDER)
    lock.note("the disk is full")
    assert read_trouble(str(path)).startswith("the disk is full (")
    with pytest.raises(StoreRefused, match="process 4711 on elsewhere"):
        StoreLock.take(str(path), HOLDER)
    lock.release()
    assert read_trouble(str(path)) == ""


def test_a_note_that_the_disk_refuses_is_silent_and_can_be_made_again(
    lock: StoreLock, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("os.pwrite", refuse)
        lock.note("the disk is full")
        assert read_trouble(str(path)) == ""
    lock.note("the disk is full")
    assert read_trouble(str(path)).startswith("the disk is full (")
    with monkeypatch.context() as full:
        full.setattr("os.pwrite", lambda *_: 3)
        lock.note(None)
    lock.note(None)
    assert read_trouble(str(path)) == ""


def test_what_a_killed_process_noted_counts_no_more(path: Path) -> None:
    code = f"""
import os, socket, sys
from bridge.store.lock import Holder, StoreLock
StoreLock.take({str(path)!r}, Holder(os.getpid(), socket.gethostname(), 1.0)).note("the disk is full")
print("noted", flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "noted\n"
        assert f"(process {holder.pid} on {socket.gethostname()}, " in read_trouble(str(path))
        holder.kill()
    assert b"the disk is full" in path.read_bytes()
    assert read_trouble(str(path)) == ""


def test_where_there_is_no_lock_there_is_no_trouble(path: Path) -> None:
    assert read_trouble(str(path)) == ""
    path.mkdir()
    assert read_trouble(str(path)) == ""


# The store -----------------------------------------------------------------------------------------------------------


async def test_a_reader_is_told_while_nothing_can_be_written(shelf: Any) -> None:
    store = await shelf.open(busy_timeout=0.05)
    reader = shelf.reader()
    assert reader.trouble() == ""
    store.note("no luck")
    assert re.fullmatch(r"no luck \(process 4711 on here, since \d s\)", reader.trouble())
    await store.aclose(clean=False)
    assert reader.trouble() == ""


async def test_the_next_instance_does_not_inherit_it(shelf: Any) -> None:
    first = await shelf.open()
    await first.aclose(clean=False)
    leave_behind(Path(f"{shelf.path}.lock"), trouble="no luck")
    assert "no luck" in shelf.reader().trouble()
    await shelf.open()
    assert shelf.reader().trouble() == ""


async def test_a_heartbeat_that_can_not_be_stored_leaves_its_reason(shelf: Any) -> None:
    """An instance that has nothing to commit finds out by this alone."""
    store = await shelf.open(busy_timeout=0.05)
    with closing(sqlite3.connect(shelf.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await store.heartbeat(b"{}")
        assert "is locked by another process" in shelf.reader().trouble()
        store.note("what the commit says")
        with pytest.raises(StoreUnavailable):
            await store.heartbeat(b"{}")
        assert shelf.reader().trouble().startswith("what the commit says (")
    await store.heartbeat(b"{}")
    assert shelf.reader().trouble().startswith("what the commit says (")
    store.note(None)
    await store.heartbeat(b"{}")
    assert shelf.reader().trouble() == ""


async def test_a_heartbeat_that_is_stored_again_takes_its_own_reason_back(shelf: Any) -> None:
    store = await shelf.open(busy_timeout=0.05)
    with closing(sqlite3.connect(shelf.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable):
            await store.heartbeat(b"{}")
    await store.heartbeat(b"{}")
    assert shelf.reader().trouble() == ""
