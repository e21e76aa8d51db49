"""`headrace test`: verdicts, values, coverage, and everything that can be wrong with what people write."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

CONFIG = """\
store: sqlite:///headrace.db
targets:
  notes:
    kind: log
streams:
  orders:
    kind: directory
    path: drop
assets:
  big:
    watchers:
      - stream: orders
        when: event.region in ["eu", "uk"] && event.amount > 100
        reject: event.currency == "XXX"
        run:
          target: notes
          job: note
          params: {order: "${event.order_id}", amount: "${event.amount}", at: '${default(meta.position, "x")}'}
          tags: {region: "${event.region}"}
          key: "${event.order_id}"
          key_ttl: 1h
  strict:
    watchers:
      - stream: orders
        match: {amount: {">": 1000}}
        on_error: reject
        run: {target: notes, job: note}
"""

BODY = "{order_id: o-1, region: eu, amount: 250.00, currency: EUR}"


@pytest.fixture(autouse=True)
def configured(home: Any) -> None:
    home.configure(CONFIG)


def suite(*tests: str, name: str = "headrace_test.yaml", head: str = "") -> None:
    """A file of tests; each is written without its dash and indentation."""
    items = [("  - " + "\n    ".join(test.strip().splitlines())) for test in tests]
    Path(name).write_text(head + "tests:\n" + "\n".join(items) + "\n")


def one(expect: str, body: str = BODY, more: str = "") -> None:
    suite(f"name: the test\nmessage: {{body: {body}}}\nexpect: {expect}\n{more}")


def failures(said: Any) -> list[str]:
    return [failure["message"] for test in said.json["tests"] for failure in test["failures"]]


# Verdicts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        (BODY, "{big: match, strict: no_match}"),
        ("{region: us, amount: 2000}", "{big: no_match, strict: match}"),
        ("{region: eu}", "{big: missing_field, strict: missing_field}"),
        ("{region: us}", "{big: no_match}"),
        ("{region: eu, amount: many}", "{big: error, strict: dead_letter}"),
        ("{region: eu, amount: many}", "{strict: {verdict: dead_letter, reason: filter_error}}"),
        ("{region: eu, amount: 101, currency: XXX, order_id: o-1}", "{big: reject}"),
        ("{region: eu, amount: 101, currency: XXX, order_id: o-1}", "{big: {verdict: reject, reason: rejected}}"),
        ("{region: eu, amount: 101, currency: XXX, order_id: o-1}", "{big: dead_letter}"),
        ("{region: eu, amount: 101}", "{big: {verdict: dead_letter, reason: params}}"),
        ("{region: eu, amount: 101}", "{big: {reason: params}}"),
        ("just text", "{big: missing_field}"),
    ],
)
def test_each_verdict_can_be_expected(headrace: Any, body: str, verdict: str) -> None:
    one(verdict, body)
    said = headrace("test", "-o", "table")
    assert (said.code, said.err) == (0, ""), said
    assert "ok: 1 test passed" in said.out


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "malformed"), ("", "malformed"), ("[" * 101 + "]" * 101, "too_deep"), ("1e999", "number")],
)
def test_what_nobody_can_read_is_a_dead_letter_of_each(headrace: Any, text: str, reason: str) -> None:
    test = f"name: broken\nmessage: {{text: '{text}'}}\nexpect: {{big: {{verdict: dead_letter, reason: {reason}}}}}"
    suite(test)
    said = headrace("test")
    assert said.code == 0, said


def test_the_wrong_verdict_is_told_with_the_clause_that_decided(headrace: Any) -> None:
    one("{big: match, strict: match}", "{region: eu, amount: 20}")
    said = headrace("test", "--no-coverage", "-o", "table")
    assert said.code == 1
    assert said.out == (
        "failed: the test  headrace_test.yaml:2:11\n"
        "  big: expected match, saw no_match: event.amount > 100, and event.amount is 20\n"
        "    ✗ all of these\n"
        '    ├── ✓ event.region in ["eu", "uk"]\n'
        '    │   └── event.region = "eu"\n'
        "    └── ✗ event.amount > 100\n"
        "        └── event.amount = 20\n"
        "  strict: expected match, saw no_match: event.amount > 1000, and event.amount is 20\n"
        "    ✗ event.amount > 1000\n"
        "    └── event.amount = 20\n"
        "\n"
        "1 of 1 test failed\n"
    )


def test_an_error_says_what_can_not_be_compared_and_no_value_is_in_it(headrace: Any) -> None:
    one("{big: match}", "{region: eu, amount: secret}")
    said = headrace("test")
    (message,) = failures(said)
    assert message.startswith("big: expected match, saw error: ")
    assert "secret" not in message


def test_the_wrong_reason_is_a_failure(headrace: Any) -> None:
    one("{big: {verdict: dead_letter, reason: params}}", "{region: eu, amount: 101, currency: XXX, order_id: o-1}")
    said = headrace("test")
    assert said.code == 1
    assert failures(said)[0].startswith("big: expected dead_letter (params), saw reject (rejected)")


# Values --------------------------------------------------------------------------------------------------------------


def test_params_tags_and_key_are_compared_as_json_values(headrace: Any) -> None:
    expect = '{params: {order: o-1, amount: 250, at: "line 7"}, tags: {region: eu}, key: o-1}'
    suite(f"name: a\nmessage: {{position: line 7, body: {BODY}}}\nexpect: {{big: {expect}}}")
    said = headrace("test")
    assert said.code == 0, said


@pytest.mark.parametrize(
    ("params", "differences"),
    [
        ("{order: o-1, amount: 250.0000, at: x}", []),
        ("{order: o-2, amount: 250, at: x}", ['params.order: expected "o-2", saw "o-1"']),
        ("{order: o-1, amount: 250.01, at: x}", ["params.amount: expected 250.01, saw 250.00"]),
        ('{order: o-1, amount: "250", at: x}', ['params.amount: expected "250", saw 250.00']),
        ("{order: o-1, amount: true, at: x}", ["params.amount: expected true, saw 250.00"]),
        ("{order: o-1, amount: null, at: x}", ["params.amount: expected null, saw 250.00"]),
        ("{order: o-1, at: x}", ["params.amount: not expected, saw 250.00"]),
        ("{order: o-1, amount: 250, at: x, more: [1]}", ["params.more: expected [1], and it is missing"]),
        ("{order: [o-1], amount: 250, at: x}", ['params.order: expected ["o-1"], saw "o-1"']),
    ],
)
def test_a_value_that_differs_is_shown_with_its_place(headrace: Any, params: str, differences: list[str]) -> None:
    suite(f"name: a\nmessage: {{position: x, body: {BODY}}}\nexpect: {{big: {{params: {params}}}}}")
    said = headrace("test")
    assert said.code == (1 if differences else 0)
    assert [d for t in said.json["tests"] for f in t["failures"] for d in f["differences"]] == differences


def test_the_number_of_runs_is_compared_too(headrace: Any) -> None:
    one("{big: {runs: [{key: o-1}, {key: o-2}]}}")
    said = headrace("test")
    assert said.json["tests"][0]["failures"][0]["differences"] == ["runs: expected 2, saw 1"]


def test_a_batch_makes_several_runs_in_their_order(headrace: Any, home: Any) -> None:
    home.configure(
        CONFIG.replace("    path: drop\n", "    path: drop\n    decode: cloudevents\n").replace("event.", "event.data.")
    )
    events = [
        {"specversion": "1.0", "id": str(n), "source": "/shop", "type": "order", "data": {
            "order_id": f"o-{n}", "region": "eu", "amount": 100 * n, "currency": "EUR"}}
        for n in (1, 2, 3)
    ]  # fmt: skip
    content_type = "application/cloudevents-batch+json"
    suite(
        f"name: a batch\nmessage: {{headers: {{content-type: {content_type}}}, text: '{json.dumps(events)}'}}\n"
        "expect: {big: {runs: [{key: o-2}, {key: o-3, tags: {region: eu}}]}}"
    )
    said = headrace("test")
    assert said.code == 0, said


# The message ---------------------------------------------------------------------------------------------------------


def test_the_bytes_of_a_message_come_from_body_text_base64_or_a_file(headrace: Any) -> None:
    Path("samples").mkdir()
    Path("samples/big.json").write_text('{"region": "eu", "amount": 250, "order_id": "o", "currency": "EUR"}\n')
    encoded = base64.b64encode(Path("samples/big.json").read_bytes()).decode()
    messages = [
        f"{{body: {BODY}}}",
        "{text: '" + Path("samples/big.json").read_text().strip() + "'}",
        f"{{base64: {encoded}}}",
        "{file: samples/big.json}",
    ]
    suite(*(f"name: number {n}\nmessage: {m}\nexpect: {{big: match}}" for n, m in enumerate(messages)))
    said = headrace("test")
    assert (said.code, said.json["passed"]) == (0, 4), said


def test_a_file_of_a_message_begins_at_the_folder_of_the_suite(headrace: Any, monkeypatch: Any) -> None:
    Path("big.json").write_text('{"region": "us", "amount": 1}')
    suite("name: a\nmessage: {file: big.json}\nexpect: {big: no_match}")
    monkeypatch.chdir("drop")
    said = headrace("test", "../headrace.yaml")
    assert said.code == 0, said


def test_key_headers_and_all_that_a_broker_tells_can_be_given(headrace: Any, home: Any) -> None:
    condition = (
        'key == "k" && headers.source == "shop" && meta.timestamp == timestamp("2026-01-31T12:00:00Z") '
        '&& meta.message_id == "m" && meta.lane == "l" && meta.delivery_attempt == 2 && meta.position == "p" '
        '&& meta.stream == "orders" && now - meta.timestamp == duration("5s")'
    )
    home.configure(CONFIG.replace('event.region in ["eu", "uk"] && event.amount > 100', f"'{condition}'"))
    told = (
        "{body: {currency: EUR, order_id: o, amount: 1, region: eu}, key: k, headers: {source: shop}, "
        "timestamp: 2026-01-31T12:00:00Z, message_id: m, lane: l, delivery_attempt: 2, position: p}"
    )
    suite(f"name: a\nmessage: {told}\nnow: 2026-01-31T12:00:05Z\nexpect: {{big: match}}")
    said = headrace("test")
    assert said.code == 0, said


def test_a_header_that_is_null_is_told_from_an_empty_one(headrace: Any, home: Any) -> None:
    condition = '!has(headers.gone) && "gone" in headers && headers.empty == ""'
    home.configure(CONFIG.replace('event.region in ["eu", "uk"] && event.amount > 100', f"'{condition}'"))
    headers = "{gone: null, empty: ''}"
    suite(f"name: a\nmessage: {{body: {BODY}, headers: {headers}}}\nexpect: {{big: match}}")
    said = headrace("test")
    assert said.code == 0, said


TOMBSTONES = """\
assets:
  all:
    watchers:
      - {stream: orders, run: {target: notes, job: note, params: {gone: "${meta.tombstone}", key: "${key}"}}}
  gone:
    watchers:
      - {stream: orders, when: meta.tombstone, run: {target: notes, job: note}}
  eu:
    watchers:
      - {stream: orders, match: {region: eu}, run: {target: notes, job: note}}
