"""Expressions in params: with their own type alone, as text among other text, and never empty by accident."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.core.model import Context, Meta
from bridge.decode.json import decode_whole
from bridge.language.errors import FilterError, ParamError
from bridge.language.ir import ROOTS
from bridge.language.view import View
from bridge.params.plans import compile_params

META = Meta(
    position="7",
    timestamp=1767225602.0,
    key=b"k-1",
    headers=(("tenant", b"acme"), ("odd", b"\xff\xfe"), ("nul", b"a\0"), ("none", None), ("empty", b"")),
    lane="orders/3",
    delivery_attempt=2,
)
BODY = (
    b'{"id":"o-1","price":1.10,"big":9007199254740993,"on":true,"none":null,"tiny":0.00000010,'
    b'"name":"\\u00e9\\"\\\\x","tags":["a",null,"b"],"items":[{"sku":"s1","n":2.50},{"sku":"s2","n":1}],'
    b'"customer":{"tier":"gold"}}'
)


def view_of(body: bytes, meta: Meta = META) -> View:
    return View(body, None, Context("orders", lambda _: meta, 1767225600.0))


def rendered(text: str, body: bytes = BODY, meta: Meta = META) -> bytes:
    """What `{x: text}` makes of the event, without the frame."""
    out = compile_params({"x": text}).render(body, view_of(body, meta))
    decode_whole(out, strict=True)
    return out.removeprefix(b'{"x":').removesuffix(b"}")


def refused(text: str, body: bytes = BODY, meta: Meta = META) -> ParamError:
    with pytest.raises(ParamError) as caught:
        compile_params({"x": text}).render(body, view_of(body, meta))
    return caught.value


# Alone


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("${event.big + 1}", "9007199254740994"),
        ("${event.price * 2}", "2.20"),
        ("${-event.price}", "-1.10"),
        ("${event.price > 1}", "true"),
        ("${event.id.upper()}", '"O-1"'),
        ('${event.id + "/" + event.customer.tier}', '"o-1/gold"'),
        ("${size(event.items)}", "2"),
        ("${event.items[0].n}", "2.50"),
        ("${event.items[0]}", '{"sku":"s1","n":2.50}'),
        ("${event.items.map(i, i.sku)}", '["s1","s2"]'),
        ("${event.items.filter(i, i.n > 2)}", '[{"sku":"s1","n":2.50}]'),
        ('${event.customer.tier == "gold" ? 1 : 2}', "1"),
        ('${default(event.nothing, "none")}', '"none"'),
        ("${default(event.price, 0)}", "1.10"),
        ("${default(event.tiny, 0)}", "0.00000010"),
        ("${default(event.none, 0)}", "0"),
        ("${default(event.tags, 0)}", '["a",null,"b"]'),
        ("${has(event.nothing)}", "false"),
        ("${[event.id, event.price]}", '["o-1",1.10]'),
        ("${meta.stream}", '"orders"'),
        ("${meta.timestamp}", '"2026-01-01T00:00:02Z"'),
        ("${meta.delivery_attempt}", "2"),
        ("${meta.timestamp - now}", '"2s"'),
        ("${now}", '"2026-01-01T00:00:00Z"'),
        ("${[now]}", '["2026-01-01T00:00:00Z"]'),
        ('${duration("1h30m")}', '"5400s"'),
        ("${key}", '"k-1"'),
        ("${headers.tenant}", '"acme"'),
        ("${attributes.tenant}", '"acme"'),
        ("${headers.odd}", '"//4="'),
        ("${[headers.odd]}", '["//4="]'),
        ("${1 + 1}", "2"),
        ('${event.id.contains("}")}', "false"),
    ],
)
def test_an_expression_alone_keeps_its_own_type(text: str, out: str) -> None:
    assert rendered(text).decode() == out


def test_a_plain_path_and_an_expression_stand_side_by_side() -> None:
    plan = compile_params({"a": "${event.price}", "b": ["${event.price + 1}", "${meta.lane}"], "c": 1})
    assert plan.render(BODY, view_of(BODY)) == b'{"a":1.10,"b":[2.10,"orders/3"],"c":1}'


# Among text


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("order ${event.id}!", "order o-1!"),
        ("${event.id}${event.id}", "o-1o-1"),
        (" ${event.id}", " o-1"),
        ("${event.price} EUR", "1.10 EUR"),
        ("n=${event.tiny}", "n=0.00000010"),
        ("n=${event.tiny + 0}", "n=0.00000010"),
        ("${event.big}x", "9007199254740993x"),
        ("is ${event.on}", "is true"),
        ("is ${event.price > 5}", "is false"),
        ("<${event.name}>", '<é"\\x>'),
        ('<${event.name + "\\\\"}>', '<é"\\x\\>'),
        ("$$${event.id}$", "$o-1$"),
        ("$${event.id} is ${event.id}", "${event.id} is o-1"),
        ('"${event.id}" \\ \n ${event.price * 2}', '"o-1" \\ \n 2.20'),
        ("${meta.stream}/${meta.lane}", "orders/orders/3"),
        ("at ${now}", "at 2026-01-01T00:00:00Z"),
        ("for ${duration('90m')}", "for 5400s"),
        ('${default(event.nothing, "")}.', "."),
        ("${1 + 1} and ${'2'}", "2 and 2"),
    ],
)
def test_text_around_an_expression_makes_a_text(text: str, out: str) -> None:
    assert json.loads(rendered(text)) == out


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("x ${event.none}", "event.none", "`event.none` is null, which can't stand in a text"),
        ("x ${event.tags}", "event.tags", "`event.tags` is a list, which can't stand in a text"),
        ("x ${event.customer}", "event.customer", "`event.customer` is an object, which can't stand in a text"),
        ("x ${event}", "event", "`event` is an object"),
        ("x ${default(event.nothing, [1])}", "default(event.nothing, [1])", "is a list"),
        ("x ${default(event.customer, 1)}", "default(event.customer, 1)", "is an object"),
        ("x ${headers.odd}", "headers.odd", "no UTF-8"),
    ],
)
def test_what_is_no_text_number_or_bool_does_not_stand_among_text(text: str, path: str, words: str) -> None:
    error = refused(text)
    assert error.path == path
    assert words in error.problem
    assert "alone" in error.problem


@pytest.mark.parametrize(
    "text", ["x ${[event.id]}", "x ${event.items.map(i, i.n)}", "${event.l.filter(i, true)}${key}"]
)
def test_what_is_a_list_whatever_the_event_is_refused_at_start(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_params({"x": text})
    assert "is a list, which can't stand in a text" in caught.value.problems[0].problem


# Undefined


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("${event.nothing}", "event.nothing", "the event has no `event.nothing`"),
        ("x ${event.nothing}", "event.nothing", "the event has no `event.nothing`"),
        ("${event.nothing + 1}", "event.nothing + 1", "`event.nothing` is missing or null; default(x, y)"),
        ("${event.none + 1}", "event.none + 1", "`event.none` is missing or null"),
        ("x ${event.nothing + event.none}", "event.nothing + event.none",
         "`event.nothing`, `event.none` are missing or null"),
        ("${event.id.x.y}", "event.id.x.y", "`event.id` is a text, not an object"),
        ("${event.id.x + 1}", "event.id.x + 1", "`event.id.x` is missing or null"),
        ("${event.tags[1]}", "event.tags[1]", "no value"),
        ("${event.tags[7]}", "event.tags[7]", "no value"),
        ("${headers.nothing}", "headers.nothing", "`headers.nothing` is missing or null"),
        ("${default(event.none, event.nothing)}", "default(event.none, event.nothing)", "missing or null"),
    ],
)  # fmt: skip
def test_what_is_undefined_is_an_error_that_names_it_and_never_an_empty_text(text: str, path: str, words: str) -> None:
    error = refused(text)
    assert error.path == path
    assert words in error.problem


def test_a_key_that_the_message_does_not_have_is_undefined() -> None:
    assert "`key` is missing or null" in refused("${key}", meta=Meta(position="0")).problem
    assert rendered('${default(key, "none")}', meta=Meta(position="0")) == b'"none"'


def test_a_plain_path_that_is_null_is_null() -> None:
    assert rendered("${event.none}") == b"null"


def test_a_null_header_is_null_alone_and_an_empty_one_is_empty() -> None:
    assert rendered("${headers.none}") == rendered('${headers["none"]}') == b"null"
    assert rendered("${headers.empty}") == b'""'
    assert rendered('${default(headers.none, "x")}') == b'"x"'
    assert rendered("${headers}", meta=Meta("0", headers=(("a", None), ("b", b"")))) == b'{"a":null,"b":""}'


@pytest.mark.parametrize("text", ["x ${headers.none}", "${headers.none.below}", "${[headers.none]}", "${headers.gone}"])
def test_a_null_header_is_as_good_as_missing_in_a_text_and_in_what_is_computed(text: str) -> None:
    assert "is missing or null" in refused(text).problem


def test_an_attribute_of_an_envelope_that_is_null_is_null_too() -> None:
    context = Context("s", lambda _: META)
    view = View(BODY, None, context, {"account": None, "detail": {"id": None}})
    plan = compile_params({"a": "${headers.account}", "b": "${attributes.detail.id}"})
    assert plan.render(BODY, view) == b'{"a":null,"b":null}'


def test_a_long_expression_is_named_by_its_beginning() -> None:
    error = refused("${event.nothing in [" + ", ".join(map(str, range(200))) + "]}")
    assert error.path.startswith("event.nothing in [0, 1")
    assert len(error.path) < 120


# Errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${event.id + 1}", "event.id is text"),
        ("${event.price / (event.big - event.big)}", "division by zero"),
        ("${event.id > 1}", "event.id is text, compared with a number"),
        ("x ${int(event.id)}", "the text is no whole number"),
        ("${headers.nul}", "U+0000"),
        ('x ${headers["nul"]}', "U+0000"),
        ("${event.price * 1e308 * 10.0}", "double"),
    ],
)
def test_an_error_outcome_is_said_without_any_value(text: str, words: str) -> None:
    error = refused(text)
    assert words in error.problem
    assert "o-1" not in error.problem


def test_a_value_that_is_nested_too_deep_is_refused() -> None:
    body = b'{"a":' + b"[" * 98 + b"]" * 98 + b"}"
    assert rendered("${[event.a]}", body).startswith(b"[[[[")
    assert "100 levels" in refused("${[[[event.a]]]}", body).problem


def test_what_the_view_raises_comes_through() -> None:
    def broken(_: object) -> Meta:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        compile_params({"x": "${key}"}).render(BODY, View(BODY, None, Context("s", broken)))


# What a plan tells


def test_a_plan_knows_what_it_reads() -> None:
    plan = compile_params({
        "a": "${event.a.b} ${event.c + event.d.e}",
        "b": "${event.items[0].sku}",
        "c": "${event.l.exists(x, x == event.f)}",
        "d": "${meta.lane}",
    })  # fmt: skip
    assert plan.uses == {("a", "b"), ("c",), ("d", "e"), ("items",), ("l",), ("f",)}
    assert plan.needs_view
    assert plan.constant is None


def test_plain_paths_need_no_view() -> None:
    plan = compile_params({"a": "${event.a.b}", "b": "x ${event.c}"})
    assert not plan.needs_view
    assert plan.render(b'{"a":{"b":1},"c":2.0}', None) == b'{"a":1,"b":"x 2.0"}'


@pytest.mark.parametrize("params", [{}, {"a": 1, "b": ["$$x"]}, {"a": "${1 + 1}", "b": "x ${'y'}"}])
def test_what_depends_on_no_event_is_constant(params: dict[str, object]) -> None:
    plan = compile_params(params)
    assert plan.constant is not None
    assert plan.render(BODY, None) == plan.constant
    assert plan.uses == frozenset()
    assert not plan.needs_view


EACH = {"tenant": "acme", "limit": Decimal("1.50"), "none": None, "tags": ["a", {"b": 1}], "o": {"k": "v"}}


@pytest.mark.parametrize(
    ("text", "out"),
    [
        ("${each.tenant}", b'"acme"'),
        ("${each.limit}", b"1.50"),
        ("${each.none}", b"null"),
        ("${each.tags}", b'["a",{"b":1}]'),
        ("${each.o.k}", b'"v"'),
        ("t ${each.tenant}/${each.limit}", b'"t acme/1.50"'),
    ],
)
def test_the_constants_of_an_each_are_part_of_the_plan(text: str, out: bytes) -> None:
    plan = compile_params({"x": text}, each=EACH)
    assert plan.constant == b'{"x":' + out + b"}"


def test_an_each_and_the_event_go_together() -> None:
    plan = compile_params({"x": "${each.tenant}-${event.id}", "y": "${event.price * each.limit}"}, each=EACH)
    assert plan.render(BODY, view_of(BODY)) == b'{"x":"acme-o-1","y":1.6500}'


@pytest.mark.parametrize("text", ["x ${each.none}", "x ${each.tags}", "x ${each.o}", "${each.none + 1}"])
def test_a_constant_that_does_not_fit_is_refused_at_start(text: str) -> None:
    with pytest.raises(FilterError) as caught:
        compile_params({"x": text}, each=EACH)
    assert caught.value.problems[0].path == ("params", "x")


# For any event

scalars = (
    st.integers().map(str)
    | st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str)
    | st.sampled_from(["true", "false", "1E5", "-0.0"])
    | st.builds(lambda t, a: json.dumps(t, ensure_ascii=a), st.text(st.characters(exclude_categories=["Cs"],
                exclude_characters="\0"), max_size=4), st.booleans())
)  # fmt: skip


@given(scalars, scalars, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5))
@settings(deadline=None, max_examples=100)
def test_a_text_is_made_of_texts_as_they_are_and_numbers_as_they_are_written(a: str, b: str, between: str) -> None:
    body = f'{{"a" : {a}, "b":{b} }}'.encode()
    parts = [json.loads(value) if value.startswith('"') else value for value in (a, b)]
    template = "${event.a}" + between.replace("$", "$$") + "${event.b}"
    assert json.loads(rendered(template, body)) == between.join(parts)
    assert rendered("${event.a}", body).decode() == a


def test_the_roots_of_a_declarative_watcher_are_those_of_a_condition() -> None:
    assert compile_params({"x": "${event.a}"}, ROOTS).uses == {("a",)}
