"""One receiver link of the SDK, open, with a connection of its own: the only file that reaches into the client (7.15).

The client reads its socket only while somebody waits for something, and writes only while nobody reads: two calls at
once take turns of 200 ms each, and what arrives while nobody receives is sent back. So once a link is open one task of
ours reads it, and everything else follows:

    the pump    reads frame after frame: messages go to `taker` as they come, answers to whoever waits for them
    following   management requests, which look for their answer by reading, wait for the pump to have read instead
    writing     has a lock of its own, so that a settlement never waits for a frame to arrive
    credit      is ours: it is topped up when half of it is used, and taken back when nothing more is wanted
    tending     every second: token, keep-alive, and whether the broker is still heard of

On the wire it is what the client itself says: one disposition for each message, unsettled, confirmed by the broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import structlog
from azure.servicebus import NEXT_AVAILABLE_SESSION
from azure.servicebus._pyamqp._encode import encode_frame
from azure.servicebus._pyamqp.constants import ConnectionState, LinkState
from azure.servicebus._pyamqp.error import AMQPException, ErrorCondition
from azure.servicebus._pyamqp.outcomes import Released
from azure.servicebus._pyamqp.performatives import DispositionFrame
from azure.servicebus._pyamqp.receiver import check_disposition_outcome, outcome_name
from azure.servicebus.aio import ServiceBusReceiver

from bridge.core.errors import Transient
from connectors.servicebus.answers import Answers, Awaited
from connectors.servicebus.closing import cut_off, gone, said_goodbye, transport_of, watched
from connectors.servicebus.errors import Silent
from connectors.servicebus.messages import Delivery
from connectors.servicebus.requests import Requests

log = structlog.get_logger("headrace.servicebus")

Taker = Callable[["Link", Delivery, Any], None]
"""Gets a message as it comes: on the loop, and never raises."""

SILENT_FOR: Final = 25.0
"""Seconds without a frame after which a connection is given up. A healthy one is never so quiet: the broker is asked to
say something every 15 s, and to answer when 10 s are over.
"""
_ASKED_AFTER: Final = 10.0
_IDLE_TIMEOUT: Final = 30.0
"""Seconds that we allow in our `open`: the broker sends empty frames at half of it (AMQP 1.0, 2.4.5)."""
_TENDED_EVERY: Final = 1.0
_FOLLOWED_FOR: Final = 0.2
_WRITTEN_WITHIN: Final = 10.0
_CLOSED_WITHIN: Final = 2.0
_DRAINED_WITHIN: Final = 0.5
_QUIET_FOR: Final = 0.15


class Link:
    """Made open by `opened`. `run` ends only by raising what is wrong with it."""

    def __init__(self, receiver: ServiceBusReceiver, taker: Taker) -> None:
        handler: Any = receiver._handler
        self.is_open = True
        self.heard = time.monotonic()
        session: Any = getattr(receiver, "_session_id", None)
        self.session: str = "" if session is None or session is NEXT_AVAILABLE_SESSION else str(session)
        self.unsettled: dict[int, bytes] = {}
        self.requests = Requests(receiver, self.session)
        self._receiver: Any = receiver
        self._taker = taker
        self._handler = handler
        self._connection = handler._connection
        self._transport = self._connection._transport
        self._link = handler._link
        self._channel = handler._session.channel.to_bytes(2, "big")
        self._awaited = Awaited()
        self._wanted = 0
        self._is_drained = False
        self._taken_back = 0.0
        self._changed = asyncio.Event()
        self._read: asyncio.Future[None] | None = None
        self._writing = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._take_over()

    def _take_over(self) -> None:
        self._listen = self._connection.listen
        self._connection.listen = self._follow
        self._connection._idle_timeout = None  # whether it is silent is for our clock to say: that of the host may jump
        self._transport.write = self._write
        self._link._on_transfer = self._arrived
        self._link._incoming_disposition = self._answered
        self._link._incoming_flow = self._flowed
        self._receiver._receive_context.set()
        closed = self._connection._incoming_close

        async def padded(channel: int, frame: Any) -> None:
            """The client trips over an error that leaves out what may be left out, and loses its words."""
            if frame[0]:
                frame[0] = [*frame[0], None, None][:3]
            await closed(channel, frame)

        self._connection._incoming_close = padded

    # Reading ---------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reads until something is wrong, and raises that. Cancelled, it has stopped to read."""
        self._tasks = [
            asyncio.create_task(self._pump(), name="servicebus-pump"),
            asyncio.create_task(self._tend(), name="servicebus-tend"),
        ]
        try:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.is_open = False
            for task in self._tasks:
                if task.done():
                    task.result()
        finally:
            await self._stop()

    async def _stop(self) -> None:
        self.is_open = False
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        self._wake()
        self._awaited.give_up(Transient("the link was closed before the broker had confirmed"))
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSED_WITHIN)

    async def _pump(self) -> None:
        connection, link, listen = self._connection, self._link, self._listen
        while True:
            await listen(wait=True)  # one frame; whatever breaks the connection is kept in it
            self.heard = time.monotonic()
            if self._read is not None:
                self._wake()
            if connection._error is not None or connection.state is not ConnectionState.OPENED:
                raise connection._error or AMQPException(
                    ErrorCondition.SocketError, description="the connection was closed"
                )
            if link.state is not LinkState.ATTACHED:
                raise link._error or AMQPException(ErrorCondition.LinkDetachForced, description="the link was detached")
            if link.current_link_credit * 2 <= self._wanted and self._wanted:
                await link.flow(link_credit=self._wanted)

    def _wake(self) -> None:
        read, self._read = self._read, None
        if read is not None and not read.done():
            read.set_result(None)

    async def _follow(self, wait: float | bool = False, **_: object) -> None:
        """Stands for `Connection.listen` of all but the pump: returns once a frame was read, or nothing for a while."""
        if self._connection._error is not None:
            raise self._connection._error
        if not self.is_open:
            raise AMQPException(ErrorCondition.SocketError, description="the link is closed")
        if self._read is None:
            self._read = asyncio.get_running_loop().create_future()
        await asyncio.wait({self._read}, timeout=wait if wait and wait is not True else _FOLLOWED_FOR)

    async def _arrived(self, frame: Any, amqp: Any) -> None:
        delivery = Delivery(self, frame[1], frame[2])
        self.unsettled[delivery.id] = delivery.tag
        self._taker(self, delivery, amqp)

    async def _answered(self, frame: Any) -> None:
        """A disposition: role (true: of a receiver), first, last, settled, state."""
        if not frame[0] and frame[3]:
            self._awaited.answer(frame[1], frame[1] if frame[2] is None else frame[2], frame[4])

    async def _flowed(self, frame: Any) -> None:
        """A flow of the broker; the answer to a drain says that no credit is left."""
        self._is_drained = self._is_drained or bool(frame[8])

    async def _write(self, data: bytes) -> None:
        async with asyncio.timeout(_WRITTEN_WITHIN), self._writing:
            await self._transport._write(data)

    # Tending ---------------------------------------------------------------------------------------------------------

    def want(self, credit: int) -> None:
        """From now on so many messages may be on their way here."""
        self._wanted = credit
        has = self._link.current_link_credit
        if has > credit or has * 2 <= credit:
            self._changed.set()

    async def _tend(self) -> None:
        asked = looked = 0.0
        while True:
            try:
                async with asyncio.timeout(_TENDED_EVERY):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            await self._give_credit()
            now = time.monotonic()
            if now - looked < _TENDED_EVERY / 2:
                continue
            looked, quiet = now, now - self.heard
            if quiet > SILENT_FOR:
                raise Silent(f"nothing was heard of the broker for {quiet:.0f} s")
            if quiet > _ASKED_AFTER and now - asked > _ASKED_AFTER:
                asked = now
                await self._link._outgoing_flow(echo=True)
            await self._connection._get_remote_timeout(time.time())
            async with asyncio.timeout(SILENT_FOR):
                await self._handler.auth_complete_async()

    async def _give_credit(self) -> None:
        wanted, has = self._wanted, self._link.current_link_credit
        if has > wanted or (wanted and has * 2 <= wanted):
            self._taken_back = time.monotonic()
            await self._link.flow(link_credit=wanted)

    # Settling --------------------------------------------------------------------------------------------------------

    async def settle(self, deliveries: Sequence[Delivery], state: Any, within: float) -> Answers:
        """Says the same of all, in one write, and waits for the broker to confirm each.

        Raises Transient, or what is wrong with the link, where it is not known what became of some of them.
        """
        expected = outcome_name(state)
        answers = self._awaited.expect([delivery.id for delivery in deliveries])
        try:
            await self._say([delivery.id for delivery in deliveries], state, settled=False)
            async with asyncio.timeout(within):
                await answers.wait()
        except TimeoutError:
            raise Transient(f"{answers.left} of {len(deliveries)} settlements were not confirmed in time") from None
        finally:
            self._awaited.forget(answers)
        for number, outcome in answers.outcomes.items():
            self._forget(number)
            try:
                check_disposition_outcome(number, outcome, expected)
            except AMQPException as error:
                answers.refused[number] = error
        return answers

    async def release(self, numbers: Iterable[int]) -> None:
        """Gives messages back at once, which spends no delivery attempt. The broker confirms nothing."""
        given = [number for number in numbers if number in self.unsettled]
        await self._say(given, Released(), settled=True)
        for number in given:
            self._forget(number)

    async def release_all(self) -> None:
        """Takes all credit back, and gives back whatever has come and is not settled."""
        await self.drain()
        if self.is_open:
            await self.release(list(self.unsettled))

    async def _say(self, numbers: Sequence[int], state: Any, *, settled: bool) -> None:
        if self._connection._error is not None:
            raise self._connection._error
        frames = bytearray()
        for number in numbers:
            frame = DispositionFrame(
                role=self._link.role, first=number, last=None, settled=settled, state=state, batchable=None
            )
            header, performative = encode_frame(frame)
            frames += header + self._channel + (performative or b"")
        self._connection._last_frame_sent_time = time.time()
        await self._write(bytes(frames))

    def _forget(self, number: int) -> None:
        tag = self.unsettled.pop(number, None)
        self._link._received_delivery_tags.discard(tag)

    # Ending ----------------------------------------------------------------------------------------------------------

    async def drain(self) -> None:
        """Takes all credit back; what was on its way has arrived then. The broker may answer that nothing more comes,
        and need not where there was nothing to take back: a moment of quiet says the same.
        """
        self._wanted = 0
        is_quiet = self._link.current_link_credit <= 0 and time.monotonic() - self._taken_back > _DRAINED_WITHIN
        if is_quiet or not self.is_open:
            return
        self._is_drained = False
        deadline = time.monotonic() + _DRAINED_WITHIN
        await self._link.flow(link_credit=0, drain=True)
        while self.is_open and not self._is_drained and time.monotonic() < deadline:
            heard = self.heard
            await self._follow(_QUIET_FOR)
            if self.heard == heard:
                return

    async def close(self) -> None:
        """Ends it, whatever state it is in. Bounded, and never raises; cancelled it cuts the connection off."""
        try:
            await self._stop()
            async with asyncio.timeout(_CLOSED_WITHIN):
                await said_goodbye(self._receiver)
        except Exception as error:
            log.debug("a link could not be closed in order", reason=repr(error)[:200])
        finally:
            cut_off(self._receiver, self._transport)


async def opened(receiver: ServiceBusReceiver, taker: Taker, within: float) -> Link:
    """Connects, shows who we are, and attaches. Raises the client's errors, or TimeoutError.

    In a task of its own: the client swallows a cancellation now and then (`wait_for` of Python 3.11 does).
    """
    client: Any = receiver
    handlers = watched(client, _prepare)
    opening = asyncio.create_task(client._open_with_retry(), name="servicebus-open")
    try:
        await asyncio.wait({opening}, timeout=within)
        if not opening.done():
            raise TimeoutError(f"no link was open within {within:g} s")
        opening.result()
    except BaseException:
        for handler in handlers:
            cut_off(client, transport_of(handler))
        await gone(opening)
        raise
    return Link(receiver, taker)


def _prepare(handler: Any) -> None:
    handler._keep_alive_interval = None  # or a task of the client's would read as well
    handler._idle_timeout = _IDLE_TIMEOUT
