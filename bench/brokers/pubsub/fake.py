"""The fake as a process: `python -m bench.brokers.pubsub.fake PORT CONTROL_PORT`.

Publisher and Subscriber of google.pubsub.v1 over gRPC, as far as Headrace and its tests need them, on raw messages of
protobuf, since those of proto-plus would be most of the work. Everything is in memory.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
from google.protobuf.any_pb2 import Any as AnyPb
from google.protobuf.empty_pb2 import Empty
from google.pubsub_v1 import types
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from bench.brokers.pubsub.faults import Faults
from bench.brokers.pubsub.subscription import Held, Subscription, Taker

Context = Any  # grpc.aio.ServicerContext of raw messages
PERMANENT: Final = "PERMANENT_FAILURE_INVALID_ACK_ID"
TEMPORARY: Final = "TRANSIENT_FAILURE_UNORDERED_ACK_ID"


def raw(kind: Any) -> Any:
    """The protobuf class behind one of proto-plus."""
    return kind.meta.pb


Message, Received, Response = raw(types.PubsubMessage), raw(types.ReceivedMessage), raw(types.StreamingPullResponse)


class Fake:
    """`stamp` counts what changes, for streams that wait."""

    def __init__(self) -> None:
        self.faults = Faults()
        self.topics: dict[str, Any] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.described: dict[str, Any] = {}
        self.streams: dict[int, asyncio.Event] = {}
        self.opened = 0
        self.ends: dict[int, str] = {}
        self._ids = itertools.count(1)
        self._changed = asyncio.Event()

    def kick(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Publisher -------------------------------------------------------------------------------------------------------

    async def create_topic(self, request: Any, context: Context) -> Any:
        if request.name in self.topics:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"Resource already exists (resource={request.name}).")
        self.topics[request.name] = request
        return request

    async def get_topic(self, request: Any, context: Context) -> Any:
        await self._has_topic(request.topic, context)
        return self.topics[request.topic]

    async def delete_topic(self, request: Any, context: Context) -> Any:
        await self._has_topic(request.topic, context)
        del self.topics[request.topic]
        for described in self.described.values():
            if described.topic == request.topic:
                described.topic = "_deleted-topic_"
        return Empty()

    async def publish(self, request: Any, context: Context) -> Any:
        await self._has_topic(request.topic, context)
        for message in request.messages:
            if not message.data and not message.attributes:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "A message must have data or attributes.")
        ids = [self.put(request.topic, message) for message in request.messages]
        self.kick()
        return raw(types.PublishResponse)(message_ids=ids)

    async def _has_topic(self, name: str, context: Context) -> None:
        if name not in self.topics:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Resource not found (resource={name}).")

    def put(self, topic: str, message: Any) -> str:
        published = Message()
        published.CopyFrom(message)
        published.message_id = str(next(self._ids))
        published.publish_time.FromNanoseconds(int((time.time() + self.faults.skew) * 1e9))
        for name, described in self.described.items():
            if described.topic == topic and _passes(described.filter, published):
                self.subscriptions[name].publish(published)
        return str(published.message_id)

    # Subscriber ------------------------------------------------------------------------------------------------------

    async def create_subscription(self, request: Any, context: Context) -> Any:
        if request.name in self.described:
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"Resource already exists (resource={request.name}).")
        await self._has_topic(request.topic, context)
        request.ack_deadline_seconds = request.ack_deadline_seconds or 10
        self.described[request.name] = request
        policy = request.dead_letter_policy
        letters = policy.dead_letter_topic
        self.subscriptions[request.name] = Subscription(
            request.name,
            request.enable_message_ordering,
            request.enable_exactly_once_delivery,
            request.ack_deadline_seconds,
            request.retry_policy.minimum_backoff.ToTimedelta().total_seconds(),
            policy.max_delivery_attempts or 5,
            (lambda held: self._forward(request.name, letters, held)) if letters else None,
        )
        return request

    def _forward(self, name: str, topic: str, held: Held) -> None:
        copy = Message(data=held.message.data, ordering_key=held.message.ordering_key)
        copy.attributes.update(held.message.attributes)
        copy.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] = str(held.deliveries)
        copy.attributes["CloudPubSubDeadLetterSourceSubscription"] = name.rpartition("/")[2]
        self.put(topic, copy)

    async def get_subscription(self, request: Any, context: Context) -> Any:
        await self._found(request.subscription, context)
        return self.described[request.subscription]

    async def delete_subscription(self, request: Any, context: Context) -> Any:
        await self._found(request.subscription, context)
        del self.described[request.subscription], self.subscriptions[request.subscription]
        self.kick()
        return Empty()

    async def _found(self, name: str, context: Context) -> Subscription:
        found = self.subscriptions.get(name)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"Resource not found (resource={name}).")
        assert found is not None
        return found

    async def pull(self, request: Any, context: Context) -> Any:
        subscription = await self._found(request.subscription, context)
        ends_at = time.monotonic() + min(90.0, (context.time_remaining() or 90.0) - 0.2)
        while True:
            now = time.monotonic()
            taken = subscription.take(request.max_messages or 1, subscription.deadline, Taker(), now)
            if taken or request.return_immediately or now >= ends_at:
                return raw(types.PullResponse)(received_messages=self._received(subscription, taken))
            await self._wait(subscription, ends_at)

    async def _wait(self, subscription: Subscription, until: float) -> None:
        """For something to change, or to run out."""
        changed, wake_at = self._changed, subscription.wake_at
        ends_at = until if wake_at is None else min(until, wake_at)
        try:
            async with asyncio.timeout(max(0.001, ends_at - time.monotonic())):
                await changed.wait()
        except TimeoutError:
            pass

    def _received(self, subscription: Subscription, taken: list[Held]) -> list[Any]:
        counts = subscription.dead_letter is not None
        found = [
            Received(ack_id=h.ack_id, message=h.message, delivery_attempt=h.deliveries if counts else 0) for h in taken
        ]
        for held in taken if self.faults.doubles else ():
            if self.faults.doubles:
                self.faults.doubles -= 1
                subscription.double(held)
        return found

    async def acknowledge(self, request: Any, context: Context) -> Any:
        subscription = await self._found(request.subscription, context)
        await self._answer(subscription, self._ack(subscription, request.ack_ids), context)
        return Empty()

    async def modify_ack_deadline(self, request: Any, context: Context) -> Any:
        subscription = await self._found(request.subscription, context)
        seconds = [request.ack_deadline_seconds] * len(request.ack_ids)
        await self._answer(subscription, self._extend(subscription, request.ack_ids, seconds), context)
        return Empty()

    def _ack(self, subscription: Subscription, ids: Any) -> dict[str, str]:
        subscription.sweep(time.monotonic())
        return self._each(subscription, ids, subscription.ack)

    def _extend(self, subscription: Subscription, ids: Any, seconds: Any) -> dict[str, str]:
        now = time.monotonic()
        subscription.sweep(now)
        wanted = dict(zip(ids, seconds, strict=True))
        return self._each(subscription, ids, lambda ack_id: subscription.extend(ack_id, wanted[ack_id], now))

    def _each(self, subscription: Subscription, ids: Any, call: Callable[[str], bool]) -> dict[str, str]:
        """What went wrong, by id."""
        wrong: dict[str, str] = {}
        for ack_id in ids:
            if subscription.exactly_once and self.faults.acks:
                wrong[ack_id] = PERMANENT if self.faults.acks.pop(0) == "permanent" else TEMPORARY
            elif not call(ack_id):
                wrong[ack_id] = PERMANENT
        self.kick()
        return wrong

    async def _answer(self, subscription: Subscription, wrong: dict[str, str], context: Context) -> None:
        """Only an exactly-once subscription says that an id was not valid."""
        if not wrong or not subscription.exactly_once:
            return
        detail = AnyPb()
        detail.Pack(ErrorInfo(reason="EXACTLY_ONCE_ACKID_FAILURE", domain="pubsub.googleapis.com", metadata=wrong))
        text = "Some acknowledgement ids in the request were invalid."
        status = Status(code=grpc.StatusCode.FAILED_PRECONDITION.value[0], message=text, details=[detail])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)

    # Streams ---------------------------------------------------------------------------------------------------------

    async def streaming_pull(self, requests: Any, context: Context) -> AsyncIterator[Any]:
        await self.faults.before("StreamingPull", context)
        first = await anext(requests)
        subscription = await self._found(first.subscription, context)
        self.opened += 1
        mine, taker = self.opened, Taker(first.max_outstanding_messages, first.max_outstanding_bytes)
        said: list[Any] = []
        self.streams[mine] = asyncio.Event()
        reading = asyncio.create_task(self._read(requests, subscription, said))
        reading.add_done_callback(lambda _: self._half_closed(mine))
        try:
            async for response in self._responses(mine, first, subscription, taker, said, context):
                yield response
        finally:
            reading.cancel()
            del self.streams[mine]
            self.ends.pop(mine, None)

    async def _responses(
        self, mine: int, first: Any, subscription: Subscription, taker: Taker, said: list[Any], context: Context
    ) -> AsyncIterator[Any]:
        deadline = first.stream_ack_deadline_seconds or subscription.deadline
        while first.subscription in self.subscriptions:
            end = self.ends.get(mine)
            if end == "OK":
                return
            if end:
                await context.abort(grpc.StatusCode[end], "on request")
            while said:
                yield said.pop(0)
            now = time.monotonic()
            taken: list[Held] = []
            subscription.reorders = self.faults.reorders
            if self.faults.speaks.is_set() and taker.has_room:
                taken = subscription.take(1000, deadline, taker, now)
            if taken:
                response = Response(received_messages=self._received(subscription, taken))
                response.subscription_properties.exactly_once_delivery_enabled = subscription.exactly_once
                response.subscription_properties.message_ordering_enabled = subscription.ordered
                yield response
            elif not said:
                await self._wait(subscription, now + 1.0)
        await context.abort(grpc.StatusCode.NOT_FOUND, f"Resource not found (resource={first.subscription}).")

    def _half_closed(self, mine: int) -> None:
        """The client says nothing more: neither do we."""
        if mine in self.streams:
            self.ends[mine] = "OK"
            self.kick()

    async def _read(self, requests: Any, subscription: Subscription, said: list[Any]) -> None:
        async for request in requests:
            await self.faults.speaks.wait()
            if request.ack_ids:
                self.faults.counted["stream acks"] += 1
                wrong = self._ack(subscription, request.ack_ids)
                if subscription.exactly_once:
                    said.append(Response(acknowledge_confirmation=_confirmation(
                        raw(types.StreamingPullResponse.AcknowledgeConfirmation), request.ack_ids, wrong)))  # fmt: skip
            if request.modify_deadline_ack_ids:
                self.faults.counted["stream modacks"] += 1
                ids = request.modify_deadline_ack_ids
                wrong = self._extend(subscription, ids, request.modify_deadline_seconds)
                if subscription.exactly_once:
                    said.append(Response(modify_ack_deadline_confirmation=_confirmation(
                        raw(types.StreamingPullResponse.ModifyAckDeadlineConfirmation), ids, wrong)))  # fmt: skip
            self.kick()


def _confirmation(kind: Any, ids: Any, wrong: dict[str, str]) -> Any:
    made = kind()
    made.ack_ids.extend(each for each in ids if each not in wrong)
    made.temporary_failed_ack_ids.extend(each for each, why in wrong.items() if why == TEMPORARY)
    made.invalid_ack_ids.extend(each for each, why in wrong.items() if why == PERMANENT)
    return made


def _passes(written: str, message: Any) -> bool:
    """Only the form `attributes.NAME = "VALUE"`, and none."""
    found = re.fullmatch(r'\s*attributes\.(\w+)\s*=\s*"([^"]*)"\s*', written)
    return not written or found is None or message.attributes.get(found[1]) == found[2]


def _written(answer: Any) -> bytes:
    written: bytes = answer.SerializeToString()
    return written


def handlers(fake: Fake) -> tuple[Any, ...]:
    """For a server of grpc.aio."""

    def unary(name: str, request: Any, call: Any) -> tuple[str, Any]:
        async def counted(asked: Any, context: Context) -> Any:
            await fake.faults.before(name, context)
            return await call(asked, context)

        return name, grpc.unary_unary_rpc_method_handler(counted, request.FromString, _written)

    publisher = dict([
        unary("CreateTopic", raw(types.Topic), fake.create_topic),
        unary("GetTopic", raw(types.GetTopicRequest), fake.get_topic),
        unary("DeleteTopic", raw(types.DeleteTopicRequest), fake.delete_topic),
        unary("Publish", raw(types.PublishRequest), fake.publish),
    ])  # fmt: skip
    subscriber = dict([
        unary("CreateSubscription", raw(types.Subscription), fake.create_subscription),
        unary("GetSubscription", raw(types.GetSubscriptionRequest), fake.get_subscription),
        unary("DeleteSubscription", raw(types.DeleteSubscriptionRequest), fake.delete_subscription),
        unary("Pull", raw(types.PullRequest), fake.pull),
        unary("Acknowledge", raw(types.AcknowledgeRequest), fake.acknowledge),
        unary("ModifyAckDeadline", raw(types.ModifyAckDeadlineRequest), fake.modify_ack_deadline),
    ])  # fmt: skip
    subscriber["StreamingPull"] = grpc.stream_stream_rpc_method_handler(
        fake.streaming_pull,
        raw(types.StreamingPullRequest).FromString,
        _written,
    )
    return (
        grpc.method_handlers_generic_handler("google.pubsub.v1.Publisher", publisher),
        grpc.method_handlers_generic_handler("google.pubsub.v1.Subscriber", subscriber),
    )


async def serve(port: int, control_port: int) -> None:
    from bench.brokers.pubsub.control import serve_control

    fake = Fake()
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 32 << 20), ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(handlers(fake))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await serve_control(fake, control_port)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
