"""The block `defaults`: what streams, watchers and targets share.

It is merged into them as nodes, before anything is read: a key that the block has itself wins, a mapping is merged key
by key, a list is taken as a whole. What is wrong with a default shows where it is written, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Struct, structs

from bridge.config.blocks import KIND, STREAM_FIELDS, TARGET_FIELDS, read_decoding
from bridge.config.fields import Fields, refuse
from bridge.config.filtering import Compiled, read_filter, read_run
from bridge.config.foreach import mentions_each
from bridge.config.nodes import Entry, Node
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.reading import Reading, Where
from bridge.config.shapes import AsNode, Looks, fields_of
from bridge.config.vocabulary import refuse_key
from bridge.config.watcher_blocks import FILTER, PYTHON, RUN_FIELDS, WATCHER_FIELDS

_Keys = Annotated[Node, Looks(dict[str, Any])] | None


class DefaultsBlock(Struct, frozen=True, kw_only=True):
    """What is written for `defaults`."""

    streams: _Keys = None
    watchers: _Keys = None
    targets: _Keys = None


DEFAULTS_FIELDS: Final = fields_of(DefaultsBlock)

_WHOLE: Final = frozenset({"decode", "unwrap", "for_each"})
"""Keys whose values belong together: they are taken as they are, or not at all."""

_DECODING: Final = frozenset({"decode", "unwrap"})

UNSHARED: Final = {"name": "every watcher has its own", "id": "every watcher has its own"}
"""Keys of a watcher that can't be shared, and why."""


class Defaults(Struct, frozen=True):
    """By section; empty where nothing is shared."""

    streams: Mapping[str, Entry] = {}
    watchers: Mapping[str, Entry] = {}
    targets: Mapping[str, Entry] = {}

    def watcher(self, node: Node) -> Node:
        """A watcher with what all of them share. A Python watcher has no use for conditions, nor another for kwargs."""
        if not isinstance(node, MappingNode) or not self.watchers:
            return node
        is_python = any(key in node.entries for key in PYTHON)
        is_filter = any(key in node.entries for key in FILTER)
        if not is_python and not is_filter:
            is_python = "trigger" in self.watchers
        unfit = FILTER if is_python else PYTHON
        return merged(node, {key: entry for key, entry in self.watchers.items() if key not in unfit})


def merged(node: Node, defaults: Mapping[str, Entry]) -> Node:
    """The node with the keys that it lacks; itself where there are none, or where it is no mapping."""
    if not isinstance(node, MappingNode) or not defaults:
        return node
    entries = dict(node.entries)
    for key, default in defaults.items():
        own = entries.get(key)
        if own is None:
            entries[key] = default
        elif isinstance(default.value, MappingNode) and key not in _WHOLE:
            entries[key] = Entry(own.key, merged(own.value, default.value.entries))
    return MappingNode(entries, node.place)


def merged_section(section: Mapping[str, Entry], defaults: Mapping[str, Entry]) -> dict[str, Entry]:
    """The same for every block of a section."""
    if not defaults:
        return dict(section)
    return {name: Entry(entry.key, merged(entry.value, defaults)) for name, entry in section.items()}


# Reading -------------------------------------------------------------------------------------------------------------


def read_defaults(entry: Entry | None, reading: Reading) -> Defaults:
    """What can be shared. What can't is reported, and left out."""
    if entry is None:
        return Defaults()
    where = Where(("defaults",), entry.key.place)
    if not isinstance(entry.value, MappingNode):
        refuse(entry.value, "a mapping", where, reading, "with `streams`, `watchers` or `targets` below it")
        return Defaults()
    DEFAULTS_FIELDS.read(entry.value, where, reading)
    found = entry.value.entries
    where = where.holding(DEFAULTS_FIELDS)
    return Defaults(
        _read_common(found.get("streams"), STREAM_FIELDS, where, reading),
        _read_watchers(found.get("watchers"), where, reading),
        _read_common(found.get("targets"), TARGET_FIELDS, where, reading),
    )


