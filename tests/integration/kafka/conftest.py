"""A Kafka stream driven as the runtime drives it, but with the test's own hand on what is settled and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from bench.brokers.kafka import Kafka
from bench.brokers.serving import Broker
from bridge.core.model import AdvanceBatch, AdvanceOutcome, Poll, outcome_of
from bridge.ports import Ledger
from connectors.kafka.lanes import Record, origin_of
from connectors.kafka.options import KafkaOptions
from connectors.kafka.producer import KafkaProducer

T = TypeVar("T")

PATIENCE = 15.0
ACKED, FAILED = outcome_of(1, 0, 0), outcome_of(0, 1, 0)


async def until(condition: Callable[[], T], within: float = PATIENCE, what: str = "") -> T:
    """Another process and real time are involved: waits for what must become true, and fails when it does not."""
    try:
        async with asyncio.timeout(within):
            while not (found := condition()):  # noqa: ASYNC110  # there is nobody who could set an event
                await asyncio.sleep(0.01)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {within} s: {what or 'the condition of the caller'}") from None


class Event(NamedTuple):
    """One message as it came out of a poll."""

    lane: TopicPartition
    offset: int
    body: bytes
    payload: Record
    epoch: int | None


class Ownership:
    """The core's side of rebalances (`bridge.ports.Lanes`). `resolved` is what a revoke takes along."""

    def __init__(self) -> None:
        self.epochs: dict[Hashable, int] = {}
        self.resolved: dict[Hashable, list[Record]] = {}
        self.revocations: list[list[Hashable]] = []
        self._last = 0

    def assigned(self, lane: Hashable) -> int:
        self._last += 1
        self.epochs[lane] = self._last
        self.resolved.pop(lane, None)
        return self._last

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        self.revocations.append(list(lanes))
        for lane in lanes:
            self.epochs.pop(lane, None)
        taken = [(lane, self.resolved.pop(lane, [])) for lane in lanes]
        return [(lane, batch_of([(ACKED, payloads)])) for lane, payloads in taken if payloads]


def batch_of(runs: Sequence[tuple[AdvanceOutcome, list[Record]]]) -> AdvanceBatch:
    return AdvanceBatch([*runs], sum(len(payloads) for _, payloads in runs))


class Member:
    """One life of a producer. What it gives is in `events`; it is settled at once if `settles`, else by `settle`.

    `failure` is what ended its polls; waiting for anything else raises it.
    """

    def __init__(self, options: KafkaOptions, ledger: Ledger | None, *, settles: bool) -> None:
        self.options = options
        self.ownership = Ownership()
        self.producer = KafkaProducer(options)
        self.events: list[Event] = []
        self.polls = 0
        self.failure: Exception | None = None
        self._settles = settles
        self._pulls = asyncio.Event()
        self._pulls.set()
        self.producer.take_lanes(self.ownership)
        if ledger is not None:
            self.producer.take_ledger(ledger)
        self.task = asyncio.create_task(self._pull(), name="pull")

    async def _pull(self) -> None:
        try:
            async with aclosing(self.producer.open_batches()) as polls:
                async for poll in polls:
                    self.polls += 1
                    new = list(_events(poll))
                    self.events += new
                    if self._settles:
                        await self.settle(new)
                    await self._pulls.wait()
        except Exception as error:
            self.failure = error

    def stop_pulling(self) -> None:
        """As the runtime does with a stream at its bound."""
        self._pulls.clear()

    def go_on_pulling(self) -> None:
        self._pulls.set()

    async def settle(self, events: Iterable[Event], outcome: AdvanceOutcome = ACKED) -> None:
        """One call for all lanes, as when everything has become ready at once."""
        lanes: dict[Hashable, list[Record]] = {}
        for event in events:
            lanes.setdefault(event.lane, []).append(event.payload)
        await self.producer.advance_lanes([(lane, batch_of([(outcome, got)])) for lane, got in lanes.items()])

    async def fail(self, event: Event) -> None:
        await self.settle([event], FAILED)

    # Waiting ---------------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], T], within: float = PATIENCE, what: str = "") -> T:
        def checked() -> T:
            if self.failure is not None:
                raise self.failure
            return condition()

        return await until(checked, within, what)

    async def has(self, *partitions: TopicPartition, within: float = PATIENCE) -> None:
        """Exactly these are its own, and taken over."""
        await self.until(lambda: set(self.ownership.epochs) == set(partitions), within, f"has {partitions}")

    async def got(self, count: int, within: float = PATIENCE) -> list[Event]:
        """All that came, once it is so many."""
        await self.until(lambda: len(self.events) >= count, within, f"{count} events, and got {len(self.events)}")
        return self.events

    async def stays(self, count: int, seconds: float = 0.4) -> None:
        """So many came, and no more do."""
        await self.got(count)
        await asyncio.sleep(seconds)
        assert [event.body for event in self.events[count:]] == []

    async def ended(self, within: float = PATIENCE) -> Exception:
        """What it failed with."""
        await until(lambda: self.failure, within, "its polls fail")
        assert self.failure is not None
        return self.failure

    async def reports(self, within: float = PATIENCE, **wanted: object) -> Mapping[str, Any]:
        def agrees() -> bool:
            report = self.producer.report()
            return all(report.get(name) == value for name, value in wanted.items())

        await self.until(agrees, within, f"a report with {wanted}, the last is {self.producer.report()}")
        return self.producer.report()

    @property
    def report(self) -> Any:
        return self.producer.report()

    @property
    def bodies(self) -> list[bytes]:
        return [event.body for event in self.events]

    @property
    def offsets(self) -> list[int]:
        return [event.offset for event in self.events]

    async def close(self) -> None:
        """As the runtime does: the poll ends first."""
        self.task.cancel()
        await asyncio.wait({self.task})
        await self.producer.aclose()

    async def die(self) -> None:
        """As after a kill -9: the group is not left, so it waits for the session to end."""
        members = self.producer._members
        consumer: Any = self.producer._consumer
        assert members is not None
        consumer._coordinator._group_instance_id = "dies"  # static members leave nothing when they close
        await self.close()


