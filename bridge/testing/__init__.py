"""What ships for tests: a stage for filters written in Python, a broker in memory, a wrapper that dies when told.

They keep the promises of what they stand for (the contract suites in `tests/contract/` run on them), so what was tested
with them holds for the real ones, as far as anything but the real ones can tell.
"""

from __future__ import annotations

from bridge.testing.broker import MemoryBroker, MemoryProducer, Position
from bridge.testing.faults import Died, Dying
from bridge.testing.outcomes import (
    FailedTry,
    FilterDown,
    Outcome,
    RejectedEvent,
    RunRequest,
    StuckFilter,
    expect_reject,
)
from bridge.testing.rows import At, run_row
from bridge.testing.triggers import TriggerTest

__all__ = [
    "At",
    "Died",
    "Dying",
    "FailedTry",
    "FilterDown",
    "MemoryBroker",
    "MemoryProducer",
    "Outcome",
    "Position",
    "RejectedEvent",
    "RunRequest",
    "StuckFilter",
    "TriggerTest",
    "expect_reject",
    "run_row",
]
