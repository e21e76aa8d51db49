"""Protobuf: descriptor sets, what messages are in JSON, and agreement with the ProtoJSON of the official package."""

from __future__ import annotations

import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.protobuf import (
    any_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    json_format,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.core.errors import Refused
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import Decoding, ProtobufOptions

F = FieldDescriptorProto
KNOWN = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)


def known_files() -> list[FileDescriptorProto]:
    files = []
    for module in KNOWN:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def add(
    message: DescriptorProto, name: str, kind: int | str, *, repeated: bool = False, oneof: int | None = None
) -> None:
    """Numbered in the order of adding; `kind` is a scalar type, or the full name of a message or `enum:name`."""
    field = message.field.add(name=name, number=len(message.field) + 1)
    field.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    if isinstance(kind, int):
        field.type = kind  # type: ignore[assignment]
    elif kind.startswith("enum:"):
        field.type, field.type_name = F.TYPE_ENUM, kind.removeprefix("enum:")
    else:
        field.type, field.type_name = F.TYPE_MESSAGE, kind
    if oneof is not None:
        field.oneof_index = oneof


def shop() -> FileDescriptorProto:
    """package shop, proto3."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(module.DESCRIPTOR.name for module in KNOWN)
    colour = file.enum_type.add(name="Colour")
    for number, name in enumerate(("UNKNOWN", "RED", "BLUE")):
        colour.value.add(name=name, number=number)
    order = file.message_type.add(name="Order")
    for name, kind in (
        ("order_id", F.TYPE_INT64), ("title", F.TYPE_STRING), ("blob", F.TYPE_BYTES), ("price", F.TYPE_DOUBLE),
        ("weight", F.TYPE_FLOAT), ("paid", F.TYPE_BOOL), ("big", F.TYPE_UINT64), ("small", F.TYPE_SINT32),
        ("colour", "enum:.shop.Colour"), ("parent", ".shop.Order"), ("at", ".google.protobuf.Timestamp"),
        ("took", ".google.protobuf.Duration"), ("extra", ".google.protobuf.Struct"),
        ("limit", ".google.protobuf.Int64Value"), ("note", ".google.protobuf.StringValue"),
        ("some", ".google.protobuf.Any"), ("mask", ".google.protobuf.FieldMask"),
        ("ratio", ".google.protobuf.FloatValue"), ("one", ".google.protobuf.Value"), ("none", ".google.protobuf.Empty"),
        ("list", ".google.protobuf.ListValue"), ("null", "enum:.google.protobuf.NullValue"),
    ):  # fmt: skip
        add(order, name, kind)
    for name, kind in (
        ("tags", F.TYPE_STRING),
        ("blobs", F.TYPE_BYTES),
        ("colours", "enum:.shop.Colour"),
        ("lines", ".shop.Order"),
    ):
        add(order, name, kind, repeated=True)
    add_map(order, "counts", F.TYPE_STRING, F.TYPE_INT64)
    add_map(order, "by_number", F.TYPE_INT32, ".shop.Order")
    add_map(order, "by_truth", F.TYPE_BOOL, F.TYPE_STRING)
    for name in ("how", "_maybe"):
        order.oneof_decl.add(name=name)
    add(order, "by_card", F.TYPE_STRING, oneof=0)
    add(order, "by_points", F.TYPE_INT32, oneof=0)
    add(order, "maybe", F.TYPE_INT32, oneof=1)
    order.field[-1].proto3_optional = True
    order.nested_type.add(name="Inner")
    return file


def add_map(message: DescriptorProto, name: str, key: int, value: int | str) -> None:
    entry = message.nested_type.add(name="".join(word.title() for word in name.split("_")) + "Entry")
    entry.options.map_entry = True
    add(entry, "key", key)
    add(entry, "value", value)
    add(message, name, f".shop.{message.name}.{entry.name}", repeated=True)


def old() -> FileDescriptorProto:
    """package old, proto2."""
    file = FileDescriptorProto(name="old.proto", package="old")
    message = file.message_type.add(name="Thing")
    add(message, "title", F.TYPE_STRING)
    add(message, "size", F.TYPE_INT32)
    message.field[1].label = F.LABEL_REQUIRED
    message.field[1].default_value = "5"
    add(message, "count", F.TYPE_INT32)
    message.field[2].default_value = "7"
    return file


FILES = [*known_files(), shop(), old()]
POOL = DescriptorPool()
for each in FILES:
    POOL.AddSerializedFile(each.SerializeToString())
Order: Any = GetMessageClass(POOL.FindMessageTypeByName("shop.Order"))
Thing: Any = GetMessageClass(POOL.FindMessageTypeByName("old.Thing"))


def decoder_for(message: str, files: list[FileDescriptorProto] | bytes = FILES, max_body: int = 100_000) -> Decoder:
    data = files if isinstance(files, bytes) else FileDescriptorSet(file=files).SerializeToString()
    options = ProtobufOptions("orders.pb", message)
    decoder = decoder_of(
        Decoding("protobuf", protobuf=options), max_body=max_body, read={"orders.pb": data}.__getitem__
    )
    assert decoder is not None
    return decoder


DECODER = decoder_for("shop.Order")
DEFAULTS = json.loads(DECODER.events(b"").events[0].text)


def sent(**fields: Any) -> Any:
    """What is in the event of an order beside the defaults of what was not set."""
    (event,) = DECODER.events(Order(**fields).SerializeToString()).events
    return {name: value for name, value in json.loads(event.text).items() if name in fields or name not in DEFAULTS}


def reason_of(body: bytes, decoder: Decoder = DECODER) -> str:
    with pytest.raises(DecodeFault) as caught:
        decoder.events(body)
    assert "the decoder failed" not in caught.value.fault.error
    return caught.value.fault.reason


# Values


def test_an_empty_message_has_the_defaults_of_fields_without_presence() -> None:
    assert DEFAULTS == {
        "order_id": 0, "title": "", "blob": "", "price": 0.0, "weight": 0.0, "paid": False, "big": 0, "small": 0,
        "colour": "UNKNOWN", "null": None, "tags": [], "blobs": [], "colours": [], "lines": [], "counts": {},
        "by_number": {}, "by_truth": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "event"),
    [
        ({"order_id": -(2**63), "big": 2**64 - 1}, {"order_id": -(2**63), "big": 2**64 - 1}),
        ({"blob": b"\0\xff", "blobs": [b"", b"a"]}, {"blob": "AP8=", "blobs": ["", "YQ=="]}),
        ({"price": 0.1, "weight": 0.1}, {"price": 0.1, "weight": 0.1}),
        ({"colour": 2, "colours": [1, 99]}, {"colour": "BLUE", "colours": ["RED", 99]}),
        (
            {"counts": {"b": 1, "a": 2}, "by_truth": {True: "x"}},
            {"counts": {"a": 2, "b": 1}, "by_truth": {"true": "x"}},
        ),
        ({"at": timestamp_pb2.Timestamp(seconds=1, nanos=5000)}, {"at": "1970-01-01T00:00:01.000005Z"}),
        ({"took": duration_pb2.Duration(seconds=-1, nanos=-500_000_000)}, {"took": "-1.500s"}),
        (
            {"limit": wrappers_pb2.Int64Value(value=2**60), "note": wrappers_pb2.StringValue()},
            {"limit": 2**60, "note": ""},
        ),
        ({"ratio": wrappers_pb2.FloatValue(value=0.1)}, {"ratio": 0.1}),
        ({"mask": field_mask_pb2.FieldMask(paths=["a_b.c_d", "e"])}, {"mask": "aB.cD,e"}),
        ({"one": struct_pb2.Value(), "none": empty_pb2.Empty()}, {"one": None, "none": {}}),
        ({"by_points": 0}, {"by_points": 0}),
        ({"by_card": "x"}, {"by_card": "x"}),
        ({"maybe": 0}, {"maybe": 0}),
        ({"parent": Order(title="x")}, {"parent": {**DEFAULTS, "title": "x"}}),
        ({"by_number": {3: Order()}}, {"by_number": {"3": DEFAULTS}}),
    ],
    ids=range(16),
)
def test_values_have_their_form_in_json(fields: Any, event: Any) -> None:
    fields = {
        name: type(getattr(Order(), name)).FromString(value.SerializeToString())
        if hasattr(value, "DESCRIPTOR")
        else value
        for name, value in fields.items()
    }
    assert sent(**fields) == event


def test_a_struct_is_plain_json() -> None:
    value = {"a": [1.5, None, True, {"b": "x"}], "c": {}}
    assert sent(extra=value) == {"extra": value}


def test_an_any_is_its_message_or_its_bytes() -> None:
    known = Order(title="x").SerializeToString()
    assert sent(some={"type_url": "t/shop.Order", "value": known}) == {
        "some": {"@type": "t/shop.Order", **DEFAULTS, "title": "x"}
    }
    stamp = timestamp_pb2.Timestamp(seconds=1).SerializeToString()
    url = "type.googleapis.com/google.protobuf.Timestamp"
    assert sent(some={"type_url": url, "value": stamp})["some"] == {"@type": url, "value": "1970-01-01T00:00:01Z"}
    assert sent(some={"type_url": "t/no.Such", "value": b"ab"})["some"] == {"@type": "t/no.Such", "value": "YWI="}
    assert reason_of(Order(some={"type_url": "t/shop.Order", "value": b"\xff"}).SerializeToString()) == "malformed"


def test_unknown_fields_are_passed_over() -> None:
    assert json.loads(DECODER.events(b"\xba\x3e\x01x").events[0].text) == DEFAULTS


def test_fields_with_presence_are_there_only_if_they_were_sent() -> None:
    decoder = decoder_for(".old.Thing")
    assert json.loads(decoder.events(Thing(size=1).SerializeToString()).events[0].text) == {"size": 1}
    assert json.loads(decoder.events(Thing(size=1, count=7).SerializeToString()).events[0].text) == {
        "size": 1,
        "count": 7,
    }


def test_the_order_of_a_map_does_not_depend_on_the_message() -> None:
    one, other = Order(), Order()
    for n in range(20):
        one.counts[str(n)] = other.counts[str(19 - n)] = 1
    texts = {DECODER.events(order.SerializeToString()).events[0].text for order in (one, other)}
    assert len(texts) == 1


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_in_json_is_refused(number: float) -> None:
    for fields in ({"price": number}, {"weight": number}, {"extra": {"a": [number]}}, {"ratio": {"value": number}}):
        assert reason_of(Order(**fields).SerializeToString()) == "number"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"at": {"seconds": 10**15}}, "number"), ({"at": {"nanos": -1}}, "number"),
        ({"took": {"seconds": 10**15}}, "number"),
        ({"took": {"seconds": 1, "nanos": -1}}, "number"), ({"title": "\0"}, "nul"), ({"counts": {"\0": 1}}, "nul"),
    ],
)  # fmt: skip
def test_values_without_a_form_in_json_are_faults(fields: Any, reason: str) -> None:
    assert reason_of(Order(**fields).SerializeToString()) == reason


def test_each_fault_of_a_body_has_its_reason() -> None:
    assert reason_of(b"\x12\x01\xff") == "encoding"
    assert reason_of(b'{"a":1}') == "malformed"
    assert reason_of(b"\x12\x05a") == "malformed"
    assert reason_of(b"\0\0\0\0\x01\0") == "framing"
    old_decoder = decoder_for("old.Thing")
    assert reason_of(b"\x10\x01\x0a\x01\xff", old_decoder) == "encoding"
    with pytest.raises(DecodeFault, match=r"old\.Thing is missing required fields: size"):
        old_decoder.events(b"")


def test_depth_is_bounded_by_a_hundred_levels() -> None:
    def nested(depth: int) -> bytes:
        order = Order()
        for _ in range(depth):
            outer = Order()
            outer.parent.CopyFrom(order)
            order = outer
        return bytes(order.SerializeToString())

    DECODER.events(nested(98))
    for depth in (100, 101):
        assert reason_of(nested(depth)) == "too_deep"


def test_defaults_can_not_make_an_event_many_times_as_big_as_its_body() -> None:
    lines = Order(lines=[Order()] * 5000).SerializeToString()
    assert len(lines) < 30_000
    assert reason_of(lines) == "too_big"
    assert reason_of(lines, decoder_for("shop.Order", max_body=1000)) == "too_big"
    assert DECODER.events(Order(lines=[Order()] * 500).SerializeToString()).events


def test_each_thread_that_reads_messages_has_the_whole_bound_for_its_own() -> None:
    """Python watchers read on a thread of theirs, with the decoder of the stream."""
    body = Order(lines=[Order()] * 1200).SerializeToString()  # more than half of what there is room for
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert len([*threads.map(DECODER.events, [body] * 20)]) == 20
    finally:
        sys.setswitchinterval(before)


# Agreement with ProtoJSON

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
finite = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | texts | st.integers(-1000, 1000).map(float),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
orders = st.deferred(
    lambda: st.fixed_dictionaries(
        {},
        optional={
            "title": texts,
            "blob": st.binary(max_size=4),
            "price": finite,
            "weight": st.floats(allow_nan=False, allow_infinity=False, width=32),
            "paid": st.booleans(),
            "small": st.integers(-(2**31), 2**31 - 1),
            "colour": st.integers(0, 4),
            "at": st.fixed_dictionaries({"seconds": st.integers(-(2**35), 2**37), "nanos": st.integers(0, 10**9 - 1)}),
            "took": st.fixed_dictionaries({"seconds": st.integers(0, 10**9), "nanos": st.integers(0, 10**9 - 1)}),
            "extra": st.dictionaries(texts, plain, max_size=3),
            "note": st.fixed_dictionaries({"value": texts}),
            "tags": st.lists(texts, max_size=3),
            "by_truth": st.dictionaries(st.booleans(), texts),
            "by_card": texts,
            "maybe": st.integers(-5, 5),
            "parent": orders,
            "lines": st.lists(orders, max_size=2),
        },
    )
)


@given(orders)
@settings(deadline=None, max_examples=100)
def test_messages_without_64_bit_integers_are_as_protojson_has_them(fields: Any) -> None:
    order = Order(**fields)
    official = json_format.MessageToDict(
        order, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    (event,) = DECODER.events(order.SerializeToString()).events
    assert json.loads(event.text) == as_numbers(official)


def as_numbers(official: Any) -> Any:
    if isinstance(official, list):
        return [as_numbers(item) for item in official]
    if not isinstance(official, dict):
        return official
    return {name: int(value) if name in ("order_id", "big") else as_numbers(value) for name, value in official.items()}


# Descriptor sets


def test_a_message_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(Refused) as caught:
        decoder_for("shop.Ordr")
    assert str(caught.value) == (
        "`decode.protobuf`: orders.pb has no message `shop.Ordr`: did you mean `shop.Order`? "
        "It has: old.Thing, shop.Order, shop.Order.Inner"
    )
    with pytest.raises(Refused, match=r"did you mean `shop\.Order\.Inner`"):
        decoder_for("Inner")


def test_a_set_without_its_imports_is_refused() -> None:
    with pytest.raises(Refused, match=r"lacks google/protobuf/any.proto, which shop.proto imports.*--include_imports"):
        decoder_for("shop.Order", [shop()])


def test_files_may_come_in_any_order() -> None:
    assert decoder_for("shop.Order", FILES[::-1]).events(b"").events


@pytest.mark.parametrize("data", [b"", b"\xff", b"syntax = 'proto3';", b"\x0a\x02\xff\xff"])
def test_what_is_no_descriptor_set_is_refused(data: bytes) -> None:
    with pytest.raises(Refused, match=r"orders\.pb .*--descriptor_set_out"):
        decoder_for("shop.Order", data)


def test_descriptors_that_contradict_themselves_are_refused() -> None:
    file = FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    add(file.message_type.add(name="M"), "x", ".a.Nope")
    with pytest.raises(Refused, match=r"orders\.pb can't be used"):
        decoder_for("a.M", [file])
