"""`for_each`: a watcher that is written once and read for every item of a list.

    for_each: [{region: eu, limit: 100}, {region: us, limit: 250}]
    name: orders_${each.region}
    match: {region: "${each.region}"}

`${each.x}` alone becomes the item's value, with its type and its place; inside text it is pasted as text. Expressions
(`when`, `reject`, `params`, `tags`, `key`) are left alone: to them the item is the root `each`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bridge.config.fields import refuse
from bridge.config.holes import (
    Maker,
    Path,
    holes_of,
    look_up,
    mapping_maker,
    parts_of,
    paster,
    scalars_of,
    sequence_maker,
    taker,
)
from bridge.config.nodes import Broken, Entry, Node, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Sequence as SequenceNode
from bridge.config.problems import Problem
from bridge.config.reading import Reading, Where, part_of, shown
from bridge.config.suggest import did_you_mean, listed

MOST_ITEMS: Final = 10_000

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INSIDE: Final = re.compile(r"\$\$|\$\{([^}]*)\}")
_TEXT: Final = re.compile(r"""[rR]?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.DOTALL)
_ASKED: Final = re.compile(r"(?<![\w.])each\b((?:\.[A-Za-z_]\w*)*)")


def mentions_each(node: Node) -> bool:
    """Whether a text below the node may ask for the item."""
    return any("each" in scalar.text for scalar in scalars_of(node))


def has_hole(node: Node) -> bool:
    """Whether a scalar below the node has a place for a value of the item."""
    return any(holes_of(scalar.text) for scalar in scalars_of(node))


def read_items(entry: Entry, where: Where, reading: Reading) -> list[MappingNode]:
    """The items of `for_each`; empty with a problem."""
    node = entry.value
    if not isinstance(node, SequenceNode) or not node.items:
        refuse(node, "a list of at least one mapping", where, reading, "like `for_each: [{region: eu}, {region: us}]`")
        return []
    if len(node.items) > MOST_ITEMS:
        message = f"`for_each`: expected at most {MOST_ITEMS:,} items, saw {len(node.items):,}"
        reading.problem(entry.key.place, message, "give the rest to a second watcher")
        return []
    items = [item for n, item in enumerate(node.items) if _is_item(item, where.item(n, item.place), reading)]
    return [item for item in items if isinstance(item, MappingNode)] if len(items) == len(node.items) else []


def _is_item(node: Node, where: Where, reading: Reading) -> bool:
    if not isinstance(node, MappingNode):
        refuse(node, "a mapping", where, reading, "each item holds values by name, like {region: eu}")
        return False
    odd = [entry.key for name, entry in node.entries.items() if not _NAME.fullmatch(name)]
    for key in odd:
        hint = "letters, digits and _, so that ${each.name} can ask for it"
        reading.problem(key.place, f"'{shown(key.text)}' can't be the name of a value of `for_each`", hint)
    return not odd


