"""The `match:` block: what it compiles to, and everything that it refuses, with the place and a way out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.filters.errors import FilterError, FilterProblem
from bridge.filters.ir import AllOf, AnyOf
from bridge.filters.match import compile_match


def problems_of(block: object) -> tuple[FilterProblem, ...]:
    with pytest.raises(FilterError) as caught:
        compile_match(block)
    return caught.value.problems


def test_a_scalar_is_one_value_and_a_list_is_any_of_its_values() -> None:
    assert compile_match(
        {"type": "order.created", "region": ["eu", "uk"], "n": 1, "price": 1.5, "express": True}
    ) == AllOf(
        (
            AnyOf(("type",), ("order.created",)),
            AnyOf(("region",), ("eu", "uk")),
            AnyOf(("n",), (1,)),
            AnyOf(("price",), (1.5,)),
            AnyOf(("express",), (True,)),
        )
    )


def test_a_nested_mapping_is_a_nested_field() -> None:
    block = {"customer": {"tier": "gold", "address": {"country": ["de", "at"]}}}
    assert compile_match(block) == AllOf(
        (AnyOf(("customer", "tier"), ("gold",)), AnyOf(("customer", "address", "country"), ("de", "at")))
    )


def test_a_dot_in_a_name_is_part_of_the_name() -> None:
    assert compile_match({"service.name": "x"}) == AllOf((AnyOf(("service.name",), ("x",)),))


def test_values_of_several_types_stand_side_by_side() -> None:
    assert compile_match({"a": [1, True, "1", 2.5, 2**70]}).parts[0].values == (1, True, "1", 2.5, 2**70)


def test_every_problem_is_reported_with_its_path() -> None:
    block = {"a": None, "b": [], "c": {"d": {}, "e": [1, None]}, "f": {">": 3}, "ok": 1}
    assert [problem.path for problem in problems_of(block)] == [
        ("match", "a"),
        ("match", "b"),
        ("match", "c", "d"),
        ("match", "c", "e", 1),
        ("match", "f", ">"),
    ]


@pytest.mark.parametrize("block", [{"a": None}, {"a": [None]}, {"a": {"b": None}}])
def test_null_is_refused_because_a_missing_or_null_field_equals_nothing(block: dict[str, object]) -> None:
    (problem,) = problems_of(block)
    assert "null" in problem.problem
    assert "missing or null never equals anything" in problem.hint


@pytest.mark.parametrize("block", [None, [], "region", 3, ["a"]])
def test_a_block_that_is_no_mapping_is_refused(block: object) -> None:
    (problem,) = problems_of(block)
    assert problem.path == ("match",)
    assert "region" in problem.hint


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({}, ()),
        ({"a": {}}, ("a",)),
        ({"a": []}, ("a",)),
        ({"a": {"b": []}}, ("a", "b")),
        ({"a": [[1]]}, ("a", 0)),
        ({"a": [1, {"b": 1}]}, ("a", 1)),
        ({"a": math.nan}, ("a",)),
        ({"a": [1.0, -math.inf]}, ("a", 1)),
        ({"a": ["x", "y", "x"]}, ("a", 2)),
        ({"a": [1, 1.0]}, ("a", 1)),
        ({"a": [True, True]}, ("a", 1)),
        ({"a": b"x"}, ("a",)),
        ({"a": object()}, ("a",)),
        ({1: "x"}, (1,)),
        ({None: "x"}, ("None",)),
        ({"a": {True: "x"}}, ("a", True)),
        ({'a"b': 1}, ('a"b',)),
        ({"a\\b": 1}, ("a\\b",)),
        ({"a\n": 1}, ("a\n",)),
        ({"\ud800": 1}, ("\ud800",)),
        ({"a": "x\0"}, ("a",)),
        ({"a": "\udfff"}, ("a",)),
    ],
)
def test_what_can_not_be_meant_is_refused_where_it_stands(block: object, path: tuple[object, ...]) -> None:
    (problem,) = problems_of(block)
    assert problem.path == ("match", *path)


@pytest.mark.parametrize("name", ["=", "==", "!=", "<", "<=", ">", ">="])
def test_a_comparison_sign_is_never_a_field(name: str) -> None:
    for block in ({"amount": {name: 100}}, {"amount": {name: 100, "currency": "EUR"}}, {name: 1}):
        (problem,) = problems_of(block)
        assert problem.problem == f"the operator `{name}` is not available"
        assert problem.path[-1] == name


@pytest.mark.parametrize(
    ("name", "operand"),
    [
        ("prefix", "a"),
        ("suffix", ["a", "b"]),
        ("exists", True),
        ("anything_but", ["a"]),
        ("cidr", "10.0.0.0/8"),
        ("any_of", [{"prefix": "a"}, "b"]),
    ],
)
def test_a_mapping_of_operators_is_never_taken_for_fields(name: str, operand: object) -> None:
    (problem,) = problems_of({"customer": {"name": {name: operand}}})
    assert problem.path == ("match", "customer", "name", name)
    assert problem.problem == f"the operator `{name}` is not available"
    assert "equal" in problem.hint
    assert len(problems_of({"name": {name: operand, "suffix": "z"}})) == (1 if name == "suffix" else 2)


def test_alternatives_at_the_top_are_not_available_either() -> None:
    (problem,) = problems_of({"any_of": [{"region": "eu"}, {"tier": "gold"}]})
    assert problem.path == ("match", "any_of")
    assert "any_of" in problem.problem


def test_a_field_with_the_name_of_an_operator_is_a_field_where_nothing_else_can_be_meant() -> None:
    assert compile_match({"prefix": "+49"}).parts == (AnyOf(("prefix",), ("+49",)),)
    assert compile_match({"phone": {"prefix": {"code": 49}}}).parts == (AnyOf(("phone", "prefix", "code"), (49,)),)
    assert len(compile_match({"phone": {"prefix": "+49", "number": "1"}}).parts) == 2


def test_a_block_that_contains_itself_is_refused() -> None:
    block: dict[str, Any] = {}
    block["a"] = block
    assert "deeper" in problems_of(block)[0].problem


def test_an_error_reads_as_a_sentence_with_its_place() -> None:
    with pytest.raises(FilterError, match=r"match\.a\.0: null is no value to match"):
        compile_match({"a": [None]})


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from([">", "prefix", "any_of"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=2) | st.integers() | st.sampled_from([">", "prefix", "exists"]), inner, max_size=3
        )
    ),
)


@given(anything)
@settings(deadline=None, max_examples=150)
def test_any_block_compiles_or_is_refused_with_problems(block: object) -> None:
    problems: tuple[FilterProblem, ...] = ()
    parts: tuple[AnyOf, ...] = ()
    try:
        parts = compile_match(block).parts
    except FilterError as error:
        problems = error.problems
    assert bool(parts) is not bool(problems)
    assert all(part.path and part.values for part in parts)
    assert all(problem.path[0] == "match" and problem.problem for problem in problems)
