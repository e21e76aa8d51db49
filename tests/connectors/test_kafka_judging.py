"""What the facts of a cluster mean for a stream. No broker is needed: the facts are given."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.consumer.consumer import RoundRobinPartitionAssignor

from bridge.ports import Finding
from connectors.kafka import judging
from connectors.kafka.cluster import Group, Member, Topic
from connectors.kafka.options import DeadLetterTopic, KafkaOptions, Sasl, Tls
from connectors.kafka.probing import explained, parts_of

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
ORDERS = Topic("orders", leaders={0: 1, 1: 2}, replicas={0: 3, 1: 3})


def options_of(**keys: Any) -> KafkaOptions:
    written: dict[str, Any] = {"bootstrap_servers": ["b:9092"], "group_id": "g", "topics": ["orders"]}
    return KafkaOptions(**{**written, **keys})


def only(findings: Any) -> Finding:
    [finding] = findings
    return finding


# Topics --------------------------------------------------------------------------------------------------------------


def test_a_topic_that_is_well_needs_no_word() -> None:
    assert list(judging.of_topic("orders", ORDERS, ["orders"])) == []


def test_an_unknown_topic_comes_with_those_that_are_near() -> None:
    missing = Topic("ordres", "UnknownTopicOrPartitionError")
    found = only(judging.of_topic("ordres", missing, ["orders", "payments"]))
    assert found == ("error", "there is no topic 'ordres'", "did you mean 'orders'? Else create it")
    assert "(there are 'payments')" in only(judging.of_topic("x", missing, ["payments"])).hint
    assert "grant Describe" in only(judging.of_topic("x", None, [])).hint


def test_a_topic_that_is_closed_to_us_is_told_with_the_rights_it_takes() -> None:
    found = only(judging.of_topic("orders", Topic("orders", "TopicAuthorizationFailedError"), []))
    assert found.severity == "error"
    assert "Describe and Read" in found.hint


def test_one_copy_is_a_warning_and_no_leader_an_error() -> None:
    found = list(judging.of_topic("orders", Topic("orders", leaders={0: -1, 1: 1}, replicas={0: 1, 1: 1}), []))
    assert [finding.severity for finding in found] == ["error", "warning"]
    assert "no broker leads partition 0" in found[0].message
    assert "replication factor 1" in found[1].message


def test_a_pattern_that_fits_nothing_is_a_warning() -> None:
    assert "fits none of the 7 topics" in only(judging.of_pattern("x.*", [], 7)).message
    assert list(judging.of_pattern("x.*", ["x1"], 7)) == []


def test_a_compacted_topic_is_a_warning_about_tombstones() -> None:
    settings = {"cleanup.policy": "compact,delete", "compression.type": "producer"}
    found = only(judging.of_settings("orders", settings, options_of(), []))
    assert (found.severity, "are left out" in found.message) == ("warning", True)
    delivering = only(judging.of_settings("orders", settings, options_of(tombstones="deliver"), []))
    assert "are events as well" in delivering.message


def test_a_topic_whose_codec_is_missing_is_an_error() -> None:
    found = only(judging.of_settings("orders", {"compression.type": "zstd"}, options_of(), ["lz4", "zstd"]))
    assert (found.severity, "compressed with zstd" in found.message) == ("error", True)


# Dead letters --------------------------------------------------------------------------------------------------------

DEAD = Topic("orders.dead", leaders={0: 1}, replicas={0: 3})


def of_dead(topic: Topic | None, settings: Any = None, **keys: Any) -> list[Finding]:
    options = options_of(dead_letter=DeadLetterTopic(topic="orders.dead", **keys))
    return list(judging.of_dead_letters(options, topic, settings or {}, ["orders"]))


def test_a_dead_letter_topic_must_be_there_unless_it_is_made() -> None:
    missing = Topic("orders.dead", "UnknownTopicOrPartitionError")
    assert "`create: true`" in only(of_dead(missing)).hint
    assert of_dead(missing, create=True) == []
    assert of_dead(DEAD) == []


def test_one_that_is_closed_to_us_is_an_error() -> None:
    assert "Write" in only(of_dead(Topic("orders.dead", "TopicAuthorizationFailedError"), create=True)).hint


def test_one_that_takes_less_than_a_source_is_a_warning() -> None:
    sizes = {"orders": {"max.message.bytes": "2097152"}, "orders.dead": {"max.message.bytes": "1048576"}}
    found = only(of_dead(DEAD, sizes))
    assert found.severity == "warning"
    assert "takes 1MiB at most, and a topic that is read 2MiB" in found.message


def test_one_that_is_compacted_is_an_error() -> None:
    assert (
        "refuses letters without a key" in only(of_dead(DEAD, {"orders.dead": {"cleanup.policy": "compact"}})).message
    )


# The group -----------------------------------------------------------------------------------------------------------


def of_group(group: Group, *, is_listed: bool = True) -> list[Finding]:
    return list(judging.of_group(options_of(), group, frozenset({"orders"}), is_listed=is_listed))


def stable(*topics: frozenset[str] | None, kind: str = "consumer", protocol: str = "roundrobin") -> Group:
    return Group("", "Stable", kind, protocol, tuple(Member("billing", "10.0.0.7", each) for each in topics))


def test_a_group_with_our_own_subscription_is_ours() -> None:
    assert of_group(stable(frozenset({"orders"}))) == []
    assert of_group(Group("", "Empty", "consumer", "", ())) == []
    assert of_group(Group("", "Dead", "", "", ()), is_listed=False) == []


def test_a_group_that_reads_something_else_is_an_error() -> None:
    found = only(of_group(stable(frozenset({"orders"}), frozenset({"payments"}), frozenset({"refunds"}))))
    assert found.severity == "error"
    assert "billing on 10.0.0.7 reads payments, and this stream orders" in found.message
    assert "`group_id` of its own" in found.hint


def test_members_of_another_kind_or_with_another_protocol_are_an_error() -> None:
    assert "another kind ('connect')" in only(of_group(stable(None, kind="connect"))).message
    assert "by 'range'" in only(of_group(stable(frozenset({"orders"}), protocol="range"))).message
    assert "newer protocol" in only(of_group(Group("", "Dead", "", "", ()))).message
    assert "can't be looked at" in only(of_group(Group("GroupAuthorizationFailedError", "", "", "", ()))).message


def test_members_whose_subscription_can_t_be_read_are_left_alone() -> None:
    assert of_group(stable(None)) == []


def test_we_share_partitions_as_the_client_does_by_default() -> None:
    assert RoundRobinPartitionAssignor.name == judging.OURS


@pytest.mark.parametrize(("session", "word"), [(5.0, "at least 6s"), (1801.0, "at most 30m"), (6.0, ""), (45.0, "")])
def test_the_session_timeout_is_one_that_the_brokers_take(session: float, word: str) -> None:
    broker = {"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "1800000"}
    found = list(judging.of_timeouts(options_of(session_timeout=session), broker))
    assert [word in finding.message for finding in found] == ([True] if word else [])
    assert list(judging.of_timeouts(options_of(session_timeout=session), {})) == []


# Offsets -------------------------------------------------------------------------------------------------------------

BEGINS, ENDS = {P0: 100, P1: 0}, {P0: 300, P1: 50}


def of_offsets(committed: Any, **keys: Any) -> list[Finding]:
    return list(judging.of_offsets(options_of(**keys), committed, BEGINS, ENDS))


def test_a_first_start_says_how_many_records_each_choice_means() -> None:
    found = only(of_offsets({}))
    assert found.severity == "error"
    assert "`start: earliest` means 250 records" in found.hint
    assert "`start: latest` none" in found.hint
    assert of_offsets({}, start="latest") == []


def test_a_group_that_has_offsets_needs_no_start() -> None:
    assert of_offsets({P0: 200}) == []


def test_a_start_outside_of_the_partitions_is_a_warning() -> None:
    found = only(of_offsets({}, start=70))
    assert found.message.startswith(
        "`start` 70 is outside of orders/0 (and of 1 more partitions), which has offsets 100 to 300"
    )
    assert of_offsets({P0: 100}, start=70) == []


def test_records_that_retention_deleted_are_told_with_their_range() -> None:
    found = only(of_offsets({P0: 90, P1: 0}))
    assert found.severity == "warning"
    assert "10 records were deleted before group 'g' has read them: orders/0 from offset 90 to 99" in found.message
    assert only(of_offsets({P0: 90}, on_gap="stop")).severity == "error"


def test_an_offset_behind_the_end_is_an_error() -> None:
    found = only(of_offsets({P0: 301, P1: 51}))
    assert (
        found.message == "group 'g' stands at offset 301 of orders/0 (and of 1 more partitions), behind its end (300)"
    )


# Getting in ----------------------------------------------------------------------------------------------------------

CONNECTION = kafka.KafkaConnectionError("Connection at b:9092 closed")
USER = Sasl(mechanism="PLAIN", username="u", password="p")


@pytest.mark.parametrize(
    ("error", "keys", "what", "hint"),
    [
        (socket.gaierror(-2, "Name or service not known"), {}, "no such host", "`bootstrap_servers`"),
        (ConnectionRefusedError(111, "refused"), {}, "nobody listens there", "is the broker up"),
        (TimeoutError(), {}, "no answer within 6 s", "firewall"),
        (CONNECTION, {}, "opened with PLAINTEXT", "it may want TLS or SASL"),
        (EOFError(), {"tls": Tls()}, "opened with SSL", "remove `tls`"),
        (CONNECTION, {"sasl": USER}, "opened with SASL_PLAINTEXT", "add `tls`"),
        (kafka.IllegalSaslStateError(), {"sasl": USER}, "asks for no SASL", "remove `sasl`"),
        (
            kafka.SaslAuthenticationFailed("Invalid credentials"),
            {"sasl": USER},
            "not let in: Invalid credentials",
            "`sasl`",
        ),
        (
            kafka.UnsupportedSaslMechanismError("no. Enabled mechanisms are: ['SCRAM-SHA-512']"),
            {"sasl": USER},
            "it takes ['SCRAM-SHA-512']",
            "`sasl.mechanism`",
        ),
        (
            ssl.SSLCertVerificationError(1, "self-signed certificate"),
            {"tls": Tls()},
            "self-signed certificate",
            "`tls.ca_file`",
        ),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]"), {"tls": Tls()}, "TLS", "`tls`"),
        (
            kafka.KafkaConnectionError("no token for the brokers: `token.provider` a:B gave an empty token"),
            {"sasl": USER},
            "gave an empty token",
            "`sasl.token`",
        ),
        (ValueError("odd"), {}, "ValueError: odd", "PLAINTEXT"),
    ],
)
def test_what_is_in_the_way_is_told_with_what_to_do(error: Exception, keys: Any, what: str, hint: str) -> None:
    found = explained(error, "b:9092", options_of(**keys))
    assert found.message.startswith("b:9092: ")
    assert what in found.message
    assert hint in found.hint


def test_servers_are_taken_apart() -> None:
    assert parts_of("b-1.example.com:9092") == ("b-1.example.com", 9092)
    assert parts_of("[::1]:9092") == ("::1", 9092)
