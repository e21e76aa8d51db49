"""Every problem at once, with its place; a sentence where all is well."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

BAD = """\
store: sqlite:///headrace.db
targets:
  shell:
    kind: command
    command: [/bin/sh, -c, "exit 0"]
    max_in_fligth: 5
streams:
  orders:
    kind: directory
    path: drop
    settle: 200
assets:
  eu:
    watchers:
      - stream: order
        match: {region: eu}
        run: {target: shell, job: x}
"""

TOLD = """\
headrace.yaml:6:5: `max_in_fligth` is not a key of targets.shell
   6 |     max_in_fligth: 5
     |     ^^^^^^^^^^^^^
   did you mean `max_in_flight`?

headrace.yaml:11:13: `settle`: expected a duration of at least zero, saw the number 200
   11 |     settle: 200
      |             ^^^
   a duration needs a unit, like 500ms, 30s, 5m, 2h or 7d; did you mean 200s?

headrace.yaml:15:17: there is no stream 'order'
   15 |       - stream: order
      |                 ^^^^^
   did you mean `orders`?
"""

PLACES = [("headrace.yaml", 6, 5), ("headrace.yaml", 11, 13), ("headrace.yaml", 15, 17)]


def write(text: str) -> None:
    Path("headrace.yaml").write_text(text)


@pytest.fixture
def module(home: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes a module of the user's, importable as `users_own`."""
    monkeypatch.syspath_prepend(str(home.folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "users_own", raising=False)
    yield Path("users_own.py").write_text
    sys.modules.pop("users_own", None)


def test_a_good_configuration_is_ok_with_its_numbers(headrace: Any) -> None:
    said = headrace("validate", "--output", "table")
    assert (said.code, said.out, said.err) == (0, "ok: 1 stream, 2 watchers, 2 targets\n", "")


def test_all_three_mistakes_are_told_at_once_with_places_carets_and_hints(headrace: Any) -> None:
    write(BAD)
    said = headrace("validate", "--output", "table")
    assert (said.code, said.out) == (1, "")
    assert said.err == TOLD


def test_a_program_gets_them_as_json_and_nothing_else(headrace: Any) -> None:
    write(BAD)
    said = headrace("validate", "--output", "json")
    assert (said.code, said.err, said.json["ok"], said.json["warnings"]) == (1, "", False, [])
    assert [(p["file"], p["line"], p["column"]) for p in said.json["problems"]] == PLACES
    assert said.json["problems"][2]["message"] == "there is no stream 'order'"
    assert said.json["problems"][2]["hint"] == "did you mean `orders`?"


def test_a_pipe_gets_json_while_people_can_still_read_the_problems(headrace: Any) -> None:
    write(BAD)
    said = headrace("validate")
    assert len(said.json["problems"]) == 3
    assert said.err == TOLD


def test_a_good_one_is_reported_as_json_too(headrace: Any) -> None:
    said = headrace("validate", "-o", "json")
    assert (said.code, said.json) == (0, {"ok": True, "problems": [], "warnings": []})


def test_warnings_are_told_and_are_no_problem(headrace: Any, home: Any) -> None:
    good = Path("headrace.yaml").read_text()
    write(good.replace("  notes:\n", "  spare:\n    kind: log\n  notes:\n"))
    said = headrace("validate", "-o", "table")
    assert said.code == 0
    assert said.err.startswith("warning: headrace.yaml:6:3: ")
    assert "spare" in said.err
    assert said.out == "ok: 1 stream, 2 watchers, 3 targets\n"
    warnings = headrace("validate", "-o", "json").json["warnings"]
    assert [(w["line"], w["column"]) for w in warnings] == [(6, 3)]


def test_without_a_configuration_it_says_what_to_do(headrace: Any, home: Any) -> None:
    Path("headrace.yaml").unlink()
    said = headrace("validate")
    assert (said.code, said.out) == (2, "")
    assert f"there is no headrace.yaml in {home.folder}" in said.err
    assert "HEADRACE_CONFIG" in said.err


def test_a_path_that_was_named_and_is_not_there_is_a_problem_of_that_file(headrace: Any) -> None:
    said = headrace("validate", "conf/other.yaml", "-o", "json")
    assert (said.code, said.json["problems"][0]["file"]) == (1, "conf/other.yaml")


def test_the_environment_may_name_the_configuration(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("headrace.yaml").rename("elsewhere.yaml")
    monkeypatch.setenv("HEADRACE_CONFIG", "elsewhere.yaml")
    assert headrace("validate").code == 0
    assert headrace("validate", "nowhere.yaml").code == 1


def test_several_files_count_as_one(headrace: Any) -> None:
    text = Path("headrace.yaml").read_text()
    start = text.index("assets:")
    write(text[:start])
    Path("assets.yaml").write_text(text[start:])
    assert headrace("validate", "headrace.yaml", "assets.yaml").code == 0


PYTHON_WATCHER = """
  checked:
    watchers:
      - stream: orders
        trigger: users_own:{name}
        run: {{target: notes, job: note}}
"""


def test_a_trigger_that_can_t_be_imported_is_a_problem(headrace: Any, module: Any) -> None:
    write(Path("headrace.yaml").read_text() + PYTHON_WATCHER.format(name="Filter"))
    said = headrace("validate", "-o", "json")
    assert said.code == 1
    (problem,) = said.json["problems"]
    assert (problem["file"], problem["line"]) == ("headrace.yaml", 0)
    assert "'checked'" in problem["message"]
    assert "no module users_own" in problem["message"]
    assert "headrace.yaml: watcher 'checked'" in headrace("validate", "-o", "table").err


def test_what_a_trigger_prints_while_it_is_imported_is_no_part_of_the_answer(headrace: Any, module: Any) -> None:
    module("print('hello from the user')\n")
    write(Path("headrace.yaml").read_text() + PYTHON_WATCHER.format(name="Filter"))
    said = headrace("validate")
    assert "no Filter" in said.json["problems"][0]["message"]
    assert "hello from the user" in said.err


def test_a_stream_whose_messages_have_no_identity_is_a_warning(headrace: Any, module: Any) -> None:
    module(
        "print('hello from the user')\n"
        "from bridge.shared_stream import SharedStreamProducer\n"
        "class Feed(SharedStreamProducer):\n"
        "    async def open_stream(self):\n"
        "        yield {}, 1\n"
        "    async def advance(self, batch):\n"
        "        pass\n"
    )
    text = Path("headrace.yaml").read_text()
    write(text.replace("kind: directory\n    path: drop\n    lines: true", "kind: python\n    class: users_own:Feed"))
    said = headrace("validate", "-o", "json")
    assert said.code == 0, said
    assert [w["message"] for w in said.json["warnings"]] == [
        "streams.orders: no identity: a redelivery is a second run"
    ]
    shown = headrace("show", "-o", "json").json["streams"]
    assert shown[0]["guarantee"] == "at least once"


def test_on_a_terminal_the_caret_is_red(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    write(BAD)
    told = headrace("validate", "-o", "table").err
    assert "\x1b[1;31m^^^^^^^^^^^^^\x1b[0m" in told
    assert re.sub(r"\x1b\[[0-9;]*m", "", told) == TOLD
