"""A runner: one Python watcher's filter on the watchers' thread.

It drives the filter, keeps the window on the event that the filter holds, and hands verdicts back in batches: as soon
as the filter waits for something, or when its batch is over. Everything here runs on the watchers' thread, except
what says so.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

import structlog
from msgspec import Struct

from bridge.core.errors import AckTimeout, HeadraceError
from bridge.core.model import Context, Plan
from bridge.core.retry import Backoff
from bridge.core.round import Round
from bridge.core.seat import Seat, Ticket
from bridge.core.window import Verdict
from bridge.decode.decoder import Decoder
from bridge.decode.json import DecodeFault
from bridge.filters.events import Opened, opened_whole
from bridge.filters.recipe import Recipe
from bridge.language.errors import ParamError
from bridge.language.view import View
from bridge.runtime.interruptible import Interruptible
from bridge.runtime.rows import Source
from bridge.shared_stream import Message, desk
from bridge.triggers import BaseEventTrigger, TriggerEvent

log = structlog.get_logger("headrace.watcher")

CLOSING = 5.0
"""Seconds that a filter and its `cleanup` get to end."""

PROGRAM_ENDS: Final = (SystemExit, KeyboardInterrupt)
"""What asyncio lets through to whoever runs the loop: `sys.exit()` in code of a watcher would end the loop of all."""


class StreamEnded(HeadraceError):
    """The group of this watcher has ended; raised where a filter waits for its next event."""


class WatcherSpec(Struct, frozen=True, eq=False):
    """A Python watcher: how to make its trigger, and what a yielded payload becomes.

    `ack_timeout` in seconds; `decoder` None: bodies are JSON, and `strict` refuses those with a key twice.
    """

    plan: Plan
    make: Callable[[], BaseEventTrigger]
    recipe: Recipe
    ack_timeout: float
    decoder: Decoder | None = None
    strict: bool = False
    restart: Backoff = Backoff(delay=1.0, factor=2.0, max=60.0, jitter=0.5)


class Office(Protocol):
    """Where a runner reports to; every method may be called from the watchers' thread."""

    def verdicts(self, runner: Runner, verdicts: list[tuple[Ticket, Verdict]]) -> None: ...
    def state(self, runner: Runner, state: Literal["up", "down"], trouble: str) -> None: ...
    def hold(self, runner: Runner | None) -> None:
        """User code of this runner has the thread from now on; None: nobody's."""
        ...


