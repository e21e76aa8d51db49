"""What comes out of a topic, whatever was written into it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest
from aiokafka import TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.serving import Broker
from bridge.core.errors import Refused
from bridge.core.model import TOMBSTONE

if TYPE_CHECKING:
    from conftest import Cluster, Members

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[3]
MIB = 1 << 20


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs no settling is passed over every 0.2 s, and not every 5 s."""
    monkeypatch.setattr("connectors.kafka.producer._TIDY_EVERY", 0.2)


async def test_aborted_records_are_hidden_and_the_lag_reaches_zero(
    often: None, kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    """B12: markers and aborted records take offsets, and the last of them is never delivered."""
    name = await topic()
    await cluster.transact(name, [b"1", b"2", b"3"])
    await topics.send(kafka.bootstrap, name, [b"4", b"5", b"6"])
    await cluster.transact(name, [b"no", b"never"], abort=True)
    member = members(name, settles=True)
    await member.got(6)
    assert member.bodies == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert member.offsets == [0, 1, 2, 4, 5, 6]
    await member.reports(lag=0, lags={f"{name}/0": 0})
    await committed(kafka, members.group, name, {0: 10})  # behind the marker, for those who compare with the end
    await member.stays(6)


async def test_a_marker_is_passed_over_while_another_partition_is_busy(
    often: None, kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    name = await topic(partitions=2)
    await cluster.transact(name, [b"1"])
    member = members(name, settles=True)

    enough = asyncio.Event()

    async def write() -> None:
        for _ in range(200):
            await topics.send(kafka.bootstrap, name, [b"x"], partition=1)
            if enough.is_set():  # and not cancelled, which would leave a half-open connection behind
                return

    busy = asyncio.create_task(write())
    try:
        await member.until(lambda: member.report["lags"][f"{name}/0"] == 0 if member.events else None)
        assert not busy.done()
    finally:
        enough.set()
        await busy


async def test_nothing_is_passed_over_that_is_not_settled(
    often: None, kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    name = await topic()
    await cluster.transact(name, [b"1", b"2"])
    member = members(name)
    await member.settle((await member.got(2))[:1])
    await member.stays(2, seconds=1.5)  # an idle poll lasts a second
    assert (await topics.committed(kafka.bootstrap, members.group, name))[0][0] == 1
    assert member.report["lag"] == 2  # the second record and the marker


async def test_read_uncommitted_shows_aborted_records(topic: NewTopic, members: Members, cluster: Cluster) -> None:
    name = await topic()
    await cluster.transact(name, [b"no"], abort=True)
    await cluster.transact(name, [b"yes"])
    member = members(name, isolation="read_uncommitted")
    await member.stays(2)
    assert member.bodies == [b"no", b"yes"]


async def test_compaction_leaves_holes(kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster) -> None:
    name = await topic(
        cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms=100
    )
    await cluster.produce(name, *({"key": b"k%d" % (n % 2), "value": b"%d" % n} for n in range(6)))
    await asyncio.sleep(0.2)
    await cluster.produce(name, {"key": b"last", "value": b"last"})  # a new segment, so that the one before is cleaned

    async def is_compacted() -> bool:
        return [r.offset for r in await topics.read(kafka.bootstrap, name, 3)] == [4, 5, 6]

    async with asyncio.timeout(20):
        while not await is_compacted():  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    member = members(name, settles=True)
    await member.stays(3)
    assert member.offsets == [4, 5, 6]
    await member.reports(lag=0)


# Values, keys, headers, times ----------------------------------------------------------------------------------------

STRANGE = (
    {"value": None, "key": b"deleted"},
    {"value": b"after"},
    {"value": None, "key": None},
    {"value": b"null", "key": b"text"},
    {"value": b"", "key": b""},
    {"value": b"last", "key": None},
)


async def test_tombstones_are_left_out_and_counted(topic: NewTopic, members: Members, cluster: Cluster) -> None:
    """B11"""
    name = await topic()
    await cluster.produce(name, *STRANGE)
    member = members(name, settles=True)
    await member.got(4)
    assert member.bodies == [b"after", b"null", b"", b"last"]
    assert not any(event.body is TOMBSTONE for event in member.events)
    await member.reports(lag=0, tombstones=2)


async def test_tombstones_at_the_end_are_passed_over(
    often: None, kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    name = await topic()
    await cluster.produce(name, {"value": None, "key": b"a"}, {"value": None, "key": b"b"})
    member = members(name, settles=True)
    await member.reports(lag=0, tombstones=2)
    await committed(kafka, members.group, name, {0: 2})


async def test_tombstones_are_delivered_to_who_wants_them(topic: NewTopic, members: Members, cluster: Cluster) -> None:
    """B11: told from the text `null` and from nothing."""
    name = await topic()
    await cluster.produce(name, *STRANGE)
    member = members(name, tombstones="deliver")
    await member.got(6)
    metas = [member.producer.describe(event.payload) for event in member.events]
    assert [meta.tombstone for meta in metas] == [True, False, True, False, False, False]
    assert [event.body is TOMBSTONE for event in member.events] == [True, False, True, False, False, False]
    assert [meta.key for meta in metas] == [b"deleted", None, None, b"text", b"", None]
    identities = [member.producer.identity(event.payload) for event in member.events]
    assert len(set(identities)) == 6
    assert all(identity.startswith(f"{name}/0/{offset}/") for offset, identity in enumerate(identities))


async def test_a_record_that_can_t_be_taken_apart_is_told_with_its_place(
    kafka: Broker, topic: NewTopic, members: Members
) -> None:
    """The name of a header that is no UTF-8, which the client does not take."""
    name = await topic(partitions=2)
    await topics.send(kafka.bootstrap, name, [b"good"] * 3, partition=1)
    await write_with_header(kafka.bootstrap, TopicPartition(name, 1), b"n\xffme")
    error = await members(name).ended()
    assert isinstance(error, Refused)
    assert f"a record in {name}/1 from offset 3 on can't be taken apart (UnicodeDecodeError" in str(error)
    assert (await topics.committed(kafka.bootstrap, members.group, name))[1][0] == 0


async def write_with_header(bootstrap: str, partition: TopicPartition, header: bytes) -> None:
    """A record whose header has a name that no producer writes."""
    stand_in = "x" * len(header)
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 10_000)
    batch.append(0, 0, None, b"bad", [(stand_in, b"")])
    wire = bytearray(bytes(batch.build()).replace(stand_in.encode(), header))
    wire[17:21] = calc_crc32c(bytes(wire[21:])).to_bytes(4, "big")
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    try:
        await client.bootstrap()
        place = [(partition.topic, [(partition.partition, bytes(wire))])]
        [node] = client.cluster.brokers()
        answer = await client.send(node.nodeId, ProduceRequest(None, -1, 5000, place))
        assert answer.topics[0][1][0][1] == 0
    finally:
        await client.close()


async def test_headers_keep_their_order_their_nulls_and_equal_names(
    topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    name = await topic(retention_ms=-1)
    headers = [("a", b"1"), ("b", None), ("a", b"\xff\xfe"), ("", b""), ("naïve", b"2")]
    await cluster.produce(name, {"value": b"x", "headers": headers, "timestamp_ms": 1_234_567_890_123})
    member = members(name, isolation="read_uncommitted")
    [event] = await member.got(1)
    meta = member.producer.describe(event.payload)
    assert meta.headers == tuple(headers)
    assert meta.timestamp == 1_234_567_890.123
    assert meta.position == f"{name}[0]@0"
    assert member.producer.identity(event.payload) == f"{name}/0/0/1234567890123"


async def test_every_compression_is_read(kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster) -> None:
    name = await topic()
    kinds = ["gzip", "snappy", "lz4", "zstd"]
    for kind in kinds:
        values = [{"value": kind.encode() * 100} for _ in range(5)]
        await cluster.produce(name, *values, compression_type=kind)
    member = members(name)
    await member.got(20)
    assert member.bodies == [kind.encode() * 100 for kind in kinds for _ in range(5)]


async def test_a_codec_that_is_missing_is_named_and_nothing_is_committed(
    kafka: Broker, topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    """B16, in a process of its own that can't import the package."""
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"plain"])
    await cluster.produce(name, {"value": b"z" * 1000}, compression_type="zstd")
    code = f"""
        import sys
        sys.modules["cramjam"] = None  # as if it were not installed
        import asyncio
        from connectors.kafka.options import KafkaOptions
        from connectors.kafka.producer import KafkaProducer

        async def main():
            options = KafkaOptions(bootstrap_servers=["{kafka.bootstrap}"], group_id="{members.group}",
                                   topics=["{name}"], start="earliest")
            producer = KafkaProducer(options)
            try:
                async with asyncio.timeout(20):
                    async for poll in producer.open_batches():
                        print("read", poll.bodies)
            except Exception as error:
                print(type(error).__name__, error)
            await producer.aclose()

        asyncio.run(main())
    """
    run = [sys.executable, "-c", dedent(code)]
    done = await asyncio.to_thread(
        subprocess.run, run, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert "Refused" in done.stdout, done.stdout + done.stderr
    assert "zstd" in done.stdout
    assert "pip install" in done.stdout
    assert (await topics.committed(kafka.bootstrap, members.group, name))[0][0] <= 1


async def test_a_record_above_the_fetch_limit_is_read_all_the_same(
    topic: NewTopic, members: Members, cluster: Cluster
) -> None:
    """B17"""
    name = await topic(max_message_bytes=4 * MIB)
    sizes = [10_240, 3 * MIB, 10_240]
    await cluster.produce(name, *({"value": b"x" * size} for size in sizes), max_request_size=4 * MIB)
    member = members(name, max_partition_fetch_bytes=MIB, fetch_max_bytes=MIB)
    await member.got(3)
    assert [len(body) for body in member.bodies] == sizes


async def test_a_poll_holds_no_more_than_it_may(kafka: Broker, topic: NewTopic, members: Members) -> None:
    name = await topic(partitions=3)
    for number in range(3):
        await topics.send(kafka.bootstrap, name, [b"%d" % n for n in range(50)], partition=number)
    member = members(name, poll_records=20)
    await member.got(150)
    assert member.polls >= 8
    for number in range(3):
        assert [e.offset for e in member.events if e.lane == TopicPartition(name, number)] == list(range(50))


async def committed(kafka: Broker, group: str, topic: str, wanted: dict[int, int]) -> None:
    """What the group's coordinator has, once it is that."""
    found: dict[int, int] = {}
    try:
        async with asyncio.timeout(10):
            while found != wanted:
                offsets = await topics.committed(kafka.bootstrap, group, topic)
                found = {partition: offset for partition, (offset, _) in offsets.items()}
    except TimeoutError:
        raise AssertionError(f"committed are {found}, and not {wanted}") from None
