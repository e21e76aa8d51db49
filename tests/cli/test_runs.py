"""Run requests: listed, shown whole, started again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, get_args

import pytest

from bridge.cli import asking
from bridge.cli.options import LetterState, RunState
from bridge.ports import ResultRow
from bridge.ports import RunState as StoredRunState
from bridge.store.views import LetterState as StoredLetterState

Rows = Callable[..., Any]


def test_the_states_that_can_be_asked_for_are_those_that_there_are() -> None:
    assert get_args(RunState) == get_args(StoredRunState)
    assert get_args(LetterState) == (*get_args(StoredLetterState), "all")


async def failed(home: Any, *rows: Any) -> Any:
    """The store of an instance that launched these runs in vain."""
    store = await home.open()
    await store.commit(rows, "c1")
    claims = await store.claim("shell", 100, 60)
    await store.commit([ResultRow(c.run_key, c.epoch, "failed", error="exit code 1") for c in claims], "c2")
    return store


async def test_runs_are_listed_latest_first_and_by_what_is_asked(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(run_row(1), run_row(2, watcher="us_orders", target="notes"), run_row(3))

    def listed(*options: str) -> list[str]:
        return [run["identity"] for run in headrace("runs", "list", *options).json]

    assert listed() == ["3", "2", "1"]
    assert listed("--limit", "2") == ["3", "2"]
    assert listed("--watcher", "us_orders") == ["2"]
    assert listed("--target", "shell", "--state", "pending") == ["3", "1"]
    assert listed("--state", "failed") == []


async def test_a_run_is_json_with_times_in_utc_and_its_params_digit_for_digit(
    headrace: Any, home: Any, run_row: Rows
) -> None:
    params = b'{"order":{"n":123456789012345678901234567890,"x":0.10}}'
    await home.filled(run_row(1, params=params, tags=b'{"team":"a"}'))
    said = headrace("runs", "list")
    assert "123456789012345678901234567890" in said.out
    assert "0.10" in said.out
    (run,) = said.json
    assert run["received_at"] == "2025-11-30T14:44:05.000Z"
    assert (run["state"], run["repeats"], run["tags"]) == ("pending", 0, {"team": "a"})
    assert run["due"].endswith("Z")


async def test_a_run_is_shown_by_a_start_of_its_key(headrace: Any, home: Any, run_row: Rows) -> None:
    await failed(home, run_row(12), run_row(13))
    said = headrace("runs", "show", "eu_orders/src/12", "--output", "table")
    assert said.code == 0
    for words in ("eu_orders/src/12/0", "failed", "exit code 1", "a.jsonl:12", '"order": "o1"', "2025-11-30"):
        assert words in said.out
    assert headrace("runs", "show", "eu_orders/src/13/0").json["error"] == "exit code 1"


async def test_a_start_that_several_have_is_told_with_their_keys(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(run_row(12), run_row(13))
    said = headrace("runs", "show", "eu_orders/src/1")
    assert (said.code, said.out) == (1, "")
    assert "eu_orders/src/12/0, eu_orders/src/13/0" in said.err


@pytest.mark.parametrize("key", ["nothing", "", "\udcff", "x\0y"])
async def test_a_key_that_no_run_has_is_told_without_a_stack(headrace: Any, home: Any, run_row: Rows, key: str) -> None:
    await home.filled(run_row(1))
    said = headrace("runs", "show", key)
    assert said.code in (1, 3)
    assert "Traceback" not in said.err
    assert said.err.startswith("headrace: ")


async def test_nothing_found_hints_at_a_slip_in_the_watcher(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(run_row(1))
    said = headrace("runs", "list", "--watcher", "eu_order", "--output", "table")
    assert (said.code, said.out) == (0, "no runs\n")
    assert "did you mean `eu_orders`?" in said.err


@pytest.mark.parametrize("width", [20, 60, 80, 120, 200])
async def test_a_run_key_is_whole_in_a_table_of_any_width(
    headrace: Any, home: Any, run_row: Rows, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long = "9" * 70
    await failed(home, run_row(1), run_row(long))
    said = headrace("runs", "list", "-o", "table")
    assert "eu_orders/src/1/0" in said.out
    assert f"eu_orders/src/{long}/0" in said.out
    assert "failed" in said.out
    assert all(len(line) <= width for line in said.out.splitlines() if "eu_orders" not in line), said


async def test_what_a_message_holds_can_t_command_the_terminal(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(run_row("\x1b]0;owned\x07", params=b'{"a":"\\u001b[2J\xc2\x9b"}'))
    listed = headrace("runs", "list", "-o", "table").out
    assert "\\x1b]0;owned\\x07" in listed
    (run,) = headrace("runs", "list").json
    shown = headrace("runs", "show", run["run_key"], "-o", "table").out
    whole = headrace("runs", "list", "-o", "json").out
    for text in (listed, shown, whole):
        assert not set(text) & set("\x1b\x07\x9b")
    assert run["params"] == {"a": "\x1b[2J\x9b"}


async def test_a_full_list_says_that_there_is_more(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(*(run_row(n) for n in range(3)))
    assert "--limit shows more" in headrace("runs", "list", "-o", "table", "--limit", "3").err
    assert headrace("runs", "list", "-o", "table", "--limit", "4").err == ""


# Business keys -------------------------------------------------------------------------------------------------------


async def test_a_suppressed_run_names_the_run_that_has_its_key_and_until_when(
    headrace: Any, home: Any, run_row: Rows
) -> None:
    await home.filled(run_row(1, key="o1", key_ttl=7200.0), run_row(2, key="o1", key_ttl=7200.0), run_row(3))
    (second,) = headrace("runs", "list", "--state", "suppressed").json
    assert (second["identity"], second["key"], second["suppressed_by"]) == ("2", "o1", "eu_orders/src/1/0")
    assert second["key_until"].endswith("Z")
    shown = headrace("runs", "show", "eu_orders/src/2/0", "-o", "table").out
    assert "suppressed" in shown
    assert "run eu_orders/src/1/0 has the key 'o1' until 20" in shown
    assert "(in 119 min)" in shown
    holder = headrace("runs", "show", "eu_orders/src/1/0", "-o", "table").out
    assert "'o1', keeps others with it away until 20" in holder
    assert "key " not in headrace("runs", "show", "eu_orders/src/3/0", "-o", "table").out.replace("run key", "")


async def test_a_list_names_who_keeps_a_run_away(headrace: Any, home: Any, run_row: Rows, monkeypatch: Any) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    await home.filled(run_row(1, key="o1", key_ttl=7200.0), run_row(2, key="o1", key_ttl=7200.0))
    first, second = headrace("runs", "list", "-o", "table").out.splitlines()[1:]
    assert first.startswith("eu_orders/src/2/0  suppressed")
    assert first.rstrip().endswith("eu_orders/src/1/0")
    assert second.startswith("eu_orders/src/1/0  pending")


async def test_a_key_that_is_free_again_is_told_in_the_past(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(run_row(1, key="o1", key_ttl=1e-3), run_row(2, key="o1", key_ttl=1e-3))
    home.sql("UPDATE runs SET key_until = 1000000000")
    assert (
        "run eu_orders/src/1/0 had the key 'o1' until" in headrace("runs", "show", "eu_orders/src/2", "-o", "table").out
    )
    assert "'o1', kept others with it away until" in headrace("runs", "show", "eu_orders/src/1", "-o", "table").out


async def test_a_suppressed_run_can_t_be_retried(headrace: Any, home: Any, run_row: Rows) -> None:
    await home.filled(run_row(1, key="o1", key_ttl=7200.0), run_row(2, key="o1", key_ttl=7200.0))
    said = headrace("runs", "retry", "eu_orders/src/2/0")
    assert said.code == 1
    assert "'eu_orders/src/2/0' is suppressed: only runs that are" in said.err


# retry ---------------------------------------------------------------------------------------------------------------


async def test_a_retry_without_an_instance_says_what_will_happen_and_does(
    headrace: Any, home: Any, run_row: Rows
) -> None:
    store = await failed(home, run_row(1))
    await store.aclose(clean=True)
    said = headrace("runs", "retry", "eu_orders/src/1/0")
    assert said.code == 0
    assert said.out == "1 run to be started again; no instance runs: it will be done when one does\n"
    store = await home.open()
    assert [intent.kind for intent in await store.take_intents()] == ["retry"]
    (run,) = headrace("runs", "list").json
    assert (run["state"], run["retry"]) == ("pending", 1)


async def test_a_running_instance_picks_a_retry_up(
    headrace: Any, home: Any, run_row: Rows, instance_at_work: Any
) -> None:
    store = await failed(home, run_row(1), run_row(2))
    async with instance_at_work(store):
        said = await asyncio.to_thread(headrace, "runs", "retry", "eu_orders/src/1/0", "eu_orders/src/2/0")
    assert (said.code, said.out) == (0, "2 runs are pending again\n")


async def test_the_outcome_of_a_retry_is_there_for_programs(
    headrace: Any, home: Any, run_row: Rows, instance_at_work: Any
) -> None:
    store = await failed(home, run_row(1))
    async with instance_at_work(store):
        said = await asyncio.to_thread(headrace, "runs", "retry", "eu_orders/src/1/0", "-o", "json")
    assert said.json == {"intent": 1, "kind": "retry", "run_keys": ["eu_orders/src/1/0"], "outcome": "done"}


async def test_an_instance_that_does_not_answer_is_not_waited_for_for_ever(
    headrace: Any, home: Any, run_row: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "PATIENCE", 0.2)
    await failed(home, run_row(1))
    said = headrace("runs", "retry", "eu_orders/src/1/0")
    assert said.code == 0
    assert "no instance has picked it up within 0.2 s: it will be done when one runs" in said.out


async def test_what_can_t_be_retried_is_told_before_anything_is_asked(headrace: Any, home: Any, run_row: Rows) -> None:
    store = await failed(home, run_row(1))
    await store.commit([run_row(2)], "c3")
    said = headrace("runs", "retry", "eu_orders/src/1/0", "eu_orders/src/2/0", "eu_orders/src/1", "other")
    assert said.code == 1
    assert "'eu_orders/src/2/0' is pending" in said.err
    assert "there is no run 'eu_orders/src/1'; did you mean 'eu_orders/src/1/0'?" in said.err
    assert "there is no run 'other'" in said.err
    assert await store.take_intents() == []


async def test_a_retry_that_came_too_late_says_so(
    headrace: Any, home: Any, run_row: Rows, instance_at_work: Any
) -> None:
    """Somebody else was quicker: both asked while the run was still failed."""
    store = await failed(home, run_row(1))
    from bridge.wiring import open_reader

    open_reader(home.url).post("retry", run_keys=["eu_orders/src/1/0"])

    async def late() -> Any:
        said = asyncio.create_task(asyncio.to_thread(headrace, "runs", "retry", "eu_orders/src/1/0"))
        reader = open_reader(home.url)
        while reader.intent(2) is None:  # noqa: ASYNC110  # another thread writes it
            await asyncio.sleep(0.01)
        async with instance_at_work(store):
            return await said

    said = await late()
    assert (said.code, said.out) == (1, "")
    assert "is pending: only runs that are failed" in said.err
