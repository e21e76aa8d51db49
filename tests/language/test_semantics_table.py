"""Every cell of the table in docs/filters.md: what a condition says, as a `match:` block and as `when:` text.

Each is asked four times: of the interpreter and of a router, in both surfaces. A router makes runs of true, and counts
unknown (a missing field) and errors apart; false is none of these.
"""

from __future__ import annotations

from decimal import Decimal as D
from typing import Final, NamedTuple

import pytest

from bridge.core.model import Context, Plan, Poll
from bridge.filters.router import Declared, FilterRouter
from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import Expr
from bridge.language.reading.match import compile_match
from bridge.language.reading.parse import compile_when
from bridge.language.trace import verdict
from bridge.language.values import Fail
from bridge.language.view import View
from bridge.params.plans import compile_params


class Cell(NamedTuple):
    """`match` None: the block has no word for it. `events` are the texts of events, by what is said of them."""

    match: object
    when: str
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    error: tuple[str, ...] = ()


ABSENT: Final = ("{}", '{"a": null}', '{"b": 1}', "[]", "1")
"""Events without a value at `a`."""

TABLE: Final[dict[str, Cell]] = {
    # field missing or null in a comparison: unknown
    "equality": Cell(
        {"a": "x"}, 'event.a == "x"',
        true=('{"a": "x"}',), false=('{"a": "y"}', '{"a": ""}'), unknown=ABSENT,
    ),
    "any of": Cell(
        {"a": ["x", "y"]}, 'event.a in ["x", "y"]',
        true=('{"a": "x"}', '{"a": "y"}'), false=('{"a": "z"}',), unknown=ABSENT,
    ),
    "any of several kinds": Cell(
        {"a": ["x", 1, True]}, 'event.a in ["x", 1, true]',
        true=('{"a": "x"}', '{"a": 1}', '{"a": true}', '{"a": 1.0}'),
        false=('{"a": "1"}', '{"a": 2}', '{"a": false}'), unknown=ABSENT, error=('{"a": []}', '{"a": {}}'),
    ),
    "inequality": Cell(
        {"a": {"!=": "x"}}, 'event.a != "x"',
        true=('{"a": "y"}',), false=('{"a": "x"}',), unknown=ABSENT, error=('{"a": 1}', '{"a": true}'),
    ),
    "greater": Cell(
        {"a": {">": 1}}, "event.a > 1",
        true=('{"a": 2}', '{"a": 1.01}'), false=('{"a": 1}', '{"a": 1.0}', '{"a": 0}'), unknown=ABSENT,
    ),
    "greater or equal": Cell(
        {"a": {">=": 1}}, "event.a >= 1", true=('{"a": 1}', '{"a": 1.0}'), false=('{"a": 0.99}',), unknown=ABSENT
    ),
    "less": Cell({"a": {"<": 1}}, "event.a < 1", true=('{"a": 0.99}',), false=('{"a": 1}',), unknown=ABSENT),
    "less or equal": Cell({"a": {"<=": 1}}, "event.a <= 1", true=('{"a": 1}',), false=('{"a": 2}',), unknown=ABSENT),
    "literal on the left": Cell(None, "1 < event.a", true=('{"a": 2}',), false=('{"a": 1}',), unknown=ABSENT),
    "range": Cell(
        {"a": {">": 1, "<=": 3}}, "event.a > 1 && event.a <= 3",
        true=('{"a": 3}',), false=('{"a": 1}', '{"a": 4}'), unknown=ABSENT, error=('{"a": "2"}',),
    ),
    "prefix": Cell(
        {"a": {"prefix": "ab"}}, 'event.a.startsWith("ab")',
        true=('{"a": "abc"}',), false=('{"a": "xab"}', '{"a": ""}'), unknown=ABSENT,
        error=('{"a": 1}', '{"a": ["ab"]}'),
    ),
    "suffix": Cell(
        {"a": {"suffix": "ab"}}, 'event.a.endsWith("ab")',
        true=('{"a": "xab"}',), false=('{"a": "abx"}',), unknown=ABSENT, error=('{"a": 1}',),
    ),
    "network": Cell(
        {"a": {"cidr": "10.0.0.0/8"}}, 'event.a.cidr("10.0.0.0/8")',
        true=('{"a": "10.1.2.3"}',), false=('{"a": "11.1.2.3"}', '{"a": "::1"}'), unknown=ABSENT,
        error=('{"a": "localhost"}', '{"a": 1}'),
    ),
    "contains": Cell(
        None, 'event.a.contains("b")',
        true=('{"a": "abc"}',), false=('{"a": "ac"}',), unknown=ABSENT, error=('{"a": 1}',),
    ),
    "pattern": Cell(
        None, 'event.a.matches("^b")',
        true=('{"a": "bc"}',), false=('{"a": "abc"}',), unknown=ABSENT, error=('{"a": 1}',),
    ),
    "size": Cell(
        None, "size(event.a) == 1", true=('{"a": "x"}', '{"a": [null]}', '{"a": {"x": 1}}'), false=('{"a": []}',),
        unknown=ABSENT, error=('{"a": 1}', '{"a": true}'),
    ),
    "in a list of the event": Cell(
        None, '"x" in event.a',
        true=('{"a": ["x"]}', '{"a": [null, 1, "x"]}', '{"a": {"x": null}}'),
        false=('{"a": []}', '{"a": ["y", null]}', '{"a": {"y": 1}}'),
        unknown=(*ABSENT, '{"a": [null]}'), error=('{"a": [1]}', '{"a": "x"}'),
    ),
    "two fields": Cell(
        None, "event.a == event.b", true=('{"a": 1, "b": 1.0}', '{"a": [1], "b": [1]}'), false=('{"a": 1, "b": 2}',),
        unknown=('{"a": 1}', '{"b": 1}', "{}", '{"a": [null], "b": [1]}'), error=('{"a": 1, "b": "1"}',),
    ),
    "field of a field": Cell(
        {"a": {"b": "x"}}, 'event.a.b == "x"', true=('{"a": {"b": "x"}}',), false=('{"a": {"b": "y"}}',),
        unknown=(*ABSENT, '{"a": {}}', '{"a": {"b": null}}', '{"a": "x"}', '{"a": [{"b": "x"}]}', '{"a": 1}'),
    ),
    "item of a list": Cell(
        None, 'event.a[1].b == "x"', true=('{"a": [0, {"b": "x"}]}',), false=('{"a": [0, {"b": "y"}]}',),
        unknown=(*ABSENT, '{"a": []}', '{"a": [0]}', '{"a": [0, 1]}', '{"a": "text"}', '{"a": {"1": {"b": "x"}}}'),
    ),
    # Kleene logic
    "and": Cell(
        {"a": 1, "b": 1}, "event.a == 1 && event.b == 1",
        true=('{"a": 1, "b": 1}',),
        false=('{"a": 2}', '{"b": 2}', '{"a": 2, "b": null}', '{"a": 2, "b": "1"}', '{"a": "1", "b": 2}'),
        unknown=('{"a": 1}', '{"b": 1}', "{}"),
        error=('{"a": "1", "b": 1}', '{"a": 1, "b": "1"}', '{"a": "1"}', '{"b": "1"}'),
    ),
    "or": Cell(
        {"any_of": [{"a": 1, "c": {"exists": False}}, {"b": 1}]}, "event.a == 1 && !has(event.c) || event.b == 1",
        true=('{"a": 1}', '{"b": 1}', '{"a": 1, "b": "1"}', '{"a": "1", "b": 1}'),
        false=('{"a": 2, "b": 2}', '{"c": 1, "b": 2}'),
        unknown=("{}", '{"a": 2}', '{"b": 2}'),
        error=('{"a": "1", "b": 2}', '{"a": 2, "b": "1"}', '{"a": "1"}'),
    ),
    "not": Cell(
        {"a": {"anything_but": 1}}, "!(event.a == 1)",
        true=('{"a": 2}',), false=('{"a": 1}',), unknown=ABSENT, error=('{"a": "1"}', '{"a": true}'),
    ),
    "not of an or": Cell(
        None, "!(event.a == 1 || event.b == 1)", true=('{"a": 2, "b": 2}',), false=('{"a": 1}', '{"a": "1", "b": 1}'),
        unknown=('{"a": 2}', "{}"), error=('{"a": 2, "b": "1"}',),
    ),
    "choice": Cell(
        None, "event.a ? event.b == 1 : event.b == 2",
        true=('{"a": true, "b": 1}', '{"a": false, "b": 2}'), false=('{"a": true, "b": 2}',),
        unknown=("{}", '{"b": 1}', '{"a": true}'), error=('{"a": 1, "b": 1}', '{"a": "true", "b": 1}'),
    ),
    # has, exists
    "exists": Cell(
        {"a": {"exists": True}}, "has(event.a)",
        true=('{"a": 1}', '{"a": false}', '{"a": ""}', '{"a": []}', '{"a": {}}'), false=ABSENT,
    ),
    "exists not": Cell({"a": {"exists": False}}, "!has(event.a)", true=ABSENT, false=('{"a": 1}', '{"a": ""}')),
    "exists below": Cell(
        {"a": {"b": {"exists": True}}}, "has(event.a.b)", true=('{"a": {"b": 0}}',),
        false=(*ABSENT, '{"a": {}}', '{"a": {"b": null}}', '{"a": "text"}', '{"a": 1}', '{"a": [1]}'),
    ),
    "default": Cell(
        None, 'default(event.a, "x") == "x"', true=(*ABSENT, '{"a": "x"}'), false=('{"a": "y"}',), error=('{"a": 1}',)
    ),
    # kinds
    "text and number": Cell({"a": "1"}, 'event.a == "1"', true=('{"a": "1"}',), error=('{"a": 1}', '{"a": 1.0}')),
    "number and text": Cell(
        {"a": 1}, "event.a == 1", true=('{"a": 1}', '{"a": 1.0}'), error=('{"a": "1"}', '{"a": ""}')
    ),
    "bool and number": Cell(
        {"a": True}, "event.a == true",
        true=('{"a": true}',), false=('{"a": false}',), error=('{"a": 1}', '{"a": "true"}'),
    ),
    "number and bool": Cell({"a": 1}, "event.a == 1", error=('{"a": true}', '{"a": false}')),
    "list and text": Cell({"a": "x"}, 'event.a == "x"', error=('{"a": ["x"]}', '{"a": []}')),
    "object and text": Cell({"a": "x"}, 'event.a == "x"', error=('{"a": {"x": 1}}', '{"a": {}}')),
    "order of text and number": Cell({"a": {">": 1}}, "event.a > 1", error=('{"a": "2"}', '{"a": true}', '{"a": [2]}')),
    "order of number and text": Cell({"a": {">": "1"}}, 'event.a > "1"', true=('{"a": "2"}',), error=('{"a": 2}',)),
    "a text is no truth": Cell(None, "event.a", true=('{"a": true}',), false=('{"a": false}',), unknown=ABSENT,
                               error=('{"a": "true"}', '{"a": 1}', '{"a": []}')),
    # int with fraction
    "int and fraction are computed together": Cell(
        None, "event.a + 0.5 == 2 && event.a * 2 == 3.0",
        true=('{"a": 1.5}', '{"a": 1.50}', '{"a": 15e-1}'), false=('{"a": 1}',), unknown=ABSENT,
    ),
    "int and fraction are compared together": Cell(
        {"a": 2}, "event.a == 2", true=('{"a": 2}', '{"a": 2.0}', '{"a": 2e0}', '{"a": 0.2e1}'), false=('{"a": 2.5}',)
    ),
    # anything_but
    "anything but": Cell(
        {"a": {"anything_but": ["x", "y"]}}, '!(event.a in ["x", "y"])',
        true=('{"a": "z"}', '{"a": ""}'), false=('{"a": "x"}', '{"a": "y"}'), unknown=ABSENT, error=('{"a": 1}',),
    ),
    "brand is none of two ids": Cell(
        {"brand": {"anything_but": ["id1", "id2"]}}, '!(event.brand in ["id1", "id2"])',
        true=('{"brand": "id3"}',), false=('{"brand": "id1"}', '{"brand": "id2"}'),
        unknown=("{}", '{"brand": null}'), error=('{"brand": 1}',),
    ),
    # exact numbers
    "integers beyond a double": Cell(
        {"a": 9007199254740993}, "event.a == 9007199254740993", true=('{"a": 9007199254740993}',),
        false=('{"a": 9007199254740992}', '{"a": 9007199254740994}', '{"a": 9007199254740992.0}'),
    ),
    "integers beyond 64 bits": Cell(
        {"a": {">": 2**70}}, f"event.a > {2**70}", true=(f'{{"a": {2**70 + 1}}}',), false=(f'{{"a": {2**70}}}',)
    ),
    "decimals": Cell(
        {"a": D("0.1")}, "event.a == 0.1", true=('{"a": 0.1}', '{"a": 0.10}', '{"a": 1e-1}'),
        false=('{"a": 0.1000000000000000055511151231257827}', '{"a": 0.10000000000000000001}'),
    ),
    "decimals add up": Cell(
        None, "event.a + event.b == 0.3", true=('{"a": 0.1, "b": 0.2}',), false=('{"a": 0.1, "b": 0.1}',)
    ),
    "thresholds between two doubles": Cell(
        {"a": {">": D("0.1")}}, "event.a > 0.1",
        true=('{"a": 0.10000000000000000001}',), false=('{"a": 0.1}', '{"a": 0.09999999999999999999}'),
    ),
    # text
    "order by code point": Cell(
        {"a": {">": "\uffff"}}, 'event.a > "\uffff"', true=('{"a": "\U0001f600"}', r'{"a": "\ud83d\ude00"}'),
        false=('{"a": "ä"}', '{"a": "\uffff"}'),
    ),
    "upper case is before lower case": Cell(
        {"a": {"<": "a"}}, 'event.a < "a"', true=('{"a": "Z"}',), false=('{"a": "a"}',)
    ),
    "forms of one letter differ": Cell(
        {"a": "é"}, 'event.a == "é"', true=('{"a": "é"}',), false=('{"a": "e\u0301"}',)
    ),
    "lower": Cell(None, 'event.a.lower() == "äb"', true=('{"a": "ÄB"}', '{"a": "äb"}'), false=('{"a": "x"}',),
                  unknown=ABSENT, error=('{"a": 1}',)),
    "size is in code points": Cell(None, "size(event.a) == 2", true=('{"a": "ä\U0001f600"}',), false=('{"a": "ä"}',)),
}  # fmt: skip

