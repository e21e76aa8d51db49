"""Keeps links to an entity without sessions open: whatever ends one, the next is opened, sooner or later (B48)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Final

from connectors.servicebus.client import Account
from connectors.servicebus.health import AGAIN, Health
from connectors.servicebus.link import Taker, opened
from connectors.servicebus.options import ServiceBusOptions
from connectors.servicebus.tap import Tap

_LIVED: Final = 1.0
"""Seconds after which a link, with what it takes to open one, has been a good one: the next is opened at once."""


class Receivers:
    """`run` one task for each of `options.receivers`."""

    def __init__(self, options: ServiceBusOptions, account: Account, tap: Tap, health: Health, taker: Taker) -> None:
        self._options = options
        self._account = account
        self._tap = tap
        self._health = health
        self._taker = taker

    async def run(self) -> None:
        """Until it is cancelled, which closes the link."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                await self._live()
            except Exception as error:
                self._health.broke(error)
            failures = 1 if time.monotonic() - began > _LIVED else failures + 1
            await asyncio.sleep(pause_after(failures))

    async def _live(self) -> None:
        """One link, from open to close. Ends by raising."""
        link = await opened(self._account.receiver(), self._taker, self._options.open_timeout)
        self._health.is_up()
        self._tap.add(link)
        try:
            await link.run()
        finally:
            self._tap.remove(link)
            await link.close()


def pause_after(failures: int, roll: Callable[[], float] = random.random) -> float:
    """Seconds."""
    return AGAIN.after(failures, roll())
