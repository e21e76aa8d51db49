"""What values mean: comparing, computing, and the logic of true, false, unknown and error. Total, whatever comes in."""

from __future__ import annotations

import time
from decimal import Decimal as D
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.language.calls import call, is_too_large
from bridge.language.functions import FUNCTIONS
from bridge.language.values import (
    Duration,
    Fail,
    Meter,
    Timestamp,
    any_of,
    conjunction,
    contained,
    disjunction,
    equal,
    kind_of,
    less,
    less_or_equal,
    negation,
    truth_of,
)

FAIL = Fail("wrong")
TRUTHS = (True, False, None, FAIL)
NAMES = {True: "true", False: "false", None: "unknown", FAIL: "error"}
SECOND = 1_000_000_000


def failed(value: object) -> str:
    """The message of a Fail."""
    assert isinstance(value, Fail), value
    return value.message


# Logic ----------------------------------------------------------------------------------------------------------------

AND = """
true  true  true       false true  false      unknown true  unknown    error true  error
true  false false      false false false      unknown false false      error false false
true  unknown unknown  false unknown false    unknown unknown unknown  error unknown error
true  error error      false error false      unknown error error      error error error
"""
OR = """
true  true  true       false true  true       unknown true  true       error true  true
true  false true       false false false      unknown false unknown    error false error
true  unknown true     false unknown unknown  unknown unknown unknown  error unknown error
true  error true       false error error      unknown error error      error error error
"""


def rows(table: str) -> list[tuple[object, object, object]]:
    by_name = {name: truth for truth, name in NAMES.items()}
    words = [by_name[word] for word in table.split()]
    return list(zip(words[::3], words[1::3], words[2::3], strict=True))


def test_the_tables_have_every_pair_once() -> None:
    for table in (AND, OR):
        assert sorted((NAMES[left], NAMES[right]) for left, right, _ in rows(table)) == sorted(
            product(NAMES.values(), repeat=2)
        )


@pytest.mark.parametrize(("left", "right", "outcome"), rows(AND), ids=lambda value: NAMES[value])
def test_and(left: Any, right: Any, outcome: Any) -> None:
    assert conjunction((left, right)) is outcome


@pytest.mark.parametrize(("left", "right", "outcome"), rows(OR), ids=lambda value: NAMES[value])
def test_or(left: Any, right: Any, outcome: Any) -> None:
    assert disjunction((left, right)) is outcome


def test_not_leaves_unknown_and_an_error_as_they_are() -> None:
    assert [negation(truth) for truth in TRUTHS] == [False, True, None, FAIL]


def test_nothing_at_all_is_true_for_and_and_false_for_or() -> None:
    assert conjunction(()) is True
    assert disjunction(()) is False


@given(st.lists(st.sampled_from(TRUTHS)))
def test_and_of_opposites_is_the_opposite_of_or(truths: list[Any]) -> None:
    assert conjunction(map(negation, truths)) == negation(disjunction(truths))


def test_the_first_error_is_the_one_that_is_told() -> None:
    first, second = Fail("first"), Fail("second")
    assert conjunction((None, first, second, True)) is first
    assert disjunction((None, first, second, False)) is first


@pytest.mark.parametrize("value", ["true", "", 0, 1, D(1), 1.0, [], [True], {}, b"", Timestamp(0), Duration(0)])
def test_what_is_neither_true_nor_false_is_an_error_and_not_a_truth(value: object) -> None:
    assert "not true or false" in failed(truth_of(value))
    assert isinstance(conjunction((value, True)), Fail)
    assert conjunction((value, False)) is False
    assert isinstance(disjunction((value, False)), Fail)
    assert isinstance(negation(value), Fail)


# Comparing ------------------------------------------------------------------------------------------------------------

ONE_OF_EACH = {
    "text": "1",
    "number": 1,
    "bool": True,
    "list": [1],
    "mapping": {"1": 1},
    "timestamp": Timestamp(1),
    "duration": Duration(1),
    "bytes": b"1",
}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
@pytest.mark.parametrize("other", ONE_OF_EACH)
def test_values_of_two_kinds_are_neither_equal_nor_unequal(kind: str, other: str) -> None:
    assert kind_of(ONE_OF_EACH[kind]) == kind
    outcome = equal(ONE_OF_EACH[kind], ONE_OF_EACH[other])
    assert outcome is True if kind == other else "compared with" in failed(outcome)


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_only_texts_numbers_and_times_have_an_order(kind: str) -> None:
    value = ONE_OF_EACH[kind]
    if kind in ("text", "number", "timestamp", "duration"):
        assert (less(value, value), less_or_equal(value, value)) == (False, True)
    else:
        assert "has no order" in failed(less(value, value))
        assert "has no order" in failed(less_or_equal(value, value))


