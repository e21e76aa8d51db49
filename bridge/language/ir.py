"""The typed form of a condition or an expression: what every surface lowers to, and all that evaluates one knows of it.

`match:` and `when:` become the same nodes, so they can't differ in meaning. What a node means is in `values.py`; how
fast it is found and asked, in `index.py` and `compiled.py`; what it saw, in `trace.py`.

Nodes are data: literals are values in them, and never text that is compiled.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct

from bridge.language.values import Duration, Timestamp

Path = tuple[str, ...]

Scalar = str | int | Decimal | bool
"""A literal as it is written. Numbers with a fraction or an exponent are Decimals: exactly what was written."""

Literal_ = Scalar | Timestamp | Duration

MOST_DEPTH: Final = 64
"""Levels of an expression."""

LONGEST_SOURCE: Final = 8 * 1024
"""Bytes of an expression."""

META_FIELDS: Final[dict[str, str]] = {
    "stream": "text",
    "lane": "text",
    "position": "text",
    "message_id": "text",
    "timestamp": "timestamp",
    "delivery_attempt": "number",
    "tombstone": "bool",
}
"""What `meta` has, and of which kind; each may be missing."""

ROOTS: Final = ("event", "meta", "key", "headers", "now")
"""What a condition can ask. `attributes` and `properties` are other names for `headers`."""


class Node(Struct, frozen=True, kw_only=True):
    """`at` is the offset in the text that it was written in; None where it comes from a block."""

    at: int | None = None


class Const(Node, frozen=True, kw_only=False):
    """A literal. A tuple is a list literal, a dict and None occur as values of `each` only."""

    value: Literal_ | tuple[object, ...] | dict[str, object] | None


class Field(Node, frozen=True, kw_only=False):
    """`root.a.b`, by constant names. `root` is one of ROOTS, `trigger`, or the variable of a macro around it."""

    root: str
    path: Path = ()


class Select(Node, frozen=True, kw_only=False):
    """`x.name` where x is more than a field: `event.items[0].sku`."""

    of: Expr
    name: str


class Item(Node, frozen=True, kw_only=False):
    """`x[key]`: an item of a list by its number from 0, or of a mapping by its name."""

    of: Expr
    key: Expr


class ListOf(Node, frozen=True, kw_only=False):
    """`[a, b]` where not everything is a literal."""

    items: tuple[Expr, ...]


class AnyOf(Node, frozen=True, kw_only=False):
    """`of` equals one of `values` (at least one, no two equal): `==` with a literal, or `in` with a list of them."""

    of: Expr
    values: tuple[Scalar, ...]


class Compare(Node, frozen=True, kw_only=False):
    """Two values; a literal stands on the right. `==` with a scalar literal is AnyOf, `!=` is Not of `==`."""

    op: Literal["==", "<", "<=", ">", ">="]
    left: Expr
    right: Expr


class Call(Node, frozen=True, kw_only=False):
    """A function of `functions.FUNCTIONS`, arithmetic (`+ - * / %`, `neg`) and `in` included."""

    name: str
    args: tuple[Expr, ...]


class Has(Node, frozen=True, kw_only=False):
    """Whether the field is there, and not null. Never unknown."""

    field: Field | Select | Item


class Not(Node, frozen=True, kw_only=False):
    part: Expr


class AllOf(Node, frozen=True, kw_only=False):
    """Every part holds. Never nested in another; without parts (an empty filter) true of everything."""

    parts: tuple[Expr, ...]


class OneOf(Node, frozen=True, kw_only=False):
    """Some part holds. Never nested in another."""

    parts: tuple[Expr, ...]


class If(Node, frozen=True, kw_only=False):
    """`test ? then : other`"""

    test: Expr
    then: Expr
    other: Expr


class Each(Node, frozen=True, kw_only=False):
    """A macro over the items of a list, or the names of a mapping. `body` and `keep` see the item as Field(var).

    `keep` is the filter of a `map` with three arguments: `list.map(x, keep, body)`.
    """

    kind: Literal["exists", "all", "filter", "map"]
    over: Expr
    var: str
    body: Expr
    keep: Expr | None = None


Expr = Const | Field | Select | Item | ListOf | AnyOf | Compare | Call | Has | Not | AllOf | OneOf | If | Each
