"""How long the queue is, for people: asked once a minute, and seldom where we may not ask."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from bridge.core.errors import HeadraceError, Refused
from connectors.sqs.client import Client

_EVERY: Final = 60.0
_WHERE_REFUSED: Final = 900.0
_NAMES: Final[Mapping[str, str]] = {
    "ApproximateNumberOfMessages": "waiting",
    "ApproximateNumberOfMessagesNotVisible": "in_flight",
    "ApproximateNumberOfMessagesDelayed": "delayed",
}


class Depth:
    """`seen`: messages of the queue that wait, are lent to anybody, or are not due yet; empty where we may not ask."""

    def __init__(self, client: Client, url: str) -> None:
        self.seen: dict[str, int] = {}
        self._client = client
        self._url = url
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="sqs-depth")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)

    async def _run(self) -> None:
        while True:
            rest = await self._look()
            await asyncio.sleep(rest)

    async def _look(self) -> float:
        """Returns the seconds until the next look."""
        try:
            answer = await self._client.call("get_queue_attributes", QueueUrl=self._url, AttributeNames=list(_NAMES))
        except HeadraceError as error:
            self.seen = {}
            return _WHERE_REFUSED if isinstance(error, Refused) else _EVERY
        said = answer.get("Attributes") or {}
        self.seen = {ours: int(said[theirs]) for theirs, ours in _NAMES.items() if theirs in said}
        return _EVERY
