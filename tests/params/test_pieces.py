"""Cutting a text into what stands for itself and what is an expression."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.params.pieces import CutError, Written, cut

ROOTS = ("event", "meta")


def sources(text: str) -> list[str]:
    return [part if isinstance(part, str) else f"<{part.source}>" for part in cut(text, ROOTS)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a", ["a"]),
        ("${a}", ["<a>"]),
        ("${a}${b}", ["<a>", "<b>"]),
        (" ${ a } b", [" ", "< a >", " b"]),
        ("$$${a}", ["$", "<a>"]),
        ("$$$${a}", ["$${a}"]),
        ("a$", ["a$"]),
        ("$5 $_x {}", ["$5 $_x {}"]),
        ('${a == "}"}', ['<a == "}">']),
        ("${a == '}'} }", ["<a == '}'>", " }"]),
        (r'${a == "\"}"}', [r'<a == "\"}">']),
        (r'${a == r"\"} "}"', [r'<a == r"\">', r' "}"']),
        ('${a == """x"}"""}', ['<a == """x"}""">']),
        ("${'' + \"}\"}", ["<'' + \"}\">"]),
        ("${a\n}", ["<a\n>"]),
    ],
)
def test_an_expression_ends_at_the_first_brace_outside_of_its_texts(text: str, parts: list[str]) -> None:
    assert sources(text) == parts


def test_each_expression_knows_where_it_begins() -> None:
    text = "$$ ${event.a} ${ b }"
    found = [part for part in cut(text, ROOTS) if isinstance(part, Written)]
    assert [text[part.at : part.at + len(part.source)] for part in found] == ["event.a", " b "]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("${a", 0),
        ("x ${a} ${b", 7),
        ("${a == '}", 7),
        ('${a + "b" + "}', 12),
        ("${}", 2),
        ("$meta", 0),
        ("a $event.b", 2),
    ],
)
def test_what_can_not_be_cut_is_an_error_at_its_character(text: str, at: int) -> None:
    with pytest.raises(CutError) as caught:
        cut(text, ROOTS)
    assert caught.value.at == at
    assert caught.value.hint


def joined(parts: tuple[str | Written, ...]) -> str:
    return "".join(p.replace("$", "$$") if isinstance(p, str) else "${" + p.source + "}" for p in parts)


def written(parts: tuple[str | Written, ...]) -> list[str]:
    return [part if isinstance(part, str) else part.source for part in parts]


literals = st.text("ab ${}\"'\\", min_size=1, max_size=6)
expressions = st.lists(
    st.sampled_from(["event.a", " + ", '"}"', "'}'", r'"\"}"', "r'\\'", "[0]", "f(", ")"]), min_size=1, max_size=4
).map(" ".join)


@given(st.lists(st.tuples(literals, expressions), max_size=4), literals | st.just(""))
@settings(deadline=None, max_examples=200)
def test_what_is_joined_is_cut_into_the_same_parts(pairs: list[tuple[str, str]], end: str) -> None:
    text = "".join(literal.replace("$", "$$") + "${" + source + "}" for literal, source in pairs) + end.replace(
        "$", "$$"
    )
    parts = cut(text, ROOTS)
    assert written(parts) == [part for part in (*(part for pair in pairs for part in pair), end) if part]
    assert joined(parts) == text


@given(st.text("ab${}\"'\\r ", max_size=20))
@settings(deadline=None, max_examples=200)
def test_any_text_is_cut_or_refused_and_cut_the_same_way_again(text: str) -> None:
    parts: tuple[str | Written, ...] | None = None
    at = 0
    try:
        parts = cut(text, ROOTS)
    except CutError as error:
        at = error.at
    if parts is None:
        assert 0 <= at <= len(text)
    else:
        assert written(cut(joined(parts), ROOTS)) == written(parts)
