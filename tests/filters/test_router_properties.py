"""The index says what asking every watcher would say, and no bytes get past the router with an exception."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.core.model import Context, Meta, Outcome, Plan, Poll, Record, Reject, Run
from bridge.decode.json import DecodeFault, decode_whole
from bridge.filters.compiled import Condition, Documents
from bridge.filters.router import Declared, FilterRouter
from bridge.language.ir import AllOf, AnyOf, Call, Compare, Const, Each, Expr, Field, Has, Not, OneOf, Select
from bridge.language.trace import trace, verdict
from bridge.language.values import Fail, truth_of
from bridge.language.view import View
from bridge.params.plans import compile_params

NOTHING = compile_params({})
KEYS = (None, b"x", b"\xff", b"1")
CONTEXT = Context(
    "orders",
    lambda n: Meta("xy", key=KEYS[n % 4], headers=(("h", b"x"),) if n % 2 else (("h", b"\xff"), ("g", b"1"))),
    1_700_000_000.0,
)

# Few names and few values, so that watchers and events meet; the values that are easily taken for one another.
names = st.sampled_from(["a", "b", "c", "f0", "__class__"])
paths = st.lists(names, min_size=1, max_size=2).map(tuple)
fields = paths.map(lambda path: Field("event", path))
texts = st.sampled_from(["", "0", "1", "true", "x", "xy", "äx", "2026-01-01T00:00:00Z"])
numbers = st.sampled_from(
    [0, 1, -1, 7, 2**53, 2**53 + 1, 2**70, Decimal("0.5"), Decimal("1.00000000000000000001"), Decimal("0.1")]
)
literals = texts | numbers | st.booleans()


def distinct(values: list[Any]) -> tuple[Any, ...]:
    return tuple({(isinstance(value, bool), value): value for value in values}.values())


choices = st.builds(
    lambda of, values: AnyOf(of, distinct(values)),
    fields,
    st.lists(texts, min_size=1, max_size=4)
    | st.lists(numbers, min_size=1, max_size=4)
    | st.lists(literals, min_size=1, max_size=4)
    | st.just(["x", *map(str, range(70))]),
)
comparisons = st.builds(
    Compare, st.sampled_from(["<", "<=", ">", ">="]), fields, (numbers | numbers | texts).map(Const)
)
questions = st.builds(
    lambda name, of, text: Call(name, (of, Const(text))),
    st.sampled_from(["startsWith", "startsWith", "endsWith", "contains"]),
    fields | fields.map(lambda of: Call("lower", (of,))),
    texts,
)
outsides = st.builds(
    lambda of, values: AnyOf(of, distinct(values)),
    st.sampled_from([Field("key"), Field("headers", ("h",)), Field("headers", ("g",)), Field("meta", ("position",))]),
    st.lists(texts, min_size=1, max_size=3),
)
presences = st.builds(Has, fields)
items = st.sampled_from([Field("i"), Field("i", ("a",)), Field("i", ("a", "b")), Select(Field("i"), "b")])
of_items = st.recursive(
    st.builds(lambda of, values: AnyOf(of, distinct(values)), items, st.lists(literals, min_size=1, max_size=3))
    | st.builds(Compare, st.sampled_from(["<", ">="]), items, (numbers | texts).map(Const))
    | st.builds(lambda of, text: Call("startsWith", (of, Const(text))), items, texts)
    | st.builds(Has, items.filter(lambda of: of != Field("i")))
    | st.builds(lambda of, field: Compare("==", of, field), items, fields),
    lambda inner: (
        inner.map(Not)
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: AllOf(tuple(parts)))
        | st.lists(inner, min_size=2, max_size=3).map(lambda parts: OneOf(tuple(parts)))
    ),
    max_leaves=4,
)
macros = st.builds(
    lambda kind, over, body: Each(kind, over, "i", body), st.sampled_from(["exists", "all"]), fields, of_items
)
sums = st.builds(
    lambda name, of, number: Call(name, (of, Const(number))), st.sampled_from(["+", "-", "/", "%"]), fields, numbers
)
others = (
    st.builds(Compare, st.sampled_from(["==", "<", "<=", ">", ">="]), fields, fields)
    | macros
    | st.builds(Compare, st.sampled_from(["==", "<"]), sums, numbers.map(Const))
    | st.builds(lambda of: Compare("<", Call("size", (of,)), Const(2)), fields)
    | st.builds(lambda of, text: AnyOf(Call("default", (of, Const(text))), (text, "x", 0)), fields, texts)
    | st.builds(lambda of: Compare("<", Call("timestamp", (of,)), Field("now")), fields)
    | st.just(AnyOf(Field("meta", ("stream",)), ("orders",)))
    | st.just(Compare(">", Field("meta", ("delivery_attempt",)), Const(1)))
    | st.builds(lambda of: Call("in", (Const("x"), of)), fields)
    | fields
)
leaves = choices | choices | outsides | comparisons | questions | presences | others
alternatives = st.lists(leaves, min_size=2, max_size=3).map(lambda parts: OneOf(tuple(parts)))
parts = leaves | leaves | leaves | alternatives | leaves.map(Not) | alternatives.map(Not)
conditions = st.none() | parts | st.lists(parts, min_size=2, max_size=3).map(lambda p: AllOf(tuple(p)))

scalars = literals | st.none() | st.sampled_from([1.0, 2.0**53, 1e300, -0.0])
objects = st.recursive(
    st.dictionaries(names, scalars, max_size=5),
    lambda inner: st.dictionaries(names, scalars | inner | st.lists(scalars | inner, max_size=2), max_size=5),
    max_leaves=12,
)
events = objects | objects | objects | scalars | st.lists(objects, max_size=2)
encode = msgspec.json.Encoder(decimal_format="number").encode


def declared(number: int, condition: Expr | None, on_error: Any = "no_match") -> Declared:
    return Declared(Plan(f"w{number}", "a", "t", "j"), condition, NOTHING, on_error=on_error)


def poll_of(bodies: list[bytes]) -> Poll:
    return Poll([], bodies, list(range(len(bodies))))


def expected_of(condition: Expr | None, body: bytes, payload: int) -> Any:
    return True if condition is None else verdict(condition, View(body, payload, CONTEXT))


def told(records: list[Record]) -> list[str]:
    return [f"{r.plan.watcher} runs" if isinstance(r, Run) else f"{r.watcher} {r.reason}" for r in records if r]


def check(router: FilterRouter, watchers: dict[str, Declared], bodies: list[bytes]) -> None:
    """The router's records and counts are those of asking each of the watchers about each event."""
    before = router.outcomes()
    routed = router.route(poll_of(bodies), CONTEXT)
    assert not routed.faults
    assert list(routed.hits) == sorted(routed.hits)
    counts = {name: [0, 0, 0] for name in watchers}
    for index, body in enumerate(bodies):
        expected = []
        for name, watcher in watchers.items():
            truth = expected_of(watcher.condition, body, index)
            is_error = isinstance(truth, Fail)
            counts[name][0] += truth is True
            counts[name][1] += truth is None
            counts[name][2] += is_error
            if truth is True:
                expected.append(f"{name} runs")
            elif is_error and watcher.on_error == "reject":
                expected.append(f"{name} filter_error")
        assert sorted(told(routed.hits.get(index, []))) == sorted(expected), body
    outcomes = router.outcomes()
    for name, (matched, missing, errors) in counts.items():
        then, now = before.get(name, Outcome()), outcomes.get(name, Outcome())
        seen = (now.matched - then.matched, now.missing - then.missing, now.errors - then.errors)
        assert seen == (matched, missing, errors), name


