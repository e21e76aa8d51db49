"""Brokers for tests, as fixtures: a pytest plugin that `tests/conftest.py` names.

    async def test_x(kafka: Broker, topic: NewTopic) -> None:
        name = await topic(partitions=4, retention_ms=1000)      # a random name; has leaders when it returns
        consumer = AIOKafkaConsumer(name, bootstrap_servers=kafka.bootstrap, ...)

`kafka` (session) is the shared broker of this run or xdist worker: never stop it, use random topics and groups. It
comes from the first of `given` (HEADRACE_KAFKA=host:port), `containers`, `local` that works; HEADRACE_BROKERS names
the only one to try. `kafka.bootstrap` is all most tests need. No broker at all skips the test, loudly; where
HEADRACE_REQUIRED_BROKERS (as CI sets it: `local,containers`) promises one, it fails.

`topic` makes topics on `kafka`: `await topic(...)`, or `topic.now(...)` in tests without a loop.

`own_kafka` (one test) is a local Kafka that the test may `stop()`, `kill()`, `freeze()`/`thaw()`, `start()`,
`restart()`: port and data stay. 3 s to make. `three_kafkas` (one test): `.bootstrap`, `.node(2).kill()`, topics with
replication 3 and two in-sync replicas. 6 s. These block the loop while they work; `await asyncio.to_thread(k.restart)`
where that matters.

`proxied_kafka` (one test) is the shared broker behind a TCP proxy: `.bootstrap` to give to the program, and `.cut()`,
`.restore()`, `.stall()`, `.resume()`, `.delay = 0.2`, from any thread. Much cheaper than killing a broker of one's own.
The test's own clients go on using `kafka.bootstrap`. For an own broker:
`with Proxy(own_kafka.proxied_port, own_kafka.behind_proxy) as proxy: ... proxy.bootstrap`.

`secured_kafka` (session) has TLS, SASL and an authorizer: see bench/brokers/secured.py.

bench/brokers/topics.py makes topics, writes, reads and shows commits, each as a coroutine; `apart(coroutine)` runs one
from a test without a loop: `apart(topics.send(kafka.bootstrap, name, [b"1", b"2"]))`.

The end of the test report says which source served which broker, and what was skipped for want of one.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from bench.brokers import topics
from bench.brokers.choosing import or_skip
from bench.brokers.endpoint import SOURCES
from bench.brokers.kafka import Kafka, ThreeKafkas
from bench.brokers.proxy import Proxy
from bench.brokers.report import told
from bench.brokers.secured import SecuredKafka
from bench.brokers.serving import Broker, kafka_in_container, serve_kafka

if TYPE_CHECKING:
    from bench.brokers.container import KafkaInContainer


class NewTopic:
    """Makes topics with random names that tell which test made them."""

    def __init__(self, bootstrap: str, test: str) -> None:
        self._bootstrap = bootstrap
        self._prefix = re.sub(r"[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:60].strip("-")
        self.made: list[str] = []

    async def __call__(self, partitions: int = 1, replication: int = 1, **config: str | int) -> str:
        name = f"{self._prefix}-{uuid4().hex[:8]}"
        self.made.append(name)
        await topics.create(self._bootstrap, name, partitions, replication, **config)
        return name

    def now(self, partitions: int = 1, replication: int = 1, **config: str | int) -> str:
        return topics.apart(self(partitions, replication, **config))


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The shared broker of this run."""
    folder = tmp_path_factory.mktemp("kafka")
    served = or_skip(request, "kafka", lambda: serve_kafka(folder / "shared"), *SOURCES)
    told(request.config).serves("kafka", served.broker.endpoint, served.passed_over)
    yield served.broker
    served.broker.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def topic(kafka: Broker, request: pytest.FixtureRequest) -> Iterator[NewTopic]:
    new = NewTopic(kafka.bootstrap, request.node.name)
    yield new
    if kafka.endpoint.source == "given" and new.made:  # any other goes away whole
        topics.apart(topics.delete(kafka.bootstrap, *new.made))


@pytest.fixture
def apache(kafka: Broker) -> None:
    """For tests of what only a real Kafka does."""
    if not kafka.is_apache:
        pytest.skip(f"needs Apache Kafka, this is {kafka.endpoint.what}")


@pytest.fixture
def proxied_kafka(kafka: Broker, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """The shared broker, by a way that can be cut."""
    if not kafka.proxied_port:
        told(request.config).lacks("proxied_kafka", reason := f"{kafka.endpoint} has no second way in")
        pytest.skip(reason)
    with Proxy(kafka.proxied_port, kafka.behind_proxy) as proxy:
        yield proxy


@pytest.fixture(scope="session")
def secured_kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A second broker of the run, with locks. Local always: users and certificates are made with it."""
    folder = tmp_path_factory.mktemp("secured-kafka")
    broker = or_skip(request, "secured_kafka", lambda: SecuredKafka(folder), "local")
    try:
        or_skip(request, "secured_kafka", broker.start, "local")
        told(request.config).serves("secured_kafka", broker.endpoint)
        yield broker
    finally:
        broker.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def kafka_in_a_container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[KafkaInContainer]:
    """One of the test's own, running, whatever source serves the others."""
    name = "kafka_in_a_container"
    broker = or_skip(request, name, lambda: kafka_in_container(tmp_path / "kafka"), "containers")
    try:
        or_skip(request, name, broker.start, "containers")
        told(request.config).serves(name, broker.endpoint)
        yield broker
    finally:
        broker.close()


@pytest.fixture
def own_kafka(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kafka]:
    """A broker of the test's own, running."""
    broker = Kafka(tmp_path / "own-kafka")
    try:
        or_skip(request, "own_kafka", broker.start, "local")
        told(request.config).serves("own_kafka", broker.endpoint)
        yield broker
    finally:
        broker.close()
        shutil.rmtree(broker.folder, ignore_errors=True)


@pytest.fixture
def three_kafkas(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ThreeKafkas]:
    """A cluster of the test's own, running."""
    brokers = ThreeKafkas(tmp_path / "three-kafkas")
    try:
        or_skip(request, "three_kafkas", brokers.start, "local")
        told(request.config).serves("three_kafkas", brokers.brokers[0].endpoint)
        yield brokers
    finally:
        brokers.close()
        shutil.rmtree(tmp_path / "three-kafkas", ignore_errors=True)
