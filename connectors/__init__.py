"""One broker, one module. A connector is imported only when a configuration uses its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Final

from bridge.ports import StreamKind


def _kind(module: str) -> StreamKind:
    kind: StreamKind = import_module(module).KIND
    return kind


KINDS: Final[Mapping[str, Callable[[], StreamKind]]] = MappingProxyType(
    {
        "directory": partial(_kind, "connectors.directory"),
        "kafka": partial(_kind, "connectors.kafka"),
        "pubsub": partial(_kind, "connectors.pubsub"),
        "python": partial(_kind, "connectors.python"),
        "servicebus": partial(_kind, "connectors.servicebus"),
        "sqs": partial(_kind, "connectors.sqs"),
    }
)
"""What may stand behind `kind:` of a stream, and how to get it; the call imports it."""