@given(
    st.lists(st.tuples(conditions, st.sampled_from(["no_match", "reject"])), max_size=12), st.lists(events, max_size=8)
)
@settings(deadline=None, max_examples=300)
def test_the_index_says_what_asking_every_watcher_says(
    conditions: list[tuple[Expr | None, str]], poll: list[Any]
) -> None:
    watchers = {f"w{n}": declared(n, condition, on_error) for n, (condition, on_error) in enumerate(conditions)}
    router = FilterRouter(watchers.values(), max_body=5000)
    bodies = [encode(event) for event in poll]
    check(router, watchers, bodies)
    check(router, watchers, bodies)  # hot or not, and with tables that were made on the way


steps = st.lists(
    st.tuples(st.sampled_from(["enable", "disable", "add", "remove"]), st.integers(0, 7), conditions)
    | st.lists(events, min_size=1, max_size=4),
    max_size=12,
)


@given(steps)
@settings(deadline=None, max_examples=200)
def test_watchers_that_come_and_go_leave_the_index_as_one_made_anew(steps: list[Any]) -> None:
    known: dict[str, Declared] = {}
    enabled: dict[str, Declared] = {}
    router = FilterRouter([], max_body=5000)
    for step in steps:
        if isinstance(step, list):
            check(router, enabled, [encode(event) for event in step])
            continue
        what, number, condition = step
        name = f"w{number}"
        if what == "add" and name not in known:
            known[name] = enabled[name] = declared(number, condition)
            router.add(known[name])
        elif name in known and what == "remove":
            router.remove(name)
            del known[name]
            enabled.pop(name, None)
        elif name in known and what == "enable":
            router.enable(name)
            enabled[name] = known[name]
        elif name in known and what == "disable":
            router.disable(name)
            enabled.pop(name, None)
    assert set(router.watchers) == set(enabled)


