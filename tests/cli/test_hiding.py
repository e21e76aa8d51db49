"""What came in through variables is shown by no command that tells of filters and runs."""

from __future__ import annotations

import io
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from bridge.cli.hiding import Hiding

SECRET = 'hun"ter2-Sekrit'
NUMBER = "987654321"
CONFIG = """\
store: sqlite:///headrace.db
targets:
  notes: {kind: log}
streams:
  orders: {kind: directory, path: drop}
defaults:
  watchers:
    match: {token: "${TOKEN}"}
assets:
  own:
    watchers:
      - stream: orders
        when: event.token.lower() == "${TOKEN}".lower() && event.amount > ${LIMIT}
        reject: event.zone == "zone ${TOKEN}"
        run: {target: notes, job: note}
  each:
    watchers:
      - for_each: [{secret: "${TOKEN}", least: "${LIMIT}"}]
        name: one
        stream: orders
        when: event.amount > int(each.least)
        run:
          target: notes
          job: note
          params: {told: "${each.secret}", limit: "${int(each.least)}"}
          tags: {t: "${each.secret}"}
          key: "${each.secret} ${event.zone}"
          key_ttl: 1h
tests:
  - name: no
    message: {body: {token: no, amount: 3}}
    expect: {own: match, each.one: match}
  - name: match
    message: {body: {token: 'hun"ter2-Sekrit', amount: 987654322, zone: z}}
    expect:
      own: reject
      each.one: {params: {told: x, limit: 5}, tags: {}, key: y}
"""
ASKED = {"token": SECRET, "amount": 987654322, "zone": f"zone {SECRET}"}


@pytest.fixture(autouse=True)
def configured(home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    monkeypatch.setenv("LIMIT", NUMBER)
    home.configure(CONFIG)


def is_told(text: str) -> bool:
    return "ter2-sekrit" in text.lower() or NUMBER in text


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_failed_test_shows_no_secret_and_neither_does_its_xml(headrace, output):
    said = headrace("test", "--output", output, "--junit", "results.xml")
    assert said.code == 1
    assert "event.amount > ***" in said.out
    assert not is_told(said.out + said.err + Path("results.xml").read_text())


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize("message", [ASKED, {"token": "no", "amount": 3}], ids=["match", "no match"])
@pytest.mark.parametrize("watcher", [(), ("--watcher", "own"), ("--watcher", "each.one")], ids=["all", "own", "each"])
def test_explain_shows_no_secret(headrace, monkeypatch, output, message, watcher):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(message).encode())))
    said = headrace("explain", "--output", output, *watcher)
    assert said.code == 0
    assert "***" in said.out
    assert not is_told(said.out + said.err)


@pytest.mark.parametrize("output", ["table", "json"])
async def test_explain_shows_no_secret_of_a_run(headrace, home, run_row, output):
    params = json.dumps({"told": SECRET, "limit": int(NUMBER)}).encode()
    await home.filled(run_row(1, watcher="each.one", asset="each", params=params))
    said = headrace("explain", "--run", "each.one/src/1/0", "--output", output)
    assert said.code == 0
    assert "***" in said.out
    assert not is_told(said.out + said.err)


@pytest.mark.parametrize("command", [("show",), ("show", "--effective"), ("validate",)])
def test_neither_does_any_other_command(headrace, command):
    said = headrace(*command)
    assert said.code == 0
    assert not is_told(said.out + said.err)


def test_a_name_from_a_variable_is_not_shown_where_it_is_there_twice(headrace, home):
    home.configure(
        CONFIG.replace('${LIMIT}"}]', '1"}, {secret: "${TOKEN}", least: 2}]').replace(
            "name: one", "name: n${each.secret}"
        )
    )
    said = headrace("validate", "--output", "table")
    assert said.code == 1
    assert "has two watchers called *** from ${TOKEN}" in said.err
    assert not is_told(said.out + said.err)


def test_a_number_is_hidden_as_a_whole_and_not_as_a_part_of_another():
    hiding = Hiding(["1234"])
    assert hiding.text("event.a1234 > 1234 && event.b == 51234") == "event.a1234 > *** && event.b == 51234"
    assert hiding.value([1234, 51234, Decimal("1234"), {"a": "1234"}, True]) == [
        "***",
        51234,
        "***",
        {"a": "***"},
        True,
    ]


def test_true_and_false_are_no_secrets():
    assert Hiding(["true", "null"]).text("event.a == true") == "event.a == true"


def test_without_secrets_everything_is_as_it_is():
    assert Hiding([]).text("event.a == 1") == "event.a == 1"
    assert Hiding([]).value({"a": [1]}) == {"a": [1]}
