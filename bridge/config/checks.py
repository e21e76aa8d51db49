"""What no single block can know: streams that would steal from each other, and what is there for nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridge.config.model import StreamConfig
from bridge.config.nodes import Entry
from bridge.config.problems import Problems
from bridge.config.reading import Reading, shown
from bridge.config.source import file_problem
from bridge.config.suggest import nearest

PREFIX: Final = "HEADRACE_"

KNOWN_VARIABLES: Final = frozenset(
    {
        "HEADRACE_BROKERS",
        "HEADRACE_KAFKA",
        "HEADRACE_SQS",
        "HEADRACE_PUBSUB",
        "HEADRACE_SERVICEBUS",
        "HEADRACE_SQS_IMAGE",
        "HEADRACE_PUBSUB_IMAGE",
        "HEADRACE_SERVICEBUS_EULA",
        "HEADRACE_SERVICEBUS_IMAGE",
        "HEADRACE_POSTGRES",
        "HEADRACE_AIRFLOW",
        "HEADRACE_CONFIG",
        "HEADRACE_LOG_LEVEL",
        "HEADRACE_REQUIRED_BROKERS",
        "HEADRACE_KAFKA_IMAGE",
        "HEADRACE_KAFKA_VERSION",
        "HEADRACE_CACHE",
        "HEADRACE_SOAK",
    }
)
"""What this project itself, its tests and its benchmarks read."""


def refuse_shared_sources(
    streams: Mapping[str, tuple[StreamConfig, str]],
    shares: Mapping[str, str],
    entries: Mapping[str, Entry],
    reading: Reading,
) -> None:
    """Two streams of one kind that read the same source take each other's messages.

    `shares` says what may not be the same; where two readers of one source don't take from each other, that is more.
    """
    first: dict[tuple[str, str], str] = {}
    for name, (config, _) in streams.items():
        other = first.setdefault((config.kind, shares[name]), name)
        if other != name:
            reading.problem(
                entries[name].key.place,
                f"streams.{name} reads the same source as streams.{other} ({entries[other].key.place})",
                "they would take each other's messages: let all the watchers share one of them",
            )


def warn_of_unused(
    streams: Mapping[str, Entry],
    targets: Mapping[str, Entry],
    used_streams: Mapping[str, list[bool]],
    used_targets: set[str],
    warnings: Problems,
) -> None:
    """Streams without an enabled watcher, targets without any."""
    for name, entry in streams.items():
        enabled = used_streams.get(name)
        if enabled is None:
            _warn(entry, f"no watcher reads streams.{shown(name)}", "it is not opened at all", warnings)
        elif not any(enabled):
            _warn(entry, f"all watchers of streams.{shown(name)} are disabled", "it is not opened at all", warnings)
    for name, entry in targets.items():
        if name not in used_targets:
            _warn(entry, f"no watcher runs anything on targets.{shown(name)}", "", warnings)


def warn_of_variables(env: Mapping[str, str], used: set[str], warnings: Problems) -> None:
    """Variables that look like ours and are read by nobody: most likely misspelled."""
    known = KNOWN_VARIABLES | {name for name in used if name.startswith(PREFIX)}
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in known:
            # All of them begin alike, which must not make them look alike.
            close = nearest(name.removeprefix(PREFIX), [k.removeprefix(PREFIX) for k in known])
            hint = f"did you mean {PREFIX}{close}?" if close else "the configuration does not use it"
            warnings.add(file_problem("environment", f"nothing reads the variable {shown(name)}", hint))


def _warn(entry: Entry, message: str, hint: str, warnings: Problems) -> None:
    place = entry.key.place
    warnings.add(place.source.problem(place, message, hint))
