"""A running cluster, asked: each question is one request, answers are data. Nothing is changed, taken or created.

What rights we have is asked by requests that would change nothing if they were granted: a fetch at the end of a
partition, a heartbeat of a member that is not there, a produce request without a record.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    GroupCoordinatorNotAvailableError,
    GroupLoadInProgressError,
    KafkaConnectionError,
    NoError,
    NotCoordinatorForGroupError,
    TopicAuthorizationFailedError,
    for_code,
)
from aiokafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest, ListGroupsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest, ProtocolMetadata
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest
from msgspec import Struct

from bridge.core.errors import Transient
from bridge.core.retry import Backoff
from connectors.kafka.errors import translating
from connectors.kafka.options import KafkaOptions
from connectors.kafka.probing import why_not
from connectors.kafka.security import client_settings

EARLIEST: Final = -2
LATEST: Final = -1

_ALL_REPLICAS: Final = -1
_GROUP: Final = 0
_STRANGER: Final = "headrace-examine"
_PRODUCE_MS: Final = 3000
_CLOSED_WITHIN: Final = 2.0
_AGAIN: Final = Backoff(delay=0.1, max=2.0)
_TRIES: Final = 8
_NOT_YET: Final = (GroupCoordinatorNotAvailableError, GroupLoadInProgressError, NotCoordinatorForGroupError)
_ISOLATION: Final = {"read_uncommitted": 0, "read_committed": 1}


class Topic(Struct, frozen=True):
    """`error` is the name of Kafka's error, empty where there is none. `leaders` and `replicas` by partition."""

    name: str
    error: str = ""
    is_internal: bool = False
    leaders: Mapping[int, int] = {}
    replicas: Mapping[int, int] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, number) for number in sorted(self.leaders)]


class Member(Struct, frozen=True):
    """Of a group. `topics` None: what it reads can't be told."""

    client: str
    host: str
    topics: frozenset[str] | None


class Group(Struct, frozen=True):
    """As its coordinator sees it. `protocol_type` is `consumer` for consumers, `protocol` how they share partitions."""

    error: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[Member, ...]


