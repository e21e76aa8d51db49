"""Random expressions of the subset that is shared with CEL, asked of `cel-expr-python` as well.

Where we give a value, CEL gives the same; where we give none, the reason is one of DEVIATIONS. Most of these make
unknown or an error of what CEL has a value for. The two can be compared all the same: what we say in spite of them,
like false for `false && x`, holds whatever x is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cel_expr_python import cel
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.language.errors import FilterError
from bridge.language.ir import Call, Expr, Field, Has, Item, Select
from bridge.language.reading.parse import parse_expression
from bridge.language.trace import Traced, evaluate, trace
from bridge.language.values import Duration, Fail, Timestamp
from bridge.language.view import decode_exactly

DEVIATIONS: Final = {
    "missing": "A field that is missing, or an index that is out of range, is an error in CEL and unknown here.",
    "null": "A null is a value in CEL, equal to itself and to nothing else; here it is unknown, as if it were missing.",
    "has": "`has` of a null is true in CEL, and an error where the parent is missing; here both are false.",
    "kinds": "`==` and `in` between two kinds are false in CEL and an error here.",
    "bool order": "CEL orders false before true; here they have no order.",
    "one kind of number": "CEL computes with two ints or two doubles, takes no `%` of doubles and no timestamp of one.",
    "start-up": 'What says nothing, like `event.t.startsWith("")`, is refused at start-up here.',
}
"""What may differ, each with the reason. The generator leaves out, as documented elsewhere:

- integers beyond 64 bits and fractions that a double doesn't hold: exact here, an error or rounded in CEL;
- `string()` of a fraction: here as it was written;
- leap seconds: CEL takes them as the next second, here they are no timestamp;
- `int(" 7")` and `int("+7")`, which CEL takes, and here are no whole numbers;
- the order in which a macro sees the names of an object: here as they are written;
- `lower`, `upper`, `default`, `cidr` and `now`, which CEL has not; bytes, unsigned ints, `null`, `type` and objects to
  write, which we have not.
"""

ENV: Final = cel.NewEnv(variables={"event": cel.Type.DYN})
NUMBERS: Final = re.compile(r"No matching overloads found : (_[-+*/%]_\(|timestamp\(double)|for '_[-+*/%]_' applied")


class Unknown:
    """What we give where CEL has an error or a null."""


# Events ---------------------------------------------------------------------------------------------------------------

ints = st.integers(-20, 20)
doubles = st.integers(-80, 80).map(lambda eighths: eighths / 8)
texts = st.sampled_from(["", "a", "b", "ab", "abc", "Zz", "ä", "\uffff", "\U0001f600", "a.b", "12", 'q"\\'])
anything = ints | doubles | texts | st.booleans() | st.just([]) | st.just([1]) | st.just({"n": 1}) | st.none()
MISSING: Final = object()


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The kind that the expressions expect nine times in ten."""
    return st.integers(0, 29).flatmap(lambda roll: {11: anything, 17: st.just(MISSING), 23: st.none()}.get(roll, usual))


