"""How dropped files become claims: which, when, under what name, and what a restart finds."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

import connectors.directory.scanner as scanner
from bridge.core.errors import Transient
from connectors.directory.claim import claim_of, claimed_name, identity_of, printable


def identity_at(path: Path) -> str:
    return identity_of(path.stat())


# When ----------------------------------------------------------------------------------------------------------------


async def test_a_file_that_is_still_written_is_left_until_it_settles(folder, reading):
    path = folder.drop("a.json", b"{")
    reader = reading(settle=2.0)
    assert await reader.has_nothing_for(1.9)
    path.write_bytes(b'{"a":')
    assert await reader.has_nothing_for(1.9)
    path.write_bytes(b'{"a": 1}')
    assert await reader.bodies(1) == [b'{"a": 1}']


async def test_a_file_whose_mtime_alone_changes_is_not_settled(folder, reading):
    path = folder.drop("a.json")
    reader = reading(settle=2.0)
    for step in range(4):
        assert await reader.has_nothing_for(1.5)
        os.utime(path, ns=(step, step))
    assert await reader.bodies(1) == [b"{}"]


async def test_a_file_that_is_replaced_by_another_of_the_same_size_starts_to_settle_anew(folder, reading):
    path = folder.drop("a.json", b"1")
    status = path.stat()
    reader = reading(settle=2.0)
    assert await reader.has_nothing_for(1.9)
    other = folder.path / ".other"
    other.write_bytes(b"2")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(path)
    assert await reader.has_nothing_for(1.9)
    assert await reader.bodies(1) == [b"2"]


async def test_a_file_is_delivered_within_the_poll_interval_and_the_time_to_settle(folder, reading, clock):
    reader = reading(settle=0.35, poll_interval=0.2)
    assert await reader.has_nothing_for(1.0)
    for name in ("a", "b", "c"):
        folder.drop(name)
        dropped = clock.time
        await reader.take(1)
        assert clock.time - dropped <= 0.55 + 1e-6
        assert await reader.has_nothing_for(0.13)
    folder.drop("d")
    assert await reader.has_nothing_for(0.1)
    folder.drop("e", b"e")
    dropped = clock.time
    assert (await reader.take(2))[1][0] == b"e"
    assert clock.time - dropped <= 0.55 + 1e-6


async def test_with_settle_0s_a_file_is_claimed_at_first_sight(folder, reading, clock):
    folder.drop("a.json")
    before = clock.time
    await reading(settle=0.0).take(1)
    assert clock.time == before


# Which ---------------------------------------------------------------------------------------------------------------


async def test_only_names_that_match_the_whole_pattern_are_read(folder, reading):
    for name in ("a.json", "a.json.tmp", "xa.jsonl", "B.JSON", "b.json"):
        folder.drop(name, name.encode())
    reader = reading(pattern="[ab].json")
    assert await reader.bodies(2) == [b"a.json", b"b.json"]
    assert await reader.has_nothing_for(1)
    assert folder.names() == ["B.JSON", "a.json.tmp", "xa.jsonl"]


async def test_hidden_files_folders_and_what_is_in_them_are_left_alone(folder, reading):
    folder.drop(".a.json")
    (folder.path / "sub").mkdir()
    folder.drop("sub/b.json")
    folder.drop("c.json", b"c")
    reader = reading()
    assert await reader.bodies(1) == [b"c"]
    assert await reader.has_nothing_for(1)
    assert folder.names() == [".a.json"]
    assert folder.names("sub") == ["b.json"]


async def test_symbolic_links_pipes_and_sockets_are_left_alone_and_reported_once(folder, reading, logs, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"not for you")
    (folder.path / "link.json").symlink_to(secret)
    os.mkfifo(folder.path / "pipe.json")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder.path / "socket.json"))
        reader = reading()
        assert await reader.has_nothing_for(2)
    told = sorted((e["file"], e["saw"]) for e in logs if e["event"] == "not a plain file, left alone")
    assert told == [("link.json", "symbolic link"), ("pipe.json", "special file"), ("socket.json", "special file")]
    assert secret.read_bytes() == b"not for you"
    assert len(list(folder.path.glob("*.json"))) == 3


# Under what name -----------------------------------------------------------------------------------------------------


async def test_a_claim_is_a_rename_whose_name_holds_device_inode_size_and_mtime(folder, reading):
    path = folder.drop("a.json", b"12345")
    status = path.stat()
    reader = reading()
    [(_, payload)] = await reader.take(1)
    wanted = f"{status.st_dev:x}-{status.st_ino:x}-5-{status.st_mtime_ns:x}"
    assert reader.producer.identity(payload) == wanted
    assert [p.name for p in folder.files(".work")] == [f"{wanted}~a.json"]
    assert not path.exists()


async def test_the_same_name_dropped_twice_is_two_files_in_done(folder, reading):
    reader = reading()
    folder.drop("a.json", b"1")
    first = await reader.take(1)
    folder.drop("a.json", b"2")
    second = await reader.take(1)
    await reader.settle(first)
    await reader.settle(second)
    assert folder.names("done") == ["a.json", "a.json"]
    assert sorted(p.read_bytes() for p in folder.files("done")) == [b"1", b"2"]


async def test_a_name_that_is_taken_in_done_gets_a_number_and_nothing_is_overwritten(folder, reading):
    path = folder.drop("a.json", b"new")
    reader = reading()
    pairs = await reader.take(1)
    taken = folder.path / "done" / folder.files(".work")[0].name
    taken.write_bytes(b"old")
    await reader.settle(pairs)
    assert not path.exists()
    assert taken.read_bytes() == b"old"
    assert (folder.path / "done" / f"{taken.name}~2").read_bytes() == b"new"


async def test_a_file_with_two_names_keeps_both(folder, reading):
    path = folder.drop("a.json", b"1")
    os.link(path, folder.path / "b.json")
    reader = reading()
    await reader.settle(await reader.take(2))
    assert folder.names("done") == ["a.json", "b.json"]
    assert folder.names(".work") == []


async def test_a_name_of_255_bytes_is_cut_in_its_middle_and_the_file_goes_all_the_way(folder, reading):
    name = "ä" * 125 + ".json"
    assert len(os.fsencode(name)) == 255
    folder.drop(name, b"1")
    reader = reading()
    pairs = await reader.take(1)
    assert reader.producer.describe(pairs[0][1]).position.endswith(".json")
    await reader.settle(pairs)
    [done] = folder.files("done")
    assert len(os.fsencode(done.name)) <= 255
    assert done.name.endswith("ä.json")


@pytest.mark.parametrize("length", range(150, 256))
def test_a_name_that_is_cut_is_valid_text_and_leaves_room_for_a_number(length):
    identity = "1-2-3-4"
    name = ("€" * 100)[: length // 3] + "x" * (length % 3)
    file = claimed_name(identity, name, 200)
    assert len(file.encode()) <= 192
    claim = claim_of(file)
    assert claim is not None
    assert claim.identity == identity


async def test_names_with_newlines_and_bytes_that_are_no_text_go_all_the_way(folder, reading, logs):
    raw = os.fsencode(folder.path)
    for name in (b"a\nb.json", b"\xff\xfe.json", "\N{SNOWMAN} ~ it's.json".encode(), b"~.json", b"-rf"):
        folder.drop(os.fsdecode(name), name)
    reader = reading()
    pairs = await reader.take(5)
    for _, payload in pairs:
        position = reader.producer.describe(payload).position
        assert position.isprintable()
        position.encode()  # a database takes nothing else
    await reader.crash()
    reader = reading()
    pairs = await reader.take(5)
    await reader.settle(pairs)
    done = {p.partition(b"~")[2] for p in os.listdir(os.path.join(raw, b"done"))}
    assert done == {body for body, _ in pairs}
    assert len(done) == 5


def test_an_identity_of_a_file_from_before_1970_is_read_back():
    claim = claim_of("fe00-1f-0-fffff~a")
    assert claim is not None
    early = claim_of("fe00-1f-0--3b9aca00~a")
    assert early is not None
    assert early.mtime == -1.0


@pytest.mark.parametrize("name", ["", "a", "1-2-3~a", "1-2-3-4~", "1-2-3-4-a", "g-2-3-4~a", "1-2-" + "f" * 17 + "-4~a"])
def test_what_no_claim_is_called_is_not_read_as_one(name):
    assert claim_of(name) is None


def test_a_printable_name_stays_as_it_is():
    assert printable("Grüße 1.json") == "Grüße 1.json"
    assert printable("a\nb") == r"a\nb"


# After a restart -----------------------------------------------------------------------------------------------------


async def test_after_a_crash_what_was_claimed_comes_first_and_with_the_same_identity(folder, reading):
    for number in range(5):
        folder.drop(f"{number}", b"old")
    reader = reading()
    before = {reader.producer.identity(p) for _, p in await reader.take(5)}
    await reader.crash()
    folder.drop("new", b"new")
    reader = reading()
    poll = await reader.poll()
    assert poll.bodies == [b"old"] * 5
    assert {reader.producer.identity(p) for p in poll.payloads} == before
    assert await reader.bodies(1) == [b"new"]


async def test_an_identity_is_read_back_from_the_name_even_if_the_file_was_copied_meanwhile(folder, reading):
    folder.drop("a", b"1")
    reader = reading()
    [(_, payload)] = await reader.take(1)
    before = reader.producer.identity(payload)
    await reader.crash()
    [file] = folder.files(".work")
    shutil.copy(file, folder.path / ".copy")
    (folder.path / ".copy").rename(file)
    reader = reading()
    [(_, payload)] = await reader.take(1)
    assert reader.producer.identity(payload) == before
    assert identity_at(file) != before


async def test_a_file_that_was_replaced_just_before_its_claim_is_read_whole_after_a_crash(folder, reading):
    (folder.path / ".work").mkdir()
    old = folder.drop("old", b"short")
    name = f"{identity_at(old)}~a"
    folder.drop("a", b"a good deal longer").rename(folder.path / ".work" / name)
    old.unlink()
    assert await reading().bodies(1) == [b"a good deal longer"]


async def test_what_does_not_look_like_a_claim_in_work_is_left_and_reported(folder, reading, logs):
    (folder.path / ".work").mkdir()
    folder.drop(".work/half-writ", b"x")
    folder.drop(".work/notes.pos", b"x")
    (folder.path / ".work" / "1-2-3-4~folder").mkdir()
    (folder.path / ".work" / "1-2-3-5~link").symlink_to("/etc/hostname")
    folder.drop("good", b"good")
    reader = reading()
    assert await reader.bodies(1) == [b"good"]
    told = sorted(e["file"] for e in logs if e["event"] == "not a claimed file, left alone")
    assert told == ["1-2-3-4~folder", "1-2-3-5~link", "half-writ", "notes.pos"]
    assert {"half-writ", "notes.pos"} <= {p.name for p in folder.files(".work")}


# Many ----------------------------------------------------------------------------------------------------------------


async def test_more_files_than_are_watched_at_a_time_all_come_once_they_have_settled(folder, reading, monkeypatch):
    monkeypatch.setattr(scanner, "_WAITING_MOST", 40)
    monkeypatch.setattr(scanner, "_LOOK_MOST", 25)
    for number in range(300):
        folder.drop(f"{number:03}", b"%03d" % number)
    reader = reading(settle=1.0)
    assert await reader.has_nothing_for(0.9)
    watch = reader.producer._scanner
    assert len(watch._waiting) + len(watch._waited) == 40
    assert await reader.bodies(300) == [b"%03d" % n for n in range(300)]
    assert len(watch._waiting) + len(watch._waited) == 0


async def test_polls_hold_500_events_at_most_and_nothing_is_remembered_of_what_was_claimed(folder, reading):
    for number in range(1201):
        folder.drop(f"{number}", b"")
    reader = reading()
    sizes = [len((await reader.poll()).bodies) for _ in range(3)]
    assert sizes == [500, 500, 201]
    assert not reader.producer._scanner._waited


async def test_a_file_that_goes_away_before_it_is_claimed_is_no_trouble(folder, reading):
    path = folder.drop("a")
    reader = reading(settle=1.0)
    assert await reader.has_nothing_for(0.9)
    path.unlink()
    assert await reader.has_nothing_for(2)
    folder.drop("b", b"b")
    assert await reader.bodies(1) == [b"b"]


# Trouble with the folder ---------------------------------------------------------------------------------------------


async def test_a_folder_that_goes_and_comes_back_in_time_is_read_on(folder, reading, logs, tmp_path):
    reader = reading()
    assert await reader.has_nothing_for(1)
    folder.path.rename(tmp_path / "away")
    assert await reader.has_nothing_for(1)
    (tmp_path / "away").rename(folder.path)
    folder.drop("a", b"a")
    assert await reader.bodies(1) == [b"a"]
    assert any(e["event"] == "folder can't be read, tried again" for e in logs)


async def test_a_folder_that_stays_away_ends_the_stream_with_its_path_and_the_reason(folder, reading, tmp_path):
    reader = reading()
    assert await reader.has_nothing_for(1)
    folder.path.rename(tmp_path / "away")
    with pytest.raises(Transient, match=r"orders can't be read: No such file or directory"):
        await reader.poll()


async def test_another_folder_in_the_place_of_ours_ends_the_stream_so_that_it_is_opened_anew(folder, reading, tmp_path):
    reader = reading()
    assert await reader.has_nothing_for(1)
    folder.path.rename(tmp_path / "away")
    folder.path.mkdir()
    with pytest.raises(Transient, match="another folder"):
        await reader.poll()


async def test_a_lock_file_that_was_removed_ends_the_stream_so_that_no_two_read(folder, reading):
    reader = reading()
    assert await reader.has_nothing_for(1)
    (folder.path / ".work" / ".lock").unlink()
    with pytest.raises(Transient, match="was removed"):
        await reader.poll()