@given(parts, objects)
@settings(deadline=None, max_examples=500)
def test_the_compiled_verdict_and_the_traced_one_are_equal(condition: Expr, event: dict[str, Any]) -> None:
    body = encode(event)
    view = View(body, 0, CONTEXT)
    traced = truth_of(trace(condition, view).value)
    asked = Condition(condition, Documents()).ask(msgspec.json.decode(body), lambda: view)
    assert asked == verdict(condition, view)
    assert type(asked) is type(traced)
    assert isinstance(asked, Fail) or asked is traced


@given(st.integers(65, 80), st.lists(events, min_size=1, max_size=4))
@settings(deadline=None, max_examples=30)
def test_many_watchers_of_one_form_are_counted_one_by_one_where_their_key_decides(count: int, poll: list[Any]) -> None:
    watchers = {
        f"w{n}": declared(n, AllOf((AnyOf(Field("event", ("a",)), (f"{n}",)), AnyOf(Field("event", ("b",)), ("x",)))))
        for n in range(count)
    }
    check(FilterRouter(watchers.values(), max_body=5000), watchers, [encode(event) for event in poll])


@given(st.integers(8, 80), st.lists(events, min_size=1, max_size=4), st.booleans())
@settings(deadline=None, max_examples=50)
def test_a_ladder_of_thresholds_says_what_each_of_its_steps_says(count: int, poll: list[Any], keyed: bool) -> None:
    key = (AnyOf(Field("event", ("b",)), ("x",)),) if keyed else ()
    limits = [0, 1, Decimal("1.00000000000000000001"), 2**53, 2**53 + 1, *range(-3, count)]
    watchers = {
        f"w{n}": declared(n, AllOf((*key, Compare(op, Field("event", ("a",)), Const(limit)))))
        for n, (limit, op) in enumerate((limit, op) for limit in limits for op in (">", "<="))
    }
    if keyed:  # more than MOST_ASKED watchers of an event without `b` would be counted together
        poll = [event | {"b": "x"} if isinstance(event, dict) else {"b": "x"} for event in poll]
    check(FilterRouter(watchers.values(), max_body=5000), watchers, [encode(event) for event in poll])


fragments = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b'"', b":", b",", b'"a":', b'"a":1', b'"a":{"b":1}', b"1", b"1e999", b"null", b"true",
        b"NaN", b"\\u0000", b'"\\ud800"', b"\xc3\xa9", b"\xff", b" ", b"\x00", b"\xef\xbb\xbf", b"[" * 200, b"]" * 200,
        b"9" * 2000,
    ]
)  # fmt: skip
soup = st.binary(max_size=20) | st.lists(fragments, max_size=10).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    body = bytearray(encode(draw(events)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        body[at : at + draw(st.integers(0, 2))] = draw(soup)
    return bytes(body)


some: list[Expr | None] = [
    None,
    AnyOf(Field("event", ("a",)), (1, True)),
    AllOf((AnyOf(Field("event", ("a", "b")), (1,)), AnyOf(Field("event", ("c",)), ("x",)))),
]


@given(st.lists(soup | mutated(), max_size=8), st.integers(0, 3), st.booleans())
@settings(deadline=None, max_examples=200)
@example([b"\xef\xbb\xbf{}", b"[]"], 3, False)
def test_any_bytes_are_a_hit_a_fault_or_nothing_whatever_stands_beside_them(
    bodies: list[bytes], most: int, strict: bool
) -> None:
    router = FilterRouter([declared(n, c) for n, c in enumerate(some[:most])], max_body=2000, strict=strict)
    routed = router.route(poll_of(bodies))
    assert list(routed.hits) == sorted(routed.hits)
    assert list(routed.faults) == sorted(routed.faults)
    assert not routed.hits.keys() & routed.faults.keys()
    for index, body in enumerate(bodies):
        alone = router.route(Poll([], [body], [index]))
        assert (index in routed.faults, index in routed.hits) == (bool(alone.faults), bool(alone.hits))
        if index in routed.faults:
            assert routed.faults[index].reason == alone.faults[0].reason
            assert len(body) > 2000 or is_refused(body, strict)
        for record in routed.hits.get(index, ()):
            assert isinstance(record, Run)
            assert not isinstance(record, Reject)
            assert (record.body, record.payload) == (body, index)
            decode_whole(body, strict=strict)


def is_refused(body: bytes, strict: bool) -> bool:
    try:
        decode_whole(body, strict=strict)
    except DecodeFault:
        return True
    return False