def made_of(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({name: mostly(usual) for name, usual in fields.items()}).map(
        lambda event: {name: value for name, value in event.items() if value is not MISSING}
    )


item = made_of({"n": ints, "t": texts})
events = made_of(
    {
        "n": ints,
        "m": ints,
        "d": doubles,
        "t": texts,
        "u": texts,
        "b": st.booleans(),
        "ns": st.lists(mostly(ints).map(lambda value: None if value is MISSING else value), max_size=4),
        "ts": st.lists(texts, max_size=4),
        "items": st.lists(item, max_size=3),
        "o": item,
    }
)

# Expressions ----------------------------------------------------------------------------------------------------------


def literal(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def moment(text: str) -> str:
    return f'timestamp("{text}")'


def one_of(*choices: str) -> st.SearchStrategy[str]:
    return st.sampled_from(choices)


def form(pattern: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda made: pattern.format(*made))


def expressions(depth: int) -> dict[str, st.SearchStrategy[str]]:
    """By kind of what they give, most of the time. Arithmetic stays within what a double holds exactly."""
    number = one_of("event.n", "event.m", "event.d", "event.o.n", "event.ns[0]", "event.items[0].n") | ints.map(literal)
    leaves = {
        "number": number | doubles.map(literal),
        "text": one_of("event.t", "event.u", "event.o.t", 'event["t"]', "event.ts[1]") | texts.map(literal),
        "bool": one_of("event.b", "true", "false"),
        "numbers": one_of("event.ns") | st.lists(ints, min_size=1, max_size=3).map(literal),
        "texts": one_of("event.ts") | st.lists(texts, min_size=1, max_size=3, unique=True).map(literal),
        "time": one_of("timestamp(event.n)", *map(moment, ["2026-01-01T00:00:00Z", "2025-12-31T23:00:00.5-01:00"])),
        "length": one_of('duration("90m")', 'duration("-1h30m5.25s")', 'duration("250ms")', 'duration("0")'),
    }  # fmt: skip
    if depth == 0:
        return leaves
    below = expressions(depth - 1)
    return {kind: leaves[kind] | larger for kind, larger in _larger(leaves, below).items()}


def _larger(
    leaves: dict[str, st.SearchStrategy[str]], below: dict[str, st.SearchStrategy[str]]
) -> dict[str, st.SearchStrategy[str]]:
    number, text, boolean = below["number"], below["text"], below["bool"]
    numbers, lists = below["numbers"], below["numbers"] | below["texts"]
    order = one_of("<", "<=", ">", ">=", "==", "!=")
    quantifier, objects = one_of("exists", "all"), one_of("event.o", "event.items[0]")
    return {
        "number": st.one_of(
            form("({} {} {})", number, one_of("+", "-"), number),
            form("({} * {})", leaves["number"], leaves["number"]),
            form("({} {} {})", number, one_of("/", "%"), one_of("3", "-7", "2", "event.m")),
            form("({} / 2.0)", number),
            form("-({})", number),
            form("size({})", text | lists),
            form("({} ? {} : {})", boolean, number, number),
            form("int({})", one_of("event.d", "event.n", '"12"', "-2.75", moment("1969-12-31T23:59:59.5Z"))),
        ),
        "text": st.one_of(
            form("({} + {})", text, text),
            form("string({})", st.one_of(text, boolean, ints.map(literal), below["length"], below["time"])),
            form("({} ? {} : {})", boolean, text, text),
        ),
        "bool": st.one_of(
            form("({} {} {})", number, order, number),
            form("({} {} {})", text, order, text),
            form("({} {} {})", below["time"], order, below["time"]),
            form("({} {} {})", below["length"], order, below["length"]),
            form("({} && {})", boolean, boolean),
            form("({} || {})", boolean, boolean),
            form("({} && {} || {})", boolean, boolean, boolean),
            form("!({})", boolean),
            form("({} in {})", number, numbers),
            form("({} in {})", text, below["texts"] | one_of("event.o")),
            form("({} == {})", lists, lists),
            form("({} {} {})", objects, one_of("==", "!="), objects),
            form("{}.{}({})", text, one_of("startsWith", "endsWith", "contains"), text),
            form("{}.matches({})", text, one_of('"^a"', '"(a|b)+$"', '"[^a-z]"', r'"^.$"', r'"\\."')),
            form("has({})", one_of("event.n", "event.t", "event.zz", "event.o.n", "event.o.zz", "event.b")),
            form("{}.{}(x, x {} {} || event.b)", numbers, quantifier, order, number),
            form("{}.{}(x, !(x {} {}))", numbers, quantifier, order, number),
            form("event.items.{}(x, {})", quantifier, one_of("x.n > 0", 'x.t == "a"', "x.n < event.n && x.t < x.t")),
            form("event.items.{}(x, event.ns.{}(y, x.n > y))", quantifier, quantifier),
            form("event.o.{}(name, name == {})", quantifier, text),
            form("({} ? {} : {})", boolean, boolean, boolean),
        ),
        "numbers": st.one_of(
            form("{}.filter(x, x > {})", numbers, number),
            form("{}.map(x, x {} {})", numbers, one_of("+", "-"), ints.map(literal)),
            form("{}.map(x, x > 0, x - 1)", numbers),
            form("({} + {})", numbers, numbers),
            form("[{}, {}]", number, number),
            st.just("event.items.map(x, x.n)"),
        ),
        "texts": st.one_of(
            form('{}.filter(x, x.contains("a"))', below["texts"]),
            form("{}.map(x, x + {})", below["texts"], text),
        ),
        "time": form("({} {} {})", below["time"], one_of("+", "-"), below["length"]),
        "length": st.one_of(
            form("({} {} {})", below["length"], one_of("+", "-"), below["length"]),
            form("({} - {})", below["time"], below["time"]),
        ),
    }  # fmt: skip


_BY_KIND = expressions(3)
asked = st.sampled_from(["bool"] * len(_BY_KIND) + list(_BY_KIND)).flatmap(_BY_KIND.__getitem__)

# Both sides -----------------------------------------------------------------------------------------------------------


def ours_of(node: Expr, event: object) -> object:
    """A plain value, Unknown, or a Fail."""
    value = evaluate(node, {"event": event})
    return Unknown if value is None else plain(value)


def plain(value: object) -> object:
    """As CEL's values come: with times of the standard library. Both compute these examples to the microsecond."""
    match value:
        case Timestamp():
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value.ns / 1000)
        case Duration():
            return timedelta(microseconds=value.ns / 1000)
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def theirs_of(text: str, event: object) -> object:
    """A plain value, or a Fail: errors come as values of the type ERROR, whose text is as true as any other."""
    value = ENV.compile(text, disable_check=True).eval(data={"event": event})
    if value.type() in (cel.Type.ERROR, cel.Type.UNKNOWN):
        return Fail(str(value.value()))
    return value.plain_value()


def same(ours: object, theirs: object) -> bool:
    """`True` is no 1."""
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return isinstance(ours, bool) == isinstance(theirs, bool) and ours == theirs


def nodes_of(traced: Traced) -> Iterator[Traced]:
    yield traced
    for part in traced.parts:
        yield from nodes_of(part)


def mixes_numbers(nodes: list[Traced], event: object, theirs: Fail) -> bool:
    """Whether CEL refuses to compute with an int and a double: of several errors it tells but one."""
    computed = [seen.text for seen in nodes if isinstance(seen.node, Call) and seen.node.name in ("+", "-", "*", "/")]
    others = [theirs_of(text, event) for text in computed if not re.search(r"\b[xy]\b", text)]
    return any(isinstance(said, Fail) and NUMBERS.search(said.message) for said in (theirs, *others))


def deviation(traced: Traced, event: Any, ours: object, theirs: object) -> str:
    """Which of DEVIATIONS explains the difference. Raises AssertionError where none does."""
    nodes = list(nodes_of(traced))
    if any(isinstance(seen.node, Has) and seen.value is False and is_special(event, seen.node.field) for seen in nodes):
        return "has"
    if isinstance(theirs, Fail) and not isinstance(ours, Fail) and mixes_numbers(nodes, event, theirs):
        return "one kind of number"
    if ours is Unknown:
        looked_up = [seen.value for seen in nodes if isinstance(seen.node, Field | Select | Item)]
        assert any(map(holds_null, looked_up)), "unknown without a field that is missing or null"
        if isinstance(theirs, Fail):
            return "missing"
        assert holds_null(event), "a value, though a field is missing"
        return "null"
    assert isinstance(ours, Fail), "two values"
    assert not isinstance(theirs, Fail)
    fails = {seen.value.message for seen in nodes if isinstance(seen.value, Fail)}
    if any("true or false has no order" in fail for fail in fails):
        return "bool order"
    assert any("compared with" in fail or "have names" in fail for fail in fails), "an error that CEL doesn't see"
    return "kinds"


def holds_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(holds_null, value.values()))
    return any(map(holds_null, value)) if isinstance(value, list) else value is None


