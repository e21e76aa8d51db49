"""One session that is ours: a lane, for as long as its link lives and nothing of it has failed."""

from __future__ import annotations

import asyncio
import random
import time

from bridge.core.errors import OwnershipLost
from bridge.core.retry import Backoff
from connectors.servicebus.errors import is_lost
from connectors.servicebus.link import Link
from connectors.servicebus.messages import Message

AGAIN = Backoff(delay=1.0, factor=2.0, max=60.0)
OVER = -1
"""The epoch of a session that was given up: nothing has it."""


class Session:
    """`epoch` is that of what comes next. `again_at`: when its link is closed and opened anew, in monotonic seconds, so
    that everything unsettled comes again, in order; `failed` is the message because of which.
    """

    def __init__(self, link: Link, epoch: int) -> None:
        self.id = link.session
        self.link = link
        self.epoch = epoch
        self.is_paused = False
        self.again_at: float | None = None
        self.failed: Message | None = None
        self.is_lost = False
        self.came_at = self.renewed_at = time.monotonic()
        self.changed = asyncio.Event()
        self._renewing: asyncio.Task[int] | None = None

    def is_empty_for(self, seconds: float, now: float) -> bool:
        return not self.link.unsettled and not self.is_paused and now - self.came_at > seconds

    def begin_again(self, epoch: int | None, failed: Message | None, now: float) -> None:
        """Soon; where a message has failed after a delay that grows with its deliveries. What has come so far is of an
        epoch that is over; `epoch` None: the next one is asked for when the session is ours again.
        """
        self.epoch = OVER if epoch is None else epoch
        self.failed = failed
        delay = 0.0 if failed is None else AGAIN.after(failed.deliveries or 1, random.random())  # noqa: S311  # no secret
        self.again_at = now + delay
        self.changed.set()

    def lose(self) -> None:
        """The broker says that it is not ours any more."""
        self.is_lost = True
        self.changed.set()

    async def renew(self, within: float) -> int:
        """Once for whoever wants it just now. When the lock ends, by the broker's clock in ms. Raises OwnershipLost."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(
                self.link.requests.renew_session(within), name="servicebus-renew-session"
            )
        renewing, began = self._renewing, time.monotonic()
        try:
            until = await asyncio.shield(renewing)
        except Exception as error:
            if is_lost(error):
                self.lose()
                raise OwnershipLost(f"the lock of session {self.id!r} is lost") from error
            raise
        self.renewed_at = began
        return until

    def stop(self) -> None:
        self.epoch = OVER
        if self._renewing is not None:
            self._renewing.cancel()