"""


@pytest.mark.parametrize("decode", ["json", "text", "msgpack", "cloudevents", "[base64, gzip, json]"])
def test_a_message_without_a_body_is_written_as_a_tombstone(headrace: Any, home: Any, decode: str) -> None:
    head = CONFIG.partition("assets:")[0].replace("path: drop\n", f"path: drop\n    decode: {decode}\n")
    home.configure(head + TOMBSTONES)
    suite(
        "name: a\nmessage: {tombstone: true, key: k}\n"
        "expect: {all: {params: {gone: true, key: k}}, gone: match, eu: missing_field}"
    )
    said = headrace("test")
    assert said.code == 0, said


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("{tombstone: true, body: {a: 1}}", "a message has one body"),
        ("{tombstone: false}", "expected true"),
        ("{tombstone: 'true'}", "expected true"),
        ("{tombstone: null}", "expected true"),
        ("{key: k}", "tombstone: true"),
    ],
)
def test_a_tombstone_is_true_and_stands_alone(headrace: Any, message: str, words: str) -> None:
    suite(f"name: a\nmessage: {message}\nexpect: {{big: match}}")
    said = headrace("test")
    assert said.code == 1, said
    assert words in said.err


def test_numbers_in_a_body_keep_their_digits(headrace: Any) -> None:
    body = "{region: eu, amount: 123456789012345678901234567890.10, currency: EUR, order_id: 9007199254740993}"
    params = "{{order: {}, amount: 123456789012345678901234567890.{}, at: x}}"
    one(f"{{big: {{params: {params.format(9007199254740993, 1)}}}}}", body)
    assert headrace("test").code == 0
    for wrong in (params.format(9007199254740992, 1), params.format(9007199254740993, 11)):
        one(f"{{big: {{params: {wrong}}}}}", body)
        assert headrace("test").code == 1


def test_a_dollar_in_a_message_is_a_dollar(headrace: Any) -> None:
    suite(
        "name: a\nmessage: {position: x, body: {order_id: '${HOME}', region: eu, amount: 101, currency: EUR}}\n"
        "expect: {big: {params: {order: '${HOME}', amount: 101, at: x}, key: '${HOME}'}}"
    )
    said = headrace("test")
    assert said.code == 0, said


# Watchers that are not named -----------------------------------------------------------------------------------------


def test_others_are_not_looked_at_unless_the_test_says_so(headrace: Any) -> None:
    body = "{order_id: o-1, region: eu, amount: 2000, currency: EUR}"
    one("{big: match}", body)
    assert headrace("test").code == 0
    one("{big: match}", body, "others: no_match")
    said = headrace("test")
    assert said.code == 1
    assert failures(said) == ["strict: expected no_match, as `others` says, saw match"]


def test_others_may_lack_a_field(headrace: Any) -> None:
    suite("name: a\nmessage: {body: {}}\nothers: no_match")
    assert headrace("test").code == 0


# Problems ------------------------------------------------------------------------------------------------------------


N = "name: a\n"
M = N + "message: {body: {}}\n"
W = "\nexpect: {big: match}"


@pytest.mark.parametrize(
    ("test", "place", "message", "hint"),
    [
        (N + "mesage: {body: {}}" + W, "3:5", "`mesage` is not a key of tests[]", "`message`?"),
        (N + "message: {bdy: {}}" + W, "3:15", "`bdy` is not a key of tests[].message", "`body`"),
        (M + "expect: {bug: match}", "4:14", "the stream `orders` has no watcher 'bug'", "`big`"),
        (N + "stream: order\nmessage: {body: {}}" + W, "3:13", "there is no stream 'order'", "`orders`"),
        (M + "expect: {big: matches}", "4:19", "expected match, no_match", "`match`"),
        (M + "expect: {big: [match]}", "4:19", "expected a verdict, or a mapping", "one of match"),
        (M + "expect: {big: {verdct: match}}", "4:20", "`verdct` is not a key", "`verdict`"),
        (M + "expect: {big: {}}", "4:14", "nothing is expected of `big`", "a verdict"),
        (M + "expect: {big: {verdict: no_match, params: {}}}", "4:14", "`no_match` starts no run", ""),
        (M + "expect: {big: {verdict: match, reason: x}}", "4:14", "`match` makes no dead letter", ""),
        (M + "expect: {}", "4:5", "a test that expects nothing", "name a watcher"),
        (M, "2:5", "a test that expects nothing", "`others: no_match`"),
        ("name: a" + W, "2:5", "`message` is missing in tests[]", ""),
        (N + "message: {key: k}" + W, "3:5", "a message without a body", "`body` (JSON)"),
        (N + "message: {body: {}, text: x}" + W, "3:25", "a message has one body", "`file`"),
        (N + "message: {file: none.json}" + W, "3:21", "`file`: can't be read: No such file", "none.json"),
        (N + "message: {base64: '?'}" + W, "3:23", "`base64`: not base64", ""),
        (N + "message: {body: {n: .inf}}" + W, "3:25", "`body`: a number that JSON does not know", "quotes"),
        (N + "message: {body: {}, timestamp: noon}" + W, "3:36", "`timestamp`: the text is no", "2026"),
        (M + "now: [1]" + W, "4:10", "`now`: expected a time", "2026"),
        (N + "message: {body: {}, headers: x}" + W, "3:34", "`headers`: expected a mapping", ""),
        (N + "message: body" + W, "3:14", "`message`: expected a mapping, saw text 'body'", "{body:"),
        (M + "expect: match", "4:13", "`expect`: expected a mapping", "eu_orders: match"),
        (M + "expect: {big: match}\nothers: match", "5:13", "`others`: expected no_match", ""),
        ("just text", "2:5", "expected a mapping, saw text 'just text'", "`name`"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_place_and_what_to_write(
    headrace: Any, test: str, place: str, message: str, hint: str
) -> None:
    suite(test)
    said = headrace("test")
    assert (said.code, said.out) == (1, ""), said
    assert said.err.startswith(f"headrace_test.yaml:{place}: "), said
    assert message in said.err
    assert hint in said.err
    assert said.err.count("headrace_test.yaml:") == 1, said


def test_all_mistakes_are_told_at_once_and_no_test_is_run(headrace: Any) -> None:
    suite("name: a\nmessage: {body: {}}\nexpect: {big: match}", "name: a\nmessage: {bdy: 1}\nothers: no_match")
    Path("other.yaml").write_text(CONFIG.replace("kind: log", "kind: lag"))
    said = headrace("test", "headrace.yaml", "other.yaml")
    assert (said.code, said.out) == (1, "")
    assert "other.yaml:4:11: there is no kind 'lag' of targets" in said.err
    assert "two tests have this name: the first is at headrace_test.yaml:2:11" in said.err
    assert "`bdy`" in said.err


def test_a_python_watcher_is_pointed_to_bridge_testing(headrace: Any, home: Any) -> None:
    home.configure(CONFIG.replace('match: {amount: {">": 1000}}\n        on_error: reject', "trigger: nowhere:Big"))
    one("{strict: match}")
    said = headrace("test")
    assert said.code == 1
    assert "`strict` is written in Python" in said.err
    assert "bridge.testing" in said.err
    suite("name: a\nmessage: {body: {region: us, amount: 1}}\nothers: no_match")
    assert headrace("test").code == 0


def test_a_watcher_of_another_stream_is_named_with_its_stream(headrace: Any, home: Any) -> None:
    small = "{watchers: [{stream: parcels, run: {target: notes, job: x}}]}"
    more = f"  parcels: {{kind: directory, path: parcels}}\nassets:\n  small: {small}\n"
    home.configure(CONFIG.replace("assets:\n", more))
    suite("name: a\nstream: orders\nmessage: {body: {}}\nexpect: {small: match}")
    assert "`small` watches the stream `parcels`, and not `orders`" in headrace("test").err
    suite("name: a\nmessage: {body: {}}\nexpect: {small: match}")
    said = headrace("test")
    assert "`stream` is missing in tests[]: there are several" in said.err
    assert "the streams are orders, parcels" in said.err


# Where tests are -----------------------------------------------------------------------------------------------------

NAMED = "name: {0}\nmessage: {{body: {{region: us, amount: 1}}}}\nexpect: {{big: no_match}}"


def names(said: Any) -> list[str]:
    return [test["name"] for test in said.json["tests"]]


def test_tests_in_the_configuration_itself_come_first(headrace: Any, home: Any) -> None:
    home.configure("tests:\n  - " + NAMED.format("inside").replace("\n", "\n    ") + "\n", more=True)
    assert names(headrace("test")) == ["inside"]
    suite(NAMED.format("outside"))
    said = headrace("test")
    assert names(said) == ["inside", "outside"]
    assert said.json["tests"][0]["suite"] == "headrace.yaml"


def test_a_suite_finds_its_configuration_and_a_configuration_its_suites(headrace: Any) -> None:
    Path("conf").mkdir()
    Path("conf/other.yaml").write_text(CONFIG)
    suite(NAMED.format("by default"), name="more_test.yaml")
    suite(NAMED.format("by its name"), name="conf/other_test.yaml")
    suite(NAMED.format("by its key"), name="far_test.yaml", head="config: conf/other.yaml\n")
    assert names(headrace("test")) == ["by default"]
    assert names(headrace("test", "headrace.yaml")) == ["by default"]
    assert names(headrace("test", "conf/other.yaml")) == ["by its name"]
    assert names(headrace("test", "conf/other_test.yaml", "far_test.yaml")) == ["by its name", "by its key"]
    assert names(headrace("test", "more_test.yaml", "headrace.yaml")) == ["by default"]


def test_a_folder_may_hold_several_configurations_each_with_its_tests(headrace: Any) -> None:
    Path("conf").mkdir()
    for name in ("a", "b", "c"):
        Path(f"conf/{name}.yaml").write_text(CONFIG.replace("headrace.db", f"{name}.db"))
    suite(NAMED.format("of a"), name="conf/a_test.yaml")
    suite(NAMED.format("of b"), name="conf/b_test.yaml")
    with open("conf/c.yaml", "a") as file:
        file.write("tests:\n  - " + NAMED.format("in c").replace("\n", "\n    ") + "\n")
    assert names(headrace("test", "conf")) == ["of a", "of b", "in c"]


def test_a_folder_may_be_one_configuration(headrace: Any) -> None:
    Path("conf").mkdir()
    streams, assets = CONFIG.split("assets:\n")
    Path("conf/streams.yaml").write_text(streams)
    Path("conf/assets.yaml").write_text("assets:\n" + assets)
    suite(NAMED.format("of all"), name="conf/filters_test.yaml")
    assert names(headrace("test", "conf")) == ["of all"]
    assert names(headrace("test", "conf/filters_test.yaml")) == ["of all"]


def test_a_configuration_that_is_not_there_is_told_at_the_key_that_names_it(headrace: Any) -> None:
    suite(NAMED.format("a"), head="config: nowhere.yaml\n")
    said = headrace("test", "headrace_test.yaml")
    assert said.code == 1
    assert said.err.startswith("headrace_test.yaml:1:9: there is no such configuration")


def test_a_file_that_is_not_there_is_told(headrace: Any) -> None:
    said = headrace("test", "nowhere_test.yaml")
    assert said.code == 1
    assert "nowhere_test.yaml: there is no such file" in said.err


def test_no_test_at_all_is_a_wrong_call(headrace: Any) -> None:
    said = headrace("test")
    assert (said.code, said.out) == (2, "")
    assert "there is no test" in said.err
    assert "headrace init" in said.err


# Which are run, and what is said of them -----------------------------------------------------------------------------


def test_a_word_chooses_tests_by_their_names(headrace: Any) -> None:
    suite(NAMED.format("Refunds of gold"), NAMED.format("orders"))
    said = headrace("test", "-k", "refund")
    assert names(said) == ["Refunds of gold"]
    assert "coverage" not in said.json
    assert "coverage" in headrace("test", "-k", "refund", "--coverage").json
    said = headrace("test", "-k", "nothing")
    assert (said.code, said.err) == (2, "headrace: no test has 'nothing' in its name\n")


def test_coverage_lists_the_clauses_that_no_test_made_true_or_false(headrace: Any) -> None:
    suite(
        f"name: a\nmessage: {{body: {BODY}}}\nexpect: {{big: match}}",
        "name: b\nmessage: {body: {region: us, amount: 250}}\nexpect: {big: no_match}",
    )
    said = headrace("test")
    assert said.code == 0
    assert said.json["coverage"] == {
        "clauses": 4,
        "covered": 1,
        "missing": [
            {"watcher": "big", "clause": "event.amount > 100", "never": ["false"]},
            {"watcher": "big", "clause": 'event.currency == "XXX"', "never": ["true"]},
            {"watcher": "strict", "clause": "event.amount > 1000", "never": ["true", "false"]},
        ],
    }
    shown = headrace("test", "-o", "table").out
    assert shown.splitlines()[-1] == "ok: 2 tests passed; 1 of 4 clauses seen both ways"
    assert "strict   event.amount > 1000      true or false" in shown
    assert "in no test" not in headrace("test", "--no-coverage", "-o", "table").out
    said = headrace("test", "--require-coverage")
    assert (said.code, said.json["ok"]) == (1, True)


def test_with_others_every_watcher_of_the_stream_is_covered(headrace: Any) -> None:
    suite("name: a\nmessage: {body: {region: us, amount: 1}}\nothers: no_match")
    missing = headrace("test").json["coverage"]["missing"]
    assert {"watcher": "strict", "clause": "event.amount > 1000", "never": ["true"]} in missing


def test_junit_has_a_suite_for_each_file_and_can_be_read_back(headrace: Any, home: Any) -> None:
    body = '{region: "us <&>\\u0007\\uFFFE", amount: 1}'
    suite("name: '<b> & \"c\"'\nmessage: {body: " + body + "}\nexpect: {big: match}", NAMED.format("good"))
    home.configure("tests:\n  - " + NAMED.format("inside").replace("\n", "\n    ") + "\n", more=True)
    said = headrace("test", "--junit", "out.xml")
    assert said.code == 1
    root = ElementTree.fromstring(Path("out.xml").read_text())
    assert [(s.get("name"), s.get("tests"), s.get("failures")) for s in root] == [
        ("headrace.yaml", "1", "0"),
        ("headrace_test.yaml", "2", "1"),
    ]
    (case,) = root.findall(".//testcase[failure]")
    failure = case.find("failure")
    assert failure is not None
    assert case.get("name") == '<b> & "c"'
    assert (failure.get("message") or "").startswith("big: expected match, saw no_match")
    assert "us <&>" in (failure.text or "")
    assert "headrace_test.yaml:2:11" in (failure.text or "")


def test_a_place_where_nothing_can_be_written_is_told(headrace: Any) -> None:
    suite(NAMED.format("a"))
    said = headrace("test", "--junit", "nowhere/out.xml")
    assert said.code == 3
    assert "--junit nowhere/out.xml can't be written: No such file or directory" in said.err


def test_many_tests_have_a_progress_bar_on_a_terminal(headrace_process: Any, terminal: Any, home: Any) -> None:
    suite(*(NAMED.format(f"number {n}") for n in range(250)))
    with terminal() as (ours, theirs):
        process = headrace_process("test", stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm"})
        seen = until_end(process, ours)
    assert process.returncode == 0, seen
    assert b"250 tests passed" in seen
    assert b"\xe2\x94\x81" in seen  # the bar
    assert b"100%" in seen


def until_end(process: Any, terminal: int) -> bytes:
    """What a process wrote to the terminal until it ended; the timeout of the test bounds it."""
    seen = b""
    os.set_blocking(terminal, False)
    while True:
        has_ended = process.poll() is not None
        try:
            seen += os.read(terminal, 65536)
        except BlockingIOError:
            if has_ended:
                return seen
            time.sleep(0.01)


def test_a_defect_of_ours_is_said_and_is_a_failure(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from bridge.language.trace import trace
    from bridge.language.values import negation

    def lying(node: Any, view: Any) -> Any:
        return negation(trace(node, view).value)

    monkeypatch.setattr("bridge.rehearsal.verdict", lying)
    one("{big: match}")
    said = headrace("test")
    assert said.code == 1
    (message,) = failures(said)
    assert "a defect of headrace, please report it: the compiled filter gives a run, the traced one nothing" in message


def test_clauses_below_or_and_not_are_told_apart(headrace: Any, home: Any) -> None:
    condition = "!(event.a == 1 || (event.b == 1 && !(event.c == 1))) || event.d == 1"
    home.configure(CONFIG.replace('event.region in ["eu", "uk"] && event.amount > 100', f"'{condition}'"))
    suite("name: a\nmessage: {body: {a: 1, b: 1, c: 2, d: 2}}\nexpect: {big: no_match}")
    never = {gap["clause"]: gap["never"] for gap in headrace("test").json["coverage"]["missing"]}
    assert {clause: never[clause] for clause in never if "amount" not in clause and "currency" not in clause} == {
        "event.a == 1": ["false"],
        "event.b == 1": ["false"],
        "event.c == 1": ["true"],
        "event.d == 1": ["true"],
    }


MANUAL = """\
store: sqlite:///headrace.db
targets: {notes: {kind: log}}
streams: {orders: {kind: directory, path: drop}}
assets:
  eu_orders:
    watchers:
      - stream: orders
        when: event.region == "eu" && headers.source == "shop" && now - meta.timestamp < duration("1m")
        run: {target: notes, job: x, params: {order: "${key}", amount: "${event.amount}"}, tags: {team: sales}}
  us_orders: {watchers: [{stream: orders, match: {region: us}, run: {target: notes, job: x}}]}
"""


def test_the_example_in_the_manual_is_a_test_that_passes(headrace: Any, home: Any) -> None:
    home.configure(MANUAL)
    manual = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    (example,) = re.findall(r"^```yaml\n(tests:\n.*?)^```$", manual, re.DOTALL | re.MULTILINE)
    Path("headrace_test.yaml").write_text(example)
    said = headrace("test")
    assert said.code == 0, said
