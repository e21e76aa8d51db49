"""The blocks `assets.<name>.watchers[]`: one after the other, and each as often as its `for_each` says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridge.config.defaults import Defaults
from bridge.config.fields import refuse
from bridge.config.filtering import Compiled
from bridge.config.foreach import Template, has_hole, read_items
from bridge.config.model import WatcherConfig
from bridge.config.names import check_name
from bridge.config.nodes import Entry, Node, Place, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Sequence as SequenceNode
from bridge.config.reading import Reading, Where
from bridge.config.watcher import Given, Known, Watcher
from bridge.config.watcher_blocks import ASSET_FIELDS, WATCHER_FIELDS

_MOST_WRONG: Final = 100
"""Items of one `for_each` that may be wrong one after the other before the rest is left unread: it is wrong as well."""


class WatcherReader:
    """Reads the watchers of one asset after the other, and sees to it that no id is there twice."""

    def __init__(self, known: Known, defaults: Defaults, reading: Reading) -> None:
        self._known = known
        self._defaults = defaults
        self._reading = reading
        self._ids: dict[str, Place] = {}
        self.used_streams: dict[str, list[bool]] = {}
        """By stream: whether each of its watchers is enabled."""
        self.used_targets: set[str] = set()

    def asset(self, entry: Entry) -> Iterator[WatcherConfig]:
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
        for number, given in enumerate(self._given(entry.key, node, below)):
            watcher = Watcher(given, below.item(number, given.node.place), self._reading, self._known)
            read = watcher.read(self._ids, names)
            self._note_use(watcher)
            if read is not None:
                yield WatcherConfig(**read, description=values.good.get("description") or "")

    def _note_use(self, watcher: Watcher) -> None:
        stream = watcher.good.get("stream")
        if stream is not None:
            self.used_streams.setdefault(stream, []).append(watcher.good.get("enabled", True))
        if "target" in watcher.run:
            self.used_targets.add(watcher.run["target"])

    # From what is written to single watchers -------------------------------------------------------------------------

    def _given(self, asset: Scalar, node: SequenceNode, where: Where) -> Iterator[Given]:
        has_siblings = len(node.items) > 1
        for own in node.items:
            whole = self._defaults.watcher(own)
            if isinstance(whole, MappingNode) and "for_each" in whole.entries:
                yield from self._for_each(asset, own, whole, where.item(0, own.place))
            else:
                yield Given(whole, own, asset, has_siblings, Compiled())

    def _for_each(self, asset: Scalar, own: Node, whole: MappingNode, where: Where) -> Iterator[Given]:
        entry = whole.entries["for_each"]
        items = read_items(entry, where.holding(WATCHER_FIELDS).field("for_each", entry.key.place), self._reading)
        if not items:
            return
        has_name = self._has_name(whole, entry)
        if not (self._differ(whole, items) and has_name):
            items = items[:1]
        template, compiled = Template(whole, items, self._reading), Compiled()
        is_all_wrong = True
        for count, item in enumerate(items, 1):
            before = len(self._reading.problems)
            node = template.of(item)
            if node is not None:
                yield Given(node, own, asset, has_name, compiled, item, template.asked_of(item))
            is_all_wrong &= len(self._reading.problems) > before  # the watcher has been read by now
            if is_all_wrong and count == _MOST_WRONG:
                return

    def _has_name(self, whole: MappingNode, entry: Entry) -> bool:
        if "name" in whole.entries:
            return True
        hint = "give it one that differs from item to item, like `name: orders_${each.region}`"
        self._reading.problem(entry.key.place, "a watcher with `for_each` and without `name`", hint)
        return False

    def _differ(self, whole: MappingNode, items: list[MappingNode]) -> bool:
        """Whether names and ids can be told apart. A single item needs nothing to tell it by."""
        same = [
            entry.value
            for key in ("name", "id")
            if (entry := whole.entries.get(key)) and len(items) > 1 and not has_hole(entry.value)
        ]
        for node in same:
            message = "all watchers of this `for_each` would be called the same"
            hint = f"let it differ from item to item: ${{each.{next(iter(items[0].entries), 'name')}}}"
            self._reading.problem(node.place, message, hint)
        return not same
