"""Every literal against every value: the compiled and indexed answer is that of the interpreter, for all pairs.

What a random search seldom meets: numbers that only their digits tell apart, values that Python takes for one another,
texts of which one is the beginning or the end of another.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise, product
from typing import Any

import msgspec
import pytest

from bridge.core.model import Context, Outcome, Plan, Poll
from bridge.filters.router import Declared, FilterRouter
from bridge.language.ir import AllOf, AnyOf, Call, Compare, Const, Expr, Field, Has, Not, OneOf
from bridge.language.trace import verdict
from bridge.language.values import Fail
from bridge.language.view import View
from bridge.params.plans import compile_params

NOTHING = compile_params({})
encode = msgspec.json.Encoder(decimal_format="number").encode

NUMBERS = [
    *(0, 1, -1, 2**53, 2**53 + 1, 2**70),
    *map(Decimal, ("0.1", "0.10000000000000000001", "1.0", "1.00000000000000000001", "0.99999999999999999999")),
    *map(Decimal, ("9007199254740992.5", "1e300", "-0.0")),
]
TEXTS = ["0", "1", "true", "x", "xy", "yx", "xyx", "äx", "y"]
VALUES: list[Any] = [*NUMBERS, *TEXTS, "", True, False, None, [], [1], {}, {"b": 1}]


def outcomes_of(conditions: list[Expr], event: bytes, fields: str) -> list[Any]:
    """What the router makes of the event, by condition: True, None, "error", or False."""
    router = FilterRouter(
        [Declared(Plan(f"{n}", "a", "t", "j"), condition, NOTHING) for n, condition in enumerate(conditions)],
        max_body=10_000,
    )
    router.route(Poll([], [event], [0]), Context(fields))
    found = router.outcomes()
    return [_as_truth(found.get(f"{n}", Outcome())) for n in range(len(conditions))]


def _as_truth(outcome: Outcome) -> Any:
    return True if outcome.matched else None if outcome.missing else "error" if outcome.errors else False


def check(conditions: list[Expr], field: str) -> None:
    for value in VALUES:
        event = encode({field: value, "k": "x"})
        view = View(event, 0, Context())
        truths = [verdict(condition, view) for condition in conditions]
        expected = ["error" if isinstance(truth, Fail) else truth for truth in truths]
        assert outcomes_of(conditions, event, field) == expected, value
    assert outcomes_of(conditions, b"{}", field) == [verdict(c, View(b"{}", 0, Context())) for c in conditions]


A = Field("event", ("a",))
KEY = AnyOf(Field("event", ("k",)), ("x",))
OPS: list[Any] = ["<", "<=", ">", ">="]


@pytest.mark.parametrize("literals", [NUMBERS, TEXTS, [True, False]], ids=["numbers", "texts", "bools"])
def test_equality_with_one_and_with_several(literals: list[Any]) -> None:
    several = [AnyOf(A, (one, other)) for one, other in pairwise(literals)]
    check([*(AnyOf(A, (one,)) for one in literals), *several, *(Not(AnyOf(A, (one,))) for one in literals)], "a")


def test_equality_with_literals_of_every_kind_on_one_field() -> None:
    check([AnyOf(A, (one,)) for one in (*NUMBERS, *TEXTS, True, False)], "a")


@pytest.mark.parametrize("keyed", [False, True], ids=["alone", "behind a key"])
@pytest.mark.parametrize("literals", [NUMBERS, TEXTS], ids=["numbers", "texts"])
def test_thresholds_on_ladders(literals: list[Any], keyed: bool) -> None:
    thresholds = [Compare(op, A, Const(one)) for op, one in product(OPS, literals)]
    check([AllOf((KEY, one)) if keyed else one for one in thresholds], "a")


@pytest.mark.parametrize("op", OPS)
def test_thresholds_one_by_one(op: Any) -> None:
    for one in NUMBERS:
        check([AllOf((KEY, Compare(op, A, Const(one)))), Not(Compare(op, A, Const(one)))], "a")


def test_beginnings_and_ends() -> None:
    check([Call(name, (A, Const(text))) for name in ("startsWith", "endsWith", "contains") for text in TEXTS], "a")


def test_a_field_and_what_is_below_it() -> None:
    below = Field("event", ("a", "b"))
    check([Has(A), Has(below), AnyOf(A, ("x",)), AnyOf(below, (1,)), Not(Has(A)), Compare(">", below, Const(0))], "a")


def test_alternatives_that_find_the_same_event() -> None:
    same = [AnyOf(A, ("x",)), AnyOf(A, ("x", "y")), Compare(">", A, Const("a")), Has(A), KEY]
    check([OneOf((one, other)) for one, other in product(same, same)], "a")


def test_a_watcher_that_left_is_found_by_none_of_its_keys() -> None:
    b = Field("event", ("b",))
    conditions: list[Expr] = [
        AllOf((AnyOf(A, ("x", "y")), AnyOf(b, (1, 2)))),
        AnyOf(A, ("x", "y")),
        OneOf((AnyOf(A, ("x",)), AnyOf(b, (2,)))),
        Call("endsWith", (A, Const("y"))),
        AnyOf(Field("headers", ("h",)), ("x", "y")),
        *(Compare(">", b, Const(n)) for n in range(-10, 0)),
    ]
    router = FilterRouter(
        [Declared(Plan(f"{n}", "a", "t", "j"), condition, NOTHING) for n, condition in enumerate(conditions)],
        max_body=10_000,
    )
    events = [encode({"a": a, "b": b}) for a, b in product("xy", (1, 2))]
    poll = Poll([], events, list(range(len(events))))
    assert router.route(poll).records
    for name in router.watchers:
        router.disable(name)
    assert not router.route(poll).records
    assert not router._index.reads_fields
