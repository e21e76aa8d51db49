"""Whatever the text is, reading it ends: in a condition, or in problems that point into it."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import ROOTS, Expr
from bridge.language.reading.match import compile_match
from bridge.language.reading.parse import compile_when, parse_expression
from bridge.language.text import text_of_node

HERE = Path(__file__).parents[2]

VALID = [
    'event.region in ["eu", "uk"] && event.amount > 100',
    "!(event.a == 1.50 || has(event.b.c)) ? event.items[0].sku == 'x\\n' : true",
    'event.items.exists(i, i.price * -2 >= 1e3 && i["a b"].startsWith(r"\\d"))',
    'now - meta.timestamp < duration("1h30m") || headers["x-y"].matches("^a+$")',
    "event.items.map(x, x.ok, size(x.n) + 0x1F).all(y, y % 2 != 0)",
    "default(event.a, each.b) == string(int(event.c) / 3) && each.n[0] in event.tags",
]
WORDS = [
    "event", "each", "meta", ".", ".a", ".size()", "[", "]", "(", ")", ",", "==", "!=", "<", "=", "&&", "||", "!", "-",
    "+", "%", "?", ":", "in", "and", "not", "null", "true", "1", "0x", "1e9", ".5", "007", '"', "'", '"a"', "r'", "\\",
    "\n", "has(", "exists(x, ", "x", "lambda", "__class__", "${", "}", "//", "é", "\0", "\ud800", "\u00a0", "9" * 400,
]  # fmt: skip
EACH: dict[str, object] = {"b": "x", "n": [1, 2.5], "none": None}


def read(text: str, each: dict[str, object] | None, at: int = 0) -> tuple[Expr | None, tuple[FilterProblem, ...]]:
    try:
        return parse_expression(text, ROOTS, each=each, path=("x",), at=at), ()
    except FilterError as error:
        return None, error.problems


def assert_total(text: str) -> None:
    for each, at in ((None, 0), (EACH, 100)):
        node, problems = read(text, each, at)
        assert (node is None) is bool(problems)
        assert node is None or text_of_node(node)
        for problem in problems:
            assert problem.path == ("x",)
            assert problem.problem
            assert at <= (problem.at or 0) <= at + len(text)
            assert problem.width >= 1
    with suppress(FilterError):
        compile_when(text)


@given(st.text(max_size=30) | st.lists(st.sampled_from(WORDS), max_size=15).map("".join))
@settings(deadline=None, max_examples=300)
@example("")
@example("\\")
@example('"\\')
@example("r'''")
@example("event.a == 1e9999999999999999999999")
@example("event.a == 1e-9999999999999999999999")
@example("0e4000 == event.a")
def test_any_text_is_a_condition_or_has_problems(text: str) -> None:
    assert_total(text)


@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
@settings(deadline=None, max_examples=300)
def test_any_words_are_a_condition_or_have_problems(text: str) -> None:
    assert_total(text)


@given(st.data(), st.sampled_from(VALID))
@settings(deadline=None, max_examples=400)
def test_a_condition_with_a_change_is_one_or_has_problems(data: st.DataObject, text: str) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.integers(0, 6)))
        put = data.draw(st.sampled_from([*WORDS, text[start:end] * 2, text[end : end + 8]]))
        text = text[:start] + put + text[end:]
    assert_total(text)


@pytest.mark.parametrize("text", VALID)
def test_what_is_changed_here_is_valid(text: str) -> None:
    compile_when(text, each=EACH)


def test_a_name_with_underscores_is_a_field_like_any_other() -> None:
    node = compile_when("event.__class__.__mro__[1].__subclasses__ == 1")
    assert text_of_node(node) == "event.__class__.__mro__[1].__subclasses__ == 1"
    with pytest.raises(FilterError, match="no function `__subclasses__`"):
        compile_when("event.__class__.__subclasses__()")
    with pytest.raises(FilterError, match="no function `eval`"):
        compile_when("eval('1')")


# In a process of its own, with bounds --------------------------------------------------------------------------------

ATTACKS = {
    "parentheses": '"(" * 3000 + "event.a" + ")" * 3000',
    "open parentheses": '"(" * 8000',
    "lists": '"[" * 3000 + "]" * 3000',
    "negations": '"!" * 8000 + "event.a"',
    "minus signs": '"- " * 4000 + "event.a == 1"',
    "sums": '"event.a" + "+1" * 4000 + " > 1"',
    "choices": '"event.a?true:" * 600 + "true"',
    "methods": '"event.a" + ".lower()" * 1000 + " == 1"',
    "items": '"event.a" + "[0]" * 2500 + " == 1"',
    "a path": '"event" + ".a" * 4000 + " == 1"',
    "macros": '"event.a" + ".exists(x, x" * 600 + ")" * 600',
    "a long AND": '"&&".join(["event.a"] * 900)',
    "a long OR of ANDs": '"||".join(["event.a && event.b == 1"] * 340)',
    "comparisons": '"event.a" + " == event.a" * 700',
    "a long list": '"event.a in [" + "1," * 4000 + "1]"',
    "problems": '"&&".join(["evnt.a == foo(1)"] * 400)',
    "quotes": '"\\"" * 8191',
    "triple quotes": '"\'\'\'" + "\\\\\\\\" * 4000',
    "an open text": '"\\"" + "\\\\\\\\a" * 2700',
    "digits": '"event.a == " + "9" * 8000',
    "hexadecimal digits": '"event.a == 0x" + "f" * 8000',
    "fractions": '"event.a == 0." + "0" * 8000 + "1"',
    "exponents": '"event.a == 1e" + "9" * 8000',
    "ten megabytes": '"event.a == 1 && " * 600000 + "true"',
    "a pattern with nested repetitions": "'event.a.matches(\"(a+)+$\")'",
    "a pattern that grows": "'event.a.matches(\"((((a{1000}){1000}){1000}){1000})\")'",
    "patterns": '"&&".join(["event.a.matches(\'(x{900})\')"] * 250)',
}  # fmt: skip

RUN = """
import resource, time
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from bridge.language.errors import FilterError
from bridge.language.reading.parse import compile_when
compile_when("event.a == 1")
text = {text}
start = time.perf_counter()
try:
    compile_when(text)
    print("fine")
except FilterError as error:
    print(error.problems[0].problem)
assert time.perf_counter() - start < 2, time.perf_counter() - start
"""


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_has_an_answer_at_once(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(text=ATTACKS[name])],
        cwd=HERE, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = {
        "parentheses": "brackets nested deeper than 64 levels",
        "negations": "nested deeper than 64 levels",
        "macros": "brackets nested deeper than 64 levels",
        "a long AND": "fine",
        "ten megabytes": "an expression of 9,600,004 bytes: at most 8,192",
        "a pattern with nested repetitions": "fine",
    }
    assert expected.get(name, "") in done.stdout


def test_a_block_of_ten_thousand_names_is_read_at_once() -> None:
    node = compile_match({f"field{n}": n for n in range(9_000)})
    assert text_of_node(node).count("&&") == 8_999