class Cluster:
    """Over a client that has been bootstrapped. Raises KafkaError and OSError where an answer can't be had."""

    def __init__(self, client: AIOKafkaClient, isolation: int) -> None:
        self._client = client
        self._isolation = isolation

    async def topics(self, names: Collection[str] | None) -> dict[str, Topic]:
        """By name; None: all that we may see. A topic that is not there is not made."""
        answer = await self._ask(MetadataRequest(None if names is None else sorted(names), False))
        return {topic.name: topic for topic in map(_topic, answer.to_object()["topics"])}

    async def topic_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """By topic; those that we may not ask about are left out."""
        wanted = [(int(ConfigResourceType.TOPIC), name, None) for name in sorted(names)]
        return await self._settings(wanted, None) if wanted else {}

    async def broker_settings(self) -> dict[str, str]:
        """Of any broker: what is asked for is the same on all. Empty where we may not ask."""
        node = self._client.get_random_node()
        if node is None:
            return {}
        shown = await self._settings([(int(ConfigResourceType.BROKER), str(node), None)], node)
        return shown.get(str(node), {})

    async def _settings(self, wanted: Sequence[tuple[int, str, None]], node: int | None) -> dict[str, dict[str, str]]:
        answer = await self._ask(DescribeConfigsRequest(list(wanted)), node)
        return {
            name: {entry[0]: entry[1] or "" for entry in entries}
            for error, _message, _kind, name, entries in answer.resources
            if not error
        }

    async def offsets(self, topics: Iterable[Topic], when: int) -> dict[TopicPartition, int]:
        """The first offset, or the one behind the last record that we may read. What has no answer is left out."""
        found: dict[TopicPartition, int] = {}
        for leader, partitions in _by_leader(topics).items():
            wanted = [(topic, [(number, when) for number in numbers]) for topic, numbers in partitions.items()]
            answer = await self._ask(OffsetRequest(-1, self._isolation, wanted), leader)
            for topic, parts in answer.topics:
                found |= {TopicPartition(topic, part[0]): part[-1] for part in parts if not part[1]}
        return found

    async def unreadable(self, topics: Iterable[Topic], ends: Mapping[TopicPartition, int]) -> list[str]:
        """Topics that we may look at and not read. One partition of each is asked, at its end: nothing comes of it."""
        asked: dict[int, list[tuple[str, list[tuple[int, int, int]]]]] = defaultdict(list)
        for topic in topics:
            led = [partition for partition in topic.partitions if topic.leaders[partition.partition] >= 0]
            if led:
                place = (led[0].partition, ends.get(led[0], 0), 1)
                asked[topic.leaders[led[0].partition]].append((topic.name, [place]))
        denied: list[str] = []
        for leader, wanted in asked.items():
            answer = await self._ask(FetchRequest(0, 0, 1, self._isolation, wanted), leader)
            denied += [name for name, parts in answer.topics if parts[0][1] == TopicAuthorizationFailedError.errno]
        return denied

    async def may_write(self, topic: Topic) -> bool:
        number, leader = min(topic.leaders.items())
        request = ProduceRequest(None, _ALL_REPLICAS, _PRODUCE_MS, [(topic.name, [(number, b"")])])
        answer = await self._ask(request, leader)
        return TopicAuthorizationFailedError.errno not in [part[1] for _, parts in answer.topics for part in parts]

    # The group -------------------------------------------------------------------------------------------------------

    async def coordinator(self, group: str) -> int:
        """The broker that keeps the group. Raises GroupAuthorizationFailedError without the right to look at it.

        The first group of a cluster waits until there is a place where offsets are kept.
        """
        node: int = await _patiently(lambda: self._client.coordinator_lookup(_GROUP, group))
        return node

    async def may_join(self, group: str, coordinator: int) -> bool:
        answer = await self._ask(HeartbeatRequest(group, 0, _STRANGER), coordinator)
        return bool(answer.error_code != GroupAuthorizationFailedError.errno)

    async def group(self, group: str, coordinator: int) -> Group:
        async def ask() -> Any:
            answer = await self._ask(DescribeGroupsRequest([group]), coordinator)
            _require_loaded(answer.groups[0][0])
            return answer.groups[0]

        error, _name, state, kind, protocol, members, *_ = await _patiently(ask)
        return Group(_error(error), state, kind, protocol, tuple(map(_member, members)))

    async def is_listed(self, group: str, coordinator: int) -> bool:
        answer = await self._ask(ListGroupsRequest(), coordinator)
        return group in [listed[0] for listed in answer.groups]

    async def committed(
        self, group: str, coordinator: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The group's next offsets; a partition without one is left out."""
        wanted = [(topic, numbers) for topic, numbers in _by_topic(partitions).items()]

        async def ask() -> Any:
            answer = await self._ask(OffsetFetchRequest(group, wanted), coordinator)
            error = for_code(getattr(answer, "error_code", 0))  # older brokers have none for all of it
            if error is not NoError:
                raise error(f"the offsets of {group!r}")
            return answer

        answer = await _patiently(ask)
        return {
            TopicPartition(topic, part[0]): part[1]
            for topic, parts in answer.topics
            for part in parts
            if not part[3] and part[1] >= 0
        }

    async def _ask(self, request: Any, node: int | None = None) -> Any:
        return await self._client.send(self._client.get_random_node() if node is None else node, request)


def cluster_of(client: AIOKafkaClient, options: KafkaOptions) -> Cluster:
    return Cluster(client, _ISOLATION[options.isolation])


@asynccontextmanager
async def connected(options: KafkaOptions) -> AsyncGenerator[Cluster]:
    """To be asked while it lasts. Raises Refused and Transient, for what goes wrong within as well."""
    client = AIOKafkaClient(**client_settings(options))
    try:
        try:
            await client.bootstrap()
        except KafkaConnectionError as error:
            raise Transient(f"no broker can be reached: {await why_not(options)}") from error
        if not client.cluster.brokers():  # see `probe`
            raise Transient(f"no broker can be asked: {await why_not(options)}")
        with translating("asking the brokers"):
            yield cluster_of(client, options)
    finally:
        await closed(client)


async def closed(client: AIOKafkaClient) -> None:
    """Bounded; that it fails is no matter."""
    with suppress(Exception):
        async with asyncio.timeout(_CLOSED_WITHIN):
            await client.close()


async def _patiently(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Again and again while the coordinator is not ready; its last word is raised."""
    tries = 0
    while True:
        try:
            return await ask()
        except _NOT_YET:
            tries += 1
            if tries >= _TRIES:
                raise
        await asyncio.sleep(_AGAIN.after(tries, random.random()))  # noqa: S311  # spreads retries, keeps no secret


def _require_loaded(code: int) -> None:
    error = for_code(code)
    if issubclass(error, _NOT_YET):
        raise error()


def _topic(said: Mapping[str, Any]) -> Topic:
    return Topic(
        name=said["topic"],
        error=_error(said["error_code"]),
        is_internal=bool(said.get("is_internal")),
        leaders={part["partition"]: part["leader"] for part in said["partitions"]},
        replicas={part["partition"]: len(part["replicas"]) for part in said["partitions"]},
    )


def _error(code: int) -> str:
    error = for_code(code)
    return "" if error is NoError else error.__name__


def _member(said: Sequence[Any]) -> Member:
    _id, client, host, metadata, *_ = said
    try:
        read: Any = ProtocolMetadata.decode(metadata)
        topics = frozenset(read.subscription)
    except Exception:  # bytes of some other kind of client: whatever they do to the decoder
        return Member(client, host.lstrip("/"), None)
    return Member(client, host.lstrip("/"), topics)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        found[topic].append(number)
    return found


def _by_leader(topics: Iterable[Topic]) -> dict[int, dict[str, list[int]]]:
    """Partitions without a leader have nobody to be asked."""
    found: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic in topics:
        for number, leader in topic.leaders.items():
            if leader >= 0:
                found[leader][topic.name].append(number)
    return found
