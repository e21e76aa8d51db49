from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest

from bridge.ports import Claim

CLAIM = Claim(
    run_key="orders/src/0-17/0",
    epoch=1,
    until=0.0,
    retry=0,
    attempts=0,
    ambiguous=False,
    watcher="orders",
    asset="eu_orders",
    stream="files",
    position="0:17",
    target="local",
    job="process",
    params=b'{"order":"o-1","amount":12.5}',
    tags=b"{}",
    host="",
)


@pytest.fixture
def claim() -> Callable[..., Claim]:
    """Makes a claim, the same each time but for what is given."""
    return lambda **changes: msgspec.structs.replace(CLAIM, **changes)


@pytest.fixture
def until() -> Callable[..., None]:
    """Waits for what another process does, with a deadline."""

    def wait(condition: Callable[[], object], what: str, seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds}s: {what}"
            time.sleep(0.01)

    return wait
