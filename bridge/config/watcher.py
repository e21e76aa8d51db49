"""One watcher on its way from nodes to values: what it is called, what it refers to, what it takes and asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from bridge.config.definition import definition_of
from bridge.config.fields import refuse
from bridge.config.filtering import Compiled, Each, read_filter, read_run
from bridge.config.model import StreamConfig
from bridge.config.names import NAME_RULE, is_good_name
from bridge.config.nodes import Entry, Node, Place, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.reading import Reading, Where, quoted, shown
from bridge.config.suggest import did_you_mean, listed
from bridge.config.watcher_blocks import FILTER, RUN_FIELDS, WATCHER_FIELDS

_IMPORT_PATH: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:][A-Za-z_]\w*")


class Known(Struct, frozen=True):
    """What watchers may refer to. `streams` and `targets` are all names that are written, right or wrong.

    None instead of names: a file could not be read, so that nothing can be said about what is missing.
    """

    streams: frozenset[str] | None
    targets: frozenset[str] | None
    sources: Mapping[str, tuple[StreamConfig, str]]


class Given(NamedTuple):
    """A watcher as it is to be read. `own` is what is written for it, without defaults and with its holes.

    With `for_each`, `item` is its item, `asked` those values of it that expressions ask for, and `compiled` what is
    the same for all items.
    """

    node: Node
    own: Node
    asset: Scalar
    has_siblings: bool
    compiled: Compiled
    item: MappingNode | None = None
    asked: MappingNode | None = None


class Watcher:
    """`good` and `run` hold what could be read so far."""

    def __init__(self, given: Given, where: Where, reading: Reading, known: Known) -> None:
        self._given = given
        self._where = where
        self._reading = reading
        self._known = known
        self._entries = given.node.entries if isinstance(given.node, MappingNode) else {}
        self._run_entries: Mapping[str, Entry] = {}
        self.good: dict[str, Any] = {}
        self.run: dict[str, Any] = {}

    def read(self, ids: dict[str, Place], names: dict[str, Place]) -> dict[str, Any] | None:
        """The values of a WatcherConfig, or None; problems are added in any case."""
        node = self._given.node
        if not isinstance(node, MappingNode):
            refuse(node, "a mapping", self._where, self._reading, "with at least `stream` and `run`")
            return None
        values = WATCHER_FIELDS.read(node, self._where, self._reading)
        self.good = values.good
        self._where = self._where.holding(WATCHER_FIELDS)
        is_complete = values.is_complete & self._read_run() & self._refers()
        identity = self._identity(ids, names)
        parts = self._parts()
        if identity is None or parts is None or not is_complete:
            return None
        stream = self._known.sources.get(self.good["stream"])
        if stream is None:
            return None
        return self._values(identity, parts, stream)

    def _values(
        self, identity: tuple[str, str], parts: dict[str, Any], stream: tuple[StreamConfig, str]
    ) -> dict[str, Any]:
        config, source = stream
        written = self._written()
        return {
            "id": identity[0],
            "name": identity[1],
            "asset": self._given.asset.text,
            "stream": config.name,
            "target": self.run["target"],
            "job": self.run["job"],
            "key_ttl": self.run.get("key_ttl"),
            "enabled": self.good.get("enabled", True),
            "on_error": self.good.get("on_error", "no_match"),
            "max_attempts": self.good.get("max_attempts"),
            "trigger": self.good.get("trigger"),
            **parts,
            "definition": definition_of(config, source, self.good, self.run, written),
            "written": written,
        }

    # The run, and what is referred to --------------------------------------------------------------------------------

    def _read_run(self) -> bool:
        node = self.good.get("run")
        if node is None:
            return False
        # What defaults alone don't make whole is missing here, and not there.
        own = self._given.own.entries if isinstance(self._given.own, MappingNode) else {}
        where = self._where.field("run", own["run"].key.place if "run" in own else self._where.owner)
        if not isinstance(node, MappingNode):
            refuse(node, "a mapping", where, self._reading, "with at least `target` and `job`")
            return False
        self._run_entries = node.entries
        values = RUN_FIELDS.read(node, where, self._reading)
        self.run = values.good
        self._run_where = where.holding(RUN_FIELDS)
        return values.is_complete & self._check_key(own)

    def _check_key(self, own: Mapping[str, Entry]) -> bool:
        """`key` and `key_ttl` go together. A `key_ttl` from the defaults waits for whoever has a key."""
        has_key, has_ttl = "key" in self._run_entries, "key_ttl" in self._run_entries
        if has_key and not has_ttl:
            hint = "how long it keeps further runs with an equal key away, like `key_ttl: 1h`"
            self._reading.problem(self._run_entries["key"].key.place, "`key` without `key_ttl`", hint)
            return False
        if has_ttl and not has_key:
            run = own["run"].value if "run" in own else None
            is_shared = run is None or (isinstance(run, MappingNode) and "key_ttl" not in run.entries)
            if not is_shared:
                place = self._run_entries["key_ttl"].key.place
                self._reading.problem(place, "`key_ttl` without the `key` that it is for", "add it, or remove this")
                return False
            self.run.pop("key_ttl", None)
        return True

    def _refers(self) -> bool:
        stream = self._refer("stream", self.good, self._entries, self._known.streams)
        return self._refer("target", self.run, self._run_entries, self._known.targets) and stream

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

    # Names -----------------------------------------------------------------------------------------------------------

    def _identity(self, ids: dict[str, Place], names: dict[str, Place]) -> tuple[str, str] | None:
        """Id and name: those that are written, `<asset>.<name>` and the asset's name by default."""
        name, asset = self.good.get("name"), self._given.asset.text
        is_good = self._check_word("name") & self._check_word("id")
        if name is None and self._given.has_siblings:
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
            called = self._called("name", name)
            message = f"{shown(asset)} has two watchers called {called}: the first is at {names[name]}"
            self._reading.problem(self._entries["name"].value.place, message, "give it a name of its own")
            return None
        place = self._place_of_identity()
        if identity in ids:
            called = self._called("id" if self.good.get("id") else "name", identity)
            message = f"the id {called} is taken by the watcher at {ids[identity]}"
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

    def _called(self, key: str, text: str) -> str:
        """A name as it may be shown."""
        return self._reading.masked.get((*self._where.path, key)) or f"`{shown(text)}`"

    def _place_of_identity(self) -> Place:
        for key in ("id", "name"):
            if key in self._entries:
                return self._entries[key].value.place
        return self._given.asset.place if not self._given.has_siblings else self._where.owner

    # What it takes, and what its run is told -------------------------------------------------------------------------

    def _parts(self) -> dict[str, Any] | None:
        """Conditions, `kwargs` and plans; None where anything is wrong with them."""
        before = len(self._reading.problems)
        self._reading.item = None if self._given.item is None else self._given.item.place
        each = self._each()
        if len(self._reading.problems) > before:
            return None  # what comes of values that can't be had is nobody's business
        self._check_trigger()
        filtering = read_filter(self._entries, self._below, each, self._given.compiled, self._reading)
        kwargs = self._kwargs()
        plans: dict[str, Any] | None = {}
        if isinstance(self.good.get("run"), MappingNode):
            is_python = "trigger" in self._entries
            compiled = self._given.compiled
            plans = read_run(self._run_entries, self._below_run, each, compiled, self._reading, is_python=is_python)
        if len(self._reading.problems) > before or filtering is None or plans is None:
            return None
        return {**filtering, **plans, "kwargs": kwargs}

    def _each(self) -> Each:
        """The item: the values that expressions ask for, and the names of the others, for suggestions."""
        item, asked = self._given.item, self._given.asked
        if item is None or asked is None:
            return None
        values = self._reading.exact(asked, self._where.named("for_each", item.place))
        assert isinstance(values, dict)
        return {**dict.fromkeys(item.entries), **values}

    def _check_trigger(self) -> None:
        trigger = self._entries.get("trigger")
        if trigger is None:
            if "kwargs" in self._entries:
                place = self._entries["kwargs"].key.place
                self._reading.problem(place, "`kwargs` without a `trigger` that they are for", "add it, or remove them")
            return
        other = next((key for key in FILTER if key in self._entries), None)
        if other is not None:
            message = f"a watcher has `{other}` or `trigger`, not both"
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
        for key in ("match", "when", "reject"):
            if key in self._entries:
                written[key] = self._reading.written(self._entries[key].value, self._below(key).foreign_names())
        if "kwargs" in self._entries:
            written["kwargs"] = self._reading.written(self._entries["kwargs"].value, self._below("kwargs"))
        for key in ("params", "tags", "key"):
            if key in self._run_entries:
                written[key] = self._reading.written(self._run_entries[key].value, self._below_run(key))
        if self._given.asked is not None and self._given.asked.entries:
            written["each"] = self._reading.written(self._given.asked, self._where)
        return written

    def _below(self, key: str) -> Where:
        return self._where.field(key, self._entries[key].key.place)

    def _below_run(self, key: str) -> Where:
        entry = self._run_entries.get(key)
        # `key` is an expression over the event here, and no secret.
        return self._run_where.named(key, entry.key.place if entry else self._where.owner)
