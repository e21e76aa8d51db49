"""One sentence that says whether it is healthy, and the numbers behind it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from bridge.cli.health import Instance, instance_of, judge
from bridge.core.errors import StoreUnavailable
from bridge.ports import ResultRow
from bridge.store.options import InstanceId, StoreOptions
from bridge.store.sql import open_store
from bridge.store.views import InstanceView

Rows = Callable[..., Any]

STREAM = {
    "state": "running", "failures": 0, "trouble": None, "received": 12, "unmatched": 2, "faults": 1, "settled": 9,
    "outstanding": 3, "retrying": 0, "paused": False, "matched": {"eu_orders": 6, "us_orders": 4}, "watchers": {},
}  # fmt: skip
TARGET = {"in_flight": 1, "last_error": "", "trouble": ""}


def told(**changes: Any) -> dict[str, Any]:
    """What a process says of itself with a heartbeat."""
    status = {
        "uptime": 5.0,
        "healthy": True,
        "store": {"trouble": None, "commits": 1, "rows": 1},
        "streams": {"orders": STREAM},
        "targets": {"shell": TARGET},
    }
    return {**status, **changes}


def view(state: str = "running", status: Any = None, *, seen_ago: float = 2.0, pid: int = 7) -> Instance:
    data = status if isinstance(status, bytes) else json.dumps(told() if status is None else status).encode()
    row = InstanceView("i1", "host-a", pid, "0.1.0", state, 100.0, 160.0, seen_ago, data)  # type: ignore[arg-type]
    return instance_of(row)


def test_a_running_instance_without_trouble_is_healthy() -> None:
    health = judge([view()])
    assert health.is_healthy
    assert health.sentence == "healthy: 1 instance running, 1 stream, 3 events outstanding"


@pytest.mark.parametrize(
    ("instances", "words"),
    [
        ([], "no instance has run"),
        ([view("ended", seen_ago=200)], "no instance runs: the last one (process 7 on host-a) ended cleanly 3 min ago"),
        ([view("crashed"), view("ended")], "died without a clean end"),
        ([view("silent", seen_ago=40)], "process 7 on host-a has given no sign of life for 40 s"),
        ([view(status={})], "has just started"),
        ([view(status=b"\xff not JSON")], "has just started"),
        ([view(status=told(healthy=False))], "without a reason"),
        ([view(status=told(healthy=False, store={"trouble": "disk full"}))], "the store takes nothing (disk full)"),
        (
            [view(status=told(healthy=False, streams={"orders": {**STREAM, "trouble": "PermissionError: no"}}))],
            "stream 'orders': PermissionError: no",
        ),
        ([view(status=told(targets={"shell": {**TARGET, "trouble": "locked"}}))], "target 'shell': locked"),
        ([view(), view("silent", pid=8)], "process 8 on host-a"),
    ],
)
def test_what_is_not_healthy_says_why(instances: list[Instance], words: str) -> None:
    health = judge(instances)
    assert not health.is_healthy
    assert health.sentence.startswith("not healthy: ")
    assert words in health.sentence


FULL = "the disk is full (process 7 on host-a, since 12 s)"
TAKES_NOTHING = told(healthy=False, store={"trouble": "the disk is full"})


@pytest.mark.parametrize(
    ("instances", "sentence"),
    [
        ([view()], f"the store takes no writes: {FULL}"),
        (
            [view("silent", seen_ago=40)],
            f"the store takes no writes: {FULL}; process 7 on host-a has given no sign of life for 40 s",
        ),
        ([view("silent", TAKES_NOTHING, seen_ago=40)], f"the store takes no writes: {FULL}; process 7 on host-a"),
        (
            [view(status=told(store={"trouble": "locked"}))],
            f"takes no writes: {FULL}; the store takes nothing (locked)",
        ),
        ([], f"the store takes no writes: {FULL}"),
    ],
)
def test_why_the_store_takes_no_writes_comes_before_what_the_heartbeats_say(
    instances: list[Instance], sentence: str
) -> None:
    health = judge(instances, FULL)
    assert not health.is_healthy
    assert health.sentence.startswith("not healthy: the store takes no writes")
    assert sentence in health.sentence
    assert health.sentence.count(FULL) == 1


def test_what_a_heartbeat_told_as_well_is_said_once() -> None:
    assert judge([view(status=TAKES_NOTHING)], FULL).sentence == (
        "not healthy: the store takes nothing (the disk is full)"
    )


def test_an_instance_that_is_gone_does_not_speak_for_the_one_that_runs() -> None:
    assert judge([view(), view("crashed"), view("ended", status=told(healthy=False))]).is_healthy


def test_many_reasons_make_no_endless_sentence() -> None:
    streams = {f"s{n}": {**STREAM, "trouble": f"t{n}"} for n in range(9)}
    sentence = judge([view(status=told(healthy=False, streams=streams))]).sentence
    assert "stream 's2': t2; and 6 more" in sentence
    assert "s3" not in sentence


def test_a_status_of_a_later_version_is_read_as_far_as_it_goes() -> None:
    odd = told(streams={"orders": {"outstanding": "three"}, "bills": 3}, targets=["shell"], store="fine")
    assert judge([view(status=odd)]).sentence == "healthy: 1 instance running, 1 stream, nothing outstanding"


# The command ---------------------------------------------------------------------------------------------------------


async def test_a_healthy_instance_is_shown_with_its_numbers(
    headrace: Any, home: Any, run_row: Rows, letter_row: Rows
) -> None:
    store = await home.open()
    rows = [run_row(n) for n in range(3)] + [run_row("u", target="notes", watcher="us_orders")]
    await store.commit([*rows, letter_row(1), letter_row(2, reason="malformed")], "c1")
    first, second, _ = await store.claim("shell", 3, 60)
    results = [ResultRow(first.run_key, first.epoch, "started"), ResultRow(second.run_key, second.epoch, "failed")]
    await store.commit(results, "c2")
    await store.heartbeat(json.dumps(told()).encode())
    said = headrace("status")
    assert said.code == 0, said
    report = said.json
    assert (report["healthy"], report["reason"][:8]) == (True, "healthy:")
    (instance,) = report["instances"]
    assert (instance["state"], instance["pid"], instance["host"]) == ("running", 4711, "here")
    assert instance["heartbeat_age"] < 60
    assert instance["started_at"].endswith("Z")
    (stream,) = report["streams"]
    assert (stream["stream"], stream["received"], stream["outstanding"]) == ("orders", 12, 3)
    shell = report["targets"]["shell"]
    assert [shell[s] for s in ("pending", "dispatching", "started", "failed", "in_flight")] == [0, 1, 1, 1, 1]
    assert report["targets"]["notes"]["pending"] == 1
    assert report["dead_letters"] == {"dead": {"malformed": 1, "rejected": 1}}


async def test_the_tables_say_the_same_to_people(headrace: Any, home: Any, letter_row: Rows) -> None:
    store = await home.open()
    await store.commit([letter_row(1, reason="malformed")], "c1")
    await store.heartbeat(json.dumps(told(streams={"orders": {**STREAM, "paused": True}})).encode())
    lines = headrace("status", "--output", "table").out.splitlines()
    assert lines[0] == "healthy: 1 instance running, 1 stream, 3 events outstanding"
    rows = [line.split() for line in lines]
    assert ["orders", "running,", "full", "12", "10", "9", "3"] in rows
    assert ["malformed", "dead", "1"] in rows
    assert any(row[:4] == ["life-1", "running", "4711", "here"] for row in rows)


async def test_the_lag_and_the_partitions_that_a_source_tells_are_shown(headrace: Any, home: Any) -> None:
    store = await home.open()
    reporting = {**STREAM, "report": {"partitions": 4, "lag": 1_200}}
    await store.heartbeat(json.dumps(told(streams={"orders": reporting, "bills": STREAM})).encode())
    lines = headrace("status", "--output", "table").out.splitlines()
    (head,) = (line for line in lines if line.startswith("stream"))
    rows = [line.split() for line in lines]
    assert head.split()[-2:] == ["partitions", "lag"]
    assert ["orders", "running", "12", "10", "9", "3", "4", "1,200"] in rows
    assert ["bills", "running", "12", "10", "9", "3"] in rows


async def test_a_source_without_a_partition_shows_no_lag(headrace: Any, home: Any) -> None:
    store = await home.open()
    reporting = {**STREAM, "report": {"partitions": 0, "lag": 0}}
    await store.heartbeat(json.dumps(told(streams={"orders": reporting})).encode())
    lines = headrace("status", "--output", "table").out.splitlines()
    (head,) = (line for line in lines if line.startswith("stream"))
    assert head.split()[-1] == "partitions"
    assert ["orders", "running", "12", "10", "9", "3", "0"] in [line.split() for line in lines]


async def test_a_relay_in_trouble_is_shown_with_what_waits_for_it_and_makes_nothing_unhealthy(
    headrace: Any, home: Any, letter_row: Rows
) -> None:
    store = await home.open()
    await store.commit([letter_row(1, relays=True), letter_row(2, relays=True), letter_row(3)], "c1")
    relay = {"in_hand": 0, "relayed": 5, "refused": 1, "trouble": "no leader"}
    await store.heartbeat(json.dumps(told(streams={"orders": {**STREAM, "relay": relay}})).encode())
    said = headrace("status")
    assert said.code == 0, said
    assert said.json["streams"][0]["relay"] == {**relay, "waiting": 2}
    rows = [line.split() for line in headrace("status", "--output", "table").out.splitlines()]
    assert ["orders", "5", "2", "1", "no", "leader"] in rows


async def test_an_instance_of_a_later_version_is_shown_as_far_as_it_is_understood(headrace: Any, home: Any) -> None:
    store = await home.open()
    odd = told(streams={"orders": {"state": 3, "received": "many"}}, targets={"shell": {"trouble": ["x"]}}, new={})
    await store.heartbeat(json.dumps(odd).encode())
    for output in ("table", "json"):
        said = headrace("status", "-o", output)
        assert said.code == 1
        assert "target 'shell': ['x']" in said.out


async def test_a_store_that_is_locked_is_told_though_no_heartbeat_can_be(headrace: Any, home: Any) -> None:
    impatient = StoreOptions(busy_timeout=0.05)
    store = await open_store(home.url, instance=InstanceId("one", "here", 4711, "0.1.0"), options=impatient)
    await store.heartbeat(json.dumps(told()).encode())
    assert headrace("status").json["store"] == {"trouble": None}
    with closing(sqlite3.connect(home.folder / "headrace.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable) as away:
            await store.commit([], "c1")
        store.note(str(away.value))
        said = headrace("status")
        assert (said.code, said.json["healthy"]) == (1, False)
        trouble = said.json["store"]["trouble"]
        assert re.fullmatch(
            r"the store .*headrace\.db is locked by another process, .* \(process 4711 on here, since \d s\)", trouble
        )
        assert said.json["reason"] == f"not healthy: the store takes no writes: {trouble}"
        shown = headrace("status", "-o", "table")
        assert shown.code == 1
        assert " ".join(shown.out.split()).startswith("not healthy: the store takes no writes: the store ")
    store.note(None)
    assert headrace("status").code == 0
    await store.aclose(clean=True)


async def test_no_instance_is_not_healthy(headrace: Any, home: Any) -> None:
    await home.filled()
    said = headrace("status")
    assert (said.code, said.json["healthy"], said.json["streams"]) == (1, False, [])
    said = headrace("status", "-o", "table")
    assert said.code == 1
    assert said.out.startswith("not healthy: no instance runs: the last one (process 4711 on here) ended cleanly")


async def test_a_crashed_instance_is_named(headrace: Any, home: Any) -> None:
    await (await home.open(pid=1)).aclose(clean=False)
    await (await home.open(pid=2)).aclose(clean=True)
    said = headrace("status")
    assert [(i["pid"], i["state"]) for i in said.json["instances"]] == [(2, "ended"), (1, "crashed")]


def test_a_store_that_is_not_there_is_an_error_of_the_environment(headrace: Any, home: Any) -> None:
    said = headrace("status")
    assert (said.code, said.out) == (3, "")
    assert "there is no store" in said.err
    assert not (home.folder / "headrace.db").exists()


def test_a_configuration_with_problems_can_be_passed_by(headrace: Any, home: Any) -> None:
    (home.folder / "headrace.yaml").write_text("store: sqlite:///headrace.db\nstreems: {}\n")
    said = headrace("status")
    assert said.code == 1
    assert "did you mean `streams`?" in said.err
    assert "--store URL" in said.err


async def test_the_store_can_be_named_itself(headrace: Any, home: Any) -> None:
    await home.filled()
    (home.folder / "headrace.yaml").unlink()
    assert "not healthy" in headrace("status", "--store", home.url).json["reason"]
    said = headrace("status")
    assert said.code == 2
    assert "--store sqlite:///headrace.db" in said.err


def test_store_and_configuration_exclude_each_other(headrace: Any, home: Any) -> None:
    assert headrace("status", "headrace.yaml", "--store", home.url).code == 2


def test_the_password_of_a_store_is_not_repeated(headrace: Any) -> None:
    said = headrace("status", "--store", "mysql://user:hunter2@host/db")
    assert said.code == 3
    assert "hunter2" not in said.err
