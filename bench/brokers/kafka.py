"""Apache Kafka as a process of ours: one JVM, broker and controller in one, without Docker.

Its whole life is in the hands of the test: start, stop (SIGTERM), kill (SIGKILL), freeze, restart with the same port
and data. One takes about 230 MB, and two or three seconds for its first start.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.jars import kafka_jars, kafka_version
from bench.brokers.processes import Leashed, answers, free_port
from bench.brokers.properties import Cluster, Listener, server_properties

STARTED = "Kafka Server started"
JAVA = ("java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.showDateTime=true")
START_WITHIN = 60.0
"""Seconds. Two or three are usual; a busy machine with several JVMs takes longer."""


class Kafka:
    """One broker in a folder. `bootstrap` stays the same for all its lives.

    `proxied` is a second way in, for tests that cut the connection: the broker tells clients that come by it to come
    back to `proxied_port`, and nobody listens there until a `Proxy(kafka.proxied_port, kafka.behind_proxy)` does.
    """

    is_apache = True

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        doors: Sequence[Listener] = (),
        settings: Mapping[str, str] | None = None,
        accounts: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        """`doors` beside the plain one; `settings` are added to the template, or win over it; `accounts` are SCRAM
        users as `kafka-storage --add-scram` takes them; `cluster` is for one of several brokers.
        """
        self.cluster = cluster or Cluster.of_one()
        self.port = port or free_port()
        self.proxied_port, self.behind_proxy = free_port(), free_port()
        self.folder = folder
        self._doors = [
            Listener("PLAINTEXT", self.port, self.port),
            Listener("PROXIED", self.behind_proxy, self.proxied_port),
            *doors,
        ]
        self._settings = dict(settings or {})
        self._accounts = accounts
        self._environment = environment
        self._process: Leashed | None = None
        self._began_at = 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def proxied(self) -> str:
        return f"127.0.0.1:{self.proxied_port}"

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint("kafka", "local", self.bootstrap, f"Apache Kafka {kafka_version()}, a JVM")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was never started"
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Returns when it takes requests; with `wait` false, call `wait_until_started` later. Its data are made with
        the first start.
        """
        assert not self.is_running, "it runs already"
        self._format()
        self._process = Leashed([*self._java, "kafka.Kafka", str(self._properties)], self._log, self._environment)
        if wait:
            self.wait_until_started()

    def wait_until_started(self, patience: float = START_WITHIN) -> None:
        """Until this life has said so in its log. Raises Unavailable with the end of the log."""
        assert self._process is not None
        ends_at = time.monotonic() + patience
        while STARTED not in self._this_life() or not answers("127.0.0.1", self.port):
            if not self._process.is_running:
                raise Unavailable(f"Kafka has ended while it started; its log ends:\n{self._process.tail()}")
            if time.monotonic() > ends_at:
                tail = self._process.tail()
                self.kill()
                raise Unavailable(f"Kafka has not started within {patience:.0f} s; its log ends:\n{tail}")
            time.sleep(0.05)

    def stop(self) -> None:
        """SIGTERM: it hands over what it leads and ends in its own time."""
        if self._process is not None:
            self._process.end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, with nothing flushed or said to anybody."""
        if self._process is not None:
            self._process.end(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: connections stay open and nothing answers. `thaw`, or kill it."""
        assert self._process is not None
        self._process.send(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send(signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    close = kill
    """For the end of a test: quick, and nobody needs the data."""

    @property
    def _java(self) -> list[str]:
        return [*JAVA, "-cp", f"{kafka_jars()}/*"]

    @property
    def _log(self) -> Path:
        return self.folder / "kafka.log"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _this_life(self) -> str:
        return self._log.read_bytes()[self._began_at :].decode(errors="replace")

    def _format(self) -> None:
        """Writes the configuration, and prepares the data folder if that was not done before."""
        self._began_at = self._log.stat().st_size if self._log.exists() else 0
        self._properties.write_text(server_properties(self.cluster, self._doors, self.folder / "data", self._settings))
        if (self.folder / "data" / "meta.properties").exists():
            return
        accounts = [word for account in self._accounts for word in ("--add-scram", account)]
        storage = ["kafka.tools.StorageTool", "format", "-t", self.cluster.id, "-c", str(self._properties), *accounts]
        done = subprocess.run([*self._java, *storage], capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise Unavailable(f"Kafka's data folder could not be made: {(done.stdout + done.stderr)[-1500:]}")


class ThreeKafkas:
    """Three brokers with replication 3 and two in-sync replicas: one can be lost and everything goes on."""

    def __init__(self, folder: Path) -> None:
        self.brokers = [Kafka(folder / f"node-{each.node}", cluster=each) for each in Cluster.of(3)]

    @property
    def bootstrap(self) -> str:
        """All three, with commas between them."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def node(self, number: int) -> Kafka:
        """By its node id, 1 to 3, as partitions name their leaders."""
        return self.brokers[number - 1]

    def start(self) -> None:
        """Together: the first of them alone would wait for a majority."""
        for broker in self.brokers:
            broker.start(wait=False)
        for broker in self.brokers:
            broker.wait_until_started()

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()
