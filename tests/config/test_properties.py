"""Whatever the text, a configuration or a ConfigError comes of it; and what is wrong is found where it is."""

from __future__ import annotations

import json
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from bridge.config.load import ConfigError, Kinds, load
from bridge.config.nodes import Node
from bridge.config.reader import read_nodes
from bridge.config.reading import Reading, Where
from bridge.config.source import Source

SECRET = "hunter2-XYZZY"
ENV = {"A": "a", "SECRET": SECRET, "EMPTY": "", "N": "7"}

RICH = """\
store:
  url: sqlite:///headrace.db
  max_size: 2GiB
  retention: {finished: 7d, dead_letters: 90d, open: 90d, instances: 7d}
  dedupe_horizon: 32d
instance: {heartbeat: 5s, stop_timeout: 30s}
targets:
  shell:
    kind: command
    command: [./run.sh]
    env: {A: b}
    timeout: 5m
    max_in_flight: 4
    retry: {attempts: 5, delay: 1s, factor: 2, max: 5m, jitter: 0.2}
streams:
  inbox:
    kind: directory
    path: inbox
    settle: 1s
    lines: true
    login:
      user: me
      password: ${SECRET}
    decode: {json: strict}
    unwrap: [sns]
    max_body: 1MiB
    generation: 1
    max_attempts: 5
    retry:
      mode: process
      delay: 1s
    ack_timeout: 5m
    cohort_grace_period: 0s
    max_outstanding: 10000
    max_outstanding_bytes: 64MiB
    max_retrying: 1000
    max_advancing: 8
assets:
  orders:
    description: all of them
    watchers:
      - name: eu
        id: eu_orders
        stream: inbox
        enabled: true
        max_attempts: 3
        match: {region: [eu, uk]}
        when: event.amount > 100
        reject: event.test == true
        on_error: reject
        run:
          target: shell
          job: process
          params: {order: "${event.order_id}"}
          tags: {team: eu}
          key: ${event.order_id}
          key_ttl: 1h
      - name: python
        stream: inbox
        trigger: my.filters.Big
        kwargs: {least: 5}
        run: {target: shell, job: process}
      - name: each_${each.region}
        for_each: [{region: eu}, {region: us}]
        stream: inbox
        match: {region: "${each.region}"}
        run: {target: shell, job: process}
defaults:
  streams: {max_attempts: 4}
  targets:
    retry: {attempts: 3}
  watchers:
    max_attempts: 4
    run: {job: process}
tests:
  - {A: b}
"""

FRAGMENTS = [
    *"[]{}:,-?&*!|>'\"%@`#~$\n\t =",
    *("${A}", "${SECRET}", "${NO}", "${NO:-x}", "${file:/dev/null}", "${file:nope}", "$$", "&a", "*a", "<<: "),
    *("${each.region}", "x ${each.region}", "${each.", "$${each.a}", "include: [c.yaml, .]", "[gzip, {avro: {}}]"),
    *("---\n", "!!str ", "\n  ", "\n    ", "\n      - ", ": ", "- ", "null", "true", "no", "0755", "1e999", ".inf"),
    *("5s", "5", "\ufeff", "\u2028"),
    *re.findall(r"[\w./]+", RICH),
]  # fmt: skip


@pytest.fixture(scope="module")
def loads(tmp_path_factory: pytest.TempPathFactory, kinds_once: Kinds) -> Any:
    path = tmp_path_factory.mktemp("properties") / "c.yaml"

    def loads(text: str) -> list[Any]:
        path.write_bytes(text.encode(errors="surrogatepass"))
        try:
            load([path], kinds=kinds_once, env=ENV)
        except ConfigError as error:
            return list(error.problems)
        return []

    return loads


relaxed = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def check(text: str, problems: list[Any]) -> None:
    lines = re.split(r"\r\n|\r|\n", text)
    for problem in problems:
        rendered = problem.render()
        assert SECRET not in rendered
        assert rendered.splitlines()[0].startswith(problem.file)
        assert 0 <= problem.line <= len(lines) + 1
        if problem.line:
            shown = rendered.splitlines()
            assert "^" in shown[2]
            assert len(shown[1]) < 400


@relaxed
@given(st.text(max_size=60))
def test_any_text_becomes_a_configuration_or_a_config_error(loads, text):
    check(text, loads(text))


