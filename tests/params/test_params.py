"""The `params:` block: what may stand in it, and what comes out of an event, to the digit."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.json import decode_whole
from bridge.language.errors import FilterError, FilterProblem, ParamError
from bridge.language.ir import ROOTS
from bridge.params.plans import compile_params

BOTH = (*ROOTS, "trigger")


def problems_of(params: object, roots: tuple[str, ...] = ROOTS) -> tuple[FilterProblem, ...]:
    with pytest.raises(FilterError) as caught:
        compile_params(params, roots)
    return caught.value.problems


def test_a_number_that_no_reader_takes_is_refused_at_start() -> None:
    (problem,) = problems_of({"order": {"n": 10**4300}})
    assert problem.path == ("params", "order", "n")
    assert "more than 4,300 digits" in problem.problem
    assert compile_params({"n": -(10**4300 - 1)}).constant == b'{"n":-' + b"9" * 4300 + b"}"


def problem_of(text: str, roots: tuple[str, ...] = ROOTS) -> FilterProblem:
    (problem,) = problems_of({"x": text}, roots)
    assert problem.path == ("params", "x")
    return problem


def rendered(text: str, body: bytes) -> bytes:
    """What `{x: text}` makes of the body, without the frame."""
    out = compile_params({"x": text}).render(body, None)
    assert out.startswith(b'{"x":')
    assert out.endswith(b"}")
    return out[5:-1]


def missing(params: dict[str, object], body: bytes) -> ParamError:
    with pytest.raises(ParamError) as caught:
        compile_params(params).render(body, None)
    return caught.value


# Literals


def test_literals_of_every_type_are_rendered_as_they_are() -> None:
    params = {"t": 'a"é', "i": 2**70, "f": 1.5, "b": True, "n": None, "l": [1, [2, {}], []], "m": {"k": {"": "v"}}}
    assert json.loads(compile_params(params).render(b"{}", None)) == params


def test_no_params_are_an_empty_object() -> None:
    assert compile_params({}).render(b'{"a":1}', None) == b"{}"
    assert compile_params({}).uses == frozenset()


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("$$", "$"),
        ("$${event.a}", "${event.a}"),
        ("a $${x} b $$5", "a ${x} b $5"),
        ("$$$$", "$$"),
        ("$5 and 10$", "$5 and 10$"),
        ("$HOME", "$HOME"),
        ("$eventual", "$eventual"),
        ("$$event", "$event"),
        ("{event.a}", "{event.a}"),
        ("", ""),
    ],
)
def test_two_dollars_are_one_and_a_dollar_that_begins_nothing_is_itself(text: str, literal: str) -> None:
    assert json.loads(rendered(text, b"{}")) == literal


# Paths


def test_a_path_keeps_the_type_of_the_field() -> None:
    params = {
        "t": "${event.t}",
        "i": "${event.i}",
        "b": "${event.b}",
        "n": "${event.n}",
        "l": "${event.l}",
        "o": "${event.o}",
    }
    body = b'{"t":"x","i":3,"b":false,"n":null,"l":[1,"a"],"o":{"k":1}}'
    assert json.loads(compile_params(params).render(body, None)) == json.loads(body)


@pytest.mark.parametrize(
    "number", [b"1.10", b"1E5", b"-0.0", b"1e-999", b"0.1000000000000000055511151231257827", b"1180591620717411303424"]
)
def test_numbers_keep_their_digits_alone_and_inside_of_containers(number: bytes) -> None:
    assert rendered("${event.a}", b'{"a": ' + number + b" }") == number
    assert (
        rendered("${event.a}", b'{"a": [ ' + number + b' , {"b" : ' + number + b"}] }")
        == b"[" + number + b',{"b":' + number + b"}]"
    )


def test_nested_paths_lead_through_objects() -> None:
    assert (
        rendered("${event.customer.address.city}", '{"customer":{"address":{"city":"Köln"}}}'.encode())
        == '"Köln"'.encode()
    )


def test_a_path_may_be_asked_for_twice_and_together_with_what_is_below_it() -> None:
    params = {"a": "${event.c}", "b": "${event.c.d}", "c": ["${event.c.d}", {"again": "${event.c}"}]}
    out = json.loads(compile_params(params).render(b'{"c":{"d":1}}', None))
    assert out == {"a": {"d": 1}, "b": 1, "c": [1, {"again": {"d": 1}}]}


def test_the_root_alone_is_the_whole_event() -> None:
    assert rendered("${event}", b' {"a" : [1.10, 2]} \n') == b'{"a":[1.10,2]}'
    assert rendered("${event}", b" 7 ") == b"7"


def test_names_of_any_characters_are_put_in_brackets() -> None:
    body = '{"order-id_2":{"größe":1.10, "2b":2, "a.b }":3}}'.encode()
    assert rendered('${event["order-id_2"]["größe"]}', body) == b"1.10"
    assert rendered('${ event["order-id_2"]["2b"] }', body) == b"2"
    assert rendered('${event["order-id_2"]["a.b }"]}', body) == b"3"
    error = missing({"x": '${event["order-id_2"]["2c"]}'}, body)
    assert str(error) == 'event["order-id_2"]["2c"]: the event has no `event["order-id_2"]["2c"]`'


def test_duplicate_keys_and_white_space_inside_of_a_container_are_settled() -> None:
    assert rendered("${event.a}", b'{"a":{"k":1},"a":{ "k" : [ 1 ], "k" : 2 }}') == b'{"k":2}'


def test_the_last_of_duplicate_keys_on_the_way_wins_as_it_does_in_a_whole_decode() -> None:
    body = b'{"a":{"b":1,"c":2},"a":{"b":3}}'
    assert rendered("${event.a.b}", body) == b"3"
    assert missing({"x": "${event.a.c}"}, body).path == "event.a.c"


def test_a_byte_order_mark_is_no_part_of_the_event() -> None:
    body = b'\xef\xbb\xbf{"a":1}'
    assert rendered("${event.a}", body) == b"1"
    assert rendered("${event}", body) == b'{"a":1}'


def test_the_paths_in_use_are_known() -> None:
    plan = compile_params({"a": ["${event.b.c}", {"x": "${event.d}"}], "t": "${trigger.e}", "w": "${event}"}, BOTH)
    assert plan.uses == {("b", "c"), ("d",), ()}


# What an event may lack


def test_a_missing_field_is_an_error_and_a_null_one_is_null() -> None:
    assert rendered("${event.a}", b'{"a":null}') == b"null"
    error = missing({"x": "${event.a}"}, b'{"b":1}')
    assert error.path == "event.a"
    assert str(error) == "event.a: the event has no `event.a`"


@pytest.mark.parametrize(
    ("parent", "kind"),
    [
        (b"null", "null"),
        (b'"x"', "a text"),
        (b"1", "a number"),
        (b"-1.5", "a number"),
        (b"true", "true"),
        (b"false", "false"),
        (b"[]", "a list"),
    ],
)
def test_a_parent_that_is_no_object_is_an_error_that_says_what_it_is(parent: bytes, kind: str) -> None:
    error = missing({"x": "${event.a.b.c}"}, b'{"a":{"b":' + parent + b"}}")
    assert error.path == "event.a.b.c"
    assert error.problem == f"`event.a.b` is {kind}, not an object"
    assert missing({"x": "${event.a}"}, b" " + parent).problem == f"`event` is {kind}, not an object"


def test_a_missing_parent_is_named_with_the_path_that_was_asked_for() -> None:
    error = missing({"x": "${event.a.b.c}"}, b'{"a":{}}')
    assert error.path == "event.a.b.c"
    assert "`event.a.b`" in error.problem


# What is refused at start-up


def test_every_problem_of_the_block_is_reported_with_its_path() -> None:
    params = {"a": "${evnt.x}", "b": ["ok", "x${event.y"], "c": {"d": math.nan, "e": "${}"}, "f": "${a.x} ${b.y}"}
    assert [p.path for p in problems_of(params)] == [
        ("params", "a"),
        ("params", "b", 1),
        ("params", "c", "d"),
        ("params", "c", "e"),
        ("params", "f"),
        ("params", "f"),
    ]


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("${evnt.a}", 2, "did you mean `event`?"),
        ("  ${evnt.a}", 4, "did you mean `event`?"),
        ("${ evnt.a}", 3, "did you mean `event`?"),
        ("${event.a} and ${evnt.a}", 17, "did you mean `event`?"),
        ("${order_id}", 2, "event.order_id"),
        ("${trigger.a}", 2, "Python watcher"),
        ("${event.a", 0, "no closing `}`"),
        ("a $${b} ${", 8, "no closing `}`"),
        ('${event.a + "b}', 12, "no closing quote"),
        ("${event['a}", 8, "no closing quote"),
        ("${}", 2, "empty"),
        ("${  }", 2, "empty"),
        ("${event..a}", 7, "after the dot"),
        ("${event.}", 7, "after the dot"),
        ("${event.items.0}", 13, ""),
        ("${lowr(event.a)}", 2, "lower"),
        ("x ${event.a.lowr()}", 12, "lower"),
        ("${event.a = 1}", 10, "=="),
        ("${event.order-id}", 14, 'event["order-id"]'),
        ("$event.a", 0, "lacks its braces"),
        ("x $event", 2, "lacks its braces"),
        ("x $meta.stream", 2, "lacks its braces"),
        ("${1 / 0}", 6, "division by zero"),
        ("${default(event.a, 1}", 9, "close it"),
    ],
)
def test_an_expression_that_can_not_be_read_is_refused_at_its_character(text: str, at: int, words: str) -> None:
    problem = problem_of(text)
    assert problem.at == at
    assert words in f"{problem.problem} {problem.hint}"
    assert f"character {at + 1}" in str(problem)


def test_a_root_is_suggested_from_those_that_are_allowed() -> None:
    assert "did you mean `trigger`?" in problem_of("${triger.a}", BOTH).hint


@pytest.mark.parametrize(
    ("params", "path"),
    [
        (None, ()),
        ([], ()),
        ("${event}", ()),
        ({1: "a"}, (1,)),
        ({"a": {None: "a"}}, ("a", "None")),
        ({"${event.a}": 1}, ("${event.a}",)),
        ({"a": math.inf}, ("a",)),
        ({"a": object()}, ("a",)),
        ({"a": [b"x"]}, ("a", 0)),
        ({"a": "x\0"}, ("a",)),
        ({"a": "\ud800"}, ("a",)),
        ({"a": "\ud800 ${event.a}"}, ("a",)),
        ({"\0": 1}, ("\0",)),
    ],
)
def test_what_is_no_json_is_refused_where_it_stands(params: object, path: tuple[object, ...]) -> None:
    (problem,) = problems_of(params)
    assert problem.path == ("params", *path)


def test_a_block_that_contains_itself_is_refused() -> None:
    block: dict[str, Any] = {}
    block["a"] = [block]
    assert "deeper" in problems_of(block)[0].problem


# For any event

numbers = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=4).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}.{}e{}".format, st.integers(-99, 99), st.integers(0, 10**30), st.integers(-300, 200)),
)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=3)
strings = st.builds(lambda text, ascii_only: json.dumps(text, ensure_ascii=ascii_only), texts, st.booleans())
names = st.sampled_from(["a", "b", "c"])
spaces = st.sampled_from(["", " ", "\n\t "])


def written(opening: str, items: list[str], closing: str, space: str) -> str:
    return opening + space + f"{space},{space}".join(items) + space + closing


def members(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects as texts: white space, and keys that may occur twice."""
    pair = st.builds(lambda name, value, space: f'"{name}"{space}:{space}{value}', names, inner, spaces)
    return st.builds(written, st.just("{"), st.lists(pair, max_size=4), st.just("}"), spaces)


