"""Operators brought into the one form that the typed form has for each of them."""

from __future__ import annotations

from typing import Final, Literal

from bridge.language.ir import AllOf, AnyOf, Call, Compare, Const, Expr, ListOf, Not, OneOf
from bridge.language.reading.typed import is_scalar, unequal

Op = Literal["==", "!=", "<", "<=", ">", ">="]

_FLIPPED: Final[dict[Op, Op]] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


def comparison(op: Op, left: Expr, right: Expr, at: int | None) -> Expr:
    """A literal stands on the right; `==` with a scalar one is AnyOf, `!=` the contrary of `==`."""
    if isinstance(left, Const) and not isinstance(right, Const):
        op, left, right = _FLIPPED[op], right, left
    if op == "!=":
        return Not(comparison("==", left, right, at), at=at)
    if op == "==" and isinstance(right, Const) and is_scalar(right.value):
        return AnyOf(left, (right.value,), at=at)
    return Compare(op, left, right, at=at)


def membership(value: Expr, container: Expr, at: int | None) -> Expr:
    """`in`; with a list of scalar literals it is AnyOf."""
    if isinstance(container, Const) and isinstance(container.value, tuple):
        scalars = tuple(item for item in container.value if is_scalar(item))
        if scalars and len(scalars) == len(container.value):
            return AnyOf(value, unequal(scalars), at=at)
    return Call("in", (value, container), at=at)


def listing(items: tuple[Expr, ...], at: int | None) -> Const | ListOf:
    """A list is a literal where all of its items are."""
    values = tuple(item.value for item in items if isinstance(item, Const))
    return Const(values, at=at) if len(values) == len(items) else ListOf(items, at=at)


def joined(what: Literal["all", "any"], parts: tuple[Expr, ...], at: int | None) -> Expr:
    """AND or OR, with what is of the same kind below it taken in; of one part that part."""
    kind = AllOf if what == "all" else OneOf
    flat: list[Expr] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat), at=at)
