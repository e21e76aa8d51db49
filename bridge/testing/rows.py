"""Rows as a store gets them."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from bridge.core.model import Plan, Run
from bridge.ports import RunRow


class At(Struct, frozen=True):
    """An origin whose messages are all at one position."""

    stream: str
    id: str
    position: str
    relays: bool = False

    def position_of(self, payload: Any) -> str:
        return self.position


def run_row(
    run_key: str,
    *,
    body: bytes = b"body",
    watcher: str = "w",
    asset: str = "a",
    stream: str = "orders",
    source: str = "src",
    identity: str = "1",
    position: str = "line 1",
    target: str = "log",
    job: str = "job",
    params: bytes = b"{}",
    tags: bytes = b"{}",
    own_tags: bytes | None = None,
    key: str | None = None,
    key_ttl: float | None = None,
    received_at: float = 1.0,
    relays: bool = False,
) -> RunRow:
    """A run request as a store gets it. `tags` are the plan's, `own_tags` the run's."""
    plan = Plan(watcher, asset, target, job, tags, key_ttl=key_ttl)
    run = Run(plan, None, body, params, tags=own_tags, key=key)
    return RunRow(run_key, identity, At(stream, source, position, relays), run, received_at)
