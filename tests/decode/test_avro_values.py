"""What Avro's values are in JSON, which of them are refused, and agreement with fastavro's own reader."""

from __future__ import annotations

import base64
import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.types import Schema
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.decoder import decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import AvroOptions, Decoding, RegistryOptions


def encoded(schema: Schema, value: Any) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parse_schema(schema), value)
    return out.getvalue()


def text_of(schema: Schema, data: bytes) -> str:
    decoding = Decoding("avro", avro=AvroOptions(registry=RegistryOptions("http://localhost")))
    decoder = decoder_of(decoding, max_body=100_000, read=lambda path: b"")
    assert decoder is not None
    decoder.learn(7, json.dumps(schema))
    return decoder.events(b"\0\0\0\0\x07" + data).events[0].text.decode()


def read(schema: Schema, data: bytes) -> Any:
    return json.loads(text_of(schema, data))


def reason_of(schema: Schema, data: bytes) -> str:
    with pytest.raises(DecodeFault) as caught:
        text_of(schema, data)
    assert "the decoder failed" not in caught.value.fault.error
    return caught.value.fault.reason


def logical(kind: str, name: str, **more: Any) -> Schema:
    return {"type": kind, "logicalType": name, **more}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("1.10"), "1.10"),
        (
            logical("bytes", "decimal", precision=40, scale=2),
            Decimal("-1234567890123456789012345.67"),
            "-1234567890123456789012345.67",
        ),
        (
            {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 0},
            Decimal("-7"),
            "-7",
        ),
        (logical("int", "date"), date(2024, 2, 29), '"2024-02-29"'),
        (logical("int", "time-millis"), time(3, 4, 5, 678000), '"03:04:05.678"'),
        (logical("long", "time-micros"), time(23, 59, 59, 1), '"23:59:59.000001"'),
        (logical("long", "timestamp-millis"), datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), '"2024-01-02T03:04:05Z"'),
        (logical("long", "timestamp-micros"), datetime(1969, 1, 2, 3, 4, 5, 6, UTC), '"1969-01-02T03:04:05.000006Z"'),
        (logical("long", "timestamp-nanos"), 1_000_000_001, '"1970-01-01T00:00:01.000000001Z"'),
        (logical("long", "local-timestamp-millis"), datetime(2024, 1, 2, 3, 4, 5), '"2024-01-02T03:04:05"'),  # noqa: DTZ001
        (logical("string", "uuid"), UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (
            {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
            bytes(15) + b"\1",
            '"00000000-0000-0000-0000-000000000001"',
        ),
        (logical("long", "invented"), 5, "5"),
        (logical("string", "date"), "x", '"x"'),
        ("bytes", b"\0\xff", '"AP8="'),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", '"YWI="'),
        ("float", 0.1, "0.1"),
        ("double", 0.1, "0.1"),
        ("long", -(2**63), "-9223372036854775808"),
        ("boolean", True, "true"),
        (["null", "int", {"type": "array", "items": "int"}], [1], "[1]"),
        ({"type": "map", "values": ["null", "int"]}, {"b": 1, "a": None}, '{"b":1,"a":null}'),
        (
            {"type": "error", "name": "E", "fields": [{"name": "x", "type": {"type": {"type": "int"}}}]},
            {"x": 1},
            '{"x":1}',
        ),
    ],
    ids=range(23),
)
def test_values_have_their_usual_form_in_json(schema: Schema, value: Any, text: str) -> None:
    plain = json.loads(json.dumps(schema).replace('"error"', '"record"').replace('{"type": {"type": "int"}}', '"int"'))
    assert text_of(schema, encoded(plain, value)) == text


def test_the_branch_of_a_union_is_read_by_its_own_type() -> None:
    schema: Schema = [logical("int", "date"), logical("long", "timestamp-millis"), "null"]
    assert read(schema, b"\x00\x02") == "1970-01-02"
    assert read(schema, b"\x02\x02") == "1970-01-01T00:00:00.001Z"
    assert read(schema, b"\x04") is None


def test_blocks_may_carry_their_size() -> None:
    assert read({"type": "array", "items": "long"}, b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]
    assert read({"type": "map", "values": "long"}, b"\x01\x08\x02a\x02\x00") == {"a": 1}


def test_a_type_may_contain_itself() -> None:
    tree: Schema = {
        "type": "record", "name": "Tree", "fields": [{"name": "kids", "type": {"type": "array", "items": "Tree"}}]
    }  # fmt: skip
    assert read(tree, b"\x04\x00\x02\x00\x00\x00") == {"kids": [{"kids": []}, {"kids": [{"kids": []}]}]}


