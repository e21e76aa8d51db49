"""A watcher written in Python, for quickstart.yaml. Written for Airflow, only the imports would differ."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from bridge.shared_stream import reject_shared_stream_event
from bridge.triggers import BaseEventTrigger, TriggerEvent


class RiskyOrders(BaseEventTrigger):
    """Fires for orders over a limit, and refuses those that have no amount that can be judged."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self.limit = limit

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return "quickstart_triggers:RiskyOrders", {"limit": self.limit}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError("it only filters a shared stream")
        yield

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for order in shared_stream:
            if order.get("currency") == "XXX":
                reject_shared_stream_event("no such currency")
            elif order["amount"] > self.limit:
                yield TriggerEvent({"why": f"amount over {self.limit:g}"})
