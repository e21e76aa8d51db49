"""What tests have asked the fake to do wrong, and what it has counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal

import grpc
from msgspec import Struct, field

Temporary = Literal["temporary", "permanent"]


class Fault(Struct):
    """A call is refused with `status`; `times` how often still, None until it is mended."""

    status: str
    times: int | None = None


class Faults(Struct, eq=False):
    """All of it is mended by a fresh one."""

    calls: dict[str, Fault] = field(default_factory=dict)
    acks: list[Temporary] = field(default_factory=list)
    """How the next ids of an exactly-once subscription fail, one entry an id."""
    doubles: int = 0
    reorders: bool = False
    skew: float = 0.0
    slow: float = 0.0
    speaks: asyncio.Event = field(default_factory=asyncio.Event)
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.speaks.set()

    async def before(self, method: str, context: grpc.aio.ServicerContext[object, object]) -> None:
        """Called first in each call: counts it, holds it up, or ends it."""
        self.counted[method] += 1
        if self.slow:
            await asyncio.sleep(self.slow)
        await self.speaks.wait()
        for name in (method, "*"):
            fault = self.calls.get(name)
            if fault is not None:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        del self.calls[name]
                await context.abort(grpc.StatusCode[fault.status], "on request")
