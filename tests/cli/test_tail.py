"""`headrace tail`: a line for each message, until somebody has seen enough."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def quick(home: Any) -> None:
    """Files settle at once."""
    text = Path("headrace.yaml").read_text()
    home.configure(text.replace("lines: true", "lines: true\n    settle: 0s\n    poll_interval: 20ms"))


def drop(content: bytes, name: str = "a.jsonl") -> None:
    hidden = Path("drop") / f".{name}"
    hidden.write_bytes(content)
    hidden.rename(Path("drop") / name)


def test_a_pipe_gets_one_json_document_a_line_with_the_whole_body(headrace: Any) -> None:
    drop(b'{"region":"eu"}\n' + b"x" * 10_000 + b"\n\xff\n")
    said = headrace("tail", "orders", "--limit", "3")
    assert (said.code, said.err) == (0, "")
    one, two, three = map(json.loads, said.out.splitlines())
    assert one["position"] == "drop/a.jsonl:0"
    assert one["body"] == {"encoding": "utf-8", "text": '{"region":"eu"}', "size": 15, "is_cut": False}
    assert (one["key"], one["headers"], one["lane"]) == (None, [], "a.jsonl")
    assert one["timestamp"].endswith("Z")
    assert (len(two["body"]["text"]), two["body"]["is_cut"]) == (10_000, False)
    assert three["body"]["encoding"] == "hex"


def test_people_get_one_line_each_that_fits_the_terminal(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    drop(b'{"region":"eu"}\n' + b"x" * 10_000 + b"\n\x1b[31mred\n")
    said = headrace("tail", "orders", "--limit", "3", "-o", "table")
    one, two, three = said.out.splitlines()
    assert one.startswith("drop/a.jsonl:0  ")
    assert one.endswith('  {"region":"eu"}')
    assert (len(two), two[-1]) == (60, "…")
    assert three.endswith("\\x1b[31mred")


def test_it_ends_after_the_time_that_is_given(headrace: Any) -> None:
    drop(b"1\n")
    said = headrace("tail", "orders", "--for", "300ms", "-o", "json")
    assert (said.code, len(said.out.splitlines())) == (0, 1)


def test_nothing_is_taken_away(headrace: Any) -> None:
    drop(b"1\n2\n")
    before = sorted(os.listdir("drop"))
    assert headrace("tail", "orders", "--limit", "1").code == 0
    assert sorted(os.listdir("drop")) == before


def test_what_comes_later_is_shown_until_ctrl_c(headrace_process: Any) -> None:
    process: subprocess.Popen[str] = headrace_process("tail", "orders")
    drop(b"1\n")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["body"]["text"] == "1"
    drop(b"2\n", "b.jsonl")
    assert json.loads(process.stdout.readline())["body"]["text"] == "2"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "")


def test_whoever_has_read_enough_ends_it(headrace_process: Any) -> None:
    process: subprocess.Popen[str] = headrace_process("tail", "orders")
    drop(b"1\n")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    deadline = time.monotonic() + 20
    number = 0
    while process.poll() is None and time.monotonic() < deadline:
        number += 1
        drop(b"2\n", f"{number}.jsonl")
        time.sleep(0.05)
    assert process.returncode == 141


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("ordrs",), 1, "there is no stream 'ordrs'; did you mean `orders`?"),
        (("orders", "--for", "soon"), 2, "--for soon: a duration needs a unit"),
        (("orders", "--last", "-1"), 2, "--last"),
    ],
)
def test_what_can_t_be_shown_is_told(headrace: Any, arguments: tuple[str, ...], code: int, why: str) -> None:
    said = headrace("tail", *arguments)
    assert (said.code, said.out) == (code, "")
    assert why in said.err


def test_a_folder_that_is_gone_is_told(headrace: Any) -> None:
    Path("drop").rmdir()
    said = headrace("tail", "orders")
    assert said.code == 3
    assert "can't be looked at" in said.err


def test_a_kind_that_can_t_be_looked_at_says_so(headrace: Any, home: Any) -> None:
    home.configure(
        "store: sqlite:///headrace.db\ntargets: {t: {kind: log}}\n"
        "streams: {orders: {kind: python, class: 'a:B'}}\n"
        "assets: {a: {watchers: [{stream: orders, run: {target: t, job: j}}]}}\n"
    )
    said = headrace("tail", "orders")
    assert said.code == 1
    assert "streams of kind 'python' have no way to" in said.err
