"""Decoding only the fields that somebody asks for: Structs that are made to measure.

A decoder skips what its Struct doesn't name, at a third to a quarter of the cost of making objects of it
(docs/performance.md). What is skipped is checked for its grammar, not for its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct

from bridge.filters.ir import Path


def numbered_struct(fields: Sequence[tuple[str, Any, Any]]) -> type[Struct]:
    """A Struct for fields of any name: (name in the document, type, default).

    Its attributes are `numbered(0)`, `numbered(1)` and so on. Instances equal only themselves, so that no table of
    values holds one. They hold no cycle, so the collector need not trace them.
    """
    attributes = [(numbered(index), kind, default) for index, (_, kind, default) in enumerate(fields)]
    names = {numbered(index): name for index, (name, _, _) in enumerate(fields)}
    return msgspec.defstruct("Fields", attributes, rename=names, frozen=True, eq=False, gc=False)


def numbered(index: int) -> str:
    return f"f{index}"


class _Node:
    """A field that is asked for, with the fields below it."""

    __slots__ = ("below",)

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}

    def struct(self) -> type[Struct]:
        return numbered_struct([(name, *below.kind()) for name, below in self.below.items()])

    def kind(self) -> tuple[Any, Any]:
        """The type of the field, and what it is where it is missing."""
        if not self.below:
            return Any, None
        struct = self.struct()
        return struct | str | int | float | bool | None | list[Any], struct()


class Projection:
    """The fields at `paths` (none of them empty) of JSON documents that are objects.

    A field is what it is in the document, None where it is missing. One that has fields below it and is no object in
    the document keeps its value: asking for what is below raises AttributeError.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._root = _Node()
        for path in paths:
            node = self._root
            for name in path:
                node = node.below.setdefault(name, _Node())
        self._struct = self._root.struct()
        self.decode: Callable[[bytes], Struct] = msgspec.json.Decoder(self._struct).decode
        self.blank = self._struct()

    def of(self, document: dict[str, Any]) -> Struct:
        """The same of a document that is decoded already."""
        return msgspec.convert(document, self._struct)

    def of_all(self, documents: list[Any]) -> list[Struct]:
        """The same of many; raises ValidationError if one is no object."""
        return msgspec.convert(documents, list[self._struct])  # type: ignore[name-defined]  # made at run time

    def getter(self, *paths: Path) -> Callable[[Struct], Any]:
        """Reads one field, or a tuple of several."""
        return attrgetter(*map(self._attribute, paths))

    def _attribute(self, path: Path) -> str:
        attributes, node = [], self._root
        for name in path:
            attributes.append(numbered(list(node.below).index(name)))
            node = node.below[name]
        return ".".join(attributes)
