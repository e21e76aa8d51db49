"""`engine_unordered`: UNORDERED events through the shell, ten in an `advance`, beside the same on one ordered lane."""

from __future__ import annotations

import msgspec

from bench.common import Result, documents, rate
from bench.engine import EVENTS, WIDE, Prepared, engine, router
from bridge.core.model import UNORDERED, Slice

TEN = msgspec.structs.replace(WIDE, advance_max=10)


class Unordered(Prepared):
    """The same polls, of events that need no order."""

    def __init__(self, bodies: list[bytes]) -> None:
        super().__init__(bodies)
        for poll in self.polls:
            poll.slices = [Slice(UNORDERED, 0, len(poll.bodies))]


def unordered() -> Result:
    bodies = documents(EVENTS, 300, 10_000, prefix="nobody")
    routes = router(1)
    return rate(
        "engine_unordered",
        lambda: engine(bodies, routes, Unordered, limits=TEN),
        lambda: engine(bodies, routes),
        "one ordered lane",
    )