def documents() -> st.SearchStrategy[str]:
    leaf = numbers | strings | st.sampled_from(["true", "false", "null"])
    lists = lambda inner: st.builds(written, st.just("["), st.lists(inner, max_size=3), st.just("]"), spaces)  # noqa: E731
    return members(st.recursive(leaf, lambda inner: members(inner) | lists(inner), max_leaves=12))


def exact(text: str | bytes) -> Any:
    return json.loads(text, parse_float=Decimal)


def found(document: Any, path: list[str]) -> tuple[bool, Any]:
    for name in path:
        if not isinstance(document, dict) or name not in document:
            return False, None
        document = document[name]
    return True, document


paths = st.lists(names, max_size=3)


@given(documents(), st.lists(paths, min_size=1, max_size=4))
@settings(deadline=None, max_examples=200)
def test_a_rendered_value_is_the_value_of_the_event_to_the_digit(text: str, wanted: list[list[str]]) -> None:
    body = text.encode()
    decode_whole(body)
    written = [".".join(["event", *path]) for path in wanted]
    expected = [found(exact(text), path) for path in wanted]
    out, lacking = b"", ""
    try:
        out = compile_params({"all": ["${" + path + "}" for path in written]}).render(body, None)
    except ParamError as error:
        lacking = error.path
    if all(there for there, _ in expected):
        decode_whole(out, strict=True)
        assert exact(out)["all"] == [value for _, value in expected]
    else:
        assert lacking in {path for path, (there, _) in zip(written, expected, strict=True) if not there}


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text("${}event.a[0] ", max_size=12)
    | st.binary(max_size=1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2) | st.integers(), inner, max_size=3),
)


@given(st.dictionaries(st.text(max_size=2), anything, max_size=3))
@settings(deadline=None, max_examples=150)
def test_any_block_compiles_to_strict_json_or_is_refused_with_problems(params: dict[str, Any]) -> None:
    problems: tuple[FilterProblem, ...] = ()
    plan = None
    try:
        plan = compile_params(params)
    except FilterError as error:
        problems = error.problems
    assert (plan is None) is bool(problems)
    assert all(problem.path[0] == "params" and problem.problem for problem in problems)
    if plan is not None and not plan.uses:
        assert set(decode_whole(plan.render(b'{"a":1}', None), strict=True)) == set(params)
