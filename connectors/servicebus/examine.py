"""`headrace validate --connect`: a look at the real namespace. It takes nothing, locks nothing and makes nothing.

One step after the other; a step that fails is a finding. All of it is over within `WITHIN` seconds.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from bridge.core.errors import HeadraceError
from bridge.ports import Finding
from connectors.servicebus.administration import settings_of
from connectors.servicebus.browsing import Browser
from connectors.servicebus.client import Account
from connectors.servicebus.errors import kind_of, told, trouble_of
from connectors.servicebus.judging import error, judged
from connectors.servicebus.link import opened
from connectors.servicebus.messages import Delivery
from connectors.servicebus.naming import entity_of, host_of
from connectors.servicebus.options import ServiceBusOptions

WITHIN: Final = 25.0
_STEP_WITHIN: Final = 10.0


async def examine(options: ServiceBusOptions) -> list[Finding]:
    """What is wrong there, errors first. Never raises for anything that the namespace does."""
    look = _Look(options)
    try:
        async with asyncio.timeout(WITHIN):
            await look.take()
    except TimeoutError:
        look.found.append(
            error(
                f"{host_of(options)} has not answered everything within {WITHIN:g} s; the last question was: "
                f"{look.doing}",
                "what follows it was not looked at: is its port 5671 open from here? `transport: websockets` takes 443",
            )
        )
    finally:
        await look.close()
    return sorted(look.found, key=lambda finding: finding.severity)


class _Look:
    """`found` grows; `doing` is what is being asked."""

    def __init__(self, options: ServiceBusOptions) -> None:
        self.found: list[Finding] = []
        self.doing = "may we look at messages"
        self._options = options
        self._entity = entity_of(options)
        self._account: Account | None = None
        self._browser: Browser | None = None

    async def take(self) -> None:
        try:
            self._account = account = Account(self._options)
        except (ValueError, ImportError) as failure:
            self.found.append(error(f"no client can be made: {told(failure)}", "correct what it names"))
            return
        if not await self._look_at_messages(account):
            return
        self.doing = "may we read"
        await self._look_at_link(account)
        self.doing = "how is the entity set"
        settings = await settings_of(self._options, account)
        if settings is not None:
            self.found += judged(settings, self._options)

    async def close(self) -> None:
        if self._browser is not None:
            await self._browser.aclose()
        if self._account is not None:
            await self._account.aclose()

    async def _look_at_messages(self, account: Account) -> bool:
        self._browser = Browser(self._options, account)
        try:
            async with asyncio.timeout(_STEP_WITHIN):
                await self._browser.peek(1, 1)
        except (HeadraceError, TimeoutError) as failure:
            cause = failure.__cause__ or failure
            self.found.append(error(trouble_of(cause, self._entity), f"asked at {host_of(self._options)}"))
            return False
        return True

    async def _look_at_link(self, account: Account) -> None:
        """A link without credit takes nothing; that it opens shows the claim, and that there are no sessions."""
        try:
            link = await opened(account.receiver(), _nobody, _STEP_WITHIN)
        except Exception as failure:
            self._judge_refusal(failure)
            return
        await link.close()
        if self._options.sessions:
            self.found.append(
                error(f"{self._entity} does not require sessions, and the stream has `sessions: true`", "leave it out")
            )

    def _judge_refusal(self, failure: BaseException) -> None:
        is_of_sessions = kind_of(failure) == "not_allowed"
        if is_of_sessions and self._options.sessions:
            return  # as it should be
        if is_of_sessions:
            self.found.append(error(f"{self._entity} requires sessions", "set `sessions: true`"))
        else:
            self.found.append(error(trouble_of(failure, self._entity)))


def _nobody(_link: Any, _delivery: Delivery, _amqp: Any) -> None:
    """Nothing comes without credit."""
