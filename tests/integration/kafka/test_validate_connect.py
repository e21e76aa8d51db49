"""`validate --connect` on a real cluster: each finding is caused, and seen with what to do about it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from bench.brokers import topics
from bench.brokers.fixtures import NewTopic
from bench.brokers.secured import SecuredKafka, token
from bench.brokers.serving import Broker
from bridge.core.errors import Transient
from bridge.ports import Finding
from connectors.kafka.cluster import connected
from connectors.kafka.examine import examine
from connectors.kafka.options import DeadLetterTopic, KafkaOptions, Sasl, Tls, Token

pytestmark = pytest.mark.integration


def options_of(bootstrap: str, *names: str, **keys: Any) -> KafkaOptions:
    written: dict[str, Any] = {
        "bootstrap_servers": [bootstrap], "group_id": f"g-{uuid4().hex[:8]}", "topics": list(names), "start": "latest",
    }  # fmt: skip
    return KafkaOptions(**{**written, **keys})


async def found_by(options: KafkaOptions) -> list[Finding]:
    """But for the one about a single copy, which every topic of a cluster of one broker has."""
    began = time.monotonic()
    found = await examine(options)
    assert time.monotonic() - began < 21
    return [finding for finding in found if "replication factor 1" not in finding.message]


async def the_finding(options: KafkaOptions) -> Finding:
    found = await found_by(options)
    assert len(found) == 1, found
    return found[0]


@asynccontextmanager
async def member(bootstrap: str, group: str, *names: str, **settings: Any) -> AsyncIterator[None]:
    """Somebody else in the group, with partitions of its own."""
    consumer = AIOKafkaConsumer(
        *names, bootstrap_servers=bootstrap, group_id=group, client_id="somebody-else", **settings
    )
    try:
        await consumer.start()
        async with asyncio.timeout(15):
            while not consumer.assignment():  # noqa: ASYNC110  # a client tells nobody
                await asyncio.sleep(0.05)
        yield
    finally:
        await consumer.stop()


async def commit(bootstrap: str, group: str, partition: TopicPartition, offset: int) -> None:
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    try:
        await consumer.start()
        consumer.assign([partition])
        await consumer.commit({partition: offset})
    finally:
        await consumer.stop()


# Topics and the group ------------------------------------------------------------------------------------------------


async def test_a_stream_that_is_well_has_no_findings(kafka: Broker, topic: NewTopic) -> None:
    assert await found_by(options_of(kafka.bootstrap, await topic(partitions=2))) == []


async def test_one_copy_alone_is_a_warning(kafka: Broker, topic: NewTopic) -> None:
    found = await examine(options_of(kafka.bootstrap, await topic()))
    assert [(f.severity, "replication factor 1" in f.message) for f in found] == [("warning", True)]


async def test_an_unknown_topic_is_an_error_and_is_not_made(kafka: Broker, topic: NewTopic) -> None:
    name = await topic()
    found = await the_finding(options_of(kafka.bootstrap, f"{name}x"))
    assert (found.severity, found.message) == ("error", f"there is no topic '{name}x'")
    assert repr(name) in found.hint
    async with topics.admin(kafka.bootstrap) as admin:
        assert f"{name}x" not in await admin.list_topics()


async def test_a_pattern_that_fits_nothing_is_a_warning(kafka: Broker) -> None:
    found = await the_finding(options_of(kafka.bootstrap, topic_pattern=f"{uuid4().hex}.*"))
    assert found.severity == "warning"
    assert "fits none of the" in found.message


async def test_a_first_start_without_start_counts_what_each_choice_means(kafka: Broker, topic: NewTopic) -> None:
    name = await topic(partitions=2)
    await topics.send(kafka.bootstrap, name, [b"x"] * 7)
    found = await the_finding(options_of(kafka.bootstrap, name, start=None))
    assert found.severity == "error"
    assert "`start: earliest` means 7 records" in found.hint


async def test_a_gap_of_retention_is_told_with_its_range(kafka: Broker, topic: NewTopic) -> None:
    name = await topic()
    await topics.send(kafka.bootstrap, name, [b"x"] * 20)
    options = options_of(kafka.bootstrap, name, start=None)
    partition = TopicPartition(name, 0)
    await commit(kafka.bootstrap, options.group_id, partition, 5)
    assert await found_by(options) == []
    async with topics.admin(kafka.bootstrap) as admin:
        await admin.delete_records({partition: RecordsToDelete(12)})
    found = await the_finding(options)
    assert found.severity == "warning"
    assert f"7 records were deleted before group '{options.group_id}' has read them: {name}/0 from offset 5 to 11" in (
        found.message
    )


async def test_an_offset_behind_the_end_is_an_error(kafka: Broker, topic: NewTopic) -> None:
    options = options_of(kafka.bootstrap, await topic())
    await commit(kafka.bootstrap, options.group_id, TopicPartition(options.topics[0], 0), 900)
    assert "stands at offset 900" in (await the_finding(options)).message


async def test_a_group_with_another_subscription_is_an_error(kafka: Broker, topic: NewTopic) -> None:
    mine, other = await topic(), await topic()
    options = options_of(kafka.bootstrap, mine)
    async with member(kafka.bootstrap, options.group_id, other):
        found = await the_finding(options)
    assert found.severity == "error"
    assert re.search(rf"somebody-else on \S+ reads {other}, and this stream {mine}", found.message)


async def test_an_instance_that_runs_is_no_finding(kafka: Broker, topic: NewTopic) -> None:
    options = options_of(kafka.bootstrap, await topic())
    async with member(kafka.bootstrap, options.group_id, *options.topics):
        assert await found_by(options) == []


async def test_members_that_share_partitions_otherwise_are_an_error(kafka: Broker, topic: NewTopic) -> None:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor

    options = options_of(kafka.bootstrap, await topic())
    ways = (RangePartitionAssignor,)
    async with member(kafka.bootstrap, options.group_id, *options.topics, partition_assignment_strategy=ways):
        assert "share partitions by 'range'" in (await the_finding(options)).message


async def test_a_session_timeout_that_the_brokers_refuse_is_an_error(kafka: Broker, topic: NewTopic) -> None:
    options = options_of(kafka.bootstrap, await topic(), session_timeout=7200.0)
    found = await the_finding(options)
    assert (found.severity, "at most 30m (group.max.session.timeout.ms)" in found.message) == ("error", True)


async def test_a_compacted_topic_is_a_warning(kafka: Broker, topic: NewTopic) -> None:
    found = await the_finding(options_of(kafka.bootstrap, await topic(cleanup_policy="compact")))
    assert (found.severity, "is compacted" in found.message) == ("warning", True)


async def test_the_topic_for_dead_letters_must_be_there_and_large_enough(kafka: Broker, topic: NewTopic) -> None:
    name, small = await topic(), await topic(max_message_bytes=2000)
    place = DeadLetterTopic(topic=f"{name}-dead")
    assert "for dead letters" in (await the_finding(options_of(kafka.bootstrap, name, dead_letter=place))).message
    made = DeadLetterTopic(topic=f"{name}-dead", create=True)
    assert await found_by(options_of(kafka.bootstrap, name, dead_letter=made)) == []
    found = await the_finding(options_of(kafka.bootstrap, name, dead_letter=DeadLetterTopic(topic=small)))
    assert (found.severity, "takes 2000B at most" in found.message) == ("warning", True)


async def test_looking_writes_nothing_and_joins_nothing(kafka: Broker, topic: NewTopic) -> None:
    name, dead = await topic(), await topic()
    options = options_of(kafka.bootstrap, name, dead_letter=DeadLetterTopic(topic=dead))
    assert await found_by(options) == []
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka.bootstrap)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    try:
        await consumer.start()
        await admin.start()
        ends = await consumer.end_offsets([TopicPartition(name, 0), TopicPartition(dead, 0)])
        assert set(ends.values()) == {0}
        assert options.group_id not in [listed[0] for listed in await admin.list_consumer_groups()]
    finally:
        await consumer.stop()
        await admin.close()


# Getting in ----------------------------------------------------------------------------------------------------------


async def test_a_broker_that_is_not_there_is_an_error_and_one_of_several_a_warning(
    kafka: Broker, topic: NewTopic
) -> None:
    found = await found_by(options_of("127.0.0.1:1", "orders"))
    assert [(f.severity, "nobody listens there" in f.message) for f in found] == [("error", True)]
    servers = ["127.0.0.1:1", kafka.bootstrap]
    found = await found_by(options_of(kafka.bootstrap, await topic(), bootstrap_servers=servers))
    assert [(f.severity, "127.0.0.1:1" in f.message) for f in found] == [("warning", True)]


async def test_what_listens_there_and_is_no_kafka_does_not_hold_us_up() -> None:
    ended = asyncio.Semaphore(0)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until we go
        writer.close()
        await writer.wait_closed()
        ended.release()

    async def talkative(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        ended.release()

    async with (
        await asyncio.start_server(silent, "127.0.0.1", 0) as one,
        await asyncio.start_server(talkative, "127.0.0.1", 0) as other,
    ):
        servers = [f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in (one, other)]
        found = await found_by(options_of(servers[0], "orders", bootstrap_servers=servers))
        assert [finding.severity for finding in found] == ["error", "error"]
        assert any("no answer within 6 s" in finding.message for finding in found)
        async with asyncio.timeout(5):
            await ended.acquire()
            await ended.acquire()


@pytest.mark.parametrize(
    ("door", "keys", "what"),
    [
        ("tls", {}, "opened with PLAINTEXT"),
        ("sasl", {}, "opened with PLAINTEXT"),
        ("bootstrap", {"tls": Tls(verify=False)}, "opened with SSL"),
        ("tls", {"tls": Tls()}, "certificate is not accepted"),
        ("bootstrap", {"sasl": Sasl(mechanism="PLAIN", username="reader", password="x")}, "asks for no SASL"),
        ("sasl", {"sasl": Sasl(mechanism="PLAIN", username="reader", password="wr0ng-one")}, "we are not let in"),
        (
            "sasl",
            {"sasl": Sasl(mechanism="SCRAM-SHA-512", username="reader", password="wr0ng-one")},
            "we are not let in",
        ),
    ],
)
async def test_what_keeps_us_out_is_told(secured_kafka: SecuredKafka, door: str, keys: Any, what: str) -> None:
    found = await examine(options_of(getattr(secured_kafka, door), "orders", **keys))
    errors = [finding for finding in found if finding.severity == "error"]
    assert len(errors) == 1, found
    assert what in errors[0].message
    assert errors[0].hint
    assert "wr0ng-one" not in repr(found)


async def test_a_password_in_the_clear_is_a_warning(secured_kafka: SecuredKafka) -> None:
    await secured_kafka.allow("reader", topic="none-such")
    user = Sasl(mechanism="PLAIN", username="reader", password=secured_kafka.passwords["reader"])
    found = await examine(options_of(secured_kafka.sasl, "none-such", sasl=user))
    assert [f.message for f in found if f.severity == "warning"] == [
        "the password travels in the clear: `sasl` without `tls`"
    ]


# Rights --------------------------------------------------------------------------------------------------------------


def user_of(kafka: SecuredKafka, name: str) -> dict[str, Any]:
    sasl = Sasl(mechanism="SCRAM-SHA-512", username=name, password=kafka.passwords[name])
    return {"sasl": sasl, "tls": Tls(ca_file=str(kafka.certificates.ca))}


async def test_missing_rights_are_told_one_by_one(secured_kafka: SecuredKafka) -> None:
    name, dead, group = (f"{what}-{uuid4().hex[:8]}" for what in ("orders", "dead", "group"))
    for each in (name, dead):
        await topics.create(secured_kafka.bootstrap, each)
    place = DeadLetterTopic(topic=dead)
    options = options_of(
        secured_kafka.sasl_tls, name, group_id=group, dead_letter=place, **user_of(secured_kafka, "reader")
    )

    def errors(found: list[Finding]) -> list[str]:
        return [finding.message for finding in found if finding.severity == "error"]

    said = errors(await examine(options))
    assert f"we may not look at topic {name!r}" in said
    assert f"we may not join group {group!r}" in said
    assert any(dead in message for message in said)

    await secured_kafka.allow("reader", "DESCRIBE", topic=name)
    await secured_kafka.allow("reader", "DESCRIBE", topic=dead)
    await secured_kafka.allow("reader", "DESCRIBE", group=group)
    said = errors(await examine(options))
    assert f"we may not read {name}" in said
    assert f"we may not write to {dead!r}, the topic for dead letters" in said
    assert f"we may not join group {group!r}" in said

    await secured_kafka.allow("reader", "READ", topic=name)
    await secured_kafka.allow("reader", "WRITE", topic=dead)
    await secured_kafka.allow("reader", "READ", group=group)
    found = await examine(options)
    assert errors(found) == []
    assert any("we may not see how" in finding.message for finding in found)  # DescribeConfigs, which nothing needs


PROVIDER = """
class Provider:
    def __init__(self, token):
        self.given = token
    async def token(self):
        return self.given
