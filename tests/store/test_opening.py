"""Who may open a store, where one can be, and what a refusal says."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from bridge.core.errors import StoreRefused
from bridge.store.options import InstanceId
from bridge.store.reader import open_reader
from bridge.store.sql import open_store

INSTANCE = InstanceId("one", "here", 4711, "0.1")


async def refusal(url: str) -> str:
    with pytest.raises(StoreRefused) as refused:
        await open_store(url, instance=INSTANCE)
    return str(refused.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "options"),
        ("sqlite:///x.db?mode=ro", "options"),
        ("sqlite+aiosqlite:///x.db", "not supported"),
        ("mysql://user:hunter2@host/db", "not supported"),
        ("headrace.db", "not a URL"),
    ],
)
async def test_a_url_that_names_no_file_of_sqlite_is_refused_with_one_that_does(url: str, words: str) -> None:
    told = await refusal(url)
    assert words in told
    assert "hunter2" not in told


async def test_a_missing_folder_is_refused_and_not_made(tmp_path: Path) -> None:
    told = await refusal(f"sqlite:///{tmp_path}/missing/headrace.db")
    assert f"{tmp_path}/missing does not exist" in told
    assert not (tmp_path / "missing").exists()


async def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    assert "not a file" in await refusal(f"sqlite:///{tmp_path}")


async def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "headrace.db"
    path.write_bytes(b"dear diary, " * 1000)
    assert "not a SQLite database" in await refusal(f"sqlite:///{path}")
    assert path.read_bytes() == b"dear diary, " * 1000


async def test_a_database_of_another_program_is_refused(shelf: Any) -> None:
    shelf.sql("CREATE TABLE diary (day TEXT)")
    assert "not one of headrace" in await refusal(shelf.url)
    assert shelf.sql("SELECT name FROM sqlite_master") == [("diary",)]


async def test_a_damaged_store_is_refused(shelf: Any) -> None:
    store = await shelf.open()
    await store.aclose(clean=True)
    damaged = bytearray(shelf.path.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    shelf.path.write_bytes(bytes(damaged))
    assert "damaged" in await refusal(shelf.url)


async def test_a_newer_schema_is_refused_with_both_versions(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    shelf.sql("UPDATE meta SET schema_version = 7")
    told = await refusal(shelf.url)
    assert "schema version 7" in told
    assert "knows 3" in told


async def test_a_second_instance_is_refused_with_the_pid_and_host_of_the_first(shelf: Any) -> None:
    await shelf.open(host="db-host", pid=31337)
    told = await refusal(shelf.url)
    assert "31337" in told
    assert "db-host" in told


async def test_a_second_instance_is_refused_under_another_name_of_the_file_too(shelf: Any, tmp_path: Path) -> None:
    await shelf.open(pid=31337)
    (tmp_path / "alias.db").symlink_to(shelf.path)
    assert "31337" in await refusal(f"sqlite:///{tmp_path}/alias.db")


async def test_a_refused_second_instance_leaves_the_first_alone(shelf: Any, run_row: Any) -> None:
    first = await shelf.open()
    await refusal(shelf.url)
    assert (await first.commit([run_row(1)], "c1")).stored == 1
    assert [view.state for view in shelf.reader().instances()] != ["crashed"]
    await first.aclose(clean=True)
    await shelf.open()


async def test_a_child_that_outlives_the_instance_does_not_hold_its_lock(shelf: Any) -> None:
    first = await shelf.open()
    code = "import sys; sys.stdin.read()"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdin=PIPE, close_fds=False)
    try:
        await first.aclose(clean=False)
        await shelf.open()
    finally:
        await child.communicate(b"\n")


async def test_an_empty_file_becomes_a_store(shelf: Any) -> None:
    shelf.path.touch()
    store = await shelf.open()
    assert store.store_id


async def test_a_store_has_an_id_for_life_and_a_sequence_that_goes_on(shelf: Any, run_row: Any) -> None:
    first = await shelf.open()
    assert (await first.commit([run_row(1)], "c1")).sequence == 1
    await first.aclose(clean=True)
    second = await shelf.open()
    assert second.store_id == first.store_id
    assert (await second.commit([run_row(2)], "c2")).sequence == 2


async def test_every_commit_survives_a_power_failure_as_far_as_sqlite_can_tell(shelf: Any) -> None:
    store = await shelf.open()

    def pragmas() -> list[Any]:
        connection = store.writer._connection
        assert connection is not None
        names = ("journal_mode", "synchronous", "fullfsync")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert await store.writer.run(pragmas) == ["wal", 2, 1]


async def test_closing_leaves_one_file_and_its_lock(shelf: Any, run_row: Any, tmp_path: Path) -> None:
    store = await shelf.open()
    await store.commit([run_row(1)], "c1")
    await store.aclose(clean=True)
    assert sorted(os.listdir(tmp_path)) == ["headrace.db", "headrace.db.lock"]


async def test_opening_and_closing_leaks_no_descriptor(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        await (await shelf.open()).aclose(clean=False)
        await refusal("sqlite:////no/such/folder/x.db")
    assert len(os.listdir("/dev/fd")) == before


async def test_instances_tell_how_they_ended(shelf: Any) -> None:
    first = await shelf.open(own_clock=False)
    await first.heartbeat(b'{"healthy":true}')
    (view,) = shelf.reader().instances()
    assert (view.id, view.host, view.pid, view.version, view.state) == ("life-1", "here", 4711, "0.1", "running")
    assert view.status == b'{"healthy":true}'
    await first.aclose(clean=False)
    second = await shelf.open(own_clock=False)
    assert [view.state for view in shelf.reader().instances()] == ["running", "crashed"]
    await second.aclose(clean=True)
    assert [view.state for view in shelf.reader().instances()] == ["ended", "crashed"]


async def test_an_instance_that_stopped_giving_signs_is_shown_silent(shelf: Any) -> None:
    await shelf.open()  # its clock stands still, far in the past
    (view,) = shelf.reader().instances()
    assert view.state == "silent"
    assert view.seen_ago > 15


async def test_instances_that_ended_are_forgotten_in_time(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    store = await shelf.open()
    shelf.now += 8 * 86400
    assert await store.prune() == 1
    assert [view.id for view in shelf.reader().instances()] == ["life-2"]


def test_a_reader_needs_a_store_and_does_not_make_one(tmp_path: Path) -> None:
    with pytest.raises(StoreRefused, match="there is no store"):
        open_reader(f"sqlite:///{tmp_path}/headrace.db")
    sqlite3.connect(tmp_path / "other.db").close()
    (tmp_path / "other.db").touch()
    with pytest.raises(StoreRefused, match="not a store of headrace"):
        open_reader(f"sqlite:///{tmp_path}/other.db")
    assert sorted(os.listdir(tmp_path)) == ["other.db"]


async def test_a_reader_refuses_a_newer_schema(shelf: Any) -> None:
    await (await shelf.open()).aclose(clean=True)
    shelf.sql("UPDATE meta SET schema_version = 7")
    with pytest.raises(StoreRefused, match="schema version 7"):
        shelf.reader()
