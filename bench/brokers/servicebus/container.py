"""Microsoft's Service Bus emulator in a container, with the SQL Server that it needs in another, by Testcontainers.

Nobody has run this on the machine where it was written: its images can't be pulled there. It follows Microsoft's own
compose file (testcontainers/servicebus/compose.yaml is ours, for people).
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
import tomllib
from pathlib import Path
from typing import cast

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.engine import LABEL, UNANSWERED, engine, sweep
from bench.brokers.jars import DATA
from bench.brokers.processes import free_port

EULA = "HEADRACE_SERVICEBUS_EULA"
AMQP = 5672
START_WITHIN = 180.0
STARTED = "Emulator Service is Successfully Up"
CONFIGURATION = "/ServiceBus_Emulator/ConfigFiles/Config.json"
SQL = "sqlserver"


class ServiceBusInContainer:
    """Its entities are those of testcontainers/servicebus/config.json; no others can be made."""

    control = None

    def __init__(self, folder: Path) -> None:
        """Raises Unavailable where no engine answers, or where nobody has accepted Microsoft's terms."""
        if os.environ.get(EULA, "").lower() not in ("y", "accept"):
            raise Unavailable(
                f"Microsoft's emulator and SQL Server ask for consent to their terms: {EULA}=accept gives it"
            )
        names = tomllib.loads((DATA / "images.toml").read_text())["servicebus"]
        self.client = engine()
        self.image = os.environ.get(names["override"]) or str(names["image"])
        self.port = free_port()
        self._sql_image = str(names["sql"])
        self._network: Network | None = None
        self._containers: list[DockerContainer] = []
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)  # in the container it is somebody else who reads it
        self._configuration = folder / "config.json"
        shutil.copyfile(DATA / "servicebus" / "config.json", self._configuration)

    @property
    def connection_string(self) -> str:
        """The key is the word that the emulator's documentation gives."""
        address = f"Endpoint=sb://127.0.0.1:{self.port}"
        name = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
        return f"{address};{name};UseDevelopmentEmulator=true;"

    @property
    def endpoint(self) -> BrokerEndpoint:
        what = f"Microsoft's emulator, NOT the service, image {self.image}"
        return BrokerEndpoint("servicebus", "containers", f"127.0.0.1:{self.port}", what)

    def start(self) -> None:
        """Returns when it says that it is up. Raises Unavailable."""
        testcontainers_config.ryuk_disabled = True
        sweep(self.client)
        password = f"Aa1!{secrets.token_hex(12)}"
        try:
            self._network = Network().create()
            sql = DockerContainer(self._sql_image).with_env("MSSQL_SA_PASSWORD", password)
            self._run(sql, SQL)
            emulator = DockerContainer(self.image).with_env("MSSQL_SA_PASSWORD", password).with_env("SQL_SERVER", SQL)
            emulator.with_volume_mapping(str(self._configuration), CONFIGURATION, "ro")
            emulator.ports = {f"{AMQP}/tcp": cast("int", ("127.0.0.1", self.port))}  # the SDK takes pairs, too
            self._run(emulator, "emulator")
        except (*UNANSWERED, TimeoutError) as error:
            self.close()
            raise Unavailable(f"containers of {self.image} could not be started: {error}") from error
        self._wait(emulator)

    def close(self) -> None:
        for container in reversed(self._containers):
            container.stop()
        self._containers.clear()
        if self._network is not None:
            self._network.remove()
            self._network = None
        self.client.client.close()

    def _run(self, container: DockerContainer, name: str) -> None:
        assert self._network is not None
        container.with_env("ACCEPT_EULA", "Y").with_network(self._network).with_network_aliases(name)
        container.with_kwargs(labels={LABEL: str(os.getpid())})
        self._containers.append(container)
        container.start()

    def _wait(self, emulator: DockerContainer) -> None:
        wrapped = emulator.get_wrapped_container()
        ends_at = time.monotonic() + START_WITHIN
        while STARTED not in (log := wrapped.logs().decode(errors="replace")):
            wrapped.reload()
            if wrapped.status in ("exited", "dead") or time.monotonic() > ends_at:
                self.close()
                tail = "\n".join(log.splitlines()[-25:])
                raise Unavailable(f"the container of {self.image} has not started; its log ends:\n{tail}")
            time.sleep(0.5)
