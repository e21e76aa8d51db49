"""Conditions and events that are meant to hang, to fill the memory, or to crash: each in a process of its own.

A process has 10 s of CPU, 1 GiB of memory and 30 s of time; most of these end as soon as everything is imported. What
they answer is a clear refusal at start-up, an error that says what was too much, or simply the answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]

SCRIPT: Final = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

from bridge.core.model import Context, Plan, Poll
from bridge.decode.json import DecodeFault, decode_whole
from bridge.language.errors import FilterError
from bridge.params.plans import compile_params
from bridge.language.reading.parse import compile_when
from bridge.filters.router import Declared, FilterRouter
from bridge.language.trace import trace, verdict
from bridge.language.values import Fail
from bridge.language.view import View

def told(value):
    return {"error": value.message} if isinstance(value, Fail) else {"value": value}

def asked(node, body):
    try:
        decode_whole(body)
    except DecodeFault as error:
        return {"fault": error.fault.reason}
    view = View(body, None, Context())
    truth = verdict(node, view)
    traced = trace(node, view)
    assert traced.value == truth
    return told(truth)

def routed(node, body):
    router = FilterRouter([Declared(Plan("w", "asset", "target", "job"), node, compile_params({}))], max_body=16 << 20)
    found = router.route(Poll([], [body], [None]))
    return {"runs": len(found.records), "faults": [fault.reason for fault in found.faults.values()],
            "errors": sum(outcome.errors for outcome in router.outcomes().values())}

condition = json.loads(sys.stdin.buffer.readline())
body = sys.stdin.buffer.read()
try:
    node = compile_when(condition)
except FilterError as error:
    print(json.dumps({"refused": str(error)}))
else:
    print(json.dumps({**asked(node, body), **routed(node, body)}))
"""


def asked(condition: str, event: object) -> dict[str, Any]:
    """What a condition says of an event, and what a router makes of it. `event` can be the bytes of one."""
    body = event if isinstance(event, bytes) else json.dumps(event).encode()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        input=json.dumps(condition).encode() + b"\n" + body,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b""), done.stderr[-2000:].decode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def refusal(condition: str) -> str:
    answer = asked(condition, {})
    assert answer.keys() == {"refused"}
    return str(answer["refused"])


def error_of(condition: str, event: object) -> str:
    """The words of an error, which is no match, and counted."""
    answer = asked(condition, event)
    assert (answer["runs"], answer["errors"], answer["faults"]) == (0, 1, []), answer
    return str(answer["error"])


def truth_of(condition: str, event: object) -> bool | None:
    answer = asked(condition, event)
    assert (answer["runs"], answer["errors"], answer["faults"]) == (answer["value"] is True, 0, []), answer
    truth: bool | None = answer["value"]
    return truth


# Powers and repetitions -----------------------------------------------------------------------------------------------

POWER: Final = "*".join(["event.x"] * 60) + " > 0"
DOUBLED: Final = "event.x" + ".map(x, [x, x])" * 40


@pytest.mark.parametrize("event", [{"x": 10**4_299}, {"x": 1e300}], ids=["of 4,300 digits", "with an exponent"])
def test_a_power_of_a_large_number_is_an_error(event: object) -> None:
    assert error_of(POWER, event).endswith("gives a number of more than 4,300 digits")


def test_a_text_that_is_put_together_from_itself_is_an_error() -> None:
    condition = f"size({'+'.join(['event.x'] * 60)}) > 0"
    assert error_of(condition, {"x": "x" * 1_000_000}).endswith("gives a text of more than 1 MiB")


def test_a_text_that_doubles_with_each_macro_is_an_error() -> None:
    condition = "event.x" + ".map(x, x + x)" * 40 + '.exists(x, x == "")'
    assert error_of(condition, {"x": ["x"]}).endswith("gives a text of more than 1 MiB")


def test_a_list_that_doubles_with_each_macro_is_an_error() -> None:
    condition = f"{DOUBLED} == {DOUBLED}"
    assert error_of(condition, {"x": ["x"]}).endswith("more than 250,000 items to compare")


def test_a_megabyte_of_text_in_each_round_of_a_macro_is_an_error() -> None:
    event = {"l": [1] * 10_000, "t": "x" * 500_000}
    condition = "event.l.map(x, event.t + event.t).exists(x, x == event.t)"
    assert error_of(condition, event) == "the macros compare and compute more than one event may take"


@pytest.mark.parametrize(
    "condition", ["int(double(event.x)) > 0", "double(event.x) + 1 > 0", "double(event.x) % 7 > 0"]
)
def test_a_number_is_not_written_out_to_its_last_digit(condition: str) -> None:
    assert error_of(condition, {"x": "1e999999999"}).endswith("gives a number of more than 4,300 digits")


