"""A part of an expression on its way to the typed form: its node, and what is known before any event is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TypeGuard

from msgspec import Struct

from bridge.language.functions import Kind
from bridge.language.ir import Const, Expr, Scalar
from bridge.language.values import kind_of


class Typed(Struct, frozen=True):
    """`text` is how it is written, and stands between `start` and `end`.

    `is_broken`: its problem is noted, and what is made of it has none of its own.
    """

    node: Expr
    kind: Kind
    text: str
    start: int
    end: int
    depth: int = 1
    is_broken: bool = False

    @property
    def shown(self) -> str:
        """The text in backquotes, cut where it is long."""
        return f"`{self.text}`" if len(self.text) <= 40 else f"`{self.text[:40]}…`"

    @property
    def is_null(self) -> bool:
        """A value of `each` that is null; nothing else is a constant of that kind."""
        return isinstance(self.node, Const) and self.node.value is None and not self.is_broken


def constant(value: object) -> str | int | Decimal | bool | tuple[object, ...] | dict[str, object] | None:
    """A value of `each` as a literal has it. Raises ValueError for what no literal is."""
    if value is None or isinstance(value, (str, int, Decimal)):
        return value
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(name): constant(below) for name, below in value.items()}
    if isinstance(value, Sequence):
        return tuple(map(constant, value))
    raise ValueError(f"a {type(value).__name__} can't stand in an expression")


def is_scalar(value: object) -> TypeGuard[Scalar]:
    return isinstance(value, (str, int, Decimal))


def unequal(values: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The values without those that equal an earlier one: 1.0 is 1, and true is not."""
    found: dict[tuple[Kind, Scalar], Scalar] = {}
    for value in values:
        found.setdefault((kind_of(value), value), value)
    return tuple(found.values())
