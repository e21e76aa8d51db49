"""The producer: streaming pulls in, acks out. Its parts, and the rules that they keep:

    streaming   one stream, for as long as it lives, and how it is opened again
    flow        how much may be on its way, and when the streams have to be opened again for that
    intake      what came and is not polled yet
    keys        what has to be dropped of an ordering key, so that its order holds
    outcomes    what becomes of messages
    settling    requests to the service, and its answer for each ack id

Streams are read by tasks of their own, whether or not polls are pulled: a message that waits unread is lent already.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from bridge.core.errors import IllegalStep, StartRefused
from bridge.core.model import UNORDERED, AdvanceItem, Meta, Poll
from bridge.shared_stream import SharedStreamProducer
from connectors.pubsub.client import Client, StreamingPullRequest
from connectors.pubsub.flow import Flow
from connectors.pubsub.intake import Intake
from connectors.pubsub.keys import Keys
from connectors.pubsub.messages import Message, lane_of, meta_of
from connectors.pubsub.options import PubSubOptions, subscription_of
from connectors.pubsub.outcomes import Outcomes
from connectors.pubsub.settling import Settler
from connectors.pubsub.streaming import Stream

MOST: Final = 2000
"""Messages at once, where nobody has asked for another number: so many leases are renewed by one request."""

_ENDED_WITHIN: Final = 0.5
_TICK: Final = 1.0
_SKEW: Final = 5.0
_COUNTED: Final = ("acked", "failed", "released", "renewed", "lost")


class PubSubProducer(SharedStreamProducer):
    """See the head of the file. Nothing connects before `open_batches` is pulled."""

    def __init__(self, options: PubSubOptions) -> None:
        self._options = options
        self._name = subscription_of(options)
        self._short = self._name.rpartition("/")[2]
        self._client_id = str(uuid4())  # by it the service knows a stream that is opened again
        self._flow = Flow(MOST)
        self._keys = Keys(options.ack_deadline)
        self._intake = Intake(self._keys, self._flow, self._put_off)
        self._client: Client | None = None
        self._settler: Settler | None = None
        self._outcomes: Outcomes | None = None
        self._streams: list[Stream] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closed = False

    @property
    def lease(self) -> float:
        return self._options.ack_deadline

    # Opening and closing ---------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._is_closed or self._client is not None:
            raise IllegalStep("a producer is opened once")
        self._client = client = Client(self._options)
        self._settler = settler = Settler(client.settle, self._options.request_timeout)
        self._outcomes = Outcomes(settler, self._keys, self._flow, self._options)
        intake = self._intake
        self._streams = [
            Stream(client, self._first, intake.take, intake.arrived.set) for _ in range(self._options.streams)
        ]
        for stream in self._streams:
            stream.want(wanted=self._flow.asked > 0)
            self._tasks.append(asyncio.create_task(stream.run(), name="pubsub stream"))
        self._tasks.append(asyncio.create_task(self._mind(), name="pubsub mind"))
        for task in self._tasks:
            task.add_done_callback(lambda _: intake.arrived.set())

    def _first(self) -> Any:
        """The first request of a stream."""
        most, streams = self._flow.open(time.monotonic()), self._options.streams
        return StreamingPullRequest(
            subscription=self._name,
            stream_ack_deadline_seconds=int(self.lease),
            client_id=self._client_id,
            max_outstanding_messages=max(1, most // streams),
            max_outstanding_bytes=max(1, self._options.max_bytes // streams),
        )

    async def aclose(self) -> None:
        """Ends the streams, gives back what was never delivered and what rests, and closes the channel."""
        self._is_closed = True
        client, self._client = self._client, None
        settler, self._settler = self._settler, None
        try:
            await self._end_streams()
            if self._outcomes is not None and settler is not None:
                await self._outcomes.aclose(self._intake.unread())
        finally:
            for task in self._tasks:
                task.cancel()
            if settler is not None:
                await settler.aclose()
            if self._tasks:
                await asyncio.wait(self._tasks)
            if client is not None:
                await client.aclose()

    async def _end_streams(self) -> None:
        for stream in self._streams:
            stream.want(wanted=False)
            stream.end("closed", _ENDED_WITHIN)
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * _ENDED_WITHIN):
                for stream in self._streams:
                    await stream.closed.wait()

    async def _mind(self) -> None:
        """Once a second: streams that have to be opened again, and keys that may be forgotten."""
        silence = self._options.stalled_after * random.uniform(0.9, 1.1)  # noqa: S311
        while True:
            await asyncio.sleep(_TICK)
            now = time.monotonic()
            reason = self._flow.why_end(now)
            for stream in self._streams:
                if reason:
                    stream.end(reason)
                elif self._flow.asked and now - stream.last > silence:
                    stream.end("silent")
            self._keys.tidy(now)

    # Reading ---------------------------------------------------------------------------------------------------------

    def ask(self, most: int) -> None:
        self._flow.ask(most)
        for stream in self._streams:
            stream.want(wanted=most > 0)

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        self._open()
        intake = self._intake
        while True:
            while intake.is_empty:
                intake.arrived.clear()
                await intake.arrived.wait()
                self._require_alive()
            poll = intake.poll(time.monotonic())
            if poll is not None:
                yield poll

    async def open_stream(self) -> AsyncIterator[tuple[bytes, Message]]:
        """The same, one by one."""
        async for poll in self.open_batches():
            for body, payload in zip(poll.bodies, poll.payloads, strict=True):
                yield body, payload

    def _require_alive(self) -> None:
        """Raises StartRefused where there never was such a subscription; one that goes away later is trouble."""
        for task in self._tasks:
            if task.done():
                task.result()  # it never ends by itself, but for a defect
        for stream in self._streams:
            if stream.missing is not None:
                raise StartRefused(str(stream.missing)) from stream.missing

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Message] | None:
        return await self._opened.advance(batch)

    async def renew(self, payloads: Sequence[Message]) -> Sequence[Message]:
        return await self._opened.renew(payloads)

    async def release(self, payloads: Sequence[Message]) -> None:
        if self._settler is not None:
            await self._opened.release(payloads)

    def _put_off(self, seconds: int, handles: list[str]) -> None:
        self._opened.put_off(seconds, handles)

    def pause(self, lanes: Sequence[Hashable]) -> None:
        """What comes of them is dropped: the service can't hold a key back."""
        self._keys.pause([_key_of(lane) for lane in lanes], time.monotonic())

    def resume(self, lanes: Sequence[Hashable]) -> None:
        handles = self._keys.resume([_key_of(lane) for lane in lanes], time.monotonic())
        if self._settler is not None:
            self._opened.call_back(handles)

    # Telling ---------------------------------------------------------------------------------------------------------

    def get_advance_lane(self, broker_payload: Message) -> Hashable:
        return lane_of(broker_payload)

    def identity(self, broker_payload: Message) -> str:
        return broker_payload.key

    def describe(self, broker_payload: Message) -> Meta:
        return meta_of(broker_payload, self._short)

    def report(self) -> Mapping[str, object]:
        """What came and what became of it, since the stream was opened; `silent_for` in seconds."""
        if self._outcomes is None:
            return {}
        now, ends = time.monotonic(), Counter[str]()
        for stream in self._streams:
            ends.update(stream.ends)
        report: dict[str, object] = {
            "subscription": self._name,
            "streams": sum(stream.is_open for stream in self._streams),
            "reopened": dict(ends),
            "ordered": self._intake.ordering,
            "exactly_once": self._intake.exactly_once,
            "silent_for": round(now - max(stream.last for stream in self._streams), 1),
            "received": self._intake.received,
            "dropped": self._intake.dropped,
            **{name: self._outcomes.counts[name] for name in _COUNTED},
        }
        trouble = next((said for each in self._streams if (said := each.trouble(now)) is not None), None)
        if trouble is None and self._intake.skew > _SKEW:
            trouble = (
                f"messages come {self._intake.skew:.0f} s before they were published: the clock of this host is late "
                "by at least that; set it (NTP)"
            )
        return report if trouble is None else {**report, "trouble": trouble}

    @property
    def _opened(self) -> Outcomes:
        if self._outcomes is None:
            raise IllegalStep("the stream was never opened")
        return self._outcomes


def _key_of(lane: Hashable) -> str:
    return "" if lane is UNORDERED else str(lane)