# Patterns -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "!"])
def test_a_pattern_that_backtracks_for_ever_elsewhere_is_linear(end: str) -> None:
    assert truth_of('event.x.matches("(a+)+$")', {"x": "a" * 100_000 + end}) is (end == "")


def test_a_pattern_whose_states_double_is_linear() -> None:
    assert truth_of('event.x.matches("(a|b)*a(a|b){40}c")', {"x": "abbab" * 100_000}) is False


@pytest.mark.parametrize("pattern", ["a{1000}{1000}", "((((a{10}){10}){10}){10}){10}", "(a{1001})"])
def test_a_pattern_that_counts_too_far_is_refused(pattern: str) -> None:
    assert "repetition" in refusal(f'event.x.matches("{pattern}")')


def test_a_pattern_that_is_too_large_is_refused() -> None:
    assert "pattern too large" in refusal(r'event.x.matches("(\\pL{1000})")')


# Macros ---------------------------------------------------------------------------------------------------------------


def test_four_nested_macros_over_60_items_are_an_error() -> None:
    condition = "event.x.all(a, event.x.all(b, event.x.all(c, event.x.all(d, a + b + c + d >= 0))))"
    assert error_of(condition, {"x": list(range(60))}) == "more than 10,000 steps in macros"


@pytest.mark.parametrize("macro", ["event.x.map(a, a * 2)", "event.x.filter(a, a > 0)"])
def test_a_list_of_a_megabyte_is_an_error_for_a_macro(macro: str) -> None:
    assert error_of(f"size({macro}) > 0", {"x": list(range(150_000))}) == "more than 10,000 steps in macros"


@pytest.mark.parametrize("condition", ["event.x.exists(a, a == 3)", "149999 in event.x && size(event.x) == 150000"])
def test_a_list_of_a_megabyte_is_no_error_where_it_is_decided_sooner(condition: str) -> None:
    assert truth_of(condition, {"x": list(range(150_000))}) is True


# Brackets -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "condition",
    [
        "(" * 3_000 + "event.x" + ")" * 3_000,
        "!" * 3_000 + "event.x",
        "-" * 3_000 + "1 < event.x",
        "[" * 3_000,
        "event.x" + "[0]" * 2_000,
        "+".join(["event.x"] * 1_000) + " > 1",
        "true ? true : " * 500 + "true",
        "event.x.all(a, " * 500 + "true" + ")" * 500,
    ],
    ids=lambda condition: condition[:12],
)
def test_3000_parentheses_and_all_other_deep_expressions_are_refused(condition: str) -> None:
    assert "64 levels" in refusal(condition)


def test_a_source_of_more_than_8_kib_is_refused() -> None:
    assert "at most 8,192" in refusal("event.x == 1 || " * 1_000_000 + "event.x == 2")


def test_as_many_clauses_as_fit_are_asked() -> None:
    assert truth_of(" || ".join(["event.x==1"] * 580), {"x": 2}) is False


# Events ---------------------------------------------------------------------------------------------------------------


def test_an_event_of_100_levels_is_read_and_compared() -> None:
    event = b'{"x": ' + b"[" * 99 + b"1" + b"]" * 99 + b"}"
    assert truth_of("event.x == event.x && event.x in [event.x]", event) is True


@pytest.mark.parametrize(
    "body", [b"[" * 20_000 + b"]" * 20_000, b'{"x":' * 101 + b"1" + b"}" * 101], ids=["20,000 lists", "101 objects"]
)
def test_an_event_that_is_nested_deeper_is_a_fault(body: bytes) -> None:
    assert asked("has(event.x)", body) == {"fault": "too_deep", "runs": 0, "faults": ["too_deep"], "errors": 0}


LARGE: Final = {"x": ["item of the list"] * 450_000, "t": "y" * 1_000_000, "z": 1}
"""10 MB as JSON."""


def test_an_event_of_10_mb_is_answered() -> None:
    assert truth_of('size(event.x) == 450000 && event.z == 1 && event.t.endsWith("y")', LARGE) is True


def test_an_event_of_10_mb_is_not_compared_with_itself() -> None:
    assert error_of("event.x == event.x", LARGE).endswith("more than 250,000 items to compare")


def test_a_number_of_5000_digits_is_a_fault() -> None:
    assert asked("event.x > 1", b'{"x": ' + b"9" * 5_000 + b"}")["fault"] == "number"


def test_a_million_digits_behind_the_point_are_compared_and_not_computed_with() -> None:
    event = b'{"x": 0.' + b"9" * 1_000_000 + b"}"
    assert truth_of("event.x > 1", event) is False
    assert error_of("event.x * event.x > 1", event).endswith("gives a number of more than 4,300 digits")
