"""The router: which watchers match which events, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.core.model import Plan, Poll, Reject, Routed, Run
from bridge.filters.router import Declared, FilterRouter
from bridge.language.ir import AllOf, AnyOf, Field
from bridge.language.reading.match import compile_match
from bridge.params.plans import compile_params
from bridge.ports import Router

MAX_BODY = 1000
BOM = b"\xef\xbb\xbf"


def watcher(name: str, match: object, params: object = None) -> Declared:
    compiled = match if isinstance(match, AnyOf | AllOf) else None if match is None else compile_match(match)
    return Declared(Plan(name, "asset", "target", "job"), compiled, compile_params(params or {}))


def router(*matches: object, strict: bool = False) -> FilterRouter:
    return FilterRouter([watcher(f"w{n}", match) for n, match in enumerate(matches)], max_body=MAX_BODY, strict=strict)


def body_of(event: object) -> bytes:
    return event if isinstance(event, bytes) else json.dumps(event).encode()


def route(of: FilterRouter, *events: object) -> Routed:
    return of.route(Poll([], [body_of(event) for event in events], [f"p{n}" for n in range(len(events))]))


def names(routed: Routed) -> dict[int, list[str]]:
    return {
        index: [record.plan.watcher if isinstance(record, Run) else record.watcher for record in records]  # type: ignore[union-attr]
        for index, records in routed.hits.items()
    }


def is_match(match: object, event: object) -> bool:
    routed = route(router(match), event)
    assert not routed.faults
    return bool(routed.hits)


def reasons(routed: Routed) -> dict[int, str]:
    return {index: fault.reason for index, fault in routed.faults.items()}


# What a router is


def test_it_is_a_router_with_the_watchers_in_their_order() -> None:
    made: Router = router({"a": 1}, None)
    assert made.size == 2
    assert list(made.watchers) == ["w0", "w1"]


def test_a_poll_without_events_has_no_verdicts() -> None:
    assert route(router({"a": 1}, None)) == Routed()


def test_a_hit_becomes_a_run_with_the_bytes_that_came() -> None:
    declared = watcher("eu", {"region": "eu"}, {"order": "${event.id}", "fixed": 1})
    body = b'{"id":1.10, "region":"eu"}'
    routed = FilterRouter([declared], max_body=MAX_BODY).route(Poll([], [b"{}", body], ["p0", "p1"]))
    ((index, (run,)),) = routed.hits.items()
    assert isinstance(run, Run)
    assert index == 1
    assert (run.plan, run.payload, run.body, run.params, run.n) == (
        declared.plan,
        "p1",
        body,
        b'{"order":1.10,"fixed":1}',
        0,
    )


# Meaning


@pytest.mark.parametrize(
    ("match", "event", "verdict"),
    [
        ({"a": "x"}, {"a": "x", "b": 1}, True),
        ({"a": "x"}, {"a": "y"}, False),
        ({"a": ["x", "y"]}, {"a": "y"}, True),
        ({"a": ["x", "y"]}, {"a": "z"}, False),
        ({"a": "x", "b": 1}, {"a": "x", "b": 1}, True),
        ({"a": "x", "b": 1}, {"a": "x", "b": 2}, False),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 1}}}, True),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"d": 1}}}, False),
        # missing and null
        ({"a": "x"}, {}, False),
        ({"a": "x"}, {"a": None}, False),
        ({"a": {"b": 1}}, {"a": None}, False),
        ({"a": {"b": 1}}, {"b": 1}, False),
        ({"a": "x", "b": 1}, {"a": "x"}, False),
        # numbers and text
        ({"a": 1}, {"a": "1"}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 1.5}, {"a": "1.5"}, False),
        ({"a": 1}, b'{"a":1.0}', True),
        ({"a": 1.0}, b'{"a":1}', True),
        ({"a": 1}, b'{"a":10e-1}', True),
        ({"a": 0}, b'{"a":-0.0}', True),
        ({"a": 0.1}, b'{"a":1E-1}', True),
        # bools
        ({"a": True}, {"a": 1}, False),
        ({"a": True}, b'{"a":1.0}', False),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1.0}, {"a": True}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": False}, {"a": 0}, False),
        ({"a": True}, {"a": "true"}, False),
        ({"a": "true"}, {"a": True}, False),
        ({"a": True}, {"a": True}, True),
        ({"a": False}, {"a": False}, True),
        ({"a": [1, True]}, {"a": True}, True),
        ({"a": [1, True]}, {"a": 1}, True),
        ({"a": [2, True]}, {"a": 1}, False),
        # exactness
        ({"a": 2**53 + 1}, {"a": 2**53 + 1}, True),
        ({"a": 2**53 + 1}, {"a": 2**53}, False),
        ({"a": 2**53 + 1}, b'{"a":9007199254740992.0}', False),
        ({"a": 2**53}, b'{"a":9007199254740992.0}', True),
        ({"a": float(2**53)}, {"a": 2**53 + 1}, False),
        ({"a": 2**70}, {"a": 2**70}, True),
        ({"a": 2**70}, {"a": 2**70 + 1}, False),
        ({"a": -(2**63) - 1}, {"a": -(2**63) - 1}, True),
        # text is compared by code point
        ({"a": "é"}, b'{"a":"\\u00e9"}', True),
        ({"a": "é"}, {"a": "e\u0301"}, False),
        ({"a": "X"}, {"a": "x"}, False),
        ({"a": "😀"}, b'{"a":"\\ud83d\\ude00"}', True),
        # lists, objects and what is no object
        ({"a": 1}, {"a": [1]}, False),
        ({"a": 1}, {"a": {"a": 1}}, False),
        ({"a": {"b": 1}}, {"a": "b"}, False),
        ({"a": {"b": 1}}, {"a": 1}, False),
        ({"a": {"b": 1}}, {"a": True}, False),
        ({"a": {"b": 1}}, {"a": [{"b": 1}]}, False),
        ({"a": {"b": 1}, "c": 1}, {"a": 2**70, "c": 1}, False),
        ({"a": 1}, [1], False),
        ({"a": 1}, [{"a": 1}], False),
        ({"a": 1}, "a", False),
        ({"a": 1}, 1, False),
        ({"a": 1}, None, False),
        ({"a": 1}, True, False),
        # duplicate keys: the last
        ({"a": 1}, b'{"a":2,"a":1}', True),
        ({"a": 1}, b'{"a":1,"a":2}', False),
        ({"a": {"b": 1}}, b'{"a":{"b":1},"a":{"c":1}}', False),
        ({"a": {"b": 1}}, b'{"a":{"b":1},"a":3}', False),
        ({"a": {"b": 1}}, b'{"a":3,"a":{"b":1}}', True),
        # a mark in front
        ({"a": 1}, BOM + b'{"a":1}', True),
        ({"a": 2}, BOM + b'{"a":1}', False),
        # escaped names
        ({"ab": 1}, b'{"a\\u0062":1}', True),
    ],
)
def test_a_filter_means_what_is_written_down(match: object, event: object, verdict: bool) -> None:
    assert is_match(match, event) is verdict
    # ... and the same among others, some of another shape
    others = [{"a": "else"}, {"zz": 1, "a": "else"}, {"zz": {"y": 1}}]
    assert bool(names(route(router(*others, match), event))) is verdict


@pytest.mark.parametrize(
    "name",
    ["__class__", "__init__", "f0", "f1", "a b", "a.b", "", "größe", "class", "a-b", "0", "$", "__struct_fields__"],
)
def test_a_field_may_have_any_name(name: str) -> None:
    match = {name: "x", "f0": "y"} if name != "f0" else {name: "x"}
    event = {"f0": "y", name: "x"}
    assert is_match(match, event)
    assert not is_match(match, {**event, name: "z"})
    assert is_match({"in": match}, {"in": event})


def test_a_field_can_be_compared_itself_and_looked_into() -> None:
    of = router({"a": "x"}, {"a": {"b": 1}}, {"a": {"b": {"c": 2}}})
    routed = route(of, {"a": "x"}, {"a": {"b": 1}}, {"a": {"b": {"c": 2}}}, {"a": None}, {})
    assert names(routed) == {0: ["w0"], 1: ["w1"], 2: ["w2"]}


def test_every_event_matches_a_watcher_without_a_match_objects_or_not() -> None:
    of = router(None, {"a": 1})
    routed = route(of, {"a": 1}, {}, [1], "x", b"null", b"{")
    assert names(routed) == {0: ["w0", "w1"], 1: ["w0"], 2: ["w0"], 3: ["w0"], 4: ["w0"]}
    assert reasons(routed) == {5: "malformed"}
    assert names(route(router(AllOf(())), 1)) == {0: ["w0"]}


def test_a_router_where_every_event_matches_still_proves_each_one() -> None:
    routed = route(router(None), {"a": 1}, b'{"a":1e999}', b"\xff", b"")
    assert names(routed) == {0: ["w0"]}
    assert reasons(routed) == {1: "number", 2: "encoding", 3: "malformed"}


# Order


def test_records_of_an_event_come_in_the_order_of_the_watchers() -> None:
    of = router({"b": 1}, None, {"a": 1}, {"a": 1, "b": 1}, {"b": [1, 2]}, {"c": 9}, {"a": 1}, None)
    assert names(route(of, {"a": 1, "b": 1})) == {0: ["w0", "w1", "w2", "w3", "w4", "w6", "w7"]}


def test_hits_and_faults_ascend_by_index() -> None:
    of = router({"b": 1}, {"a": 1}, {"a": 1, "b": 1})
    bad_late = b'{"a":1,"x":1e999}'
    events = [bad_late, {"b": 1}, b"{", {"a": 1}, b"\xff", {"b": 1}, bad_late, b"x" * 2000, {"a": 1, "b": 1}]
    routed = route(of, *events)
    assert list(routed.hits) == [1, 3, 5, 8]
    assert list(routed.faults) == [0, 2, 4, 6, 7]


# Many values


def test_more_values_than_keys_are_kept_still_match_exactly() -> None:
    wide = {"a": list(range(70)), "b": [f"v{n}" for n in range(80)], "c": ["x", "y"], "d": [True, "q"]}
    of = router(wide, {"a": 69})
    event = {"a": 69, "b": "v79", "c": "y", "d": True}
    assert names(route(of, event)) == {0: ["w0", "w1"]}
    for change in (
        {"a": 70},
        {"a": "69"},
        {"b": "v80"},
        {"b": 79},
        {"b": ["v79"]},
        {"b": None},
        {"c": "z"},
        {"d": 1},
        {"d": False},
    ):
        assert "w0" not in names(route(of, {**event, **change})).get(0, [])


def test_a_field_left_to_be_checked_may_be_missing_or_lead_through_what_is_no_object() -> None:
    of = router({"a": list(range(40)), "b": {"c": list(range(41))}})
    assert names(route(of, {"a": 1, "b": {"c": 2}})) == {0: ["w0"]}
    for event in ({"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": {"c": {}}}, {"a": 1, "b": [2]}, {"a": 1, "b": {}}):
        assert names(route(of, event)) == {}


def test_a_watcher_is_found_once_however_many_of_its_values_are_alike() -> None:
    of = FilterRouter([watcher("w", AnyOf(Field("event", ("a",)), (1, True, 0, False)))], max_body=MAX_BODY)
    for value in (1, True, 0, False, 1.0):
        assert names(route(of, {"a": value})) == {0: ["w"]}


def test_ten_thousand_watchers_of_one_shape_are_told_apart() -> None:
    of = router(*({"tenant": f"t{n}"} for n in range(10_000)))
    assert names(route(of, {"tenant": "t9999"}, {"tenant": "t10000"}, {"tenant": "t0"})) == {0: ["w9999"], 2: ["w0"]}


# Params


def test_a_field_that_params_lack_rejects_for_that_watcher_only() -> None:
    of = FilterRouter(
        [
            watcher("a", {"t": 1}, {"x": "${event.x}"}),
            watcher("b", {"t": 1}),
            watcher("c", None, {"x": "${event.c.d}"}),
        ],
        max_body=MAX_BODY,
    )
    body = b'{"t":1,"c":null}'
    (records,) = of.route(Poll([], [body], ["p"])).hits.values()
    first, second, third = records
    assert isinstance(first, Reject)
    assert (first.watcher, first.payload, first.body, first.reason, first.attempts) == ("a", "p", body, "params", 0)
    assert first.error == "event.x: the event has no `event.x`"
    assert isinstance(second, Run)
    assert isinstance(third, Reject)
    assert "`event.c` is null" in third.error


# Faults


def test_bodies_that_can_not_be_read_are_faults_of_their_own_kind() -> None:
    too_big = json.dumps({"x": "y" * MAX_BODY}).encode()
    bodies = [
        b"",
        b"{",
        b"\xff",
        b'{"x":"\xff"}',
        "{}".encode("utf-16"),
        b"[" * 500_000,
        too_big,
        b'{"a":1e999}',
        b'{"a":"\\ud800"}',
    ]
    wide = FilterRouter([watcher("w", {"a": 1})], max_body=600_000)
    assert reasons(route(router({"a": 1}), *bodies[:5], *bodies[6:])) == {
        0: "malformed", 1: "malformed", 2: "encoding", 3: "encoding", 4: "encoding", 5: "too_big", 6: "number",
        7: "encoding",
    }  # fmt: skip
    assert reasons(route(wide, bodies[5])) == {0: "too_deep"}


def test_a_body_of_exactly_the_largest_size_is_read() -> None:
    body = b'{"a":1}'.ljust(MAX_BODY)
    assert names(route(router({"a": 1}), body)) == {0: ["w0"]}
    routed = route(router({"a": 1}), body + b" ")
    assert reasons(routed) == {0: "too_big"}
    assert "1001 bytes" in routed.faults[0].error
    assert "1000B" in routed.faults[0].error


def test_a_body_that_is_too_big_is_not_even_decoded() -> None:
    for match in (None, {"a": 1}):
        routed = route(router(match), b"\xff" * (MAX_BODY + 1), b'{"a":1}'.ljust(MAX_BODY))
        assert reasons(routed) == {0: "too_big"}
        assert names(routed) == {1: ["w0"]}


def test_invalid_utf8_is_found_where_nothing_matches_and_in_fields_that_nobody_reads() -> None:
    assert reasons(route(router({"a": 1}), {"a": 2}, b'{"a":2,"x":"\xff"}', "é".encode())) == {
        1: "encoding",
        2: "malformed",
    }
    assert reasons(route(router({"a": 1}), {"a": 2}, b'{"\xff":1}')) == {1: "encoding"}


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (b'"x":1e999', "number"),
        (b'"x":' + b"9" * 4400, "number"),
        (b'"x":"\\u0000"', "nul"),
        (b'"x":' + b"[" * 100 + b"]" * 100, "too_deep"),
    ],
)
def test_an_event_that_matches_is_proved_whole_before_anything_comes_of_it(rest: bytes, reason: str) -> None:
    of = FilterRouter([watcher("w0", {"a": 1}), watcher("w1", {"a": 1})], max_body=10_000)
    routed = route(of, b'{"a":1,' + rest + b"}", b'{"a":2,' + rest + b"}")
    assert routed.hits == {}
    assert reasons(routed) == {0: reason}


def test_one_bad_body_changes_nothing_for_the_others_of_its_poll() -> None:
    of = router({"a": 1})
    for bad in (b"{", b"\xff", b"x" * 2000, b"", b'{"a":1', b'{"a":1e999}'):
        routed = route(of, {"a": 1}, bad, {"a": 1}, bad, bad, {"a": 2}, {"a": 1})
        assert names(routed) == {0: ["w0"], 2: ["w0"], 6: ["w0"]}
        assert list(routed.faults) == [1, 3, 4]


# Strict


def test_a_strict_router_refuses_duplicate_keys_in_events_that_match_nothing_too() -> None:
    events: Sequence[Any] = (
        b'{"a":2,"x":{"y":1,"y":1}}',
        b'{"a":1,"x":1,"x":1}',
        {"a": 1},
        BOM + b'{"a":1}',
        {"a": 2},
        [1],
    )
    routed = route(router({"a": 1}, strict=True), *events)
    assert reasons(routed) == {0: "duplicate_key", 1: "duplicate_key"}
    assert names(routed) == {2: ["w0"], 3: ["w0"]}
    assert names(route(router({"a": 1}), *events)) == {1: ["w0"], 2: ["w0"], 3: ["w0"]}
    assert reasons(route(router(None, strict=True), *events)) == {0: "duplicate_key", 1: "duplicate_key"}


# Without watchers


def test_without_watchers_only_size_and_encoding_are_looked_at() -> None:
    routed = route(router(), {"a": 1}, b"\xff", b"{", b"x" * 2000, "{}".encode("utf-16-le"))
    assert routed.hits == {}
    assert reasons(routed) == {1: "encoding", 3: "too_big"}
