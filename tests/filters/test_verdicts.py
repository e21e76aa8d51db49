"""Beyond match or no match: `reject`, `on_error`, missing fields, tags and keys, and what is beside a body."""

from __future__ import annotations

import base64
import itertools
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from bridge.core.model import Context, Meta, Outcome, Plan, Poll, Reject, Routed, Run
from bridge.decode.decoder import decoder_of
from bridge.decode.options import Decoding
from bridge.filters.router import Declared, FilterRouter
from bridge.language.reading.parse import compile_when
from bridge.params.plans import compile_key, compile_params, compile_tags


def watcher(
    when: str | None,
    *,
    name: str = "w",
    params: dict[str, Any] | None = None,
    reject: str | None = None,
    on_error: Any = "no_match",
    tags: dict[str, Any] | None = None,
    key: str | None = None,
) -> Declared:
    return Declared(
        Plan(name, "asset", "target", "job", key_ttl=60.0 if key else None),
        None if when is None else compile_when(when),
        compile_params(params or {}),
        None if reject is None else compile_when(reject),
        on_error,
        None if tags is None else compile_tags(tags),
        None if key is None else compile_key(key),
    )


def meta(**more: Any) -> Callable[[Any], Meta]:
    return lambda payload: Meta(position=f"lane at {payload}", **more)


def route(
    of: FilterRouter, *events: object, describe: Callable[[Any], Meta] | None = None, now: float = 1_700_000_000.0
) -> Routed:
    bodies = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    return of.route(Poll([], bodies, list(range(len(bodies)))), Context("orders", describe or meta(), now))


def router(*watchers: Declared, **options: Any) -> FilterRouter:
    return FilterRouter(watchers, max_body=100_000, **options)


def only(routed: Routed) -> Any:
    (record,) = routed.records
    return record


# Counting ------------------------------------------------------------------------------------------------------------


def test_a_missing_field_is_no_match_and_counted() -> None:
    of = router(watcher("event.amount > 100"))
    assert not route(of, {}, {"amount": None}, {"amount": 5}).records
    assert of.outcomes() == {"w": Outcome(missing=2)}


def test_an_error_is_no_match_and_counted_and_told_without_the_value() -> None:
    of = router(watcher('event.region == "eu"'))
    assert not route(of, {"region": 4711}).records
    outcome = of.outcomes()["w"]
    assert outcome.errors == 1
    assert "event.region" in outcome.last_error
    assert "4711" not in outcome.last_error


def test_an_error_is_a_dead_letter_where_the_watcher_asks_for_it() -> None:
    of = router(watcher('event.region == "eu"', on_error="reject"), watcher('event.region == "eu"', name="other"))
    routed = route(of, {"region": "eu"}, {"region": 1})
    assert [type(r) for r in routed.records] == [Run, Run, Reject]
    reject = routed.records[2]
    assert isinstance(reject, Reject)
    assert (reject.watcher, reject.reason, reject.body) == ("w", "filter_error", b'{"region": 1}')
    assert list(routed.refused) == [1]
    assert of.outcomes()["w"] == Outcome(1, 0, 1, 1, of.outcomes()["w"].last_error)


def test_false_and_error_is_false() -> None:
    of = router(watcher('event.kind == "a" && event.region == "eu"', on_error="reject"))
    assert not route(of, {"kind": "b", "region": 1}).records
    assert of.outcomes() == {}


def test_ten_thousand_watchers_are_counted_for_an_event_that_lacks_their_key() -> None:
    of = router(*(watcher(f'event.tenant == "t{n}"', name=f"w{n}") for n in range(10_000)))
    route(of, {}, {"tenant": None}, {"tenant": 5})
    outcomes = of.outcomes()
    assert len(outcomes) == 10_000
    assert {(o.missing, o.errors) for o in outcomes.values()} == {(2, 1)}


