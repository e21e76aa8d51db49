"""`headrace run`, as a process: what it refuses, what it writes, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
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


# Streams whose broker keeps a place ----------------------------------------------------------------------------------

KEEPING = """\
import asyncio
import json
import os
import sys

from bridge.shared_stream import SharedStreamProducer


class Keeping(SharedStreamProducer):
    source_id = "keeping"

    def take_ledger(self, ledger):
        told = [dict(ledger.places), ledger.rewind, ledger.accept, ledger.sequence()]
        with open("ledgers.jsonl", "a") as file:
            file.write(json.dumps(told) + os.linesep)

    def places(self):
        return {"lane": "7"}

    async def open_stream(self):
        await asyncio.Event().wait()
        yield b"", None

    async def advance(self, batch):
        pass
"""


@pytest.fixture
def keeping(home: Any) -> Path:
    """A configuration whose stream `orders` keeps a place; where the ledgers that it was given are written."""
    written = Path("headrace.yaml").read_text().replace("    lines: true\n", "")
    home.configure(written.replace("kind: directory", "kind: python").replace("path: drop", "class: kept:Keeping"))
    Path("kept.py").write_text(KEEPING)
    return Path("ledgers.jsonl")


def test_a_stream_goes_back_where_that_is_asked_for(headrace_process: Any, keeping: Path) -> None:
    for arguments in ((), ("--rewind", "orders"), ("--accept", "orders")):
        process = headrace_process("run", *arguments)
        until_started(process)
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0
    assert [json.loads(line) for line in keeping.read_text().splitlines()] == [
        [{}, False, False, 0],
        [{"lane": "7"}, True, False, 0],
        [{"lane": "7"}, False, True, 0],
    ]


def test_an_unknown_stream_to_go_back_in_is_refused(headrace: Any) -> None:
    said = headrace("run", "--rewind", "order")
    assert said.code == 2
    assert "--rewind order: there is no stream of this name" in said.err
    assert "did you mean `orders`?" in said.err


def test_a_stream_whose_source_keeps_no_place_can_not_go_back(headrace: Any) -> None:
    said = headrace("run", "--rewind", "orders")
    assert said.code == 2
    assert "--rewind orders" in said.err
    assert "'directory'" in said.err
    assert not Path("headrace.db").exists()


# Places for dead letters ---------------------------------------------------------------------------------------------

WITH_A_RELAY = """\
import sys

from bridge import wiring
from bridge.cli.main import main
from bridge.core.errors import Refused, Transient


class Place:
    async def open(self):
        raise {error}

    async def aclose(self):
        print("closed", file=sys.stderr)


kind = wiring.KINDS.streams["directory"]()._replace(relay=lambda options: Place())
wiring.KINDS = wiring.KINDS._replace(streams={{"directory": lambda: kind}})
sys.exit(main(["run"]))
"""


def relaying(error: str) -> subprocess.Popen[str]:
    script = WITH_A_RELAY.format(error=error)
    return subprocess.Popen([sys.executable, "-c", script], text=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE)


def test_a_place_for_dead_letters_that_does_not_exist_is_an_error_at_start(headrace: Any) -> None:
    code, out, err = ended(relaying("Refused('the topic dead-orders does not exist')"))
    assert (code, out) == (3, "")
    assert "stream 'orders': its dead letters can't be copied: the topic dead-orders does not exist" in err
    assert "Traceback" not in err
    assert "closed" in err
    assert "ended cleanly" in headrace("status").json["reason"]


def test_a_place_for_dead_letters_that_is_away_is_told_and_keeps_nothing_from_starting(headrace: Any) -> None:
    process = relaying("Transient('no broker')")
    try:
        until_started(process)
        said = headrace("status")
        while not said.json["streams"]:  # before its first heartbeat
            said = headrace("status")
        assert (said.code, said.json["streams"][0]["relay"]["trouble"]) == (0, "no broker")
        process.send_signal(signal.SIGTERM)
        assert ended(process)[0] == 0
    finally:
        process.kill()
