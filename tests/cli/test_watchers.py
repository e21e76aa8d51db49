"""Pause, resume, disable, enable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

Rows = Callable[..., Any]

NEW = """\
  new_ones:
    watchers:
      - {stream: orders, match: {a: b}, run: {target: notes, job: j}}
"""


async def test_a_running_instance_pauses_and_resumes_a_watcher(
    headrace: Any, home: Any, run_row: Rows, instance_at_work: Any
) -> None:
    store = await home.open()
    await store.commit([run_row(1)], "c1")
    async with instance_at_work(store):
        said = await asyncio.to_thread(headrace, "pause", "eu_orders")
        assert (said.code, said.out) == (0, "eu_orders is paused\n")
        assert headrace("runs", "list").json[0]["state"] == "held"
        assert headrace("status").json["watchers"] == {"paused": ["eu_orders"], "disabled": []}
        said = await asyncio.to_thread(headrace, "resume", "eu_orders", "--skip", "-o", "json")
    assert (said.json["outcome"], said.json["skip"]) == ("done", True)
    assert headrace("runs", "list").json[0]["state"] == "skipped"


async def test_a_running_instance_disables_and_enables_a_watcher(
    headrace: Any, home: Any, instance_at_work: Any
) -> None:
    store = await home.open()
    async with instance_at_work(store):
        said = await asyncio.to_thread(headrace, "disable", "us_orders")
        assert said.out == "us_orders is disabled\n"
        assert headrace("status").json["watchers"]["disabled"] == ["us_orders"]
        said = await asyncio.to_thread(headrace, "enable", "us_orders")
    assert said.out == "us_orders is enabled\n"
    assert headrace("status").json["watchers"]["disabled"] == []


@pytest.mark.parametrize("command", ["pause", "resume", "disable", "enable"])
async def test_an_unknown_watcher_is_refused_with_the_nearest_name(headrace: Any, home: Any, command: str) -> None:
    await home.filled()
    said = headrace(command, "eu_order")
    assert (said.code, said.out) == (1, "")
    assert "there is no watcher 'eu_order'; did you mean 'eu_orders'?" in said.err
    assert "there are eu_orders, us_orders" in headrace(command, "xyzzy", "--store", home.url).err
    store = await home.open()
    assert await store.take_intents() == []


async def test_without_an_instance_it_waits_for_the_next_one(headrace: Any, home: Any) -> None:
    await home.filled()
    said = headrace("pause", "eu_orders")
    assert said.out == "eu_orders is to be paused; no instance runs: it will be done when one does\n"
    store = await home.open()
    assert [(i.kind, i.watcher) for i in await store.take_intents()] == [("pause", "eu_orders")]


async def test_a_watcher_that_is_configured_and_has_not_run_yet_can_be_paused(headrace: Any, home: Any) -> None:
    await home.filled()
    home.configure(NEW, more=True)
    assert headrace("pause", "new_ones").code == 0
    assert headrace("pause", "new_ones", "--store", home.url).code == 1


async def test_a_watcher_that_the_instance_does_not_know_is_reported_by_it(
    headrace: Any, home: Any, instance_at_work: Any
) -> None:
    store = await home.open()
    home.configure(NEW, more=True)
    async with instance_at_work(store):
        said = await asyncio.to_thread(headrace, "pause", "new_ones")
    assert (said.code, said.out) == (1, "")
    assert "pause new_ones: there is no watcher 'new_ones'" in said.err


async def test_a_watcher_that_was_removed_is_told_as_such(headrace: Any, home: Any) -> None:
    store = await home.open()
    await store.register({"us_orders": "1"}, {"orders": "src"})
    await store.aclose(clean=True)
    said = headrace("pause", "eu_orders", "--store", home.url)
    assert said.code == 1
    assert "was removed from the configuration" in said.err
