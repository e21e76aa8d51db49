"""What is configured, and that no secret is among it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SECRETS = """\
store: sqlite:///headrace.db
targets:
  shell:
    kind: command
    command: [/bin/true]
    env: {API_TOKEN: "${TOKEN}", DB_PASSWORD: hunter2, MODE: "${MODE:-fast}"}
streams:
  orders:
    kind: directory
    path: drop
assets:
  eu_orders:
    watchers:
      - stream: orders
        match: {secret_word: [swordfish]}
        run: {target: shell, job: x, params: {password: correct-horse}}
"""


def test_streams_watchers_and_targets_are_shown_with_their_promises(headrace: Any, home: Any) -> None:
    shown = headrace("show").json
    (stream,) = shown["streams"]
    assert (stream["name"], stream["kind"], stream["source"]) == ("orders", "directory", f"{home.folder}/drop")
    assert stream["guarantee"] == "one run"
    assert any("durable" in note for note in stream["notes"])
    assert shown["watchers"][0] == {
        "id": "eu_orders",
        "asset": "eu_orders",
        "stream": "orders",
        "match": {"region": ["eu", "uk"]},
        "target": "shell",
        "job": "process_order",
        "enabled": True,
    }
    assert {target["name"]: target["guarantee"] for target in shown["targets"]} == {
        "shell": "keyed",
        "notes": "at least once",
    }


def test_a_table_for_people_holds_the_match_as_it_was_written(headrace: Any) -> None:
    said = headrace("show", "--output", "table")
    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].split() == ["stream", "kind", "source", "guarantee", "notes"]
    assert any('{"region": ["eu", "uk"]}' in line and "process_order" in line for line in lines)
    assert "shell   command  keyed" in lines


def test_effective_prints_every_default_as_yaml_that_means_the_same(headrace: Any) -> None:
    said = headrace("show", "--effective", "--output", "table")
    assert "max_in_flight: 8" in said.out
    assert "max_size: null" in said.out
    as_json = headrace("show", "--effective", "--output", "json").json
    Path("headrace.yaml").write_text(said.out)
    assert headrace("validate", "-o", "json").json == {"ok": True, "problems": [], "warnings": []}
    assert headrace("show", "--effective").json == as_json


@pytest.mark.parametrize("arguments", [(), ("--effective",)])
@pytest.mark.parametrize("output", ["table", "json"])
def test_no_secret_is_ever_shown(
    headrace: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], output: str
) -> None:
    monkeypatch.setenv("TOKEN", "tok-12345")
    Path("headrace.yaml").write_text(SECRETS)
    said = headrace("show", *arguments, "--output", output)
    assert said.code == 0
    assert "swordfish" in said.out  # a condition names values of events, and these are no secrets of ours
    for secret in ("tok-12345", "hunter2", "correct-horse"):
        assert secret not in said.out + said.err
    if arguments:
        assert "***" in said.out


def test_a_class_that_can_t_be_had_hides_nothing_else(headrace: Any) -> None:
    text = Path("headrace.yaml").read_text()
    more = "streams:\n  feed:\n    kind: python\n    class: nowhere.at_all:Feed\n"
    Path("headrace.yaml").write_text(text.replace("streams:\n", more))
    said = headrace("show")
    assert said.code == 0, said
    feed, orders = said.json["streams"]
    assert feed["guarantee"] == "unknown"
    assert feed["source"].startswith("unknown: ")
    assert "no module nowhere" in feed["notes"][0]
    assert orders["guarantee"] == "one run"


def test_a_folder_that_is_missing_hides_nothing(headrace: Any, home: Any) -> None:
    (home.folder / "drop").rmdir()
    assert headrace("show").json["streams"][0]["name"] == "orders"


def test_nothing_configured_is_said(headrace: Any) -> None:
    Path("headrace.yaml").write_text("store: sqlite:///headrace.db\n")
    assert headrace("show", "-o", "table").out == "nothing is configured\n"
