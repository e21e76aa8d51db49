"""`headrace explain`: who takes a message and why not the others, for messages at hand and for stored ones."""

from __future__ import annotations

import base64
import io
import json
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from bridge.cli.recovery import recovered
from bridge.store.reader import open_reader

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
  small:
    watchers:
      - stream: orders
        match: {amount: {"<": 10}}
        run: {target: notes, job: note}
  big:
    watchers:
      - stream: orders
        when: event.region in ["eu", "uk"] && event.amount > 100 && event.customer.tier == "gold"
        reject: event.currency == "XXX"
        run:
          target: notes
          job: note
          params: {order: "${event.order_id}", more: {region: "${event.region}", text: "for ${event.order_id}"}}
  every:
    watchers:
      - stream: orders
        enabled: false
        run: {target: notes, job: note}
  code:
    watchers:
      - stream: orders
        trigger: nowhere:Code
        run: {target: notes, job: note}
"""

BIG = {"order_id": "o-1", "region": "eu", "amount": 120.50, "customer": {"tier": "gold"}, "currency": "EUR"}

Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def configured(home: Any) -> None:
    home.configure(CONFIG)


@pytest.fixture
def explain(headrace: Any, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Asks about a message on standard input: an object, or bytes."""

    def ask(message: object, *arguments: str) -> Any:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
        return headrace("explain", *arguments)

    return ask


def told(said: Any, watcher: str) -> dict[str, Any]:
    (found,) = [each for each in said.json["watchers"] if each["watcher"] == watcher]
    return dict(found)


# All watchers --------------------------------------------------------------------------------------------------------


def test_each_watcher_says_whether_it_takes_the_message_and_if_not_why(explain: Ask) -> None:
    said = explain(BIG, "-o", "table")
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "watcher           verdict   why\n"
        'big               match     {"order":"o-1","more":{"region":"eu","text":"for o-1"}}\n'
        "every (disabled)  match     {}\n"
        "small             no_match  event.amount < 10, and event.amount is 120.5\n"
        "code              python    only its own code knows; try it with bridge.testing\n"
    )


@pytest.mark.parametrize(
    ("change", "verdict", "why"),
    [
        ({"amount": 20}, "no_match", "event.amount > 100, and event.amount is 20"),
        ({"region": "us", "amount": 20}, "no_match", 'event.region in ["eu", "uk"], and event.region is "us"'),
        ({"amount": None}, "missing_field", "event.amount > 100, and event.amount is missing"),
        ({"amount": "120"}, "error", "text"),
        ({"currency": "XXX"}, "reject", "`reject` holds"),
        ({"order_id": None}, "dead_letter", "`event.order_id` is null"),
        ({"currency": None}, "match", ""),
    ],
)
def test_the_first_clause_that_decides_is_named_with_what_it_saw(
    explain: Ask, change: dict[str, Any], verdict: str, why: str
) -> None:
    found = told(explain({**BIG, **change}), "big")
    assert found["verdict"] == verdict, found
    assert why in found["why"]


def test_a_message_that_can_not_be_read_says_why(explain: Ask) -> None:
    said = explain(b'{"order_id": ', "-o", "table")
    assert said.code == 0
    assert said.out.startswith("it can't be read (malformed): not JSON: ")
    assert explain(b"").json["fault"]["reason"] == "malformed"
    assert explain(b"[" * 200_000).json["fault"]["reason"] in ("malformed", "too_deep")
    assert explain(b'"' + b"x" * 2_000_000 + b'"').json["fault"]["reason"] == "too_big"


def test_a_message_that_nobody_took_a_close_look_at_is_explained_all_the_same(explain: Ask, home: Any) -> None:
    home.configure(CONFIG.replace("enabled: false", "match: {a: b}"))
    said = explain(b'{"a": "\\u0000", "amount": 50, "region": "us"}')
    assert said.json["fault"] is None
    assert said.json["flaw"]["reason"] == "nul"
    assert told(said, "small")["verdict"] == "no_match"


