"""`when:` as it is read: what it becomes, and everything that it refuses, with the place and a way out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import (
    MOST_DEPTH,
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
from bridge.language.reading.parse import compile_when, parse_expression
from bridge.language.values import Duration, Timestamp

A, B, C = Field("event", ("a",)), Field("event", ("b",)), Field("event", ("c",))
IS_A, IS_B, IS_C = AnyOf(A, (1,)), AnyOf(B, (2,)), AnyOf(C, (3,))


def bare(value: Any) -> Any:
    """The node without the places that it was written at, kinds of numbers told apart."""
    if isinstance(value, msgspec.Struct):
        fields = {name: bare(getattr(value, name)) for name in value.__struct_fields__ if name != "at"}
        return (type(value).__name__, fields)
    if isinstance(value, tuple):
        return tuple(map(bare, value))
    return (type(value).__name__, str(value))


def when(text: str, each: dict[str, object] | None = None) -> Expr:
    return compile_when(text, each=each)


def assert_means(text: str, node: Expr, each: dict[str, object] | None = None) -> None:
    assert bare(when(text, each)) == bare(node)


def problems_of(text: str, each: dict[str, object] | None = None) -> tuple[FilterProblem, ...]:
    with pytest.raises(FilterError) as caught:
        when(text, each)
    assert all(problem.path == ("when",) for problem in caught.value.problems)
    return caught.value.problems


def carets(text: str, problem: FilterProblem) -> str:
    assert problem.at is not None
    assert 0 <= problem.at <= len(text)
    return " " * problem.at + "^" * problem.width


def problem_of(text: str, each: dict[str, object] | None = None) -> FilterProblem:
    (problem,) = problems_of(text, each)
    return problem


# What it becomes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("event.a == 1", IS_A),
        ("1 == event.a", IS_A),
        ("event.a != 1", Not(IS_A)),
        ("event.a in [1]", IS_A),
        ("event.a in [1, 1.0, true, 'x', 1]", AnyOf(A, (1, True, "x"))),
        ("event.a == 0x1F", AnyOf(A, (31,))),
        ("event.a == -1", AnyOf(A, (-1,))),
        ("event.a == - -1", AnyOf(A, (1,))),
        ("event.a == 1.50", AnyOf(A, (Decimal("1.50"),))),
        ("event.a == -.5e-3", AnyOf(A, (Decimal("-0.0005"),))),
        ("event.a == 9007199254740993", AnyOf(A, (9007199254740993,))),
        ("event.a == true", AnyOf(A, (True,))),
        ("event.a < 1", Compare("<", A, Const(1))),
        ("1 < event.a", Compare(">", A, Const(1))),
        ("1 >= event.a", Compare("<=", A, Const(1))),
        ("event.a < event.b", Compare("<", A, B)),
        ("event.a == event.b", Compare("==", A, B)),
        ("event.a != event.b", Not(Compare("==", A, B))),
        ("event.a == [1, 2]", Compare("==", A, Const((1, 2)))),
        ("[1, 2] == event.a", Compare("==", A, Const((1, 2)))),
        ("event.a == [1, event.b]", Compare("==", A, ListOf((Const(1), B)))),
        ("event.a in [1, event.b]", Call("in", (A, ListOf((Const(1), B))))),
        ("'x' in event.a", Call("in", (Const("x"), A))),
        ("event.a", A),
        ("event.a ? event.b : event.c", If(A, B, C)),
        ("event.a ? event.b : event.c ? true : false", If(A, B, If(C, Const(True), Const(False)))),
        ("has(event.a)", Has(A)),
        ("has(event.a[0].x)", Has(Select(Item(A, Const(0)), "x"))),
        ("event.a.exists(x, x.b > 1)", Each("exists", A, "x", Compare(">", Field("x", ("b",)), Const(1)))),
        ("event.a.all(x, x == 1)", Each("all", A, "x", AnyOf(Field("x"), (1,)))),
        (
            "event.a.map(x, x.ok, x.b) == [1]",
            Compare("==", Each("map", A, "x", Field("x", ("b",)), Field("x", ("ok",))), Const((1,))),
        ),
        ("size(event.a) > 2", Compare(">", Call("size", (A,)), Const(2))),
        ("event.a.size() > 2", Compare(">", Call("size", (A,)), Const(2))),
        ("event.a.lower() == 'x'", AnyOf(Call("lower", (A,)), ("x",))),
        ("matches(event.a, r'^\\d')", Call("matches", (A, Const("^\\d")))),
        ("default(event.a, 0) > 1", Compare(">", Call("default", (A, Const(0))), Const(1))),
        ("-event.a < 1", Compare("<", Call("neg", (A,)), Const(1))),
        ("event.a[event.b] == 1", AnyOf(Item(A, B), (1,))),
        ("event.a['x y'].b == 1", AnyOf(Field("event", ("a", "x y", "b")), (1,))),
        ("event.a[0]['x'] == 1", AnyOf(Select(Item(A, Const(0)), "x"), (1,))),
        ("event.in == 1 && event.true == 1", AllOf((AnyOf(Field("event", ("in",)), (1,)),
                                                   AnyOf(Field("event", ("true",)), (1,))))),
        ("event.__class__ == 'x'", AnyOf(Field("event", ("__class__",)), ("x",))),
        ("meta.stream == 'x'", AnyOf(Field("meta", ("stream",)), ("x",))),
        ("meta['stream'] == 'x'", AnyOf(Field("meta", ("stream",)), ("x",))),
        ("key == 'x'", AnyOf(Field("key"), ("x",))),
        ("headers['content-type'] == 'x'", AnyOf(Field("headers", ("content-type",)), ("x",))),
        ("attributes.x == 'x'", AnyOf(Field("headers", ("x",)), ("x",))),
        ("properties.x == 'x'", AnyOf(Field("headers", ("x",)), ("x",))),
        ("true", Const(True)),
    ],
)  # fmt: skip
def test_an_expression_becomes_the_typed_form(text: str, node: Expr) -> None:
    assert_means(text, node)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("event.a == 1 || event.b == 2 && event.c == 3", OneOf((IS_A, AllOf((IS_B, IS_C))))),
        ("(event.a == 1 || event.b == 2) && event.c == 3", AllOf((OneOf((IS_A, IS_B)), IS_C))),
        ("event.a == 1 && (event.b == 2 && event.c == 3)", AllOf((IS_A, IS_B, IS_C))),
        ("(event.a == 1 || event.b == 2) || event.c == 3", OneOf((IS_A, IS_B, IS_C))),
        ("!(event.a == 1) && event.b == 2", AllOf((Not(IS_A), IS_B))),
        ("!event.a && event.b == 2", AllOf((Not(A), IS_B))),
        ("!!event.a", Not(Not(A))),
        ("event.a + event.b * event.c < 1", Compare("<", Call("+", (A, Call("*", (B, C)))), Const(1))),
        ("event.a - event.b - event.c < 1", Compare("<", Call("-", (Call("-", (A, B)), C)), Const(1))),
        ("event.a - (event.b - event.c) < 1", Compare("<", Call("-", (A, Call("-", (B, C)))), Const(1))),
        ("event.a / event.b % event.c == 1", AnyOf(Call("%", (Call("/", (A, B)), C)), (1,))),
        ("-event.a.b == 1", AnyOf(Call("neg", (Field("event", ("a", "b")),)), (1,))),
        ("event.a || event.b ? event.c : event.a", If(OneOf((A, B)), C, A)),
        ("event.a < event.b == event.c", Compare("==", Compare("<", A, B), C)),
    ],
)
def test_operators_bind_as_in_cel(text: str, node: Expr) -> None:
    assert_means(text, node)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"it\'s"', "it's"),
        ("'a \"b\"'", 'a "b"'),
        (r'"\a\b\f\n\r\t\v\\\?\"\'\`"', "\a\b\f\n\r\t\v\\?\"'`"),
        (r'"\x41\X42\u00e9\U0001F600\101"', "ABé😀A"),
        (r"r'\d+\n'", r"\d+\n"),
        (r'R"\"', "\\"),
        ('"""a "b"\nc"""', 'a "b"\nc'),
        ("'''a'b'''", "a'b"),
        ("r'''\\'''", "\\"),
        ('""', ""),
        ("'名前'", "名前"),
    ],
)
def test_texts_are_written_as_in_cel(written: str, value: str) -> None:
    assert_means(f"event.a == {written}", AnyOf(A, (value,)))


def test_a_timestamp_and_a_duration_of_a_literal_are_read_at_once() -> None:
    assert_means(
        'meta.timestamp > timestamp("2026-01-01T00:00:00Z") - duration("1h30m")',
        Compare(
            ">",
            Field("meta", ("timestamp",)),
            Call("-", (Const(Timestamp(1767225600 * 10**9)), Const(Duration(5400 * 10**9)))),
        ),
    )
    assert_means("timestamp(event.a) == timestamp(0)", Compare("==", Call("timestamp", (A,)), Const(Timestamp(0))))
    assert_means("now in [timestamp(0)]", Call("in", (Field("now"), Const((Timestamp(0),)))))


def test_white_space_and_line_breaks_mean_nothing() -> None:
    assert_means("\n\tevent . a\r\n ==1 ", IS_A)


def test_a_node_has_the_place_where_it_begins() -> None:
    node = when("  event.a == 1 && has( event.b )")
    assert isinstance(node, AllOf)
    assert (node.at, [part.at for part in node.parts]) == (2, [2, 18])
    assert isinstance(node.parts[1], Has)
    assert node.parts[1].field.at == 23


def test_a_variable_of_a_macro_hides_an_outer_one() -> None:
    inner = Each("all", Field("x", ("y",)), "x", Field("x", ("z",)))
    assert_means("event.a.exists(x, x.y.all(x, x.z))", Each("exists", A, "x", inner))


def test_a_chain_is_one_level_however_long_it_is() -> None:
    names = " && ".join(f"event.f{number} == {number}" for number in range(300))
    node = when(names)
    assert isinstance(node, AllOf)
    assert len(node.parts) == 300
    assert isinstance(when(f"event.{'.'.join('abc' * 33)} == 1"), AnyOf)


# `each` ---------------------------------------------------------------------------------------------------------------

EACH: dict[str, object] = {
    "region": "eu", "limit": 1.5, "on": True, "none": None, "tags": ["a", "b"], "deep": {"a": {"b": [10, 20]}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("event.a == each.region", AnyOf(A, ("eu",))),
        ("event.a > each.limit", Compare(">", A, Const(Decimal("1.5")))),
        ("event.a in each.tags", AnyOf(A, ("a", "b"))),
        ("event.a == each.deep.a.b[1]", AnyOf(A, (20,))),
        ("event.a == each['deep']['a'].b[0]", AnyOf(A, (10,))),
        ("each.on && event.a == 1", AllOf((Const(True), IS_A))),
        ("has(each.none) || has(each.region)", OneOf((Const(False), Const(True)))),
        ("event.a == default(each.none, 5)", AnyOf(A, (5,))),
        ("event.a == default(each.limit, 5)", AnyOf(A, (Decimal("1.5"),))),
        ("event.a.startsWith(each.region + '-')", Call("startsWith", (A, Call("+", (Const("eu"), Const("-")))))),
        ("event.a == each.deep", Compare("==", A, Const({"a": {"b": (10, 20)}}))),
    ],
)
def test_values_of_each_are_literals(text: str, node: Expr) -> None:
    assert_means(text, node, EACH)


@pytest.mark.parametrize(
    ("text", "marked", "problem", "hint"),
    [
        ("event.a == each.regoin", "                ^^^^^^", "`each` has no `regoin`", "did you mean `region`?"),
        ("each.deep.a.c == 1", "            ^", "`each.deep.a` has no `c`", "it has b"),
        ("each.region.x == 1", "            ^", "`each.region` has no fields", ""),
        ("each.tags[2] == 'x'", "          ^", "there is no such item", "it has 2"),
        ("event.a == each.none", "^^^^^^^^^^^^^^^^^^^^", "`each.none` is null", "equals nothing"),
        ("event.a + each.none > 1", "          ^^^^^^^^^", "`each.none` is null", "unknown"),
        ("event.a != each.tags", "^^^^^^^^^^^^^^^^^^^^", "`!=` with a list", "write !(event.a in each.tags)"),
        ("event.a < each.tags", "^^^^^^^^^^^^^^^^^^^", "`each.tags` is a list, which has no order", ""),
    ],
)
def test_what_each_lacks_is_known_at_start(text: str, marked: str, problem: str, hint: str) -> None:
    found = problem_of(text, EACH)
    assert carets(text, found) == marked
    assert problem in found.problem
    assert hint in found.hint


def test_each_without_for_each_is_unknown() -> None:
    assert "`for_each`" in problem_of("event.a == each.x").hint


# What is refused ------------------------------------------------------------------------------------------------------

REFUSED = [
    # Signs and words of other languages
    ("event.a = 1", "        ^", "`=` means nothing here", "write =="),
    ("event.a := 1", "        ^^", "`:=`", "assigns nothing"),
    ("event.a === 1", "        ^^^", "`===`", "write =="),
    ("event.a <> 1", "        ^^", "`<>`", "write !="),
    ("event.a => 1", "        ^^", "`=>`", "write >="),
    ("event.a ≤ 1", "        ^", "`≤`", "write <="),
    ("event.a & event.b", "        ^", "`&`", "write &&"),
    ("event.a | event.b", "        ^", "`|`", "write ||"),
    ("event.a and event.b", "        ^^^", "`and` is no operator", "write &&"),
    ("event.a == 'x' OR event.b", "               ^^", "`OR` is no operator", "write ||"),
    ("not event.a", "^^^", "`not` is no operator", "write !"),
    ("not (event.a)", "^^^", "there is no function `not`", "write !"),
    ("event.a not in ['x']", "        ^^^", "`not` is no operator", "write !("),
    ("event.a is null", "        ^^", "`is` is no operator", "has(event.x)"),
    ("event.a contains 'x'", "        ^^^^^^^^", "`contains` is no operator", ".contains("),
    ("event.a if event.b else event.c", "        ^^", "`if` is no operator", "? value :"),
    ("lambda x: x", "^^^^^^", "`lambda` is no operator", "exists(item"),
    ("event.a ?: 1", "        ^^", "`?:`", "default("),
    ("event.a ** 2 > 1", "        ^^", "`**`", "powers"),
    ("event.a == 1 // only these", "             ^^", "`//`", "comment"),
    ("event.a == 1; true", "            ^", "`;`", "&&"),
    ("${event.a} == 1", "^", "`$`", "event.name"),
    ("event.a == {}", "           ^", "`{`", "objects"),
    ("event.a == “x”", "           ^", "`“`", "straight quotes"),
    ("event.a ==\u00a01", "          ^", "U+00A0", "plain space"),
    ("event.größe == 1", "      ^^^^^", "`größe`", 'event["größe"]'),
    ("event.a == b'x'", "           ^", "`b` in front of a text", "r'…'"),
    # Numbers and texts
    ("event.a == 1u", "           ^^", "`1u`", "leave the u out"),
    ("event.a == 1_000", "           ^^^^^", "`1_000`", "digits"),
    ("event.a == 0755", "           ^^^^", "begins with a zero", "quotes"),
    ("event.a == 1e999", "           ^^^^^", "no event holds", "308"),
    ("event.a == 'x", "           ^", "without its closing quote", "close it"),
    ("event.a == 'x\n'", "           ^", "without its closing quote", "line break"),
    (r"event.a == '\d'", "            ^^", r"`\d` stands for no character", 'r"\\d"'),
    (r"event.a == '\ud800'", "            ^^^^^^", "no character that an event holds", ""),
    (r"event.a == '\000'", "            ^^^^", "no character that an event holds", ""),
    # Structure
    ("", "^", "an empty expression", "event.region"),
    ("   ", "^", "an empty expression", "event.region"),
    ("event.a ==", "        ^^", "a value is missing after `==`", ""),
    ("event.a == 1 &&", "             ^^", "a value is missing after `&&`", ""),
    ("== 1", "^^", "a value is missing in front of `==`", ""),
    ("(event.a", "^", "a ( that is not closed", "close it with )"),
    ("event.a[0", "       ^", "a [ that is not closed", "close it with ]"),
    ("event.a)", "       ^", "a ) without its (", ""),
    ("(event.a]", "        ^", "a ] that closes a (", ""),
    ("()", "^^", "nothing between the brackets", ""),
    ("event.a in ()", "           ^^", "nothing between the brackets", ""),
    ("event.a in (1, 2)", "             ^", "a comma", "[1, 2]"),
    ("event.a, event.b", "       ^", "a comma", "&&"),
    ("size(event.a,) > 1", "            ^", "after the comma", "remove"),
    ("event..a", "     ^^", "a name is missing after the dot", ""),
    ("event.", "     ^", "a name is missing after the dot", ""),
    ("event.'a'", "     ^^^^", "a name is missing after the dot", "event['a']"),
    ("event.a.0 == 1", "       ^^", "an operator is missing", "event.items[0]"),
    ("event.a ? event.b", "                ^", "a ? without its :", ""),
    ("event.a : event.b", "        ^", "a : without its ?", ""),
    ("event.a event.b", "        ^^^^^", "an operator is missing in front of `event`", "&&"),
    ("event.a ! event.b", "        ^", "! can't stand between", "!="),
    ("!-event.a", "^", "a value is missing after `!`", "brackets"),
    ("event.a(1)", "      ^", "there is no function `a`", ""),
    ("5(1)", " ^", "a ( behind a value", "by name"),
    # Names
    ("evnt.a == 1", "^^^^", "there is no `evnt` here", "did you mean `event`?"),
    ("region == 'eu'", "^^^^^^", "there is no `region` here", "write event.region"),
    ("customer.tier == 'gold'", "^^^^^^^^", "there is no `customer` here", "write event.customer.tier"),
    ("event.order-id == 1", "            ^^", "there is no `id` here", 'event["order-id"]'),
    ("event.a == True", "           ^^^^", "there is no `True` here", "write true"),
    ("event.a == None", "           ^^^^", "there is no `None` here", "!has("),
    ("size > 3", "^^^^", "there is no `size` here", "size(event.items)"),
    ("trigger.a == 1", "^^^^^^^", "there is no `trigger` here", "Python watcher"),
    ("meta.streem == 'x'", "     ^^^^^^", "`meta` has no `streem`", "did you mean `stream`?"),
    ("meta.stream.x == 'x'", "            ^", "`meta.stream` has no fields", ""),
    ("meta[event.a] == 'x'", "     ^^^^^^^", "`meta` is picked by its name", "stream"),
    ("key.a == 'x'", "    ^", "`key` is a text", "alone"),
    ("now.year == 5", "    ^^^^", "`now` is a timestamp", "alone"),
    ('event["a\\"b"] == 1', "      ^^^^^^", "can't hold quotes", ""),
    ("event.a.exists(event, event)", "               ^^^^^", "`event` can't be the name of an item", "`item`"),
    ("event.a.exists(each, each)", "               ^^^^", "`each` can't be the name of an item", "`item`"),
    ("event.a.exists(x.y, true)", "               ^^^", "takes a name for the item first", ""),
    ("event.a.all(x, y)", "               ^", "there is no `y` here", "event.y"),
    # Functions
    ("event.a.startswith('x')", "        ^^^^^^^^^^", "no function `startswith`", "`startsWith`"),
    ("event.a.starts_with('x')", "        ^^^^^^^^^^^", "no function `starts_with`", "`startsWith`"),
    ("len(event.a) > 1", "^^^", "no function `len`", "size(event.items)"),
    ("event.a.toLowerCase() == 'x'", "        ^^^^^^^^^^^", "no function", "event.name.lower()"),
    ("event.a.exists_one(x, x)", "        ^^^^^^^^^^", "no function `exists_one`", "filter(item"),
    ("event.a.getFullYear() == 1", "        ^^^^^^^^^^^", "no function", "compared whole"),
    ("event.a.isNull()", "        ^^^^^^", "no function", "!has("),
    ("frobnicate(event.a)", "^^^^^^^^^^", "no function `frobnicate`", "startsWith"),
    ("startsWith(event.a, 'x')", "^^^^^^^^^^", "written behind a value", "write event.a.startsWith('x')"),
    ("event.a.int() == 1", "        ^^^", "written in front", "write int(event.a)"),
    ("event.a.has()", "        ^^^", "written in front", "has("),
    ("exists(event.a, x, x)", "^^^^^^", "written behind a value", "exists(item"),
    ("event.a.exists()", "        ^^^^^^", "takes a name and a condition", "has(event.a)"),
    ("event.a.filter(x) == []", "        ^^^^^^", "`filter` takes a name and what is asked", "filter(item"),
    ("size(event.a, event.b) > 1", "^^^^^^^^^^^^^^^^^^^^^^", "`size` takes one value", "not 2"),
    ("event.a.lower(1) == 'x'", "^^^^^^^^^^^^^^^^", "`lower` takes no value", ""),
    ("has()", "^^^^^", "`has` takes one field", ""),
    ("has(1)", "    ^", "`has` takes a field, not `1`", ""),
    ("has(event.a == 1)", "    ^^^^^^^^^^^^", "`has` takes a field", ""),
    # Kinds
    ("1 + 2", "^^^^^", "`1 + 2` gives a number, not true or false", "compare"),
    ("event.name.lower()", "^^^^^^^^^^^^^^^^^^", "gives text, not true or false", "compare"),
    ("'eu'", "^^^^", "gives text", ""),
    ("event.a == 1 && 5", "                ^", "gives a number", ""),
    ("!size(event.a)", " ^^^^^^^^^^^^^", "gives a number", ""),
    ("event.a.exists(x, 1)", "                  ^", "gives a number", ""),
    ("5 ? true : false", "^", "gives a number", ""),
    ("event.a.lower() == 5", "^^^^^^^^^^^^^^^^^^^^", "`event.a.lower()` is text, and `5` is a number", ""),
    ("meta.delivery_attempt == '3'", "^" * 28, "is a number, and `'3'` is text", "without quotes"),
    ("meta.timestamp > '2026-01-01T00:00:00Z'", "^" * 39, "is a timestamp", "timestamp('2026-01-01T00:00:00Z')"),
    ("event.at > timestamp(0)", "^" * 23, "`event.at` is never a timestamp", "timestamp(event.at)"),
    ("event.at - duration('1h') > now", "^" * 25, "`event.at` is never a duration", "duration(event.at)"),
    ("1 < event.a < 5", "^" * 15, "which has no order", "a < b && b < c"),
    ("!event.a == 1", "^" * 13, "is true or false", "write !(event.a == …)"),
    ("event.a < true", "^" * 14, "`true` is true or false, which has no order", ""),
    ("event.a != [1, 2]", "^" * 17, "`!=` with a list", "write !(event.a in [1, 2])"),
    ("event.a in []", "^" * 13, "an empty list", ""),
    ("event.a in 'abc'", "^" * 16, "`in` takes a list", "'abc'.contains(event.a)"),
    ("event.a in 5", "^" * 12, "`in` takes a list", "event.a == 5"),
    ("meta.stream in [1, 2]", "^" * 21, "the list holds a number", ""),
    ("event.a == null", "^" * 15, "`null` equals nothing", "write !has(event.a)"),
    ("null != event.a", "^" * 15, "`null` equals nothing", "write has(event.a)"),
    ("size(null) > 1", "     ^^^^", "`null` equals nothing", "has("),
    ("size(5) > 1", "     ^", "`5` is a number, and `size` takes", ""),
    ("1 + 'a' == 2", "^^^^^^^", "`+` doesn't take the two", "string("),
    ("-'a' == 2", " ^^^", "is text, and `neg` takes", ""),
    ("event.a / 0 == 1", "          ^", "division by zero", ""),
    ("event.a[-1] == 1", "        ^^", "there is no item `-1`", "from 0"),
    ("event.a[1.5] == 1", "        ^^^", "there is no item", "from 0"),
    ("event.a[true] == 1", "        ^^^^", "picks nothing", ""),
    ("size(event.a)[0] == 1", "              ^", "has no items", ""),
    ("size(event.a).x == 1", "              ^", "has no fields", ""),
    ("'a'.exists(x, x)", "    ^^^^^^", "looks at the items of a list", ""),
    ("event.a.startsWith('')", "                   ^^", "holds for every text", ""),
    ("event.a.matches(event.b)", "                ^^^^^^^", "must be a text in quotes", ""),
    ("event.a.matches('(')", "                ^^^", "no pattern: missing )", "RE2"),
    ("event.a.matches('(?=x)')", "                ^^^^^^^", "no pattern: ", "RE2"),
    ("event.a.cidr('10.0.0.1/8')", "             ^^^^^^^^^^^^", "bits behind its prefix", "10.0.0.0/8"),
    ("event.a.cidr('x')", "             ^^^", "no network", "10.0.0.0/8"),
    ("now > timestamp('2026-13-01T00:00:00Z')", "                ^^^^^^^^^^^^^^^^^^^^^^", "no timestamp", ""),
    ("now - now > duration('5 minutes')", "                     ^^^^^^^^^^^", "no duration", ""),
]


@pytest.mark.parametrize(("text", "marked", "problem", "hint"), REFUSED, ids=[case[0][:40] for case in REFUSED])
def test_a_mistake_is_marked_and_explained(text: str, marked: str, problem: str, hint: str) -> None:
    found = problem_of(text)
    assert carets(text, found) == marked
    assert problem in found.problem
    assert hint in f"{found.problem} {found.hint}"


def test_checks_report_all_that_they_find_in_the_order_of_the_text() -> None:
    found = problems_of("evnt.a == 1 && event.b.lenght() > 1 && meta.lain == 'x' || [event.c, foo] == [1 + 'a']")
    assert [problem.at for problem in found] == [0, 23, 44, 69, 78]


def test_one_mistake_is_one_problem() -> None:
    assert len(problems_of("size(evnt.a + 1) > 2 && !(evnt.b.lower().startsWith(5))")) == 2


def test_a_problem_reads_as_a_sentence_with_its_place() -> None:
    with pytest.raises(FilterError, match=r"when, character 9: `=` means nothing here \(to compare write =="):
        when("event.a = 1")


@pytest.mark.parametrize(
    "text",
    [
        "event.a > 1" + " " * 9000,
        "é" * 4097,
        "'" + "x" * 8191 + "'",
    ],
)
def test_an_expression_has_at_most_8_kib(text: str) -> None:
    assert "8,192" in problem_of(text).problem


@pytest.mark.parametrize("number", ["9" * 4301, "0x1" + "0" * 3600, "1" * 4301 + ".5"])
def test_a_number_has_at_most_4300_digits(number: str) -> None:
    assert "4,300 digits" in problem_of(f"event.a == {number}").problem


@pytest.mark.parametrize(("text", "at"), [("event.a == '\0'", 12), ("event.a == '\ud800'", 12), ("\udfff", 0)])
def test_what_no_event_holds_is_no_part_of_an_expression(text: str, at: int) -> None:
    assert problem_of(text).at == at


@pytest.mark.parametrize(
    "text",
    [
        "(" * 65 + "event.a" + ")" * 65,
        "[" * 65 + "]" * 65,
        "!" * 64 + "event.a",
        "-" * 64 + "event.a == 1",
        "event.a + " * 64 + "1 > 0",
        "event.a" + "[0]" * 64 + " == 1",
        "event.a" + ".lower()" * 64 + " == 'x'",
        "event.a ? true : " * 64 + "false",
        "event.a" + ".exists(x, x" * 64 + ")" * 64,
    ],
)
def test_what_is_nested_deeper_than_64_levels_is_refused(text: str) -> None:
    assert f"deeper than {MOST_DEPTH}" in problem_of(text).problem


@pytest.mark.parametrize(
    "text",
    [
        "(" * 64 + "event.a" + ")" * 64,
        "!" * 63 + "event.a",
        "event.a + " * 61 + "1 > 0",
        "event.a" + "[0]" * 62 + " == 1",
        "event.a ? true : " * 63 + "false",
        "event.a" + ".exists(x, x" * 63 + ")" * 63,
    ],
)
def test_64_levels_are_allowed(text: str) -> None:
    when(text)


def test_a_field_is_nested_as_deep_as_an_event_can_be() -> None:
    when("event" + ".a" * 100 + " == 1")
    assert "deeper than 100" in problem_of("event" + ".a" * 101 + " == 1").problem


# Expressions of params ------------------------------------------------------------------------------------------------


def test_an_expression_may_give_anything_and_has_the_roots_that_it_is_given() -> None:
    node = parse_expression("trigger.n + 1", ["event", "trigger"], path=("params", "n"))
    assert bare(node) == bare(Call("+", (Field("trigger", ("n",)), Const(1))))
    with pytest.raises(FilterError) as caught:
        parse_expression("meta.stream", ["event"], path=("params", "n"))
    assert caught.value.problems[0].path == ("params", "n")


def test_the_place_is_counted_in_the_text_around_the_expression() -> None:
    node = parse_expression("event.a", ["event"], path=("params",), at=2)
    assert node.at == 2
    for text, at in [("evnt.a", 2), ("event.a =", 10), ("", 2)]:
        with pytest.raises(FilterError) as caught:
            parse_expression(text, ["event"], path=("params",), at=2)
        assert caught.value.problems[0].at == at
