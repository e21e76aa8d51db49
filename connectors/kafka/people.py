"""For people at a keyboard: messages sent to the topics of a stream, and messages seen as they come.

What is sent is confirmed by all replicas in sync. What is seen is read without a group: no offset is committed, no
partition is taken from anybody, and the stream gets every message all the same.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, UnsupportedCodecError

from bridge.core.errors import Refused, Transient
from bridge.core.model import Meta
from bridge.ports import Outgoing, Seen
from connectors.kafka.closing import stop_within
from connectors.kafka.cluster import EARLIEST, LATEST, Cluster, Topic, connected
from connectors.kafka.codecs import codec_refused
from connectors.kafka.errors import translated, translating
from connectors.kafka.judging import near
from connectors.kafka.options import KafkaOptions
from connectors.kafka.security import client_settings
from connectors.kafka.start import is_wanted

_LARGEST: Final = 64 * 1024 * 1024  # whether a message is too large is for the topic to say
_CONNECTED_WITHIN: Final = 20.0
_CLOSED_WITHIN: Final = 5.0
_BACKLOG_WITHIN: Final = 15.0
"""Seconds in which earlier messages are gathered; what has not come by then is left out."""
_IDLE_MS: Final = 200

Taken: TypeAlias = ConsumerRecord[Any, Any]


# Sending -------------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a message goes; `partition` None: by its key, or anywhere."""

    topic: str
    partition: int | None


class TopicSender:
    """`bridge.ports.Sender`. Connects at the first message."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._producer: AIOKafkaProducer | None = None
        self._known: dict[str, Topic] = {}

    async def send(self, messages: Sequence[Outgoing]) -> Sequence[str]:
        """`orders[0]@17` for each, once all replicas in sync have it."""
        places = [place_of(message.lane, self._options) for message in messages]
        await self._look_at(places)
        producer = await self._opened()
        try:
            async with asyncio.timeout(self._options.request_timeout):
                answers = await _sent(producer, messages, places)
        except TimeoutError:
            raise Transient("the brokers did not confirm in time: messages may be there or not") from None
        failed = next((answer for answer in answers if isinstance(answer, BaseException)), None)
        if failed is not None:
            raise _of_sending(failed, sum(isinstance(each, str) for each in answers), len(messages)) from failed
        return [answer for answer in answers if isinstance(answer, str)]

    async def aclose(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_within(_CLOSED_WITHIN, producer)

    async def _look_at(self, places: Iterable[Place]) -> None:
        """Before the client asks for them, which would make topics that are not there where the brokers allow that."""
        new = {place.topic for place in places} - self._known.keys()
        if new:
            async with asyncio.timeout(_CONNECTED_WITHIN), connected(self._options) as cluster:
                self._known |= await _there(cluster, new)
        for topic, partition in places:
            if partition is not None and partition not in self._known[topic].leaders:
                raise Refused(f"topic {topic!r} has {len(self._known[topic].leaders)} partitions, and no {partition}")

    async def _opened(self) -> AIOKafkaProducer:
        if self._producer is None:
            producer = AIOKafkaProducer(
                **client_settings(self._options), acks="all", enable_idempotence=True, max_request_size=_LARGEST
            )
            self._producer = producer
            with translating("connecting to the brokers"):
                async with asyncio.timeout(_CONNECTED_WITHIN):
                    await producer.start()
        return self._producer


def sender(options: KafkaOptions) -> TopicSender:
    return TopicSender(options)


async def _sent(
    producer: AIOKafkaProducer, messages: Sequence[Outgoing], places: Sequence[Place]
) -> list[str | BaseException]:
    """Positions, in order; ends behind the first that is refused."""
    sending: list[Any] = []
    refused: list[str | BaseException] = []
    for message, (topic, partition) in zip(messages, places, strict=True):
        headers: Any = list(message.headers)  # the client's stubs know no null header; its wire does
        try:
            sending.append(await producer.send(topic, message.body, message.key, partition=partition, headers=headers))
        except KafkaError as error:
            refused.append(error)
            break
    answers = await asyncio.gather(*sending, return_exceptions=True)
    done = [a if isinstance(a, BaseException) else f"{a.topic}[{a.partition}]@{a.offset}" for a in answers]
    return [*done, *refused]


def place_of(lane: str | None, options: KafkaOptions) -> Place:
    """From `3`, `orders` or `orders/3`; the stream's only topic where none is named. Raises Refused."""
    topic, slash, number = (lane or "").partition("/")
    if not slash and topic.isdecimal() and topic not in options.topics:
        topic, number = "", topic
    if (number and not number.isdecimal()) or (slash and not number):
        raise Refused(f"{lane!r} names no partition: write PARTITION, TOPIC or TOPIC/PARTITION")
    if not topic:
        if len(options.topics) != 1:
            reads = f"topics {', '.join(options.topics)}" if options.topics else "what fits a pattern"
            raise Refused(f"the stream reads {reads}: say where the message goes, as TOPIC or TOPIC/PARTITION")
        topic = options.topics[0]
    elif not _reads(options, topic):
        reads = ", ".join(options.topics) or f"what fits {options.topic_pattern!r}"
        raise Refused(f"the stream does not read {topic!r}, it reads {reads}")
    return Place(topic, int(number) if number else None)


