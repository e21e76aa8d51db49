"""What tests and people do to a Kafka beside the program: make topics, write records, read them, look at a group.

Each is a coroutine, and stands on its own connection; `apart` runs one from code that has no loop, or that must not
use the one that it runs in.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

T = TypeVar("T")

PATIENCE = 20.0
"""Seconds for each of them."""
LOOK_AGAIN = 0.05


def apart(work: Coroutine[object, object, T]) -> T:
    """Its result, from a loop in a thread of its own."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(asyncio.run(work))
        except BaseException as error:  # whatever it is, it belongs to the caller
            done.set_exception(error)

    thread = threading.Thread(target=run, name="apart")
    thread.start()
    thread.join()
    return done.result()


async def create(bootstrap: str, topic: str, partitions: int = 1, replication: int = 1, **config: str | int) -> None:
    """Returns when every partition has a leader. `retention_ms=1000` becomes `retention.ms`, and so on."""
    settings = {key.replace("_", "."): str(value) for key, value in config.items()}
    async with asyncio.timeout(PATIENCE), admin(bootstrap) as client:
        answer = await client.create_topics([NewTopic(topic, partitions, replication, topic_configs=settings)])
        _check(answer.to_object()["topic_errors"])
        while not await _is_led(client, topic, partitions):  # noqa: ASYNC110  # a broker tells nobody
            await asyncio.sleep(LOOK_AGAIN)


async def ensure(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Makes it unless it is there."""
    with suppress(TopicAlreadyExistsError):
        await create(bootstrap, topic, partitions)


async def delete(bootstrap: str, *topics: str) -> None:
    """Returns when the broker knows them no more. A topic that does not exist is no error."""
    async with asyncio.timeout(PATIENCE), admin(bootstrap) as client:
        answer = (await client.delete_topics(list(topics))).to_object()
        gone = UnknownTopicOrPartitionError.errno
        _check([error for error in answer["topic_error_codes"] if error["error_code"] != gone])
        while {*topics} & {*await client.list_topics()}:  # noqa: ASYNC110  # a broker tells nobody
            await asyncio.sleep(LOOK_AGAIN)


async def leader(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The node id of the broker that leads it, -1 if none does."""
    async with asyncio.timeout(PATIENCE), admin(bootstrap) as client:
        (found,) = await client.describe_topics([topic])
        return next((p["leader"] for p in found["partitions"] if p["partition"] == partition), -1)


async def send(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    key: bytes | None = None,
    partition: int | None = None,
    within: float = PATIENCE,
) -> None:
    """One record for each value, in order, confirmed by all in-sync replicas. None makes a tombstone."""
    async with asyncio.timeout(within):
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=2)
        try:
            await producer.start()
            sent = [await producer.send(topic, value, key, partition) for value in values]
            await asyncio.gather(*sent)
        finally:
            await producer.stop()


async def read(bootstrap: str, topic: str, count: int, within: float = PATIENCE) -> list[ConsumerRecord[bytes, bytes]]:
    """The first `count` records of all partitions, as any group-less reader sees them, in the order of arrival."""
    async with asyncio.timeout(within):
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        try:
            await consumer.start()
            found: list[ConsumerRecord[bytes, bytes]] = []
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
            return found
        finally:
            await consumer.stop()


async def committed(bootstrap: str, group: str, topic: str) -> dict[int, tuple[int, str]]:
    """By partition: the next offset that the group will read, and the text that was committed with it."""
    async with asyncio.timeout(PATIENCE), admin(bootstrap) as client:
        found = await client.list_consumer_group_offsets(group)
    return {
        place.partition: (at.offset, at.metadata)
        for place, at in found.items()
        if isinstance(place, TopicPartition) and place.topic == topic and at.offset >= 0
    }


async def _is_led(client: AIOKafkaAdminClient, topic: str, partitions: int) -> bool:
    (found,) = await client.describe_topics([topic])
    led = [each for each in found["partitions"] if each["error_code"] == 0 and each["leader"] >= 0]
    return found["error_code"] == 0 and len(led) >= partitions


def _check(errors: Iterable[Mapping[str, Any]]) -> None:
    """The client gives errors as part of the answer: topic, error_code, and in newer versions error_message."""
    for error in errors:
        if error["error_code"]:
            raise for_code(error["error_code"])(f"{error['topic']}: {error.get('error_message') or ''}")


@asynccontextmanager
async def admin(bootstrap: str) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        await client.start()
        yield client
    finally:
        await client.close()
