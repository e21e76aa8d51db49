"""Trying out a filter written in Python: feed it events, one at a time, and look at what it makes of each.

    with TriggerTest(BigOrders(limit=100)) as stream:
        assert stream.feed({"amount": 250}) == [{"amount": 250}]
        assert stream.feed({"amount": 5}) == []

The same with `async with` and `await stream.feed(...)`. It is driven by what drives it in the program, under a clock
that stands still between events and takes no time: see `bridge.testing.stage`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Generic, NoReturn, TypeVar

from msgspec import Struct

from bridge.core.lane import Lane, Span
from bridge.core.model import TOMBSTONE, Meta, Plan
from bridge.core.seat import Ticket
from bridge.filters.recipe import Recipe
from bridge.language.ir import ROOTS
from bridge.params.plans import compile_key, compile_params, compile_tags
from bridge.params.template import TRIGGER
from bridge.runtime.runner import WatcherSpec
from bridge.shared_stream import body_of
from bridge.testing.outcomes import FailedTry, FilterDown, Outcome, RejectedEvent, StuckFilter, outcome_of
from bridge.testing.stage import Overheard, Stage
from bridge.triggers import BaseEventTrigger

PATIENCE: Final = 5.0
"""Real seconds that a filter gets for an event."""

_ROOTS: Final = (*ROOTS, TRIGGER)

T = TypeVar("T")


class Given(Struct, frozen=True):
    """A message to feed, made by `message`."""

    body: bytes
    meta: Meta
    identity: str
    lane: Hashable
    attempt: int


class TriggerTest:
    """A trigger and the surroundings of its filter; `with` it, or `async with` it, for a stream to feed.

    `params`, `tags` and `key` as in the watcher's `run:`. `ack_timeout` in seconds of the fake clock, which begins at
    `now` (seconds since 1970). A filter that neither moves on nor ends within `patience` seconds, real ones, is stuck.
    Raises FilterError for a bad `params`, `tags` or `key`.
    """

    def __init__(
        self,
        trigger: BaseEventTrigger,
        *,
        params: Mapping[str, object] | None = None,
        tags: Mapping[str, object] | None = None,
        key: str | None = None,
        ack_timeout: float = 300.0,
        now: datetime | float = 1_700_000_000.0,
        patience: float = PATIENCE,
        stream: str = "stream",
    ) -> None:
        recipe = Recipe(
            compile_params(params or {}, _ROOTS),
            None if tags is None else compile_tags(tags, _ROOTS),
            None if key is None else compile_key(key, _ROOTS),
        )
        constant = recipe.tags.constant if recipe.tags is not None else None
        plan = Plan(type(trigger).__name__, "asset", "target", "job", constant or b"{}")
        self._trigger = Overheard(trigger)
        self._spec = WatcherSpec(plan, lambda: self._trigger, recipe, ack_timeout)
        self._name = stream
        self._began = now.timestamp() if isinstance(now, datetime) else now
        self._patience = patience
        self._stream: Stream | None = None
        self._async_stream: AsyncStream | None = None

    def _stage(self) -> Stage:
        stage = self._trigger.stage = Stage(self._spec, self._name, lambda given: given.meta, self._began)
        return stage

    def __enter__(self) -> Stream:
        self._stream = Stream(self._stage(), self._patience)
        self._stream.open()
        return self._stream

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._stream is not None:
            self._stream.close(is_failing=error is not None)

    async def __aenter__(self) -> AsyncStream:
        self._async_stream = AsyncStream(self._stage(), self._patience)
        await self._async_stream.open()
        return self._async_stream

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._async_stream is not None:
            await self._async_stream.close(is_failing=error is not None)


class Clock(Generic[T]):
    """The time as the filter sees it: `asyncio.sleep`, `loop.time()`, timeouts, and `now` in expressions.

    It passes while an event is held that the filter waits with, and here. What asks `time.time()` gets the machine's.
    """

    def __init__(self, stage: Stage, rest: Callable[[Future[None]], T]) -> None:
        self._stage = stage
        self._rest = rest

    def now(self) -> float:
        """Seconds since 1970."""
        return self._stage.now()

    def advance(self, seconds: float) -> T:
        """Lets so many seconds pass between two events. Raises what leaves the filter meanwhile."""
        return self._rest(self._stage.advance(seconds))


class _Feeding:
    """What both kinds of streams have. `outcomes` has one for each event that was fed."""

    def __init__(self, stage: Stage, patience: float) -> None:
        self.outcomes: list[Outcome] = []
        self._stage = stage
        self._patience = patience
        self._count = 0
        self._is_stuck = False
        self._is_fed = False

    @property
    def last(self) -> Outcome:
        """What became of the last event, also when `feed` raised."""
        return self.outcomes[-1]

    @property
    def ignored(self) -> list[Any]:
        """Payloads that were yielded while no event was held: nothing comes of them."""
        return self._stage.ignored

    def message(
        self,
        event: object = None,
        *,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | None]] = (),
        position: str = "",
        timestamp: float | None = None,
        message_id: str = "",
        delivery_attempt: int | None = None,
        identity: str = "",
        lane: Hashable = None,
        attempt: int = 1,
        tombstone: bool = False,
    ) -> Given:
        """An event with what `current_message()` tells of it. `attempt` 2 is the try after one that failed.

        `tombstone`: the message has no body, and its event is None.
        """
        self._count += 1
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        meta = Meta(
            position=position or f"event {self._count}",
            timestamp=self._stage.now() if timestamp is None else timestamp,
            key=key.encode() if isinstance(key, str) else key,
            headers=tuple((name, v.encode() if isinstance(v, str) else v) for name, v in pairs),
            lane="" if lane is None else str(lane),
            message_id=message_id,
            delivery_attempt=delivery_attempt,
            tombstone=tombstone,
        )
        return Given(TOMBSTONE if tombstone else body_of(event), meta, identity or str(self._count), lane, attempt)

    def _given(self, event: object) -> Future[None]:
        self._check()
        given = event if isinstance(event, Given) else self.message(event)
        span = Span(Lane(given.lane), [given], len(given.body), 1, 0, body=given.body)
        return self._stage.give(Ticket(span, given.attempt))

    def _answer(self) -> list[Any]:
        """The payloads of an event that is acked; else it raises."""
        stage = self._stage
        if stage.verdict is None:
            self._check()
            raise self._stuck()
        outcome = outcome_of(stage.verdict, stage.yielded, stage.spec.plan.tags)
        self.outcomes.append(outcome)
        if outcome.verdict == "rejected":
            raise RejectedEvent(outcome.reason, outcome.error)
        if outcome.verdict == "failed":
            _raise_own(stage.errors[:1], FailedTry(outcome.error))
        return outcome.payloads

    def _check(self) -> None:
        if self._is_stuck:
            raise StuckFilter("the filter got stuck earlier: nothing more can be fed")
        if self._stage.trouble:
            _raise_own(self._stage.errors[-1:], FilterDown(self._stage.trouble))

    def _stuck(self) -> StuckFilter:
        self._is_stuck = True
        self._stage.leave()
        return StuckFilter(
            f"the filter neither moved on nor ended within {self._patience:g} s (of real time){self._stage.place}: "
            "it has to pull its next event, or to return"
        )


class Stream(_Feeding):
    """The stream of a plain test."""

    @property
    def clock(self) -> Clock[None]:
        return Clock(self._stage, self._rest)

    def feed(self, event: object) -> list[Any]:
        """What the filter yields for an event (its payloads), once it has moved past it.

        `event` is JSON or a body as bytes or text, or made by `message`. Raises RejectedEvent, what the filter raised,
        FailedTry, StuckFilter.
        """
        self._wait(self._given(event))
        return self._answer()

    def open(self) -> None:
        try:
            self._rest(self._stage.start())
        except BaseException:
            self.close(is_failing=True)
            raise

    def close(self, *, is_failing: bool) -> None:
        if self._is_stuck:
            return
        with _unless(is_failing):
            self._wait(self._stage.close())
            if not self._stage.has_ended:
                raise self._stuck()
            self._stage.join()

    def _rest(self, done: Future[None]) -> None:
        self._wait(done)
        self._check()

    def _wait(self, done: Future[None]) -> None:
        try:
            done.result(self._patience)
        except TimeoutError:
            raise self._stuck() from None


class AsyncStream(_Feeding):
    """The stream of a test that is a coroutine; as `Stream`."""

    @property
    def clock(self) -> Clock[Coroutine[Any, Any, None]]:
        return Clock(self._stage, self._rest)

    async def feed(self, event: object) -> list[Any]:
        """As `Stream.feed`. Raises RuntimeError while another event is fed."""
        if self._is_fed:  # the stage may be done with that one, and nobody has taken its answer yet
            raise RuntimeError("one event at a time: await what was fed before")
        self._is_fed = True
        try:
            await self._wait(self._given(event))
            return self._answer()
        finally:
            self._is_fed = False

    async def open(self) -> None:
        try:
            await self._rest(self._stage.start())
        except BaseException:
            await self.close(is_failing=True)
            raise

    async def close(self, *, is_failing: bool) -> None:
        if self._is_stuck:
            return
        with _unless(is_failing):
            await self._wait(self._stage.close())
            if not self._stage.has_ended:
                raise self._stuck()
            await asyncio.to_thread(self._stage.join)

    async def _rest(self, done: Future[None]) -> None:
        await self._wait(done)
        self._check()

    async def _wait(self, done: Future[None]) -> None:
        try:
            await asyncio.wait_for(asyncio.wrap_future(done), self._patience)
        except TimeoutError:
            raise self._stuck() from None


@contextmanager
def _unless(is_failing: bool) -> Iterator[None]:
    """A test that fails already keeps its own error."""
    try:
        yield
    except StuckFilter:
        if not is_failing:
            raise


def _raise_own(errors: Sequence[BaseException], otherwise: AssertionError) -> NoReturn:
    """The user's own error with its traceback; one that would end the program or a task is only the cause."""
    for error in errors:
        if isinstance(error, Exception):
            raise error
        raise otherwise from error
    raise otherwise
