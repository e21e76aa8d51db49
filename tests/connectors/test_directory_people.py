"""Sending to a folder and looking at it, as a person does: nobody who reads it is in the way, or loses anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bridge.core.errors import Refused
from bridge.ports import Outgoing
from connectors.directory.options import DirectoryOptions
from connectors.directory.people import Eyes, name_for, sender, tail


class Clock:
    time = 0.0

    def __call__(self) -> float:
        return self.time


def options_of(folder: Path, **keys: Any) -> DirectoryOptions:
    return DirectoryOptions(path=str(folder), **keys)


def bodies(eyes: Eyes) -> list[bytes | None]:
    return [seen.body for found in eyes.look() for seen in eyes.messages(found)]


def files_in(folder: Path) -> dict[str, bytes]:
    """By the path that a position begins with; hidden ones as well."""
    return {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}


def take(folder: Path, name: str, place: str) -> None:
    """As whoever reads the folder does."""
    from connectors.directory.claim import claimed_name, identity_of

    (folder / place).mkdir(exist_ok=True)
    path = folder / name
    path.rename(folder / place / claimed_name(identity_of(path.stat()), name, 255))


# Sending -------------------------------------------------------------------------------------------------------------


async def test_each_message_becomes_a_file_that_appears_whole(tmp_path: Path) -> None:
    positions = await sender(options_of(tmp_path)).send([Outgoing(b"one"), Outgoing(b"")])
    assert files_in(tmp_path) == dict(zip(positions, (b"one", b""), strict=True))


async def test_lines_are_sent_as_one_file_and_told_by_where_they_begin(tmp_path: Path) -> None:
    positions = await sender(options_of(tmp_path, lines=True)).send(
        [Outgoing(b"one"), Outgoing(b"three"), Outgoing(b"2")]
    )
    [(path, content)] = files_in(tmp_path).items()
    assert content == b"one\nthree\n2\n"
    assert list(positions) == [f"{path}:{start}" for start in (0, 4, 10)]


def test_the_name_fits_the_pattern() -> None:
    assert name_for("*", "u") == "u"
    assert name_for("orders-*.json*", "u") == "orders-u.json"
    assert name_for("orders.json", "u") == "orders.json"
    with pytest.raises(Refused, match=r"fits `pattern` '\[0-9\]\*'"):
        name_for("[0-9]*", "u")


async def test_a_file_that_waits_is_not_written_over(tmp_path: Path) -> None:
    one = sender(options_of(tmp_path, pattern="orders.json"))
    await one.send([Outgoing(b"1")])
    with pytest.raises(Refused, match="still there"):
        await one.send([Outgoing(b"2")])
    assert (tmp_path / "orders.json").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("message", "lines", "why"),
    [
        (Outgoing(b"x", key=b"k"), False, "no key"),
        (Outgoing(b"x", headers=(("a", b"b"),)), False, "no headers"),
        (Outgoing(b"x", lane="3"), False, "no lane"),
        (Outgoing(None), False, "no message without"),
        (Outgoing(b"a\nb"), True, "line break"),
        (Outgoing(b""), True, "nothing in it"),
        (Outgoing(b"12345"), True, "`max_line` 4B"),
        (Outgoing(b"12345"), False, "`max_file` 4B"),
    ],
)
async def test_what_a_file_cant_hold_is_refused(tmp_path: Path, message: Outgoing, lines: bool, why: str) -> None:
    with pytest.raises(Refused, match=why):
        await sender(options_of(tmp_path, lines=lines, max_line=4, max_file=4)).send([message])
    assert files_in(tmp_path) == {}


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=str(tmp_path / "gone")):
        await sender(options_of(tmp_path / "gone")).send([Outgoing(b"x")])


# Seeing --------------------------------------------------------------------------------------------------------------


def test_files_are_shown_once_when_they_have_settled(tmp_path: Path) -> None:
    clock = Clock()
    eyes = Eyes(options_of(tmp_path), clock)
    assert eyes.earlier(0) == []
    (tmp_path / "a.json").write_bytes(b"a")
    assert bodies(eyes) == []
    clock.time = 1.5
    (tmp_path / ".hidden").write_bytes(b"no")
    assert bodies(eyes) == [b"a"]
    clock.time = 9
    assert bodies(eyes) == []
    assert sorted(os.listdir(tmp_path)) == [".hidden", "a.json"]


def test_a_file_that_is_still_written_to_is_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    eyes = Eyes(options_of(tmp_path), clock)
    (tmp_path / "a.json").write_bytes(b"a")
    assert bodies(eyes) == []
    (tmp_path / "a.json").write_bytes(b"ab")
    clock.time = 1.5
    assert bodies(eyes) == []
    clock.time = 3
    assert bodies(eyes) == [b"ab"]


@pytest.mark.parametrize("place", [".work", "done", "dead"])
def test_one_that_is_taken_up_between_two_looks_is_seen_all_the_same(tmp_path: Path, place: str) -> None:
    eyes = Eyes(options_of(tmp_path), Clock())
    (tmp_path / "a.json").write_bytes(b"a")
    assert bodies(eyes) == []
    take(tmp_path, "a.json", place)
    assert bodies(eyes) == [b"a"]
    assert bodies(eyes) == []


def test_one_that_moves_on_is_not_shown_again(tmp_path: Path) -> None:
    eyes = Eyes(options_of(tmp_path, settle=0.0), Clock())
    (tmp_path / "a.json").write_bytes(b"a")
    assert bodies(eyes) == [b"a"]
    take(tmp_path, "a.json", ".work")
    assert bodies(eyes) == []


def test_the_last_ones_come_first_with_the_earliest_ahead(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.json"
        path.write_bytes(b"%d" % number)
        os.utime(path, (1000 + number, 1000 + number))
        take(tmp_path, path.name, "done" if number % 2 else "dead")
    eyes = Eyes(options_of(tmp_path), Clock())
    assert [seen.body for seen in eyes.earlier(3)] == [b"1", b"2", b"3"]
    assert bodies(eyes) == []


def test_lines_are_messages_where_the_stream_reads_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"one\r\n\ntwo\nthree")
    eyes = Eyes(options_of(tmp_path, lines=True, settle=0.0), Clock())
    found = eyes.look()
    seen = [message for each in found for message in eyes.messages(each)]
    assert [message.body for message in seen] == [b"one", b"two", b"three"]
    name = f"{tmp_path.name}/a.jsonl"
    assert [message.meta.position for message in seen] == [f"{name}:0", f"{name}:6", f"{name}:10"]


def test_the_last_lines_of_the_last_files_are_enough(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"1\n2\n3\n")
    take(tmp_path, "a.jsonl", "done")
    eyes = Eyes(options_of(tmp_path, lines=True), Clock())
    assert [seen.body for seen in eyes.earlier(2)] == [b"2", b"3"]


def test_only_files_that_fit_the_pattern_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"no")
    (tmp_path / "a.json").write_bytes(b"yes")
    (tmp_path / "link.json").symlink_to("a.json")
    (tmp_path / "folder.json").mkdir()
    assert bodies(Eyes(options_of(tmp_path, pattern="*.json", settle=0.0), Clock())) == [b"yes"]


async def test_what_is_sent_is_seen(tmp_path: Path) -> None:
    options = options_of(tmp_path, lines=True, settle=0.0, poll_interval=0.01)
    [_, position] = await sender(options).send([Outgoing(b"one"), Outgoing(b"two")])
    showing = tail(options, 0)
    assert [(await anext(showing)).body, (await anext(showing)).meta.position] == [b"one", position]
    await showing.aclose()  # type: ignore[attr-defined]  # a generator


async def test_a_folder_that_is_not_there_can_t_be_looked_at(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="can't be looked at"):
        await anext(tail(options_of(tmp_path / "gone"), 0))
