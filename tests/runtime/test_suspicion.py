"""Whose turn it is in suspect mode: one at a time, nobody starves, and it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from structlog.testing import capture_logs

from bridge.core.model import Plan
from bridge.core.seat import Seat
from bridge.runtime.suspicion import Suspicion


def seat(name: str) -> Seat:
    return Seat(Plan(name, "asset", "target", "job"))


class Turns:
    """Notes whose turn it was."""

    def __init__(self, suspicion: Suspicion, *names: str) -> None:
        self.suspicion = suspicion
        self.seats = {name: seat(name) for name in names}
        self.taken: list[str] = []

    def ask(self, name: str) -> None:
        self.suspicion.ask(self.seats[name], self.turn(name))

    def turn(self, name: str) -> Callable[[], None]:
        def take() -> None:
            self.taken.append(name)
            self.suspicion.opened()

        return take

    def pass_on(self, name: str) -> None:
        self.suspicion.pass_on(self.seats[name])


def test_without_events_there_is_no_suspicion() -> None:
    turns = Turns(Suspicion(0), "a")
    assert not turns.suspicion.is_active
    assert turns.suspicion.status() is None
    turns.ask("a")
    turns.pass_on("a")
    assert not turns.taken


def test_turns_go_round_and_nobody_starves() -> None:
    turns = Turns(Suspicion(100), "a", "b", "c")
    for name in "abc":
        turns.ask(name)
    for _ in range(3):
        for name in "abc":  # each asks again as soon as it is done
            assert turns.taken[-1] == name
            turns.pass_on(name)
            turns.ask(name)
    assert turns.taken == [*"abcabcabc", "a"]


def test_asking_again_changes_nothing() -> None:
    turns = Turns(Suspicion(100), "a", "b")
    for name in "aabbb":
        turns.ask(name)
    turns.pass_on("a")
    assert turns.taken == ["a", "b"]
    turns.pass_on("b")
    assert turns.taken == ["a", "b"]


def test_whoever_is_gone_neither_has_a_turn_nor_waits_for_one() -> None:
    turns = Turns(Suspicion(100), "a", "b", "c")
    for name in "abc":
        turns.ask(name)
    turns.pass_on("b")  # while it waits
    turns.pass_on("a")  # while it has it
    assert turns.taken == ["a", "c"]


def test_a_turn_that_opens_nothing_is_passed_on_at_once() -> None:
    suspicion = Suspicion(100)
    turns = Turns(suspicion, "a", *map(str, range(1000)), "b")
    turns.ask("a")
    for name in map(str, range(1000)):
        suspicion.ask(turns.seats[name], lambda name=name: turns.pass_on(name))  # type: ignore[misc]
    turns.ask("b")
    turns.pass_on("a")
    assert turns.taken == ["a", "b"]
    assert suspicion.left == 98


def test_it_ends_when_the_last_of_its_events_is_over_and_groups_are_told() -> None:
    suspicion = Suspicion(2)
    turns = Turns(suspicion, "a", "b", "c")
    told: list[str] = []
    suspicion.tell(lambda: told.append("group"))
    for name in "abc":
        turns.ask(name)
    turns.pass_on("a")
    assert suspicion.status() == {"events": 0, "seconds": 300.0, "open": "b"}
    with capture_logs() as logs:
        turns.pass_on("b")
    assert told == ["group"]
    assert [(entry["event"], entry["after"]) for entry in logs] == [("suspect mode is over", "events")]
    assert suspicion.status() is None
    turns.ask("c")
    assert turns.taken == ["a", "b"]


async def test_it_ends_after_its_time_even_while_an_event_is_open() -> None:
    suspicion = Suspicion(100, seconds=0.02)
    turns = Turns(suspicion, "a")
    over = asyncio.Event()
    suspicion.tell(over.set)
    with capture_logs() as logs:
        suspicion.begin()
        suspicion.begin()
        turns.ask("a")
        async with asyncio.timeout(5):
            await over.wait()
        turns.pass_on("a")
    assert not suspicion.is_active
    said: list[Any] = [entry["event"].split(":")[0] for entry in logs]
    assert said == ["suspect mode", "suspect mode is over"]


def test_a_group_that_has_ended_is_not_told() -> None:
    suspicion = Suspicion(1)
    turns = Turns(suspicion, "a")
    told: list[str] = []
    group = lambda: told.append("group")  # noqa: E731  # the same object twice
    suspicion.tell(group)
    suspicion.forget(group)
    turns.ask("a")
    turns.pass_on("a")
    assert not suspicion.is_active
    assert not told