NUMBERS = [-(2**70), -1, D("-0.1"), 0, D("1e-400"), 0.1, D("0.1000000000000000055511151231257827021181583404541015626"),
           D("0.5"), 1, D("1.00000000000000000000000000000000001"), 2.0**53, 2**53 + 1, 2**70, D("1e400")]  # fmt: skip


def test_numbers_are_compared_by_value_to_the_last_digit() -> None:
    for (i, left), (j, right) in product(enumerate(NUMBERS), repeat=2):
        assert equal(left, right) is (i == j)
        assert less(left, right) is (i < j)
        assert less_or_equal(left, right) is (i <= j)


@pytest.mark.parametrize(("left", "right"), [(1, 1.0), (1, D("1.00")), (0.5, D("0.5")), (0, D("-0.0")), (10**22, 1e22)])
def test_one_number_is_equal_however_it_is_kept(left: Any, right: Any) -> None:
    assert equal(left, right) is True
    assert equal([left], [right]) is True
    assert any_of(left, (right,)) is True
    assert contained(left, [right]) is True


def test_texts_are_ordered_by_code_point() -> None:
    assert less("Z", "a") is True
    assert less("\uffff", "\U0001f600") is True  # in UTF-16 it is the other way round
    assert less("a", "ä") is True


@pytest.mark.parametrize("kernel", [equal, less, less_or_equal])
def test_unknown_compared_is_unknown_and_an_error_stays_the_error(kernel: Any) -> None:
    assert kernel(None, 1) is kernel(1, None) is kernel(None, None) is None
    assert kernel(FAIL, None) is kernel(None, FAIL) is kernel(1, FAIL) is FAIL


@pytest.mark.parametrize(
    ("left", "right", "outcome"),
    [
        ([], [], True),
        ({}, {}, True),
        ([1, 2], (1, 2), True),
        ([1, 2], [1], False),
        ([1, 2], [2, 1], False),
        ([1, None], [1, 2], None),
        ([1, None], [2, 2], False),
        ([None], [None], None),
        ([[1, [D("2.0")]]], [[1, [2]]], True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1, "b": None}, {"b": 2, "a": 1}, None),
        ({"a": None}, {}, False),
    ],
)
def test_lists_and_objects_are_equal_item_by_item(left: Any, right: Any, outcome: Any) -> None:
    assert equal(left, right) is outcome
    assert equal(right, left) is outcome


def test_an_item_of_another_kind_is_an_error_unless_another_item_differs() -> None:
    assert failed(equal([1, "a"], [1, 2])) == "text compared with a number"
    assert equal([2, "a"], [1, 2]) is False
    assert failed(equal([None, "a"], [1, 2])) == "text compared with a number"


def test_lists_are_compared_at_any_depth_without_recursion() -> None:
    left: Any = 1
    right: Any = 1
    for _ in range(20_000):
        left, right = [left], [right]
    assert equal(left, right) is True


def test_a_list_that_is_made_of_itself_many_times_over_is_compared_up_to_a_limit() -> None:
    bomb: Any = ["x"]
    for _ in range(60):
        bomb = [bomb, bomb]
    assert failed(equal(bomb, bomb)) == "more than 250,000 items to compare"
    assert failed(contained(bomb, [bomb] * 1_000)) == "more than 250,000 items to compare"
    assert is_too_large(bomb)
    assert not is_too_large([["x"] * 1_000] * 100)


def test_a_meter_pays_for_what_is_compared() -> None:
    meter = Meter(100, FAIL)
    assert equal([1] * 50, [1] * 50, meter) is True
    assert meter.left == 49
    assert equal([1] * 50, [1] * 50, meter) is FAIL
    assert equal([1], [1], meter) is FAIL


