"""Params of a Python watcher: what it yielded becomes strict JSON, or an error that says what is in the way."""

from __future__ import annotations

import datetime
import enum
import json
import math
import types
import uuid
from collections import UserDict
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.json import decode_whole
from bridge.language.errors import ParamError
from bridge.params.plans import compile_params

BODY = b'{"id": 7, "price": 1.10}'
NO_PARAMS = compile_params({}, ("event", "trigger"))


def rendered(payload: object) -> Any:
    return json.loads(NO_PARAMS.render_trigger(BODY, None, payload))


def refused(payload: object) -> ParamError:
    with pytest.raises(ParamError) as caught:
        NO_PARAMS.render_trigger(BODY, None, payload)
    return caught.value


def test_without_params_a_mapping_is_sent_itself() -> None:
    assert rendered({"a": [1, None, {"b": "x"}]}) == {"a": [1, None, {"b": "x"}]}
    assert rendered({}) == {}
    assert rendered(types.MappingProxyType({"a": 1})) == {"a": 1}
    assert rendered(UserDict(a=1)) == {"a": 1}


@pytest.mark.parametrize("payload", ["x", 3, 1.5, True, None, [1, 2], []])
def test_without_params_anything_else_is_sent_as_payload(payload: object) -> None:
    assert rendered(payload) == {"payload": payload}


def test_params_may_ask_for_the_event_and_the_trigger_side_by_side() -> None:
    plan = compile_params(
        {"id": "${event.id}", "p": "${event.price}", "n": ["${trigger.a.b}", "${trigger}"], "k": 1},
        ("event", "trigger"),
    )
    assert plan.render_trigger(BODY, None, {"a": {"b": [2**70, 0.5]}}) == (
        b'{"id":7,"p":1.10,"n":[[1180591620717411303424,0.5],{"a":{"b":[1180591620717411303424,0.5]}}],"k":1}'
    )


def test_literal_params_are_sent_whatever_was_yielded() -> None:
    assert compile_params({"a": 1}, ("event", "trigger")).render_trigger(BODY, None, math.nan) == b'{"a":1}'


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ({}, "`trigger` has no `a`"),
        ({"a": {}}, "`trigger.a` has no `b`"),
        ({"a": None}, "`trigger.a` is a NoneType, not a mapping"),
        ({"a": [1]}, "`trigger.a` is a list, not a mapping"),
        ("x", "`trigger` is a str, not a mapping"),
    ],
)
def test_what_the_trigger_lacks_is_an_error_with_the_path(payload: object, problem: str) -> None:
    with pytest.raises(ParamError) as caught:
        compile_params({"x": "${trigger.a.b}"}, ("event", "trigger")).render_trigger(BODY, None, payload)
    assert caught.value.path == "trigger.a.b"
    assert caught.value.problem == problem


def test_what_the_event_lacks_is_an_error_for_a_python_watcher_as_well() -> None:
    with pytest.raises(ParamError, match=r"event\.nothing"):
        compile_params({"x": "${event.nothing}"}, ("event", "trigger")).render_trigger(BODY, None, {})


def test_a_trigger_that_is_null_is_there() -> None:
    plan = compile_params({"x": "${trigger.a}"}, ("event", "trigger"))
    assert plan.render_trigger(BODY, None, {"a": None}) == b'{"x":null}'


def test_a_declarative_render_has_no_trigger() -> None:
    with pytest.raises(ParamError, match="only a Python watcher"):
        compile_params({"x": "${trigger.a}"}, ("event", "trigger")).render(BODY, None)


class Colour(enum.Enum):
    RED = "red"


class Loud(str):
    def __str__(self) -> str:
        return "LOUD"


class Count(int):
    def __int__(self) -> int:
        return -1


class Share(float):
    pass


@dataclass
class Point:
    x: int


def test_values_with_one_obvious_form_in_json_are_taken() -> None:
    stamp = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    ident = uuid.UUID(int=1)
    payload = {
        "when": stamp, "id": ident, "c": Colour.RED, "t": (1, 2), "p": Point(3), "s": Loud("x"), "i": Count(3),
        "f": Share(0.5), "b": b"abc", 1: "one",
    }  # fmt: skip
    assert rendered(payload) == {
        "when": "2026-01-02T00:00:00Z", "id": str(ident), "c": "red", "t": [1, 2], "p": {"x": 3}, "s": "x", "i": 3,
        "f": 0.5, "b": "YWJj", "1": "one",
    }  # fmt: skip


def test_decimals_are_numbers_and_keep_their_digits() -> None:
    assert NO_PARAMS.render_trigger(BODY, None, {"d": Decimal("1.10")}) == b'{"d":1.10}'


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_refused_wherever_it_is(number: float) -> None:
    for payload in (number, {"a": None, "b": number}, [[{"a": (number,)}]], Point(number), Share(number)):  # type: ignore[arg-type]
        assert "NaN or infinite" in refused(payload).problem


def test_keys_that_become_the_same_are_settled() -> None:
    assert NO_PARAMS.render_trigger(BODY, None, {1: "a", "1": "b"}) == b'{"1":"b"}'


class Broken:
    pass


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (object(), "object"),
        ({"a": Broken()}, "Broken"),
        ([1 + 2j], "complex"),
        (iter([1]), "list_iterator"),
        ({None: 1}, "dict"),
        ({(1, 2): 1}, "dict"),
        (msgspec.Raw(b"{"), "Raw"),
        (Decimal("NaN"), "Decimal"),
        (Decimal("1e999"), "Decimal"),
        ([10**5000], "list"),
        ("\ud800", "surrogate"),
        ({"\udc00": 1}, "surrogate"),
        ("a\0b", "U+0000"),
        ({"a\0": 1}, "U+0000"),
    ],
)
def test_what_json_has_not_is_refused_by_the_name_of_its_type(payload: object, words: str) -> None:
    error = refused(payload)
    assert error.path == "trigger"
    assert words in error.problem
    assert type(payload).__name__ in error.problem


def test_a_payload_that_is_too_deep_or_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = 1
    for _ in range(101):
        deep = [deep]
    assert "contains itself" in refused(endless).problem
    assert "100 levels" in refused(deep).problem


payloads = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.decimals()
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.none() | st.floats(), inner, max_size=3)
    ),
)


@given(payloads)
@settings(deadline=None, max_examples=150)
def test_any_payload_becomes_a_strict_json_object_or_an_error(payload: object) -> None:
    out, problem = b"", ""
    try:
        out = NO_PARAMS.render_trigger(BODY, None, payload)
    except ParamError as error:
        problem = error.problem
    if problem:
        assert type(payload).__name__ in problem
    else:
        assert isinstance(decode_whole(out, strict=True), dict)
