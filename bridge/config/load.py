"""Files to a Config, or to every problem in them at once. Reads files and connects to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from msgspec import Struct

from bridge.config import later
from bridge.config.blocks import (
    STREAM_FIELDS,
    TARGET_FIELDS,
    Kinds,
    read_instance,
    read_store,
    read_streams,
    read_targets,
)
from bridge.config.checks import refuse_shared_sources, warn_of_unused, warn_of_variables
from bridge.config.model import Config, InstanceConfig, StoreConfig, StreamConfig
from bridge.config.names import check_name
from bridge.config.nodes import Entry, Node, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.problems import ConfigError, Problem, Problems
from bridge.config.reader import read_nodes
from bridge.config.reading import Reading, Where, seen
from bridge.config.shapes import Unread, fields_of
from bridge.config.source import Source, file_problem, find_files, read_source
from bridge.config.variables import read_secret_file
from bridge.config.watchers import ASSET_FIELDS, RUN_FIELDS, WATCHER_FIELDS, Known, WatcherReader

__all__ = ["Config", "ConfigError", "Kinds", "Problem", "load", "read_secret_file"]


class TopBlock(Struct, frozen=True, kw_only=True):
    """What a file may hold. Everything may be in another file."""

    LATER: ClassVar[Mapping[str, str]] = later.TOP

    store: Unread | None = None
    targets: Unread | None = None
    streams: Unread | None = None
    assets: Unread | None = None
    instance: Unread | None = None


_TOP: Final = fields_of(TopBlock)
_SECTIONS: Final = {"targets": "a target", "streams": "a stream", "assets": "an asset"}
_BLOCKS: Final = {
    "the top level": _TOP,
    "store": fields_of(StoreConfig),
    "instance": fields_of(InstanceConfig),
    "streams.<name>": STREAM_FIELDS,
    "targets.<name>": TARGET_FIELDS,
    "assets.<name>": ASSET_FIELDS,
    "assets.<name>.watchers[]": WATCHER_FIELDS,
    "assets.<name>.watchers[].run": RUN_FIELDS,
}


def load(
    paths: Sequence[Path],
    *,
    kinds: Kinds,
    env: Mapping[str, str],
    read_secret: Callable[[Path], str] = read_secret_file,
    check: bool = True,
) -> Config:
    """Reads files and folders into one Config. Raises ConfigError with all the problems that there are.

    `read_secret` gets the path in `${file:PATH}` and raises OSError or ValueError. With `check`, the kinds look at
    what their options name (does the folder exist?). Commands that only ask the store do without; the `definition` of
    a watcher is then no good where its source can't be had.
    """
    reading = Reading(env, read_secret, _BLOCKS)
    files = find_files(paths, reading.problems)
    names = tuple(map(str, files))
    document = _Document(reading)
    for file in files:
        document.add(read_source(file, reading.problems))
    config = _Loader(document, kinds, reading, check=check).config(names)
    if config is None or len(reading.problems):
        raise ConfigError(reading.problems.sorted(names), reading.problems.unlisted)
    return config


class _Document:
    """All files as one. `is_whole` is False where one of them could not be parsed."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.is_whole = True
        self.singles: dict[str, Entry] = {}
        self.sections: dict[str, dict[str, Entry]] = {section: {} for section in _SECTIONS}

    def add(self, source: Source | None) -> None:
        root = read_nodes(source, self._reading.problems) if source is not None else None
        if root is None:
            self.is_whole = False
        elif not isinstance(root, MappingNode):
            self.is_whole = False
            hint = "write `key: value`, with a space after the colon" if isinstance(root, Scalar) else ""
            message = f"expected a mapping with store, streams, targets and assets, {seen(root, None, _root(root))}"
            self._reading.problem(root.place, message, hint)
        else:
            _TOP.read(root, _root(root), self._reading)
            for name, entry in root.entries.items():
                if name in self.sections:
                    self._add_section(name, entry)
                elif name in _TOP.by_name:
                    self._add_single(name, entry)

    def _add_single(self, name: str, entry: Entry) -> None:
        first = self.singles.setdefault(name, entry)
        if first is not entry:
            message = f"`{name}` is defined twice: the first is at {first.key.place}"
            self._reading.problem(entry.key.place, message, "one file defines it for all")

    def _add_section(self, section: str, entry: Entry) -> None:
        node = entry.value
        if not isinstance(node, MappingNode):
            saw = seen(node, None, Where((section,), entry.key.place))
            hint = "remove it, or define something below it" if saw == "saw nothing" else "names with their keys below"
            self._reading.problem(entry.key.place, f"`{section}`: expected a mapping, {saw}", hint)
            return
        known = self.sections[section]
        for name, below in node.entries.items():
            if name in known:
                message = f"{section}.{name[:60]} is defined twice: the first is at {known[name].key.place}"
                self._reading.problem(below.key.place, message, "give one of them another name")
            else:
                known[name] = below


