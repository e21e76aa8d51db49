"""`headrace validate --connect`: a look at the real cluster. It takes nothing, joins nothing and makes nothing.

One step after the other, each on what the one before has found; a step that fails is a finding, and the next goes on
where it can. All of it is over within `WITHIN` seconds.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import GroupAuthorizationFailedError, KafkaError

from bridge.core.errors import HeadraceError
from bridge.ports import Finding
from connectors.kafka import judging
from connectors.kafka.cluster import EARLIEST, LATEST, Cluster, Topic, closed, cluster_of
from connectors.kafka.codecs import codec_warning, missing_codecs
from connectors.kafka.judging import error, warning
from connectors.kafka.options import KafkaOptions
from connectors.kafka.probing import explained, parts_of, probe
from connectors.kafka.security import client_settings, protocol_of

WITHIN: Final = 20.0
_REQUEST_MS: Final = 8000
_BROKERS_MOST: Final = 30


async def examine(options: KafkaOptions) -> list[Finding]:
    """What is wrong there, errors first. Never raises for anything that the cluster does."""
    look = _Look(options)
    try:
        async with asyncio.timeout(WITHIN):
            await look.take()
    except TimeoutError:
        look.found.append(
            error(
                f"the cluster has not answered everything within {WITHIN:g} s; the last question was: {look.doing}",
                "what follows it was not looked at: is a broker overloaded?",
            )
        )
    finally:
        await look.close()
    return sorted(look.found, key=lambda finding: finding.severity)


class _Look:
    """`found` grows; `doing` is what is being asked."""

    def __init__(self, options: KafkaOptions) -> None:
        self.found: list[Finding] = []
        self.doing = "who are the brokers"
        self._options = options
        self._client: AIOKafkaClient | None = None
        self._cluster: Cluster | None = None
        self._topics: dict[str, Topic] = {}
        self._others: list[str] = []  # those that are not read, too
        self._named: list[str] = []  # those that are to be read
        self._coordinator: int | None = None

    async def take(self) -> None:
        self._look_at_ourselves()
        await self._step("can the brokers be reached", self._connect)
        cluster = self._cluster
        if cluster is None:
            return
        await self._step("which brokers are there", self._look_at_brokers)
        await self._step("which topics are there", lambda: self._look_at_topics(cluster))
        await self._step("how are topics and brokers set", lambda: self._look_at_settings(cluster))
        await self._step("who is in the group", lambda: self._look_at_group(cluster))
        await self._step("where does the group stand", lambda: self._look_at_offsets(cluster))
        await self._step("may we write dead letters", lambda: self._look_at_writing(cluster))

    async def close(self) -> None:
        if self._client is not None:
            await closed(self._client)

    async def _step(self, doing: str, step: Callable[[], Awaitable[None]]) -> None:
        self.doing = doing
        try:
            await step()
        except (KafkaError, OSError, NotImplementedError) as failure:  # the last: the broker is too old for a request
            words = " ".join(str(failure).split()) or type(failure).__name__
            self.found.append(error(f"no answer to: {doing}? {words}", "what hangs on it was not looked at"))

    # Getting in ------------------------------------------------------------------------------------------------------

    def _look_at_ourselves(self) -> None:
        if said := codec_warning(missing_codecs()):
            self.found.append(warning(said))
        sasl = self._options.sasl
        if protocol_of(self._options) == "SASL_PLAINTEXT" and sasl is not None:
            secret = {"PLAIN": "the password", "OAUTHBEARER": "the token"}.get(
                sasl.mechanism, "everything but the password"
            )
            self.found.append(warning(f"{secret} travels in the clear: `sasl` without `tls`", "add `tls`"))

    async def _connect(self) -> None:
        """Over the brokers that answer."""
        try:
            settings = client_settings(self._options)
        except HeadraceError as failure:
            self.found.append(error(str(failure)))
            return
        servers: list[str] = settings["bootstrap_servers"]
        failures = await asyncio.gather(*(probe(settings, *parts_of(server)) for server in servers))
        reached = [server for server, failure in zip(servers, failures, strict=True) if failure is None]
        for server, why in zip(servers, failures, strict=True):
            if why is not None:
                finding = explained(why, f"`bootstrap_servers` {server}", self._options)
                self.found.append(finding._replace(severity="warning") if reached else finding)
        if not reached:
            return
        own = {**settings, "bootstrap_servers": reached, "request_timeout_ms": _REQUEST_MS}
        self._client = client = AIOKafkaClient(**own)
        await client.bootstrap()
        self._cluster = cluster_of(client, self._options)

    async def _look_at_brokers(self) -> None:
        """The names that brokers give themselves are those that clients connect to in the end."""
        assert self._client is not None
        settings = client_settings(self._options)
        brokers = sorted(self._client.cluster.brokers())[:_BROKERS_MOST]
        failures = await asyncio.gather(*(probe(settings, broker.host, broker.port) for broker in brokers))
        for broker, failure in zip(brokers, failures, strict=True):
            if failure is not None:
                finding = explained(failure, f"broker {broker.nodeId} at {broker.host}:{broker.port}", self._options)
                where = "clients are sent to this address by the cluster itself (advertised.listeners)"
                self.found.append(finding._replace(hint=f"{finding.hint}; {where}"))

    # Topics ----------------------------------------------------------------------------------------------------------

    async def _look_at_topics(self, cluster: Cluster) -> None:
        every = await cluster.topics(None)
        others = sorted(name for name, topic in every.items() if not topic.is_internal)
        pattern = self._options.topic_pattern
        if pattern is not None:
            self._named = [name for name in others if re.fullmatch(pattern, name)]
            self.found += judging.of_pattern(pattern, self._named, len(others))
        else:
            self._named = list(self._options.topics)
        dead = [] if self._options.dead_letter is None else [self._options.dead_letter.topic]
        self._others = [name for name in others if name not in dead]
        self._topics = await cluster.topics([*self._named, *dead]) if self._named or dead else {}
        for name in self._named:
            self.found += judging.of_topic(name, self._topics.get(name), self._others)
        await self._look_at_reading(cluster)

    @property
    def _read(self) -> list[Topic]:
        """Those to be read that are there."""
        found = (self._topics.get(name) for name in self._named)
        return [topic for topic in found if topic is not None and not topic.error]

    async def _look_at_reading(self, cluster: Cluster) -> None:
        ends = await cluster.offsets(self._read, LATEST)
        denied = await cluster.unreadable(self._read, ends)
        if denied:
            self.found.append(
                error(f"we may not read {judging.listed(denied)}", "grant Read on it to the user of this stream")
            )

    async def _look_at_settings(self, cluster: Cluster) -> None:
        names = [topic.name for topic in self._topics.values() if not topic.error]
        settings = await cluster.topic_settings(names)
        unseen = [name for name in names if name not in settings]
        if unseen:
            self.found.append(
                warning(
                    f"we may not see how {judging.listed(unseen)} is set up: compression, compaction and sizes were "
                    "not looked at",
                    "DescribeConfigs on it would show; nothing else needs it",
                )
            )
        missing = missing_codecs()
        for topic in self._read:
            self.found += judging.of_settings(topic.name, settings.get(topic.name, {}), self._options, missing)
        place = self._options.dead_letter
        if place is not None:
            dead = self._topics.get(place.topic)
            self.found += judging.of_dead_letters(self._options, dead, settings, self._others)
        self.found += judging.of_timeouts(self._options, await cluster.broker_settings())

    async def _look_at_writing(self, cluster: Cluster) -> None:
        place = self._options.dead_letter
        topic = self._topics.get(place.topic) if place is not None else None
        if topic is None or topic.error or not topic.leaders or await cluster.may_write(topic):
            return
        message = f"we may not write to {topic.name!r}, the topic for dead letters"
        self.found.append(error(message, "grant Write on it to the user of this stream"))

    # The group -------------------------------------------------------------------------------------------------------

    async def _look_at_group(self, cluster: Cluster) -> None:
        group = self._options.group_id
        denied = error(f"we may not join group {group!r}", "grant Read and Describe on it to the user of this stream")
        try:
            self._coordinator = coordinator = await cluster.coordinator(group)
        except GroupAuthorizationFailedError:
            self.found.append(denied)
            return
        if not await cluster.may_join(group, coordinator):
            self.found.append(denied)
        seen = await cluster.group(group, coordinator)
        is_listed = seen.state == "Dead" and await cluster.is_listed(group, coordinator)
        named = frozenset(self._named)
        self.found += judging.of_group(self._options, seen, named, is_listed=is_listed)

    async def _look_at_offsets(self, cluster: Cluster) -> None:
        if self._coordinator is None:
            return
        partitions = [partition for topic in self._read for partition in topic.partitions]
        if not partitions:
            return
        committed = await cluster.committed(self._options.group_id, self._coordinator, partitions)
        begins = await cluster.offsets(self._read, EARLIEST)
        ends = await cluster.offsets(self._read, LATEST)
        self.found += judging.of_offsets(self._options, committed, begins, ends)
