"""What a copy of a dead letter says in its headers."""

from __future__ import annotations

from typing import Any

from bridge.ports import Letter
from connectors.kafka.options import DeadLetterTopic, KafkaOptions
from connectors.kafka.relay import headers_of, relay_of


def letter(**changes: Any) -> Letter:
    known: dict[str, Any] = {
        "number": 1, "id": "id-1", "watcher": "w", "stream": "s", "identity": "orders/3/7/1700000000123",
        "position": "orders[3]@7", "body": b"{}", "key": None, "headers": (), "timestamp": None, "reason": "rejected",
        "error": "", "attempts": 0, "created_at": 0.0,
    }  # fmt: skip
    return Letter(**{**known, **changes})


def said(one: Letter) -> dict[str, bytes | None]:
    return dict(headers_of(one))


def test_the_origin_is_told_in_parts() -> None:
    found = said(letter())
    assert found["headrace-topic"] == b"orders"
    assert found["headrace-partition"] == b"3"
    assert found["headrace-offset"] == b"7"
    assert found["headrace-timestamp"] == b"1700000000123"
    assert found["headrace-dead-letter"] == b"id-1"


def test_a_time_that_is_not_there_and_an_error_that_is_empty_are_left_out() -> None:
    found = said(letter(identity="orders/3/7/-1"))
    assert "headrace-timestamp" not in found
    assert "headrace-error" not in found


def test_an_identity_of_another_kind_leaves_the_origin_out() -> None:
    found = said(letter(identity="whatever"))
    assert not {"headrace-topic", "headrace-partition", "headrace-offset"} & set(found)
    assert found["headrace-watcher"] == b"w"


def test_words_are_cut_and_always_utf_8() -> None:
    found = said(letter(reason="ä" * 5000, error="\udce4" * 5000))
    for name in ("reason", "error"):
        value = found[f"headrace-{name}"]
        assert value is not None
        assert len(value.decode()) <= 1000


def test_no_topic_means_no_relay() -> None:
    options = {"bootstrap_servers": ["here:9092"], "group_id": "g", "topics": ["orders"]}
    assert relay_of(KafkaOptions(**options)) is None  # type: ignore[arg-type]
    assert relay_of(KafkaOptions(**options, dead_letter=DeadLetterTopic(topic="dead"))) is not None  # type: ignore[arg-type]
