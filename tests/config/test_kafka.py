"""A stream of kind `kafka` in a configuration: keys that it alone has, files beside the YAML, and secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridge.config.effective import effective
from bridge.config.json_schema import json_schema
from bridge.config.load import load
from bridge.config.model import Config
from bridge.config.problems import ConfigError
from bridge.wiring import KINDS

REST = """
store: sqlite:///headrace.db
targets: {t: {kind: log}}
assets: {a: {watchers: [{stream: orders, run: {target: t, job: j}}]}}
"""
KAFKA = """
streams:
  orders:
    kind: kafka
    bootstrap_servers: ["b-1:9092", "b-2:9092"]
    topics: [orders]
    group_id: headrace-orders
"""


def read(tmp_path: Path, text: str, *, check: bool = False, **env: str) -> Config:
    path = tmp_path / "headrace.yaml"
    path.write_text(text + REST)
    return load([path], kinds=KINDS, env=env, check=check)


def problems(tmp_path: Path, text: str, *, check: bool = False) -> list[Any]:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, text, check=check)
    return list(raised.value.problems)


def test_a_kafka_stream_may_say_where_it_starts_and_where_dead_letters_go(tmp_path: Path) -> None:
    more = "    start: 2026-11-30T00:00:00Z\n    dead_letter: {topic: orders.dead, create: true}\n"
    options = read(tmp_path, KAFKA + more, check=True).streams["orders"].options
    assert (options.start, options.dead_letter.topic) == ("2026-11-30T00:00:00Z", "orders.dead")
    assert read(tmp_path, f"{KAFKA}    start: 120\n").streams["orders"].options.start == 120
    assert read(tmp_path, f"{KAFKA}    start: ${{AT}}\n", AT="120").streams["orders"].options.start == 120


@pytest.mark.parametrize("key", ["start: earliest", "dead_letter: {topic: x}"])
def test_for_other_kinds_these_keys_stay_known_and_not_available(tmp_path: Path, key: str) -> None:
    [problem] = problems(tmp_path, f"streams: {{orders: {{kind: directory, path: drop, {key}}}}}\n")
    assert problem.message == f"`{key.partition(':')[0]}` is known, but not available in this version"


def test_files_of_certificates_begin_at_the_folder_of_the_yaml(tmp_path: Path) -> None:
    options = read(tmp_path, f"{KAFKA}    tls: {{ca_file: ca.pem}}\n").streams["orders"].options
    assert options.tls.ca_file == str(tmp_path / "ca.pem")
    [problem] = problems(tmp_path, f"{KAFKA}    tls: {{key_file: client.key, cert_file: client.pem}}\n", check=True)
    assert f"`tls.key_file` {tmp_path / 'client.key'}: can't be used" in problem.message


def test_a_password_is_shown_nowhere(tmp_path: Path) -> None:
    text = f"{KAFKA}    sasl: {{mechanism: PLAIN, username: u, password: hunter2-and-more}}\n"
    config = read(tmp_path, text)
    shown = effective(config)["streams"]["orders"]
    assert shown["sasl"]["password"] == "***"
    assert shown["session_timeout"] == "45s"
    assert "hunter2" not in repr(config) + repr(config.streams) + repr(config.streams["orders"].options)
    token = "    sasl: {mechanism: OAUTHBEARER, token: {provider: 'a:B', kwargs: {client: hunter2-and-more}}}\n"
    assert "hunter2" not in str(effective(read(tmp_path, KAFKA + token)))


def test_what_is_shown_means_the_same(tmp_path: Path) -> None:
    config = read(tmp_path, f"{KAFKA}    start: 7\n    dead_letter: {{topic: orders.dead}}\n")
    again = tmp_path / "again"
    again.mkdir()
    text = msgspec.json.encode(effective(config)).decode()  # JSON is YAML
    (again / "headrace.yaml").write_text(text)
    assert load([again / "headrace.yaml"], kinds=KINDS, env={}, check=False).streams["orders"].options == (
        config.streams["orders"].options
    )


def test_an_editor_is_told_of_every_key(tmp_path: Path) -> None:
    stream = json_schema(KINDS)["$defs"]["stream.kafka"]["properties"]
    assert {"topics", "topic_pattern", "start", "dead_letter", "tls", "sasl", "max_attempts"} <= stream.keys()
    assert stream["session_timeout"]["default"] == "45s"