@settings(relaxed, max_examples=200)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join))
@example("a: &a\n  <<: *a\n")
@example("? \n: x")
@example("- \n- - ? x\n")
@example("streams: {a: {kind: directory, path: '${file:\0}'}}")
def test_any_yaml_like_text_becomes_a_configuration_or_a_config_error(loads, text):
    check(text, loads(text))


@settings(relaxed, max_examples=120)
@given(st.integers(0, len(RICH) - 1), st.integers(0, 12), st.sampled_from(["", *FRAGMENTS]))
def test_a_good_configuration_with_a_piece_replaced_does_too(loads, at, length, piece):
    text = RICH[:at] + piece + RICH[at + length :]
    check(text, loads(text))


@relaxed
@given(st.binary(max_size=60))
def test_any_bytes_become_a_configuration_or_a_config_error(tmp_path_factory, kinds_once, data):
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(data)
    with pytest.raises(ConfigError):
        load([path], kinds=kinds_once, env=ENV)


# Every key -----------------------------------------------------------------------------------------------------------

_FREE = {"shell", "inbox", "orders", "region", "order", "team", "A", "least"}  # people make these up
KEYS = [
    (number, found.start(1), found[1])
    for number, line in enumerate(RICH.splitlines(), 1)
    for found in re.finditer(r"([A-Za-z_]+): ?", line)
    if found[1] not in {*_FREE, "sqlite"}
]


def test_the_rich_configuration_is_good_and_has_every_kind_of_key(loads):
    assert loads(RICH) == []
    assert len(KEYS) > 75


@settings(relaxed, max_examples=100)
@given(st.sampled_from(KEYS), st.randoms(use_true_random=False))
def test_a_misspelled_key_is_found_in_its_line(loads, key, chance: random.Random):
    number, column, name = key
    at = chance.randrange(len(name))
    wrong = chance.choice([
        name[:at] + name[at + 1 :],
        name[:at] + name[at] + name[at:],
        name[:at] + chance.choice(string.ascii_lowercase) + name[at + 1 :],
        name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :],
        name.upper(),
    ])  # fmt: skip
    assume(wrong and wrong not in {k for _, _, k in KEYS})
    lines = RICH.splitlines(keepends=True)
    line = lines[number - 1]
    lines[number - 1] = line[:column] + wrong + line[column + len(name) :]
    problems = loads("".join(lines))
    here = [p for p in problems if p.line == number and p.column == column + 1]
    assert here, [p.render() for p in problems]
    assert f"`{wrong}` is not a key of" in here[0].message
    if len(name) > 4:
        assert f"`{name}`" in here[0].hint or wrong.lower() in here[0].hint


# JSON is YAML --------------------------------------------------------------------------------------------------------

texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufffe\uffff\ufeff"), max_size=12
)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def plain(text: str) -> object:
    reading = Reading({}, lambda _: "")
    source = Source("x.json", Path(), text)
    root: Node | None = read_nodes(source, reading.problems)
    assert root is not None, [p.render() for p in reading.problems.sorted(())]
    return reading.unfilled(root, Where((), root.place))


@relaxed
@given(documents, st.sampled_from([None, 2]))
def test_json_means_in_yaml_what_it_means_in_json(document, indent):
    text = json.dumps({"value": document}, ensure_ascii=False, indent=indent)
    assert plain(text) == {"value": document}


@relaxed
@given(texts)
def test_text_in_single_quotes_is_that_text(text):
    quoted = text.replace("'", "''")
    assert plain(f"value: '{quoted}'") == {"value": text}


def test_a_thousand_watchers_load_in_a_moment(tmp_path, kinds_once):
    import time

    head = RICH.split("assets:")[0]
    watcher = RICH.split("max_attempts: 3\n")[1].split("      - name: python")[0]
    block = f"  asset_{{n}}:\n    watchers:\n      - stream: inbox\n{watcher}"
    (tmp_path / "c.yaml").write_text(head + "assets:\n" + "".join(block.replace("{n}", str(n)) for n in range(1000)))
    started = time.process_time()
    config = load([tmp_path / "c.yaml"], kinds=kinds_once, env=ENV)
    assert len(config.watchers) == 1000
    assert time.process_time() - started < 10  # about 1 s of CPU, two thirds of it the parser's