def _read_common(entry: Entry | None, fields: Fields, where: Where, reading: Reading) -> dict[str, Entry]:
    """The keys that all streams, or all targets, have. One that is wrong is left out: none of them is required."""
    node, below = _below(entry, where, reading)
    if node is None:
        return {}
    shared = Fields((KIND, *(structs.replace(f, is_required=False) for f in fields.by_name.values())), fields.later)
    values = shared.read(node, below, reading)
    good = {field.name for field in shared.by_name.values() if field.attribute in values.good}
    if not good.isdisjoint(_DECODING) and read_decoding(values.good, node, below, reading) is None:
        good -= _DECODING
    return {name: entry for name, entry in node.entries.items() if name in good}


def _read_watchers(entry: Entry | None, where: Where, reading: Reading) -> dict[str, Entry]:
    """Keys of watchers, right or wrong: each watcher says the same of a value that is wrong, and one hears it once."""
    node, below = _below(entry, where, reading)
    if node is None:
        return {}
    entries = _known(node, WATCHER_FIELDS, below, reading, UNSHARED)
    run = entries.get("run")
    at = below.holding(WATCHER_FIELDS).field("run", run.key.place if run is not None else below.owner)
    runs: dict[str, Entry] = {}
    if run is not None and isinstance(run.value, MappingNode):
        runs = _known(run.value, RUN_FIELDS, at, reading, {})
        entries["run"] = Entry(run.key, MappingNode(runs, run.value.place))
    if "trigger" in entries:
        for key in FILTER:
            if key in entries:
                place = entries.pop(key).key.place
                reading.problem(place, f"`{key}` beside `trigger`", "watchers have conditions, or code: remove one")
    _check_watchers(entries, runs, (below.holding(WATCHER_FIELDS), at.holding(RUN_FIELDS)), reading)
    return entries


def _check_watchers(
    entries: Mapping[str, Entry], runs: Mapping[str, Entry], places: tuple[Where, Where], reading: Reading
) -> None:
    """What can be said of the values without a watcher. Those with `${each.x}` wait for one."""
    where, at = places
    entries = {name: entry for name, entry in entries.items() if not mentions_each(entry.value)}
    runs = {name: entry for name, entry in runs.items() if not mentions_each(entry.value)}
    _check_scalars(entries, WATCHER_FIELDS, where, reading)
    _check_scalars(runs, RUN_FIELDS, at, reading)
    read_filter(entries, lambda key: where.field(key, entries[key].key.place), None, Compiled(), reading)
    read_run(
        runs,
        lambda key: at.named(key, runs[key].key.place if key in runs else at.owner),
        None,
        Compiled(),
        reading,
        is_python=True,
    )


def _check_scalars(entries: Mapping[str, Entry], fields: Fields, where: Where, reading: Reading) -> None:
    for name, entry in entries.items():
        shape = fields.by_name[name].shape
        if not isinstance(shape, AsNode):
            shape.read(entry.value, where.field(name, entry.key.place), reading)


def _known(
    node: MappingNode, fields: Fields, where: Where, reading: Reading, unfit: Mapping[str, str]
) -> dict[str, Entry]:
    """The entries whose keys may stand here; the others are problems."""
    where = where.holding(fields)
    known: dict[str, Entry] = {}
    for name, entry in node.entries.items():
        if name in unfit:
            reading.problem(entry.key.place, f"`{name}` can't be shared", unfit[name])
        elif name in fields.by_name:
            known[name] = entry
        else:
            refuse_key(entry.key, fields, where, reading)
    return known


def _below(entry: Entry | None, where: Where, reading: Reading) -> tuple[MappingNode | None, Where]:
    if entry is None:
        return None, where
    below = where.named(entry.key.text, entry.key.place)
    if isinstance(entry.value, MappingNode):
        return entry.value, below
    refuse(entry.value, "a mapping", below, reading, f"of keys that all {entry.key.text} have")
    return None, below