# One watcher ---------------------------------------------------------------------------------------------------------


def test_the_clauses_of_one_watcher_are_shown_with_their_values(explain: Ask) -> None:
    said = explain({**BIG, "amount": 20, "customer": {}}, "--watcher", "big", "-o", "table")
    assert said.out == (
        "big: no_match  event.amount > 100, and event.amount is 20\n"
        "\n"
        "the condition\n"
        "  ✗ all of these\n"
        '  ├── ✓ event.region in ["eu", "uk"]\n'
        '  │   └── event.region = "eu"\n'
        "  ├── ✗ event.amount > 100\n"
        "  │   └── event.amount = 20\n"
        '  └── ? event.customer.tier == "gold"\n'
        "      └── event.customer.tier = missing\n"
    )


def test_what_the_run_would_be_told_is_shown_too(explain: Ask) -> None:
    said = explain(BIG, "-w", "big", "-o", "table")
    assert '\nits `reject`\n  ✗ event.currency == "XXX"\n' in said.out
    assert said.out.endswith('\nparams {"order":"o-1","more":{"region":"eu","text":"for o-1"}}\n')


def test_programs_get_whole_values(explain: Ask) -> None:
    long = "x" * 5000
    said = explain({**BIG, "region": long}, "--watcher", "big")
    (event,) = told(said, "big")["events"]
    assert event["condition"]["parts"][0]["saw"] == {"event.region": long}
    assert event["condition"]["value"] == "false"
    shown = explain({**BIG, "region": long}, "--watcher", "big", "-o", "table").out
    assert "x" * 50 in shown
    assert "x" * 100 not in shown


def test_a_value_can_not_command_the_terminal(explain: Ask) -> None:
    said = explain({**BIG, "region": "\x1b[2J"}, "--watcher", "big", "-o", "table")
    assert "\x1b" not in said.out
    assert "\\u001b[2J" in said.out


def test_an_unknown_watcher_is_refused_with_the_nearest(explain: Ask) -> None:
    said = explain(BIG, "--watcher", "bigg")
    assert (said.code, said.err) == (1, "headrace: there is no watcher 'bigg'; did you mean `big`?\n")


# Where it comes from -------------------------------------------------------------------------------------------------

OTHER = """\
  parcels:
    kind: directory
    path: parcels
assets:
  parcel: {watchers: [{stream: parcels, run: {target: notes, job: x}}]}
"""


def test_of_several_streams_one_must_be_named_or_a_watcher_of_it(explain: Ask, home: Any) -> None:
    home.configure(CONFIG.replace("assets:\n", OTHER))
    said = explain(BIG)
    assert said.code == 2
    assert "name one with --stream: orders, parcels" in said.err
    assert [w["watcher"] for w in explain(BIG, "--stream", "parcels").json["watchers"]] == ["parcel"]
    assert [w["watcher"] for w in explain(BIG, "--watcher", "parcel").json["watchers"]] == ["parcel"]
    assert "did you mean `parcels`?" in explain(BIG, "--stream", "parcel").err
    assert explain(BIG, "--stream", "orders", "--watcher", "parcel").code == 2


def test_what_a_broker_would_tell_can_be_given(explain: Ask, home: Any) -> None:
    condition = (
        'key == "k" && headers.source == "a=b" && meta.timestamp < now && now == timestamp("2026-01-31T12:00:05Z")'
    )
    home.configure(CONFIG.replace('event.region in ["eu", "uk"]', f'{condition} && event.region in ["eu"]'))
    arguments = ("--key", "k", "--header", "source=a=b", "--timestamp", "2026-01-31T12:00:00Z")
    said = explain(BIG, *arguments, "--now", "2026-01-31T12:00:05Z")
    assert told(said, "big")["verdict"] == "match", said


