"""The folder itself: what is refused before anything is read, the lock, and letting go."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from bridge.core.errors import IllegalStep, OwnershipLost, Refused, Transient
from connectors.directory import KIND, DirectoryOptions


def problems(path: Path, **options: object) -> list[str]:
    return list(KIND.check(DirectoryOptions(path=str(path), **options)))


def test_a_good_folder_has_no_problems_and_check_changes_nothing(folder):
    assert problems(folder.path) == []
    assert list(folder.path.iterdir()) == []


def test_a_missing_folder_is_named_with_what_to_do(tmp_path):
    assert problems(tmp_path / "no") == [
        f"the folder {tmp_path}/no does not exist: create it, or correct `path`",
    ]


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    [problem] = problems(tmp_path / "a")
    assert "is a file, not a folder" in problem


def test_a_folder_without_permission_is_named(unprivileged):
    path = Path(tempfile.mkdtemp())
    try:
        with unprivileged(path):
            path.chmod(0o500)
            [problem] = problems(path)
            path.chmod(0o700)
        assert f"no permission on the folder {path}" in problem
    finally:
        shutil.rmtree(path)


@pytest.mark.parametrize("place", [".work", "done", "dead"])
async def test_a_place_on_another_file_system_is_refused_by_check_and_at_open(folder, reading, place):
    (folder.path / place).symlink_to("/proc")  # a file system of its own, wherever there is one
    [problem] = problems(folder.path)
    assert f"{folder.path}/{place} is on another file system" in problem
    folder.drop("a")
    with pytest.raises(Refused, match="on another file system"):
        await reading().poll()
    assert folder.names() == ["a"]


def test_with_on_done_delete_nobody_minds_where_done_is(folder):
    (folder.path / "done").symlink_to("/proc")
    assert problems(folder.path, on_done="delete") == []


async def test_a_file_called_done_is_in_the_way(folder, reading):
    folder.drop("done")
    [problem] = problems(folder.path)
    assert "done is in the way" in problem
    with pytest.raises(Refused, match="in the way"):
        await reading().poll()


def test_a_pattern_with_a_path_or_for_hidden_files_is_a_problem(folder):
    assert "matches names, not paths" in problems(folder.path, pattern="in/*.json")[0]
    assert "never read" in problems(folder.path, pattern=".*")[0]


async def test_a_folder_that_is_missing_at_open_may_come_later(tmp_path, clock):
    producer = KIND.build(DirectoryOptions(path=str(tmp_path / "no")))
    with pytest.raises(Transient, match=r"the folder .*/no can't be opened: No such file"):
        await anext(producer.open_batches())
    await producer.aclose()


async def test_a_second_reader_is_refused_by_pid_and_host_of_the_first(folder, reading):
    (folder.path / ".work").mkdir()
    folder.drop(".work/.lock", b"pid 1 on somewhere with a name of some length\n")  # of an earlier life
    first = reading()
    assert await first.has_nothing_for(1)
    folder.drop("a")
    with pytest.raises(Transient, match=f"pid {os.getpid()} on {socket.gethostname()} holds .*/.work/.lock"):
        await reading().poll()
    assert await first.bodies(1) == [b"{}"]


async def test_the_lock_is_free_once_the_first_reader_closes(folder, reading):
    first = reading()
    assert await first.has_nothing_for(1)
    await first.close()
    folder.drop("a", b"a")
    assert await reading().bodies(1) == [b"a"]


async def test_closing_again_or_without_having_opened_does_nothing(folder, reading):
    reader = reading()
    await reader.producer.aclose()
    await reader.producer.aclose()
    assert list(folder.path.iterdir()) == []


async def test_building_and_naming_the_source_touch_nothing(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder.path)
    assert KIND.source(DirectoryOptions(path=str(link))) == str(folder.path)
    assert KIND.source(DirectoryOptions(path=str(folder.path) + "/")) == str(folder.path)
    producer = KIND.build(DirectoryOptions(path=str(folder.path)))
    assert list(folder.path.iterdir()) == []
    await producer.aclose()


async def test_a_stream_is_opened_once(reading):
    reader = reading()
    assert await reader.has_nothing_for(0.1)
    with pytest.raises(IllegalStep):
        await anext(reader.producer.open_batches())


async def test_nothing_is_settled_after_the_folder_was_let_go(folder, reading):
    folder.drop("a")
    reader = reading()
    pairs = await reader.take(1)
    await reader.close()
    with pytest.raises(OwnershipLost, match="closed"):
        await reader.settle(pairs)
    assert folder.names(".work") == ["a"]


async def test_opening_leaves_no_probe_behind(folder, reading):
    assert await reading().has_nothing_for(0.1)
    assert sorted(p.name for p in folder.path.rglob("*")) == [".lock", ".work", "dead", "done"]
