"""Sessions as lanes: so many are held at once, whichever have messages and no reader.

accepted   `Lanes.assigned`; its messages come in order, on a link of its own, whose life is the session's lock
failed     after a delay the message is abandoned, the link closed, and the same session accepted again: all that
           was not settled comes again, in order, under a new epoch
lost       the lock ran out, the link broke: `Lanes.revoked`; another reader, or we, get it when the broker has it
empty      given up so that another session gets its place
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import structlog

from bridge.core.errors import HeadraceError, Refused, Transient
from bridge.core.model import AdvanceBatch
from bridge.ports import Lanes
from connectors.servicebus.client import ACCEPTED_WITHIN, Account
from connectors.servicebus.errors import is_lost, is_no_session, told
from connectors.servicebus.health import Health
from connectors.servicebus.link import Link, opened
from connectors.servicebus.messages import Message
from connectors.servicebus.options import ServiceBusOptions
from connectors.servicebus.receiving import pause_after
from connectors.servicebus.session import Session
from connectors.servicebus.settling import ABANDON, Settler
from connectors.servicebus.tap import Tap

log = structlog.get_logger("headrace.servicebus")

_ACCEPTING_MOST: Final = 2
"""How many wait for a next session at once: each is a connection."""
_NO_SOONER: Final = 0.5
_LOOKED_EVERY: Final = 1.0
_EMPTY_MOST: Final = 60.0
_BACK_TRIES: Final = 5
_BACK_PAUSE: Final = 0.3
"""Seconds times the try: the broker may not know yet that the link before has gone."""
_LAST_WITHIN: Final = 5.0


class Sessions:
    """`run` one task for each of `options.max_sessions`. `settle_last` settles what is resolved of a lane that goes."""

    def __init__(
        self,
        options: ServiceBusOptions,
        account: Account,
        tap: Tap,
        health: Health,
        settler: Settler,
        lanes: Lanes,
        settle_last: Callable[[AdvanceBatch], Any],
    ) -> None:
        self.held: dict[str, Session] = {}
        self.taken: Callable[[Session, Any, Any], None] | None = None
        self._options = options
        self._account = account
        self._tap = tap
        self._health = health
        self._settler = settler
        self._lanes = lanes
        self._settle_last = settle_last
        self._by_link: dict[Link, Session] = {}
        self._accepting = asyncio.Semaphore(_ACCEPTING_MOST)

    # Accepting -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until it is cancelled, which closes the link."""
        failures = 0
        while True:
            began = time.monotonic()
            try:
                link = await self._next()
                failures = 0
                self._health.is_up()
            except Exception as error:
                failures += 1
                self._health.broke(error)
                await asyncio.sleep(pause_after(failures))
                continue
            if link is not None:
                await self._hold(link)
            elif time.monotonic() - began < _NO_SOONER:
                await asyncio.sleep(_NO_SOONER)

    async def _next(self) -> Link | None:
        """None: there is no session with messages that nobody reads, which is nothing to speak of (B50)."""
        async with self._accepting:
            wait = min(ACCEPTED_WITHIN, self._options.open_timeout / 2)
            try:
                return await self._opened(None, wait)
            except Exception as error:
                if is_no_session(error):
                    log.debug("no session now", reason=told(error))
                    return None
                raise

    async def _opened(self, session: str | None, wait: float) -> Link:
        receiver = self._account.session_receiver(session, wait)
        link = await opened(receiver, self._arrived, self._options.open_timeout)
        if not link.session:
            await link.close()
            raise Refused("it does not require sessions: leave out `sessions: true`")
        return link

    def _arrived(self, link: Link, delivery: Any, amqp: Any) -> None:
        session = self._by_link.get(link)
        if session is not None and self.taken is not None and session.again_at is None:
            session.came_at = time.monotonic()
            self.taken(session, delivery, amqp)

    # Holding ---------------------------------------------------------------------------------------------------------

    async def _hold(self, link: Link | None) -> None:
        """One session, over as many links as it takes."""
        epoch: int | None = None
        while link is not None:
            session = Session(link, self._lanes.assigned(link.session) if epoch is None else epoch)
            again = await self._live(session)
            link = await self._back(session) if again else None
            if link is None and again:
                self._give_up(session)
            epoch = session.epoch if session.failed is not None else None  # for what failed `advance` has asked already

    async def _live(self, session: Session) -> bool:
        """One link, from its first credit to its close. True: the same session is to be accepted again."""
        link = session.link
        self.held[session.id] = self._by_link[link] = session
        running = asyncio.create_task(link.run(), name=f"servicebus-session[{session.id}]")
        running.add_done_callback(lambda _: session.changed.set())
        self._tap.add(link)
        try:
            again = await self._until_over(session, running)
            if again:
                await self._abandon(session)
            return again
        finally:
            self._tap.remove(link)
            self._by_link.pop(link, None)
            if self.held.get(session.id) is session:
                del self.held[session.id]
            running.cancel()
            await asyncio.wait({running})
            if not running.cancelled():
                running.exception()
            await link.close()

    async def _until_over(self, session: Session, running: asyncio.Task[None]) -> bool:
        while True:
            now = time.monotonic()
            if running.done() or session.is_lost:
                self._broke(session, running)
                return False
            if session.again_at is not None:
                self._tap.pause(session.link, paused=True)
                if session.again_at <= now:
                    return True
            elif self._is_in_the_way(session, now) and await self._is_left_empty(session):
                await self._leave(session)
                return False
            if now - session.renewed_at > self._options.lease / 3:
                await self._renew(session)
            await self._look_again(session, now)

    async def _look_again(self, session: Session, now: float) -> None:
        wait = _LOOKED_EVERY if session.again_at is None else min(_LOOKED_EVERY, max(0.0, session.again_at - now))
        try:
            async with asyncio.timeout(wait):
                await session.changed.wait()
        except TimeoutError:
            pass
        session.changed.clear()

    async def _renew(self, session: Session) -> None:
        try:
            self._health.saw_lock(await session.renew(self._options.lease / 6))
        except (HeadraceError, OSError) as error:
            log.debug("a session's lock was not renewed", session=session.id, reason=told(error))
            session.renewed_at += 1.0  # and tried again in a moment
        except Exception as error:
            log.warning("a session's lock could not be renewed", session=session.id, reason=told(error))
            session.renewed_at += 1.0

    # Ending ----------------------------------------------------------------------------------------------------------

    def _is_in_the_way(self, session: Session, now: float) -> bool:
        """Nothing comes: at once where no place is free for another session, later in any case."""
        is_full = len(self.held) >= self._options.max_sessions
        return session.is_empty_for(self._options.session_idle if is_full else _EMPTY_MOST, now)

    async def _is_left_empty(self, session: Session) -> bool:
        self._tap.pause(session.link, paused=True)
        await session.link.drain()
        if session.link.unsettled:
            self._tap.pause(session.link, paused=session.is_paused)
        return not session.link.unsettled

    async def _leave(self, session: Session) -> None:
        batches = self._lanes.revoked([session.id])
        try:
            async with asyncio.timeout(_LAST_WITHIN):
                for _, batch in batches:
                    await self._settle_last(batch)
        except (HeadraceError, TimeoutError) as error:
            log.debug("a session was left with something unsettled", session=session.id, reason=told(error))
        session.stop()

    def _broke(self, session: Session, running: asyncio.Task[None]) -> None:
        """Its lock went with its link, so what is resolved and not settled can't be settled: it comes again."""
        error = running.exception() if running.done() and not running.cancelled() else None
        if session.is_lost or (error is not None and is_lost(error)):
            self._health.locks_lost += 1
            log.info("a session's lock is lost", session=session.id)
        elif error is not None:
            self._health.broke(error)
        self._give_up(session)

    def _give_up(self, session: Session) -> None:
        session.stop()
        self._lanes.revoked([session.id])

    async def _abandon(self, session: Session) -> None:
        """What failed counts a delivery; what lies behind it costs none, since the session is closed in order."""
        if session.failed is None:
            return
        try:
            await self._settler.settle([session.failed], ABANDON)
        except Transient as error:
            log.debug("a failed message was not abandoned", session=session.id, reason=str(error))

    async def _back(self, session: Session) -> Link | None:
        """The same session again, on a new link. None: it went to another reader meanwhile."""
        for attempt in range(1, _BACK_TRIES + 1):
            try:
                return await self._opened(session.id, ACCEPTED_WITHIN)
            except Exception as error:
                log.debug("a session is not to be had again yet", session=session.id, reason=told(error))
                if not is_no_session(error):
                    self._health.broke(error)
            await asyncio.sleep(_BACK_PAUSE * attempt)
        return None

    # What the producer asks for --------------------------------------------------------------------------------------

    def fail(self, message: Message) -> None:
        """A watcher has failed it: it comes again, with all behind it, under a new epoch."""
        session = message.session
        if session is not None and session.epoch == message.epoch:
            session.begin_again(self._lanes.assigned(session.id), message, time.monotonic())

    def give_back(self, messages: Sequence[Message]) -> None:
        for session in {message.session for message in messages if message.session is not None}:
            if session.again_at is None and any(session.epoch == message.epoch for message in messages):
                session.begin_again(None, None, time.monotonic())

    def pause(self, lanes: Sequence[Hashable], *, paused: bool) -> None:
        for session in (self.held.get(lane) for lane in lanes if isinstance(lane, str)):
            if session is not None:
                session.is_paused = paused
                self._tap.pause(session.link, paused=paused or session.again_at is not None)
        if not paused:
            self._tap.look_again()
