"""What the entity's management node is asked for over a link's connection (`$management`, request and answer)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from uuid import UUID

from azure.servicebus._common import mgmt_handlers
from azure.servicebus.aio import ServiceBusReceiver

from bridge.core.errors import Transient

_AT_ONCE: Final = 4


class Requests:
    """Raises the client's errors, and Transient where nothing is answered within so many seconds."""

    def __init__(self, receiver: ServiceBusReceiver, session: str) -> None:
        self._receiver: Any = receiver
        self._session = session
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def settle(self, what: str, tokens: Sequence[UUID], details: dict[str, str] | None, within: float) -> None:
        """`what`: completed, abandoned or suspended (a dead letter, with `details`). All of them, or it raises."""
        await self._asked(lambda: self._receiver._settle_message_via_mgmt_link(what, list(tokens), details), within)

    async def renew(self, tokens: Sequence[UUID], within: float) -> list[int]:
        """When each lock ends then, by the broker's clock in ms. All of them are renewed, or it raises."""
        answer = await self._asked(lambda: self._receiver._renew_locks(*tokens, timeout=within), within)
        return list(answer[b"expirations"])

    async def renew_session(self, within: float) -> int:
        """When the session's lock ends then, by the broker's clock in ms."""
        answer = await self._asked(
            lambda: self._receiver._mgmt_request_response(
                b"com.microsoft:renew-session-lock",
                {"session-id": self._session},
                mgmt_handlers.session_lock_renew_op,
                timeout=within,
            ),
            within,
        )
        return int(answer[b"expiration"])

    async def _asked(self, request: Callable[[], Awaitable[Any]], within: float) -> Any:
        try:
            async with asyncio.timeout(within), self._places:
                return await request()
        except TimeoutError:
            raise Transient(f"the broker has not answered a request within {within:g} s") from None
