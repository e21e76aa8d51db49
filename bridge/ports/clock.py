"""Time as a port."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time as an argument. `monotonic` for durations, `now` (UTC, seconds since 1970) for what is stored or shown."""

    def monotonic(self) -> float: ...
    def now(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...
