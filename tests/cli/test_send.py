"""`headrace send`: what is named or read becomes messages, and where they are is the answer."""

from __future__ import annotations

import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from bridge.cli import send as command

WHOLE_FILES = """\
  whole:
    kind: directory
    path: whole
assets:
"""


@pytest.fixture
def standard_input(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(data)))

    return put


@pytest.fixture
def whole(home: Any) -> None:
    """A stream whose messages are files, beside the one whose messages are lines."""
    home.configure(Path("headrace.yaml").read_text().replace("assets:\n", WHOLE_FILES))
    Path("whole").mkdir()


def dropped(folder: str = "drop") -> list[bytes]:
    return sorted(path.read_bytes() for path in Path(folder).iterdir())


def test_a_message_on_the_command_line_is_sent_and_told_where_it_is(headrace: Any) -> None:
    said = headrace("send", "orders", '{"order_id": "o-1"}')
    [file] = Path("drop").iterdir()
    assert (said.code, said.err) == (0, "")
    assert said.out == f"sent 1 message to orders\n  drop/{file.name}:0\n"
    assert dropped() == [b'{"order_id": "o-1"}\n']


def test_as_json_it_has_all_positions(headrace: Any, standard_input: Any) -> None:
    standard_input(b"one\n\ntwo\r\nthree")
    said = headrace("send", "orders", "--lines", "-o", "json")
    [file] = Path("drop").iterdir()
    positions = [f"drop/{file.name}:{start}" for start in (0, 4, 8)]
    assert said.json == {"stream": "orders", "sent": 3, "positions": positions}
    assert dropped() == [b"one\ntwo\nthree\n"]


def test_a_file_is_one_message_byte_for_byte(headrace: Any, whole: None) -> None:
    Path("body.bin").write_bytes(b"\x00\xff\r\n\n")
    assert headrace("send", "whole", "--file", "body.bin").code == 0
    assert dropped("whole") == [b"\x00\xff\r\n\n"]


def test_without_a_body_standard_input_is_the_message(headrace: Any, whole: None, standard_input: Any) -> None:
    standard_input(b"all\nof it\n")
    assert headrace("send", "whole").code == 0
    assert dropped("whole") == [b"all\nof it\n"]


def test_many_are_sent_in_batches_and_the_first_are_listed(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_BATCH", 10)
    Path("many").write_bytes(b"".join(b"%d\n" % n for n in range(25)))
    said = headrace("send", "orders", "--lines", "--file", "many")
    assert said.out.startswith("sent 25 messages to orders\n")
    assert len(said.out.splitlines()) == 22
    assert "... and 5 more, the last is drop/" in said.out
    assert sum(len(content.split()) for content in dropped()) == 25


def test_those_before_one_that_is_refused_are_told(headrace: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_BATCH", 2)
    home.configure(Path("headrace.yaml").read_text().replace("lines: true", "lines: true\n    max_line: 4B"))
    Path("many").write_bytes(b"1\n2\n33333\n")
    said = headrace("send", "orders", "--lines", "--file", "many")
    assert (said.code, said.out) == (3, "")
    assert "note: 2 messages in front of that were confirmed, the last as drop/" in said.err
    assert "larger than `max_line` 4B allows" in said.err
    assert dropped() == [b"1\n2\n"]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("ordrs", "x"), 1, "there is no stream 'ordrs'; did you mean `orders`?"),
        (("orders", "x", "--null"), 2, "BODY and --null: a message has one body"),
        (("orders", "x", "--lines"), 2, "--lines goes with --file"),
        (("orders", "--null", "--lines"), 2, "--lines goes with --file"),
        (("orders", "--file", "nowhere"), 1, "nowhere can't be read: No such file"),
        (("orders", "x", "--header", "a"), 2, "--header a: write NAME=VALUE"),
        (("orders", "x", "--key", "k"), 3, "it has no key"),
        (("orders", "--null"), 3, "there is no message without"),
    ],
)
def test_what_can_t_be_sent_is_told(headrace: Any, arguments: tuple[str, ...], code: int, why: str) -> None:
    said = headrace("send", *arguments)
    assert (said.code, said.out) == (code, "")
    assert why in said.err
    assert dropped() == []


def test_a_kind_that_nothing_can_be_sent_to_says_so(headrace: Any, home: Any) -> None:
    text = Path("headrace.yaml").read_text()
    home.configure(text.replace("kind: directory\n    path: drop\n    lines: true", "kind: python\n    class: a:B"))
    said = headrace("send", "orders", "x")
    assert said.code == 1
    assert "streams of kind 'python' have no way to" in said.err
