"""MessagePack: what its values are in JSON, and what is refused."""

from __future__ import annotations

import base64
import json
import struct
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import Decoding


def decoder() -> Decoder:
    made = decoder_of(Decoding("msgpack"), max_body=100_000, read=lambda path: b"")
    assert made is not None
    return made


DECODER = decoder()
pack = msgspec.msgpack.encode


def read(body: bytes) -> Any:
    (event,) = DECODER.events(body).events
    return json.loads(event.text)


def reason_of(body: bytes) -> str:
    with pytest.raises(DecodeFault) as caught:
        DECODER.events(body)
    assert "the decoder failed" not in caught.value.fault.error
    return caught.value.fault.reason


def test_bytes_are_base64_and_timestamps_are_texts() -> None:
    assert read(pack(b"\0\xff")) == "AP8="
    moment = datetime(2024, 1, 2, 3, 4, 5, 600000, UTC)
    assert read(pack({"at": moment})) == {"at": "2024-01-02T03:04:05.600000Z"}
    assert read(b"\xd6\xff\x00\x00\x00\x01") == "1970-01-01T00:00:01Z"


def test_keys_become_texts() -> None:
    assert read(pack({1: "a", "b": 2, -3: 4})) == {"1": "a", "b": 2, "-3": 4}
    assert read(b"\x81\xc4\x02ab\x01") == {"YWI=": 1}
    assert read(b"\x81\xcb?\xf8\x00\x00\x00\x00\x00\x00\x01") == {"1.5": 1}
    for key in (b"\xc0", b"\xc3", b"\x91\x01", b"\x80"):
        assert reason_of(b"\x81" + key + b"\x01") == "malformed"


def test_integers_are_exact() -> None:
    assert read(pack([2**64 - 1, -(2**63), 2**53 + 1])) == [2**64 - 1, -(2**63), 2**53 + 1]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_in_json_is_refused(number: float) -> None:
    assert reason_of(b"\xcb" + struct.pack(">d", number)) == "number"
    assert reason_of(b"\x92\x01\xca" + struct.pack(">f", number)) == "number"
    assert reason_of(b"\x81\xa1a\x91\xcb" + struct.pack(">d", number)) == "number"
    assert reason_of(b"\x81\xcb" + struct.pack(">d", number) + b"\x01") == "number"


def test_bytes_that_look_like_such_a_number_are_let_pass() -> None:
    assert read(pack([b"\xcb\x7f\xf8\0\0\0\0\0\0", 1.5])) == [
        base64.b64encode(b"\xcb\x7f\xf8\0\0\0\0\0\0").decode(),
        1.5,
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "malformed"), (b"\x01\x02", "malformed"), (b"\xc1", "malformed"), (b"\xa2a", "malformed"),
        (b"\xd4\x05a", "malformed"), (b"\xc7\x03\xffabc", "malformed"), (b"\xa1\xff", "encoding"), (b"\xa1\x00", "nul"),
        (b"\xc7\x0c\xff" + struct.pack(">Iq", 5, 2**60), "number"), (b"\x91" * 101 + b"\x01", "too_deep"),
        (b"\x91" * 50_000 + b"\x01", "too_deep"), (b"\xdd\xff\xff\xff\xff", "malformed"), (b'{"a":1}', "malformed"),
    ],
)  # fmt: skip
def test_each_fault_has_its_reason(body: bytes, reason: str) -> None:
    assert reason_of(body) == reason


def test_a_hundred_levels_are_read() -> None:
    read(b"\x91" * 100 + b"\x01")


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | texts | st.binary(max_size=5)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))


def expected(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [expected(item) for item in value]
    return {key: expected(item) for key, item in value.items()} if isinstance(value, dict) else value


def is_real(value: Any) -> bool:
    if isinstance(value, list | dict):
        return all(map(is_real, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or isfinite(value)


@given(values)
@settings(deadline=None)
def test_every_value_comes_back_as_json_has_it(value: Any) -> None:
    if is_real(value):
        assert read(pack(value)) == expected(value)
    else:
        assert reason_of(pack(value)) == "number"
