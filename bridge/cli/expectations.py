"""Tests as people write them, read: every problem at once, each with its place.

tests:
  - name: a big order from Europe starts a run
    stream: orders                       # may be left out where there is one
    message: {body: {region: eu}}        # or text, base64, file; with key, headers, timestamp, ...
    now: 2026-01-31T12:00:00Z            # what `now` is in conditions
    expect:
      eu_orders: {verdict: match, params: {region: eu}}
      us_orders: no_match
    others: no_match                     # the watchers that are not named
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec import Struct

from bridge.cli.messages import Unfit, Unread, exact, json_of, sample_of, time_of
from bridge.config.fields import BAD, refuse
from bridge.config.model import Name
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Node, Place, Scalar
from bridge.config.nodes import Sequence as SequenceNode
from bridge.config.reading import Reading, Where
from bridge.config.shapes import fields_of, shape_of
from bridge.config.suggest import did_you_mean, listed
from bridge.rehearsal import Sample, Verdict

Asked = Literal["match", "no_match", "missing_field", "error", "reject", "dead_letter"]
"""The verdicts that a test may expect: all but that of a Python watcher, which can't be run here."""

NOTHING: Final = msgspec.UNSET
"""Not asked for."""


class WantedRun(Struct, frozen=True):
    """What a run must have. Numbers in values are ints and Decimals; `NOTHING` where it may have anything."""

    params: object = NOTHING
    tags: object = NOTHING
    key: object = NOTHING


class Expected(Struct, frozen=True):
    """What a watcher must make of the message. `runs` None: any; `reason` "": any reason of a dead letter."""

    watcher: str
    verdict: Asked
    reason: str = ""
    runs: tuple[WantedRun, ...] | None = None


class Case(Struct, frozen=True):
    """`suite` is the file, `place` where in it. `quiet`: the watchers that are not named must not take the message.

    `now` in seconds since 1970; None: when it is run.
    """

    suite: str
    place: str
    name: str
    stream: str
    sample: Sample
    expected: tuple[Expected, ...]
    quiet: bool
    now: float | None = None


class Cast(Struct, frozen=True):
    """Who may be in a test: the declarative watchers by stream, and those in Python, which can't be."""

    declared: Mapping[str, Sequence[str]]
    python: frozenset[str]


class CaseBlock(Struct, frozen=True, kw_only=True):
    """What is written for a test."""

    name: Name
    message: Unread
    stream: Name | None = None
    now: Unread | None = None
    expect: Unread | None = None
    others: Literal["no_match"] | None = None


class ExpectBlock(Struct, frozen=True, kw_only=True):
    """What may be written for a watcher, where a word is not enough."""

    verdict: Asked | None = None
    reason: Name | None = None
    params: Unread | None = None
    tags: Unread | None = None
    key: Unread | None = None
    runs: Unread | None = None


class RunBlock(Struct, frozen=True, kw_only=True):
    """What may be written for one run of several."""

    params: Unread | None = None
    tags: Unread | None = None
    key: Unread | None = None


_CASE: Final = fields_of(CaseBlock)
_EXPECT: Final = fields_of(ExpectBlock)
_RUN: Final = fields_of(RunBlock)
_WORD: Final = shape_of(Asked)
_IN_PYTHON: Final = "feed its filter events with bridge.testing (docs/testing.md)"


def read_cases(node: Node, owner: Place, cast: Cast, reading: Reading) -> list[Case]:
    """The tests of a `tests:` block that could be read. Problems are added to the reading."""
    where = Where(("tests",), owner).foreign_names()
    if not isinstance(node, SequenceNode):
        refuse(node, "a list", where, reading, "begin each test with `- name: …`")
        return []
    names: dict[str, Place] = {}
    read = [_test(item, where.item(number, item.place), cast, reading) for number, item in enumerate(node.items)]
    for item in node.items:
        if isinstance(item, MappingNode) and "name" in item.entries:
            _refuse_twice(item.entries["name"].value, names, reading)
    return [test for test in read if test is not None]


def _refuse_twice(name: Node, names: dict[str, Place], reading: Reading) -> None:
    if not isinstance(name, Scalar):
        return
    first = names.setdefault(name.text, name.place)
    if first is not name.place:
        reading.problem(name.place, f"two tests have this name: the first is at {first}", "give it another name")


def _test(node: Node, where: Where, cast: Cast, reading: Reading) -> Case | None:
    if not isinstance(node, MappingNode):
        refuse(node, "a mapping", where, reading, "with at least `name`, `message` and `expect`")
        return None
    before = len(reading.problems)
    good = _CASE.read(node, where, reading).good
    where = where.holding(_CASE)
    stream = _stream(node, good.get("stream"), where, cast, reading)
    sample = None
    if "message" in good:
        sample = sample_of(good["message"], where.field("message", node.entries["message"].key.place), reading)
    now = _now(good.get("now"), reading)
    quiet = good.get("others") is not None
    expected = _expected(node, good.get("expect"), where, stream, cast, reading)
    if "expect" in good and not expected and not quiet and len(reading.problems) == before:
        reading.problem(node.entries["expect"].key.place, "a test that expects nothing", "name a watcher: eu: match")
    elif "expect" not in node.entries and not quiet:
        reading.problem(node.place, "a test that expects nothing", "add `expect`, or `others: no_match`")
    if stream is None or sample is None or len(reading.problems) > before:
        return None
    name = node.entries["name"].value.place
    return Case(name.source.name, str(name), good["name"], stream, sample, tuple(expected), quiet, now)


