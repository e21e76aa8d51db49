"""base64 and gzip around a body: what is taken off, and what is not taken for them (B31)."""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import Decoding, Format, Wrapper
from bridge.decode.wrappers import gunzip, unbase64

MAX_BODY = 100_000
JSON = b'{"a": 1.10}'
PACKED = gzip.compress(JSON, mtime=0)  # and not with the time: it is in the names of tests


def decoder(*wrappers: Wrapper, format: Format = "json") -> Decoder:
    made = decoder_of(Decoding(format, wrappers=wrappers), max_body=MAX_BODY, read=lambda path: b"")
    assert made is not None
    return made


def text_of(body: bytes, *wrappers: Wrapper, format: Format = "json") -> bytes:
    (event,) = decoder(*wrappers, format=format).events(body).events
    assert event.attributes is None
    return event.text


def reason_of(body: bytes, *wrappers: Wrapper) -> str:
    with pytest.raises(DecodeFault) as caught:
        decoder(*wrappers).events(body)
    return caught.value.fault.reason


def test_wrappers_come_off_from_the_outside_in() -> None:
    assert text_of(base64.b64encode(JSON), "base64") == JSON
    assert text_of(gzip.compress(JSON), "gzip") == JSON
    assert text_of(base64.b64encode(gzip.compress(JSON)), "base64", "gzip") == JSON
    assert text_of(gzip.compress(base64.b64encode(JSON)), "gzip", "base64") == JSON
    assert reason_of(base64.b64encode(gzip.compress(JSON)), "gzip", "base64") == "encoding"


def test_nothing_is_guessed() -> None:
    assert text_of(b"dGVzdA==", format="text") == b'"dGVzdA=="'
    assert reason_of(JSON, "base64") == "encoding"
    assert reason_of(JSON, "gzip") == "encoding"
    assert reason_of(base64.b64encode(gzip.compress(JSON)), "base64") == "encoding"


def test_base64_is_of_the_standard_alphabet_and_padded() -> None:
    assert unbase64(b"+/+/ \r\n\t\n") == b"\xfb\xff\xbf"
    assert unbase64(b"") == b""
    for body in (
        b"-_-_",
        b"YQ",
        b"YQ=",
        b"Y",
        b"YQ==YQ==",
        b"Y Q==",
        b"YW\nI=",
        b"=YQ=",
        b"Y\xc3\xa9==",
        b" YQ==",
        b"====",
        b"YWJj=",
        b"YWJj==",
        b"YWJj====",
    ):
        with pytest.raises(DecodeFault, match="not base64, which the stream declares"):
            unbase64(body)


@given(st.binary(max_size=12) | st.text("aB+/=-_ \n", max_size=12).map(str.encode))
@settings(deadline=None)
def test_base64_is_what_its_grammar_says(body: bytes) -> None:
    text = body.rstrip(b" \t\r\n")
    grammar = rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
    if re.fullmatch(grammar, text):
        assert unbase64(body) == base64.b64decode(text)
    else:
        with pytest.raises(DecodeFault):
            unbase64(body)


def test_gzip_may_have_several_members() -> None:
    assert gunzip(gzip.compress(b"ab") + gzip.compress(b"") + gzip.compress(b"cd"), 10) == b"abcd"
    assert gunzip(gzip.compress(b""), 0) == b""


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\x1f\x8b", PACKED[:-1], PACKED[:12], PACKED + b"x",
        PACKED + bytes(8), PACKED[:-8] + bytes(8), zlib.compress(JSON),
        PACKED + PACKED[:5],
    ],
)  # fmt: skip
def test_gzip_that_is_cut_off_or_followed_by_something_is_an_encoding_fault(body: bytes) -> None:
    with pytest.raises(DecodeFault, match="gzip") as caught:
        gunzip(body, MAX_BODY)
    assert caught.value.fault.reason == "encoding"


def test_unpacking_stops_at_max_body() -> None:
    for size in (MAX_BODY - 1, MAX_BODY):
        assert len(gunzip(gzip.compress(bytes(size)), MAX_BODY)) == size
    halves = gzip.compress(bytes(MAX_BODY // 2)) + gzip.compress(bytes(MAX_BODY // 2 + 1))
    for body in (gzip.compress(bytes(MAX_BODY + 1)), gzip.compress(bytes(200 * MAX_BODY)), halves):
        with pytest.raises(DecodeFault) as caught:
            gunzip(body, MAX_BODY)
        assert caught.value.fault.reason == "too_big"


@given(st.lists(st.binary(max_size=2000) | st.binary(max_size=10).map(lambda some: some * 9000), max_size=4))
@settings(deadline=None, max_examples=50)
def test_gunzip_gives_back_what_was_compressed(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    body = b"".join(map(gzip.compress, pieces)) or gzip.compress(b"")
    assert gunzip(body, len(whole)) == whole


def test_many_empty_members_take_no_time_to_speak_of() -> None:
    assert gunzip(gzip.compress(b"") * 20_000, 0) == b""


def test_what_comes_out_of_the_wrappers_is_strict_json_or_a_fault() -> None:
    assert reason_of(gzip.compress(b'{"a": NaN}'), "gzip") == "malformed"
    assert reason_of(gzip.compress(b'"\\u0000"'), "gzip") == "nul"
    assert reason_of(base64.b64encode(b"\xff"), "base64") == "encoding"
    assert text_of(gzip.compress(b"\xef\xbb\xbf" + JSON), "gzip") == JSON


def test_duplicate_keys_are_refused_behind_wrappers_where_the_stream_is_strict() -> None:
    body = gzip.compress(b'{"a":1,"a":2}')
    assert text_of(body, "gzip") == b'{"a":1,"a":2}'
    strict = decoder_of(Decoding(strict=True, wrappers=("gzip",)), max_body=100, read=lambda path: b"")
    assert strict is not None
    with pytest.raises(DecodeFault) as caught:
        strict.events(body)
    assert caught.value.fault.reason == "duplicate_key"


# Text and raw


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
@settings(deadline=None)
def test_text_is_a_json_text(text: str) -> None:
    assert json.loads(text_of(text.encode(), format="text")) == text.removeprefix("\ufeff")


def test_text_that_is_not_utf8_is_an_encoding_fault_and_says_nothing_of_json() -> None:
    for body in (b"\xff", b"\x00\x00\x00\x00\x01\xff"):
        with pytest.raises(DecodeFault) as caught:
            decoder(format="text").events(body)
        assert caught.value.fault.reason == "encoding"
        assert "json" not in caught.value.fault.error.lower()


@given(st.binary())
@settings(deadline=None)
def test_raw_is_the_base64_of_any_bytes(body: bytes) -> None:
    assert base64.b64decode(json.loads(text_of(body, format="raw"))) == body
