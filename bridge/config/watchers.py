"""The blocks `assets.<name>.watchers[]`: names, ids, filters and runs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct

from bridge.config import later
from bridge.config.conditions import read_match, read_params, read_tags
from bridge.config.fields import BAD, refuse
from bridge.config.model import Count, Name, StreamConfig, WatcherConfig
from bridge.config.names import NAME_RULE, check_name, is_good_name
from bridge.config.nodes import Entry, Node, Place, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Sequence as SequenceNode
from bridge.config.reading import Reading, Where, quoted, shown
from bridge.config.shapes import Unread, fields_of
from bridge.config.suggest import did_you_mean, listed


class AssetBlock(Struct, frozen=True, kw_only=True):
    """What is written below the name of an asset."""

    watchers: Unread
    description: str | None = None


class WatcherBlock(Struct, frozen=True, kw_only=True):
    """What is written for a watcher."""

    LATER: ClassVar[Mapping[str, str]] = later.WATCHER

    stream: Name
    run: Unread
    name: Name | None = None
    id: Name | None = None
    enabled: bool = True
    match: Unread | None = None
    trigger: Name | None = None
    kwargs: Unread | None = None
    max_attempts: Count | None = None


class RunBlock(Struct, frozen=True, kw_only=True):
    """What is written for the run that a match asks for."""

    LATER: ClassVar[Mapping[str, str]] = later.RUN

    target: Name
    job: Name
    params: Unread | None = None
    tags: Unread | None = None


ASSET_FIELDS: Final = fields_of(AssetBlock)
WATCHER_FIELDS: Final = fields_of(WatcherBlock)
RUN_FIELDS: Final = fields_of(RunBlock)

_IMPORT_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")


class Known(Struct, frozen=True):
    """What watchers may refer to. `streams` and `targets` are all names that are written, right or wrong.

    None instead of names: a file could not be read, so that nothing can be said about what is missing.
    """

    streams: frozenset[str] | None
    targets: frozenset[str] | None
    sources: Mapping[str, tuple[StreamConfig, str]]


class WatcherReader:
    """Reads the watchers of one asset after the other, and sees to it that no id is there twice."""

    def __init__(self, known: Known, reading: Reading) -> None:
        self._known = known
        self._reading = reading
        self._ids: dict[str, Place] = {}
        self.used_streams: dict[str, list[bool]] = {}
        """By stream: whether each of its watchers is enabled."""
        self.used_targets: set[str] = set()

    def asset(self, entry: Entry) -> Iterable[WatcherConfig]:
        """The watchers that could be read."""
        check_name(entry.key, "an asset", self._reading)
        where = Where(("assets",), entry.key.place).named(entry.key.text, entry.key.place)
        if not isinstance(entry.value, MappingNode):
            refuse(entry.value, "a mapping", where, self._reading, "with `watchers`, a list")
            return
        values = ASSET_FIELDS.read(entry.value, where, self._reading)
        node = values.good.get("watchers")
        if node is None:
            return
        below = where.holding(ASSET_FIELDS).field("watchers", entry.value.entries["watchers"].key.place)
        if not isinstance(node, SequenceNode) or not node.items:
            refuse(node, "a list of at least one watcher", below, self._reading, "begin each watcher with `- `")
            return
        names: dict[str, Place] = {}
        for number, item in enumerate(node.items):
            at = below.item(number, item.place)
            watcher = _Watcher(item, entry.key, at, len(node.items) > 1, self._reading, self._known)
            read = watcher.read(self._ids, names)
            self._note_use(watcher)
            if read is not None:
                yield WatcherConfig(**read, description=values.good.get("description") or "")

    def _note_use(self, watcher: _Watcher) -> None:
        stream = watcher.good.get("stream")
        if stream is not None:
            self.used_streams.setdefault(stream, []).append(watcher.good.get("enabled", True))
        if "target" in watcher.run:
            self.used_targets.add(watcher.run["target"])


class _Watcher:
    """One watcher on its way from nodes to values. `good` and `run` hold what could be read so far."""

    def __init__(
        self, node: Node, asset: Scalar, where: Where, has_siblings: bool, reading: Reading, known: Known
    ) -> None:
        self._node = node
        self._asset = asset
        self._where = where
        self._has_siblings = has_siblings
        self._reading = reading
        self._known = known
        self.good: dict[str, Any] = {}
        self.run: dict[str, Any] = {}

    def read(self, ids: dict[str, Place], names: dict[str, Place]) -> dict[str, Any] | None:
        """The values of a WatcherConfig, or None; problems are added in any case."""
        if not isinstance(self._node, MappingNode):
            refuse(self._node, "a mapping", self._where, self._reading, "with at least `stream` and `run`")
            return None
        self._entries = self._node.entries
        values = WATCHER_FIELDS.read(self._node, self._where, self._reading)
        self.good = values.good
        self._where = self._where.holding(WATCHER_FIELDS)
        is_complete = values.is_complete & self._read_run() & self._refers()
        identity = self._identity(ids, names)
        filtering = self._filtering()
        if identity is None or filtering is None or not is_complete:
            return None
        stream = self._known.sources.get(self.good["stream"])
        if stream is None:
            return None
        return self._values(identity, filtering, stream)

    def _values(
        self, identity: tuple[str, str], filtering: dict[str, Any], stream: tuple[StreamConfig, str]
    ) -> dict[str, Any]:
        config, source = stream
        written = self._written()
        what = {
            "source": [config.kind, source],
            "trigger": self.good.get("trigger"),
            "target": self.run["target"],
            "job": self.run["job"],
            **{key: value for key, value in written.items() if value},  # empty is the same as left out
        }
        return {
            "id": identity[0],
            "name": identity[1],
            "asset": self._asset.text,
            "stream": config.name,
            "target": self.run["target"],
            "job": self.run["job"],
            "enabled": self.good.get("enabled", True),
            "max_attempts": self.good.get("max_attempts"),
            "trigger": self.good.get("trigger"),
            **filtering,
            "definition": digest_of(what),
            "written": written,
        }

    # The parts --------------------------------------------------------------------------------------------------------

    def _read_run(self) -> bool:
        node = self.good.get("run")
        if node is None:
            return False
        where = self._below("run")
        if not isinstance(node, MappingNode):
            refuse(node, "a mapping", where, self._reading, "with at least `target` and `job`")
            return False
        values = RUN_FIELDS.read(node, where, self._reading)
        self.run = values.good
        self._run_where = where.holding(RUN_FIELDS)
        return values.is_complete

    def _refers(self) -> bool:
        stream = self._refer("stream", self.good, self._entries, self._known.streams)
        run = self.good.get("run")
        entries = run.entries if isinstance(run, MappingNode) else {}
        return self._refer("target", self.run, entries, self._known.targets) and stream

    def _refer(
        self, what: str, values: Mapping[str, Any], entries: Mapping[str, Entry], names: frozenset[str] | None
    ) -> bool:
        name = values.get(what)
        if name is None or names is None or name in names:
            return True
        node = entries[what].value
        path = (*self._where.path, what) if what == "stream" else (*self._where.path, "run", what)
        text = self._reading.masked.get(path) or quoted(name)
        otherwise = f"the {what}s are {listed(sorted(names))}" if names else f"add it to `{what}s`"
        hint = did_you_mean(name, names, otherwise)
        self._reading.problem(node.place, f"there is no {what} {text}", hint)
        return False

    def _identity(self, ids: dict[str, Place], names: dict[str, Place]) -> tuple[str, str] | None:
        """Id and name: those that are written, `<asset>.<name>` and the asset's name by default."""
        name, asset = self.good.get("name"), self._asset.text
        is_good = self._check_word("name") & self._check_word("id")
        if name is None and self._has_siblings:
            if "name" not in self._entries:
                hint = (
                    f"give it one; with `id: {shown(asset)}` the run keys of the asset's only watcher stay as they were"
                )
                self._reading.problem(
                    self._where.owner, f"a watcher without `name` beside others of {shown(asset)}", hint
                )
            return None
        if not is_good:
            return None
        identity = self.good.get("id") or (f"{asset}.{name}" if name else asset)
        if name is not None and name in names:
            message = f"{shown(asset)} has two watchers called `{shown(name)}`: the first is at {names[name]}"
            self._reading.problem(self._entries["name"].value.place, message, "give it a name of its own")
            return None
        place = self._place_of_identity()
        if identity in ids:
            message = f"the id `{shown(identity)}` is taken by the watcher at {ids[identity]}"
            self._reading.problem(place, message, "set an `id` that no other watcher of any asset has")
            return None
        ids[identity] = place
        if name is not None:
            names[name] = self._entries["name"].value.place
        return identity, name or asset

    def _check_word(self, key: str) -> bool:
        text = self.good.get(key)
        if text is None:
            return key not in self._entries
        if is_good_name(text):
            return True
        shown_text = self._reading.masked.get((*self._where.path, key)) or quoted(text)
        self._reading.problem(
            self._entries[key].value.place, f"{shown_text} can't be the {key} of a watcher", NAME_RULE
        )
        return False

    def _place_of_identity(self) -> Place:
        for key in ("id", "name"):
            if key in self._entries:
                return self._entries[key].value.place
        return self._asset.place if not self._has_siblings else self._where.owner

    def _filtering(self) -> dict[str, Any] | None:
        """`match`, `kwargs`, `params` and `tags`; None where anything is wrong with them."""
        before = len(self._reading.problems)
        self._check_trigger()
        trigger = "trigger" in self._entries
        match = None
        if "match" in self._entries:
            match = read_match(self._entries["match"].value, self._below("match"), self._reading)
        kwargs = self._kwargs()
        params, tags = None, {}
        if isinstance(self.good.get("run"), MappingNode):
            roots = ("event", "trigger") if trigger else ("event",)
            params = read_params(self.run.get("params"), self._below_run("params"), roots, self._reading)
            tags = read_tags(self.run.get("tags"), self._below_run("tags"), self._reading)
        if len(self._reading.problems) > before or match is BAD or params is BAD:
            return None
        return {"match": match, "kwargs": kwargs, "params": params, "tags": tags}

    def _check_trigger(self) -> None:
        trigger = self._entries.get("trigger")
        if trigger is None:
            if "kwargs" in self._entries:
                place = self._entries["kwargs"].key.place
                self._reading.problem(place, "`kwargs` without a `trigger` that they are for", "add it, or remove them")
            return
        if "match" in self._entries:
            message = "a watcher has `match` or `trigger`, not both"
            self._reading.problem(trigger.key.place, message, "the trigger's own code filters; remove one of them")
        path = self.good.get("trigger")
        if path is not None and not _IMPORT_PATH.fullmatch(path):
            text = self._reading.masked.get((*self._where.path, "trigger")) or quoted(path)
            self._reading.problem(
                trigger.value.place, f"{text} is no import path", "like `my_package.filters.BigOrders`"
            )

    def _kwargs(self) -> dict[str, Any]:
        entry = self._entries.get("kwargs")
        if entry is None:
            return {}
        where = self._below("kwargs")
        if not isinstance(entry.value, MappingNode):
            refuse(entry.value, "a mapping", where, self._reading, "the keyword arguments of the trigger's class")
            return {}
        values = self._reading.plain(entry.value, where)
        assert isinstance(values, dict)
        return values

    def _written(self) -> dict[str, Any]:
        """What people wrote, fit to be shown."""
        written: dict[str, Any] = {}
        if "match" in self._entries:
            where = self._below("match").foreign_names()
            written["match"] = self._reading.written(self._entries["match"].value, where)
        if "kwargs" in self._entries:
            written["kwargs"] = self._reading.written(self._entries["kwargs"].value, self._below("kwargs"))
        for key in ("params", "tags"):
            if self.run.get(key) is not None:
                written[key] = self._reading.written(self.run[key], self._below_run(key))
        return written

    def _below(self, key: str) -> Where:
        return self._where.field(key, self._entries[key].key.place)

    def _below_run(self, key: str) -> Where:
        entry = self.good["run"].entries.get(key)
        return self._run_where.field(key, entry.key.place if entry else self._where.owner)


def digest_of(what: Mapping[str, Any]) -> str:
    """SHA-256 in hex: equal for equal values, whatever their order in the file."""
    text = json.dumps(what, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
