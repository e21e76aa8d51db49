"""The index says what evaluating every watcher would say, and no bytes get past the router with an exception."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.core.model import Plan, Poll, Run
from bridge.decode.json import DecodeFault, decode_whole
from bridge.filters.ir import AllOf, AnyOf
from bridge.filters.params import compile_params
from bridge.filters.router import Declared, FilterRouter

# Few names and few values, so that watchers and events meet; the values that are easily taken for one another.
names = st.sampled_from(["a", "b", "c", "f0", "__class__"])
paths = st.lists(names, min_size=1, max_size=3).map(tuple)
literals = st.sampled_from(
    [0, 1, True, False, 1.0, 0.5, "", "0", "1", "true", "x", 2**53, 2**53 + 1, float(2**53), 2**70, -1]
)


def strictly_different(values: list[Any]) -> list[Any]:
    return list({(isinstance(value, bool), value): value for value in values}.values())


few = st.lists(literals, min_size=1, max_size=4).map(strictly_different)
many = st.integers(60, 70).map(lambda count: ["x", True, 1, *range(2, count)])
parts = st.builds(lambda path, values: AnyOf(path, tuple(values)), paths, few | few | many)
filters = st.none() | st.lists(parts, min_size=1, max_size=4, unique_by=lambda part: part.path).map(
    lambda p: AllOf(tuple(p))
)

leaves = literals | st.none()
objects = st.recursive(
    st.dictionaries(names, leaves, max_size=5),
    lambda inner: st.dictionaries(names, leaves | inner | st.lists(inner, max_size=2), max_size=5),
    max_leaves=12,
)
events = objects | objects | objects | leaves | st.lists(objects, max_size=2)


def holds(match: AllOf | None, document: Any) -> bool:
    """The meaning of a filter, as plainly as it can be written."""
    return match is None or all(part_holds(part, document) for part in match.parts)


def part_holds(part: AnyOf, value: Any) -> bool:
    for name in part.path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    if not isinstance(value, (str, int, float)):
        return False
    return any(value == literal and isinstance(value, bool) == isinstance(literal, bool) for literal in part.values)


def router_of(matches: list[AllOf | None], strict: bool = False) -> FilterRouter:
    declared = [Declared(Plan(f"w{n}", "a", "t", "j"), match, compile_params({})) for n, match in enumerate(matches)]
    return FilterRouter(declared, max_body=2000, strict=strict)


@given(st.lists(filters, max_size=12), st.lists(events, max_size=8), st.booleans())
@settings(deadline=None, max_examples=200)
def test_the_index_finds_what_evaluating_every_watcher_finds(
    matches: list[AllOf | None], poll: list[Any], strict: bool
) -> None:
    bodies = [json.dumps(event).encode() for event in poll]
    routed = router_of(matches, strict).route(Poll([], bodies, list(range(len(bodies)))))
    assert not routed.faults
    found = {index: [r.plan.watcher for r in records if isinstance(r, Run)] for index, records in routed.hits.items()}
    expected = {
        index: [f"w{n}" for n, match in enumerate(matches) if holds(match, json.loads(body))]
        for index, body in enumerate(bodies)
    }
    assert found == {index: watchers for index, watchers in expected.items() if watchers}
    assert list(found) == sorted(found)


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
    body = bytearray(json.dumps(draw(events)).encode())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        body[at : at + draw(st.integers(0, 2))] = draw(soup)
    return bytes(body)


some = [None, AllOf((AnyOf(("a",), (1, True)),)), AllOf((AnyOf(("a", "b"), (1,)), AnyOf(("c",), ("x",))))]


@given(st.lists(soup | mutated(), max_size=8), st.integers(0, 3), st.booleans())
@settings(deadline=None, max_examples=200)
def test_any_bytes_are_a_hit_a_fault_or_nothing_whatever_stands_beside_them(
    bodies: list[bytes], most: int, strict: bool
) -> None:
    router = router_of(some[:most], strict)
    routed = router.route(Poll([], bodies, list(range(len(bodies)))))
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
            assert (record.body, record.payload) == (body, index)
            decode_whole(body, strict=strict)


def is_refused(body: bytes, strict: bool) -> bool:
    try:
        decode_whole(body, strict=strict)
    except DecodeFault:
        return True
    return False
