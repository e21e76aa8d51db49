"""The configuration of a Kafka: the template in testcontainers/kafka/ with doors, cluster and settings filled in."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from msgspec import Struct

from bench.brokers.jars import DATA
from bench.brokers.processes import free_port

TEMPLATE = DATA / "kafka" / "server.properties"


class Listener(Struct, frozen=True):
    """A door of the broker: where it listens, and which port it tells its clients to come back to."""

    name: str
    port: int
    advertised: int
    protocol: str = "PLAINTEXT"


class Cluster(Struct, frozen=True):
    """What a broker knows of its cluster: the id, which node it is, and the controllers' ports by node."""

    id: str
    node: int
    controllers: dict[int, int]

    @classmethod
    def of_one(cls) -> Cluster:
        return cls.of(1)[0]

    @classmethod
    def of(cls, size: int) -> list[Cluster]:
        """One for each of its nodes."""
        name, ports = _cluster_id(), {node: free_port() for node in range(1, size + 1)}
        return [cls(name, node, ports) for node in ports]


def server_properties(
    cluster: Cluster,
    doors: Sequence[Listener],
    data: Path,
    settings: Mapping[str, str] | None = None,
    bind: str = "127.0.0.1",
) -> str:
    """The text of server.properties. `settings` win over the template; `bind` is the address of all doors but the
    controller's, which only brokers use.
    """
    size, controller = len(cluster.controllers), cluster.controllers[cluster.node]
    listeners = [f"{door.name}://{bind}:{door.port}" for door in doors]
    template = Template(TEMPLATE.read_text()).substitute(
        node=cluster.node,
        voters=",".join(f"{node}@127.0.0.1:{port}" for node, port in cluster.controllers.items()),
        listeners=",".join([*listeners, f"CONTROLLER://127.0.0.1:{controller}"]),
        advertised=",".join(f"{door.name}://127.0.0.1:{door.advertised}" for door in doors),
        protocols=",".join([*(f"{door.name}:{door.protocol}" for door in doors), "CONTROLLER:PLAINTEXT"]),
        data=data,
        replicas=min(3, size),
        in_sync=min(2, size),
    )
    own = settings or {}
    kept = [line for line in template.splitlines() if line.partition("=")[0] not in own]
    return "\n".join([*kept, *(f"{key}={value}" for key, value in own.items())]) + "\n"


def _cluster_id() -> str:
    """22 letters of base64, as Kafka wants it; the first is no dash, which would look like an option."""
    return "h" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
