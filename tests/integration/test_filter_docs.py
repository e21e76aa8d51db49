"""Everything that docs/filters.md and docs/functions.md show is run: examples, tables, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from cel_expr_python import cel
from ruamel.yaml import YAML

from bridge.cli.rehearsing import scenes_of
from bridge.decode.json import MAX_DEPTH
from bridge.filters.keys import MOST_ALTERNATIVES
from bridge.filters.phrases import MOST_ITEMS
from bridge.filters.router import MOST_ASKED
from bridge.language import calls, interpreter, ir, numbers, patterns, values
from bridge.language.errors import FilterError
from bridge.language.functions import FUNCTIONS, MACROS
from bridge.language.ir import Call, Each, Expr, Has
from bridge.language.reading import literals, match, operations
from bridge.language.reading.parse import parse_expression
from bridge.language.reading.tokens import tokens_of
from bridge.language.uses import nodes_of, roots_of
from bridge.language.view import decode_exactly
from bridge.params import plans as params
from bridge.rehearsal import Outcome, Sample, Stage
from bridge.wiring import load_config

if TYPE_CHECKING:
    from tests.integration.conftest import Bridge

pytestmark = pytest.mark.integration

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGES: Final = ("filters.md", "functions.md")
TRUTHS: Final = {"true": "match", "false": "no_match", "unknown": "missing_field", "error": "error"}
"""Columns of a table of conditions, and what the watcher makes of such an event."""


# The pages ------------------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """What stands between fences. `answer` is the block behind it, where that is what a command says."""

    place: str
    language: str
    text: str
    answer: str = ""

    @property
    def use(self) -> str:
        for use, pattern in _USES.items():
            if re.search(pattern, f"{self.language}\n{self.text}\n{self.answer}", re.MULTILINE):
                return use
        return "nobody runs it"


_USES: Final = {
    "typed in": r"\Ash$", "base": r"\Ayaml\nstore: ", "message": r"\Ayaml\nmessage:",
    "refused": r"^\$ headrace validate", "status": r"\A\nfilter errors", "example": r"\Ayaml\nassets:\n(.*\n)*tests:\n",
}  # fmt: skip


class Table(NamedTuple):
    place: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def column(self, name: str) -> list[str]:
        return [row[self.header.index(name)] for row in self.rows]


@cache
def blocks() -> list[Block]:
    found: list[Block] = []
    for page in PAGES:
        text = (DOCS / page).read_text()
        for fence in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            place = f"{page}:{text.count(chr(10), 0, fence.start()) + 1}"
            if fence[2].startswith("$ "):
                found[-1] = found[-1]._replace(answer=fence[2])
            else:
                found.append(Block(place, fence[1], fence[2]))
    return found


def blocks_of(use: str) -> list[Block]:
    return [block for block in blocks() if block.use == use]


@cache
def tables() -> list[Table]:
    return list(_tables())


def _tables() -> Iterator[Table]:
    for page in PAGES:
        text = (DOCS / page).read_text()
        for found in re.finditer(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
            header, _, *rows = [_cells(line) for line in found[0].splitlines()]
            assert {len(row) for row in rows} == {len(header)}, found[0]
            yield Table(f"{page}:{text.count(chr(10), 0, found.start()) + 1}", header, rows)


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line[1:-1]))


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def only(cell: str) -> str:
    (found,) = code(cell)
    return found


# Conditions -----------------------------------------------------------------------------------------------------------


def staged(folder: Path, watchers: Iterable[str], tests: str = "") -> Stage:
    """The watchers, each a flow mapping in YAML; their ids are w0, w1, ..."""
    (base,) = blocks_of("base")
    assets = "".join(f"  w{number}: {{watchers: [{watcher}]}}\n" for number, watcher in enumerate(watchers))
    (folder / "headrace.yaml").write_text(f"{base.text}assets:\n{assets}{tests}")
    config = load_config([folder], check=False)
    return Stage(config, config.streams["orders"])


def outcomes_of(stage: Stage, sample: Sample, now: float = 0.0) -> list[Outcome]:
    found = stage.rehearse(sample, now).outcomes
    assert not [outcome.defect for outcome in found.values() if outcome.defect]
    return [found[f"w{number}"] for number in range(len(found))]


def when(text: str) -> str:
    return f"{{when: {json.dumps(text, ensure_ascii=False)}}}"


def bodies(cell: str) -> list[bytes]:
    return [b"{}" if value == "missing" else f'{{"x": {value}}}'.encode() for value in code(cell)]


def test_conditions_have_the_outcomes_that_are_shown(tmp_path: Path) -> None:
    shown = [table for table in tables() if table.header[:2] == ("`match`", "`when`")]
    assert sum(len(table.rows) for table in shown) > 20
    for table in shown:
        for row in table.rows:
            stage = staged(tmp_path, [*(f"{{match: {{{block}}}}}" for block in code(row[0])), when(only(row[1]))])
            for truth, cell in zip(table.header[2:], row[2:], strict=True):
                for body in bodies(cell):
                    verdicts = {outcome.verdict for outcome in outcomes_of(stage, Sample(body))}
                    assert verdicts == {TRUTHS[truth]}, (row[1], body)


@pytest.mark.parametrize(("sign", "count"), [("&&", 4), ("||", 4), ("!", 1)])
def test_the_truth_tables_are_true(tmp_path: Path, sign: str, count: int) -> None:
    (table,) = [table for table in tables() if table.header[0] == f"`{sign}`"]
    assert table.header[1:] == tuple(TRUTHS)
    assert len(table.rows) == count
    stage = staged(tmp_path, [when("!event.b" if sign == "!" else f"event.a {sign} event.b")])
    written = {"true": "true", "false": "false", "unknown": "null", "error": "5"}
    for left, *row in table.rows:
        for right, truth in zip(table.header[1:], row, strict=True):
            body = f'{{"a": {written.get(left, "null")}, "b": {written[right]}}}'
            (outcome,) = outcomes_of(stage, Sample(body.encode()))
            assert outcome.verdict == TRUTHS[truth], (left, sign, right)


# Values ---------------------------------------------------------------------------------------------------------------


def expressions() -> list[tuple[str, str]]:
    """With what is said of their values."""
    return [
        (only(expression), value)
        for table in tables()
        if "expression" in table.header
        for expression, value in zip(table.column("expression"), table.column("value"), strict=True)
    ]


def test_expressions_have_the_values_that_are_shown(tmp_path: Path) -> None:
    """As params, in which they are `unknown` by a default; of an error there are its words."""
    (message,) = blocks_of("message")
    shown = [(expression, value) for expression, value in expressions() if value != "refused"]
    wrapped = [json.dumps(f'${{default({expression}, "unknown")}}', ensure_ascii=False) for expression, _ in shown]
    tests = f"tests:\n  - name: it\n    others: no_match\n{indent(message.text, '    ')}"
    stage = staged(tmp_path, [f"{{run: {{params: {{value: {text}}}}}}}" for text in wrapped], tests)
    (case,) = scenes_of([tmp_path], list)[0].cases
    assert case.now is not None
    for (expression, value), outcome in zip(shown, outcomes_of(stage, case.sample, case.now), strict=True):
        if value.startswith("error"):
            assert (outcome.verdict, outcome.reason) == ("dead_letter", "params"), expression
            assert outcome.error.endswith((code(value) or [""])[0]), expression
        else:
            assert outcome.verdict == "match", (expression, outcome.error)
            expected = decode_exactly(b'"unknown"' if value == "unknown" else only(value).encode())
            assert repr(decode_exactly(outcome.runs[0].params)["value"]) == repr(expected), expression


def test_what_is_refused_is_refused() -> None:
    refused = [expression for expression, value in expressions() if value == "refused"]
    assert refused
    for expression in refused:
        with pytest.raises(FilterError):
            parse_expression(expression, ir.ROOTS, path=("params",))


def test_cel_says_what_it_is_said_to_say() -> None:
    (message,) = blocks_of("message")
    event = json.loads(json.dumps(YAML(typ="safe").load(message.text)["message"]["body"]))
    env = cel.NewEnv(variables={"event": cel.Type.DYN})
    (table,) = [table for table in tables() if "in CEL" in table.header]
    for expression, said in zip(map(only, table.column("expression")), table.column("in CEL"), strict=True):
        value = env.compile(expression, disable_check=True).eval(data={"event": event})
        is_error = value.type() in (cel.Type.ERROR, cel.Type.UNKNOWN)
        assert is_error == (said == "error"), expression
        assert is_error or repr(plain(value.plain_value())) == repr(json.loads(only(said))), expression


def plain(value: object) -> object:
    match value:
        case datetime():
            return f"{value:%Y-%m-%dT%H:%M:%SZ}"
        case timedelta():
            return f"{value.total_seconds():g}s"
        case bytearray() | bytes():
            return value.decode()
        case _:
            return value


# Nothing is left out --------------------------------------------------------------------------------------------------


def test_every_block_of_the_pages_is_run() -> None:
    assert [block.place for block in blocks() if block.use not in _USES] == []
    assert len(blocks_of("example")) >= 8


def test_every_link_leads_somewhere() -> None:
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([\w.-]*)#?([\w-]*)\)", (DOCS / page).read_text()):
            headings = re.findall(r"^#+ (.*)$", (DOCS / (target or page)).read_text(), re.MULTILINE)
            assert not anchor or anchor in {_slug(heading) for heading in headings}, (page, target, anchor)


def _slug(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def shown_expressions() -> list[str]:
    """Those of all tables that are none of the refused ones."""
    conditions = [only(text) for table in tables() if "`when`" in table.header for text in table.column("`when`")]
    return [*conditions, *(text for text, value in expressions() if value != "refused")]


def test_every_function_macro_operator_and_root_is_shown() -> None:
    nodes = [parse_expression(text, ir.ROOTS, path=("when",)) for text in shown_expressions()]
    assert {name for node in nodes for name in _names(node)} == {*FUNCTIONS, *MACROS}
    assert {root for node in nodes for root in roots_of(node)} == {*ir.ROOTS}
    tokens = {token.text for text in shown_expressions() for token in tokens_of(text)}
    assert tokens >= {"==", "!=", "<", "<=", ">", ">=", "in", "&&", "||", "!", "+", "-", "*", "/", "%"}
    assert tokens >= {"?", ":", ".", "[", "(", "true", "attributes", "properties"}


def _names(node: Expr) -> Iterator[str]:
    for part in nodes_of(node):
        match part:
            case Call(name=name) | Each(kind=name):
                yield name
            case Has():
                yield "has"
            case _:
                pass


def test_every_operator_of_a_block_is_shown() -> None:
    cells = [cell for table in tables() if "`match`" in table.header for cell in table.column("`match`")]
    shown = {key for cell in cells for block in code(cell) for key in _keys(YAML(typ="safe").load(f"{{{block}}}"))}
    assert shown >= operations.SIGNS | operations.WORDS
    (named,) = [table for table in tables() if table.header == ("operator", "takes")]
    assert {name for cell in named.column("operator") for name in code(cell)} == operations.SIGNS | operations.WORDS


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for below in value.values():
            yield from _keys(below)
    elif isinstance(value, list):
        for below in value:
            yield from _keys(below)


def test_the_kinds_of_every_function_are_those_that_it_has() -> None:
    told = {
        only(name): ([_kinds(kinds) for kinds in takes.split(";")], _kinds(gives))
        for table in tables()
        if table.header[0] == "function"
        for name, takes, gives, *_ in table.rows
        if name
    }
    functions = {name: function for name, function in FUNCTIONS.items() if function.form != "operator"}
    assert told == {name: (list(function.takes), {function.gives}) for name, function in functions.items()}
    macros = {only(row[0]) for table in tables() if table.header[0] == "macro" for row in table.rows if row[0]}
    assert macros == {*MACROS}


def _kinds(cell: str) -> set[str]:
    """`list, object or bytes`"""
    return {kind.replace("object", "mapping") for kind in re.findall(r"\w+", cell)} - {"or"}


def test_the_limits_are_those_of_the_program() -> None:
    text = (DOCS / "filters.md").read_text()
    section = text[text.index("## Limits") : text.index("## Strict JSON")]
    counted: Sequence[int] = [
        match.MOST_VALUES, match.MOST_CHOICES, ir.MOST_DEPTH, interpreter.MOST_STEPS, interpreter.MOST_WORK,
        values.MOST_COMPARED, calls.LONGEST_LIST, numbers.MOST_DIGITS, literals.LARGEST_EXPONENT, params.LONGEST_KEY,
        patterns._MOST_SEARCHED, MAX_DEPTH,
    ]  # fmt: skip
    assert [limit for limit in counted if f"{limit:,}" not in section] == []
    sizes = {
        ir.LONGEST_SOURCE: "8 KiB",
        calls.LONGEST_TEXT: "1 MiB",
        calls.LARGEST: "16 MiB",
        patterns._MEMORY: "2 MiB",
    }
    for size, written in sizes.items():
        number, unit = written.split()
        assert size == int(number) * {"KiB": 1024, "MiB": 1024**2}[unit]
        assert written in section
    costs = text[text.index("## What it costs") :]
    assert [limit for limit in (MOST_ASKED, MOST_ALTERNATIVES, MOST_ITEMS) if f"{limit:,}" not in costs] == []


# The program itself ---------------------------------------------------------------------------------------------------


def test_the_examples_pass(bridge: Bridge) -> None:
    (base,) = blocks_of("base")
    folders = []
    for number, example in enumerate(blocks_of("example")):
        folder = bridge.folder / f"example-{number}"
        folder.mkdir()
        (folder / "headrace.yaml").write_text(base.text)
        (folder / "example.yaml").write_text(f"# {example.place}\n{example.text}")
        folders.append(folder.name)
    done = bridge.call("test", "--no-coverage", "--output", "table", *folders)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_what_is_wrong_is_said_in_these_words(bridge: Bridge) -> None:
    (base,) = blocks_of("base")
    refused = blocks_of("refused")
    assert refused
    (bridge.folder / "headrace.yaml").write_text(base.text)
    for block in refused:
        (bridge.folder / "example.yaml").write_text(block.text)
        done = bridge.call("validate", ".")
        command, _, said = block.answer.partition("\n")
        assert command == "$ headrace validate ."
        assert (done.returncode, done.stderr.rstrip()) == (1, said.rstrip())


def test_the_status_shows_errors_as_it_is_shown(bridge: Bridge) -> None:
    (base,), (block,) = blocks_of("base"), blocks_of("status")
    (bridge.folder / "headrace.yaml").write_text(
        f"{base.text}instance: {{heartbeat: 1s}}\n"
        'assets: {big_orders: {watchers: [{match: {kind: order.created, amount: {">": 100}}}]}}\n'
    )
    bridge.start()
    order = {"kind": "order.created"}
    bridge.feed("x.jsonl", order | {"amount": 250}, order | {"amount": "250"}, order, {"kind": "order.paid"})

    def told() -> object:
        return bridge.status()[1]["streams"][0]["outcomes"].get("big_orders")

    expected = {"matched": 1, "missing": 1, "errors": 1, "rejected": 0,
                "last_error": "event.amount is text, compared with a number"}  # fmt: skip
    bridge.wait("the outcomes are told", lambda: told() == expected, within=60)
    bridge.wait(
        "the table shows them", lambda: block.text in bridge.call("status", "--output", "table").stdout, within=60
    )
    assert bridge.stop() == 0