@pytest.mark.parametrize(
    ("value", "values", "outcome"),
    [
        ("eu", ("eu", "uk"), True),
        ("us", ("eu", "uk"), False),
        (None, ("eu",), None),
        (1, ("1", 1), True),
        (2, ("1", 1), False),
        (D("1.0"), (1,), True),
        (True, (True, 1), True),
        (False, (1, True), False),
    ],
)
def test_any_of_several(value: Any, values: Any, outcome: Any) -> None:
    assert any_of(value, values) is outcome


@pytest.mark.parametrize("value", [1, True, [], {}, ["eu"], b"eu", Timestamp(0)])
def test_any_of_is_an_error_only_where_nothing_is_of_its_kind(value: Any) -> None:
    assert "compared with text" in failed(any_of(value, ("eu", "uk")))


@pytest.mark.parametrize(
    ("value", "container", "outcome"),
    [
        ("a", [], False),
        ("a", [None], None),
        ("a", [None, "a"], True),
        ("a", [None, "b"], False),
        ("a", [1, "b"], False),
        (1, [1.0], True),
        ([1], [[1]], True),
        ([1], [[None], [2]], None),
        (None, ["a"], None),
        ("a", None, None),
        ("a", {"a": None}, True),
        ("b", {"a": 1}, False),
    ],
)
def test_in_a_list_or_an_object(value: Any, container: Any, outcome: Any) -> None:
    assert contained(value, container) is outcome
    assert call("in", (value, container)) is outcome


@pytest.mark.parametrize(("value", "item"), [("vip", 1), ("vip", "a"), (1, "1"), (1, 2), (D("0.1"), 1), (1, True)])
def test_in_is_quick_for_as_long_a_list_as_an_event_can_hold(value: Any, item: Any) -> None:
    items = [item] * 200_000
    began = time.process_time()
    for _ in range(5):
        assert contained(value, items) is not True
    assert time.process_time() - began < 1
    assert contained(value, [*items, value]) is True
    assert failed(contained(value, [item] * 250_001)) == "more than 250,000 items to compare"


def test_in_is_an_error_where_it_can_not_be_meant() -> None:
    assert failed(contained(1, ["a", None])) == "a number compared with text"
    assert "names" in failed(contained(1, {"1": 1}))
    assert failed(contained("a", "abc")) == "`in` takes a list or an object, not text"


# Whatever comes in ----------------------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals(allow_nan=False)
    | st.text()
    | st.sampled_from(
        ["", "1", "2026-01-01T00:00:00Z", "1h", "10.0.0.1", "(", "\ud800", D("1e999999999"), 10**4_299, 1e308]
    )
)
values = st.recursive(
    scalars
    | st.binary()
    | st.just(FAIL)
    | st.integers(-(10**18), 10**18).map(Timestamp)
    | st.integers(-(10**18), 10**18).map(Duration),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300)
@given(values, values, st.sampled_from(sorted(FUNCTIONS)))
def test_nothing_raises_whatever_it_is_given(left: Any, right: Any, name: str) -> None:
    for truth in (equal(left, right), less(left, right), less_or_equal(left, right), contained(left, right)):
        assert truth_of(truth) is truth
    assert truth_of(any_of(left, (right, "x", 1))) in TRUTHS or isinstance(any_of(left, (right, "x", 1)), Fail)
    assert isinstance(kind_of(call(name, (left, right)[: len(FUNCTIONS[name].takes)])), str)


@settings(max_examples=200)
@given(values, values)
def test_equality_and_order_agree(left: Any, right: Any) -> None:
    assert equal(left, right) == equal(right, left) or isinstance(equal(left, right), Fail)
    smaller, larger = less(left, right), less(right, left)
    if isinstance(smaller, bool) and left == left and right == right:  # not a NaN
        assert [smaller, larger, equal(left, right)].count(True) == 1
        assert less_or_equal(left, right) is negation(larger)


@pytest.mark.parametrize("kernel", [equal, less, any_of, contained])
def test_errors_name_kinds_and_no_values(kernel: Any) -> None:
    secret: Any
    for secret in ("hunter2", 31337, [31337, "hunter2"], {"hunter2": 31337}):
        for other in ("x", 1, True, [True], {"x": True}):
            outcome = kernel(secret, [other] if kernel in (any_of, contained) else other)
            if isinstance(outcome, Fail):
                assert "hunter2" not in outcome.message
                assert "31337" not in outcome.message
