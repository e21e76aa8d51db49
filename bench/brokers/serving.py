"""Which broker serves: the first source that can, and what stood in the way of those before it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from bench.brokers.endpoint import BrokerEndpoint, Source, Unavailable, sources
from bench.brokers.jars import kafka_jars
from bench.brokers.kafka import Kafka
from bench.brokers.processes import answers
from bench.brokers.tansu import Tansu

if TYPE_CHECKING:
    from bench.brokers.container import KafkaInContainer


class Broker(Protocol):
    """A Kafka that tests share. `is_apache` false: something that speaks its protocol, and not all of it.

    `proxied_port` is 0 where there is no second way in.
    """

    is_apache: bool
    proxied_port: int
    behind_proxy: int

    @property
    def bootstrap(self) -> str: ...

    @property
    def endpoint(self) -> BrokerEndpoint: ...

    def close(self) -> None: ...


class Given:
    """Somebody else's broker, from HEADRACE_KAFKA."""

    is_apache = True
    proxied_port = 0
    behind_proxy = 0

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.endpoint = BrokerEndpoint("kafka", "given", bootstrap, "whatever answers there")

    def close(self) -> None:
        """It was here before us, and stays."""


class Served(Struct, frozen=True):
    """A broker, and for each source that was tried before, why it does not serve."""

    broker: Broker
    passed_over: dict[Source, str]


def serve_kafka(folder: Path, port: int | None = None) -> Served:
    """`port` for one of ours; by default a free one. Raises Unavailable with all reasons where no source can serve."""
    starts: dict[Source, Callable[[Path, int | None], Broker]] = {
        "given": _given,
        "containers": _contained,
        "local": _local,
    }
    reasons: dict[Source, str] = {}
    for source in sources():
        try:
            return Served(starts[source](folder, port), reasons)
        except Unavailable as error:
            reasons[source] = str(error)
    raise Unavailable("no Kafka: " + "; ".join(f"{source}: {why}" for source, why in reasons.items()))


def _given(folder: Path, port: int | None) -> Broker:
    bootstrap = os.environ.get("HEADRACE_KAFKA")
    if not bootstrap:
        raise Unavailable("HEADRACE_KAFKA is not set")
    host, _, number = bootstrap.split(",")[0].rpartition(":")
    if not number.isdigit() or not answers(host, int(number)):
        raise Unavailable(f"HEADRACE_KAFKA is {bootstrap!r}, and nothing answers there; it should be host:port")
    return Given(bootstrap)


def _contained(folder: Path, port: int | None) -> Broker:
    kafka = kafka_in_container(folder / "container", port)
    kafka.start()
    return kafka


def kafka_in_container(folder: Path, port: int | None = None) -> KafkaInContainer:
    """Not started. Raises Unavailable where there is no engine, no image, or no Testcontainers."""
    try:
        from bench.brokers.container import KafkaInContainer  # half a second, and an optional package
    except ImportError as error:
        raise Unavailable(f"Testcontainers is not installed: {error}") from error
    return KafkaInContainer(folder, port)


def _local(folder: Path, port: int | None) -> Broker:
    """Apache Kafka, or Tansu where there is no Java or Maven."""
    try:
        kafka_jars()
    except Unavailable as error:
        tansu = Tansu(folder / "tansu", port)
        try:
            tansu.start()
        except Unavailable as other:
            raise Unavailable(f"{error}; {other}") from other
        return tansu
    kafka = Kafka(folder / "kafka", port=port)
    try:
        kafka.start()
    except Unavailable:
        kafka.close()
        raise
    return kafka