def _stream(node: MappingNode, name: str | None, where: Where, cast: Cast, reading: Reading) -> str | None:
    """The stream that is named, or the only one that there is."""
    streams = cast.declared
    if name is None:
        if "stream" not in node.entries and len(streams) == 1:
            return next(iter(streams))
        if "stream" not in node.entries:
            message = f"`stream` is missing in {where.label}: there are several" if streams else "there is no stream"
            reading.problem(where.owner, message, f"the streams are {listed(streams)}" if streams else "")
        return None
    if name in streams:
        return name
    hint = did_you_mean(name, streams, f"the streams are {listed(streams)}")
    reading.problem(node.entries["stream"].value.place, f"there is no stream '{name[:60]}'", hint)
    return None


def _now(node: Node | None, reading: Reading) -> float | None:
    if node is None:
        return None
    try:
        return time_of(node)
    except Unfit as error:
        reading.problem(error.place, f"`now`: {error.problem}", error.hint)
        return None


# What is expected ----------------------------------------------------------------------------------------------------


def _expected(
    test: MappingNode, node: Node | None, where: Where, stream: str | None, cast: Cast, reading: Reading
) -> list[Expected]:
    if node is None:
        return []
    where = where.field("expect", test.entries["expect"].key.place)
    if not isinstance(node, MappingNode):
        refuse(node, "a mapping", where, reading, "watchers with their verdicts: eu_orders: match")
        return []
    found: list[Expected] = []
    for name, entry in node.entries.items():
        if stream is not None and not _is_known(entry.key, stream, cast, reading):
            continue
        expected = _expectation(name, entry.value, where.named(name, entry.key.place), reading)
        if expected is not None:
            found.append(expected)
    return found


def _is_known(key: Scalar, stream: str, cast: Cast, reading: Reading) -> bool:
    name, mine = key.text, cast.declared[stream]
    if name in mine:
        return True
    if name in cast.python:
        reading.problem(key.place, f"`{name}` is written in Python, and can't be tested here", _IN_PYTHON)
        return False
    elsewhere = next((other for other, ids in cast.declared.items() if name in ids), None)
    if elsewhere is not None:
        reading.problem(key.place, f"`{name}` watches the stream `{elsewhere}`, and not `{stream}`", "correct `stream`")
        return False
    hint = did_you_mean(name, mine, f"the watchers of {stream} are {listed(mine)}" if mine else "")
    reading.problem(key.place, f"the stream `{stream}` has no watcher '{name[:60]}'", hint)
    return False


def _expectation(watcher: str, node: Node, where: Where, reading: Reading) -> Expected | None:
    if isinstance(node, SequenceNode):
        refuse(node, "a verdict, or a mapping", where, reading, f"one of {listed(get_args(Asked))}")
        return None
    if isinstance(node, Scalar):
        word: Any = _WORD.read(node, where, reading)
        return None if word is BAD else Expected(watcher, word)
    values = _EXPECT.read(node, where, reading)
    good = values.good
    runs = _runs(node, good, where, reading)
    verdict: Asked = good.get("verdict") or ("dead_letter" if "reason" in good else "match")
    if not node.entries:
        reading.problem(where.owner, f"nothing is expected of `{watcher}`", "write a verdict: match, no_match, …")
    if runs is not None and verdict != "match":
        reading.problem(where.owner, f"`{verdict}` starts no run, so it has no params, tags or key", "remove them")
    if "reason" in good and verdict not in ("dead_letter", "reject"):
        reading.problem(where.owner, f"`{verdict}` makes no dead letter, so there is no reason", "remove `reason`")
    return Expected(watcher, verdict, good.get("reason", ""), runs) if values.is_complete else None


def _runs(node: MappingNode, good: Mapping[str, Any], where: Where, reading: Reading) -> tuple[WantedRun, ...] | None:
    """One run where `params`, `tags` or `key` are written, those of `runs` else, None where neither is."""
    alone = [key for key in ("params", "tags", "key") if key in node.entries]
    if "runs" not in node.entries:
        return (_wanted(good, where, reading),) if alone else None
    if alone:
        place = node.entries["runs"].key.place
        reading.problem(place, f"`runs` beside `{alone[0]}`", "put it below the run that it is about")
    below = where.field("runs", node.entries["runs"].key.place)
    listed_runs = good.get("runs")
    if not isinstance(listed_runs, SequenceNode):
        if listed_runs is not None:
            refuse(listed_runs, "a list", below, reading, "one item for each run, in their order")
        return None
    return tuple(
        _wanted_of(item, below.item(number, item.place), reading) for number, item in enumerate(listed_runs.items)
    )


def _wanted_of(node: Node, where: Where, reading: Reading) -> WantedRun:
    if not isinstance(node, MappingNode):
        refuse(node, "a mapping", where, reading, "with `params`, `tags` or `key`")
        return WantedRun()
    return _wanted(_RUN.read(node, where, reading).good, where, reading)


def _wanted(good: Mapping[str, Any], where: Where, reading: Reading) -> WantedRun:
    values: dict[str, object] = {}
    for name in ("params", "tags", "key"):
        node = good.get(name)
        if node is None:
            continue
        try:
            values[name] = exact(json_of(node)) if name != "key" or not isinstance(node, Scalar) else node.text
        except Unfit as error:
            reading.problem(error.place, f"`{name}`: {error.problem}", error.hint)
    return WantedRun(**values)


def is_of(verdict: Verdict, asked: Asked) -> bool:
    """Whether a verdict is the one that was asked for: a reject is a dead letter, too."""
    return verdict == asked or (asked == "dead_letter" and verdict == "reject")