class _Loader:
    """One document on its way to a Config: the blocks first, then what refers to them, then what they share."""

    def __init__(self, document: _Document, kinds: Kinds, reading: Reading, *, check: bool) -> None:
        self._document = document
        self._kinds = kinds
        self._reading = reading
        self._check = check

    def config(self, files: tuple[str, ...]) -> Config | None:
        """The Config as far as it goes; None where not even a store is there. Problems are added."""
        reading, sections = self._reading, self._document.sections
        for section, what in _SECTIONS.items():
            if section != "assets":
                for entry in sections[section].values():
                    check_name(entry.key, what, reading)
        store, instance = self._store(files), self._instance()
        streams = read_streams(sections["streams"].values(), self._kinds, reading, check=self._check)
        targets = read_targets(sections["targets"].values(), self._kinds, reading, check=self._check)
        refuse_shared_sources(streams, sections["streams"], reading)
        watchers = WatcherReader(self._known(streams), reading)
        read = tuple(watcher for entry in sections["assets"].values() for watcher in watchers.asset(entry))
        if store is None or instance is None:
            return None
        configs = {name: stream for name, (stream, _) in streams.items()}
        warnings = self._warnings(watchers, files)
        return Config(store, targets, configs, read, instance, files, warnings, reading.masked)

    def _known(self, streams: Mapping[str, tuple[StreamConfig, str]]) -> Known:
        sections, is_whole = self._document.sections, self._document.is_whole
        return Known(
            frozenset(sections["streams"]) if is_whole else None,
            frozenset(sections["targets"]) if is_whole else None,
            streams,
        )

    def _store(self, files: tuple[str, ...]) -> StoreConfig | None:
        entry = self._document.singles.get("store")
        if entry is not None:
            return read_store(entry, Where(("store",), entry.key.place), self._reading)
        if self._document.is_whole and files:
            problem = file_problem(files[0], "`store` is missing", "add a line like `store: sqlite:///headrace.db`")
            self._reading.problems.add(problem)
        return None

    def _instance(self) -> InstanceConfig | None:
        entry = self._document.singles.get("instance")
        if entry is None:
            return InstanceConfig()
        return read_instance(entry, Where(("instance",), entry.key.place), self._reading)

    def _warnings(self, watchers: WatcherReader, files: tuple[str, ...]) -> tuple[Problem, ...]:
        warnings = Problems()
        sections = self._document.sections
        warn_of_unused(sections["streams"], sections["targets"], watchers.used_streams, watchers.used_targets, warnings)
        if not sections["assets"]:
            warnings.add(file_problem(files[0], "there is no asset, so nothing will run", "add `assets` with watchers"))
        warn_of_variables(self._reading.variables.env, self._reading.variables.used, warnings)
        return warnings.sorted(files)


def _root(root: Node) -> Where:
    return Where((), root.place)