@pytest.mark.parametrize(
    ("schema", "data", "reason"),
    [
        ("string", b"\x03", "malformed"),
        ("string", b"\x04a", "malformed"),
        ("string", b"\x02\xff", "encoding"),
        ("string", b"\x02\x00", "nul"),
        ("bytes", b"\x7f", "malformed"),
        ("long", b"", "malformed"),
        ("long", b"\x80", "malformed"),
        ("long", b"\xff" * 10 + b"\x01", "malformed"),
        ("long", b"\x02\x02", "malformed"),
        ("long", b"\xff" * 9 + b"\x02", "malformed"),
        ("boolean", b"\x02", "malformed"),
        ("double", b"abc", "malformed"),
        ("double", b"\0\0\0\0\0\0\xf8\x7f", "number"),
        ("float", b"\0\0\x80\x7f", "number"),
        (["null"], b"\x02", "malformed"),
        (["null", "int"], b"\x01\x02", "malformed"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "malformed"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01", "malformed"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc", "malformed"),
        ({"type": "array", "items": "null"}, b"\x02\x00", "malformed"),
        (logical("int", "date"), b"\xff\xff\xff\xff\x0f", "number"),
        (logical("int", "time-millis"), b"\x01", "number"),
        (logical("long", "timestamp-millis"), b"\xff" * 9 + b"\x01", "number"),
        (logical("bytes", "decimal", precision=9), b"\x80\x20" + bytes(2048), "number"),
        (logical("bytes", "decimal", precision=9), b"\xf4\x1b\x7f" + b"\xff" * 1785, "number"),
    ],
    ids=range(25),
)
def test_each_fault_has_its_reason(schema: Schema, data: bytes, reason: str) -> None:
    assert reason_of(schema, data) == reason


def test_depth_is_bounded_by_a_hundred_levels() -> None:
    node: Schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
    read(node, b"\x02" * 99 + b"\x00")
    for depth in (100, 200, 1000, 50_000):
        assert reason_of(node, b"\x02" * depth + b"\x00") == "too_deep"
    endless: Schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]}
    assert reason_of(endless, b"") == "too_deep"


# Agreement

names = st.sampled_from("abcdef")
scalars = st.sampled_from(["null", "boolean", "int", "long", "double", "bytes", "string"])


@st.composite
def schemas(draw: st.DrawFn, depth: int = 3) -> Any:
    """Any schema of a few levels; names are made unique by a counter that is drawn along."""
    kind = draw(st.sampled_from(["scalar", "scalar", "record", "array", "map", "union", "enum", "fixed"]))
    if depth == 0 or kind == "scalar":
        return draw(scalars)
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1).filter(takes_bytes))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1))}
    if kind == "union":
        return draw(st.lists(scalars, min_size=1, max_size=4, unique=True))
    unique = f"N{draw(st.uuids()).hex}"
    if kind == "enum":
        return {"type": "enum", "name": unique, "symbols": ["A", "B", "C"]}
    if kind == "fixed":
        return {"type": "fixed", "name": unique, "size": 3}
    fields = draw(st.lists(names, max_size=4, unique=True))
    return {"type": "record", "name": unique, "fields": [{"name": n, "type": draw(schemas(depth - 1))} for n in fields]}


def takes_bytes(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return any(takes_bytes(field["type"]) for field in schema["fields"])
    return bool(schema != "null")


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)


def values_of(schema: Any) -> st.SearchStrategy[Any]:
    if isinstance(schema, list):
        return st.one_of(*map(values_of, schema))
    if isinstance(schema, str):
        return {
            "null": st.none(),
            "boolean": st.booleans(),
            "int": st.integers(-(2**31), 2**31 - 1),
            "long": st.integers(-(2**63), 2**63 - 1),
            "double": st.floats(allow_nan=False, allow_infinity=False),
            "bytes": st.binary(max_size=4),
            "string": texts,
        }[schema]
    match schema["type"]:
        case "array":
            return st.lists(values_of(schema["items"]), max_size=3)
        case "map":
            return st.dictionaries(texts, values_of(schema["values"]), max_size=3)
        case "enum":
            return st.sampled_from(schema["symbols"])
        case "fixed":
            return st.binary(min_size=3, max_size=3)
        case _:
            return st.fixed_dictionaries({field["name"]: values_of(field["type"]) for field in schema["fields"]})


def expected(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [expected(item) for item in value]
    return {key: expected(item) for key, item in value.items()} if isinstance(value, dict) else value


@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), values_of(schema))))
@settings(deadline=None, max_examples=150)
def test_our_reader_agrees_with_fastavros(case: tuple[Any, Any]) -> None:
    schema, value = case
    data = encoded(schema, value)
    assert read(schema, data) == expected(schemaless_reader(io.BytesIO(data), parse_schema(schema), None))
