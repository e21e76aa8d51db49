"""How much may be on its way: what the runtime asks for, cut among the links that are read. And what has come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final, NamedTuple

from bridge.core.model import UNORDERED, Poll, Slice
from connectors.servicebus.link import Link
from connectors.servicebus.messages import Message

POLL_MOST: Final = 500


class Arrived(NamedTuple):
    """A message, and when it came in monotonic seconds."""

    body: bytes
    message: Message
    at: float


def shares(most: int, links: int, each: int) -> Iterator[int]:
    """`most` cut evenly among so many links, at most `each` for one; the first get what is over."""
    share, over = divmod(most, links) if links else (0, 0)
    for number in range(links):
        yield min(each, share + (number < over))


class Tap:
    """`most` at once in all, `each` on a link. What has arrived and was not taken yet counts as on its way."""

    def __init__(self, most: int, each: int) -> None:
        self.most = most
        self.each = each
        self._links: dict[Link, bool] = {}
        self._arrived: list[Arrived] = []
        self._some = asyncio.Event()
        self._is_full = False
        self._error: BaseException | None = None

    # Asking ----------------------------------------------------------------------------------------------------------

    def ask(self, most: int) -> None:
        if most != self.most:
            self.most = most
            self._spread()

    def add(self, link: Link, *, paused: bool = False) -> None:
        self._links[link] = paused
        self._spread()

    def pause(self, link: Link, *, paused: bool) -> None:
        if self._links.get(link, paused) != paused:
            self._links[link] = paused
            self._spread()

    def remove(self, link: Link) -> None:
        if self._links.pop(link, None) is not None:
            self._spread()

    def open_links(self) -> list[Link]:
        """Those that can be spoken over."""
        return [link for link in self._links if link.is_open]

    def _spread(self) -> None:
        self._is_full = len(self._arrived) >= max(self.most, 1)
        reading = [link for link, paused in self._links.items() if not paused]
        wanted = shares(0 if self._is_full else self.most, len(reading), self.each)
        for link, credit in zip(reading, wanted, strict=True):
            link.want(credit)
        for link, paused in self._links.items():
            if paused:
                link.want(0)

    # Taking ----------------------------------------------------------------------------------------------------------

    def put(self, body: bytes, message: Message) -> None:
        self._arrived.append(Arrived(body, message, time.monotonic()))
        self._some.set()
        if len(self._arrived) >= self.most and not self._is_full:
            self._spread()

    def fail(self, task: asyncio.Task[None]) -> None:
        """A task of ours has ended, which none should: whoever polls hears of it."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._some.set()

    async def poll(self) -> Poll:
        """What has come, at least one message. What is of a session that is paused stays until it is resumed."""
        while True:
            await self._some.wait()
            if self._error is not None:
                raise self._error
            arrived, self._arrived = self._arrived, []
            ready = [each for each in arrived if is_ready(each.message)]
            if len(ready) < len(arrived):
                self._arrived = [each for each in arrived if is_held(each.message)]
            some, more = ready[:POLL_MOST], ready[POLL_MOST:]
            self._arrived += more
            if not more:
                self._some.clear()
            if self._is_full:
                self._spread()
            if some:
                return poll_of(some)

    def look_again(self) -> None:
        """A session was resumed."""
        if self._arrived:
            self._some.set()

    def take_all(self) -> list[Message]:
        """What nobody was given."""
        arrived, self._arrived = self._arrived, []
        self._some.clear()
        return [each.message for each in arrived]


def is_ready(message: Message) -> bool:
    """Else its session is paused, or has begun anew since and brings it again."""
    session = message.session
    return session is None or (session.epoch == message.epoch and not session.is_paused)


def is_held(message: Message) -> bool:
    """It waits for its session to be resumed."""
    session = message.session
    return session is not None and session.epoch == message.epoch and session.is_paused


def lent_at(arrived: Arrived) -> float:
    """When its lease began, in monotonic seconds: that of a session is renewed while a message waits here."""
    session = arrived.message.session
    return arrived.at if session is None else max(arrived.at, session.renewed_at)


def poll_of(arrived: list[Arrived]) -> Poll:
    """Cut by session; what has none is of the lane UNORDERED."""
    first = arrived[0].message.session
    if all(each.message.session is first for each in arrived):
        groups = [arrived]
    else:
        by_session: dict[object, list[Arrived]] = {}
        for each in arrived:
            by_session.setdefault(each.message.session, []).append(each)
        groups = list(by_session.values())
    slices: list[Slice] = []
    start = 0
    for group in groups:
        message = group[0].message
        session = message.session
        lane, epoch = (UNORDERED, None) if session is None else (session.id, message.epoch)
        slices.append(Slice(lane, start, start + len(group), epoch))
        start += len(group)
    flat = [each for group in groups for each in group]
    return Poll(
        slices,
        [each.body for each in flat],
        [each.message for each in flat],
        min(lent_at(each) for each in flat),
    )