def test_one_of_many_that_wants_to_know_of_errors_gets_its_dead_letter() -> None:
    many = [watcher(f'event.tenant == "t{n}"', name=f"w{n}") for n in range(1000)]
    of = router(*many, watcher('event.tenant == "x"', name="strict", on_error="reject"))
    assert only(route(of, {"tenant": 5})).watcher == "strict"
    assert {o.errors for o in of.outcomes().values()} == {1}


def thresholds(count: int, also: str = "") -> list[Declared]:
    """Enough watchers of one field that they are kept in order of their limits."""
    return [watcher(f"event.a > {n}{also}", name=f"w{n}") for n in range(count)]


@pytest.mark.parametrize("also", ["", ' && key == "k"'])
def test_of_an_event_that_nobody_can_read_nothing_is_counted(also: str) -> None:
    of = router(*thresholds(20, also))
    routed = route(of, {"a": -1}, b'{"a": 1,}', b"", describe=meta(key=b"k"))
    assert list(routed.faults) == [1, 2]
    assert of.outcomes() == {}


def test_a_field_that_is_missing_is_no_error_where_others_ask_for_what_is_below_it() -> None:
    of = router(*thresholds(20), watcher('event.a.b == "x"'))
    route(of, {}, [], {"a": {"b": "y"}})
    assert {(o.missing, o.errors) for name, o in of.outcomes().items() if name != "w"} == {(2, 1)}


WIDE = tuple(f"f{n}" for n in range(6))


def wide(name: str, values: tuple[str, ...], on_error: str = "no_match") -> Declared:
    parts = (f'event.{field} == "{value}"' for field, value in zip(WIDE, values, strict=True))
    return watcher(" && ".join(parts), name=name, on_error=on_error)


@pytest.mark.parametrize("count", [2, 100])
def test_every_way_to_lack_fields_is_counted_for_those_that_the_rest_fits(count: int) -> None:
    of = router(*(wide(f"w{n}", ("x",) * 6) for n in range(count)), wide("other", ("y",) * 6, "reject"))
    of.add(wide("gone", ("x",) * 6))
    for there in itertools.product((False, True), repeat=6):
        route(of, {field: "x" for field, is_there in zip(WIDE, there, strict=True) if is_there})
    of.remove("gone")
    route(of, {"f0": "x", "f1": "x", "f3": 5})
    outcomes = of.outcomes()
    assert {outcomes[f"w{n}"].missing for n in range(count)} == {63}
    assert {outcomes[f"w{n}"].errors for n in range(count)} == {1}
    assert (outcomes["gone"].missing, outcomes["gone"].errors) == (63, 0)
    assert (outcomes["other"].missing, outcomes["other"].errors) == (1, 0)


def test_the_ways_to_lack_fields_take_no_more_room_than_a_few() -> None:
    of = router(*(wide(f"w{n}", tuple(f"{n}{field}" for field in WIDE)) for n in range(200)))
    polls = [{field: f"7{field}" for n, field in enumerate(WIDE) if way >> n & 1} for way in range(1, 63)]
    for event in polls[:20]:
        route(of, event)
    tracemalloc.start()
    for event in polls[20:]:
        route(of, event)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 200_000


def test_what_was_counted_stays_when_a_watcher_is_disabled_and_enabled() -> None:
    of = router(watcher('event.a == "x"'))
    route(of, {"a": "x"}, {})
    of.disable("w")
    assert not route(of, {"a": "x"}).records
    of.enable("w")
    route(of, {"a": "x"})
    assert of.outcomes() == {"w": Outcome(matched=2, missing=1)}


def test_a_router_is_heavy_while_some_watcher_walks_a_list() -> None:
    of = router(watcher("event.a == 1"), watcher("event.l.exists(i, i > 1)", name="walks"))
    assert of.is_heavy
    of.disable("walks")
    assert not of.is_heavy


