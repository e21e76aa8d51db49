"""Reads a queue with long polls, and deletes what is resolved. One life, from open to close.

    receiving   long polls, on a client of their own: nothing else ever waits behind them
    settling    deletes, and visibility timeouts of what a watcher failed, ten in a call
    renewing    visibility timeouts of what is held, and of what is given back
    depth       how long the queue is, once a minute, where we may ask

An error of SQS never ends the stream: it is tried again with growing delays, and told as trouble meanwhile. Only a
queue that is not there at the start is refused.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from bridge.core.errors import IllegalStep, StartRefused, Transient
from bridge.core.model import UNORDERED, AdvanceBatch, AdvanceItem, AdvanceOutcome, Meta, Poll
from bridge.core.retry import Backoff
from bridge.shared_stream import SharedStreamProducer
from connectors.sqs import renewing
from connectors.sqs.client import QUICK, Account, Client, url_of
from connectors.sqs.depth import Depth
from connectors.sqs.errors import QueueMissing
from connectors.sqs.health import Health
from connectors.sqs.messages import Message, meta_of, poll_of
from connectors.sqs.options import SqsOptions
from connectors.sqs.places import queue_of
from connectors.sqs.receiving import Came, Received, Receiving
from connectors.sqs.settling import CALLS_MOST, Settling, Ticket

_RETRY: Final = Backoff(delay=1.0, factor=2.0, max=60.0, jitter=0.2)
"""How long a message rests that a watcher failed, by the number of its deliveries."""
_FLUSHED_WITHIN: Final = 2.0
_INDEXES: Final = tuple("0123456789")


class SqsProducer(SharedStreamProducer):
    """See the head of the file. Nothing connects before `open_batches` is pulled."""

    def __init__(self, options: SqsOptions) -> None:
        self._options = options
        self._queue = queue_of(options.queue)
        self._url = ""
        self._health = Health(self._queue.name)
        self._account: Account | None = None
        self._polls: Client | None = None
        self._calls: Client | None = None
        self._depth: Depth | None = None
        self._renewals = 0
        self._lost = 0
        self._receiving = Receiving(
            self._receive,
            self._health,
            receivers=options.receivers,
            batch=options.max_messages,
            wait=options.wait_time,
            new_attempt=_new_attempt if self._queue.is_fifo else lambda: "",
        )
        self._deleting = self._settling(self._delete, "deleting")
        self._returning = self._settling(self._hand_back, "handing back")

    def _settling(self, call: Any, doing: str) -> Settling:
        health = self._health
        return Settling(call, lambda error: health.failed("settling", error), lambda: health.worked("settling"), doing)

    @property
    def lease(self) -> float:
        return self._options.visibility_timeout

    def ask(self, most: int) -> None:
        self._receiving.ask(most)

    # Opening and closing ---------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        options = self._options
        self._account = account = Account(options)
        self._polls = Client(account, options.receivers, waits=options.wait_time)
        self._calls = Client(account, CALLS_MOST * 2 + renewing.CALLS_MOST)
        await self._polls.open()
        await self._calls.open()
        try:
            self._url = await url_of(self._calls, self._queue)
        except QueueMissing as error:
            raise StartRefused(str(error)) from error
        self._depth = Depth(self._calls, self._url)
        self._depth.start()
        self._receiving.open()

    async def aclose(self) -> None:
        """Waits for the long polls under way, up to `wait_time`, and gives back what they bring. What is resolved is
        still settled, within 2 s.
        """
        polls, self._polls = self._polls, None
        calls, self._calls = self._calls, None
        try:
            self._receiving.end()
            if self._depth is not None:
                await self._depth.stop()
            await asyncio.gather(self._deleting.close(_FLUSHED_WITHIN), self._returning.close(_FLUSHED_WITHIN))
            came = await self._receiving.close()
            if calls is not None and came:
                await self._give_back_through(calls, self._poll_of(came).payloads)
        finally:
            await self._receiving.abandon()
            for client in (polls, calls):
                if client is not None:
                    await client.close()

    # Polling ---------------------------------------------------------------------------------------------------------

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        await self._open()
        try:
            while True:
                yield self._poll_of(await self._receiving.next())
        finally:
            self._receiving.end()

    async def open_stream(self) -> AsyncIterator[tuple[bytes, Message]]:
        """The same, one by one."""
        async for poll in self.open_batches():
            for body, payload in zip(poll.bodies, poll.payloads, strict=True):
                yield body, payload

    def _poll_of(self, came: Sequence[Came]) -> Poll:
        """One poll of all that has come; its leases count from the earliest."""
        received = came[0].messages if len(came) == 1 else [message for each in came for message in each.messages]
        return poll_of(received, min(each.at for each in came), is_fifo=self._queue.is_fifo)

    async def _receive(self, most: int, attempt: str) -> Sequence[Received]:
        options = self._options
        more = {"ReceiveRequestAttemptId": attempt} if attempt else {}
        answer = await _opened(self._polls).receive(
            options.wait_time,
            QueueUrl=self._url,
            MaxNumberOfMessages=most,
            VisibilityTimeout=int(options.visibility_timeout),
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
            **more,
        )
        messages: Sequence[Received] = answer.get("Messages") or ()
        return messages

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> Sequence[Message]:
        """Deletes what is clean or rejected (a dead letter is durable in the store by then). What a watcher failed gets
        a visibility timeout that grows with its deliveries. Returns what was refused: it comes again.
        """
        ticket = Ticket()
        for outcome, payloads in _runs_of(batch):
            if outcome.failed or not (outcome.acked or outcome.rejected):
                for message in payloads:
                    message.wait = rest_of(message, random.random()) if outcome.failed else 0  # noqa: S311
                self._returning.add(payloads, ticket)
            else:
                self._deleting.add(payloads, ticket)
        return await ticket.wait()

    async def _delete(self, batch: Sequence[Message]) -> Sequence[Mapping[str, Any]]:
        entries = [
            {"Id": index, "ReceiptHandle": message.handle} for index, message in zip(_INDEXES, batch, strict=False)
        ]
        answer = await _opened(self._calls).call(
            "delete_message_batch", self._patience, QueueUrl=self._url, Entries=entries
        )
        failed: Sequence[Mapping[str, Any]] = answer.get("Failed") or ()
        return failed

    async def _hand_back(self, batch: Sequence[Message]) -> Sequence[Mapping[str, Any]]:
        return await self._set_visibility([(message.handle, message.wait) for message in batch], self._patience)

    async def _set_visibility(
        self, wanted: Sequence[tuple[str, int]], within: float, client: Client | None = None
    ) -> Sequence[Mapping[str, Any]]:
        entries = [
            {"Id": index, "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for index, (handle, seconds) in zip(_INDEXES, wanted, strict=False)
        ]
        answer = await _opened(client or self._calls).call(
            "change_message_visibility_batch", within, QueueUrl=self._url, Entries=entries
        )
        failed: Sequence[Mapping[str, Any]] = answer.get("Failed") or ()
        return failed

    @property
    def _patience(self) -> float:
        """How long a call may take that settles: an answer that comes after the lease is of no use."""
        return min(QUICK, max(1.0, self.lease / 3))

    # Leases ----------------------------------------------------------------------------------------------------------

    async def renew(self, payloads: Sequence[Message]) -> Sequence[Message]:
        self._renewals += len(payloads)
        renewed = await renewing.renew(payloads, int(self.lease), self.lease / 6, self._set_visibility)
        self._lost += len(renewed.lost)
        if renewed.error is not None:
            self._health.failed("renewing", renewed.error)
            raise Transient(f"{renewed.untold} of {len(payloads)} messages: {renewed.error}") from renewed.error
        self._health.worked("renewing")
        return renewed.lost

    async def release(self, payloads: Sequence[Message]) -> None:
        if self._calls is not None:
            await self._give_back_through(self._calls, payloads)

    async def _give_back_through(self, client: Client, messages: Sequence[Message]) -> None:
        async def call(wanted: Sequence[tuple[str, int]], within: float) -> Sequence[Mapping[str, Any]]:
            return await self._set_visibility(wanted, within, client)

        await renewing.release(messages, call)

    # Telling ---------------------------------------------------------------------------------------------------------

    def get_advance_lane(self, broker_payload: Message) -> Hashable:
        return broker_payload.system.get("MessageGroupId", "") if self._queue.is_fifo else UNORDERED

    def identity(self, broker_payload: Message) -> str:
        return broker_payload.key

    def describe(self, broker_payload: Message) -> Meta:
        return meta_of(broker_payload)

    def report(self) -> Mapping[str, object]:
        """Counts of this life; those of the queue are SQS's own, and approximate."""
        if self._account is None:
            return {}
        report: dict[str, object] = {
            "queue": self._queue.name,
            "received": self._receiving.received,
            "receives": self._receiving.polls,
            "polls_under_way": self._receiving.running,
            "deleted": self._deleting.settled,
            "delete_calls": self._deleting.calls,
            "handed_back": self._returning.settled,
            "renewals": self._renewals,
            "expired": self._lost + self._deleting.expired + self._returning.expired,
        }
        if self._depth is not None:
            report |= self._depth.seen
        trouble = self._health.trouble or self._account.skew.trouble
        if trouble is not None:
            report["trouble"] = trouble
        return report


def rest_of(message: Message, roll: float) -> int:
    """Whole seconds, 1 or more, before a message that was failed comes again."""
    return max(1, round(_RETRY.after(max(1, message.deliveries or 1), roll)))


def _runs_of(batch: Sequence[AdvanceItem]) -> Iterable[tuple[AdvanceOutcome, Sequence[Message]]]:
    if isinstance(batch, AdvanceBatch):
        return batch.runs
    return [(outcome, [payload]) for payload, outcome in batch]


def _opened(client: Client | None) -> Client:
    if client is None:
        raise IllegalStep("the stream is not open")
    return client


def _new_attempt() -> str:
    return uuid4().hex