"""


async def test_a_token_opens_the_door_and_a_bad_one_does_not(
    secured_kafka: SecuredKafka, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_tokens.py").write_text(PROVIDER)
    monkeypatch.syspath_prepend(str(tmp_path))
    name, group = f"orders-{uuid4().hex[:8]}", f"group-{uuid4().hex[:8]}"
    await topics.create(secured_kafka.bootstrap, name)
    await secured_kafka.allow("reader", topic=name)
    await secured_kafka.allow("reader", group=group)

    async def errors(given: str) -> list[str]:
        sasl = Sasl(mechanism="OAUTHBEARER", token=Token(provider="own_tokens:Provider", kwargs={"token": given}))
        found = await examine(options_of(secured_kafka.sasl, name, group_id=group, sasl=sasl))
        assert given not in repr(found) or not given
        return [finding.message for finding in found if finding.severity == "error"]

    assert await errors(token("reader")) == []
    assert any("we are not let in" in message for message in await errors("no-such-token"))
    assert any("gave an empty token" in message for message in await errors(""))


STALE_ONCE = """
class StaleOnce:
    def __init__(self, tokens):
        self.tokens = tokens
    async def token(self):
        return self.tokens.pop(0)
"""


async def test_each_connection_has_a_token_of_its_own_and_a_stale_one_is_not_the_end(
    secured_kafka: SecuredKafka, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stale_tokens.py").write_text(STALE_ONCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    given = [token("reader", lifetime=-60), *(token("reader", lifetime=3600 + n) for n in range(20))]
    sasl = Sasl(mechanism="OAUTHBEARER", token=Token(provider="stale_tokens:StaleOnce", kwargs={"tokens": given}))
    options = options_of(secured_kafka.sasl, "orders", sasl=sasl)
    left = [len(given)]
    with pytest.raises(Transient, match=r"the token was refused|now it can, try again"):
        async with connected(options):
            pass
    left.append(len(given))
    for _ in range(2):
        async with connected(options) as cluster:
            await cluster.topics([])
        left.append(len(given))
    assert left == sorted(set(left), reverse=True)  # each time some were asked for


async def test_a_listener_that_wants_our_certificate_says_so(secured_kafka: SecuredKafka) -> None:
    certificates = secured_kafka.certificates
    without = Tls(ca_file=str(certificates.ca))
    found = await examine(options_of(secured_kafka.mutual_tls, "orders", tls=without))
    assert "tls.cert_file" in found[0].hint
    with_it = Tls(
        ca_file=str(certificates.ca), cert_file=str(certificates.client), key_file=str(certificates.locked_key),
        key_password=certificates.password,
    )  # fmt: skip
    found = await examine(options_of(secured_kafka.mutual_tls, "orders", tls=with_it))
    assert "we may not look at topic 'orders'" in [finding.message for finding in found]
