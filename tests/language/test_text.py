"""A node as text: it reads back as the same node, with no brackets that are not needed."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.language.errors import FilterError
from bridge.language.ir import AllOf, AnyOf, Const, Field, OneOf
from bridge.language.reading.parse import compile_when, parse_expression
from bridge.language.text import text_of_node

ROOTS = ("event", "meta", "key", "headers", "now")


def bare(value: Any) -> Any:
    """The node without the places that it was written at, kinds of numbers told apart."""
    if isinstance(value, msgspec.Struct):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__ if name != "at"}
        return (type(value).__name__, fields)
    if isinstance(value, tuple):
        return tuple(map(bare, value))
    return (type(value).__name__, str(value))


CANONICAL = [
    "event.a == 1",
    "event.a != -1.50",
    'event.a in ["x", "it\'s", 5, true]',
    '!(event.a in ["x", "y"])',
    "event.a <= event.b",
    "event.a == event.b && event.a != event.c",
    "event.a == [1, event.b]",
    "!(event.a == [1, 2])",
    "!(event.a == [1, event.b])",
    "event.a && event.b || event.c && !event.d",
    "(event.a || event.b) && event.c",
    "!(event.a && event.b)",
    "!(event.a < 5)",
    "!!event.a",
    "(event.a && event.b) == true",
    "(event.a < event.b) == (event.c < event.d)",
    "event.a ? event.b : event.c ? event.d : true",
    "(event.a ? event.b : event.c) ? true : false",
    "(event.a ? event.b : event.c) && event.d",
    "event.a + event.b * event.c - event.d > 0",
    "(event.a + event.b) * event.c > 0",
    "event.a - (event.b - event.c) > 0",
    "event.a / (event.b / event.c) > 0",
    "-event.a * -3 > 0",
    "--event.a > -(event.b + 1)",
    "(-event.a).x == 1",
    "(event.a + event.b).lower() == \"x\"",
    "event.items[0].sku == 1",
    "event.items[event.i + 1].sku[\"a b\"] == 1",
    "event[\"order-id\"].in.true.__x == 1",
    "headers[\"content-type\"] == \"x\"",
    "has(event.a) && !has(event.items[0].b)",
    "event.items.exists(item, item.price > 100 && event.b)",
    "event.items.filter(x, x.ok).map(y, y.a > 1, y.b + 1).all(z, z in [1, 2])",
    "size(event.a) > 2 && event.a.matches(\"^a\\\\d\") && default(event.b, 5) == 5",
    "\"a\" in event.tags",
    "event.a in event.b + event.c",
    "meta.timestamp > timestamp(\"2026-01-01T00:00:00.500Z\") - duration(\"-5400s\")",
    "event.a == 1E+2 || event.a == 1e0 || event.a == 0.00",
    "event.a == \"\\\"\\\\\\n\\t\\u0001é😀\"",
]  # fmt: skip


@pytest.mark.parametrize("text", CANONICAL)
def test_canonical_text_stays_as_it_is(text: str) -> None:
    assert text_of_node(compile_when(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((event.a)) == ((1))", "event.a == 1"),
        ("event.a&&(event.b&&event.c)", "event.a && event.b && event.c"),
        ("'x' == event['a'][\"b\"]", 'event.a.b == "x"'),
        ("!(event.a == 1)", "event.a != 1"),
        ("event.a in ['x', 'x']", 'event.a == "x"'),
        ("5 < event.a", "event.a > 5"),
        ("event.a.size() > 0x10", "size(event.a) > 16"),
        ("matches(event.a, r'\\d')", 'event.a.matches("\\\\d")'),
        ("attributes.x == 'y'", 'headers.x == "y"'),
        ("now > timestamp('2026-01-01T01:00:00+01:00')", 'now > timestamp("2026-01-01T00:00:00Z")'),
        ("now - now > duration('1h')", 'now - now > duration("3600s")'),
    ],
)
def test_what_can_be_written_in_several_ways_has_one_text(text: str, canonical: str) -> None:
    assert text_of_node(compile_when(text)) == canonical


def test_what_can_not_be_written_has_a_text_for_people() -> None:
    field = Field("event", ("a",))
    assert text_of_node(AllOf(())) == "true"
    assert text_of_node(OneOf(())) == "false"
    assert text_of_node(AllOf((AnyOf(field, (1,)),))) == "event.a == 1"
    assert text_of_node(Const({"a": [1, None, Decimal("1.5")], "b": "x"})) == '{"a": [1, null, 1.5], "b": "x"}'
    assert text_of_node(Field("x")) == "x"


# Any expression -------------------------------------------------------------------------------------------------------

_literals = st.sampled_from(["1", "-2", "2.50", "1e3", "true", "false", '"a"', "'é\\n'", "[1, 'x']", "[]",
                             'timestamp("2026-01-01T00:00:00Z")', 'duration("1.5h")'])  # fmt: skip
_fields = st.sampled_from(["event.a", 'event["b c"]', "event.in", "meta.stream", "key", "now", "headers.x", "event"])


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def shaped(*shapes: str) -> st.SearchStrategy[str]:
        parts = st.lists(inner, min_size=3, max_size=3)
        return st.builds(lambda shape, three: shape.format(*three), st.sampled_from(shapes), parts)

    operators = ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", "in", "&&", "||"]
    return shaped(
        *[f"{{0}} {sign} {{1}}" for sign in operators],
        *[f"({{0}}) {sign} ({{1}})" for sign in operators],
        *[f"{{0}} {sign} ({{1}} {sign} {{2}})" for sign in operators],
        "!({0})", "!{0}", "-({0})", "-{0}", "{0} ? {1} : {2}", "({0} ? {1} : {2})", "[{0}, {1}]", "({0}).x",
        "({0})[{1}]",
        "({0})['a b']", "has(({0}).y)", "size({0})", "({0}).lower()", "({0}).startsWith({1})", "default({0}, {1})",
        "({0}).exists(x, {1})", "({0}).map(x, {1}, x.y)", "({0}).all(y, y == {1})", "string({0})", "{0} && {1} || {2}",
    )  # fmt: skip


# Mostly fields of the event: of what they are nothing is known, so that most of what is made of them can be meant.
_anything = st.sampled_from(["event.a", 'event["b c"]', "event.in", "event.a.b", "headers.x"])
expressions = st.recursive(_anything | _anything | _literals | _fields, _grown, max_leaves=12)


@given(expressions)
@settings(deadline=None, max_examples=400)
def test_the_text_of_any_expression_reads_back_as_it(text: str) -> None:
    try:
        node = parse_expression(text, ROOTS, path=("x",))
    except FilterError:
        return
    written = text_of_node(node)
    assert bare(parse_expression(written, ROOTS, path=("x",))) == bare(node)
    assert len(written) <= 2 * len(text) + 100
