"""Groups, seats and polls for examples, with steady delays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge.core.commands import Command, Limits
from bridge.core.group import StreamGroup
from bridge.core.model import Plan, Poll, Record, Routed, Run, Slice
from bridge.core.retry import Backoff
from bridge.core.seat import Seat

STEADY = Backoff(delay=1.0, factor=2.0, jitter=0.0)


class Known(dict[tuple[str, Any], tuple[int, int]]):
    """What is written of earlier tries, by (watcher, payload)."""

    def __call__(self, watcher: str, payload: Any) -> tuple[int, int] | None:
        return self.get((watcher, payload))


def group(*seats: Seat, declared: int = 1, known: Any = None, is_suspect: bool = False, **limits: Any) -> StreamGroup:
    bounds = Limits(retry=STEADY, advance_retry=STEADY, **limits)
    return StreamGroup(declared, bounds, seats=seats, history=Known(known or {}), is_suspect=is_suspect)


def seat(name: str = "python", max_attempts: int = 3) -> Seat:
    return Seat(Plan(name, "asset", "target", "job", max_attempts=max_attempts))


def admit(
    core: StreamGroup,
    count: int,
    *,
    lane: Any = "lane",
    hits: tuple[int, ...] = (),
    first: int = 0,
    epoch: int | None = None,
) -> list[Command]:
    payloads = list(range(first, first + count))
    plan = Plan("declared", "asset", "target", "job")
    found: dict[int, list[Record]] = {i: [Run(plan, payloads[i], b"body", b"{}")] for i in hits}
    return core.admit(Poll([Slice(lane, 0, count, epoch)], [b"body"] * count, payloads), Routed.of(found, {}))


@pytest.fixture(name="group")
def group_fixture() -> Callable[..., StreamGroup]:
    return group


@pytest.fixture(name="seat")
def seat_fixture() -> Callable[..., Seat]:
    return seat


@pytest.fixture(name="admit")
def admit_fixture() -> Callable[..., list[Command]]:
    return admit