@pytest.mark.parametrize(
    "when",
    [
        'event.a == "x" || event.a == "x"',
        'event.a == "x" || (event.a == "x" && event.b > 0)',
        '(event.a == "x" && event.b > 0) || event.a == "x"',
        'meta.stream == "orders" || meta.stream == "orders"',
        'event.a.startsWith("x") || event.a.startsWith("x")',
    ],
)
def test_a_watcher_whose_alternatives_have_one_key_runs_once(when: str) -> None:
    assert isinstance(only(route(router(watcher(when)), {"a": "x", "b": 1})), Run)


# Reject --------------------------------------------------------------------------------------------------------------


def test_what_a_watcher_takes_and_rejects_is_its_dead_letter() -> None:
    of = router(watcher('event.region == "eu"', reject="event.amount < 0"))
    records = route(of, {"region": "eu", "amount": 1}, {"region": "eu", "amount": -1}, {"region": "us", "amount": -1})
    run, reject = records.records
    assert isinstance(run, Run)
    assert (reject.reason, reject.error) == ("rejected", "`reject` holds, which asks for event.amount")
    assert records.places == [0, 1]


def test_what_can_not_be_rejected_for_lack_of_a_field_runs() -> None:
    assert isinstance(only(route(router(watcher(None, reject="event.amount < 0")), {})), Run)


@pytest.mark.parametrize(("on_error", "records"), [("no_match", []), ("reject", ["filter_error"])])
def test_an_error_of_reject_is_an_error_of_the_watcher(on_error: str, records: list[str]) -> None:
    of = router(watcher(None, reject="event.amount < 0", on_error=on_error))
    assert [r.reason for r in route(of, {"amount": "many"}).records] == records  # type: ignore[union-attr]
    assert of.outcomes()["w"].errors == 1
    assert of.outcomes()["w"].matched == 0


# What a message has beside its body ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "more"),
    [
        ('headers.tenant == "acme"', {"headers": (("tenant", b"acme"),)}),
        ('attributes["content-type"] == "x"', {"headers": (("content-type", b"y"), ("content-type", b"x"))}),
        ('key == "k1"', {"key": b"k1"}),
        ("meta.delivery_attempt > 1", {"delivery_attempt": 2}),
        ('meta.stream == "orders" && meta.position == "lane at 0"', {}),
        ('meta.lane == "0" && meta.message_id == "m"', {"lane": "0", "message_id": "m"}),
        ('meta.timestamp < timestamp("2026-01-01T00:00:00Z")', {"timestamp": 1_700_000_000.0}),
        ('now - meta.timestamp > duration("10s")', {"timestamp": 1_699_999_989.0}),
    ],
)
def test_a_condition_may_ask_of_the_message(when: str, more: dict[str, Any]) -> None:
    of = router(watcher(when))
    assert isinstance(only(route(of, {}, describe=meta(**more))), Run)
    assert not route(of, {}, describe=lambda _: Meta("")).records


def test_a_header_that_is_no_text_is_an_error_outcome() -> None:
    of = router(watcher('headers.h == "a"'))
    assert not route(of, {}, describe=meta(headers=(("h", b"\xff\xfe"),))).records
    assert of.outcomes()["w"].errors == 1


def test_params_tags_and_key_are_made_of_the_whole_message() -> None:
    made = watcher(
        None,
        params={"at": "${meta.position}", "n": "${event.n + 1}", "text": "order ${event.n} of ${headers.h}"},
        tags={"tenant": "${headers.h}", "static": True},
        key="${event.n}-${key}",
    )
    run = only(route(router(made), {"n": 1}, describe=meta(headers=(("h", b"acme"),), key=b"k")))
    assert json.loads(run.params) == {"at": "lane at 0", "n": 2, "text": "order 1 of acme"}
    assert json.loads(run.tags) == {"tenant": "acme", "static": True}
    assert run.key == "1-k"


@pytest.mark.parametrize(
    "part", [{"tags": {"t": "${event.x}"}}, {"key": "${event.x}"}, {"params": {"p": "${event.x}"}}]
)
def test_what_can_not_be_made_of_an_event_is_a_dead_letter(part: dict[str, Any]) -> None:
    reject = only(route(router(watcher(None, **part)), {}))
    assert (reject.watcher, reject.reason) == ("w", "params")
    assert "event.x" in reject.error


