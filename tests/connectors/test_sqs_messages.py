"""What a receive brings, as polls; and what is known of a message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.core.model import UNORDERED, Slice
from bridge.decode.decoder import decoder_of
from bridge.decode.options import Decoding
from connectors.sqs.messages import body_of, message_of, meta_of, poll_of, text_of


def received(name: str, body: str = "{}", **system: str) -> dict[str, Any]:
    return {"MessageId": name, "ReceiptHandle": f"handle of {name}", "Body": body, "Attributes": system}


def test_messages_of_a_standard_queue_are_one_slice_without_an_order() -> None:
    poll = poll_of([received("1", "a"), received("2", "b", MessageGroupId="fair")], 5.0, is_fifo=False)
    assert poll.slices == [Slice(UNORDERED, 0, 2)]
    assert poll.bodies == [b"a", b"b"]
    assert poll.received == 5.0


def test_messages_of_a_fifo_queue_are_cut_by_group_in_their_order() -> None:
    came = [received(n, n, MessageGroupId=g) for n, g in (("a1", "A"), ("b1", "B"), ("a2", "A"), ("b2", "B"))]
    poll = poll_of(came, 0.0, is_fifo=True)
    assert poll.slices == [Slice("A", 0, 2), Slice("B", 2, 4)]
    assert poll.bodies == [b"a1", b"a2", b"b1", b"b2"]
    assert [payload.key for payload in poll.payloads] == ["a1", "a2", "b1", "b2"]


def test_handle_id_and_count_are_kept_whatever_the_body_is() -> None:
    message = message_of(received("1", "\ud800 is half a character", ApproximateReceiveCount="3"))
    assert (message.key, message.handle, message.deliveries) == ("1", "handle of 1", 3)


def test_half_a_character_in_a_body_is_kept_as_bytes_that_are_no_text() -> None:
    body = body_of(received("1", "\ud800"))
    with pytest.raises(UnicodeDecodeError):
        body.decode()


def test_a_message_may_lack_everything_that_sqs_is_asked_for() -> None:
    message = message_of({"MessageId": "1", "ReceiptHandle": "h"})
    assert message.deliveries is None
    assert body_of({"MessageId": "1"}) == b""
    meta = meta_of(message)
    assert (meta.timestamp, meta.key, meta.headers, meta.lane) == (None, None, (), "")


def test_meta_has_what_sqs_knows() -> None:
    system = {"SentTimestamp": "1700000000123", "ApproximateReceiveCount": "2", "MessageGroupId": "g",
              "MessageDeduplicationId": "d", "AWSTraceHeader": "Root=1"}  # fmt: skip
    meta = meta_of(message_of(received("1", **system)))
    assert meta.position == meta.message_id == "1"
    assert meta.timestamp == 1700000000.123
    assert meta.delivery_attempt == 2
    assert (meta.key, meta.lane) == (b"g", "g")
    assert dict(meta.headers) == {"MessageDeduplicationId": b"d", "AWSTraceHeader": b"Root=1"}


def test_attributes_are_headers_and_their_types_are_kept() -> None:
    raw = received("1")
    raw["MessageAttributes"] = {
        "text": {"DataType": "String", "StringValue": "x"},
        "number": {"DataType": "Number.int", "StringValue": "007"},
        "binary": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
    }
    headers = dict(meta_of(message_of(raw)).headers)
    assert headers["text"] == b"x"
    assert headers["number"] == b"007"
    assert headers["binary"] == b"\x00\xff"
    assert headers["headrace-types"] == b"number=Number.int,binary=Binary"


def test_plain_texts_need_no_note_of_their_types() -> None:
    raw = received("1")
    raw["MessageAttributes"] = {"text": {"DataType": "String", "StringValue": "x"}}
    assert meta_of(message_of(raw)).headers == (("text", b"x"),)


@pytest.mark.parametrize("body", [b"", b"\xff", b"\x00", b"a\x0bb", "\ufffe".encode()])
def test_what_sqs_does_not_take_as_text_is_none(body: bytes) -> None:
    assert text_of(body) is None


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"]), min_size=1))
def test_any_text_goes_as_it_is(text: str) -> None:
    assert text_of(text.encode()) == text


# What S3 sends when somebody sets up notifications (B28) -------------------------------------------------------------

TEST_EVENT = '{"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b", "RequestId": "r", "HostId": "h"}'
CREATED = '{"Records": [{"eventSource": "aws:s3", "s3": {"object": {"key": "k"}}}]}'


def in_sns(message: str) -> str:
    envelope = {"Type": "Notification", "TopicArn": "arn:aws:sns:eu-west-1:1:t", "MessageId": "m", "Message": message}
    return json.dumps(envelope)


def test_test_events_of_s3_are_ignored_raw_and_in_sns_and_their_neighbours_are_not() -> None:
    decoder = decoder_of(Decoding(unwrap=("sns", "s3")), max_body=100_000, read=lambda path: b"")
    assert decoder is not None
    came = [received(str(n), body) for n, body in enumerate([TEST_EVENT, CREATED, in_sns(TEST_EVENT), '{"a": 1}'])]
    decoded = [decoder.events(body) for body in poll_of(came, 0.0, is_fifo=False).bodies]
    assert [bool(each.ignored) for each in decoded] == [True, False, True, False]
    assert [len(each.events) for each in decoded] == [0, 1, 0, 1]
