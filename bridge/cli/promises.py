"""What each stream and target promises, asked one by one: a stream whose class can't be had hides no other's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Final

import msgspec

from bridge.config.model import Config, StreamConfig
from bridge.core.errors import HeadraceError
from bridge.wiring import Explained, explain, source_of

UNKNOWN: Final = "unknown"


def promises_of(config: Config) -> Mapping[str, Explained]:
    """By `streams.<name>` and `targets.<name>`; `guarantee` is `unknown`, with the reason, where nobody can tell."""
    promises: dict[str, Explained] = {}
    for name, stream in config.streams.items():
        promises |= _asked(config, f"streams.{name}", stream.kind, streams={name: stream})
    for name, target in config.targets.items():
        promises |= _asked(config, f"targets.{name}", target.kind, targets={name: target})
    return promises


def source_or_reason(stream: StreamConfig) -> str:
    """Where a stream's messages come from, as run keys say it."""
    try:
        with redirect_stdout(sys.stderr):
            return source_of(stream)
    except (HeadraceError, OSError, ValueError) as error:
        return f"{UNKNOWN}: {error}"


def _asked(config: Config, name: str, kind: str, **only: object) -> Mapping[str, Explained]:
    alone = msgspec.structs.replace(config, **{"streams": {}, "targets": {}, **only})
    try:
        with redirect_stdout(sys.stderr):
            return explain(alone)
    except (HeadraceError, OSError, ValueError) as error:
        return {name: Explained(kind, UNKNOWN, (str(error),))}
