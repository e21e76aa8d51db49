"""What a condition or an expression reads: its fields, by root and path. The variables of macros are not among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from bridge.language.ir import (
    AllOf,
    AnyOf,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    Field,
    Has,
    If,
    Item,
    ListOf,
    Not,
    OneOf,
    Path,
    Select,
)

EVENT: Final = "event"


def paths_of(node: Expr) -> frozenset[Path]:
    """The paths of the event that must be there to evaluate the node; `()` is the whole event.

    Where an item is picked it is the list that counts: `event.items[0].sku` reads `("items",)`.
    """
    return frozenset(field.path for field in fields_of(node) if field.root == EVENT)


def roots_of(node: Expr) -> frozenset[str]:
    """The roots that the node reads; empty for one that no event has a say in."""
    return frozenset(field.root for field in fields_of(node))


def fields_of(node: Expr, bound: frozenset[str] = frozenset()) -> Iterator[Field]:
    """Its fields in the order in which they are written, with repetitions. `bound` are the variables around it."""
    if isinstance(node, Field):
        if node.root not in bound:
            yield node
    elif isinstance(node, Each):
        yield from fields_of(node.over, bound)
        inside = bound | {node.var}
        for part in (node.body,) if node.keep is None else (node.keep, node.body):
            yield from fields_of(part, inside)
    else:
        for part in _parts_of(node):
            yield from fields_of(part, bound)


def nodes_of(node: Expr) -> Iterator[Expr]:
    """The node and all below it."""
    yield node
    if isinstance(node, Each):
        for part in (node.over, node.body) if node.keep is None else (node.over, node.keep, node.body):
            yield from nodes_of(part)
    elif not isinstance(node, Field):
        for part in _parts_of(node):
            yield from nodes_of(part)


def macros_of(node: Expr) -> int:
    """How many lists it walks."""
    return sum(isinstance(each, Each) for each in nodes_of(node))


def _parts_of(
    node: Const | Select | Item | ListOf | AnyOf | Compare | Call | Has | Not | AllOf | OneOf | If,
) -> tuple[Expr, ...]:
    match node:
        case Const():
            return ()
        case Select(of=of) | AnyOf(of=of):
            return (of,)
        case Item(of=of, key=key):
            return (of, key)
        case ListOf(items=parts) | Call(args=parts) | AllOf(parts=parts) | OneOf(parts=parts):
            return parts
        case Compare(left=left, right=right):
            return (left, right)
        case Has(field=field):
            return (field,)
        case Not(part=part):
            return (part,)
        case If(test=test, then=then, other=other):
            return (test, then, other)
        case _:
            assert_never(node)