def is_special(event: Any, field: Expr) -> bool:
    """Whether the field is null, or its parent is missing."""
    assert isinstance(field, Field)
    *parents, last = field.path
    for name in parents:
        event = event.get(name) if isinstance(event, dict) else None
    return not isinstance(event, dict) or last in event


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asked, events)
def compare(seen: Counter[str], text: str, event: dict[str, Any]) -> None:
    theirs = theirs_of(text, event)
    try:
        node = parse_expression(text, ("event",), path=("when",))
    except FilterError:
        assert '("")' in text, "refused at start-up"
        seen["start-up"] += 1
        return
    decoded = decode_exactly(json.dumps(event).encode())
    ours = ours_of(node, decoded)
    if isinstance(ours, Fail) and isinstance(theirs, Fail):
        seen["both errors"] += 1
    elif same(ours, theirs):
        seen[f"both {str(ours).lower()}" if isinstance(ours, bool) else "both a value"] += 1
    else:
        seen[deviation(trace(node, {"event": decoded}), event, ours, theirs)] += 1


def test_where_we_give_a_value_cel_gives_the_same_and_where_not_the_reason_is_documented() -> None:
    seen: Counter[str] = Counter()
    compare(seen)
    total = seen.total()
    assert seen.keys() <= DEVIATIONS.keys() | {"both errors", "both true", "both false", "both a value"}
    assert seen["both true"] + seen["both false"] + seen["both a value"] > total / 2
    assert min(seen["both true"], seen["both false"]) > total / 20
    assert seen["start-up"] < total / 20
