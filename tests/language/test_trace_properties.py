"""Whatever the expression and the event are, a trace gives what an evaluation gives, and neither raises."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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
    Select,
)
from bridge.language.trace import Traced, evaluate, trace, verdict
from bridge.language.values import Fail, conjunction, disjunction


def field(*path: str) -> Field:
    return Field("event", path)


A, B, ITEMS, X = field("a"), field("b"), field("items"), Field("x")


def all_of(traced: Traced) -> Iterator[Traced]:
    yield traced
    for part in traced.parts:
        yield from all_of(part)


literals = st.sampled_from(["", "a", "1", 0, 1, -2, D("0.5"), True, False])
leaves = st.sampled_from([A, B, ITEMS, X, field(), field("a", "b"), Field("meta", ("lane",))]) | literals.map(Const)


def grown(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    parts = st.lists(inner, min_size=1, max_size=3).map(tuple)
    kinds = st.sampled_from(["exists", "all", "filter", "map"])
    ops = st.sampled_from(["==", "<", "<=", ">", ">="])
    return st.one_of(
        st.builds(AllOf, parts),
        st.builds(OneOf, parts),
        st.builds(Not, inner),
        st.builds(If, inner, inner, inner),
        st.builds(ListOf, parts),
        st.builds(Compare, ops, inner, inner),
        st.builds(AnyOf, inner, st.lists(literals, min_size=1, max_size=3).map(tuple)),
        st.builds(Select, inner, st.sampled_from(["a", "b"])),
        st.builds(Item, inner, inner),
        st.builds(Has, st.sampled_from([A, field("a", "b"), Item(ITEMS, B), Select(Item(ITEMS, A), "a")])),
        st.builds(lambda kind, over, body: Each(kind, over, "x", body), kinds, inner, inner),
        st.builds(lambda over, keep, body: Each("map", over, "x", body, keep), inner, inner, inner),
        st.builds(
            lambda name, left, right: Call(name, (left, right)),
            st.sampled_from(["+", "-", "*", "/", "%", "in", "contains", "matches", "cidr", "default"]),
            inner,
            inner,
        ),
        st.builds(
            lambda name, arg: Call(name, (arg,)),
            st.sampled_from(["size", "lower", "int", "double", "string", "timestamp", "duration", "neg"]),
            inner,
        ),
    )


nodes: st.SearchStrategy[Expr] = st.recursive(leaves, grown, max_leaves=12)
json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([D("0.5"), 0.5, "", "a", "1", "10.0.0.1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "items", "x"]), inner),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(nodes, json)
def test_a_trace_gives_what_an_evaluation_gives_and_neither_raises(node: Expr, event: Any) -> None:
    roots = {"event": event, "meta": {"lane": None}}
    traced = trace(node, roots)
    value = evaluate(node, roots)
    assert traced.value == value
    assert type(traced.value) is type(value)
    assert evaluate(node, roots) == value
    said = verdict(node, roots)
    assert said is None or isinstance(said, bool | Fail)
    assert isinstance(said, Fail) or said is value


@settings(max_examples=200, deadline=None)
@given(nodes, json)
def test_what_is_known_of_a_part_decides_only_where_it_may(node: Expr, event: Any) -> None:
    """The value of AND and OR is that of the kernels over what the trace saw of all parts."""
    for traced in all_of(trace(node, {"event": event})):
        if isinstance(traced.node, AllOf | OneOf):
            seen = {id(part.node): part.value for part in traced.parts}
            values = [part.value if isinstance(part, Const) else seen[id(part)] for part in traced.node.parts]
            expected = (conjunction if isinstance(traced.node, AllOf) else disjunction)(values)
            assert isinstance(traced.value, Fail) if isinstance(expected, Fail) else traced.value is expected
