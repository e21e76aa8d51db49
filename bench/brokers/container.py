"""Apache Kafka in a container, by Testcontainers: what `containers` means for it."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path, PurePosixPath
from typing import cast

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.engine import LABEL, UNANSWERED, engine, sweep
from bench.brokers.image import kafka_image
from bench.brokers.kafka import START_WITHIN, STARTED
from bench.brokers.processes import Leash, answers, free_port
from bench.brokers.properties import Cluster, Listener, server_properties

CONFIGURATION = "/mnt/shared/config"
DATA_FOLDER = PurePosixPath("/var/lib/kafka/data")


class KafkaInContainer:
    """The same broker as `Kafka`, with the same template. Its ports are chosen and published before it starts, since
    it must tell its clients where to come back to.
    """

    is_apache = True

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """Raises Unavailable where no engine answers or no image can be had."""
        self.client = engine()
        try:
            self.image = kafka_image(self.client)
        except Unavailable:
            self.client.client.close()
            raise
        self.port, self.proxied_port, self.behind_proxy = port or free_port(), free_port(), free_port()
        self._container: _Container | None = None
        self._leash: Leash | None = None
        self._cluster = Cluster.of_one()
        doors = [
            Listener("PLAINTEXT", self.port, self.port),
            Listener("PROXIED", self.behind_proxy, self.proxied_port),
        ]
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # in the container it is somebody else who reads it
        self._configuration = folder
        text = server_properties(self._cluster, doors, Path(DATA_FOLDER), bind="0.0.0.0")
        (folder / "server.properties").write_text(text)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint("kafka", "containers", self.bootstrap, f"Apache Kafka, image {self.image}")

    def start(self) -> None:
        """Returns when it takes requests."""
        # Its reaper's image may be out of reach: a label, a sweep and a leash do the same.
        testcontainers_config.ryuk_disabled = True
        sweep(self.client)
        container = _Container(self.image, (self.port, self.behind_proxy))
        container.with_env("CLUSTER_ID", self._cluster.id)
        container.with_volume_mapping(str(self._configuration), CONFIGURATION, "ro")
        container.with_kwargs(labels={LABEL: str(os.getpid())})
        self._container = container
        try:
            container.start()
        except (*UNANSWERED, TimeoutError) as error:
            self.close()
            raise Unavailable(f"a container of {self.image} could not be started: {error}") from error
        if shutil.which("docker"):
            self._leash = Leash("docker", "rm", "--force", "--volumes", container.get_container_id())
        self._wait()

    def restart(self) -> None:
        """Stops and starts the same container: ports and data stay."""
        assert self._container is not None
        wrapped = self._container.get_wrapped_container()
        began_at = time.time()
        wrapped.restart(timeout=20)
        self._wait(since=began_at)

    def close(self) -> None:
        container, self._container = self._container, None
        try:
            if container is not None:
                container.stop()
        finally:
            if self._leash is not None:
                self._leash.drop()
            self.client.client.close()

    def _wait(self, since: float | None = None) -> None:
        assert self._container is not None
        wrapped = self._container.get_wrapped_container()
        ends_at = time.monotonic() + START_WITHIN
        while STARTED not in (log := wrapped.logs(since=since).decode(errors="replace")) or not answers(
            "127.0.0.1", self.port
        ):
            wrapped.reload()
            if wrapped.status in ("exited", "dead") or time.monotonic() > ends_at:
                self.close()
                tail = "\n".join(log.splitlines()[-25:])
                raise Unavailable(f"the container of {self.image} has not started; its log ends:\n{tail}")
            time.sleep(0.1)


class _Container(DockerContainer):
    """Publishes ports under their own numbers, for this machine alone."""

    def __init__(self, image: str, ports: tuple[int, ...]) -> None:
        super().__init__(image)
        self.ports = {f"{port}/tcp": cast("int", ("127.0.0.1", port)) for port in ports}  # the SDK takes pairs, too
