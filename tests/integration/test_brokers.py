"""The brokers of the tests themselves: real processes, started, killed, cut off."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import TopicAuthorizationFailedError
from aiokafka.helpers import create_ssl_context

from bench.brokers import topics
from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.fixtures import NewTopic
from bench.brokers.kafka import Kafka, ThreeKafkas
from bench.brokers.processes import free_port
from bench.brokers.proxy import Proxy
from bench.brokers.report import Told
from bench.brokers.secured import SecuredKafka, token
from bench.brokers.serving import Broker, serve_kafka
from bench.brokers.tansu import Tansu

if TYPE_CHECKING:
    from bench.brokers.container import KafkaInContainer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


async def test_the_shared_broker_keeps_what_is_written(kafka: Broker, topic: NewTopic) -> None:
    name = await topic(partitions=2)
    await topics.send(kafka.bootstrap, name, [b"one", b"two"], partition=1)
    found = await topics.read(kafka.bootstrap, name, 2)
    assert [(record.partition, record.offset, record.value) for record in found] == [(1, 0, b"one"), (1, 1, b"two")]


def test_topics_are_made_without_a_loop_too(kafka: Broker, topic: NewTopic) -> None:
    assert topics.apart(topics.leader(kafka.bootstrap, topic.now())) >= 0


async def test_a_killed_broker_comes_back_with_port_and_data(own_kafka: Kafka) -> None:
    bootstrap = own_kafka.bootstrap
    await topics.create(bootstrap, "kept")
    await topics.send(bootstrap, "kept", [b"1"])
    await asyncio.to_thread(own_kafka.kill)
    assert not own_kafka.is_running
    await asyncio.to_thread(own_kafka.start)
    await asyncio.to_thread(own_kafka.restart)
    await topics.send(bootstrap, "kept", [b"2"])
    assert [record.value for record in await topics.read(bootstrap, "kept", 2)] == [b"1", b"2"]


async def test_a_container_serves_and_keeps_its_data_over_a_restart(kafka_in_a_container: KafkaInContainer) -> None:
    bootstrap = kafka_in_a_container.bootstrap
    await topics.create(bootstrap, "kept")
    await topics.send(bootstrap, "kept", [b"1"])
    await asyncio.to_thread(kafka_in_a_container.restart)
    await topics.send(bootstrap, "kept", [b"2"])
    assert [record.value for record in await topics.read(bootstrap, "kept", 2)] == [b"1", b"2"]


def test_tansu_starts_where_there_is_no_java(tmp_path: Path) -> None:
    """Installed with the first use; where that is impossible, the reason is told."""
    broker = Tansu(tmp_path)
    try:
        broker.start()
        topics.apart(topics.create(broker.bootstrap, "made"))
        topics.apart(topics.send(broker.bootstrap, "made", [b"1"]))
    finally:
        broker.close()


async def test_three_brokers_lose_one_and_go_on(three_kafkas: ThreeKafkas) -> None:
    bootstrap = three_kafkas.bootstrap
    await topics.create(bootstrap, "kept", replication=3)
    await topics.send(bootstrap, "kept", [b"1"])
    lost = await topics.leader(bootstrap, "kept")
    three_kafkas.node(lost).kill()
    await topics.send(bootstrap, "kept", [b"2"])
    assert [record.value for record in await topics.read(bootstrap, "kept", 2)] == [b"1", b"2"]
    assert await topics.leader(bootstrap, "kept") not in (lost, -1)


async def test_a_cut_connection_keeps_clients_out_until_it_is_restored(
    kafka: Broker, topic: NewTopic, proxied_kafka: Proxy
) -> None:
    name = await topic()
    await topics.send(proxied_kafka.bootstrap, name, [b"1"])
    proxied_kafka.cut()
    with pytest.raises(Exception, match="Unable to bootstrap"):
        await topics.send(proxied_kafka.bootstrap, name, [b"2"])
    proxied_kafka.restore()
    await topics.send(proxied_kafka.bootstrap, name, [b"3"])
    assert [record.value for record in await topics.read(kafka.bootstrap, name, 2)] == [b"1", b"3"]


class Bearer(AbstractTokenProvider):
    async def token(self) -> str:
        return token("reader")


DOORS: dict[str, dict[str, object]] = {
    "tls": {"security_protocol": "SSL"},
    "mutual_tls": {"security_protocol": "SSL"},
    "sasl": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
    "sasl_tls": {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"},
    "scram": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"},
    "bearer": {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Bearer(),
    },
}


@pytest.mark.parametrize("door", DOORS)
async def test_every_door_of_the_secured_broker_opens_with_its_key(secured_kafka: SecuredKafka, door: str) -> None:
    files = secured_kafka.certificates
    context = create_ssl_context(cafile=files.ca, certfile=files.client, keyfile=files.client_key)
    name = f"doors-{door}"
    await topics.create(secured_kafka.bootstrap, name)
    await secured_kafka.allow("CN=client" if door == "mutual_tls" else "reader", "WRITE", "DESCRIBE", topic=name)
    producer = AIOKafkaProducer(
        bootstrap_servers=getattr(secured_kafka, door, secured_kafka.sasl), ssl_context=context,
        sasl_plain_username="reader", sasl_plain_password=secured_kafka.passwords["reader"], **DOORS[door],
    )  # fmt: skip
    async with asyncio.timeout(20), producer:
        await producer.send_and_wait(name, b"1")


async def test_who_has_no_rights_is_refused(secured_kafka: SecuredKafka) -> None:
    await topics.create(secured_kafka.bootstrap, "refused")
    producer = AIOKafkaProducer(
        bootstrap_servers=secured_kafka.sasl, sasl_plain_username="nobody", sasl_mechanism="PLAIN",
        sasl_plain_password=secured_kafka.passwords["nobody"], security_protocol="SASL_PLAINTEXT",
    )  # fmt: skip
    async with asyncio.timeout(20), producer:
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("refused", b"1")


def test_a_broker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Even if that is killed: a forgotten broker would hold its memory and its port."""
    code = (
        "import pathlib, signal, sys; from bench.brokers.processes import Leashed;"
        "print(Leashed(['sleep', '60'], pathlib.Path(sys.argv[1])).pid, flush=True); signal.pause()"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "log")], cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner, owner.stdout as said:
        pid = int(said.readline())
        os.kill(pid, 0)
        owner.kill()
    ends_at = time.monotonic() + 10
    while _runs(pid):
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """A zombie that nobody has waited for yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # it has just gone, or this system has no /proc
        return not Path("/proc").exists()


def test_the_report_tells_what_served_and_loudly_what_was_skipped() -> None:
    told, worker = Told(), Told()
    endpoint = BrokerEndpoint("kafka", "local", "127.0.0.1:1", "a JVM")
    told.serves("kafka", endpoint, {"given": "not set", "containers": "no engine"})
    worker.serves("kafka", endpoint)
    worker.lacks("own_kafka", "no Java")
    told.add(worker.plain())
    assert told.lines() == [
        ("kafka: local (a JVM), 2 times", False),
        ("kafka: not containers: no engine", False),
        ("SKIPPED, own_kafka: no Java", True),
    ]


def test_what_was_asked_for_by_name_is_the_only_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_BROKERS", "given")
    monkeypatch.setenv("HEADRACE_KAFKA", f"127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable, match="nothing answers there; it should be host:port"):
        serve_kafka(tmp_path)
    monkeypatch.setenv("HEADRACE_BROKERS", "docker")
    with pytest.raises(ValueError, match="one of given, containers, local"):
        serve_kafka(tmp_path)