def _reads(options: KafkaOptions, topic: str) -> bool:
    if options.topic_pattern is not None:
        return is_wanted(options.topic_pattern, {"topic": topic, "is_internal": False})
    return topic in options.topics


def _of_sending(error: BaseException, confirmed: int, all_of_them: int) -> BaseException:
    before = f"{confirmed} of {all_of_them} messages were confirmed; then " if all_of_them > 1 else ""
    if isinstance(error, MessageSizeTooLargeError):
        return Refused(f"{before}a message is larger than the topic takes (max.message.bytes)")
    return translated(error, f"{before}sending") if isinstance(error, Exception) else error


# Seeing --------------------------------------------------------------------------------------------------------------


async def tail(options: KafkaOptions, last: int) -> AsyncIterator[Seen]:
    """Up to `last` earlier messages of each topic, by time; then what comes. Partitions that are new are not seen."""
    async with asyncio.timeout(_CONNECTED_WITHIN), connected(options) as cluster:
        topics = await _topics_of(cluster, options)
        begins = await cluster.offsets(topics, EARLIEST)
        ends = await cluster.offsets(topics, LATEST)
    consumer = AIOKafkaConsumer(
        **client_settings(options),
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="latest",
        isolation_level=options.isolation,
        client_rack=options.client_rack,
        fetch_max_bytes=options.fetch_max_bytes,
        max_partition_fetch_bytes=options.max_partition_fetch_bytes,
    )
    try:
        with translating("connecting to the brokers"):
            async with asyncio.timeout(_CONNECTED_WITHIN):
                await consumer.start()
        consumer.assign(list(ends))
        for partition, end in ends.items():
            consumer.seek(partition, max(begins.get(partition, 0), end - last))
        for record in await _backlog(consumer, ends, last):
            yield seen_of(record)
        while True:
            for record in _by_time(await _more(consumer, ends)):
                yield seen_of(record)
    finally:
        await stop_within(_CLOSED_WITHIN, consumer)


async def _backlog(consumer: AIOKafkaConsumer, ends: Mapping[TopicPartition, int], last: int) -> list[Taken]:
    """What lies in front of the ends, the last of each topic; and what has come behind them meanwhile."""
    earlier: dict[TopicPartition, deque[Taken]] = defaultdict(lambda: deque(maxlen=last))
    new: list[Taken] = []
    deadline = asyncio.get_running_loop().time() + _BACKLOG_WITHIN
    while behind := [p for p, end in ends.items() if await consumer.position(p) < end]:
        if asyncio.get_running_loop().time() > deadline:
            break
        for record in await _more(consumer, behind):
            partition = TopicPartition(record.topic, record.partition)
            (earlier[partition] if record.offset < ends[partition] else new).append(record)
    by_topic: dict[str, list[Taken]] = defaultdict(list)
    for partition, records in earlier.items():
        by_topic[partition.topic] += records
    kept = [record for records in by_topic.values() for record in _by_time(records)[-last:]]
    return [*_by_time(kept), *_by_time(new)]


async def _more(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> list[Taken]:
    try:
        fetched = await consumer.getmany(*partitions, timeout_ms=_IDLE_MS)
    except UnsupportedCodecError as error:
        raise codec_refused(error) from error
    except Exception as error:
        raise translated(error, "reading") from error
    return [record for records in fetched.values() for record in records]


def _by_time(records: Sequence[Taken]) -> list[Taken]:
    return sorted(records, key=lambda record: record.timestamp)


def seen_of(record: Taken) -> Seen:
    """Named as the stream names it."""
    meta = Meta(
        position=f"{record.topic}[{record.partition}]@{record.offset}",
        timestamp=record.timestamp / 1000 if record.timestamp >= 0 else None,
        key=record.key,
        headers=tuple(record.headers),
        lane=f"{record.topic}-{record.partition}",
        tombstone=record.value is None,
    )
    return Seen(meta, record.value)


async def _topics_of(cluster: Cluster, options: KafkaOptions) -> list[Topic]:
    if options.topic_pattern is None:
        return list((await _there(cluster, options.topics)).values())
    every = await cluster.topics(None)
    fitting = [name for name, topic in every.items() if not topic.is_internal and _reads(options, name)]
    if not fitting:
        raise Refused(f"`topic_pattern` {options.topic_pattern!r} fits no topic now")
    return list((await _there(cluster, fitting)).values())


async def _there(cluster: Cluster, names: Iterable[str]) -> dict[str, Topic]:
    """The topics. Raises Refused for one that can't be had."""
    found = await cluster.topics(list(names))
    for name, topic in found.items():
        if topic.error == "UnknownTopicOrPartitionError":
            every = await cluster.topics(None)
            others = sorted(other for other, topic in every.items() if not topic.is_internal)
            raise Refused(f"there is no topic {name!r}: {near(name, others)}")
        if topic.error:
            raise Refused(f"topic {name!r} can't be had: {topic.error}")
    return found
