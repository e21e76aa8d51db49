"""Tags are texts, numbers and bools by name, the business key is one text: both are made of the event."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.core.model import Context, Meta
from bridge.decode.json import decode_whole
from bridge.language.errors import FilterError, FilterProblem, ParamError
from bridge.language.ir import ROOTS
from bridge.language.view import View
from bridge.params.plans import LONGEST_KEY, compile_key, compile_tags

BODY = (
    b'{"id":"o-1","n":1.0,"i":1,"on":true,"none":null,"l":["x"],"o":{"a":1},"empty":"","long":"' + b"x" * 2000 + b'"}'
)
TRIGGERED = (*ROOTS, "trigger")


def view_of(body: bytes = BODY) -> View:
    return View(body, None, Context("orders", lambda _: Meta(position="0", headers=(("odd", b"\xff"),)), 0.0))


def tags_of(tags: object, body: bytes = BODY) -> bytes:
    return compile_tags(tags).render(body, view_of(body))


def key_of(text: str, body: bytes = BODY) -> str:
    return compile_key(text).render(body, view_of(body))


def problems_of(compile_: object, block: object) -> tuple[FilterProblem, ...]:
    assert callable(compile_)
    with pytest.raises(FilterError) as caught:
        compile_(block)
    return caught.value.problems


# Tags


def test_tags_without_an_expression_are_constant_and_in_the_order_of_their_names() -> None:
    plan = compile_tags({"b": "$$x", "a": 5, "ä": True, "B": 1.5})
    assert plan.constant == '{"B":1.5,"a":5,"b":"$x","ä":true}'.encode()
    assert plan.render(BODY, None) == plan.constant
    assert compile_tags({}).constant == b"{}"


def test_tags_keep_the_type_of_an_expression_alone() -> None:
    tags = {"z": "${event.n}", "t": "${event.id}", "b": "${event.on}", "m": "x ${event.i}", "e": "${event.i + 1}"}
    assert tags_of(tags) == b'{"b":true,"e":2,"m":"x 1","t":"o-1","z":1.0}'
    assert compile_tags(tags).uses == {("n",), ("id",), ("on",), ("i",)}


def test_a_tag_of_bytes_or_a_time_is_a_text() -> None:
    assert tags_of({"a": "${headers.odd}", "b": "${now}"}) == b'{"a":"/w==","b":"1970-01-01T00:00:00Z"}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${event.none}", "`event.none` is null, where a text, a number, true or false is needed"),
        ("${event.l}", "is a list, where"),
        ("${event.o}", "is an object, where"),
        ("${event}", "is an object, where"),
        ("${default(event.nothing, [1])}", "is a list, where"),
        ("${event.nothing}", "the event has no `event.nothing`"),
        ("${event.none + 1}", "missing or null"),
    ],
)
def test_a_tag_that_is_no_plain_value_is_an_error(text: str, words: str) -> None:
    with pytest.raises(ParamError) as caught:
        tags_of({"a": text})
    assert words in caught.value.problem


@pytest.mark.parametrize(
    ("tags", "path"),
    [
        (None, ()),
        ([], ()),
        ({"a": None}, ("a",)),
        ({"a": []}, ("a",)),
        ({"a": {}}, ("a",)),
        ({1: "x"}, (1,)),
        ({"${event.a}": 1}, ("${event.a}",)),
        ({"a": "${evnt.x}"}, ("a",)),
        ({"a": "${[1, 2]}"}, ("a",)),
        ({"a": "${[event.id]}"}, ("a",)),
        ({"a": "${event.l.map(x, x)}"}, ("a",)),
    ],
)
def test_what_can_be_no_tag_is_refused_at_start(tags: object, path: tuple[object, ...]) -> None:
    problem = problems_of(compile_tags, tags)[0]
    assert problem.path == ("tags", *path)


# Keys


def test_a_key_is_the_text_with_its_expressions_filled_in() -> None:
    assert key_of("${event.id}") == "o-1"
    assert key_of("order-${event.id}/${meta.stream}") == "order-o-1/orders"
    assert key_of("$$${event.id.upper()}") == "$O-1"


def test_numbers_in_a_key_are_as_they_are_written() -> None:
    assert key_of("${event.n}") == "1.0"
    assert key_of("${event.i}") == "1"
    assert key_of("${event.on}") == "true"


def test_a_text_and_its_escapes_are_the_same_key() -> None:
    assert key_of("${event.a}", '{"a":"é"}'.encode()) == key_of("${event.a}", b'{"a":"\\u00e9"}') == "é"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${event.none}", "is null"),
        ("${event.l}", "is a list"),
        ("${event.nothing}", "has no"),
        ("${event.empty}", "empty"),
        ("${headers.odd}", "no UTF-8"),
    ],
)
def test_a_key_is_never_empty_and_never_made_up(text: str, words: str) -> None:
    with pytest.raises(ParamError) as caught:
        key_of(text)
    assert words in caught.value.problem


def test_a_key_that_is_too_long_is_replaced_by_its_hash() -> None:
    assert key_of("${event.a}", b'{"a":"' + b"x" * LONGEST_KEY + b'"}') == "x" * LONGEST_KEY
    assert key_of("a${event.long}") == hashlib.sha256(b"a" + b"x" * 2000).hexdigest()


@pytest.mark.parametrize("key", ["", "all", "$${event.id}", "${1 + 1}", "${'a'} b", 5, None, {}, ["${event.id}"]])
def test_a_key_that_is_the_same_for_every_event_is_refused(key: object) -> None:
    (problem,) = problems_of(compile_key, key)
    assert problem.path == ("key",)
    assert "${event.order_id}" in problem.hint


def test_a_constant_of_an_each_alone_makes_no_key() -> None:
    with pytest.raises(FilterError):
        compile_key("${each.tenant}", each={"tenant": "a"})
    plan = compile_key("${each.tenant}-${event.id}", each={"tenant": "a"})
    assert plan.render(BODY, None) == "a-o-1"


def test_a_wrong_key_is_refused_at_its_character() -> None:
    (problem,) = problems_of(compile_key, "a ${evnt.id}")
    assert (problem.path, problem.at) == (("key",), 4)


# A Python watcher


def test_tags_and_keys_see_what_a_python_watcher_yielded() -> None:
    tags = compile_tags({"a": "${trigger.a}", "b": "${event.id}-${trigger.b + 1}"}, TRIGGERED)
    key = compile_key("${trigger.a}", TRIGGERED)
    assert tags.render_trigger(BODY, view_of(), {"a": "x", "b": 1}) == b'{"a":"x","b":"o-1-2"}'
    assert key.render_trigger(BODY, None, {"a": 7}) == "7"
    with pytest.raises(ParamError, match="a list"):
        tags.render_trigger(BODY, view_of(), {"a": [], "b": 1})
    with pytest.raises(ParamError, match="only a Python watcher"):
        key.render(BODY, None)


# For any event

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from("ab"), values, max_size=2))
@settings(deadline=None, max_examples=100)
def test_any_event_gives_strict_tags_and_a_key_or_an_error(event: dict[str, object]) -> None:
    body = json.dumps(event).encode()
    if b"\\u0000" in body:
        return
    try:
        tags = tags_of({"a": "${event.a}", "b": "b ${event.b}"}, body)
        key = key_of("${event.a}", body)
    except ParamError:
        assert any(not isinstance(event.get(name), (str, int)) for name in "ab") or event["a"] == ""
        return
    assert decode_whole(tags, strict=True)["a"] == event["a"]
    assert key
