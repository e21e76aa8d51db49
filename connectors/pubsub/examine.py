"""`headrace validate --connect`: a look at the real subscription. It takes nothing and makes nothing.

Looking needs rights that reading does not: where they are missing, that is a warning. All is over in `WITHIN` seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from grpc import StatusCode
from grpc.aio import AioRpcError

from bridge.core.errors import HeadraceError
from bridge.ports import Finding
from connectors.pubsub.client import Client
from connectors.pubsub.errors import told, translated
from connectors.pubsub.judging import error, of_subscription, warning
from connectors.pubsub.options import PubSubOptions, is_plain, topic_of

WITHIN: Final = 20.0
_CONSUME: Final = "pubsub.subscriptions.consume"
_PUBLISH: Final = "pubsub.topics.publish"
_CANT_TELL: Final = (StatusCode.UNIMPLEMENTED, StatusCode.PERMISSION_DENIED)


async def examine(options: PubSubOptions) -> list[Finding]:
    """What is wrong there, errors first. Never raises for anything that the service does."""
    look = _Look(options)
    try:
        async with asyncio.timeout(WITHIN):
            await look.take()
    except TimeoutError:
        hint = "what follows it was not looked at"
        look.found.append(error(f"Pub/Sub has not answered within {WITHIN:g} s; the question was: {look.doing}", hint))
    finally:
        await look.close()
    return sorted(look.found, key=lambda finding: finding.severity)


class _Look:
    """`found` grows; `doing` is what is being asked."""

    def __init__(self, options: PubSubOptions) -> None:
        self.found: list[Finding] = []
        self.doing = "is the subscription there"
        self._options = options
        self._client = Client(options)
        self._name = self._client.subscription

    async def take(self) -> None:
        if is_plain(self._options):
            where = f"`endpoint` {self._options.endpoint!r} is plain: an emulator, without encryption and credentials"
            self.found.append(warning(where, "for Google's own regional endpoints write https://HOST"))
        if not await self._step("is the subscription there", self._look_at_subscription):
            return
        await self._step("may we consume", self._look_at_consuming)
        await self._step("is the dead-letter topic there", self._look_at_dead_letters)

    async def close(self) -> None:
        await self._client.aclose()

    async def _step(self, doing: str, step: Callable[[], Awaitable[None]]) -> bool:
        """False: nothing can be asked at all."""
        self.doing = doing
        try:
            await step()
        except HeadraceError as failure:
            self.found.append(error(str(failure)))
            return False
        except AioRpcError as failure:
            self.found.append(error(str(translated(failure, doing))))
            return failure.code() not in (StatusCode.UNAVAILABLE, StatusCode.UNAUTHENTICATED, StatusCode.NOT_FOUND)
        return True

    async def _look_at_subscription(self) -> None:
        try:
            described = await self._client.described()
        except AioRpcError as failure:
            if failure.code() is StatusCode.NOT_FOUND:
                self.found.append(error(f"there is no {self._name}", "create it, or correct its name"))
                return
            if failure.code() is not StatusCode.PERMISSION_DENIED:
                raise
            hint = "roles/pubsub.viewer on it would show; reading does not need that"
            self.found.append(warning(f"we may not look at {self._name}: how it is set up was not looked at", hint))
            return
        self.found += of_subscription(described, self._options)

    async def _look_at_consuming(self) -> None:
        if any(finding.severity == "error" for finding in self.found):
            return
        if await self._is_denied(self._name, _CONSUME):
            hint = "grant roles/pubsub.subscriber on it to the account of this process"
            self.found.append(error(f"we may not consume {self._name}", hint))

    async def _look_at_dead_letters(self) -> None:
        if self._options.dead_letter is None:
            return
        topic = topic_of(self._options, self._options.dead_letter)
        try:
            await self._client.topic(topic)
        except AioRpcError as failure:
            if failure.code() is StatusCode.NOT_FOUND:
                self.found.append(error(f"there is no {topic} for dead letters", "create it, or correct its name"))
                return
            if failure.code() is not StatusCode.PERMISSION_DENIED:
                raise
        if await self._is_denied(topic, _PUBLISH):
            hint = "grant roles/pubsub.publisher on it to the account of this process"
            self.found.append(error(f"we may not publish to {topic}, the topic for dead letters", hint))

    async def _is_denied(self, resource: str, permission: str) -> bool:
        """False also where nobody can tell, such as an emulator."""
        try:
            return permission not in await self._client.granted(resource, [permission])
        except AioRpcError as failure:
            if failure.code() not in _CANT_TELL:
                self.found.append(warning(f"whether we have {permission} on {resource} can't be told: {told(failure)}"))
            return False
