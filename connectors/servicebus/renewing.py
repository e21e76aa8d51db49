"""Renewing locks: many in one request, and sessions once for all of their messages.

A request for many locks fails as a whole where one of them is lost, so it is cut in half until it is known which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from bridge.core.errors import Transient
from connectors.servicebus.errors import is_lost, told
from connectors.servicebus.link import Link
from connectors.servicebus.messages import Message

LOCKS_AT_ONCE: Final = 100


class Lock(NamedTuple):
    """Of a message: whose it is, and the token that its delivery had when we looked."""

    message: Message
    token: UUID


class Renewer:
    """`links` are those open to the entity; `seen` hears when locks end, by the broker's clock in ms."""

    def __init__(self, links: Callable[[], Iterable[Link]], seen: Callable[[int], None]) -> None:
        self._links = links
        self._seen = seen

    async def renew(self, messages: Sequence[Message], within: float) -> list[Message]:
        """Those whose lock is lost. Raises Transient where it can't tell of any; takes `within` seconds at most."""
        locks = [Lock(message, message.handle.token) for message in messages]
        halves = [locks[start : start + LOCKS_AT_ONCE] for start in range(0, len(locks), LOCKS_AT_ONCE)]
        try:
            async with asyncio.timeout(within):
                found = await asyncio.gather(*(self._renewed(some, within) for some in halves))
        except TimeoutError:
            raise Transient(f"{len(messages)} locks could not be renewed within {within:.1f} s") from None
        return [message for lost in found for message in lost]

    async def _renewed(self, locks: Sequence[Lock], within: float) -> list[Message]:
        link = next((link for link in self._links() if link.is_open), None)
        if link is None:
            raise Transient("no link to the broker is open to renew locks over")
        try:
            ends = await link.requests.renew([lock.token for lock in locks], within)
        except Transient:
            raise
        except Exception as error:
            if not is_lost(error):
                raise Transient(f"renewing {len(locks)} locks: {told(error)}") from error
            if len(locks) == 1:
                return [] if locks[0].message.is_settled else [locks[0].message]
            middle = len(locks) // 2
            halves = self._renewed(locks[:middle], within), self._renewed(locks[middle:], within)
            return [message for lost in await asyncio.gather(*halves) for message in lost]
        for end in ends[:1]:
            self._seen(end)
        return []
