"""Texts with holes: `${each.x}` in scalars, and how a node is made that has the values of an item in their place.

A scalar that is one hole alone becomes the node that the item has there. Inside text a value is pasted as it is
written, before variables are substituted, so that `${NAME}` works in items as anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import structs

from bridge.config.nodes import Broken, Entry, Node, Place, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Sequence as SequenceNode
from bridge.config.problems import Problem
from bridge.config.reading import Reading
from bridge.config.secrecy import is_secret_name

Path = tuple[str, ...]
"""Names from the item downwards. Empty: what stands there is no path."""

Maker = Callable[[MappingNode], Node]
"""From an item to a node."""

_HOLE: Final = re.compile(r"\$\$|\$\{\s*each\b([^}]*)\}?")
_PATH: Final = re.compile(r"\$\{each((?:\.[A-Za-z_][A-Za-z0-9_]*)+)\}")
_DOLLAR: Final = re.compile(r"\$\$|\$\{[^}]*\}|(\$\{)|(\$)$")


def parts_of(text: str) -> list[str | Path]:
    """Text and holes, in order."""
    parts: list[str | Path] = []
    end = 0
    for found in _HOLE.finditer(text):
        if found[0] == "$$":
            continue
        if found.start() > end:
            parts.append(text[end : found.start()])
        path = _PATH.fullmatch(found[0])
        parts.append(tuple(path[1].split(".")[1:]) if path else ())
        end = found.end()
    if end < len(text):
        parts.append(text[end:])
    return parts


def holes_of(text: str) -> list[str]:
    """The holes as they are written, in order."""
    return [found[0] for found in _HOLE.finditer(text) if found[0] != "$$"]


def look_up(item: Node, path: Path) -> Node | None:
    """What the item has there."""
    for name in path:
        entry = item.entries.get(name) if isinstance(item, MappingNode) else None
        if entry is None:
            return None
        item = entry.value
    return item


def scalars_of(node: Node) -> Iterator[Scalar]:
    """Every scalar value below the node."""
    if isinstance(node, Scalar):
        yield node
    else:
        children = node.items if isinstance(node, SequenceNode) else [entry.value for entry in node.entries.values()]
        for child in children:
            yield from scalars_of(child)


# Makers. None stands for a node that is the same for every item ------------------------------------------------------


def mapping_maker(node: MappingNode, makers: Mapping[str, Maker | None]) -> Maker | None:
    """Of a mapping, by the makers of its values."""
    made = [(name, node.entries[name].key, maker) for name, maker in makers.items() if maker is not None]
    if not made:
        return None

    def make(item: MappingNode) -> Node:
        entries = dict(node.entries)
        for name, key, maker in made:
            entries[name] = Entry(key, maker(item))
        return MappingNode(entries, node.place)

    return make


def sequence_maker(node: SequenceNode, makers: list[Maker | None]) -> Maker | None:
    """Of a list, by the makers of its items."""
    if not any(makers):
        return None
    both = list(zip(node.items, makers, strict=True))
    return lambda item: SequenceNode([maker(item) if maker else same for same, maker in both], node.place)


def taker(path: Path) -> Maker:
    """Of a scalar that is one hole: the node that the item has there. It must have one."""
    is_secret = any(map(is_secret_name, path))

    def take(item: MappingNode) -> Node:
        node = look_up(item, path)
        assert node is not None
        return _hidden(node) if is_secret else node

    return take


def paster(scalar: Scalar, parts: list[str | Path], reading: Reading) -> Maker:
    """Of a scalar with holes in text."""
    is_secret = any(is_secret_name(name) for part in parts if isinstance(part, tuple) for name in part)
    # Text with variables of its own is to blame itself for what is wrong with it; else the item's value is.
    has_own = any("${" in part for part in parts if isinstance(part, str))

    def paste(item: MappingNode) -> Node:
        texts: list[str] = []
        place: Place | None = scalar.place if has_own else None
        for part in parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            node = look_up(item, part)
            if not isinstance(node, Scalar) or node.kind == "nothing" or _is_open(node.text):
                problem = _unfit(node, part, scalar)
                reading.problems.add(problem)
                return Broken(scalar.text, False, scalar.place, False, problem)
            texts.append(_closed(node.text))
            place = place or node.place
        return Scalar("".join(texts), False, place or scalar.place, is_secret)

    return paste


def _unfit(node: Node | None, path: Path, scalar: Scalar) -> Problem:
    """Why the value can't be part of a text."""
    place = node.place if node is not None else scalar.place
    if isinstance(node, Scalar) and node.kind != "nothing":
        return place.source.problem(place, "a ${ without its }", "$$ stands for a $")
    what = "nothing" if isinstance(node, Scalar) else "a list" if isinstance(node, SequenceNode) else "a mapping"
    hint = f"${{each.{'.'.join(path)}}} is part of a text at {scalar.place}"
    return place.source.problem(place, f"{what} can't be put into text", hint)


def _is_open(text: str) -> bool:
    """Whether it holds a `${` that only the text behind it would close."""
    return "${" in text and any(found[1] for found in _DOLLAR.finditer(text))


def _closed(text: str) -> str:
    """The text such that a `$` at its end stays one, whatever comes behind it."""
    return f"{text}$" if text.endswith("$") and any(found[2] for found in _DOLLAR.finditer(text)) else text


def _hidden(node: Node) -> Node:
    if isinstance(node, Scalar):
        return structs.replace(node, is_secret=True)
    if isinstance(node, SequenceNode):
        return SequenceNode([_hidden(item) for item in node.items], node.place)
    entries = {name: Entry(entry.key, _hidden(entry.value)) for name, entry in node.entries.items()}
    return MappingNode(entries, node.place)
