"""SNS, S3 notifications and EventBridge: what is within, and what is not taken for them (B28, B30)."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.decoder import Decoded, Decoder, Event, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import Decoding, Envelope, Wrapper

ORDER = b'{"order":1.10}'
TEST_EVENT = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Time": "2014-10-13T15:57:02.089Z", "Bucket": "b"}


def decoder(*unwrap: Envelope, wrappers: Sequence[Wrapper] = ()) -> Decoder:
    decoding = Decoding(unwrap=tuple(unwrap), wrappers=tuple(wrappers))
    made = decoder_of(decoding, max_body=100_000, read=lambda path: b"")
    assert made is not None
    return made


def opened(body: bytes, *unwrap: Envelope, wrappers: Sequence[Wrapper] = ()) -> Decoded:
    return decoder(*unwrap, wrappers=wrappers).events(body)


def sns(message: bytes, **fields: Any) -> bytes:
    envelope = {
        "Type": "Notification",
        "MessageId": "95df01b4",
        "TopicArn": "arn:aws:sns:eu-west-1:1:orders",
        "Message": message.decode(),
        **fields,
    }
    return json.dumps({name: value for name, value in envelope.items() if value is not None}).encode()


def records(*keys: str) -> bytes:
    return json.dumps({"Records": [{"eventSource": "aws:s3", "s3": {"object": {"key": key}}} for key in keys]}).encode()


# SNS


def test_the_event_of_a_notification_is_its_message() -> None:
    assert opened(sns(ORDER), "sns").events == [Event(ORDER, {})]
    assert opened(b"\xef\xbb\xbf" + sns(ORDER), "sns").events == [Event(ORDER, {})]


def test_attributes_keep_their_types() -> None:
    attributes = {
        "name": {"Type": "String", "Value": "x"},
        "count": {"Type": "Number", "Value": "9007199254740993"},
        "price": {"Type": "Number", "Value": "1.10"},
        "blob": {"Type": "Binary", "Value": base64.b64encode(b"\0\xff").decode()},
        "many": {"Type": "String.Array", "Value": '["a", 1.5, true, null]'},
        "mine": {"Type": "String.custom", "Value": "y"},
        "cents": {"Type": "Number.int", "Value": "110"},
    }
    (event,) = opened(sns(ORDER, MessageAttributes=attributes), "sns").events
    assert event.attributes == {
        "name": "x",
        "count": 9007199254740993,
        "price": Decimal("1.10"),
        "blob": b"\0\xff",
        "many": ["a", Decimal("1.5"), True, None],
        "mine": "y",
        "cents": 110,
    }
    assert str(event.attributes["price"]) == "1.10"


@pytest.mark.parametrize(
    "attribute",
    [
        {"Type": "Number", "Value": "x"}, {"Type": "Number", "Value": "true"}, {"Type": "Number", "Value": "NaN"},
        {"Type": "Number", "Value": "1e999"}, {"Type": "Number", "Value": ""}, {"Type": "Binary", "Value": "?"},
        {"Type": "Binary", "Value": "é"},
        {"Type": "String.Array", "Value": "{}"}, {"Type": "String.Array", "Value": "["},
        {"Type": "String"}, {"Type": 1, "Value": "x"}, "x", None,
    ],
    ids=range(13),
)  # fmt: skip
def test_an_attribute_that_is_not_what_it_declares_is_a_fault_that_names_it(attribute: Any) -> None:
    with pytest.raises(DecodeFault, match="the SNS attribute 'colour'") as caught:
        opened(sns(ORDER, MessageAttributes={"colour": attribute}), "sns")
    assert caught.value.fault.reason == "malformed"


@pytest.mark.parametrize(
    "body",
    [
        sns(ORDER, TopicArn=None), sns(ORDER, TopicArn=1), sns(ORDER, Type="SubscriptionConfirmation"),
        sns(ORDER, Type=None), sns(ORDER, Message=None), sns(ORDER, Message={"a": 1}), ORDER, b"[]", b"1", b'"x"',
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_no_notification_stays_what_it_is(body: bytes) -> None:
    assert opened(body, "sns").events == [Event(body, None)]


def test_the_message_goes_on_through_the_wrappers() -> None:
    assert opened(sns(base64.b64encode(ORDER)), "sns", wrappers=["base64"]).events == [Event(ORDER, {})]


def test_raw_delivery_and_an_envelope_give_the_same_event() -> None:
    raw = opened(ORDER, "sns").events[0]
    enveloped = opened(sns(ORDER), "sns").events[0]
    assert raw.text == enveloped.text
    assert raw.attributes is None  # those of the message itself count


def test_a_message_that_is_no_json_is_a_fault() -> None:
    for message, reason in ((b"hello", "malformed"), (b"", "malformed"), (b'{"a":NaN}', "malformed")):
        with pytest.raises(DecodeFault) as caught:
            opened(sns(message), "sns")
        assert caught.value.fault.reason == reason


# S3


def test_each_record_is_an_event() -> None:
    events = opened(records("a", "b", "c"), "s3").events
    assert [json.loads(event.text)["s3"]["object"]["key"] for event in events] == ["a", "b", "c"]
    assert {event.attributes for event in events} == {None}


def test_the_test_event_is_ignored_wherever_it_comes_in() -> None:
    body = json.dumps(TEST_EVENT).encode()
    assert opened(body, "s3") == Decoded((), "test event")
    assert opened(sns(body), "sns", "s3") == Decoded((), "test event")
    assert opened(body, "sns").events == [Event(body, None)]


def test_records_within_a_notification_keep_its_attributes() -> None:
    attributes = {"n": {"Type": "Number", "Value": "1"}}
    events = opened(sns(records("a", "b"), MessageAttributes=attributes), "sns", "s3").events
    assert [event.attributes for event in events] == [{"n": 1}, {"n": 1}]


@pytest.mark.parametrize(
    "body",
    [
        b'{"Records": []}', b'{"Records": {}}', b'{"Records": null}', b'{"Records": [1]}', b'{"hello": 1}', b"[]",
        b'{"Records": [{"eventSource": "aws:s3"}, {"eventSource": "aws:sqs"}]}', b'{"Records": [{}]}',
        b'{"Event": "s3:TestEvent", "Records": []}', b'{"Event": "s3:testevent"}',
    ],
)  # fmt: skip
def test_any_other_shape_stays_what_it_is(body: bytes) -> None:
    assert opened(body, "s3").events == [Event(body, None)]


# EventBridge


def test_the_event_of_eventbridge_is_its_detail() -> None:
    fields = b'"version":"0","id":"1","detail-type":"Object Created","source":"aws.s3","resources":["r"]'
    body = b"{" + fields + b',"detail":{"n":1.10}}'
    (event,) = opened(body, "eventbridge").events
    assert event.text == b'{"n":1.10}'
    assert event.attributes == {
        "version": "0", "id": "1", "detail-type": "Object Created", "source": "aws.s3", "resources": ["r"]
    }  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        b'{"detail-type": "x", "source": "y"}', b'{"detail-type": "x", "detail": {}}', b'{"source": "x", "detail": {}}',
        b'{"detail-type": 1, "source": "y", "detail": {}}', b"[]",
    ],
)  # fmt: skip
def test_what_is_no_event_of_eventbridge_stays_what_it_is(body: bytes) -> None:
    assert opened(body, "eventbridge").events == [Event(body, None)]


def test_a_number_of_an_envelope_may_be_smaller_than_any_decimal() -> None:
    body = b'{"detail-type": "t", "source": "s", "tiny": 1e-99999999999999999999, "detail": {}}'
    (event,) = opened(body, "eventbridge").events
    assert event.attributes == {"detail-type": "t", "source": "s", "tiny": 0}
    (event,) = opened(
        sns(b"{}", MessageAttributes={"n": {"Type": "Number", "Value": "1e-99999999999999999999"}}), "sns"
    ).events
    assert event.attributes == {"n": 0}


def test_inner_attributes_join_the_outer_and_win() -> None:
    inner = b'{"detail-type":"x","source":"y","detail":{}}'
    attributes = {"source": {"Type": "String", "Value": "sns"}, "n": {"Type": "Number", "Value": "1"}}
    (event,) = opened(sns(inner, MessageAttributes=attributes), "sns", "eventbridge").events
    assert event.attributes == {"source": "y", "n": 1, "detail-type": "x"}


# Whatever comes


def test_a_body_that_is_no_json_is_the_business_of_the_format() -> None:
    deep = b'{"Message":' + b"[" * 5000 + b"]" * 5000 + b"}"
    for body, reason in ((b"hello", "malformed"), (b"\xff", "encoding"), (b"", "malformed"), (deep, "too_deep")):
        with pytest.raises(DecodeFault) as caught:
            opened(body, "sns", "s3", "eventbridge")
        assert caught.value.fault.reason == reason


names = st.sampled_from(
    ["Type", "TopicArn", "Message", "MessageAttributes", "Records", "Event", "eventSource", "detail"]
)
words = st.sampled_from(["Notification", "aws:s3", "s3:TestEvent", "{}", '{"Event":"s3:TestEvent"}', "x"])
values = st.recursive(
    st.none() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner),
    max_leaves=8,
)


@given(values, st.permutations(["sns", "s3", "eventbridge"]))
@settings(deadline=None)
def test_any_json_is_opened_or_stays_or_is_a_fault(value: Any, unwrap: list[Envelope]) -> None:
    decoded = words = None
    try:
        decoded = opened(json.dumps(value).encode(), *unwrap)
    except DecodeFault as error:
        words = error.fault.error
    if decoded is None:
        assert words is not None
        assert "the decoder failed" not in words
    else:
        assert bool(decoded.events) != bool(decoded.ignored)