NODES: Final[dict[str, Expr]] = {
    f"{name} ({surface})": node
    for name, cell in TABLE.items()
    for surface, node in (
        ("match", compile_match(cell.match) if cell.match is not None else None),
        ("when", compile_when(cell.when)),
    )
    if node is not None
}
CASES: Final = [
    pytest.param(NODES[key], event, said, id=f"{name}, {surface}: {event} is {said}")
    for name, cell in TABLE.items()
    for surface in ("match", "when")
    if (key := f"{name} ({surface})") in NODES
    for said in ("true", "false", "unknown", "error")
    for event in getattr(cell, said)
]


@pytest.mark.parametrize(("node", "event", "said"), CASES)
def test_the_interpreter(node: Expr, event: str, said: str) -> None:
    truth = verdict(node, View(event.encode(), None, Context()))
    assert said == ("error" if isinstance(truth, Fail) else {True: "true", False: "false", None: "unknown"}[truth])


@pytest.mark.parametrize(("node", "event", "said"), CASES)
def test_the_router(node: Expr, event: str, said: str) -> None:
    """False is not counted; an unknown or an error is, and makes no run."""
    router = FilterRouter([Declared(Plan("w", "asset", "target", "job"), node, compile_params({}))], max_body=1_000)
    routed = router.route(Poll([], [event.encode()], [None]))
    outcomes = router.outcomes()
    outcome = outcomes.get("w")
    counted = {} if outcome is None else {"true": outcome.matched, "unknown": outcome.missing, "error": outcome.errors}
    assert {name for name, count in counted.items() if count} == {said} - {"false"}
    assert len(routed.records) == (said == "true")
    assert not routed.faults


