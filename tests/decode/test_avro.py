"""Avro: frames and schemas (B70), what values are in JSON, and agreement with fastavro's own reader."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer
from fastavro.types import Schema

from bridge.core.errors import Refused
from bridge.decode.avro_schema import fingerprint_of, schemas_of
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import AvroOptions, Decoding, RegistryOptions

ORDER: Schema = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "doc": "An order.",
    "fields": [{"name": "id", "type": "long"}, {"name": "region", "type": ["null", "string"], "default": None}],
}


def encoded(schema: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


def crc64(text: str) -> bytes:
    """As the specification words it, bit by bit."""
    crc = 0xC15D213AA4D7A795
    for byte in text.encode():
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xC15D213AA4D7A795 if crc & 1 else 0)
    return crc.to_bytes(8, "little")


def single(*schemas: Schema) -> Decoder:
    files = {f"{n}.avsc": json.dumps(schema).encode() for n, schema in enumerate(schemas)}
    return made(AvroOptions(tuple(files)), files)


def made(options: AvroOptions, files: dict[str, bytes] | None = None) -> Decoder:
    decoder = decoder_of(Decoding("avro", avro=options), max_body=100_000, read=(files or {}).__getitem__)
    assert decoder is not None
    return decoder


def registered(**schemas: Schema) -> Decoder:
    """`_7=schema` is what the registry has under the id 7."""
    decoder = made(AvroOptions(registry=RegistryOptions("http://localhost")))
    for name, schema in schemas.items():
        decoder.learn(int(name[1:]), json.dumps(schema))
    return decoder


def read(schema: Schema, data: bytes) -> Any:
    (event,) = registered(_7=schema).events(b"\0\0\0\0\x07" + data).events
    return json.loads(event.text)


def text_of(schema: Schema, data: bytes) -> str:
    return registered(_7=schema).events(b"\0\0\0\0\x07" + data).events[0].text.decode()


def fault_of(decoder: Decoder, body: bytes) -> tuple[str, str]:
    with pytest.raises(DecodeFault) as caught:
        decoder.events(body)
    assert "the decoder failed" not in caught.value.fault.error
    return caught.value.fault.reason, caught.value.fault.error


def reason_of(schema: Schema, data: bytes) -> str:
    return fault_of(registered(_7=schema), b"\0\0\0\0\x07" + data)[0]


def logical(kind: str, name: str, **more: Any) -> Schema:
    return {"type": kind, "logicalType": name, **more}


# Frames


def test_single_object_encoding_is_read_by_fingerprint() -> None:
    canonical = (
        '{"name":"shop.Order","type":"record","fields":'
        '[{"name":"id","type":"long"},{"name":"region","type":["null","string"]}]}'
    )
    body = b"\xc3\x01" + crc64(canonical) + encoded(ORDER, {"id": 1, "region": "eu"})
    (event,) = single("string", ORDER).events(body).events
    assert event.text == b'{"id":1,"region":"eu"}'
    assert event.attributes is None


def test_the_fingerprints_are_those_of_the_specification() -> None:
    assert fingerprint_of("int") == bytes.fromhex("8f5c393f1ad57572")
    assert fingerprint_of("null") == crc64('"null"')


def test_a_schema_may_use_what_files_before_it_define() -> None:
    tier: Schema = {"type": "enum", "name": "shop.Tier", "symbols": ["A", "B"]}
    customer: Schema = {"type": "record", "name": "shop.Customer", "fields": [{"name": "tier", "type": "shop.Tier"}]}
    fields = [{"name": "who", "type": "Customer"}, {"name": "tier", "type": "Tier"}]
    order: Schema = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    whole: Schema = {
        **order,
        "fields": [{"name": "who", "type": {**customer, "fields": [{"name": "tier", "type": tier}]}}, fields[1]],
    }
    body = b"\xc3\x01" + fingerprint_of(whole) + encoded(whole, {"who": {"tier": "A"}, "tier": "B"})
    assert single(tier, customer, order).events(body).events[0].text == b'{"who":{"tier":"A"},"tier":"B"}'
    with pytest.raises(Refused, match=r"number 1.*Customer"):
        single(order, customer, tier)


def test_a_type_may_leave_the_namespace_that_it_stands_in() -> None:
    bare: Schema = {"type": "enum", "name": "Tier", "namespace": "", "symbols": ["A"]}
    fields = [{"name": "x", "type": bare}]
    order: Schema = {"type": "record", "name": "shop.Order", "fields": fields}
    canonical = (
        '{"name":"shop.Order","type":"record","fields":'
        '[{"name":"x","type":{"name":"Tier","type":"enum","symbols":["A"]}}]}'
    )
    assert single(order).events(b"\xc3\x01" + crc64(canonical) + b"\x00").events[0].text == b'{"x":"A"}'


def test_confluents_framing_is_read_by_id() -> None:
    decoder = made(AvroOptions(registry=RegistryOptions("http://localhost")))
    body = b"\0\0\0\x01\x02" + encoded(ORDER, {"id": 1, "region": None})
    assert decoder.needs(body) == 258
    decoder.learn(258, None)
    assert decoder.needs(body) == 258  # there may be one later
    assert fault_of(decoder, body) == ("framing", "the registry knows no schema with the id 258")
    decoder.learn(258, json.dumps(ORDER))
    assert decoder.needs(body) is None
    assert decoder.events(body).events[0].text == b'{"id":1,"region":null}'


def test_a_schema_that_can_never_be_used_is_not_asked_for_again() -> None:
    decoder = made(AvroOptions(registry=RegistryOptions("http://localhost")))
    decoder.learn(1, None, "it is too big")
    decoder.learn(2, '{"type": "record"}')
    decoder.learn(3, "[" * 5000)
    decoder.learn(4, '"\ud800"')
    for schema_id, words in (
        (1, "it is too big"),
        (2, "the schema with the id 2 is no Avro schema: "),
        (3, "id 3"),
        (4, "id 4"),
    ):
        body = bytes((0, 0, 0, 0, schema_id, 2))
        assert decoder.needs(body) is None
        reason, error = fault_of(decoder, body)
        assert reason == "framing"
        assert words in error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a":1}', "the magic byte 0x00 and the id of a schema, this with 0x7b"), (b"", "the body is empty"),
        (b"\0\0\0", "3 bytes, too short for the id of a schema"), (b"\0\0\0\0\x09\x02", "no schema with the id 9"),
        (b"\xc3\x01" + bytes(8), "this with 0xc3"),
    ],
)  # fmt: skip
def test_a_wrong_confluent_frame_is_named(body: bytes, words: str) -> None:
    reason, error = fault_of(registered(_7="long"), body)
    assert reason == "framing"
    assert words in error


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a":1}', "begins with the bytes C3 01, and this with 7B 22"), (b"", "this with nothing"),
        (b"\xc3\x01abc", "5 bytes, too short"), (b"\0\0\0\0\x07\x02", "this with 00 00"),
        (b"\xc3\x01" + bytes(range(8)), "the fingerprint 0x0706050403020100"),
    ],
)  # fmt: skip
def test_a_wrong_single_object_frame_is_named(body: bytes, words: str) -> None:
    reason, error = fault_of(single(ORDER), body)
    assert reason == "framing"
    assert words in error


def test_what_comes_after_a_bad_message_is_read() -> None:
    decoder = registered(_7=ORDER)
    good = b"\0\0\0\0\x07" + encoded(ORDER, {"id": 1})
    for bad in (b"", b"{}", b"\0\0\0", good[:-1], good + b"\0"):
        fault_of(decoder, bad)
        assert decoder.events(good).events[0].text == b'{"id":1,"region":null}'


def test_needs_are_found_within_envelopes_and_wrappers() -> None:
    decoding = Decoding(
        "avro", wrappers=("base64",), unwrap=("sns",), avro=AvroOptions(registry=RegistryOptions("http://localhost"))
    )
    decoder = decoder_of(decoding, max_body=1000, read=lambda path: b"")
    assert decoder is not None
    envelope = {"Type": "Notification", "TopicArn": "t", "Message": "AAAAAAcC"}
    assert decoder.needs(json.dumps(envelope).encode()) == 7
    for body in (b"", b"?", b"\xff" * 2000, b"AAAA"):
        assert decoder.needs(body) is None


# Schemas


@pytest.mark.parametrize(
    ("schemas", "words"),
    [
        ([{"type": "record", "name": "A"}], "'fields'"),
        ([{"name": "A"}], "'type'"),
        (["Nope"], "Nope"),
        ([5], "no Avro schema"),
        ([{"type": "array"}], "no Avro schema"),
        ([{"type": "fixed", "name": "F", "size": -1}], "no Avro schema"),
        ([{"type": "fixed", "name": "F", "size": "x"}], "no Avro schema"),
        ([None], "no Avro schema"),
        ([{"type": "enum", "name": "E", "symbols": "AB"}], "no Avro schema"),
        (["long", {"type": "map"}], r"\(number 2\)"),
    ],
)
def test_a_bad_schema_is_refused_at_start(schemas: Sequence[Any], words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        single(*schemas)
    assert str(caught.value).startswith("`decode.avro.schemas`, 0.avsc")


def test_text_that_is_no_json_is_refused_at_start() -> None:
    with pytest.raises(Refused, match=r"a\.avsc: is not JSON: "):
        made(AvroOptions(("a.avsc",)), {"a.avsc": b"{"})


def test_a_default_that_does_not_fit_its_type_does_no_harm() -> None:
    schema: Schema = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "double", "default": 0}]}
    assert read(schema, bytes(8)) == {"x": 0.0}


def test_two_versions_of_a_record_are_told_apart() -> None:
    newer: Schema = {**ORDER, "fields": [*ORDER["fields"], {"name": "n", "type": "int"}]}  # type: ignore[call-overload]
    decoder = single(ORDER, newer)
    for schema, value in ((ORDER, {"id": 1, "region": None}), (newer, {"id": 1, "region": None, "n": 2})):
        (alone,) = schemas_of([json.dumps(schema).encode()])
        body = b"\xc3\x01" + fingerprint_of(alone) + encoded(schema, value)
        assert json.loads(decoder.events(body).events[0].text) == value
