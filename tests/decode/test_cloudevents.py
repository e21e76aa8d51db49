"""CloudEvents: which mode it is, and that the event is the same in all of them (B69)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.cloudevents import Headers
from bridge.decode.decoder import Decoded, Decoder, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import Decoding, Envelope

ATTRIBUTES = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.paid"}
STRUCTURED = (("content-type", b"application/cloudevents+json"),)
BATCH = (("content-type", b"application/cloudevents-batch+json"),)


def decoder(*unwrap: Envelope, max_body: int = 100_000) -> Decoder:
    made = decoder_of(Decoding("cloudevents", unwrap=unwrap), max_body=max_body, read=lambda path: b"")
    assert made is not None
    return made


DECODER = decoder()


def read(body: bytes, headers: Headers = ()) -> Any:
    (event,) = DECODER.events(body, headers).events
    return json.loads(event.text)


def fault_of(body: bytes, headers: Headers = ()) -> tuple[str, str]:
    with pytest.raises(DecodeFault) as caught:
        DECODER.events(body, headers)
    return caught.value.fault.reason, caught.value.fault.error


def binary(content_type: bytes | None = b"application/json", prefix: str = "ce_", **more: str) -> Headers:
    headers: list[tuple[str, bytes | None]] = [
        (prefix + name, value.encode()) for name, value in {**ATTRIBUTES, **more}.items()
    ]
    return headers if content_type is None else [*headers, ("content-type", content_type)]


# Which mode


@pytest.mark.parametrize(
    "content_type",
    [b"application/cloudevents+json", b"application/cloudevents+json; charset=UTF-8", b"Application/CloudEvents+JSON",
     b"application/cloudevents", b" application/cloudevents ; charset=utf-8"],
)  # fmt: skip
def test_a_content_type_of_cloudevents_is_structured_mode(content_type: bytes) -> None:
    body = json.dumps({**ATTRIBUTES, "data": {"x": 1}}).encode()
    assert read(body, [("Content-Type", content_type)]) == {**ATTRIBUTES, "data": {"x": 1}}
    assert fault_of(b'{"x":1}', [("Content-Type", content_type)])[0] == "cloudevent"


def test_the_content_type_decides_before_the_attributes_in_headers() -> None:
    body = json.dumps({**ATTRIBUTES, "id": "inside"}).encode()
    assert read(body, [*binary(None), *STRUCTURED])["id"] == "inside"


@pytest.mark.parametrize("prefix", ["ce_", "ce-", "CE_", "Ce-", "cloudEvents:", "cloudEvents_", "CLOUDEVENTS:"])
def test_a_specversion_in_the_headers_is_binary_mode(prefix: str) -> None:
    assert read(b'{"x":1}', binary(prefix=prefix)) == {
        **ATTRIBUTES, "datacontenttype": "application/json", "data": {"x": 1}
    }  # fmt: skip


def test_without_such_headers_the_body_is_plain_json() -> None:
    structured = json.dumps({**ATTRIBUTES, "data": 1}).encode()
    assert read(structured) == {**ATTRIBUTES, "data": 1}
    assert read(b'{"x":1}', [("content-type", b"application/json"), ("ce_id", b"1")]) == {"x": 1}
    assert fault_of(b"hello")[0] == "malformed"


# The event


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b'{"n": 9007199254740993, "d": 1.10}', '"data": {"n": 9007199254740993, "d": 1.10}'),
        (b"null", '"data": null'), (b'"x"', '"data": "x"'), (b"[]", '"data": []'), (b"", ""),
    ],
)  # fmt: skip
def test_binary_and_structured_mode_give_equal_events(data: bytes, fields: str) -> None:
    kind = {"datacontenttype": "application/json"}
    text = json.dumps({**ATTRIBUTES, **kind})[:-1] + (f", {fields}}}" if fields else "}")
    assert read(data, binary()) == read(text.encode(), STRUCTURED)


def test_data_keeps_its_digits() -> None:
    (event,) = DECODER.events(b'{"price": 1.10}', binary()).events
    assert b'"data":{"price": 1.10}' in event.text


@pytest.mark.parametrize(
    ("content_type", "data", "field", "value"),
    [
        (b"application/vnd.shop+json", b"[1]", "data", [1]), (b"text/json", b"[1]", "data", [1]),
        (b"Application/JSON;charset=utf-8", b"[1]", "data", [1]), (None, b"[1]", "data", [1]),
        (b"text/plain", b"[1]", "data", "[1]"), (b"text/xml; charset=UTF-8", "<é/>".encode(), "data", "<é/>"),
        (b"text/csv; charset=latin-1", b"a,b", "data", "a,b"), (b"application/xml", b"<a/>", "data_base64", "PGEvPg=="),
        (b"image/png", b"\x89PNG", "data_base64", "iVBORw=="), (b"application/jsonl", b"1", "data_base64", "MQ=="),
    ],
)  # fmt: skip
def test_data_is_json_or_text_or_base64_by_its_content_type(
    content_type: bytes | None, data: bytes, field: str, value: Any
) -> None:
    event = read(data, binary(content_type))
    assert event[field] == value
    assert {"data", "data_base64"} & set(event) == {field}
    assert event.get("datacontenttype") == (content_type.decode() if content_type else None)


def test_extensions_and_all_other_attributes_are_there() -> None:
    event = read(b"", [*binary(None, traceparent="00-x", time="2024-01-02T03:04:05Z"), ("other", b"\xff")])
    assert event == {**ATTRIBUTES, "traceparent": "00-x", "time": "2024-01-02T03:04:05Z"}


def test_null_headers_are_passed_over_and_of_duplicates_the_last_one_wins() -> None:
    headers = [*binary(None), ("ce_id", b"2"), ("CE_ID", b"3"), ("ce_id", None), ("ce_subject", None)]
    assert read(b"", [*headers, ("content-type", None)]) == {**ATTRIBUTES, "id": "3"}


def test_data_can_bring_no_attributes_of_its_own() -> None:
    assert fault_of(b'1,"type":"other"', binary())[0] == "malformed"
    assert fault_of(b'{}}{"type":1', binary())[0] == "malformed"
    event = read(b'{"type":"other"}', [*binary(), ("ce_data", b"x"), ("ce_data_base64", b"eA==")])
    assert event["type"] == "order.paid"
    assert event["data"] == {"type": "other"}
    assert "data_base64" not in event


def test_what_stands_in_headers_is_escaped() -> None:
    assert read(b"", binary(None, subject='","type":"other'))["subject"] == '","type":"other'


# Batches


def test_a_batch_is_split_in_its_order() -> None:
    events = [{**ATTRIBUTES, "id": str(n), "data": n} for n in range(3)]
    decoded = DECODER.events(json.dumps(events).encode(), BATCH)
    assert [json.loads(event.text) for event in decoded.events] == events


def test_an_empty_batch_is_ignored() -> None:
    assert DECODER.events(b" [ ] ", BATCH) == Decoded([], "empty batch")


def test_a_bad_event_of_a_batch_is_named_and_the_message_is_one_dead_letter() -> None:
    reason, words = fault_of(json.dumps([ATTRIBUTES, {"id": "2", "specversion": "1.0"}]).encode(), BATCH)
    assert reason == "cloudevent"
    assert words.startswith("event 1 of the batch: no CloudEvent: it lacks source, type")
    assert fault_of(json.dumps(ATTRIBUTES).encode(), BATCH) == (
        "cloudevent",
        "a batch is a JSON array of events, and this is none",
    )


# What is no CloudEvent


@pytest.mark.parametrize(
    ("event", "missing"),
    [
        ({**ATTRIBUTES, "id": ""}, "id"),
        ({**ATTRIBUTES, "type": None}, "type"),
        ({**ATTRIBUTES, "source": 1}, "source"),
        ({**ATTRIBUTES, "specversion": 1.0}, "specversion"),
        ({}, "specversion, id, source, type"),
    ],
)
def test_what_is_missing_is_named(event: Any, missing: str) -> None:
    reason, words = fault_of(json.dumps(event).encode(), STRUCTURED)
    assert reason == "cloudevent"
    assert f"it lacks {missing} (" in words


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"[]", STRUCTURED, "cloudevent"), (b"", STRUCTURED, "malformed"), (b"\xff", STRUCTURED, "encoding"),
        (b"{", STRUCTURED, "malformed"), (b"{}", [("content-type", b"application/cloudevents+avro")], "cloudevent"),
        (b"{}", [("content-type", b"application/cloudeventsx")], "cloudevent"), (b"{", BATCH, "malformed"),
        (b"[1]", BATCH, "cloudevent"), (b"[", BATCH, "malformed"), (b"\xff", BATCH, "encoding"),
        (b"x", binary(), "malformed"), (b"\xff", binary(b"text/plain"), "encoding"), (b"NaN", binary(), "malformed"),
        (b"\xe9", binary(b"text/plain; charset=iso-8859-1"), "encoding"), (b"1e999", binary(), "number"),
        (b"{}", [("ce_specversion", b"1.0")], "cloudevent"), (b"", binary(None, subject="\0"), "nul"),
        (b"", [*binary(None), ("ce_subject", b"\xff")], "encoding"), (b"", [("content-type", b"\xff")], "encoding"),
        (b"[" * 100 + b"]" * 100, binary(), "too_deep"), (b"[" * 5000 + b"]" * 5000, BATCH, "too_deep"),
    ],
)  # fmt: skip
def test_each_fault_has_its_reason(body: bytes, headers: Headers, reason: str) -> None:
    assert fault_of(body, headers)[0] == reason


def test_no_value_shows_up_in_a_fault() -> None:
    for body, headers in ((b'{"id":"s3cret"}', STRUCTURED), (b"", [*binary(None), ("ce_x", b"\xffs3cret")])):
        assert "s3cret" not in fault_of(body, headers)[1]


# In an envelope


def test_attributes_of_an_envelope_are_the_headers() -> None:
    attributes = {f"ce-{name}": {"Type": "String", "Value": value} for name, value in ATTRIBUTES.items()}
    attributes["ce-priority"] = {"Type": "Number", "Value": "5"}
    attributes["ce-blob"] = {"Type": "Binary", "Value": "YWI="}
    attributes["ce-list"] = {"Type": "String.Array", "Value": "[]"}
    envelope = {"Type": "Notification", "TopicArn": "t", "Message": '{"x":1}', "MessageAttributes": attributes}
    (event,) = decoder("sns").events(json.dumps(envelope).encode(), STRUCTURED).events
    assert json.loads(event.text) == {**ATTRIBUTES, "priority": "5", "blob": "ab", "data": {"x": 1}}


# Whatever comes

names = st.sampled_from(
    ["content-type", "ce_specversion", "ce_id", "ce-source", "cloudEvents:type", "ce_", "ce_data", ""]
)
texts = st.sampled_from(
    [b"application/json", b"application/cloudevents", b"text/x", b"1.0", b"application/cloudevents-batch"]
)
headers = st.lists(st.tuples(names | st.text(max_size=4), st.none() | texts | st.binary(max_size=4)), max_size=8)
bodies = st.binary(max_size=12) | st.sampled_from(
    [b"{}", b"[]", b"[{}]", json.dumps(ATTRIBUTES).encode(), b"null", b'""']
)


@given(bodies, headers)
@settings(deadline=None, max_examples=300)
def test_any_body_with_any_headers_is_events_or_a_fault(body: bytes, headers: Headers) -> None:
    words = ""
    try:
        decoded = DECODER.events(body, headers)
    except DecodeFault as error:
        words = error.fault.error
    else:
        assert bool(decoded.events) != bool(decoded.ignored)
    assert "the decoder failed" not in words
