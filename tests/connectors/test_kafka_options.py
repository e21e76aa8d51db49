"""What is written for a stream of kind `kafka`: problems are told before anything is connected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.options import DeadLetterTopic, KafkaOptions, Sasl, Start, Tls, Token, check, start_of


def options_of(**keys: Any) -> KafkaOptions:
    written: dict[str, Any] = {"bootstrap_servers": ["127.0.0.1:9092"], "group_id": "headrace", "topics": ["orders"]}
    return KafkaOptions(**{**written, **keys})


def the_problem(**keys: Any) -> str:
    problems = check(options_of(**keys))
    assert len(problems) == 1, problems
    return problems[0]


def test_what_is_needed_is_enough() -> None:
    assert list(check(options_of())) == []
    assert list(check(options_of(topics=[], topic_pattern=r"orders\..*", start="latest"))) == []


def test_a_stream_reads_topics_or_a_pattern_and_not_both() -> None:
    assert "and both are there" in the_problem(topic_pattern="orders")
    assert "and there is neither" in the_problem(topics=[])


def test_a_pattern_that_does_not_compile_is_shown() -> None:
    said = the_problem(topics=[], topic_pattern="orders(")
    assert "'orders('" in said
    assert "no regular expression" in said


def test_a_pattern_among_the_topics_is_told_where_it_belongs() -> None:
    assert "`topic_pattern`" in the_problem(topics=["orders.*"])


@pytest.mark.parametrize(
    "server", ["broker", "broker:", "broker:kafka", "b:0", "b:70000", "kafka://b:9092", "::1:9092"]
)
def test_a_server_is_a_host_and_a_port(server: str) -> None:
    said = the_problem(bootstrap_servers=[server])
    assert repr(server) in said
    assert "HOST:PORT" in said


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert list(check(options_of(bootstrap_servers=["[::1]:9092", "b-1.example.com:9098"]))) == []


# Where reading begins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "start"),
    [
        ("earliest", Start("earliest")),
        ("latest", Start("latest")),
        (0, Start("offset", 0)),
        (123_456, Start("offset", 123_456)),
        ("1970-01-01T00:00:01.5Z", Start("timestamp", 1500)),
        ("1970-01-01T01:00:00+01:00", Start("timestamp", 0)),
        ("1960-01-01T00:00:00Z", Start("timestamp", 0)),  # brokers take no time before
    ],
)
def test_start_is_a_word_a_time_or_an_offset(written: Any, start: Start) -> None:
    assert start_of(options_of(start=written)) == start
    assert list(check(options_of(start=written))) == []


@pytest.mark.parametrize("written", ["yesterday", "2026-11-30", "Latest", "-1"])
def test_a_start_that_says_nothing_is_a_problem(written: str) -> None:
    said = the_problem(start=written)
    assert repr(written) in said
    assert "`earliest`, `latest`" in said


def test_a_start_that_is_missing_is_a_problem_of_a_first_start_only() -> None:
    assert list(check(options_of())) == []
    with pytest.raises(ValueError, match="`start` is missing"):
        start_of(options_of())


# Times and bounds ----------------------------------------------------------------------------------------------------


def test_heartbeats_come_at_least_three_times_a_session() -> None:
    said = the_problem(session_timeout=6.0, heartbeat_interval=3.0)
    assert "`heartbeat_interval` 3s" in said
    assert "`session_timeout` 6s" in said
    assert said.endswith("lower it to 2s or less")
    assert list(check(options_of(session_timeout=6.0, heartbeat_interval=2.0))) == []


def test_a_rebalance_lasts_longer_than_a_heartbeat_and_the_last_commits() -> None:
    assert "`rebalance_timeout` 7s" in the_problem(rebalance_timeout=7.0)
    assert list(check(options_of(rebalance_timeout=8.0))) == []


def test_a_request_outlasts_a_fetch_that_waits() -> None:
    assert "`request_timeout` 1s" in the_problem(request_timeout=1.0, fetch_max_wait=2.0)


def test_a_partition_does_not_get_more_than_a_fetch() -> None:
    assert "lower it" in the_problem(fetch_max_bytes=2048, max_partition_fetch_bytes=4096)


# Dead letters --------------------------------------------------------------------------------------------------------


def test_dead_letters_do_not_go_round_in_a_circle() -> None:
    said = the_problem(dead_letter=DeadLetterTopic(topic="orders"))
    assert "is one of the `topics` that this stream reads" in said
    said = the_problem(topics=[], topic_pattern=r"orders.*", dead_letter=DeadLetterTopic(topic="orders.dead"))
    assert "fits `topic_pattern` 'orders.*'" in said


def test_the_pattern_is_for_whole_names() -> None:
    kept = options_of(topics=[], topic_pattern=r"orders", dead_letter=DeadLetterTopic(topic="orders.dead"))
    assert list(check(kept)) == []


def test_the_name_of_the_dead_letter_topic_can_be_one() -> None:
    assert "`dead_letter.topic`: 'dead letters'" in the_problem(dead_letter=DeadLetterTopic(topic="dead letters"))


# Who we are ----------------------------------------------------------------------------------------------------------


def test_certificates_must_be_there_and_be_some(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    said = the_problem(tls=Tls(ca_file=str(path)))
    assert said.startswith(f"`tls.ca_file` {path}: can't be used (No such file or directory)")
    path.write_text("no certificate")
    assert f"`tls.ca_file` {path}: can't be used" in the_problem(tls=Tls(ca_file=str(path)))


def test_a_key_needs_its_certificate() -> None:
    assert "without `tls.cert_file`" in the_problem(tls=Tls(key_file="/etc/key.pem"))


def test_passwords_need_a_name_and_a_password() -> None:
    assert "needs `username` and `password`" in the_problem(sasl=Sasl(mechanism="PLAIN"))
    assert "needs `password`" in the_problem(sasl=Sasl(mechanism="SCRAM-SHA-512", username="u"))
    assert list(check(options_of(sasl=Sasl(mechanism="SCRAM-SHA-256", username="u", password="p")))) == []


def test_a_password_is_never_quoted() -> None:
    sasl = Sasl(mechanism="OAUTHBEARER", username="u", password="hunter2!", token=Token(msk_region="eu-west-1"))
    assert "hunter2!" not in " ".join(check(options_of(sasl=sasl)))
    assert "hunter2!" not in repr(options_of(sasl=sasl))
    assert "hunter2!" not in repr(sasl)


def test_tokens_come_from_one_place() -> None:
    assert "needs `token`" in the_problem(sasl=Sasl(mechanism="OAUTHBEARER"))
    assert "there is neither" in the_problem(sasl=Sasl(mechanism="OAUTHBEARER", token=Token()))
    both = Token(provider="a:B", msk_region="eu-west-1")
    assert "both are there" in the_problem(sasl=Sasl(mechanism="OAUTHBEARER", token=both))
    said = the_problem(sasl=Sasl(mechanism="PLAIN", username="u", password="p", token=Token(msk_region="r")))
    assert "takes no `token`" in said


def test_every_problem_is_told_at_once() -> None:
    wrong = options_of(bootstrap_servers=["b"], topic_pattern="(", start="soon", heartbeat_interval=40.0)
    assert len(check(wrong)) >= 4
