"""Messages without a body, and headers that are null: told from `null`, from empty, and from what is not there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from bridge.core.model import TOMBSTONE, Context, Meta, Outcome, Plan, Poll, Reject, Routed, Run, Tombstone
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.options import Decoding
from bridge.filters.events import opened_whole
from bridge.filters.router import Declared, FilterRouter
from bridge.language.reading.parse import compile_when
from bridge.params.plans import compile_params

NORMAL = b'{"op":"c"}'
STREAM: tuple[tuple[bytes, bytes | None], ...] = (
    (TOMBSTONE, b"k-1"), (NORMAL, b"k-1"),
    (TOMBSTONE, None), (NORMAL, None),
    (b"null", b"k-2"), (NORMAL, b"k-2"),
    (b"", b"k-3"), (NORMAL, b"k-3"),
)  # fmt: skip
"""Bodies with their keys: each that is odd, and a normal one behind it."""


def watcher(when: str | None, name: str = "w", **more: Any) -> Declared:
    params = compile_params({"deleted": "${meta.tombstone}", "key": '${default(key, "none")}'})
    return Declared(Plan(name, "a", "t", "j"), None if when is None else compile_when(when), params, **more)


def routed(
    *watchers: Declared, decoder: Decoder | None = None, strict: bool = False, order: Sequence[int] = range(len(STREAM))
) -> tuple[Routed, FilterRouter]:
    metas = [Meta(str(n), key=key, tombstone=type(body) is Tombstone) for n, (body, key) in enumerate(STREAM)]
    of = FilterRouter(watchers, max_body=1000, decoder=decoder, strict=strict)
    poll = Poll([], [STREAM[n][0] for n in order], [metas[n] for n in order])
    return of.route(poll, Context("s", lambda meta: meta, 1.0)), of


def made(decoding: Decoding) -> Decoder | None:
    return decoder_of(decoding, max_body=1000, read=lambda path: path.encode())


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("decoding", [Decoding(), Decoding(unwrap=("sns",)), Decoding("cloudevents")])
def test_a_watcher_of_everything_takes_tombstones_null_and_what_lies_behind(decoding: Decoding, strict: bool) -> None:
    found, _ = routed(watcher(None), decoder=made(decoding), strict=strict)
    runs = {place: json.loads(run.params) for place, run in zip(found.places, found.records, strict=True)}  # type: ignore[union-attr]
    assert runs == {
        0: {"deleted": True, "key": "k-1"},
        1: {"deleted": False, "key": "k-1"},
        2: {"deleted": True, "key": "none"},
        3: {"deleted": False, "key": "none"},
        4: {"deleted": False, "key": "k-2"},
        5: {"deleted": False, "key": "k-2"},
        7: {"deleted": False, "key": "k-3"},
    }
    assert {index: fault.reason for index, fault in found.faults.items()} == {6: "malformed"}


@pytest.mark.parametrize("when", ['event.op == "c"', 'event.op != "d"', "event.op.startsWith('c')", "has(event.op)"])
def test_a_condition_on_fields_takes_neither_a_tombstone_nor_null(when: str) -> None:
    found, of = routed(watcher(when))
    assert found.places == [1, 3, 5, 7]
    assert of.outcomes()["w"].missing == (0 if when.startswith("has") else 3)
    assert of.outcomes()["w"].errors == 0


def test_tombstones_alone_can_be_asked_for() -> None:
    assert routed(watcher("meta.tombstone"))[0].places == [0, 2]
    assert routed(watcher("meta.tombstone == true && key == 'k-1'"))[0].places == [0]
    assert routed(watcher("!meta.tombstone && !has(event.op)"))[0].places == [4]


def test_a_poll_of_matches_only_is_read_whole_and_a_tombstone_in_it_is_still_one() -> None:
    of = FilterRouter([watcher("event.op == 'c'"), watcher("meta.tombstone", "gone")], max_body=1000)
    for body, runs in ((NORMAL, 40), (NORMAL, 40), (TOMBSTONE, 40)):
        poll = Poll([], [body] * 40, [Meta("x", tombstone=body is TOMBSTONE)] * 40)
        assert len(of.route(poll, Context("s", lambda meta: meta, 1.0)).records) == runs


def test_a_tombstone_that_is_refused_keeps_its_body_as_it_is() -> None:
    found, _ = routed(watcher(None, reject=compile_when("meta.tombstone")), order=[0])
    (reject,) = found.records
    assert isinstance(reject, Reject)
    assert reject.body is TOMBSTONE


def test_a_binary_decoder_has_nothing_to_say_of_a_tombstone() -> None:
    found, _ = routed(watcher(None), decoder=made(Decoding("msgpack", wrappers=("gzip",))), order=[0, 4, 6])
    assert found.places == [0]
    assert sorted(found.faults) == [1, 2]
    run = found.records[0]
    assert isinstance(run, Run)
    assert run.body is TOMBSTONE


@pytest.mark.parametrize("decoding", [Decoding(), Decoding("text"), Decoding("cloudevents"), Decoding("msgpack")])
def test_a_filter_in_python_gets_none(decoding: Decoding) -> None:
    context = Context("s", lambda _: Meta("x", tombstone=True))
    (opened,) = opened_whole(TOMBSTONE, None, context, made(decoding))
    assert opened.event is None
    assert opened.view["event"] is None
    assert opened.view["meta"]["tombstone"] is True


# Null headers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("when", "null", "empty", "absent"),
    [
        ("headers.h == ''", None, True, None),
        ("headers.h != 'x'", None, True, None),
        ("has(headers.h)", False, True, False),
        ("!has(headers.h)", True, False, True),
        ("default(headers.h, 'x') == 'x'", True, False, True),
        ("'h' in headers", True, True, False),
        ("size(headers.h) == 0", None, True, None),
    ],
)
def test_a_null_header_is_null_and_told_from_an_empty_one(
    when: str, null: bool | None, empty: bool | None, absent: bool | None
) -> None:
    for headers, truth in (((("h", None),), null), ((("h", b""),), empty), ((), absent)):
        of = FilterRouter([watcher(when)], max_body=1000)
        found = of.route(Poll([], [NORMAL], [Meta("x", headers=headers)]), Context("s", lambda meta: meta, 1.0))
        assert len(found.records) == (truth is True)
        assert of.outcomes().get("w", Outcome()).missing == (truth is None)


def test_of_a_header_that_is_there_twice_the_last_counts_if_it_is_null() -> None:
    headers = (("h", b"x"), ("h", None))
    of = FilterRouter([watcher("headers.h == 'x'")], max_body=1000)
    of.route(Poll([], [NORMAL], [Meta("x", headers=headers)]), Context("s", lambda meta: meta, 1.0))
    assert of.outcomes()["w"].missing == 1