@pytest.fixture
def registry() -> Iterator[str]:
    """A schema registry that knows the schema 7, on a real port."""
    schema = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "int"}]}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_known = self.path.startswith("/schemas/ids/7")
            body = json.dumps({"schema": json.dumps(schema)} if is_known else {"error_code": 40403}).encode()
            self.send_response(200 if is_known else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing is said."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_schema_is_asked_of_the_registry_once(explain: Ask, home: Any, registry: str) -> None:
    home.configure(
        CONFIG.replace(
            "    path: drop\n", f"    path: drop\n    decode: {{avro: {{registry: {{url: '{registry}'}}}}}}\n"
        )
    )
    said = explain(b"\0\0\0\0\x07" + bytes([2 * 5]), "--watcher", "small")
    assert told(said, "small")["verdict"] == "match", said
    said = explain(b"\0\0\0\0\x08" + bytes([2 * 5]), "--watcher", "small")
    assert said.json["fault"]["reason"] == "framing", said


def test_a_registry_that_is_away_is_told(explain: Ask, home: Any) -> None:
    home.configure(
        CONFIG.replace("path: drop", "path: drop\n    decode: {avro: {registry: {url: 'http://127.0.0.1:9'}}}")
    )
    said = explain(b"\0\0\0\0\x07" + bytes([2 * 5]), "--watcher", "small")
    assert (said.code, said.out) == (1, ""), said
    assert "127.0.0.1:9" in said.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--header", "source"), "--header source: write NAME=VALUE"),
        (("--timestamp", "noon"), "--timestamp noon: the text is no timestamp"),
        (("--now", "noon"), "--now noon: the text is no timestamp"),
        (("--dlq", "1", "--run", "x"), "--dlq and --run are two messages"),
        (("--dlq", "1", "--key", "x"), "a dead letter has its own"),
        (("--run", "x", "--watcher", "big"), "leave --watcher and --stream out"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(explain: Ask, arguments: tuple[str, ...], why: str) -> None:
    said = explain(BIG, *arguments)
    assert (said.code, said.out) == (2, "")
    assert why in said.err


# Dead letters --------------------------------------------------------------------------------------------------------


async def test_a_dead_letter_is_explained_with_its_key_headers_and_time(
    headrace: Any, home: Any, letter_row: Any
) -> None:
    home.configure(CONFIG.replace('event.customer.tier == "gold"', 'key == "k" && headers.source == "shop"'))
    headers = json.dumps([["source", base64.b64encode(b"shop").decode()]]).encode()
    body = json.dumps(BIG).encode()
    await home.filled(letter_row(1, watcher="big", body=body, key=b"k", headers=headers, reason="params"))
    said = headrace("explain", "--dlq", "1")
    assert told(said, "big")["verdict"] == "match", said
    assert said.json["dead_letter"]["reason"] == "params"
    shown = headrace("explain", "--dlq", "1", "--watcher", "big", "-o", "table").out
    assert shown.startswith("dead letter  1\nwatcher      big\nreason       params\n")
    assert '✓ key == "k"' in shown


async def test_a_dead_letter_without_a_body_is_explained_as_a_tombstone(
    headrace: Any, home: Any, letter_row: Any
) -> None:
    home.configure(CONFIG.replace('match: {amount: {"<": 10}}', "when: meta.tombstone"))
    await home.filled(
        letter_row(1, watcher="*", body=b"null", tombstone=True), letter_row(2, watcher="*", body=b"null")
    )
    verdicts = [told(headrace("explain", "--dlq", number), "small")["verdict"] for number in ("1", "2")]
    assert verdicts == ["match", "no_match"]


async def test_a_dead_letter_with_a_null_header_is_explained(headrace: Any, home: Any, letter_row: Any) -> None:
    home.configure(CONFIG.replace('event.customer.tier == "gold"', '!has(headers.source) && "source" in headers'))
    await home.filled(letter_row(1, watcher="big", body=json.dumps(BIG).encode(), headers=b'[["source", null]]'))
    said = headrace("explain", "--dlq", "1")
    assert told(said, "big")["verdict"] == "match", said


async def test_a_dead_letter_that_is_not_there_or_of_another_stream_is_refused(
    headrace: Any, home: Any, letter_row: Any
) -> None:
    await home.filled(letter_row(1, stream="gone"))
    assert "there is no dead letter 7" in headrace("explain", "--dlq", "7").err
    assert "there is no dead letter -1" in headrace("explain", "--dlq", "-1").err
    said = headrace("explain", "--dlq", "1")
    assert said.code == 1
    assert "of the stream 'gone', which this configuration does not have" in said.err


def test_without_a_store_there_is_no_dead_letter(headrace: Any) -> None:
    assert headrace("explain", "--dlq", "1").code == 3


# Runs ----------------------------------------------------------------------------------------------------------------


async def test_a_run_shows_its_params_beside_what_made_them_and_what_can_still_be_said(
    headrace: Any, home: Any, run_row: Any
) -> None:
    params = b'{"order":"o-1","more":{"region":"eu","text":"for o-1"}}'
    await home.filled(run_row(1, watcher="big", asset="big", params=params))
    said = headrace("explain", "--run", "big/src/1", "-o", "table")
    assert said.code == 0, said
    assert "run key   big/src/1/0\nwatcher   big\nstream    orders\nposition  a.jsonl:1\n" in said.out
    assert 'more.region  "eu"       ${event.region}\n' in said.out
    assert 'more.text    "for o-1"  for ${event.order_id}\n' in said.out
    assert '  ✓ event.region in ["eu", "uk"]\n  └── event.region = "eu"\n' in said.out
    assert "  ✓ event.amount > 100  held; its value is not kept\n" in said.out
    report = headrace("explain", "--run", "big/src/1").json
    assert report["conditions"][0]["saw"] == {"event.region": "eu"}
    assert report["conditions"][1] == {"clause": "event.amount > 100", "held": None}


async def test_a_run_that_no_longer_fits_its_watcher_says_so(headrace: Any, home: Any, run_row: Any) -> None:
    await home.filled(run_row(1, watcher="big", params=b'{"order":"o-1","more":{"region":"us","text":"x"}}'))
    run = open_reader(home.url).run("big/src/1/0")
    assert run is not None
    from bridge.wiring import load_config

    config = load_config([Path("headrace.yaml")], check=False)
    (watcher,) = [each for each in config.watchers if each.id == "big"]
    assert "the watcher was another" in " ".join(recovered(run, config, watcher.definition).remarks)
    assert "defined otherwise here" in " ".join(recovered(run, config, "1").remarks)


async def test_a_run_of_a_watcher_that_is_gone_shows_what_is_kept(headrace: Any, home: Any, run_row: Any) -> None:
    await home.filled(run_row(1))  # of eu_orders, which this configuration does not have
    said = headrace("explain", "--run", "eu_orders/src/1/0", "-o", "table")
    assert said.code == 0
    assert 'order  "o1"\n' in said.out
    assert "this configuration has no watcher 'eu_orders'" in said.out


async def test_a_run_of_a_python_watcher_was_decided_by_its_code(headrace: Any, home: Any, run_row: Any) -> None:
    await home.filled(run_row(1, watcher="code"))
    assert "decided by nowhere:Code" in headrace("explain", "--run", "code/src/1/0", "-o", "table").out


async def test_an_unknown_run_is_refused(headrace: Any, home: Any, run_row: Any) -> None:
    await home.filled(run_row(1))
    said = headrace("explain", "--run", "nothing")
    assert said.code == 1
    assert "there is no run 'nothing'" in said.err


def test_a_table_shows_the_beginning_of_long_params(headrace, monkeypatch):
    body = json.dumps({**BIG, "order_id": "x" * 50_000}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(body)))
    said = headrace("explain", "--output", "table")
    assert "… (--watcher big shows all of it)" in said.out
    assert len(said.out) < 2_000
