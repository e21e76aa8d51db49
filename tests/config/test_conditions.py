"""`when` and `reject` in a file: each problem at the part of the expression that is wrong, however YAML wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.config.conditions import read_condition, read_when
from bridge.config.fields import BAD
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Scalar
from bridge.config.offsets import place_of_offset
from bridge.config.problems import Problems
from bridge.config.reader import read_nodes
from bridge.config.reading import Reading, Where
from bridge.config.source import Source
from bridge.language.ir import Const
from bridge.language.text import text_of_node


def entry_of(yaml: str) -> Any:
    problems = Problems()
    root = read_nodes(Source("c.yaml", Path(), yaml), problems)
    assert isinstance(root, MappingNode), problems.sorted(())
    return next(iter(root.entries.values()))


def read(yaml: str, env: Mapping[str, str] | None = None, each: Mapping[str, object] | None = None) -> Any:
    """The condition, or its rendered problems."""
    reading = Reading(env or {}, lambda path: "from a file")
    entry = entry_of(yaml)
    where = Where((entry.key.text,), entry.key.place)
    reader = read_when if entry.key.text == "when" else read_condition
    condition = reader(entry.value, where, reading, each=each)
    problems = [problem.render() for problem in reading.problems.sorted(())]
    assert (condition is BAD) is bool(problems)
    return problems or text_of_node(condition)


def shown(yaml: str, env: Mapping[str, str] | None = None) -> str:
    (problem,) = read(yaml, env)
    return str(problem)


@pytest.mark.parametrize(
    ("yaml", "line", "caret"),
    [
        ("when: event.a == 1 && evnt.b",
         "   1 | when: event.a == 1 && evnt.b",
         "     |                       ^^^^"),
        ("when:   'event.a == ''x'' && evnt.b'",
         "   1 | when:   'event.a == ''x'' && evnt.b'",
         "     |                              ^^^^"),
        (r'when: "event.a == \"x\" && evnt.b"',
         r'   1 | when: "event.a == \"x\" && evnt.b"',
         "     |                            ^^^^"),
        (r'when: "event.a == \"\x41\u00e9\" && \x65vnt.b"',
         r'   1 | when: "event.a == \"\x41\u00e9\" && \x65vnt.b"',
         "     |                                     ^^^^^^^"),
        ("when: |\n  event.a == 1\n    && evnt.b\n",
         "   3 |     && evnt.b",
         "     |        ^^^^"),
        ("when: |2-\n   event.a == 1 &&\n\n    evnt.b\n",
         "   4 |     evnt.b",
         "     |     ^^^^"),
        ("when: >-  # folded\n  event.a == 1\n  && evnt.b\n",
         "   3 |   && evnt.b",
         "     |      ^^^^"),
        ("when: event.a == 1\n  && evnt.b  # a comment",
         "   2 |   && evnt.b  # a comment",
         "     |      ^^^^"),
        ("when: 'event.a == 1\n\n  && evnt.b'",
         "   3 |   && evnt.b'",
         "     |      ^^^^"),
        ('when: "event.a == 1 \\\n  && evnt.b"',
         '   2 |   && evnt.b"',
         "     |      ^^^^"),
        ("when: &name evnt.b",
         "   1 | when: &name evnt.b",
         "     |             ^^^^"),
        ("when: &name\n  evnt.b",
         "   2 |   evnt.b",
         "     |   ^^^^"),
        ("{when: evnt.b, x: 1}",
         "   1 | {when: evnt.b, x: 1}",
         "     |        ^^^^"),
        ("when: |\r\n  event.a\r\n  && evnt.b\r\n",
         "   3 |   && evnt.b",
         "     |      ^^^^"),
        ("when: 'event[\"名前\"] == 1 && evnt.b'",
         "   1 | when: 'event[\"名前\"] == 1 && evnt.b'",
         "     |                              ^^^^"),
        ("when: |\n  event.a &&\n",
         "   2 |   event.a &&",
         "     |           ^^"),
        ("when: |\n  (event.a == 1\n  || size(5,\n  6))\n",
         "   3 |   || size(5,",
         "     |      ^^^^^^^"),
    ],
)  # fmt: skip
def test_the_caret_is_under_the_token(yaml: str, line: str, caret: str) -> None:
    lines = shown(yaml).split("\n")
    assert lines[1:3] == [line, caret]


def test_a_problem_has_file_line_and_column_and_a_way_out() -> None:
    assert shown("when: event.a = 1") == (
        "c.yaml:1:15: `=` means nothing here\n"
        "   1 | when: event.a = 1\n"
        "     |               ^\n"
        "   to compare write ==; a condition assigns nothing"
    )


def test_all_problems_of_an_expression_are_reported() -> None:
    problems = read("when: evnt.a == 1 && event.b.lenght() > 5")
    assert [problem.split(" ")[0] for problem in problems] == ["c.yaml:1:7:", "c.yaml:1:30:"]


def test_a_thousand_problems_are_fifty() -> None:
    assert len(read("when: " + " || ".join(["evnt.a"] * 800))) == 50


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("when:", "c.yaml:1:1: `when` is empty"),
        ("when: ~", "c.yaml:1:7: `when` is empty"),
        ("when: ''", "c.yaml:1:7: an empty expression"),
        ("when: [a]", "c.yaml:1:7: `when`: expected an expression, saw a list"),
        ("when: {region: eu}", "c.yaml:1:7: `when`: expected an expression, saw a mapping"),
        ("when: 5", "c.yaml:1:7: `5` gives a number, not true or false"),
        ("reject: {}", "c.yaml:1:1: `reject` is empty"),
        ("reject: [a]", "c.yaml:1:9: `reject`: expected an expression or a block of fields, saw a list"),
        ("reject: {a: {'>': x, b: 1}}", "c.yaml:1:14: the operator `>` beside the field `b`"),
        ("reject: {a: [1, {prefix: [x, 5]}]}", "c.yaml:1:30: `prefix` takes text, not 5"),
    ],
)
def test_what_is_no_condition_is_refused(yaml: str, message: str) -> None:
    assert shown(yaml).startswith(message)


def test_reject_takes_a_block_or_an_expression() -> None:
    assert read("reject: {region: [eu, uk]}") == 'event.region in ["eu", "uk"]'
    assert read("reject: event.amount < 0") == "event.amount < 0"
    assert read("when: true") == "true"


def test_values_of_each_are_literals() -> None:
    assert read("when: event.region == each.region", each={"region": "eu"}) == 'event.region == "eu"'
    assert "did you mean `region`?" in read("when: event.region == each.regio", each={"region": "eu"})[0]


# Variables of the environment ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("yaml", "env", "condition"),
    [
        ('when: event.a == "${A}"', {"A": "eu"}, 'event.a == "eu"'),
        ('when: event.a == "x-${A}-${B}"', {"A": "1", "B": "2"}, 'event.a == "x-1-2"'),
        ('when: event.a == "${A}"', {"A": '" || true || "'}, 'event.a == "\\" || true || \\""'),
        ("when: event.a == '${A}'", {"A": "it's \\ so\n"}, 'event.a == "it\'s \\\\ so\\n"'),
        ("when: event.a.matches(r'^${A}\\d')", {"A": "\\w"}, 'event.a.matches("^\\\\w\\\\d")'),
        ("when: event.a > ${A}", {"A": "100"}, "event.a > 100"),
        ("when: event.a > ${A:-2.5}", {}, "event.a > 2.5"),
        ("when: event.a == ${A}", {"A": "true"}, "event.a == true"),
        ("when: event.a == '$$x' && event.a.matches('a$')", {}, 'event.a == "$x" && event.a.matches("a$")'),
        ("when: event.a == '$${A}'", {}, 'event.a == "${A}"'),
        ("when: event.a == '${file:x}'", {}, 'event.a == "from a file"'),
    ],
)
def test_a_variable_is_a_value(yaml: str, env: dict[str, str], condition: str) -> None:
    assert read(yaml, env) == condition


@pytest.mark.parametrize("value", ["true || true", "event.a", "", "'x'", "1 + 1", "0x10"])
def test_a_variable_outside_of_quotes_is_a_number_or_a_bool(value: str) -> None:
    problem = shown("when: event.a == ${A}", {"A": value})
    assert problem.startswith("c.yaml:1:18: ${A} holds no number")
    assert "^^^^" in problem


def test_a_variable_can_not_leave_a_raw_text() -> None:
    assert shown("when: event.a == r'${A}'", {"A": "x' || true"}).startswith("c.yaml:1:20: ${A} can't stand in a text")


def test_a_missing_variable_is_named() -> None:
    assert "the environment variable MISSING is not set" in shown("when: event.a == '${MISSING}'")


def test_an_expression_in_braces_is_told_from_a_variable() -> None:
    problem = shown("when: event.a == ${each.region}")
    assert problem.startswith("c.yaml:1:18: in a condition, ${…} is a variable of the environment")
    assert "write each.region itself" in problem


def test_places_behind_a_variable_are_those_of_the_file() -> None:
    problem = shown(
        "when: event.a == '${A}' && evnt.b == '$$' && '${A}' == '${A}'", {"A": "a longer text than its name"}
    )
    assert problem.split("\n")[2] == "     |                            ^^^^"


@pytest.mark.parametrize(
    "yaml",
    [
        "when: event.a == '${A}' + 5",
        "when: '${A}'",
        "when: event.a.cidr('${A}')",
        "when: event['${A}\"'] == 1",
        "when: customer['${A}'].x == 1",
        "when: event.a.matches('${A}(')",
        "when: event.a ==== '${A}' 'x'",
        "when: event.a == '${A}' 'x' ${B}",
        "when: now > timestamp('${A}')",
    ],
)
@pytest.mark.parametrize("value", ["q7z", "hunter2-hunter2", "x" * 100, "a\"b'c"])
def test_no_problem_shows_what_a_variable_holds(yaml: str, value: str) -> None:
    for problem in read(yaml, {"A": value, "B": "5"}):
        assert value[:20] not in problem


def test_an_expression_that_came_by_a_secret_name_is_not_shown() -> None:
    place = entry_of("when: a").value.place
    reading = Reading({"A": "x"}, lambda path: "")
    for text in ("evnt.hunter2 == 1", "evnt.hunter2 == '${A}'"):
        scalar = Scalar(text, False, place, is_secret=True)
        assert read_when(scalar, Where(("when",), place), reading) is BAD
    assert not any("hunter2" in problem.message + problem.hint for problem in reading.problems.sorted(()))


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))
@settings(deadline=None, max_examples=100)
def test_whatever_a_variable_holds_it_is_text_in_quotes(value: str) -> None:
    for quote in "\"'":
        assert read(f"when: event.a == {quote}${{A}}{quote}", {"A": value}) == (
            read(f"when: event.a == {quote}x{quote}").replace('"x"', as_literal(value))
        )


def as_literal(value: str) -> str:
    return text_of_node(Const(value))


# Offsets --------------------------------------------------------------------------------------------------------------

words = st.lists(st.text("ab'\"\\é#:&|", min_size=1, max_size=4), min_size=1, max_size=8)


def written(style: str, parts: list[str], breaks: list[bool], indent: int) -> str:
    """The words as a scalar of a style, with a line break behind those that `breaks` says."""
    ends = [f"\n{' ' * indent}" if broken else " " for broken in breaks]
    if style == "double":
        parts = [part.replace("\\", "\\\\").replace('"', '\\"').replace("é", "\\u00e9") for part in parts]
    elif style == "single":
        parts = [part.replace("'", "''") for part in parts]
    text = "".join(part + end for part, end in zip(parts, ends, strict=False)).rstrip()
    forms = {
        "plain": f"x{text}", "single": f"'{text}'", "double": f'"{text}"',
        "literal": f"|\n{' ' * indent}{text}\n", "folded": f">-\n{' ' * indent}{text}\n",
    }  # fmt: skip
    return f"when: {forms[style]}"


@given(
    st.sampled_from(["plain", "single", "double", "literal", "folded"]),
    words,
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(1, 4),
)
@settings(deadline=None, max_examples=300)
def test_every_character_is_found_where_it_was_written(
    style: str, parts: list[str], breaks: list[bool], indent: int
) -> None:
    problems = Problems()
    root = read_nodes(Source("c.yaml", Path(), written(style, parts, breaks, indent)), problems)
    scalar = next(iter(root.entries.values())).value if isinstance(root, MappingNode) else None
    if not isinstance(scalar, Scalar) or scalar.kind == "nothing":
        return  # not what was meant: a `: ` or a `#` in a plain text
    for at, character in enumerate(scalar.text):
        if character.isspace():
            continue
        place = place_of_offset(scalar, at)
        found = place.source.lines[place.line - 1][place.column - 1 :]
        spelled = {"'": ["''", "'"], '"': ['\\"', '"'], "\\": ["\\\\", "\\"], "é": ["\\u00e9", "é"]}
        assert any(found.startswith(s) and len(s) == place.width for s in spelled.get(character, [character]))


def test_what_is_not_in_the_file_is_the_whole_scalar() -> None:
    scalar = entry_of("when: abc").value
    other = Scalar("xyz", True, scalar.place)
    assert place_of_offset(other, 1) is scalar.place


def test_white_space_and_the_end_are_behind_the_last_character() -> None:
    scalar = entry_of("when: ab  cd").value
    assert [place_of_offset(scalar, at).column for at in (0, 2, 3, 4, 6, 9)] == [7, 9, 9, 11, 13, 13]
    assert place_of_offset(scalar, 0, 6).width == 6
    assert place_of_offset(scalar, 4, 100).width == 2
