"""What an expression reads of an event."""

from __future__ import annotations

import pytest

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
from bridge.language.uses import fields_of, paths_of, roots_of

A, B = Field("event", ("a",)), Field("event", ("b", "c"))


@pytest.mark.parametrize(
    ("node", "paths", "roots"),
    [
        (Const(1), set(), set()),
        (A, {("a",)}, {"event"}),
        (Field("event"), {()}, {"event"}),
        (Field("meta", ("lane",)), set(), {"meta"}),
        (Select(Item(A, Const(0)), "sku"), {("a",)}, {"event"}),
        (Item(A, Field("key")), {("a",)}, {"event", "key"}),
        (AnyOf(A, (1,)), {("a",)}, {"event"}),
        (Compare("<", A, B), {("a",), ("b", "c")}, {"event"}),
        (Call("+", (A, Field("now"))), {("a",)}, {"event", "now"}),
        (Has(B), {("b", "c")}, {"event"}),
        (Not(Has(A)), {("a",)}, {"event"}),
        (AllOf((Has(A), OneOf((Has(B),)))), {("a",), ("b", "c")}, {"event"}),
        (ListOf((A, Const(1))), {("a",)}, {"event"}),
        (If(Has(A), B, Field("headers", ("x",))), {("a",), ("b", "c")}, {"event", "headers"}),
        (Each("map", A, "x", Compare("==", Field("x", ("n",)), B)), {("a",), ("b", "c")}, {"event"}),
        (Each("map", A, "event", Field("event", ("n",))), {("a",)}, {"event"}),
        (Each("map", A, "x", Field("x"), keep=Has(Field("event", ("k",)))), {("a",), ("k",)}, {"event"}),
        (Each("all", Field("x"), "x", Field("x")), set(), {"x"}),
    ],
)
def test_a_node_reads_its_fields_but_for_the_variables_of_macros(node: Expr, paths: object, roots: object) -> None:
    assert paths_of(node) == paths
    assert roots_of(node) == roots


def test_fields_come_in_their_order_and_as_often_as_they_are_written() -> None:
    assert list(fields_of(Call("+", (B, Call("+", (A, B)))))) == [B, A, B]
