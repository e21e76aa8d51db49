"""What becomes of messages that were handed on: acked, put off, renewed, given back.

A payload whose handle is used up is done: whatever is said of it again, in an `advance` that is repeated for instance,
changes nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Coroutine, Iterable, Sequence
from math import ceil
from typing import Any, Final

import structlog

from bridge.core.errors import HeadraceError
from bridge.core.model import AdvanceBatch, AdvanceItem, AdvanceOutcome
from bridge.core.retry import Backoff
from connectors.pubsub.flow import Flow
from connectors.pubsub.keys import Given, Keys
from connectors.pubsub.messages import Message, detached
from connectors.pubsub.options import LEASE_MOST, PubSubOptions
from connectors.pubsub.settling import Settler

log = structlog.get_logger("headrace.pubsub")

_SETTLED_WITHIN: Final = 15.0
_GIVEN_BACK_WITHIN: Final = 2.0
_FACTOR: Final = 4.0
_FAILING_MOST: Final = 10_000


class Outcomes:
    """`counts` has acked, failed, released, renewed and lost."""

    def __init__(self, settler: Settler, keys: Keys, flow: Flow, options: PubSubOptions) -> None:
        self.counts: Counter[str] = Counter()
        self._settler = settler
        self._keys = keys
        self._flow = flow
        self._lease = options.ack_deadline
        self._again = Backoff(delay=options.retry_delay, factor=_FACTOR, max=options.retry_delay_max)
        self._failing: OrderedDict[str, int] = OrderedDict()
        self._chores: set[asyncio.Task[None]] = set()

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Message] | None:
        """Returns what was lost before it could be acked. Raises Transient."""
        acks: list[Message] = []
        failed: list[Message] = []
        abandoned: list[Message] = []
        for outcome, payloads in _runs_of(batch):
            if outcome.failed:
                failed += payloads
            elif outcome.acked or outcome.rejected:
                acks += payloads
            else:
                abandoned += payloads
        unsettled = await self._ack(acks) if acks else None
        if failed:
            await self._fail(failed)
        if abandoned:
            await self.release(abandoned)
        return unsettled

    async def _ack(self, payloads: Sequence[Message]) -> Sequence[Message] | None:
        live = [each for each in payloads if not each.is_done]
        if not self._keys.is_quiet:
            live = [each for each in live if not (each.ordering and self._keys.is_void(each.ordering, each.order))]
        handles = [each.handle for each in live]
        lost = await self._settler.settle(None, handles, _SETTLED_WITHIN)
        if not lost:
            self._acked(live)
            return None
        gone = set(lost)
        self._acked([each for each, handle in zip(live, handles, strict=True) if handle not in gone])
        unsettled = [each for each, handle in zip(live, handles, strict=True) if handle in gone]
        newer = [each for each in unsettled if each.handle not in gone]  # it has come again meanwhile
        unsettled = [each for each in unsettled if each.handle in gone]
        self.counts["lost"] += len(unsettled)
        if newer:
            unsettled += await self._ack(newer) or ()
        return unsettled

    def _acked(self, payloads: Sequence[Message]) -> None:
        self._done(payloads)
        self.counts["acked"] += len(payloads)
        if self._failing:
            for each in payloads:
                self._failing.pop(each.key, None)

    async def _fail(self, payloads: Sequence[Message]) -> None:
        """They come again by themselves when the delay is over: neither given back at once nor held by us (B44)."""
        now, rests = time.monotonic(), dict[int, list[Message]]()
        for each in payloads:
            failures = self._failing.get(each.key, 0) + 1
            seconds = min(int(LEASE_MOST), ceil(self._again.after(failures, random.random())))  # noqa: S311
            given = Given(each.key, each.order, each.handle)
            if each.is_done or (each.ordering and not self._keys.failed(each.ordering, given, seconds, now)):
                continue
            rests.setdefault(seconds, []).append(each)
        for seconds, mine in rests.items():
            await self._settler.settle(seconds, [each.handle for each in mine], _SETTLED_WITHIN)
            self._done(mine)
            self._flow.rested(len(mine))
            self.counts["failed"] += len(mine)
            self._count_failures(mine)

    def _count_failures(self, payloads: Iterable[Message]) -> None:
        for each in payloads:
            self._failing[each.key] = self._failing.pop(each.key, 0) + 1
        while len(self._failing) > _FAILING_MOST:
            self._failing.popitem(last=False)

    async def renew(self, payloads: Sequence[Message]) -> Sequence[Message]:
        live = [each for each in payloads if not each.is_done]
        detached(live)
        handles = [each.handle for each in live]
        lost = set(await self._settler.settle(int(self._lease), handles, self._lease / 6))
        self.counts["renewed"] += len(live) - len(lost)
        if not lost:
            return ()
        return [e for e, handle in zip(live, handles, strict=True) if handle in lost and e.handle == handle]

    def _done(self, payloads: Sequence[Message]) -> None:
        for each in payloads:
            each.is_done = True
        self._flow.left(len(payloads))

    # Giving back -----------------------------------------------------------------------------------------------------

    async def release(self, payloads: Sequence[Message]) -> None:
        """At once, but for what lies behind a message that was put off. Never raises what the service says."""
        keys: dict[str, list[Message]] = {}
        for each in payloads:
            if not each.is_done:
                keys.setdefault(each.ordering, []).append(each)
        rests: dict[int, list[Message]] = {}
        for key, mine in keys.items():
            given = [Given(each.key, each.order, each.handle) for each in mine]
            seconds = self._keys.released(key, given, time.monotonic()) if key else 0
            rests.setdefault(seconds, []).extend(mine)
        for seconds, mine in rests.items():
            self._done(mine)
            self.counts["released"] += len(mine)
            self._flow.rested(len(mine) if seconds else 0)
            await self._give_back(seconds, [each.handle for each in mine], _SETTLED_WITHIN)

    def put_off(self, seconds: int, handles: list[str]) -> None:
        """What was dropped when it came: in the background, and after so many seconds."""
        self._flow.left(len(handles))
        self._flow.rested(len(handles) if seconds else 0)
        self._start(self._give_back(seconds, handles, _SETTLED_WITHIN))

    def call_back(self, handles: list[str]) -> None:
        """What was put off comes at once."""
        if handles:
            self._start(self._give_back(0, handles, _SETTLED_WITHIN))

    async def _give_back(self, seconds: int, handles: list[str], within: float) -> None:
        try:
            await self._settler.settle(seconds, handles, within)
        except HeadraceError as error:
            log.warning(
                "messages could not be given back: they come again when their lease is over",
                count=len(handles),
                reason=str(error),
            )

    def _start(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(chore, name="pubsub give back")
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    # The end ---------------------------------------------------------------------------------------------------------

    async def aclose(self, unread: list[str]) -> None:
        """Gives back what rests and what nobody has read, in the order in which it came."""
        chores = list(self._chores)
        if chores:
            await asyncio.wait(chores, timeout=_GIVEN_BACK_WITHIN)
        await self._give_back(0, [*self._keys.resting(time.monotonic()), *unread], _GIVEN_BACK_WITHIN)
        chores = list(self._chores)
        for chore in chores:
            chore.cancel()
        if chores:
            await asyncio.wait(chores)


def _runs_of(batch: Sequence[AdvanceItem]) -> Sequence[tuple[AdvanceOutcome, Sequence[Message]]]:
    """Plain items do as well."""
    if isinstance(batch, AdvanceBatch):
        return batch.runs
    return [(outcome, [payload]) for payload, outcome in batch]
