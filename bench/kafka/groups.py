"""What the broker knows of a consumer group: whether it is complete, and how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient

from bench.kafka.topic import PARTITIONS

JOINING = 60.0


class Groups:
    """Asks through an admin client; `groups` opens it."""

    def __init__(self, admin: AIOKafkaAdminClient) -> None:
        self._admin = admin

    async def complete(self, group: str, members: int) -> None:
        """Until so many members have their share. Raises TimeoutError."""
        async with asyncio.timeout(JOINING):
            while await self._members(group) != members:  # noqa: ASYNC110  # a group has no event to wait for
                await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)  # for the first fetch to be on its way

    async def _members(self, group: str) -> int:
        """0 while the group is not stable."""
        (response,) = await self._admin.describe_consumer_groups([group])
        (described,) = response.to_object()["groups"]
        return len(described["members"]) if described["state"] == "Stable" else 0

    async def committed(self, group: str) -> list[int]:
        """The offsets that the group has committed, one for each partition that has any."""
        offsets = await self._admin.list_consumer_group_offsets(group)
        return [place.offset for place in offsets.values() if place.offset >= 0]

    async def read(self, group: str, events: int, within: float = 120.0) -> None:
        """Until the group has committed so many events, spread evenly. Raises TimeoutError.

        A sum would not do: an offset may stand behind the marker of a transaction.
        """
        async with asyncio.timeout(within):
            while len(seen := await self.committed(group)) < PARTITIONS or min(seen) < events // PARTITIONS:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@asynccontextmanager
async def groups(bootstrap: str) -> AsyncIterator[Groups]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        yield Groups(admin)
    finally:
        await admin.close()
