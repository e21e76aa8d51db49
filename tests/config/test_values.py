"""Values: each key says what it takes, and what it saw instead."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from bridge.config.fields import BAD
from bridge.config.nodes import Mapping
from bridge.config.reader import read_nodes
from bridge.config.reading import Reading, Where
from bridge.config.shapes import Block, shape_of
from bridge.config.source import Source
from bridge.core.units import Duration, Size
from bridge.decode.options import Decoding

DECODES = "json, cloudevents, text, raw, msgpack, avro, protobuf, gzip, base64"


def stream(good: str, line: str) -> str:
    return good.replace("kind: directory", f"kind: directory\n    {line}")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("ack_timeout: 30", "`ack_timeout`: expected a duration of more than zero, saw the number 30",
         "a duration needs a unit, like 500ms, 30s, 5m, 2h or 7d; did you mean 30s?"),
        ("ack_timeout: 5 Min", "`ack_timeout`: expected a duration of more than zero, saw text '5 Min'",
         "a duration needs a unit, like 500ms, 30s, 5m, 2h or 7d; did you mean 5m?"),
        ("ack_timeout: 0s", "`ack_timeout`: expected a duration of more than zero, saw text '0s'", None),
        ("ack_timeout: -5s", "`ack_timeout`: expected a duration of more than zero, saw text '-5s'",
         "it can't be negative"),
        ("ack_timeout: 99999999d", "`ack_timeout`: expected a duration of more than zero, saw text '99999999d'",
         "longer than a century is surely not meant"),
        ("ack_timeout: ", "`ack_timeout`: expected a duration of more than zero, saw nothing",
         "a duration needs a unit, like 500ms, 30s, 5m, 2h or 7d"),
        ("ack_timeout: [5s]", "`ack_timeout`: expected a duration of more than zero, saw a list", None),
        ("max_body: 256", "`max_body`: expected a size of at least 1B, saw the number 256",
         "a size needs a unit, like 512B, 256KiB, 64MiB or 2GiB; did you mean 256B?"),
        ("max_body: 1mb", "`max_body`: expected a size of at least 1B, saw text '1mb'",
         "a size needs a unit, like 512B, 256KiB, 64MiB or 2GiB; did you mean 1MB?"),
        ("max_body: 0B", "`max_body`: expected a size of at least 1B, saw text '0B'", None),
        ("max_attempts: ten", "`max_attempts`: expected a whole number of at least 1, saw text 'ten'", None),
        ("max_attempts: 0", "`max_attempts`: expected a whole number of at least 1, saw the number 0", None),
        ("max_attempts: 2.5", "`max_attempts`: expected a whole number of at least 1, saw the number 2.5", None),
        ("max_attempts: '5'", "`max_attempts`: expected a whole number of at least 1, saw text 5", "remove the quotes"),
        ("max_attempts: 1_000", "`max_attempts`: expected a whole number of at least 1, saw text '1_000'",
         "did you mean 1000?"),
        ("max_attempts: 010", "`max_attempts`: expected a whole number of at least 1, saw text '010'",
         "numbers have no leading zeros: did you mean 10?"),
        ("max_attempts: true", "`max_attempts`: expected a whole number of at least 1, saw true", None),
        ("max_attempts: 99999999999999999999",
         "`max_attempts`: expected a whole number of at least 1, saw the number 99999999999999999999",
         "at most 9,223,372,036,854,775,807 fits"),
        ("lines: yes", "`lines`: expected true or false, saw text 'yes'", "did you mean true?"),
        ("lines: 1", "`lines`: expected true or false, saw the number 1", "did you mean true?"),
        ("on_done: delet", "`on_done`: expected move or delete, saw text 'delet'", "did you mean `delete`?"),
        ("weight: 1.5", "`weight`: expected a number of at least 0 and at most 1, saw the number 1.5", None),
        ("weight: .nan", "`weight`: expected a number of at least 0 and at most 1, saw the number .nan",
         "it must be finite"),
        ("patterns: a", "`patterns`: expected a list, saw text 'a'",
         "write it as [a, b], or one item a line, each after `- `"),
        ("patterns: [1]", "`patterns`: expected text, saw the number 1", 'for text, put it in quotes: "1"'),
        ("patterns: [a, [b]]", "`patterns`: expected text, saw a list", None),
        ("login: me", "`login`: expected a mapping, saw text 'me'", None),
        ("login: [me]", "`login`: expected a mapping, saw a list", None),
        ("login: {}", "`user` is missing in streams.inbox.login", "add `user: …`"),
        ("retry: 5", "`retry`: expected a mapping, saw the number 5", "with the keys delay, factor, max, jitter, mode"),
        ("retry: {delay: 10m}", "streams.inbox.retry: `delay` (10m) is longer than `max` (5m)", None),
        ("retry: {factor: 0.5}", "`factor`: expected a number of at least 1 and at most 100, saw the number 0.5", None),
        ("retry: {jitter: -1}", "`jitter`: expected a number of at least 0 and at most 1, saw the number -1", None),
        ("decode: jsn", f"`decode`: expected {DECODES}, a mapping or a list, saw text 'jsn'", "did you mean `json`?"),
        ("decode: {json: loose}", "`json`: expected strict, saw text 'loose'", None),
        ("max_outstanding_bytes: 1KiB",
         "streams.inbox: one body may be larger (1MiB) than all outstanding ones together (1KiB)",
         "lower `max_body`, or raise `max_outstanding_bytes`"),
    ],
)  # fmt: skip
def test_a_wrong_value_says_what_was_expected_and_what_was_seen(problem_of, good, line, message, hint):
    shown = problem_of(stream(good, line)).splitlines()
    assert shown[0].split(": ", 1)[1] == message
    assert (shown[3].strip() if len(shown) > 3 else None) == hint


def test_what_is_right_is_read(load_text, good):
    text = stream(
        good,
        "ack_timeout: 90s\n    max_body: 2MiB\n    decode: {json: strict}\n"
        "    retry: {delay: 500ms, max: 2m, factor: 3}\n"
        "    cohort_grace_period: 0s\n    weight: 1\n    patterns: ['*.json']\n    login: {user: me}\n    lines: true",
    )
    config = load_text(text).streams["inbox"]
    assert (config.ack_timeout, config.max_body, config.is_strict) == (90.0, 2 * 1024 * 1024, True)
    assert (config.retry.delay, config.retry.max, config.retry.factor, config.retry.jitter) == (0.5, 120.0, 3.0, 0.2)
    assert (config.options.weight, config.options.patterns, config.options.login.user) == (1.0, ["*.json"], "me")
    assert config.options.lines is True


def test_the_defaults_are_those_of_the_documentation(load_text, good):
    config = load_text(good)
    stream, target = config.streams["inbox"], config.targets["shell"]
    assert (stream.decode, stream.max_body, stream.generation, stream.max_attempts) == (Decoding(), 1024**2, 1, 5)
    assert (stream.retry.mode, stream.retry.delay, stream.retry.factor) == ("process", 1.0, 2.0)
    assert (stream.ack_timeout, stream.cohort_grace_period) == (300.0, 0.0)
    assert (stream.max_outstanding, stream.max_outstanding_bytes) == (10_000, 64 * 1024**2)
    assert (stream.max_retrying, stream.max_advancing) == (1000, 8)
    assert (target.max_in_flight, target.retry.attempts) == (8, 10)
    assert (config.store.dedupe_horizon, config.instance.heartbeat, config.instance.stop_timeout) == (32 * 86400, 5, 30)


def test_a_key_that_all_targets_have_and_the_kind_declares_goes_to_both(load_text, good):
    assert load_text(good).targets["shell"].timeout == 3600.0  # the kind's own default
    written = load_text(good.replace("kind: command", "kind: command\n    timeout: 7s")).targets["shell"]
    assert (written.timeout, written.options.timeout) == (7.0, 7.0)
    other = load_text(good.replace("kind: command\n    command: [./run.sh]", "kind: log")).targets["shell"]
    assert other.timeout == 30.0


def test_null_stands_for_a_value_that_may_be_left_out(load_text, good):
    assert load_text(stream(good, "login: ~\n    weight: null")).streams["inbox"].options.weight is None


# Any Struct becomes a reader -----------------------------------------------------------------------------------------


def read(annotation: Any, text: str) -> tuple[object, list[str]]:
    source = Source("x.yaml", __import__("pathlib").Path(), f"value: {text}\n")
    reading = Reading({"PORT": "8080", "YES": "true", "WORD": "abc"}, lambda path: "")
    root = read_nodes(source, reading.problems)
    assert isinstance(root, Mapping)
    entry = root.entries["value"]
    value = shape_of(annotation).read(entry.value, Where((), entry.key.place).field("value", entry.key.place), reading)
    return value, [p.message for p in reading.problems.sorted(())]


class Inner(Struct, frozen=True, rename="kebab"):
    long_name: int
    rest: Inner | None = None


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int | str, "5", 5),
        (int | str, "'5'", "5"),
        (int | str, "${PORT}", 8080),
        (str | int, "${WORD}", "abc"),
        (str | int, "${PORT}", 8080),
        (str, "${PORT}", "8080"),
        (bool | None, "${YES}", True),
        (float, "5", 5.0),
        (float, "-.5", -0.5),
        (Duration | None, "~", None),
        (Duration | None, "1.5s", 1.5),
        (list[Duration], "[1s, 2m]", [1.0, 120.0]),
        (tuple[int, ...], "[1, 2]", (1, 2)),
        (frozenset[str], "[a, b, a]", frozenset("ab")),
        (dict[str, int], "{a: 1}", {"a": 1}),
        (dict[str, list[Size]], "{a: [1KiB]}", {"a": [1024]}),
        (list[str] | None, "~", None),
        (list[str] | str, "a", "a"),
        (list[str] | str, "[a]", ["a"]),
        (Any, "{a: [1, x, ~, 1.5, true]}", {"a": [1, "x", None, 1.5, True]}),
        (dict[str, Any], "{a: '${PORT}'}", {"a": "8080"}),
        (Inner, "{long-name: 1, rest: {long-name: 2}}", Inner(1, Inner(2))),
        (Literal[1, 2, True], "2", 2),
        (Literal[1, 2, True], "true", True),
        (Literal["a", "1"], "'1'", "1"),
        (list[str] | dict[str, int], "{a: 1}", {"a": 1}),
        (Annotated[str, Meta(pattern="^a+$")], "aa", "aa"),
    ],
)
def test_types_are_read(annotation, text, value):
    assert read(annotation, text) == (value, [])
    assert type(read(annotation, text)[0]) is type(value)


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (int | None, "x", "`value`: expected a whole number, saw text 'x'"),
        (list[str] | None, "x", "`value`: expected a list, saw text 'x'"),
        (list[str] | str, "{a: 1}", "`value`: expected text or a list, saw a mapping"),
        (int, "${WORD}", "`value`: expected a whole number, but ${WORD} holds something else"),
        (list[str], "${WORD}", "`value`: expected a list, but ${WORD} holds something else"),
        (Inner, "{long_name: 1}", "`long_name` is not a key of value"),
        (Inner, "{long-name: 1, rest: {long-name: x}}", "`long-name`: expected a whole number, saw text 'x'"),
        (Any, "{a: .inf}", "a number that JSON does not know"),
        (Any, "9" * 2000, "a number of 2000 digits"),
        (Literal[1, 2], "'1'", "`value`: expected 1 or 2, saw text 1"),
        (Literal["a", "1"], "1", "`value`: expected a or 1, saw the number 1"),
        (list[str] | dict[str, int], "x", "`value`: expected a list or a mapping, saw text 'x'"),
        (Annotated[list[int], Meta(min_length=2)], "[1]", "`value`: expected a list of at least 2, saw 1 item"),
        (Annotated[list[int], Meta(max_length=1)], "[1, 2]", "`value`: expected a list of at most 1, saw 2 items"),
        (
            Annotated[str, Meta(min_length=2, max_length=3)],
            "a",
            "`value`: expected text of 2 to 3 characters, saw text 'a'",
        ),
        (Annotated[str, Meta(max_length=3)], "abcd", "`value`: expected text of at most 3 characters, saw text 'abcd'"),
        (Annotated[str, Meta(pattern="^a+$")], "b", "`value`: expected text like ^a+$, saw text 'b'"),
        (
            Annotated[int, Meta(multiple_of=5)],
            "7",
            "`value`: expected a whole number, a multiple of 5, saw the number 7",
        ),
        (
            Annotated[int, Meta(gt=1, lt=3)],
            "3",
            "`value`: expected a whole number of more than 1 and less than 3, saw the number 3",
        ),
        (Size, "99999999999999GiB", "`value`: expected a size, saw text '99999999999999GiB'"),
        (Size, f"{'9' * 400}B", f"`value`: expected a size, saw text '{'9' * 60}…'"),
        (dict[str, int], "[a]", "`value`: expected a mapping, saw a list"),
    ],
)
def test_what_a_type_does_not_take_is_a_problem(annotation, text, message):
    _, messages = read(annotation, text)
    assert messages == [message]


def test_a_bad_item_makes_the_whole_value_bad():
    assert read(list[int], "[1, x, 3]")[0] is BAD
    assert read(dict[str, int], "{a: x}")[0] is BAD


def test_a_type_that_no_yaml_can_give_is_a_defect_of_the_kind():
    class Odd(Struct):
        value: complex

    with pytest.raises(TypeError, match="can't hold"):
        _ = Block(Odd).fields
    with pytest.raises(TypeError, match="can't tell these apart"):
        shape_of(list[int] | tuple[str, ...])
