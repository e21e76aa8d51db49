"""`headrace run`, as a process: what it refuses, what it writes, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def until_started(process: subprocess.Popen[str]) -> None:
    while "group started" not in process.stderr.readline():  # type: ignore[union-attr]
        assert process.poll() is None


def logged(line: str) -> dict[str, Any]:
    entry: dict[str, Any] = json.loads(line)
    return entry


async def test_a_store_that_another_process_has_is_refused_with_its_pid_and_host(
    headrace_process: Any, home: Any
) -> None:
    await home.open(pid=4711, host="mill")
    code, out, err = ended(headrace_process("run"))
    assert (code, out) == (3, "")
    assert "in use by process 4711 on mill" in err
    assert "Traceback" not in err


def test_it_runs_until_sigterm_and_ends_with_0(headrace_process: Any, headrace: Any) -> None:
    process = headrace_process("run")
    first = logged(process.stderr.readline())
    assert first["event"] == "headrace starts"
    assert first["configured"] == "1 stream, 2 watchers, 2 targets"
    until_started(process)
    assert headrace("status").json["instances"][0]["pid"] == process.pid
    process.send_signal(signal.SIGTERM)
    code, _, err = ended(process)
    assert code == 0
    assert logged(err.splitlines()[-1])["event"] == "stopped"
    assert "ended cleanly" in headrace("status").json["reason"]


def test_problems_are_told_as_validate_tells_them(headrace: Any) -> None:
    Path("headrace.yaml").write_text("store: sqlite:///headrace.db\nstreems: {}\n")
    said = headrace("run")
    assert (said.code, said.out) == (1, "")
    assert said.err == headrace("validate", "-o", "table").err
    assert not Path("headrace.db").exists()


def test_an_unknown_name_to_accept_is_refused(headrace: Any) -> None:
    said = headrace("run", "--accept", "eu_order")
    assert said.code == 2
    assert "--accept eu_order" in said.err
    assert "did you mean `eu_orders`?" in said.err


async def test_another_definition_of_a_removed_id_is_refused_until_it_is_accepted(
    headrace_process: Any, home: Any
) -> None:
    store = await home.open()
    await store.register({"us_orders": "1"}, {"orders": f"{home.folder}/drop"}, frozenset({"orders"}))
    await store.aclose(clean=True)
    code, _, err = ended(headrace_process("run"))
    assert code == 3
    assert "'eu_orders'" in err
    assert "--accept eu_orders" in err
    process = headrace_process("run", "--accept", "eu_orders")
    until_started(process)
    process.send_signal(signal.SIGINT)
    assert ended(process)[0] == 0
