"""What starts runs: one file per orchestrator, imported when a configuration names its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

from bridge.ports import TargetKind


def _kind_of(module: str) -> Callable[[], TargetKind]:
    def load() -> TargetKind:
        kind = import_module(f"bridge.targets.{module}").KIND
        assert isinstance(kind, TargetKind)
        return kind

    return load


KINDS: Final[Mapping[str, Callable[[], TargetKind]]] = {
    "command": _kind_of("command"),
    "log": _kind_of("log"),
}
"""By the `kind` that a configuration names."""