# Other formats than JSON ---------------------------------------------------------------------------------------------


def decoded(**options: Any) -> dict[str, Any]:
    return {"decoder": decoder_of(Decoding(**options), max_body=100_000, read=lambda _: b"")}


def test_a_wrapped_body_is_filtered_by_what_is_in_it_and_kept_as_it_came() -> None:
    of = router(watcher('event.region == "eu"', params={"n": "${event.n}"}), **decoded(wrappers=("base64",)))
    body = base64.b64encode(b'{"region":"eu","n":1.10}')
    routed = route(of, body, b"!", base64.b64encode(b'{"region":"us"}'))
    run = only(routed)
    assert (run.params, run.body) == (b'{"n":1.10}', body)
    assert {index: fault.reason for index, fault in routed.faults.items()} == {1: "encoding"}


RECORDS = {"Records": [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"n": n}} for n in range(3)]}


def test_a_message_of_several_events_makes_a_run_for_each_that_matches() -> None:
    of = router(watcher("event.s3.n > 0", params={"n": "${event.s3.n}"}), **decoded(unwrap=("s3",)))
    routed = route(of, {"Event": "s3:TestEvent", "Service": "Amazon S3"}, RECORDS, {"no": "records"})
    assert [(r.n, r.params, r.payload) for r in routed.records] == [(1, b'{"n":1}', 1), (2, b'{"n":2}', 1)]  # type: ignore[union-attr]
    assert routed.places == [1, 1]
    assert sum(of.ignored.values()) == 1
    assert of.outcomes()["w"].missing == 1  # the one that is no notification of S3


def test_a_message_of_several_events_is_one_dead_letter_for_a_watcher() -> None:
    of = router(watcher(None, params={"n": "${event.nothing}"}), **decoded(unwrap=("s3",)))
    routed = route(of, RECORDS)
    assert [type(record) for record in routed.records] == [Reject]
    assert (list(routed.refused), routed.places) == ([0], [0])


def test_attributes_of_an_envelope_are_its_headers() -> None:
    of = router(watcher('headers.tenant == "acme" && event.n == 1'), **decoded(unwrap=("sns",)))
    envelope = {
        "Type": "Notification",
        "TopicArn": "arn:aws:sns:eu-west-1:1:t",
        "MessageId": "m",
        "Message": '{"n": 1}',
        "MessageAttributes": {"tenant": {"Type": "String", "Value": "acme"}},
    }
    assert isinstance(only(route(of, envelope)), Run)


# Events that are no strict JSON, and that somebody looks into before it shows ----------------------------------------

LOOKING = [
    "event.a + 1 > 5",
    "event.l[0] == 1",
    "(event.b ? event.a : 2) == 1",
    "event.a in event.l",
    "event.l.exists(i, i > 1)",
    'event.a in ["x", 5]',
    "event.l == [1]",
]


@pytest.mark.parametrize("when", LOOKING)
@pytest.mark.parametrize("number", ["9" * 5000, "1e99999999999999999999", "-1e999999999999999999999"])
def test_a_number_that_nobody_can_read_is_a_fault_whoever_looks_at_it(when: str, number: str) -> None:
    of = router(watcher(when, on_error="reject"), watcher('event.k == "x"', name="other"))
    bad = f'{{"a": [1], "b": {number}, "l": [1, {number}], "k": "x"}}'.encode()
    routed = route(of, bad, {"k": "x"})
    assert routed.faults[0].reason == "number"
    assert 0 not in routed.hits
    assert [type(record) for record in routed.hits[1]] == [Run]


@pytest.mark.parametrize("when", LOOKING)
def test_a_number_too_small_for_any_is_nought(when: str) -> None:
    of = router(watcher(when))
    tiny = "1e-99999999999999999999"
    assert not route(of, f'{{"a": {tiny}, "b": true, "l": [{tiny}], "k": "x"}}'.encode()).faults