@pytest.mark.parametrize("surface", ["match", "when"])
def test_on_error_decides_what_becomes_of_an_error_and_of_nothing_else(surface: str) -> None:
    node, plan = NODES[f"greater ({surface})"], Plan("w", "asset", "target", "job")
    events = [b'{"a": "2"}', b'{"a": 2}', b'{"a": 1}', b"{}"]
    for on_error, reasons in (("no_match", [None]), ("reject", ["filter_error", None])):
        declared = Declared(plan, node, compile_params({}), on_error=on_error)  # type: ignore[arg-type]  # a Literal
        router = FilterRouter([declared], max_body=1_000)
        routed = router.route(Poll([], list(events), [None] * len(events)))
        assert [getattr(record, "reason", None) for record in routed.records] == reasons
        assert router.outcomes()["w"].last_error == "event.a is text, compared with a number"


def test_both_surfaces_say_the_same_in_the_same_form() -> None:
    """Beside what the two write in their own way, they are one."""
    for name in ("equality", "any of", "inequality", "greater", "prefix", "anything but", "exists", "and", "range"):
        cell = TABLE[name]
        assert without_places(compile_match(cell.match)) == without_places(compile_when(cell.when)), name


def without_places(node: object) -> object:
    """The node with nothing in it of where it was written."""
    if isinstance(node, tuple):
        return tuple(map(without_places, node))
    names: tuple[str, ...] = getattr(node, "__struct_fields__", ())
    return (
        (type(node).__name__, *(without_places(getattr(node, name)) for name in names if name != "at"))
        if names
        else node
    )