class Runner:
    """See the head of the file. `seat` is the core's, and only carried around here; `now` in seconds since 1970."""

    def __init__(
        self,
        spec: WatcherSpec,
        seat: Seat,
        source: Source,
        office: Office,
        roll: Callable[[], float],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.spec = spec
        self.seat = seat
        self.is_dead = False
        self._source = source
        self._office = office
        self._roll = roll
        self._now = now
        self._round = Round()
        self._view: View | None = None  # of the event that the filter was given last
        self.task: asyncio.Task[None] | None = None
        self._more: asyncio.Future[None] | None = None
        self._ending: Literal["timeout", "recall", "close"] | None = None
        self._end_reason = ""
        self._flushing = False
        self._pulled = 0
        self._seen: Ticket | None = None
        self._seen_at: float | None = None  # None before the first look

    @property
    def id(self) -> str:
        return self.spec.plan.watcher

    @property
    def is_over(self) -> bool:
        """It was closed, or its thread was left behind."""
        return self._ending == "close" or self.is_dead

    @property
    def ticket(self) -> Ticket | None:
        """The event that the filter holds. Read by the main loop too, when this thread is stuck."""
        return self._round.ticket

    def untold(self) -> list[tuple[Ticket, Verdict]]:
        """Verdicts that wait for the filter to wait. For the main loop, when this thread is stuck."""
        return self._round.take_verdicts()

    # Told by the main loop, on this thread ----------------------------------------------------------------------------

    def start(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"watcher[{self.id}]")

    def give(self, tickets: Sequence[Ticket]) -> None:
        self._round.give(tickets)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def recall(self) -> None:
        """Tries were ended: if the filter holds one of them, it is interrupted. Those that wait for it are dropped."""
        self._round.drop_stale()
        ticket = self._round.ticket
        if ticket is not None and not ticket.is_current:
            self._round.abandon()
            self._interrupt("recall")
        elif self._round.verdicts:
            self._flush_soon()

    def close(self, reason: str) -> None:
        """The end: what is held is abandoned."""
        self._end_reason = reason
        self._ending = "close"
        if self._round.ticket is not None:
            self._round.abandon()
        if self._more is not None and not self._more.done():
            self._more.set_exception(StreamEnded(reason))
        elif self.task is not None:
            self.task.cancel()

    def tick(self, now: float, stolen: float) -> None:
        """Called a few times a second. `stolen` seconds went to somebody else's code and are not charged."""
        ticket = self._round.ticket
        if ticket is not self._seen or self._more is not None or self._seen_at is None:
            self._seen, self._seen_at = ticket, now
            return
        self._seen_at += stolen
        if now - self._seen_at <= self.spec.ack_timeout:
            return
        if ticket is None:  # it swallowed an interruption, and neither goes on nor ends
            self._seen_at = now
            if not self._round.is_over:
                self._interrupt("recall")
        else:
            self._round.fail(f"AckTimeout: held the event for more than {self.spec.ack_timeout:g} s")
            log.warning("try took too long", watcher=self.id, ack_timeout=self.spec.ack_timeout)
            self._interrupt("timeout")

    def _interrupt(self, why: Literal["timeout", "recall"]) -> None:
        self._flush_soon()
        self._ending = why
        if self.task is not None:
            self.task.cancel()

    def _translate(self, cancelled: asyncio.CancelledError) -> BaseException:
        if self._ending == "timeout":
            if self.task is not None:
                self.task.uncancel()
            return AckTimeout(f"held the event for more than {self.spec.ack_timeout:g} s")
        return cancelled

    # What the filter sees ---------------------------------------------------------------------------------------------

    @property
    def message(self) -> Message | None:
        ticket = self._round.ticket
        if ticket is None:
            return None
        payload, lane = ticket.span.payloads[0], ticket.span.lane.key
        source = self._source
        return Message(source.stream, lane, source.identity_of(payload), source.meta_of(payload), ticket.attempt)

    def reject(self, reason: str) -> bool:
        window = self._round.window
        if self._round.ticket is None or window is None:
            return False
        window.reject(reason)
        return True

    async def stream(self) -> AsyncIterator[Any]:
        """The shared stream: pulling the next event is what ends the try at the one before."""
        while True:
            ticket = self._round.pull()
            if ticket is None:
                await self._next_batch()
                continue
            if self._round.verdicts:
                self._flush_soon()
            self._pulled += 1
            for opened in self._opened(ticket):
                self._view = opened.view
                yield opened.event
                if self._round.ticket is not ticket:
                    break  # the try has ended meanwhile: what else the message holds comes again with it

    def _opened(self, ticket: Ticket) -> Sequence[Opened]:
        """The events of a message; none of one that can't be read, or means nothing."""
        source = self._source
        context = Context(source.stream, source.seen_by_filters, self._now())
        span = ticket.span
        try:
            return opened_whole(span.body, span.payloads[0], context, self.spec.decoder, strict=self.spec.strict)
        except DecodeFault as unreadable:
            fault = unreadable.fault
            if self._round.window is not None:
                self._round.window.reject(fault.reason, fault.error)
            return ()

    async def _next_batch(self) -> None:
        self._flush()
        if self.is_over:
            raise StreamEnded(self._end_reason)
        if self._round.is_over:  # a verdict may have brought the next batch already
            self._more = asyncio.get_running_loop().create_future()
            try:
                await self._more
            finally:
                self._more = None

    # Verdicts ---------------------------------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        """Hand back once the filter waits: a filter that never waits hands back a batch at a time."""
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        verdicts = self._round.take_verdicts()
        if verdicts:
            self._office.verdicts(self, verdicts)

    def _derive(self, event: Any) -> None:
        window = self._round.window
        ticket = self._round.ticket
        if window is None or ticket is None or self._view is None:
            log.warning("a trigger event outside of an event, ignored", watcher=self.id)
            return
        if not isinstance(event, TriggerEvent) and not hasattr(event, "payload"):
            raise TypeError(f"the filter yielded {type(event).__name__}, not a TriggerEvent")
        try:
            window.derive(self.spec.recipe.derive(self._view, event.payload))
        except ParamError as error:
            window.reject("params", str(error))

    # Driving the filter -----------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Makes the trigger and lets it filter until the end; what fails outside of an event is made anew, later."""
        desk.set(self)
        failures = 0
        while not self.is_over:
            before = self._pulled
            trouble = await self._live()
            if self.is_over:
                break
            failures = 1 if self._pulled > before else failures + 1
            self._office.state(self, "down", trouble)
            log.error("watcher is down, made anew later", watcher=self.id, trouble=trouble, failures=failures)
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(self.spec.restart.after(failures, self._roll()))

    async def _live(self) -> str:
        """One life of the trigger. Returns why it ended."""
        try:
            self._office.hold(self)
            trigger = self.spec.make()
        except BaseException as error:
            return f"can't be made: {describe(error)}"
        finally:
            self._office.hold(None)
        self._office.state(self, "up", "")
        try:
            while not self.is_over:
                trouble = await self._filter(trigger)
                if trouble is not None:
                    return trouble
            return self._end_reason
        finally:
            await self._clean_up(trigger)

    async def _filter(self, trigger: BaseEventTrigger) -> str | None:
        """One generator. None: go on with a fresh one at once, else the reason to make the trigger anew."""
        before = self._pulled
        events: AsyncIterator[Any] | None = None
        stream = self.stream()
        try:
            events = trigger.filter_shared_stream(stream)
            while True:
                event = await Interruptible(anext(events), self._enter, self._leave, self._translate)
                self._derive(event)
        except StopAsyncIteration:
            self._round.leave()
            self._flush_soon()
            return None if self._pulled > before else "the filter returned without taking an event"
        except GeneratorExit:
            raise
        except BaseException as error:  # sys.exit() too: in a filter it ends a try, and not the thread of all watchers
            return self._ended(error)
        finally:
            for generator in (events, stream):
                await self._close_generator(generator)

    def _ended(self, error: BaseException) -> str | None:
        """What an error that left the filter means."""
        if self.task is not None:
            while self.task.uncancel():
                pass
        if self.is_over:
            return self._end_reason
        why, self._ending = self._ending, None
        if why is not None:
            return None  # the try was ended by us, and its verdict is on its way
        if self._round.ticket is None:
            return describe(error)
        reason = "cancelled itself" if isinstance(error, asyncio.CancelledError) else describe(error)
        log.warning("try failed", watcher=self.id, attempt=self._round.ticket.attempt, error=reason)
        self._round.fail(reason)
        self._flush_soon()
        return None

    async def _close_generator(self, generator: AsyncIterator[Any] | None) -> None:
        aclose = getattr(generator, "aclose", None)
        if aclose is not None:
            with suppress(Exception, asyncio.CancelledError, *PROGRAM_ENDS):
                await asyncio.wait_for(aclose(), CLOSING)

    async def _clean_up(self, trigger: BaseEventTrigger) -> None:
        try:
            await asyncio.wait_for(trigger.cleanup(), CLOSING)
        except (Exception, *PROGRAM_ENDS) as error:
            log.warning("cleanup failed", watcher=self.id, error=describe(error))

    def _enter(self) -> None:
        self._office.hold(self)

    def _leave(self) -> None:
        self._office.hold(None)


def describe(error: BaseException) -> str:
    """An error in one line, with the place in the user's code where it was raised; bounded."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}"[:1000] + where
