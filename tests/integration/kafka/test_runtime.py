"""Kafka under the real runtime, with a store in memory: what is settled is what was stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.proxy import Proxy
from bench.brokers.serving import Broker
from bridge.core.commands import Limits
from bridge.core.errors import StoreUnavailable
from bridge.core.model import Plan
from bridge.core.retry import Backoff
from bridge.filters.router import Declared, FilterRouter
from bridge.language.reading.match import compile_match
from bridge.params.plans import compile_params
from bridge.ports import Receipt, Row
from bridge.runtime.clock import SystemClock
from bridge.runtime.persister import Persister
from bridge.runtime.supervisor import Services, StreamSpec, StreamSupervisor
from bridge.runtime.watchers import Watchers
from bridge.store.memory import MemoryStore
from connectors.kafka.options import KafkaOptions
from connectors.kafka.producer import KafkaProducer

if TYPE_CHECKING:
    from conftest import Members

pytestmark = pytest.mark.integration

BODY = b'{"n": 1}'
QUICK = Backoff(delay=0.02, factor=1.0, max=0.02, jitter=0.0)


class BlockedStore(MemoryStore):
    """Commits nothing while `is_away`."""

    is_away = False

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        if self.is_away:
            raise StoreUnavailable("it is away")
        return await super().commit(rows, commit_id)


class Bridge:
    """One stream with a watcher that takes everything."""

    def __init__(self, options: KafkaOptions, store: MemoryStore, limits: Limits) -> None:
        clock = SystemClock()
        declared = Declared(Plan("all", "asset", "target", "job"), compile_match({"n": 1}), compile_params({}))
        persister = Persister(store, clock, lambda: 0.0, QUICK)
        watchers = Watchers(lambda: 0.0, lambda: None)
        spec = StreamSpec(
            name="stream",
            key="kafka",
            source="kafka",
            producer=lambda: KafkaProducer(options),
            router=lambda disabled: FilterRouter([declared], max_body=1 << 20, disabled=disabled),
            watchers=(),
            declared=("all",),
            limits=limits,
            restart=QUICK,
        )
        services = Services(store, persister, watchers, clock, lambda: 0.0, lambda _: None)
        self.stream = StreamSupervisor(spec, services)
        self._watchers = watchers
        self._others = [asyncio.create_task(persister.run()), asyncio.create_task(watchers.watch())]
        self._polls = asyncio.create_task(self.stream.run())

    @property
    def outstanding(self) -> int:
        return self.stream.shell.core.outstanding if self.stream.shell is not None else 0

    @property
    def report(self) -> Any:
        return self.stream.shell.life.producer.report() if self.stream.shell is not None else {}  # type: ignore[attr-defined]

    async def stop(self) -> None:
        self._polls.cancel()
        with suppress(asyncio.CancelledError):
            await self._polls
        await self.stream.stop(10.0)
        for task in self._others:
            task.cancel()
        await asyncio.gather(*self._others, return_exceptions=True)
        self._watchers.stop()


@pytest.fixture
async def bridges() -> AsyncIterator[Any]:
    made: list[Bridge] = []

    def make(options: KafkaOptions, store: MemoryStore, **limits: Any) -> Bridge:
        made.append(Bridge(options, store, Limits(**{"advance_retry": QUICK, **limits})))
        return made[-1]

    yield make
    for bridge in made:
        await bridge.stop()


def keys(name: str, partitions: int, each: int) -> set[tuple[str, int, int]]:
    return {(name, number, offset) for number in range(partitions) for offset in range(each)}


def runs(store: MemoryStore) -> list[tuple[str, int, int]]:
    """(topic, partition, offset) of each run request."""
    found = [row.split("/") for row in store.tables.runs]
    return [(parts[2], int(parts[3]), int(parts[4])) for parts in found]


async def test_a_store_that_is_away_holds_the_stream_within_its_limit_and_loses_nothing(
    kafka: Broker, topic: NewTopic, members: Members, bridges: Any, until: Any
) -> None:
    """B14: 1,000 records of three partitions, while the store is away for longer than a session."""
    name = await topic(partitions=3)
    for number in range(3):
        await topics.send(kafka.bootstrap, name, [BODY] * 333, partition=number)
    store = BlockedStore()
    store.is_away = True
    options = members.options(name, session_timeout=1.5, heartbeat_interval=0.3, poll_records=10)
    bridge = bridges(options, store, max_outstanding=40)
    await until(lambda: bridge.outstanding >= 30)
    for _ in range(30):
        await asyncio.sleep(0.1)
        assert bridge.outstanding <= 40 + options.poll_records
    assert bridge.report["rebalances"] == 0
    assert all(at == 0 for at, _ in (await topics.committed(kafka.bootstrap, members.group, name)).values())
    store.is_away = False
    await until(lambda: len(store.tables.runs) == 999 and bridge.outstanding == 0, 20.0)
    assert set(runs(store)) == keys(name, 3, 333)
    assert bridge.stream.failures == 0
    found = await topics.committed(kafka.bootstrap, members.group, name)
    assert {at for at, _ in found.values()} == {333}
    assert all(text.startswith(f"headrace/1 {store.store_id} ") for _, text in found.values())


async def test_a_member_that_was_put_out_of_its_group_goes_on_by_itself(
    topic: NewTopic, kafka: Broker, proxied_kafka: Proxy, members: Members, bridges: Any, until: Any
) -> None:
    """B01: a lost session is neither a failure of the stream nor a second run of anything."""
    name = await topic(partitions=2)
    members.bootstrap = proxied_kafka.bootstrap
    store = BlockedStore()
    bridge = bridges(members.options(name, session_timeout=1.0, heartbeat_interval=0.2), store)
    for number in range(2):
        await topics.send(kafka.bootstrap, name, [BODY] * 10, partition=number)
    await until(lambda: len(store.tables.runs) == 20)
    store.is_away = True
    await topics.send(kafka.bootstrap, name, [BODY] * 10, partition=0)
    await until(lambda: bridge.outstanding == 10)
    proxied_kafka.stall()
    store.is_away = False  # what is settled now is refused when it gets there
    await asyncio.sleep(2.0)
    proxied_kafka.resume()
    await topics.send(kafka.bootstrap, name, [BODY] * 10, partition=1)
    await until(lambda: len(store.tables.runs) == 40 and bridge.outstanding == 0)
    assert set(runs(store)) == keys(name, 2, 20)
    assert bridge.stream.failures == 0

    async def is_settled() -> bool:
        found = await topics.committed(kafka.bootstrap, members.group, name)
        return {at for at, _ in found.values()} == {20}

    async with asyncio.timeout(10):
        while not await is_settled():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_two_instances_that_come_and_go_make_one_run_of_each_message(
    kafka: Broker, topic: NewTopic, members: Members, bridges: Any, until: Any
) -> None:
    name = await topic(partitions=4)
    store = MemoryStore()
    options = members.options(name, heartbeat_interval=0.1, poll_records=20)
    first = bridges(options, store)

    async def write() -> None:
        for _ in range(10):
            for number in range(4):
                await topics.send(kafka.bootstrap, name, [BODY] * 25, partition=number)

    writing = asyncio.create_task(write())
    for _ in range(5):
        second = bridges(options, store)
        await until(lambda s=second: len(s.report.get("lags", {})) == 2)
        await second.stop()
    await writing
    await until(lambda: len(store.tables.runs) == 1000 and first.outstanding == 0, 20.0)
    assert set(runs(store)) == keys(name, 4, 250)
    assert first.stream.failures == 0


async def test_a_cluster_that_is_out_of_reach_for_a_while_is_waited_for(
    kafka: Broker, topic: NewTopic, proxied_kafka: Proxy, members: Members, bridges: Any, until: Any
) -> None:
    name = await topic()
    members.bootstrap = proxied_kafka.bootstrap
    store = MemoryStore()
    bridge = bridges(members.options(name, request_timeout=2.0), store)
    await until(lambda: bridge.report.get("partitions") == 1)
    proxied_kafka.cut()
    await topics.send(kafka.bootstrap, name, [BODY] * 5)
    await asyncio.sleep(1.5)
    proxied_kafka.restore()
    await until(lambda: len(store.tables.runs) == 5)
    await topics.send(kafka.bootstrap, name, [BODY] * 5)
    await until(lambda: len(store.tables.runs) == 10)