def _events(poll: Poll) -> Iterable[Event]:
    for piece in poll.slices:
        for index in range(piece.start, piece.stop):
            record = poll.payloads[index]
            yield Event(piece.lane, record.offset, poll.bodies[index], record, piece.epoch)  # type: ignore[arg-type]


class Members:
    """Makes them, and closes those that are left. `group` is one of the test's own."""

    def __init__(self, bootstrap: str, stack: AsyncExitStack) -> None:
        self.bootstrap = bootstrap
        self.group = f"group-{uuid4().hex[:8]}"
        self._stack = stack

    def options(self, *topics: str, **changes: Any) -> KafkaOptions:
        """Quick ones."""
        quick: dict[str, Any] = {
            "bootstrap_servers": [self.bootstrap], "group_id": self.group, "topics": list(topics), "start": "earliest",
            "session_timeout": 6.0, "heartbeat_interval": 0.2, "rebalance_timeout": 10.0, "request_timeout": 10.0,
            "discovery": 1.0, "fetch_max_wait": 0.1,
        }  # fmt: skip
        return KafkaOptions(**{**quick, **changes})

    def __call__(self, *topics: str, ledger: Ledger | None = None, settles: bool = False, **changes: Any) -> Member:
        """Begins to open; `has`, `got` or `ended` wait for what comes of it."""
        member = Member(self.options(*topics, **changes), ledger, settles=settles)
        self._stack.push_async_callback(member.close)
        return member


@pytest.fixture
async def members(kafka: Broker) -> AsyncIterator[Members]:
    async with AsyncExitStack() as stack:
        yield Members(kafka.bootstrap, stack)


@pytest.fixture(name="until")
def until_fixture() -> Any:
    return until


# What others do to a cluster -----------------------------------------------------------------------------------------


class Cluster:
    """Beside `bench.brokers.topics`, what these tests do to the cluster and look at in it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """As a tool does that resets offsets while nobody is in the group."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False)
        try:
            await consumer.start()
            consumer.assign(list(offsets))
            await consumer.commit({p: OffsetAndMetadata(offset, metadata) for p, offset in offsets.items()})
        finally:
            await consumer.stop()

    async def delete_before(self, partition: TopicPartition, offset: int) -> None:
        """What retention does, at once."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            await admin.start()
            await admin.delete_records({partition: RecordsToDelete(offset)})
        finally:
            await admin.close()

    async def produce(self, topic: str, *records: Mapping[str, Any], partition: int = 0, **settings: Any) -> None:
        """Records in order, in one batch: `value`, `key`, `headers`, `timestamp_ms`; `partition` is that of all."""
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all", **settings)
        try:
            await producer.start()
            batch = producer.create_batch()
            for record in records:
                known = {"timestamp": record.get("timestamp_ms"), "key": record.get("key"), "value": record["value"]}
                if batch.append(headers=record.get("headers", []), **known) is None:  # it is full
                    await (await producer.send_batch(batch, topic, partition=partition))
                    batch = producer.create_batch()
                    batch.append(headers=record.get("headers", []), **known)
            await (await producer.send_batch(batch, topic, partition=partition))
        finally:
            await producer.stop()

    async def transact(self, topic: str, bodies: Sequence[bytes], *, abort: bool = False, partition: int = 0) -> None:
        """Returns when its marker is written, which takes one offset more."""
        place = TopicPartition(topic, partition)
        ends = await self.end(place) + len(bodies) + 1
        producer = AIOKafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=f"tx-{uuid4().hex[:8]}")
        try:
            await producer.start()
            await producer.begin_transaction()
            for body in bodies:
                await producer.send_and_wait(topic, body, partition=partition)
            await (producer.abort_transaction() if abort else producer.commit_transaction())
        finally:
            await producer.stop()
        async with asyncio.timeout(PATIENCE):
            while await self.end(place) < ends:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def end(self, partition: TopicPartition) -> int:
        """The offset of the next record that is written."""
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap)
        try:
            await consumer.start()
            return int((await consumer.end_offsets([partition]))[partition])
        finally:
            await consumer.stop()


@pytest.fixture
def cluster(kafka: Broker) -> Cluster:
    return Cluster(kafka.bootstrap)


@pytest.fixture(name="origin_of")
def origin_of_fixture() -> Any:
    return origin_of


@pytest.fixture(scope="session")
def own_auto_create(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """A broker that makes topics when they are asked for, which is Kafka's default."""
    broker = Kafka(tmp_path_factory.mktemp("auto-create"), settings={"auto.create.topics.enable": "true"})
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
