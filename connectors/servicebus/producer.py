"""Reads a queue or a subscription, and settles what is resolved. One life, from open to close.

link        one receiver link of the SDK, read by one task            tap        how much may come, and what has
receiving   keeps links open to an entity without sessions            sessions   holds sessions, each a lane
settling    complete, dead-letter, abandon                            renewing   locks, many in one request
resting     what a watcher failed, until it is given back             health     what people should know
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping, Sequence
from typing import Any, Final

import structlog

from bridge.core.errors import HeadraceError, IllegalStep, OwnershipLost, Transient
from bridge.core.model import UNORDERED, AdvanceItem, Meta, Poll
from bridge.ports import Lanes
from bridge.shared_stream import SharedStreamProducer
from connectors.servicebus.bodies import body_of
from connectors.servicebus.client import Account
from connectors.servicebus.health import Health
from connectors.servicebus.link import Link
from connectors.servicebus.messages import Delivery, Message, locked_until, message_of, meta_of
from connectors.servicebus.naming import entity_of
from connectors.servicebus.options import ServiceBusOptions
from connectors.servicebus.receiving import Receivers
from connectors.servicebus.renewing import Renewer
from connectors.servicebus.resting import Resting
from connectors.servicebus.session import Session
from connectors.servicebus.sessions import Sessions
from connectors.servicebus.settling import ABANDON, Settler, runs_of, verdict_of
from connectors.servicebus.tap import Tap

log = structlog.get_logger("headrace.servicebus")

OUTSTANDING: Final = 500
_GIVEN_BACK_WITHIN: Final = 1.5
_CLOSED_WITHIN: Final = 5.0


class ServiceBusProducer(SharedStreamProducer):
    """Of an entity without sessions. Nothing connects before `open_batches` is pulled."""

    def __init__(self, options: ServiceBusOptions) -> None:
        self._options = options
        self._entity = entity_of(options)
        self._tap = Tap(OUTSTANDING, options.max_messages)
        self._health = Health(self._entity, options)
        self._settler = Settler(self._tap.open_links, options.request_timeout)
        self._renewer = Renewer(self._tap.open_links, self._health.saw_lock)
        self._resting = Resting(options.lease, self._abandon, self._renewed)
        self._account: Account | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # Reading ---------------------------------------------------------------------------------------------------------

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        self._account = Account(self._options)
        self._tasks = [*self._read(self._account), asyncio.create_task(self._resting.run(), name="servicebus-resting")]
        for task in self._tasks:
            task.add_done_callback(self._tap.fail)
        while True:
            yield await self._tap.poll()

    def _read(self, account: Account) -> list[asyncio.Task[None]]:
        receivers = Receivers(self._options, account, self._tap, self._health, self._taken)
        number = self._options.receivers
        return [asyncio.create_task(receivers.run(), name=f"servicebus-receiver-{n}") for n in range(number)]

    def _taken(self, _link: Link, delivery: Delivery, amqp: Any) -> None:
        self._put(message_of(delivery, amqp))

    def _put(self, message: Message) -> None:
        self._health.saw(locked_until(message.amqp), message.enqueued, time.monotonic())
        self._tap.put(body_of(message.amqp), message)

    async def open_stream(self) -> AsyncIterator[tuple[bytes, Message]]:
        """The same, one by one."""
        async for poll in self.open_batches():
            for body, payload in zip(poll.bodies, poll.payloads, strict=True):
                yield body, payload

    # Leases ----------------------------------------------------------------------------------------------------------

    @property
    def lease(self) -> float:
        return self._options.lease

    def ask(self, most: int) -> None:
        self._tap.ask(most)

    async def renew(self, payloads: Sequence[Message]) -> Sequence[Message]:
        lost = await self._renewed([message for message in payloads if not message.is_settled])
        self._health.locks_lost += len(lost)
        return lost

    async def _renewed(self, messages: Sequence[Message]) -> Sequence[Message]:
        return await self._renewer.renew(messages, self.lease / 6) if messages else []

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Message] | None:
        lost: list[Message] = []
        for outcome, messages in runs_of(batch):
            verdict = verdict_of(outcome)
            if verdict is None:
                for message in messages:
                    self._resting.put(message)
            else:
                lost += await self._settler.settle(messages, verdict)
        self._health.locks_lost += len(lost)
        return lost

    async def release(self, payloads: Sequence[Message]) -> None:
        """At once, and without a delivery attempt where the link that a message came on is still open."""
        by_link: dict[Link, list[Message]] = {}
        for message in payloads:
            if not message.is_settled:
                by_link.setdefault(message.handle.link, []).append(message)
        for link, messages in by_link.items():
            try:
                if link.is_open:
                    await link.release([message.handle.id for message in messages])
                    for message in messages:
                        message.is_settled = True
                else:
                    await self._settler.settle(messages, ABANDON)
            except (Transient, OSError) as error:
                log.debug("messages were not given back", messages=len(messages), reason=str(error))

    async def _abandon(self, messages: Sequence[Message]) -> None:
        await self._settler.settle(messages, ABANDON)

    # Ending ----------------------------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Gives back what nobody has settled, and ends all links; a broker that does not answer is not waited for."""
        tasks, self._tasks = self._tasks, []
        account, self._account = self._account, None
        for task in tasks:
            task.remove_done_callback(self._tap.fail)
        self._tap.take_all()
        self._resting.take_all()
        try:
            await self._give_back()
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=_CLOSED_WITHIN)
                if late:
                    log.warning("not all links were closed in time", entity=self._entity, tasks=len(late))
            if account is not None:
                await account.aclose()

    async def _give_back(self) -> None:
        links = self._tap.open_links()
        self._tap.ask(0)
        try:
            async with asyncio.timeout(_GIVEN_BACK_WITHIN):
                await asyncio.gather(*(link.release_all() for link in links), return_exceptions=True)
        except TimeoutError:
            log.debug("messages were not given back in time", entity=self._entity)

    # Telling ---------------------------------------------------------------------------------------------------------

    def get_advance_lane(self, broker_payload: Message) -> Hashable:
        return UNORDERED if broker_payload.session is None else broker_payload.session.id

    def identity(self, broker_payload: Message) -> str:
        return broker_payload.key

    def describe(self, broker_payload: Message) -> Meta:
        return meta_of(broker_payload)

    def report(self) -> Mapping[str, object]:
        """Links, why some broke, and what is lost; `resting` are failed messages that wait to be given back."""
        if self._account is None:
            return {}
        links = len(self._tap.open_links())
        report: dict[str, object] = {
            "entity": self._entity,
            "links": links,
            "breaks": dict(self._health.breaks),
            "locks_lost": self._health.locks_lost,
            "resting": len(self._resting),
        }
        if trouble := self._health.trouble(has_links=links > 0):
            report["trouble"] = trouble
        return report


