"""`headrace init`: what it writes works at once, whatever the kinds; and it overwrites nothing."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import connectors
from bridge import targets
from bridge.cli.templates import STREAMS, TARGETS, plan_of
from bridge.core.model import AdvanceBatch, outcome_of

FILES = ["headrace.yaml", "headrace_test.yaml", "samples/big_order.json", "samples/small_order.json"]


@pytest.fixture(autouse=True)
def elsewhere(home: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder, and modules of the user's own that are forgotten afterwards."""
    (home.folder / "headrace.yaml").unlink()
    (home.folder / "drop").rmdir()
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    sys.modules.pop("orders_stream", None)


def test_every_kind_has_a_template() -> None:
    assert set(STREAMS) == set(connectors.KINDS)
    assert set(TARGETS) == set(targets.KINDS)


@pytest.mark.parametrize("stream", sorted(connectors.KINDS))
@pytest.mark.parametrize("target", sorted(targets.KINDS))
def test_a_new_folder_is_valid_and_its_tests_pass(
    headrace: Any, monkeypatch: pytest.MonkeyPatch, stream: str, target: str
) -> None:
    assert headrace("init", "new", "--stream", stream, "--target", target).code == 0
    monkeypatch.chdir("new")
    said = headrace("validate", "-o", "table")
    assert (said.code, said.out, said.err) == (0, "ok: 1 stream, 1 watcher, 1 target\n", "")
    said = headrace("test", "--require-coverage", "-o", "table")
    assert (said.code, said.out, said.err) == (0, "ok: 4 tests passed; 3 of 3 clauses seen both ways\n", "")
    sample = Path("samples/small_order.json").read_bytes()
    assert sample.endswith(b"}\n")
    assert sample.count(b"\n") == 1  # a line of a file is a message, too


def test_it_says_what_it_wrote_and_what_to_type_next(headrace: Any) -> None:
    said = headrace("init", "new folder")
    assert said.code == 0
    for name in FILES:
        assert f"  new folder/{name}\n" in said.out
    assert "\n  cd 'new folder'\n  headrace validate\n  headrace test\n" in said.out
    assert said.out.endswith("  cp samples/big_order.json drop/\n")


def test_without_a_terminal_it_is_a_directory_and_a_command(headrace: Any) -> None:
    said = headrace("init", "--output", "json")
    assert (said.json["folder"], said.json["stream"], said.json["target"]) == (".", "directory", "command")
    assert said.json["files"] == FILES
    assert said.json["next"][0] == "headrace validate"
    assert Path("drop").is_dir()


def test_what_is_there_is_listed_and_nothing_is_written(headrace: Any) -> None:
    Path("headrace.yaml").write_text("mine")
    Path("samples").mkdir()
    os.symlink("nowhere", "samples/small_order.json")
    Path("drop").write_text("a file where a folder is needed")
    said = headrace("init")
    assert (said.code, said.out) == (1, "")
    for name in ("headrace.yaml", "samples/small_order.json", "drop"):
        assert f"  {name}\n" in said.err
    assert Path("headrace.yaml").read_text() == "mine"
    assert not Path("headrace_test.yaml").exists()


def test_a_folder_that_is_there_is_filled(headrace: Any) -> None:
    Path("drop").mkdir()
    Path("notes.txt").write_text("mine")
    assert headrace("init").code == 0
    assert Path("notes.txt").read_text() == "mine"


def test_a_file_is_no_folder(headrace: Any) -> None:
    Path("new").write_text("")
    said = headrace("init", "new")
    assert (said.code, said.err) == (1, "headrace: new is a file: name a folder\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--stream", "directry"),
            "--stream directry: there is no kind 'directry' of streams; did you mean `directory`?",
        ),
        (
            ("--stream", "x"),
            (
                "--stream x: there is no kind 'x' of streams; the kinds are directory, kafka, pubsub, python, "
                "servicebus, sqs"
            ),
        ),
        (("--stream", "http"), "--stream http: this kind is known, but not available in this version"),
        (("--target", "comand"), "did you mean `command`?"),
        (("--target", "airflow"), "--target airflow: this kind is known, but not available in this version"),
    ],
)
def test_an_unknown_kind_is_refused_with_a_suggestion(headrace: Any, arguments: tuple[str, ...], told: str) -> None:
    said = headrace("init", "new", *arguments)
    assert (said.code, said.out) == (2, "")
    assert told in said.err
    assert not Path("new").exists()


def test_on_a_terminal_it_asks_until_the_kind_is_known(headrace_process: Any, terminal: Any, home: Any) -> None:
    with terminal() as (ours, theirs):
        process = headrace_process("init", "new", stdin=theirs, stdout=theirs, stderr=theirs)
        for question, answer in ((b"of stream?", b"pyton\n"), (b"of stream?", b"python\n"), (b"of target?", b"\n")):
            seen = b""
            while question not in seen:  # the timeout of the test bounds it
                seen += os.read(ours, 4096)
            os.write(ours, answer)
        assert process.wait(30) == 0
    config = (home.folder / "new" / "headrace.yaml").read_text()
    assert "kind: python" in config
    assert "kind: command" in config
    assert (home.folder / "new" / "orders_stream.py").exists()


# The producer for streams of one's own -------------------------------------------------------------------------------


async def test_the_producer_reads_whole_lines_and_goes_on_where_it_has_settled(tmp_path: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "orders_stream"}
    exec(compile(plan_of("python", "log").files["orders_stream.py"], "orders_stream.py", "exec"), namespace)
    path = tmp_path / "orders.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": 2}\n{"n":')

    async def read(count: int) -> list[tuple[bytes, Any]]:
        stream = namespace["Orders"](str(path)).open_stream()
        found = [await asyncio.wait_for(anext(stream), 10) for _ in range(count)]
        await stream.aclose()
        return found

    (first, at_first), (second, at_second) = await read(2)
    assert (first, second) == (b'{"n": 1}\n', b'{"n": 2}\n')
    producer = namespace["Orders"](str(path))
    assert [producer.identity(at) for at in (at_first, at_second)] == ["0", "9"]
    await producer.advance(AdvanceBatch([(outcome_of(1, 0, 0), [at_first])], 1))
    assert await read(1) == [(second, at_second)]
