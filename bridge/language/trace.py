"""What an expression gives for one event, and how it came to that: slow, complete, and total.

`evaluate` and `trace` are one walk, which notes the nodes or doesn't; so what a trace shows is what an evaluation
gives. Whatever an event holds, the answer is a value or a Fail.
"""

from __future__ import annotations

from bridge.language.interpreter import Budget, Roots, Traced, Walk
from bridge.language.ir import AllOf, Expr, Not, OneOf
from bridge.language.text import text_of_node
from bridge.language.values import Truth, Value

__all__ = ["Budget", "Traced", "clauses_of", "evaluate", "trace", "verdict"]


def evaluate(node: Expr, roots: Roots, budget: Budget | None = None) -> Value:
    """The value of an expression. `roots`: a View, or the value of each root.

    Parts of one condition that are evaluated apart share a `budget`. Raises only what a View raises.
    """
    return Walk(roots, budget or Budget()).whole(node)


def verdict(node: Expr, roots: Roots, budget: Budget | None = None) -> Truth:
    """What a condition says: its value, or a Fail that names what it gives instead of true or false."""
    return Walk(roots, budget or Budget()).truth(node)


def trace(node: Expr, roots: Roots) -> Traced:
    """What `evaluate` gives, and the values that it was made of."""
    parts: list[Traced] = []
    value = Walk(roots, Budget(), parts).whole(node)
    return Traced(node, text_of_node(node), value, parts[0].parts if parts else ())


def clauses_of(node: Expr) -> tuple[Expr, ...]:
    """What a condition asks, in its order: the parts of AND, OR and NOT that are none of these themselves."""
    match node:
        case AllOf(parts=parts) | OneOf(parts=parts):
            return tuple(clause for part in parts for clause in clauses_of(part))
        case Not(part=part):
            return clauses_of(part)
        case _:
            return (node,)