class Template:
    """A watcher with holes, filled for one item after the other."""

    def __init__(self, node: MappingNode, items: Sequence[MappingNode], reading: Reading) -> None:
        self._node = node
        self._items = items
        self._reading = reading
        self._known: dict[Path, bool] = {}
        self._needed: dict[Path, tuple[Scalar, str]] = {}
        self._in_expressions: set[str] = set()
        self._make = self._watcher(node)

    def of(self, item: MappingNode) -> MappingNode | None:
        """The watcher of an item; None with a problem where the item lacks what is asked for."""
        lacks = [path for path in self._needed if look_up(item, path) is None]
        for path in lacks:
            scalar, written = self._needed[path]
            message = f"this item of `for_each` has no `{'.'.join(path)}`"
            self._reading.problem(item.place, message, f"{written} at {scalar.place} asks for it")
        if lacks:
            return None
        made = self._make(item) if self._make is not None else self._node
        assert isinstance(made, MappingNode)
        return made

    def asked_of(self, item: MappingNode) -> MappingNode:
        """What expressions ask for of an item."""
        entries = item.entries
        if "" not in self._in_expressions:
            entries = {name: entry for name, entry in entries.items() if name in self._in_expressions}
        return MappingNode(entries, item.place)

    # What is substituted, and what is an expression ------------------------------------------------------------------

    def _watcher(self, node: MappingNode) -> Maker | None:
        makers: dict[str, Maker | None] = {}
        for name, entry in node.entries.items():
            value = entry.value
            if name == "when" or (name == "reject" and isinstance(value, Scalar)):
                makers[name] = self._expressions(value, is_text=False)
            elif name == "run" and isinstance(value, MappingNode):
                makers[name] = self._run(value)
            elif name != "for_each":
                makers[name] = self._maker(value)
        return mapping_maker(node, makers)

    def _run(self, node: MappingNode) -> Maker | None:
        makers = {
            name: self._expressions(entry.value) if name in ("params", "tags", "key") else self._maker(entry.value)
            for name, entry in node.entries.items()
            if name != "key"
        }
        if "key" in node.entries:
            self._note(node.entries["key"].value)
        return mapping_maker(node, makers)

    def _expressions(self, node: Node, *, is_text: bool = True) -> Maker | None:
        """They stay as they are, but a hole alone stands for a whole block, or for a whole condition."""
        if isinstance(node, Scalar) and [type(part) for part in parts_of(node.text)] == [tuple]:
            return self._maker(node)
        self._note(node, is_text=is_text)
        return None

    def _note(self, node: Node, *, is_text: bool = True) -> None:
        """Keeps in mind what expressions ask for; `is_text`: they are the holes of a text.

        What no item has is for the compiler to say: it knows where in the text it stands.
        """
        for scalar in scalars_of(node):
            if "each" not in scalar.text:
                continue
            pieces = [found[1] or "" for found in _INSIDE.finditer(scalar.text)] if is_text else [scalar.text]
            text = _TEXT.sub('""', " ".join(pieces))
            for names in _ASKED.findall(text):
                path = tuple(names.split(".")[1:])
                self._in_expressions.add(path[0] if path else "")
                # The last name may be that of a function: `each.name.lower()`.
                known = next((path[:n] for n in range(len(path), 0, -1) if self._is_known(path[:n])), None)
                if known is not None:
                    self._needed.setdefault(known, (scalar, f"each.{'.'.join(known)}"))

    # Substitution ----------------------------------------------------------------------------------------------------

    def _maker(self, node: Node) -> Maker | None:
        if isinstance(node, Scalar):
            return self._scalar(node)
        if isinstance(node, SequenceNode):
            return sequence_maker(node, [self._maker(item) for item in node.items])
        return mapping_maker(node, {name: self._maker(entry.value) for name, entry in node.entries.items()})

    def _scalar(self, scalar: Scalar) -> Maker | None:
        parts = parts_of(scalar.text)
        paths = [part for part in parts if isinstance(part, tuple)]
        for path, written in zip(paths, holes_of(scalar.text), strict=True):
            problem = self._problem_of(path, written, scalar)
            if problem is not None:
                self._reading.problems.add(problem)
                broken = Broken(scalar.text, False, scalar.place, False, problem)
                return lambda _: broken
            self._needed.setdefault(path, (scalar, written))
        if not paths:
            return None
        return taker(paths[0]) if len(parts) == 1 else paster(scalar, parts, self._reading)

    def _problem_of(self, path: Path, written: str, scalar: Scalar) -> Problem | None:
        place = part_of(scalar.place, written)
        if not path:
            hint = "what works is ${each.name}; $$ stands for a $"
            return place.source.problem(place, f"{shown(written)} is not understood", hint)
        if self._is_known(path):
            return None
        names = self._names(path[:-1])
        hint = did_you_mean(path[-1], names, f"the items have {listed(names)}")
        return place.source.problem(place, f"no item of `for_each` has `{'.'.join(path)}`", hint)

    def _is_known(self, path: Path) -> bool:
        if path not in self._known:
            self._known[path] = any(look_up(item, path) is not None for item in self._items)
        return self._known[path]

    def _names(self, path: Path) -> list[str]:
        """What the items have behind the path."""
        found = (look_up(item, path) for item in self._items)
        return list(dict.fromkeys(name for node in found if isinstance(node, MappingNode) for name in node.entries))
