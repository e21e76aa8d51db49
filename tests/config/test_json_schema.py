"""The JSON Schema for editors: what is right passes, and what the reader refuses for its shape does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

import connectors
from bridge import targets
from bridge.config.blocks import Kinds
from bridge.config.json_schema import json_schema
from bridge.core.units import parse_duration, parse_size

ROOT = Path(__file__).resolve().parents[2]

RICH = """\
store: {url: sqlite:///headrace.db, max_size: 2GiB, retention: {finished: 7d}}
instance: {heartbeat: 500ms}
include: [more.yaml]
tests: [{name: anything, message: 5}]
defaults:
  streams: {kind: directory, decode: [gzip, json], retry: {delay: 1s}}
  targets: {max_in_flight: "${MOST}"}
  watchers: {match: {a: 1}, run: {target: shell, tags: {a: 1, b: x, c: true}}}
targets:
  shell: {kind: command, command: [./run.sh], env: {A: b}, timeout: 5m, retry: {attempts: 5, jitter: 0.2}}
  notes: {kind: log}
streams:
  inbox:
    kind: directory
    path: inbox
    settle: 1.5s
    lines: ${LINES}
    login: {user: me, password: "${SECRET}"}
    decode: {avro: {registry: {url: "http://r", timeout: 3s}}}
    unwrap: sns
    max_body: 1 MiB
    weight: 1
  shared: {path: inbox}
assets:
  orders:
    description: all of them
    watchers:
      - name: orders_${each.region}
        for_each: [{region: eu, where: {a: 1}}, {region: us, where: {a: 2}}]
        enabled: ${each.on}
        match: ${each.where}
        when: event.a > 1
        reject: {b: [1, 2]}
        on_error: reject
        run: {job: j, params: "${each.params}", key: "${event.id}", key_ttl: 1h}
      - {name: p, stream: inbox, trigger: a.B, kwargs: {x: [1]}, run: {target: shell, job: j, params: {a: 1}}}
"""


def parsed(text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 2)
    return yaml.load(text)


@pytest.fixture(scope="module")
def check(kinds_once: Kinds) -> Any:
    schema = json_schema(kinds_once._replace(streams={"directory": kinds_once.streams["directory"]}))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema).is_valid


@pytest.mark.parametrize("path", sorted((ROOT / "configs").glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_passes(path):
    schema = json_schema(Kinds(connectors.KINDS, targets.KINDS))
    jsonschema.Draft202012Validator(schema).validate(parsed(path.read_text()))


def test_what_is_right_passes(check, good):
    assert check(parsed(good))
    assert check(parsed(RICH))
    assert check({"streams": {}})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("store:", "stor:"),
        ("streams:\n  inbox", "streams:\n  in box"),
        ("heartbeat: 500ms", "heartbeat: 500"),
        ("heartbeat: 500ms", "heartbeat: 5 minutes"),
        ("2GiB", "2GB5"),
        ("url: sqlite:///headrace.db, ", ""),
        ("include: [more.yaml]", "include: more.yaml"),
        ("tests: [{", "tests: [5, {"),
        ("kind: directory\n", "kind: nope\n"),
        ("    path: inbox\n", "    pth: inbox\n"),
        ("    path: inbox\n", ""),
        ("    path: inbox\n", "    path: inbox\n    dead_letter: x\n"),
        ("lines: ${LINES}", "lines: yes please"),
        ("weight: 1", "weight: 1.5"),
        ("user: me, ", ""),
        ("registry: {", "registry: {usr: x, "),
        ('url: "http://r"', "url: localhost"),
        ("unwrap: sns", "unwrap: sqs"),
        ("shared: {", "shared: {nope: 1, "),
        ("[gzip, json]", "[gzip, jsn]"),
        ("{kind: directory, decode", "{path: x, decode"),
        ("watchers: {match", "watchers: {name: x, match"),
        ("command: [./run.sh]", "command: ./run.sh"),
        ("command: [./run.sh]", "command: []"),
        ("attempts: 5", "attempts: 0"),
        ("attempts: 5", "attempts: 2.5"),
        ("jitter: 0.2", "jitter: 2"),
        ("c: true}", "c: [1]}"),
        ("on_error: reject", "on_error: ignore"),
        ("for_each: [", "for_each: [5, "),
        ("key_ttl: 1h", "key_ttl: 1"),
        ("kwargs: {x: [1]}", "kwargs: [1]"),
        ("enabled: ${each.on}", "enabled: 1"),
        ("stream: inbox, trigger", "stream: [inbox], trigger"),
        ("description: all", "descr: all"),
    ],
)
def test_what_is_wrong_does_not(check, old, new):
    assert old in RICH
    assert not check(parsed(RICH.replace(old, new, 1)))


def test_units_are_those_that_are_read(check):
    for text, parse, key in (("5{}", parse_duration, "heartbeat"), ("5{}", parse_size, "")):
        for unit in ("ms", "s", "m", "h", "d", "B", "KB", "MB", "GB", "KiB", "MiB", "GiB", "", "x", "min"):
            written = text.format(unit)
            try:
                parse(written)
                is_unit = True
            except ValueError:
                is_unit = False
            block = {"instance": {key: written}} if key else {"store": {"url": "x", "max_size": written}}
            assert check(block) == is_unit, written


def test_defaults_and_meanings_come_along(kinds_once):
    schema = json_schema(kinds_once)
    shell = schema["$defs"]["target.command"]["properties"]
    assert shell["timeout"]["default"] == "1h"
    assert shell["max_in_flight"] == {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"\$\{"}],
        "description": "a whole number of at least 1",
        "default": 8,
    }
    assert (
        schema["$defs"]["stream.directory"]["properties"]["path"]["description"]
        == "the folder that files are dropped into"
    )


def test_a_kind_whose_package_is_missing_may_have_any_keys(kinds_once):
    check = jsonschema.Draft202012Validator(json_schema(kinds_once)).is_valid
    assert check({"streams": {"a": {"kind": "queue", "whatever": 1}}})
