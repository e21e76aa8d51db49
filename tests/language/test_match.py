"""The `match:` block: what it compiles to, and everything that it refuses, with the place and a way out."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import AllOf, AnyOf, Call, Compare, Const, Expr, Field, Has, Not, OneOf
from bridge.language.reading.match import MOST_CHOICES, MOST_VALUES, compile_match
from bridge.language.reading.parse import compile_when
from bridge.language.text import text_of_node


def bare(value: Any) -> Any:
    """The node without the places that it was written at, kinds of numbers told apart."""
    if isinstance(value, msgspec.Struct):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__ if name != "at"}
        return (type(value).__name__, fields)
    if isinstance(value, tuple):
        return tuple(map(bare, value))
    return (type(value).__name__, str(value))


def problems_of(block: object) -> tuple[FilterProblem, ...]:
    with pytest.raises(FilterError) as caught:
        compile_match(block)
    return caught.value.problems


def equal(path: str, *values: Any) -> AnyOf:
    return AnyOf(Field("event", tuple(path.split("."))), values)


# What it becomes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "written"),
    [
        ({"region": ["eu", "uk"], "amount": {">": 100}}, 'event.region in ["eu", "uk"] && event.amount > 100'),
        ({"region": "eu"}, 'event.region == "eu"'),
        ({"a": 1.5}, "event.a == 1.5"),
        ({"a": 1e22}, "event.a == 1E+22"),
        ({"a": -2.5}, "event.a == -2.5"),
        ({"a": True}, "event.a == true"),
        ({"a": [1, True, "1", 2.5, 2**70]}, f'event.a in [1, true, "1", 2.5, {2**70}]'),
        ({"customer": {"tier": "gold", "address": {"country": "de"}}},
         'event.customer.tier == "gold" && event.customer.address.country == "de"'),
        ({"service.name": "x"}, 'event["service.name"] == "x"'),
        ({"a": {">": 1, "<=": 5.5}}, "event.a > 1 && event.a <= 5.5"),
        ({"a": {"<": "m", ">=": "c"}}, 'event.a < "m" && event.a >= "c"'),
        ({"a": {"=": 1}, "b": {"==": [1, 2]}}, "event.a == 1 && event.b in [1, 2]"),
        ({"a": {"!=": 1}}, "event.a != 1"),
        ({"a": {"prefix": "x"}}, 'event.a.startsWith("x")'),
        ({"a": {"suffix": ["x", "y"]}}, 'event.a.endsWith("x") || event.a.endsWith("y")'),
        ({"a": {"cidr": "10.0.0.0/8"}}, 'event.a.cidr("10.0.0.0/8")'),
        ({"a": {"exists": True}, "b": {"exists": False}}, "has(event.a) && !has(event.b)"),
        ({"a": {"anything_but": "x"}}, 'event.a != "x"'),
        ({"a": {"anything_but": ["x", "y"]}}, '!(event.a in ["x", "y"])'),
        ({"a": ["x", {"prefix": "y"}, 1]}, 'event.a in ["x", 1] || event.a.startsWith("y")'),
        ({"a": [{"prefix": "y"}, "x", {"exists": False}]},
         'event.a.startsWith("y") || event.a == "x" || !has(event.a)'),
        ({"a": [{">": 1, "<": 5}, {">": 10}]}, "event.a > 1 && event.a < 5 || event.a > 10"),
        ({"a": {"any_of": ["x", {"prefix": "y"}]}}, 'event.a == "x" || event.a.startsWith("y")'),
        ({"a": {"any_of": ["x"], "exists": True}}, 'event.a == "x" && has(event.a)'),
        ({"any_of": [{"a": 1}, {"b": 2, "c": 3}], "d": 4},
         "(event.a == 1 || event.b == 2 && event.c == 3) && event.d == 4"),
        ({"any_of": [{"any_of": [{"a": 1}, {"b": 2}]}, {"c": 3}]}, "event.a == 1 || event.b == 2 || event.c == 3"),
        ({"x": {"any_of": [{"a": 1}, {"b": 2}], "c": 3}}, "(event.x.a == 1 || event.x.b == 2) && event.x.c == 3"),
    ],
)  # fmt: skip
def test_a_block_means_what_a_condition_means(block: object, written: str) -> None:
    assert bare(compile_match(block)) == bare(compile_when(written))


def test_several_fields_are_all_of_them_and_one_is_itself() -> None:
    assert compile_match({"a": 1, "b": "x"}) == AllOf((equal("a", 1), equal("b", "x")))
    assert compile_match({"a": 1}) == equal("a", 1)


def test_numbers_with_a_fraction_are_the_decimals_that_were_written() -> None:
    node = compile_match({"a": [0.1, 100.0, Decimal("1.50")]})
    assert isinstance(node, AnyOf)
    assert [str(value) for value in node.values] == ["0.1", "100.0", "1.50"]


def test_a_field_with_the_name_of_an_operator_is_a_field_where_nothing_else_can_be_meant() -> None:
    assert compile_match({"prefix": "+49"}) == equal("prefix", "+49")
    assert compile_match({"phone": {"prefix": {"code": 49}}}) == equal("phone.prefix.code", 49)
    assert compile_match({"phone": {"prefix": {"code": {">": 49}}}}) == Compare(
        ">", Field("event", ("phone", "prefix", "code")), Const(49)
    )


def test_the_operators_are_the_nodes_that_an_index_knows() -> None:
    field = Field("event", ("a",))
    assert compile_match({"a": {"prefix": "x"}}) == Call("startsWith", (field, Const("x")))
    assert compile_match({"a": {"prefix": ["x", "y"]}}) == OneOf(
        (Call("startsWith", (field, Const("x"))), Call("startsWith", (field, Const("y"))))
    )
    assert compile_match({"a": {"exists": False}}) == Not(Has(field))
    assert compile_match({"a": {"anything_but": [1, 2]}}) == Not(AnyOf(field, (1, 2)))


# What is refused ------------------------------------------------------------------------------------------------------


def test_every_problem_is_reported_with_its_path() -> None:
    block = {"a": None, "b": [], "c": {"d": {}, "e": [1, None]}, "f": {">": None}, "g": [{"prefix": 1}], "ok": 1}
    assert [problem.path for problem in problems_of(block)] == [
        ("match", "a"),
        ("match", "b"),
        ("match", "c", "d"),
        ("match", "c", "e", 1),
        ("match", "f", ">"),
        ("match", "g", 0, "prefix"),
    ]


@pytest.mark.parametrize("block", [{"a": None}, {"a": [None]}, {"a": {"b": None}}, {"a": {"any_of": [None]}}])
def test_null_is_refused_because_a_missing_or_null_field_equals_nothing(block: dict[str, object]) -> None:
    (problem,) = problems_of(block)
    assert "null" in problem.problem
    assert "exists: false" in problem.hint


@pytest.mark.parametrize("block", [None, [], "region", 3, ["a"]])
def test_a_block_that_is_no_mapping_is_refused(block: object) -> None:
    (problem,) = problems_of(block)
    assert problem.path == ("match",)
    assert "region" in problem.hint


def test_a_block_is_called_what_it_is_called_where_it_stands() -> None:
    with pytest.raises(FilterError, match=r"reject: `reject` is empty"):
        compile_match({}, key="reject")


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
        ({"a": Decimal("Infinity")}, ("a",)),
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
        ({">": 1}, (">",)),
        ({"a": {">": None}}, ("a", ">")),
        ({"a": {">": [1]}}, ("a", ">")),
        ({"a": {"<": True}}, ("a", "<")),
        ({"a": {"<": {"b": 1}}}, ("a", "<")),
        ({"a": {"prefix": 5}}, ("a", "prefix")),
        ({"a": {"prefix": ""}}, ("a", "prefix")),
        ({"a": {"prefix": []}}, ("a", "prefix")),
        ({"a": {"suffix": ["x", 5]}}, ("a", "suffix", 1)),
        ({"a": {"suffix": ["x", "x"]}}, ("a", "suffix", 1)),
        ({"a": {"exists": "yes"}}, ("a", "exists")),
        ({"a": {"exists": [True]}}, ("a", "exists")),
        ({"a": {"anything_but": []}}, ("a", "anything_but")),
        ({"a": {"anything_but": [1, 1]}}, ("a", "anything_but", 1)),
        ({"a": {"anything_but": {"prefix": "x"}}}, ("a", "anything_but")),
        ({"a": {"cidr": "10.0.0.1/8"}}, ("a", "cidr")),
        ({"a": {"cidr": ["10.0.0.0/8", "x"]}}, ("a", "cidr", 1)),
        ({"any_of": []}, ("any_of",)),
        ({"any_of": "x"}, ("any_of",)),
        ({"any_of": {"a": 1}}, ("any_of",)),
        ({"any_of": ["x"]}, ("any_of", 0)),
        ({"any_of": [{}]}, ("any_of", 0)),
        ({"any_of": [{"a": 1}, {"b": None}]}, ("any_of", 1, "b")),
        ({"a": {"any_of": []}}, ("a", "any_of")),
        ({"a": {"any_of": [1, 1]}}, ("a", "any_of", 1)),
        ({"a": {"any_of": "x"}}, ("a", "any_of")),
    ],
)
def test_what_can_not_be_meant_is_refused_where_it_stands(block: object, path: tuple[object, ...]) -> None:
    (problem,) = problems_of(block)
    assert problem.path == ("match", *path)


def test_unequal_to_a_list_is_refused_with_what_is_meant() -> None:
    (problem,) = problems_of({"brand": {"!=": ["id1", "id2"]}})
    assert "`!=` with a list" in problem.problem
    assert "anything_but" in problem.hint


@pytest.mark.parametrize(
    ("name", "written"),
    [(">", "event.amount > …"), ("prefix", 'event.amount.startsWith("…")'), ("exists", "has(event.amount)")],
)
def test_operators_beside_fields_are_refused_with_the_condition_that_says_both(name: str, written: str) -> None:
    operand = True if name == "exists" else "x"
    (problem,) = problems_of({"amount": {name: operand, "currency": "EUR"}})
    assert problem.path == ("match", "amount", name)
    assert f"`when: {written} && event.amount.currency == …`" in problem.hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("matches", '`when: event.user.name.matches("…")`'),
        ("contains", '`when: event.user.name.contains("…")`'),
        ("anything-but", "write anything_but"),
        ("gte", 'write ">="'),
        ("startsWith", "write prefix"),
        ("in", "write the list itself"),
    ],
)
def test_operators_of_other_systems_are_not_taken_for_fields(name: str, hint: str) -> None:
    (problem,) = problems_of({"user": {"name": {name: "x"}}})
    assert problem.path == ("match", "user", "name", name)
    assert hint in problem.hint
    assert compile_match({"user": {name: "x", "other": 1}})  # beside a field, and with one below, it is one
    assert compile_match({"user": {name: {"other": 1}}})


@pytest.mark.parametrize(
    ("sign", "hint"),
    [
        ("=>", 'write ">="'),
        ("=<", 'write "<="'),
        ("<>", 'write "!="'),
        ("===", "write the value itself"),
        ("!", "write anything_but"),
        ("=~", '`when: event.amount.matches("…")`'),
        ("!~", '`when: !event.amount.matches("…")`'),
        ("~>~", "there are =, !=, <, <=, > and >="),
    ],
)
def test_a_name_made_of_signs_is_never_taken_for_a_field(sign: str, hint: str) -> None:
    for operand in (5, "x", [5], {"below": 5}):
        (problem,) = problems_of({"amount": {sign: operand}})
        assert problem.path == ("match", "amount", sign)
        assert problem.problem == f"there is no operator `{sign}`"
        assert hint in problem.hint
        assert f'`when: event.amount["{sign}"] == …`' in problem.hint


@pytest.mark.parametrize(
    ("block", "path"),
    [
        ({"=>": 5}, ("=>",)),
        ({"a": {"=<": 5, ">": 1}}, ("a", "=<")),
        ({"a": {"=<": 5, "b": 1}}, ("a", "=<")),
        ({"a": [{"=>": 5}]}, ("a", 0, "=>")),
        ({"a": {"any_of": [{"=>": 5}, 1]}}, ("a", "any_of", 0, "=>")),
        ({"any_of": [{"=>": 5}]}, ("any_of", 0, "=>")),
    ],
)
def test_wherever_it_stands_and_whatever_is_beside_it(block: object, path: tuple[object, ...]) -> None:
    (problem,) = problems_of(block)
    assert problem.path == ("match", *path)


@pytest.mark.parametrize(
    ("name", "operand", "meant"),
    [
        ("prefx", "a", "prefix"),
        ("perfix", ["a", "b"], "prefix"),
        ("Prefix", "a", "prefix"),
        ("sufix", "a", "suffix"),
        ("exist", True, "exists"),
        ("anyof", ["a", {"prefix": "b"}], "any_of"),
        ("any-of", ["a"], "any_of"),
        ("anythingBut", ["a"], "anything_but"),
    ],
)
def test_a_misspelled_operator_is_not_taken_for_a_field(name: str, operand: object, meant: str) -> None:
    (problem,) = problems_of({"user": {"name": {name: operand}}})
    assert problem.path == ("match", "user", "name", name)
    assert problem.hint.startswith(
        f"did you mean `{meant}`? A field of that name is asked for with `when: event.user.n"
    )
    assert [problem.path for problem in problems_of({"a": {"prefix": "x", name: operand}})] == [("match", "a", name)]
    assert [problem.path for problem in problems_of({"a": [{name: operand}]})] == [("match", "a", 0, name)]


def test_a_name_that_looks_like_an_operator_is_a_field_beside_others_and_above_them() -> None:
    assert compile_match({"prefx": "a"}) == equal("prefx", "a")
    assert compile_match({"user": {"prefx": "a", "name": "b"}}) == AllOf(
        (equal("user.prefx", "a"), equal("user.name", "b"))
    )
    assert compile_match({"user": {"prefx": {"a": 1}}}) == equal("user.prefx.a", 1)


@pytest.mark.parametrize("name", ["cid", "exit", "postfix", "affix", "any", "index", "existing", ""])
def test_other_names_are_fields(name: str) -> None:
    assert compile_match({"user": {name: 5}}) == AnyOf(Field("event", ("user", name)), (5,))


def test_a_block_that_contains_itself_is_refused() -> None:
    for key in ("a", "any_of", "prefix"):
        block: dict[str, Any] = {}
        block[key] = [block] if key == "any_of" else block
        assert len(problems_of(block)) == 1
    values: list[Any] = []
    values.append(values)
    assert len(problems_of({"a": values})) == 1


def test_a_block_has_a_bound_of_values() -> None:
    assert compile_match({"a": list(range(MOST_VALUES - 1))})
    assert "10,000 values" in problems_of({"a": list(range(MOST_VALUES + 1))})[-1].problem
    assert "10,000 values" in problems_of({"a": {"prefix": [f"x{n}" for n in range(MOST_VALUES)]}})[-1].problem


def test_a_block_that_stands_for_millions_is_refused_at_once() -> None:
    block: dict[str, Any] = {"a": 1}
    for _ in range(25):
        block = {"any_of": [block, block, block, block]}
    assert "10,000 values" in problems_of(block)[-1].problem


def test_alternatives_are_nested_as_deep_as_an_expression() -> None:
    def nested(levels: int) -> dict[str, Any]:
        block: dict[str, Any] = {"x": {"!=": 1}, "y": 1}
        for _ in range(levels):
            block = {"any_of": [block, {"z": 1}], "y": 2}
        return block

    text = text_of_node(compile_match(nested(MOST_CHOICES)))
    assert bare(compile_when(text)) == bare(compile_match(nested(MOST_CHOICES)))
    assert "deeper than 30" in problems_of(nested(MOST_CHOICES + 1))[0].problem


def test_an_error_reads_as_a_sentence_with_its_place() -> None:
    with pytest.raises(FilterError, match=r"match\.a\.0: null is no value to match"):
        compile_match({"a": [None]})


# Properties -----------------------------------------------------------------------------------------------------------

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
            st.text(max_size=2)
            | st.integers()
            | st.sampled_from([">", "!=", "prefix", "cidr", "exists", "any_of", "anything_but", "gte"]),
            inner,
            max_size=3,
        )
    ),
)


@given(anything)
@settings(deadline=None, max_examples=200)
def test_any_block_compiles_or_is_refused_with_problems(block: object) -> None:
    problems: tuple[FilterProblem, ...] = ()
    node: Expr | None = None
    try:
        node = compile_match(block)
    except FilterError as error:
        problems = error.problems
    assert (node is None) is bool(problems)
    assert node is None or text_of_node(node)
    assert all(problem.path[0] == "match" and problem.problem for problem in problems)


names = st.text("abz_.-'é ", min_size=1, max_size=3) | st.sampled_from(["in", "true", "prefix", "__x"])
scalars = (
    st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
)
ordered = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["", "a", "é'\"\\\n"])
texts = st.text("ab\"\\'\n\té", min_size=1, max_size=3)
values = st.lists(scalars, min_size=1, max_size=3, unique_by=lambda v: (isinstance(v, bool), v))
operators = st.fixed_dictionaries(
    {},
    optional={
        ">": ordered, "<=": ordered, "=": scalars, "!=": scalars, "prefix": texts, "exists": st.booleans(),
        "suffix": st.lists(texts, min_size=1, max_size=3, unique=True), "anything_but": scalars | values,
        "cidr": st.sampled_from(["10.0.0.0/8", "::/0"]), "any_of": values,
    },
).filter(bool)  # fmt: skip
leaves = scalars | values | operators | st.lists(operators, min_size=1, max_size=2)
blocks = st.recursive(
    st.dictionaries(names, leaves, min_size=1, max_size=3),
    lambda inner: (
        st.dictionaries(names, leaves | inner, min_size=1, max_size=3)
        | st.builds(lambda block, choices: {**block, "any_of": choices}, inner, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=5,
)


@given(blocks)
@settings(deadline=None, max_examples=200)
@example({"a": {"=": -0.0, "!=": 5e-324}})
def test_every_block_can_be_written_as_a_condition(block: dict[str, Any]) -> None:
    try:
        node = compile_match(block)
    except FilterError:
        return  # a field's name that is no good beside the others
    assert bare(compile_when(text_of_node(node))) == bare(node)
