"""Decodes only the fields in use. The rest of a document is skipped by the decoder, at a third of the cost.

Fields are read as attributes of a Struct that is made for them. Their names there are numbers: what fields are called
says nothing about which names a Python class can have. Numbers are never given to another field, so that what was made
to read a field goes on reading it while others come and go.

A field that is compared with one kind of value only is decoded as that kind: a document where it is something else is
refused by the decoder, at no cost to all the others, and read again by `loosely`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from bridge.decode.structs import numbered, struct_of
from bridge.language.ir import Path

Use = Literal["text", "number", "bool", "any", "presence"]
"""What a field is asked for. `presence`: whatever it is, as long as it is there."""

_TYPES: Final[dict[frozenset[str], Any]] = {
    frozenset({"text"}): str | None,
    frozenset({"number"}): int | float | None,
    frozenset({"bool"}): bool | None,
}


@lru_cache(maxsize=1024)
def _reader(*attributes: str) -> Callable[[Struct], Any]:
    """One for all that read the same: ten thousand of them would not fit into a cache."""
    return attrgetter(*attributes)


class _Node:
    """A field that is asked for, with the fields below it."""

    __slots__ = ("below", "blanks", "number", "numbers", "uses")

    def __init__(self, number: int) -> None:
        self.number = number
        self.numbers = 0  # given out to fields below, for ever
        self.below: dict[str, _Node] = {}
        self.uses: Counter[Use] = Counter()
        self.blanks: dict[bool, Struct] = {}  # what stands for the field where it is missing, and has fields below it

    def child(self, name: str) -> _Node:
        node = self.below.get(name)
        if node is None:
            node = self.below[name] = _Node(self.numbers)
            self.numbers += 1
        return node

    def struct(self, *, loose: bool) -> type[Struct]:
        return struct_of((below.number, name, *below.kind(loose=loose)) for name, below in self.below.items())

    def kind(self, *, loose: bool) -> tuple[Any, Any]:
        """The type of the field, and what it is where it is missing."""
        if not self.below:
            return (Any if loose else self.type), None
        struct = self.struct(loose=loose)
        blank = struct()
        self.blanks[loose] = blank
        return struct | str | int | float | bool | None | list[Any], blank

    @property
    def type(self) -> Any:
        return _TYPES.get(self.compared, Any)

    @property
    def compared(self) -> frozenset[str]:
        return frozenset(use for use, count in self.uses.items() if count > 0 and use != "presence")


class Projection:
    """The fields in use of JSON documents that are objects.

    A field is what it is in the document, None where it is missing. One that has fields below it and is no object in
    the document keeps its value: asking for what is below raises AttributeError.
    """

    def __init__(self) -> None:
        self._root = _Node(0)
        self._is_stale = True

    def use(self, path: Path, use: Use) -> bool:
        """The field is asked for from now on. False: what reads other fields must be made again, see `presence`."""
        node, is_new_parent = self._root, False
        for name in path:
            is_new_parent = is_new_parent or (not node.below and node.uses.total() > 0)
            node = node.child(name)
        was_parent = bool(node.below)
        node.uses[use] += 1
        self._is_stale = True
        return not is_new_parent and not (was_parent and use != "presence")

    def drop(self, path: Path, use: Use) -> None:
        """One that asked for the field does so no more; fields that nobody asks for are not decoded any more."""
        trail = [self._root]
        for name in path:
            trail.append(trail[-1].below[name])
        trail[-1].uses[use] -= 1
        for name, parent, node in zip(reversed(path), reversed(trail[:-1]), reversed(trail[1:]), strict=True):
            if node.below or node.uses.total() > 0:
                break
            del parent.below[name]
        self._is_stale = True

    @property
    def is_empty(self) -> bool:
        """Nobody asks for anything."""
        return not self._root.below

    def refresh(self) -> bool:
        """Makes the decoders where fields were added or dropped; False where there was nothing to do."""
        if not self._is_stale:
            return False
        self._is_stale = False
        typed, loose = self._root.struct(loose=False), self._root.struct(loose=True)
        self._typed, self._loose = typed, loose
        self.decode: Callable[[bytes], Struct] = msgspec.json.Decoder(typed).decode
        self.blank = typed()
        return True

    def of_all(self, documents: list[Any]) -> list[Struct]:
        """The same of documents that are decoded already. Raises ValidationError where one is not as expected."""
        return msgspec.convert(documents, list[self._typed])  # type: ignore[name-defined]  # made at run time

    def loosely(self, document: object) -> Struct:
        """Of one document whose fields may be of any kind; the blank fields of one that is no object."""
        return msgspec.convert(document, self._loose) if isinstance(document, dict) else self.blank

    # Reading ----------------------------------------------------------------------------------------------------------

    def is_certain(self, path: Path, use: Use) -> bool:
        """Whether the field can be nothing but of this kind, null or missing in what `decode` returns."""
        node = self._find(path)
        return node is not None and not node.below and node.compared == {use}

    def getter(self, *paths: Path) -> Callable[[Struct], Any]:
        """Reads one field, or a tuple of several."""
        return _reader(*map(self._attribute, paths))

    def lacks(self, path: Path) -> Callable[[object], bool]:
        """Whether what a getter has read means that the field is missing."""
        node = self._find(path)
        assert node is not None, "a field is used before it is read"
        return lambda value: value is None or any(value is blank for blank in node.blanks.values())

    def phrase(self, path: Path) -> tuple[str, tuple[str, ...]] | None:
        """See `compiled.Fields`. A field that has fields below it is no value here."""
        node = self._find(path)
        return None if node is None or node.below else (f"e.{self._attribute(path)}", ())

    def presence(self, path: Path) -> str | None:
        node = self._find(path)
        return None if node is None or node.below else f"(e.{self._attribute(path)} is not None)"

    def _find(self, path: Path) -> _Node | None:
        node: _Node | None = self._root
        for name in path:
            node = node.below.get(name) if node is not None else None
        return node

    def _attribute(self, path: Path) -> str:
        attributes, node = [], self._root
        for name in path:
            node = node.below[name]
            attributes.append(numbered(node.number))
        return ".".join(attributes)
