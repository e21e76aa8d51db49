"""The keys of a mapping, whatever they hold: which there are, which are missing, which don't belong."""

from __future__ import annotations

from collections import abc
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from bridge.config import vocabulary
from bridge.config.nodes import Mapping, Node, Scalar
from bridge.config.reading import Reading, Where, seen


class Bad:
    """A value that could not be read; its problem has been added."""


BAD: Final = Bad()


class Shape(Protocol):
    """Reads a node as a value of one type, or adds a problem and returns BAD. `expected` finishes "expected …"."""

    @property
    def expected(self) -> str: ...
    def read(self, node: Node, where: Where, reading: Reading) -> object: ...


class Field(Struct, frozen=True):
    """A key of a mapping. `name` is how it is written, `attribute` what the Struct calls it."""

    name: str
    attribute: str
    shape: Shape
    is_required: bool
    about: str
    inner: abc.Callable[[], Fields | None]
    """What the mapping behind the key may hold, where that is fixed."""
    below: str
    """How the mapping behind the key is called."""


class Fields:
    """The keys that a mapping may have; `later` holds those that are known and not available yet, with a hint."""

    def __init__(self, fields: tuple[Field, ...], later: abc.Mapping[str, str]) -> None:
        self.by_name = {field.name: field for field in fields}
        self.later = {name: hint for name, hint in later.items() if name not in self.by_name}

    def __contains__(self, name: object) -> bool:
        return name in self.by_name or name in self.later

    def read(self, node: Mapping, where: Where, reading: Reading) -> Values:
        """What the mapping holds; problems are added as they are met, and reading goes on behind them."""
        where = where.holding(self)
        values: dict[str, object] = {}
        meant: set[str | None] = set()
        for name, entry in node.entries.items():
            field = self.by_name.get(name)
            if field is None:
                meant.add(vocabulary.refuse_key(entry.key, self, where, reading))
            else:
                values[field.attribute] = field.shape.read(entry.value, where.field(name, entry.key.place), reading)
        missing = [f for f in self.by_name.values() if f.is_required and f.attribute not in values]
        for field in missing:
            if field.name not in meant:
                hint = field.about or f"add `{field.name}: …`"
                reading.problem(where.owner, f"`{field.name}` is missing in {where.label}", hint)
        good = {name: value for name, value in values.items() if value is not BAD}
        return Values(good, len(good) == len(values) and not missing)


class Values(NamedTuple):
    """Values by attribute, without those that were not written or could not be read.

    `is_complete`: every key that is required is there, and every value was read.
    """

    good: dict[str, Any]
    is_complete: bool


def construct(made: type[Struct], values: dict[str, Any], where: Where, reading: Reading) -> object:
    """The Struct; what its own checks say becomes a problem of the block."""
    try:
        return made(**values)
    except (ValueError, TypeError) as error:
        reading.foreign(where.owner, f"{where.label}: {error}")
        return BAD


def refuse(node: Node, expected: str, where: Where, reading: Reading, hint: str = "") -> Bad:
    """Adds the problem that a node is of a wrong kind."""
    filled = reading.fill(node, where) if isinstance(node, Scalar) else None
    if isinstance(node, Scalar) and filled is None:
        return BAD
    reading.problem(node.place, f"`{where.name}`: expected {expected}, {seen(node, filled, where)}", hint)
    return BAD
