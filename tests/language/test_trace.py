"""The interpreter: what each node gives, what it says where that is an error, and that a trace shows the same."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal as D
from typing import Any, Final, Literal

import pytest

from bridge.core.model import Context, Meta
from bridge.language.interpreter import MOST_STEPS, MOST_TRACED, Budget
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
from bridge.language.text import text_of_node
from bridge.language.trace import Traced, clauses_of, evaluate, trace, verdict
from bridge.language.values import Fail, Timestamp, conjunction, disjunction, negation
from bridge.language.view import View


def field(*path: str) -> Field:
    return Field("event", path)


A, B, ITEMS, X = field("a"), field("b"), field("items"), Field("x")


def asked(node: Expr, event: object) -> object:
    """The value of a node, which is the same where it is traced."""
    value = evaluate(node, {"event": event})
    assert trace(node, {"event": event}).value == value
    return value


def failed(node: Expr, event: object) -> str:
    value = asked(node, event)
    assert isinstance(value, Fail), value
    return value.message


def all_of(traced: Traced) -> Iterator[Traced]:
    yield traced
    for part in traced.parts:
        yield from all_of(part)


# Nodes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "event", "value"),
    [
        (field(), [1], [1]),
        (A, {"a": 1}, 1),
        (A, {}, None),
        (A, {"a": None}, None),
        (A, [], None),
        (field("a", "b"), {"a": {"b": 1}}, 1),
        (field("a", "b"), {"a": "text"}, None),
        (field("a", "b"), {"a": [{"b": 1}]}, None),
        (Const((1, 2)), {}, (1, 2)),
        (Select(Item(ITEMS, Const(0)), "sku"), {"items": [{"sku": "s"}]}, "s"),
        (Select(Item(ITEMS, Const(0)), "sku"), {"items": ["s"]}, None),
        (Item(ITEMS, Const(1)), {"items": [1, 2]}, 2),
        (Item(ITEMS, Const(D("1.0"))), {"items": [1, 2]}, 2),
        (Item(ITEMS, Const(D("0.5"))), {"items": [1, 2]}, None),
        (Item(ITEMS, Const(2)), {"items": [1, 2]}, None),
        (Item(ITEMS, Const(-1)), {"items": [1, 2]}, None),
        (Item(ITEMS, Const(10**4_000)), {"items": [1, 2]}, None),
        (Item(ITEMS, Const(D("1e999999999"))), {"items": [1, 2]}, None),
        (Item(ITEMS, Const(0)), {"items": "text"}, None),
        (Item(ITEMS, Const("n")), {"items": {"n": 1}}, 1),
        (Item(ITEMS, Const("n")), {"items": [1]}, None),
        (Item(ITEMS, A), {"items": [1, 2], "a": 1}, 2),
        (Item(ITEMS, A), {"items": [1, 2]}, None),
        (ListOf((A, Const(2))), {"a": 1}, [1, 2]),
        (ListOf((A, Const(2))), {}, None),
        (Has(A), {"a": False}, True),
        (Has(A), {"a": None}, False),
        (Has(field("a", "b")), {"a": "text"}, False),
        (Has(Item(ITEMS, Const(True))), {"items": [1]}, False),
        (If(A, Const(1), Const(2)), {"a": True}, 1),
        (If(A, Const(1), Const(2)), {"a": False}, 2),
        (If(A, Const(1), Const(2)), {}, None),
        (If(A, Const(1), Call("/", (Const(1), Const(0)))), {"a": True}, 1),
        (Call("default", (A, Const("none"))), {}, "none"),
        (Call("default", (A, Call("/", (Const(1), Const(0))))), {"a": 0}, 0),
        (AllOf(()), {}, True),
        (OneOf(()), {}, False),
    ],
)
def test_nodes(node: Expr, event: object, value: object) -> None:
    assert asked(node, event) == value


@pytest.mark.parametrize(
    ("op", "outcomes"),
    [
        ("==", (False, True, False)),
        ("<", (True, False, False)),
        ("<=", (True, True, False)),
        (">", (False, False, True)),
        (">=", (False, True, True)),
    ],
)
def test_comparisons(op: Any, outcomes: tuple[bool, ...]) -> None:
    node = Compare(op, A, Const(2))
    assert tuple(asked(node, {"a": a}) for a in (1, 2, 3)) == outcomes
    assert asked(node, {}) is None


TRUTHS: dict[str, Any] = {"true": True, "false": False, "unknown": None, "error": 7}


@pytest.mark.parametrize("left", TRUTHS)
@pytest.mark.parametrize("right", TRUTHS)
def test_the_logic_of_nodes_is_that_of_the_kernels(left: str, right: str) -> None:
    """A 7 is neither true nor false."""
    event = {"a": TRUTHS[left], "b": TRUTHS[right]}
    values = tuple(Fail("") if value == 7 else value for value in event.values())
    for node, expected in ((AllOf((A, B)), conjunction(values)), (OneOf((A, B)), disjunction(values))):
        assert isinstance(asked(node, event), Fail) if isinstance(expected, Fail) else asked(node, event) is expected
    negated = asked(Not(A), event)
    assert isinstance(negated, Fail) if left == "error" else negated is negation(TRUTHS[left])


def test_a_view_is_a_mapping_of_roots() -> None:
    meta = Meta("1@2", timestamp=1.5, key=b"\xff", headers=(("type", b"t"),))
    view = View(b'{"a": 1.10}', None, Context("orders", lambda _: meta, now=2.0))
    assert evaluate(A, view) == D("1.10")
    assert evaluate(Field("meta", ("timestamp",)), view) == Timestamp(1_500_000_000)
    assert evaluate(Compare(">", Field("now"), Field("meta", ("timestamp",))), view) is True
    assert evaluate(Field("meta", ("lane",)), view) is None
    assert evaluate(AnyOf(Field("headers", ("type",)), ("t",)), view) is True
    assert verdict(AnyOf(Field("key"), ("k",)), view) == Fail("key is bytes that are no text, compared with text")


def test_a_root_that_a_mapping_lacks_is_unknown() -> None:
    assert evaluate(Field("trigger", ("a",)), {"event": {}}) is None


# Macros ---------------------------------------------------------------------------------------------------------------

KINDS: Final[tuple[Literal["exists", "all", "filter", "map"], ...]] = ("exists", "all", "filter", "map")
ABOVE_1 = Compare(">", X, Const(1))


@pytest.mark.parametrize(
    ("items", "exists", "every", "kept", "made"),
    [
        ([], False, True, [], []),
        ([0, 1], False, False, [], [False, False]),
        ([2, 3], True, True, [2, 3], [True, True]),
        ([1, 2], True, False, [2], [False, True]),
        ([None, 2], True, None, None, None),
        ([None, 1], None, False, None, None),
        (None, None, None, None, None),
    ],
)
def test_macros(items: Any, exists: Any, every: Any, kept: Any, made: Any) -> None:
    outcomes = [asked(Each(kind, ITEMS, "x", ABOVE_1), {"items": items}) for kind in KINDS]
    assert outcomes == [exists, every, kept, made]


def test_an_item_that_is_an_error_counts_only_where_no_other_item_decides() -> None:
    assert asked(Each("exists", ITEMS, "x", ABOVE_1), {"items": ["a", 2]}) is True
    assert asked(Each("all", ITEMS, "x", ABOVE_1), {"items": ["a", 1]}) is False
    for kind in KINDS:
        event = {"items": [None, "a", *([1] if kind != "all" else [2])]}
        assert failed(Each(kind, ITEMS, "x", ABOVE_1), event) == "x is text, compared with a number"


def test_macros_over_an_object_see_its_names() -> None:
    node = Each("filter", ITEMS, "x", Call("startsWith", (X, Const("a"))))
    assert asked(node, {"items": {"ab": 1, "b": 2, "ac": None}}) == ["ab", "ac"]


def test_map_can_leave_out_items_first() -> None:
    node = Each("map", ITEMS, "x", Call("*", (X, Const(2))), keep=ABOVE_1)
    assert asked(node, {"items": [1, 2, 3]}) == [4, 6]
    assert asked(node, {"items": [1, None]}) is None


def test_filter_keeps_a_null_that_it_is_told_to_keep() -> None:
    assert asked(Each("filter", ITEMS, "x", Not(Has(X))), {"items": [1, None]}) == [None]


def test_a_variable_hides_what_has_its_name_and_only_within_its_macro() -> None:
    inner = Each("map", X, "x", Call("+", (X, Const(1))))
    assert asked(Each("map", ITEMS, "x", inner), {"items": [[1], [2, 3]]}) == [[2], [3, 4]]
    shadow = Each("exists", ITEMS, "event", AnyOf(Field("event"), (1,)))
    assert asked(AllOf((shadow, AnyOf(A, (5,)))), {"items": [1], "a": 5}) is True


def test_macros_together_look_at_10000_items_of_an_event() -> None:
    node = AllOf((Each("all", ITEMS, "x", Has(X)), Each("all", ITEMS, "x", Has(X))))
    assert asked(node, {"items": [1] * (MOST_STEPS // 2)}) is True
    assert failed(node, {"items": [1] * (MOST_STEPS // 2 + 1)}) == "more than 10,000 steps in macros"
    assert asked(OneOf((node, Has(ITEMS))), {"items": [1] * MOST_STEPS}) is True


def test_parts_that_are_evaluated_apart_can_share_a_budget() -> None:
    node, event = Each("all", ITEMS, "x", Has(X)), {"event": {"items": [1] * 6_000}}
    budget = Budget()
    assert verdict(node, event, budget) is True
    assert isinstance(verdict(node, event, budget), Fail)


@pytest.mark.parametrize("kind", ["exists", "all", "map"])
def test_nested_macros_stop_at_once_where_the_budget_is_spent(kind: Any) -> None:
    node: Expr = Const(kind != "exists")
    for var in ("x", "y", "z", "w"):
        node = Each(kind, ITEMS, var, node)
    assert failed(node, {"items": [1] * 60}) == "more than 10,000 steps in macros"


@pytest.mark.parametrize(
    ("body", "event"),
    [
        (Compare("==", A, B), {"a": [*range(50_000), 1], "b": [*range(50_000), 2]}),
        (Call("in", (Const(-1), A)), {"a": list(range(50_000))}),
        (Call("contains", (A, Const("y"))), {"a": "x" * 5_000_000}),
        (Compare("==", Call("size", (Call("+", (A, A)),)), Const(0)), {"a": "x" * 500_000}),
        (Compare("==", Call("size", (Call("+", (A, A)),)), Const(0)), {"a": [1] * 5_000}),
        (AnyOf(A, tuple(range(2_000))), {"a": -1}),
    ],
)
def test_what_a_body_costs_is_bounded_too(body: Expr, event: dict[str, Any]) -> None:
    """Each of these would take a second or more, or gigabytes, with 10,000 items."""
    message = failed(Each("exists", ITEMS, "x", body), {"items": [1] * 10_000, **event})
    assert message == "the macros compare and compute more than one event may take"


def test_a_value_that_is_far_larger_than_it_looks_is_an_error() -> None:
    node: Expr = ITEMS
    for _ in range(60):
        node = Each("map", node, "x", ListOf((X, X)))
    assert failed(node, {"items": ["x"]}).endswith(" gives more than 16 MiB")
    assert "items to compare" in failed(Compare("==", node, node), {"items": ["x"]})


# Errors in words ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "event", "message"),
    [
        (AnyOf(A, ("eu",)), {"a": 1}, "event.a is a number, compared with text"),
        (AnyOf(A, ("eu", 1)), {"a": True}, "event.a is true or false, compared with text or a number"),
        (Compare(">", A, Const(1)), {"a": "2"}, "event.a is text, compared with a number"),
        (Compare("==", A, B), {"a": "2", "b": 2}, "event.a is text, compared with event.b, which is a number"),
        (Compare("<", A, B), {"a": [1], "b": [2]}, "event.a < event.b: a list has no order"),
        (Compare("==", A, B), {"a": [1], "b": ["1"]}, "event.a == event.b: a number compared with text"),
        (Call("lower", (A,)), {"a": 1}, "event.a is a number, and lower takes text"),
        (Call("+", (A, B)), {"a": 1, "b": "x"}, "event.a is a number and event.b is text: `+` doesn't take the two"),
        (Call("/", (A, B)), {"a": 1, "b": 0}, "event.a / event.b: division by zero"),
        (Call("in", (A, B)), {"a": 1, "b": "x"}, "event.b is text, and `in` takes a list or an object"),
        (Call("in", (A, B)), {"a": 1, "b": ["x"]}, "event.a in event.b: a number compared with text"),
        (Not(A), {"a": "x"}, "event.a is text, not true or false"),
        (AllOf((A, Has(A))), {"a": 1}, "event.a is a number, not true or false"),
        (If(A, Const(1), Const(2)), {"a": 1}, "event.a is a number, not true or false"),
        (Each("exists", A, "x", Has(X)), {"a": 1}, "event.a is a number, and exists goes over a list or an object"),
        (Item(A, B), {"a": [1], "b": True}, "event.b is true or false, and an item is found by a number or by text"),
    ],
)
def test_errors_name_the_field_and_what_it_is(node: Expr, event: object, message: str) -> None:
    assert failed(node, event) == message


def test_an_error_inside_is_the_error_of_the_whole() -> None:
    wrong = Call("lower", (A,))
    for node in (Call("size", (wrong,)), Compare("==", wrong, B), AnyOf(wrong, ("x",)), ListOf((wrong,)), Not(wrong)):
        assert failed(node, {"a": 1}) == "event.a is a number, and lower takes text"


def test_a_condition_that_is_no_condition_says_what_it_gives() -> None:
    assert verdict(A, {"event": {"a": "x"}}) == Fail("event.a is text, not true or false")
    assert verdict(A, {"event": {"a": True}}) is True
    assert verdict(A, {"event": {}}) is None


def test_a_long_expression_is_cut_short_in_an_error() -> None:
    node: Expr = A
    for _ in range(40):
        node = Call("+", (node, Const(1)))
    assert len(failed(Call("/", (node, Const(0))), {"a": 1})) < 120


# Traces ---------------------------------------------------------------------------------------------------------------


def test_a_trace_has_each_node_with_its_text_and_its_value() -> None:
    node = AllOf((AnyOf(A, ("eu",)), Not(Compare(">", field("b", "c"), Const(5)))))
    traced = trace(node, {"event": {"a": "eu", "b": {"c": 7}}})
    assert [(part.text, part.value) for part in all_of(traced)] == [
        (text_of_node(node), False),
        (text_of_node(node.parts[0]), True),
        ("event.a", "eu"),
        (text_of_node(node.parts[1]), False),
        ("event.b.c > 5", True),
        ("event.b.c", 7),
    ]


def test_a_trace_asks_the_parts_behind_the_one_that_decided() -> None:
    node = AllOf((AnyOf(A, ("eu",)), AnyOf(B, (1,))))
    assert [part.value for part in trace(node, {"event": {"a": "us", "b": 1}}).parts] == [False, True]
    node_of_one = OneOf((AnyOf(A, ("us",)), AnyOf(B, ("x",))))
    traced = trace(node_of_one, {"event": {"a": "us", "b": 1}})
    assert traced.value is True
    assert isinstance(traced.parts[1].value, Fail)


def test_what_a_trace_asks_beyond_the_decision_spends_nothing_of_the_budget() -> None:
    long = Each("all", ITEMS, "x", Has(X))
    node = AllOf((OneOf((Has(ITEMS), long)), long))
    event = {"items": [1] * MOST_STEPS}
    assert asked(node, event) is True


def test_a_trace_shows_20_items_of_a_macro() -> None:
    traced = trace(Each("all", ITEMS, "x", Compare(">", X, Const(-1))), {"event": {"items": list(range(100))}})
    assert traced.value is True
    assert [part.text for part in traced.parts] == ["event.items", *["x > -1"] * MOST_TRACED]
    assert [part.parts[0].value for part in traced.parts[1:]] == list(range(MOST_TRACED))


def test_a_trace_is_bounded_and_has_what_stands_behind_a_macro() -> None:
    node: Expr = Has(X)
    for var in ("x", "y", "z", "w"):
        node = Each("all", ITEMS, var, node)
    traced = trace(AllOf((node, Has(A))), {"event": {"items": [1] * 9, "a": 1}})
    assert traced.value is True
    assert len(list(all_of(traced))) < 3_000
    assert traced.parts[-1].value is True


def test_a_literal_has_a_trace_as_well() -> None:
    assert trace(Const(True), {}) == Traced(Const(True), text_of_node(Const(True)), True, ())


def test_the_clauses_of_a_condition_are_what_it_asks() -> None:
    one, two, three = AnyOf(A, (1,)), Has(B), Each("exists", ITEMS, "x", AllOf((Has(X), Has(A))))
    assert clauses_of(AllOf((one, Not(OneOf((two, three)))))) == (one, two, three)
    assert clauses_of(one) == (one,)
    assert clauses_of(AllOf(())) == ()