# What is refused at start-up ------------------------------------------------------------------------------------------


def problem_of(match: object, when: str) -> tuple[FilterProblem | None, FilterProblem]:
    found = []
    for compiled, written in ((compile_match, match), (compile_when, when)):
        if written is None:
            found.append(None)
            continue
        with pytest.raises(FilterError) as caught:
            compiled(written)  # type: ignore[operator]
        found.append(caught.value.problems[0])
    assert found[1] is not None
    return found[0], found[1]


@pytest.mark.parametrize(
    ("match", "when", "problem", "at", "hints"),
    [
        ({"a": {"!=": ["x", "y"]}}, 'event.a != ["x", "y"]', "`!=` with a list", 0, ["anything_but", "!(event.a in"]),
        (None, "event.a = 1", "`=`", 8, ["=="]),
        (None, "evnt.a == 1", "there is no `evnt`", 0, ["event"]),
        (None, 'has(event.b) && region == "eu"', "there is no `region`", 16, ["event.region"]),
        (None, "event.a.lowr() == 'x'", "there is no function `lowr`", 8, ["lower"]),
        (None, 'event.a.__class__() == "x"', "there is no function `__class__`", 8, [""]),
        ({"a": {"matches": "^a"}}, "event.a.startswith('a')", "there is no", 8, ["when:", "startsWith"]),
        ({"a": None}, "event.a == null", "null", 0, ["has(event.a)", "has(event.a)"]),
    ],
)
def test_what_can_not_be_meant_is_refused_with_a_place_and_a_way_out(
    match: object, when: str, problem: str, at: int, hints: list[str]
) -> None:
    of_match, of_when = problem_of(match, when)
    assert problem in of_when.problem
    assert (of_when.path, of_when.at) == (("when",), at)
    assert hints[-1] in of_when.hint
    if of_match is not None:
        assert of_match.path[:2] == ("match", "a")
        assert problem in of_match.problem
        assert hints[0] in of_match.hint or match == {"a": None}