class SessionsProducer(ServiceBusProducer):
    """Of an entity that requires sessions: each is a lane."""

    def __init__(self, options: ServiceBusOptions) -> None:
        super().__init__(options)
        self._lanes: Lanes | None = None
        self._sessions: Sessions | None = None

    def take_lanes(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def _read(self, account: Account) -> list[asyncio.Task[None]]:
        if self._lanes is None:
            raise IllegalStep("a stream with sessions needs its lanes before it is opened")
        self._sessions = sessions = Sessions(
            self._options, account, self._tap, self._health, self._settler, self._lanes, self.advance
        )
        sessions.taken = self._taken_of
        number = self._options.max_sessions
        return [asyncio.create_task(sessions.run(), name=f"servicebus-sessions-{n}") for n in range(number)]

    def _taken_of(self, session: Session, delivery: Delivery, amqp: Any) -> None:
        self._put(message_of(delivery, amqp, session, session.epoch))

    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Message] | None:
        """What is of an epoch that is over changes nothing. A lock is the session's: it is lost for all or none."""
        for outcome, messages in runs_of(batch):
            session = messages[0].session
            if session is None or session.epoch != messages[0].epoch or self._sessions is None:
                return None
            verdict = verdict_of(outcome)
            if verdict is None:
                self._sessions.fail(messages[0])
                return None
            if not session.link.is_open:
                raise OwnershipLost(f"the link of session {session.id!r} is gone, and its lock with it")
            if await self._settler.settle(messages, verdict):
                session.lose()
                raise OwnershipLost(f"the lock of session {session.id!r} is lost")
        return None

    async def _renewed(self, messages: Sequence[Message]) -> Sequence[Message]:
        current = [m for m in messages if m.session is not None and m.session.epoch == m.epoch]
        sessions = {m.session for m in current if m.session is not None}
        renewed = await asyncio.gather(*(each.renew(self.lease / 6) for each in sessions), return_exceptions=True)
        lost: set[Session] = set()
        for session, answer in zip(sessions, renewed, strict=True):
            if isinstance(answer, OwnershipLost):
                lost.add(session)
            elif isinstance(answer, HeadraceError):
                raise answer
            elif isinstance(answer, BaseException):
                raise Transient(f"renewing session {session.id!r}: {answer}") from answer
        return [message for message in current if message.session in lost]

    async def release(self, payloads: Sequence[Message]) -> None:
        if self._sessions is not None:
            self._sessions.give_back([message for message in payloads if not message.is_settled])

    async def _give_back(self) -> None:
        """A session that is closed gives all of it back, in order and without a delivery attempt."""

    def pause(self, lanes: Sequence[Hashable]) -> None:
        if self._sessions is not None:
            self._sessions.pause(lanes, paused=True)

    def resume(self, lanes: Sequence[Hashable]) -> None:
        if self._sessions is not None:
            self._sessions.pause(lanes, paused=False)

    def report(self) -> Mapping[str, object]:
        """The same, and how many sessions are held."""
        report = super().report()
        held = 0 if self._sessions is None else len(self._sessions.held)
        return {**report, "sessions": held} if report else report


def build(options: ServiceBusOptions) -> ServiceBusProducer:
    return SessionsProducer(options) if options.sessions else ServiceBusProducer(options)
