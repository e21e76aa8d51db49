"""A broker in a container that is one image with one port: most emulators are."""

from __future__ import annotations

import os
import time
import tomllib
from typing import cast

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.engine import LABEL, UNANSWERED, engine, sweep
from bench.brokers.image import pull
from bench.brokers.jars import DATA
from bench.brokers.processes import answers, free_port

START_WITHIN = 60.0


class OnePort:
    """Published on a port of 127.0.0.1. What it is made of stands in testcontainers/images.toml, under `broker`."""

    broker = ""

    def __init__(self, port: int | None = None) -> None:
        """Raises Unavailable where no engine answers or the image can't be pulled."""
        names = tomllib.loads((DATA / "images.toml").read_text())[self.broker]
        self.client = engine()
        self.image = os.environ.get(names["override"]) or str(names["image"])
        self.port = port or free_port()
        self._inside, self._command = int(names["port"]), str(names.get("command", ""))
        self._container: DockerContainer | None = None
        if not self.client.client.images.list(self.image) and (refusal := pull(self.client, self.image)):
            self.client.client.close()
            raise Unavailable(f"the image {self.image} could not be pulled: {refusal}")

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint(self.broker, "containers", f"127.0.0.1:{self.port}", f"an emulator, image {self.image}")

    def start(self) -> None:
        """Returns when it takes connections. Raises Unavailable."""
        testcontainers_config.ryuk_disabled = True
        sweep(self.client)
        container = self._container = DockerContainer(self.image)
        if self._command:
            container.with_command(self._command)
        container.ports = {f"{self._inside}/tcp": cast("int", ("127.0.0.1", self.port))}  # the SDK takes pairs, too
        container.with_kwargs(labels={LABEL: str(os.getpid())})
        try:
            container.start()
        except (*UNANSWERED, TimeoutError) as error:
            self.close()
            raise Unavailable(f"a container of {self.image} could not be started: {error}") from error
        ends_at = time.monotonic() + START_WITHIN
        while not answers("127.0.0.1", self.port, 0.2):
            if time.monotonic() > ends_at:
                self.close()
                raise Unavailable(f"the container of {self.image} has not started within {START_WITHIN:.0f} s")
            time.sleep(0.2)

    def close(self) -> None:
        container, self._container = self._container, None
        try:
            if container is not None:
                container.stop()
        finally:
            self.client.client.close()
