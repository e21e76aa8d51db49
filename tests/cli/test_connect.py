"""`headrace validate --connect`: what was found is told stream by stream, and an error ends it with 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge.cli.connecting import Looked, has_errors, looked_at, summary
from bridge.ports import Finding

KAFKA = """\
  clicks:
    kind: kafka
    bootstrap_servers: ["127.0.0.1:1"]
    topics: [clicks]
    group_id: headrace-clicks
    sasl: {mechanism: PLAIN, username: u, password: hunter2-and-more}
assets:
"""


@pytest.fixture
def with_kafka(home: Any) -> None:
    """A second stream, whose brokers nobody has started."""
    text = Path("headrace.yaml").read_text()
    extra = "      - stream: clicks\n        match: {kind: buy}\n        run: {target: notes, job: note}\n"
    home.configure(text.replace("assets:\n", KAFKA) + f"  clicks:\n    watchers:\n{extra}")


def test_a_kind_that_can_t_look_says_so(headrace: Any) -> None:
    said = headrace("validate", "--connect", "-o", "table")
    assert (said.code, said.err) == (0, "")
    assert "orders  -  was not looked at: there is no way to for the kind 'directory'" in said.out
    assert said.out.endswith("\nok: 1 stream, 2 watchers, 2 targets; nothing wrong\n")


def test_errors_end_it_with_1_and_come_with_what_to_do(headrace: Any, with_kafka: None) -> None:
    said = headrace("validate", "--connect", "-o", "table")
    assert (said.code, said.err) == (1, "")
    assert "nobody listens there" in said.out
    assert "is the broker up, and the port right?" in said.out
    assert "the password travels in the clear" in said.out
    assert said.out.endswith("\nnot ok: 2 streams, 3 watchers, 2 targets; 1 error, 1 warning\n")
    assert "hunter2" not in said.out


def test_a_program_gets_it_by_stream(headrace: Any, with_kafka: None) -> None:
    said = headrace("validate", "--connect", "-o", "json")
    assert (said.code, said.err, said.json["ok"]) == (1, "", False)
    assert said.json["streams"]["orders"] == {"kind": "directory", "findings": None}
    clicks = said.json["streams"]["clicks"]
    assert [finding["severity"] for finding in clicks["findings"]] == ["error", "warning"]
    assert clicks["findings"][0]["message"].startswith("`bootstrap_servers` 127.0.0.1:1: ")
    assert clicks["findings"][0]["hint"]


def test_without_connect_nobody_is_asked(headrace: Any, with_kafka: None) -> None:
    said = headrace("validate")
    assert (said.code, said.json) == (0, {"ok": True, "problems": [], "warnings": []})


def test_a_problem_of_the_configuration_comes_first(headrace: Any, with_kafka: None, home: Any) -> None:
    home.configure(Path("headrace.yaml").read_text().replace("topics: [clicks]", "topics: []"))
    said = headrace("validate", "--connect", "-o", "json")
    assert said.code == 1
    assert "`topics` or what fits `topic_pattern`" in said.json["problems"][0]["message"]
    assert "streams" not in said.json


def test_one_look_that_fails_hides_no_other(with_kafka: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.cli import connecting
    from bridge.cli.opening import config_of
    from bridge.ports import StreamKind

    async def broken(_options: object) -> list[Finding]:
        raise LookupError("odd")

    def with_broken(stream: Any) -> StreamKind:
        kind = kind_of(stream)
        return kind._replace(examine=broken) if stream.kind == "directory" else kind

    kind_of = connecting.kind_of
    monkeypatch.setattr(connecting, "kind_of", with_broken)
    looks = {look.stream: look for look in looked_at(config_of(None, check=False))}
    assert looks["orders"].findings == (Finding("error", "the look at it failed: LookupError: odd"),)
    assert looks["clicks"].count("error") == 1


def test_what_was_found_is_counted() -> None:
    looks = [
        Looked("a", "k", (Finding("error", "1"), Finding("warning", "2"), Finding("error", "3"))),
        Looked("b", "k", None),
    ]
    assert (summary(looks), has_errors(looks)) == ("2 errors, 1 warning", True)
    assert (summary(looks[1:]), has_errors(looks[1:])) == ("nothing wrong", False)
