"""Copies dead letters to a topic: confirmed by all replicas in sync, with what is known of them in headers.

The value, the key and the headers are those of the message. Ours begin with `headrace-`:

    headrace-dead-letter    the letter's id, the same on every copy of it
    headrace-stream, -topic, -partition, -offset, -timestamp    where it came from (the time in ms since 1970)
    headrace-watcher, -reason, -attempts, -error                who refused it, and why
    headrace-by-reference   the size of the value in bytes, where it is too large for the topic and was left out: the
                            store has it, `headrace dlq show` prints it
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.admin import CreateTopicsRequest

from bridge.core.errors import HeadraceError, IllegalStep, Refused, Transient
from bridge.ports import Letter
from connectors.kafka.closing import stop_within
from connectors.kafka.errors import told, translated, translating
from connectors.kafka.lanes import Headers, origin_of
from connectors.kafka.options import DeadLetterTopic, KafkaOptions
from connectors.kafka.reaching import reach
from connectors.kafka.security import client_settings
from connectors.kafka.start import described_topics

_OPENED_WITHIN: Final = 20.0
_CLOSED_WITHIN: Final = 5.0
_WORDS_MOST: Final = 1000  # characters of the reason and of the error in their headers
_BATCH_MOST: Final = 16 * 1024
_DEFAULT_MOST: Final = 1024 * 1024 + 12  # Kafka's own default of `max.message.bytes`


class TopicRelay:
    """`bridge.ports.Relay` on a topic."""

    def __init__(self, options: KafkaOptions, place: DeadLetterTopic) -> None:
        self._options = options
        self._place = place
        self._producer: AIOKafkaProducer | None = None

    async def open(self) -> None:
        await self.aclose()
        try:
            async with asyncio.timeout(_OPENED_WITHIN):
                most = await self._prepare()
                self._producer = producer = _producer(self._options, most)
                with translating("connecting to the brokers"):
                    await producer.start()
        except TimeoutError as error:
            raise Transient(f"the brokers did not answer within {_OPENED_WITHIN:.0f} s") from error

    async def _prepare(self) -> int:
        """The topic is there afterwards; returns the largest batch that it takes, in bytes."""
        admin = AIOKafkaAdminClient(**client_settings(self._options))
        try:
            await reach(admin, self._options)
            with translating(f"looking for the dead-letter topic {self._place.topic!r}"):
                if not await self._exists(admin):
                    await self._create(admin)
                return await _most_of(admin, self._place.topic)
        finally:
            await stop_within(_CLOSED_WITHIN, admin)

    async def _exists(self, admin: AIOKafkaAdminClient) -> bool:
        [topic] = await described_topics(admin, [self._place.topic])
        error = for_code(topic["error_code"])
        if error is NoError:
            return True
        if error is UnknownTopicOrPartitionError:
            return False
        raise error(f"topic {self._place.topic!r}")

    async def _create(self, admin: AIOKafkaAdminClient) -> None:
        place = self._place
        if not place.create:
            raise Refused(
                f"the dead-letter topic {place.topic!r} does not exist: create it, or write `create: true` under "
                "`dead_letter`"
            )
        wanted: tuple[Any, ...] = (place.topic, place.partitions, place.replication_factor, [], [])
        timeout = int(self._options.request_timeout * 1000)
        request = CreateTopicsRequest([wanted], timeout, validate_only=False)
        answer = await admin._send_to_controller(request)  # its own `create_topics` knows no default replication
        for topic in answer.to_object()["topic_errors"]:
            error = for_code(topic["error_code"])
            if error not in (NoError, TopicAlreadyExistsError):
                raise error(topic.get("error_message") or f"creating {place.topic!r}")

    async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]:
        """All at once, and one answer each."""
        return await asyncio.gather(*(self._send(letter) for letter in letters))

    async def _send(self, letter: Letter) -> Exception | None:
        try:
            async with asyncio.timeout(self._options.request_timeout):
                try:
                    await self._confirmed(letter, letter.body, letter.key, letter.headers, ())
                except MessageSizeTooLargeError:
                    size = str(len(letter.body or b"")).encode()
                    await self._confirmed(letter, None, None, (), (("headrace-by-reference", size),))
        except TimeoutError:
            return Transient(f"no confirmation within {self._options.request_timeout:.0f} s")
        except MessageSizeTooLargeError as error:
            what = f"topic {self._place.topic!r} takes not even a reference to it: raise its `max.message.bytes`"
            return Refused(f"{what} ({told(error)})")
        except HeadraceError as error:
            return error
        except Exception as error:  # said of this letter alone; a right may be granted, a topic made again
            return Transient(str(translated(error, f"sending to {self._place.topic!r}")))
        return None

    async def _confirmed(
        self, letter: Letter, value: bytes | None, key: bytes | None, own: Headers, more: Headers
    ) -> None:
        producer, topic = self._producer, self._place.topic
        if producer is None:
            raise IllegalStep("the relay is not open")
        headers: list[Any] = [*own, *headers_of(letter), *more]  # the client's stubs know no null header; its wire does
        if value is not None or key is not None:
            await producer.send_and_wait(topic, value=value, key=key, headers=headers)
            return
        batch = producer.create_batch()  # `send` takes no record that has neither
        batch.append(key=None, value=None, timestamp=None, headers=headers)
        partition = random.choice(sorted(await producer.partitions_for(topic)))  # noqa: S311
        await (await producer.send_batch(batch, topic, partition=partition))

    async def aclose(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await stop_within(_CLOSED_WITHIN, producer)


def headers_of(letter: Letter) -> Headers:
    """What is known of a letter, as headers. Values are UTF-8."""
    origin = origin_of(letter.identity)
    known: dict[str, object] = {"dead-letter": letter.id, "stream": letter.stream}
    if origin is not None:
        known |= {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
        known |= {"timestamp": origin.timestamp} if origin.timestamp >= 0 else {}
    known |= {"watcher": letter.watcher, "reason": letter.reason[:_WORDS_MOST], "attempts": letter.attempts}
    if letter.error:
        known["error"] = letter.error[:_WORDS_MOST]
    return tuple((f"headrace-{name}", str(value).encode("utf-8", "replace")) for name, value in known.items())


async def _most_of(admin: AIOKafkaAdminClient, topic: str) -> int:
    """`max.message.bytes` of the topic; the default where we may not ask."""
    try:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": None})
        [answer] = await admin.describe_configs([resource])
        [described] = answer.to_object()["resources"]
        return next(
            int(c["config_value"]) for c in described["config_entries"] if c["config_names"] == "max.message.bytes"
        )
    except (KafkaError, KeyError, ValueError, StopIteration):
        return _DEFAULT_MOST


def _producer(options: KafkaOptions, most: int) -> AIOKafkaProducer:
    """Not an idempotent one: that keeps what it was given until it is delivered, and so sends a letter as often as we
    have given it up. (A copy that comes twice is known by its id.)
    """
    return AIOKafkaProducer(
        **client_settings(options),
        acks="all",
        max_request_size=most,
        max_batch_size=min(_BATCH_MOST, most),  # the topic's bound is one for batches
        linger_ms=5,
    )


def relay_of(options: KafkaOptions) -> TopicRelay | None:
    """None where no topic is named."""
    return None if options.dead_letter is None else TopicRelay(options, options.dead_letter)
