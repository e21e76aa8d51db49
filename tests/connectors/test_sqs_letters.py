"""What a copy of a dead letter looks like in a queue of SQS."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from bridge.core.errors import Refused
from bridge.ports import Letter, Outgoing
from connectors.sqs import people
from connectors.sqs.letters import Entry, batches_of, entry_of, group_of, reference_to, size_of

MOST = 1024 * 1024


def letter(**changes: Any) -> Letter:
    known: dict[str, Any] = {
        "number": 1, "id": "id-1", "watcher": "w", "stream": "orders", "identity": "message-1", "position": "message-1",
        "body": b'{"a": 1}', "key": None, "headers": (), "timestamp": None, "reason": "rejected", "error": "",
        "attempts": 3, "created_at": 0.0,
    }  # fmt: skip
    return Letter(**{**known, **changes})


def said(one: Letter, most: int = MOST, *, is_fifo: bool = False) -> dict[str, Any]:
    return dict(entry_of(one, most, is_fifo=is_fifo).said)


def values(one: dict[str, Any]) -> dict[str, Any]:
    return {name: a.get("StringValue", a.get("BinaryValue")) for name, a in one["MessageAttributes"].items()}


def test_a_copy_has_the_body_as_it_was_and_says_where_it_is_from_and_why() -> None:
    found = said(letter(error="no such field"))
    assert found["MessageBody"] == '{"a": 1}'
    assert values(found) == {
        "headrace-dead-letter": "id-1",
        "headrace-message-id": "message-1",
        "headrace-stream": "orders",
        "headrace-watcher": "w",
        "headrace-reason": "rejected",
        "headrace-attempts": "3",
        "headrace-error": "no such field",
    }
    assert "MessageGroupId" not in found


def test_attributes_of_the_message_are_kept_with_their_types() -> None:
    types = ("headrace-types", b"n=Number.int,b=Binary.png")
    found = said(letter(headers=(types, ("n", b"007"), ("b", b"text"), ("s", b"x"), ("raw", b"\x00"))))
    kept = {name: a for name, a in found["MessageAttributes"].items() if not name.startswith("headrace-")}
    assert kept == {
        "n": {"DataType": "Number.int", "StringValue": "007"},
        "b": {"DataType": "Binary.png", "BinaryValue": b"text"},
        "s": {"DataType": "String", "StringValue": "x"},
        "raw": {"DataType": "Binary", "BinaryValue": b"\x00"},
    }


def test_ten_attributes_are_the_limit_and_those_without_room_share_one() -> None:
    headers = (*((f"a{n}", b"v%d" % n) for n in range(9)), ("a9", b"\xff"))
    found = said(letter(headers=headers, error="e"))
    attributes = values(found)
    assert len(attributes) == 10
    assert attributes["a0"] == "v0"
    packed = json.loads(attributes["headrace-attributes"])
    assert sorted([*packed, *(name for name in attributes if name.startswith("a"))]) == [f"a{n}" for n in range(10)]
    assert packed["a2"] == {"Type": "String", "Value": "v2"}
    assert packed["a9"] == {"Type": "Binary", "Value": base64.b64encode(b"\xff").decode()}


def test_an_attribute_that_is_too_large_for_that_is_named() -> None:
    headers = (*((f"a{n}", b"v") for n in range(6)), ("huge", b"x" * 100_000))
    assert json.loads(values(said(letter(headers=headers)))["headrace-attributes"])["huge"] is None


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a\x00b", "\ufffe".encode()])
def test_bytes_that_sqs_does_not_take_go_as_base64_and_say_so(body: bytes) -> None:
    found = said(letter(body=body))
    assert base64.b64decode(found["MessageBody"]) == body
    assert values(found)["headrace-body"] == "base64"


def test_what_is_too_large_goes_by_reference() -> None:
    one = letter(body=b"x" * 2000, headers=(("a", b"v"),))
    found = said(one, most=1000)
    assert json.loads(found["MessageBody"]) == {"headrace-by-reference": 2000}
    assert values(found)["headrace-body"] == "reference"
    assert "a" not in values(found)
    assert reference_to(one, is_fifo=False).said == found


def test_the_size_is_that_which_sqs_counts() -> None:
    attributes = {"n": {"DataType": "String", "StringValue": "ä"}, "b": {"DataType": "Binary", "BinaryValue": b"123"}}
    assert size_of("ö", attributes) == 2 + (1 + 6 + 2) + (1 + 6 + 3)


def test_an_empty_body_can_not_stand_there_and_goes_by_reference() -> None:
    assert values(said(letter(body=b"")))["headrace-body"] == "reference"


def test_on_a_fifo_queue_a_copy_keeps_its_group_and_is_known_by_its_id() -> None:
    found = said(letter(key=b"customer-7"), is_fifo=True)
    assert found["MessageGroupId"] == "customer-7"
    assert found["MessageDeduplicationId"] == "id-1"
    again = said(letter(key=b"customer-7"), is_fifo=True)
    assert again["MessageDeduplicationId"] == "id-1"


def test_a_group_that_sqs_does_not_take_gives_way_to_the_stream() -> None:
    assert group_of("ä".encode(), "orders") == "orders"
    assert group_of(None, "my orders") == "headrace"
    long = said(letter(id="i" * 200), is_fifo=True)["MessageDeduplicationId"]
    assert len(long) == 64


def test_what_sqs_said_of_the_message_is_no_attribute_and_its_trace_goes_on() -> None:
    headers = (("MessageDeduplicationId", b"d"), ("AWSTraceHeader", b"Root=1-2-3"))
    found = said(letter(headers=headers))
    assert found["MessageSystemAttributes"]["AWSTraceHeader"]["StringValue"] == "Root=1-2-3"
    assert not {"MessageDeduplicationId", "AWSTraceHeader"} & set(values(found))


def test_words_are_cut_and_always_something_that_sqs_takes() -> None:
    found = values(said(letter(reason="ä" * 5000, error="\udce4\x00" * 5000, watcher="")))
    assert len(found["headrace-reason"]) == len(found["headrace-error"]) == 500
    assert "\x00" not in found["headrace-error"]
    assert found["headrace-watcher"] == "-"


def test_a_call_takes_ten_and_no_more_bytes_than_the_queue() -> None:
    entries = [(n, Entry({}, 100)) for n in range(12)]
    assert [len(batch) for batch in batches_of(entries, 10_000)] == [10, 2]
    assert [len(batch) for batch in batches_of(entries, 250)] == [2] * 6
    assert [len(batch) for batch in batches_of(entries[:1], 50)] == [1]


# What people send ----------------------------------------------------------------------------------------------------


def test_what_a_person_sends_has_headers_as_attributes_and_its_lane_as_group() -> None:
    sent = people.entry_of(Outgoing(b"{}", None, (("a", b"v"), ("b", b"\x00")), "g"), is_fifo=True).said
    assert sent["MessageBody"] == "{}"
    assert sent["MessageGroupId"] == "g"
    assert sent["MessageAttributes"]["a"] == {"DataType": "String", "StringValue": "v"}
    assert sent["MessageAttributes"]["b"] == {"DataType": "Binary", "BinaryValue": b"\x00"}


def test_the_same_message_sent_twice_is_two_messages() -> None:
    one = Outgoing(b"{}", b"key")
    ids = {people.entry_of(one, is_fifo=True).said["MessageDeduplicationId"] for _ in range(2)}
    assert len(ids) == 2
    assert people.entry_of(one, is_fifo=True).said["MessageGroupId"] == "key"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Outgoing(None), "without a body"),
        (Outgoing(b""), "without a body"),
        (Outgoing(b"\xff"), "is no text"),
        (Outgoing(b"{}", b"key"), "have no key"),
        (Outgoing(b"{}", headers=(("", b"v"),)), "can't be the name"),
        (Outgoing(b"{}", headers=(("aws.x", b"v"),)), "can't be the name"),
        (Outgoing(b"{}", headers=(("a", None),)), "is empty"),
        (Outgoing(b"{}", headers=tuple((f"a{n}", b"v") for n in range(11))), "10 message attributes at most"),
    ],
)
def test_what_sqs_can_not_carry_is_refused_before_it_is_sent(message: Outgoing, why: str) -> None:
    with pytest.raises(Refused, match=why):
        people.entry_of(message, is_fifo=False)
