"""Files to a Config, or to every problem in them at once. Reads files and connects to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bridge.config.blocks import Kinds, read_streams, read_targets, shares_of
from bridge.config.checks import refuse_shared_sources, warn_of_unused, warn_of_variables
from bridge.config.defaults import merged_section, read_defaults
from bridge.config.document import BLOCKS, SECTIONS, Document
from bridge.config.model import Config, InstanceConfig, StoreConfig, StreamConfig
from bridge.config.names import check_name
from bridge.config.problems import ConfigError, Problem, Problems
from bridge.config.reading import Reading, Where
from bridge.config.singles import read_instance, read_store
from bridge.config.source import file_problem
from bridge.config.variables import read_secret_file
from bridge.config.watcher import Known
from bridge.config.watchers import WatcherReader

__all__ = ["Config", "ConfigError", "Kinds", "Problem", "load", "read_secret_file"]


def load(
    paths: Sequence[Path],
    *,
    kinds: Kinds,
    env: Mapping[str, str],
    read_secret: Callable[[Path], str] = read_secret_file,
    check: bool = True,
) -> Config:
    """Reads files and folders, and what they include, into one Config. Raises ConfigError with all the problems.

    `read_secret` gets the path in `${file:PATH}` and raises OSError or ValueError. With `check`, the kinds look at
    what their options name (does the folder exist?), and decoders are made. Commands that only ask the store do
    without; the `definition` of a watcher is then no good where its source can't be had.
    """
    reading = Reading(env, read_secret, BLOCKS)
    document = Document(paths, reading)
    config = _Loader(document, kinds, reading, check=check).config()
    if config is None or len(reading.problems):
        raise ConfigError(reading.problems.sorted(tuple(document.files)), reading.problems.unlisted)
    return config


class _Loader:
    """One document on its way to a Config: the blocks first, then what refers to them, then what they share."""

    def __init__(self, document: Document, kinds: Kinds, reading: Reading, *, check: bool) -> None:
        self._document = document
        self._files = tuple(document.files)
        self._kinds = kinds
        self._reading = reading
        self._check = check

    def config(self) -> Config | None:
        """The Config as far as it goes; None where not even a store is there. Problems are added."""
        reading, sections = self._reading, self._document.sections
        for section, what in SECTIONS.items():
            if section != "assets":
                for entry in sections[section].values():
                    check_name(entry.key, what, reading)
        store, instance = self._store(), self._instance()
        defaults = read_defaults(self._document.singles.get("defaults"), reading)
        written = merged_section(sections["streams"], defaults.streams)
        streams = read_streams(written.values(), self._kinds, reading, check=self._check)
        refuse_shared_sources(streams, shares_of(streams, self._kinds), written, reading)
        shared = merged_section(sections["targets"], defaults.targets)
        targets = read_targets(shared.values(), self._kinds, reading, check=self._check)
        watchers = WatcherReader(self._known(streams), defaults, reading)
        read = tuple(watcher for entry in sections["assets"].values() for watcher in watchers.asset(entry))
        if store is None or instance is None:
            return None
        configs = {name: stream for name, (stream, _) in streams.items()}
        warnings = self._warnings(watchers)
        secrets = frozenset(reading.in_filters)
        return Config(store, targets, configs, read, instance, self._files, warnings, reading.masked, secrets)

    def _known(self, streams: Mapping[str, tuple[StreamConfig, str]]) -> Known:
        sections, is_whole = self._document.sections, self._document.is_whole
        return Known(
            frozenset(sections["streams"]) if is_whole else None,
            frozenset(sections["targets"]) if is_whole else None,
            streams,
        )

    def _store(self) -> StoreConfig | None:
        entry = self._document.singles.get("store")
        if entry is not None:
            return read_store(entry, Where(("store",), entry.key.place), self._reading)
        if self._document.is_whole and self._files:
            message, hint = "`store` is missing", "add a line like `store: sqlite:///headrace.db`"
            self._reading.problems.add(file_problem(self._files[0], message, hint))
        return None

    def _instance(self) -> InstanceConfig | None:
        entry = self._document.singles.get("instance")
        if entry is None:
            return InstanceConfig()
        return read_instance(entry, Where(("instance",), entry.key.place), self._reading)

    def _warnings(self, watchers: WatcherReader) -> tuple[Problem, ...]:
        warnings = Problems()
        sections = self._document.sections
        warn_of_unused(sections["streams"], sections["targets"], watchers.used_streams, watchers.used_targets, warnings)
        if not sections["assets"]:
            hint = "add `assets` with watchers"
            warnings.add(file_problem(self._files[0], "there is no asset, so nothing will run", hint))
        warn_of_variables(self._reading.variables.env, self._reading.variables.used, warnings)
        return warnings.sorted(self._files)
