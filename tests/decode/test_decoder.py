"""What holds for every decoder: which one it is, and that any bytes are events or a typed fault."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.core.errors import Refused
from bridge.core.model import TOMBSTONE
from bridge.decode.avro_schema import fingerprint_of
from bridge.decode.cloudevents import Headers
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.json import DecodeFault, decode_whole
from bridge.decode.options import AvroOptions, Decoding, ProtobufOptions, RegistryOptions

MAX_BODY = 10_000
REASONS = {
    "malformed", "encoding", "too_deep", "number", "nul", "duplicate_key", "too_big", "framing", "cloudevent"
}  # fmt: skip

TREE: Any = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "kids", "type": {"type": "array", "items": "Tree"}},
        {"name": "by", "type": {"type": "map", "values": ["null", "double", "string", "Tree"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def descriptors() -> bytes:
    """test.Tree, whose fields are of every kind of wire type."""
    file = FileDescriptorProto(name="test.proto", package="test", syntax="proto2")
    tree = file.message_type.add(name="Tree")
    for number, (name, kind) in enumerate({"s": 9, "n": 3, "d": 1, "f": 2, "b": 12, "big": 6}.items(), 1):
        tree.field.add(name=name, number=number, type=kind, label=1)  # type: ignore[arg-type]
    for number, label in ((7, 1), (8, 3)):
        tree.field.add(
            name=f"m{number}",
            number=number,
            type=FieldDescriptorProto.TYPE_MESSAGE,
            type_name=".test.Tree",
            label=label,  # type: ignore[arg-type]
        )
    return FileDescriptorSet(file=[file]).SerializeToString()


FILES = {"tree.avsc": json.dumps(TREE).encode(), "test.pb": descriptors()}


def made(decoding: Decoding) -> Decoder:
    decoder = decoder_of(decoding, max_body=MAX_BODY, read=FILES.__getitem__)
    assert decoder is not None
    return decoder


def taught() -> Decoder:
    decoder = made(Decoding("avro", avro=AvroOptions(registry=RegistryOptions("http://localhost"))))
    decoder.learn(1, json.dumps(TREE))
    return decoder


TEXT = b'{"a": [1, 2.5, "x", {"b": null}], "c": {"d": "\xc3\xa9"}}'
EVENT = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"a":1}}'
LEAF = b"\x00\x00\x02\x6e\x80\x01"
AVRO = b"\x02" + LEAF + b"\x00\x06\x02a\x02" + bytes(8) + b"\x02b\x04\x02x\x02c\x06" + LEAF + b"\x00\x02\x6e\x02"
RECORD = b'{"Records":[{"eventSource":"aws:s3","n":1}]}'
PROTO = b"\x0a\x01x\x10\x05\x19" + bytes(8) + b"\x25" + bytes(4) + b"\x2a\x01y\x3a\x02\x10\x01\x42\x00\x42\x02\x10\x07"
BINARY: Headers = tuple((f"ce_{name}", b"1") for name in ("specversion", "id", "source", "type"))
SNS = {
    "Type": "Notification", "TopicArn": "t", "Message": RECORD.decode(),
    "MessageAttributes": {"n": {"Type": "Number", "Value": "1.5"}, "b": {"Type": "Binary", "Value": "YQ=="}},
}  # fmt: skip

CASES: dict[str, tuple[Decoder, bytes, Headers]] = {
    "base64": (made(Decoding(wrappers=("base64",))), base64.b64encode(TEXT), ()),
    "gzip": (made(Decoding(wrappers=("gzip",))), gzip.compress(TEXT), ()),
    "base64 of gzip": (made(Decoding(wrappers=("base64", "gzip"))), base64.b64encode(gzip.compress(TEXT)), ()),
    "text": (made(Decoding("text")), TEXT, ()),
    "raw": (made(Decoding("raw")), TEXT, ()),
    "structured": (made(Decoding("cloudevents")), EVENT, [("content-type", b"application/cloudevents")]),
    "batch": (made(Decoding("cloudevents")), b"[" + EVENT + b"]", [("content-type", b"application/cloudevents-batch")]),
    "binary": (made(Decoding("cloudevents")), TEXT, BINARY),
    "sns and s3": (made(Decoding(unwrap=("sns", "s3"))), json.dumps(SNS).encode(), ()),
    "s3": (made(Decoding(unwrap=("s3",))), RECORD, ()),
    "eventbridge": (
        made(Decoding(unwrap=("eventbridge",))), b'{"detail-type":"x","source":"y","n":1.5,"detail":{"a":1}}', ()
    ),
    "msgpack": (made(Decoding("msgpack")), msgspec.msgpack.encode(json.loads(TEXT)), ()),
    "avro by fingerprint": (
        made(Decoding("avro", avro=AvroOptions(("tree.avsc",)))), b"\xc3\x01" + fingerprint_of(TREE) + AVRO, ()
    ),
    "avro by id": (taught(), b"\0\0\0\0\x01" + AVRO, ()),
    "protobuf": (made(Decoding("protobuf", protobuf=ProtobufOptions("test.pb", "test.Tree"))), PROTO, ()),
}  # fmt: skip

each_decoder = pytest.mark.parametrize("name", CASES)


def check(decoder: Decoder, body: bytes, headers: Headers) -> bool:
    """Whether there were events. They are strict JSON, and without a mark; a fault is one that people can read."""
    decoder.needs(body)
    fault = None
    try:
        decoded = decoder.events(body, headers)
    except DecodeFault as error:
        fault = error.fault
    if fault is not None:
        assert fault.reason in REASONS
        assert fault.error
        assert "the decoder failed" not in fault.error
        return False
    for event in decoded.events:
        decode_whole(event.text)
        assert not event.text.startswith(b"\xef\xbb\xbf")
    assert bool(decoded.events) != bool(decoded.ignored)
    return bool(decoded.events)


@each_decoder
def test_the_example_of_each_decoder_is_an_event(name: str) -> None:
    assert check(*CASES[name])


@each_decoder
@given(body=st.binary(max_size=64))
@settings(deadline=None, max_examples=60)
def test_any_bytes_are_events_or_a_fault(name: str, body: bytes) -> None:
    decoder, _, headers = CASES[name]
    check(decoder, body, headers)


Edit = Callable[[bytes], bytes]


def edits(at: int, some: bytes, kind: str) -> Edit:
    def edit(body: bytes) -> bytes:
        place = at % (len(body) + 1)
        match kind:
            case "replace":
                return body[:place] + some + body[place + len(some) :]
            case "insert":
                return body[:place] + some + body[place:]
            case "drop":
                return body[:place] + body[place + len(some) :]
            case _:
                return body[:place]

    return edit


kinds = st.sampled_from(["replace", "replace", "insert", "drop", "cut"])
pieces = st.binary(min_size=1, max_size=3) | st.sampled_from(
    [b"\xff" * 9, b"\x80" * 9 + b"\x01", b"\0\0", b'"', b"NaN", b"[" * 60]
)


@each_decoder
@given(changes=st.lists(st.builds(edits, st.integers(0, 500), pieces, kinds), min_size=1, max_size=4))
@settings(deadline=None, max_examples=100)
def test_a_damaged_body_is_events_or_a_fault(name: str, changes: list[Edit]) -> None:
    decoder, body, headers = CASES[name]
    for change in changes:
        body = change(body)
    check(decoder, body, headers)


@each_decoder
def test_a_body_larger_than_max_body_is_too_big(name: str) -> None:
    decoder, _, headers = CASES[name]
    with pytest.raises(DecodeFault) as caught:
        decoder.events(bytes(MAX_BODY + 1), headers)
    assert caught.value.fault.reason == "too_big"


def test_an_event_may_grow_to_four_times_max_body() -> None:
    text = made(Decoding("text"))
    assert text.events(b"\x01" * 6_660).events
    with pytest.raises(DecodeFault, match="more than 4 times `max_body`, which is 10000B") as caught:
        text.events(b"\x01" * 6_670)
    assert caught.value.fault.reason == "too_big"


@each_decoder
def test_headers_are_looked_at_where_the_decoder_says_so(name: str) -> None:
    decoder, body, headers = CASES[name]
    assert decoder.uses_headers == bool(headers)
    if not decoder.uses_headers:
        assert decoder.events(body, [("content-type", b"\xff")]) == decoder.events(body)


# Which one it is


@pytest.mark.parametrize(
    ("decoding", "headers"),
    [
        (Decoding(wrappers=("gzip",)), ()),
        (Decoding("cloudevents", wrappers=("gzip",)), ()),
        (
            Decoding("cloudevents", wrappers=("gzip",)),
            [(f"ce_{name}", b"1") for name in ("specversion", "id", "source", "type")],
        ),
    ],
)
def test_a_second_byte_order_mark_is_no_json_in_any_format(decoding: Decoding, headers: Headers) -> None:
    """The text of an event goes into params as it is."""
    decoder = made(decoding)
    assert decoder.events(gzip.compress(b"\xef\xbb\xbf{}"), headers).events
    with pytest.raises(DecodeFault, match="two byte order marks"):
        decoder.events(gzip.compress(b"\xef\xbb\xbf\xef\xbb\xbf{}"), headers)


def test_plain_json_has_no_decoder() -> None:
    for decoding in (Decoding(), Decoding(strict=True)):
        assert decoder_of(decoding, max_body=1, read=FILES.__getitem__) is None


@each_decoder
def test_a_tombstone_is_the_event_null_whatever_is_declared(name: str) -> None:
    decoder, _, headers = CASES[name]
    for strict in (False, True):
        (event,) = decoder.events(TOMBSTONE, headers).events
        assert decode_whole(event.text, strict=strict) is None
        assert event.attributes is None


@pytest.mark.parametrize("name", ["base64", "gzip", "structured", "batch", "msgpack", "avro by id", "protobuf"])
def test_the_text_null_is_no_tombstone(name: str) -> None:
    decoder, _, headers = CASES[name]
    with pytest.raises(DecodeFault):
        decoder.events(b"null", headers)


def test_no_schema_is_asked_for_to_read_a_tombstone() -> None:
    decoder = made(Decoding("avro", avro=AvroOptions(registry=RegistryOptions("http://localhost"))))
    assert decoder.needs(b"\0\0\0\0\x07x") == 7
    assert decoder.needs(TOMBSTONE) is None


def missing(path: str) -> bytes:
    raise FileNotFoundError(2, "No such file or directory", path)


def too_large(path: str) -> bytes:
    raise ValueError(f"{path} is larger than 64MiB")


@pytest.mark.parametrize(
    ("decoding", "read", "words"),
    [
        (Decoding("avro"), missing, "`decode: avro` needs either `schemas`"),
        (Decoding("avro", avro=AvroOptions(("a",), RegistryOptions("http://x"))), missing, "and not both"),
        (
            Decoding("avro", avro=AvroOptions(("a.avsc",))),
            missing,
            r"`decode\.avro\.schemas`: a\.avsc can't be read: No such",
        ),
        (
            Decoding("avro", avro=AvroOptions(("a.avsc",))),
            too_large,
            r"`decode\.avro\.schemas`: a\.avsc is larger than",
        ),
        (Decoding("protobuf"), missing, "`decode: protobuf` needs `descriptor_set`"),
        (
            Decoding("protobuf", protobuf=ProtobufOptions("a.pb", "x.Y")),
            missing,
            r"descriptor_set`: a\.pb can't be read: No such",
        ),
    ],
    ids=range(6),
)
def test_what_can_not_be_is_refused_with_what_to_correct(
    decoding: Decoding, read: Callable[[str], bytes], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        decoder_of(decoding, max_body=1, read=read)
