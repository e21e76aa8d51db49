"""Conditions and expressions as text: a subset of CEL, compiled to the typed form.

    event.region in ["eu", "uk"] && event.amount > 100

A name stands behind a root, so a field called `type` collides with nothing. What differs from CEL: `event.a.b` is
unknown where a part of it is missing, all numbers are of one kind, and there are no null, objects and bytes to write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bridge.language.ir import ROOTS, Expr
from bridge.language.reading.forms import lowered
from bridge.language.reading.scope import Scope


def compile_when(text: str, *, each: Mapping[str, object] | None = None) -> Expr:
    """The condition that a text asks for; values of `each` become literals of it.

    Raises FilterError, with the path `("when",)` and the place of what is wrong in the text.
    """
    return lowered(text, Scope(frozenset(ROOTS), each), ("when",), 0, is_condition=True)


def parse_expression(
    text: str,
    roots: Collection[str],
    *,
    each: Mapping[str, object] | None = None,
    path: tuple[str | int, ...],
    at: int = 0,
) -> Expr:
    """An expression of any kind over `roots`. `at` is where it begins in the text that `path` leads to.

    Raises FilterError.
    """
    return lowered(text, Scope(frozenset(roots), each), path, at, is_condition=False)
