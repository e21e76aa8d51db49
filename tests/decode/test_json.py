"""Strict JSON: what is read, what is refused and for which reason, and that nothing else can happen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.decode.json import MAX_DEPTH, DecodeFault, decode_whole, encoding_fault, is_utf8, strip_bom

BOM = b"\xef\xbb\xbf"


def reason_of(body: bytes, *, strict: bool = False) -> str:
    with pytest.raises(DecodeFault) as caught:
        decode_whole(body, strict=strict)
    return caught.value.fault.reason


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return opening * depth + closing * depth


# What is read


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": [1, 2.5, "x", true, false, null]}', {"a": [1, 2.5, "x", True, False, None]}),
        (b" \t\r\n[ ] \n", []),
        (b'"\\u00e9\\ud83d\\ude00"', "é😀"),
        ('"zoë"'.encode(), "zoë"),
        (b"null", None),
        (b"-0.0", -0.0),
        (b"1E400e"[:4], 1e40),
        (b'{"":0}', {"": 0}),
    ],
)
def test_any_json_value_is_read(body: bytes, value: object) -> None:
    assert decode_whole(body) == value


def test_integers_are_exact_at_any_size() -> None:
    for number in (2**53 + 1, 2**63, 2**64, -(2**63) - 1, 2**70, -(10**4000)):
        assert decode_whole(str(number).encode()) == number


def test_a_number_too_small_for_a_double_is_zero() -> None:
    assert decode_whole(b"1e-999") == 0.0


def test_a_byte_order_mark_in_front_is_skipped_once() -> None:
    assert decode_whole(BOM + b'{"a":1}') == {"a": 1}
    assert decode_whole(BOM + b'{"a":1}', strict=True) == {"a": 1}
    assert reason_of(BOM + BOM + b"1") == "malformed"
    assert reason_of(BOM) == "malformed"
    assert reason_of(BOM + b'{"a":') == "malformed"


def test_stripping_leaves_a_body_without_the_mark_alone() -> None:
    body = b"{}"
    assert strip_bom(body) is body
    assert strip_bom(BOM + body) == body


def test_of_a_duplicate_key_the_last_wins() -> None:
    assert decode_whole(b'{"a":1,"b":2,"a":{"c":3}}') == {"a": {"c": 3}, "b": 2}


def test_ten_megabytes_are_read() -> None:
    item = b'{"a":[1,2],"b":"' + b"x" * 1000 + b'"}'
    body = b"[" + b",".join([item] * 10_000) + b"]"
    assert len(body) > 10_000_000
    assert len(decode_whole(body)) == 10_000


# What is refused


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"{", b'{"a":}', b"[1,]", b'{"a":1,}', b"{'a':1}", b"{a:1}", b"01", b"+1", b".5", b"1.", b"1 2",
        b"{}{}", b"nul", b'"\x01"', b'"\\q"', b'"abc', b"NaN", b"[Infinity]", b"-Infinity", b"\x0c1", b"// x\n1",
        b"{}\x00", b'{"a":"\x00"}',
    ],
)  # fmt: skip
def test_what_is_no_json_is_malformed(body: bytes) -> None:
    assert reason_of(body) == "malformed"


@pytest.mark.parametrize(
    "body",
    [
        b'"\xff"', b'{"\xc3":1}', b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b'{"a":1}\xff',
        "{}".encode("utf-16"), "{}".encode("utf-16-le"), "{}".encode("utf-16-be"), "[1]".encode("utf-32"),
        b'"\\ud800"', b'"\\udc00"', b'"\\ud800\\ud800"', b'{"a":"\\ud83d"}', b'{"\\udfff":1}', b'"\\ud800x"',
    ],
)  # fmt: skip
def test_what_is_no_utf8_or_holds_half_a_surrogate_pair_is_an_encoding_fault(body: bytes) -> None:
    assert reason_of(body) == "encoding"


def test_an_encoding_fault_names_the_byte_and_its_offset() -> None:
    fault = encoding_fault(b'{"a":"\xff"}')
    assert fault is not None
    assert "0xff" in fault.error
    assert "offset 6" in fault.error
    assert encoding_fault("é".encode()) is None


def test_a_body_that_is_both_cut_off_and_has_a_surrogate_escape_is_malformed() -> None:
    assert reason_of(b'{"a":"\\ud83d\\ude00"') == "malformed"
    assert reason_of(b'{"a":"\\ud83d", NaN}') == "malformed"


@pytest.mark.parametrize(
    "body", [b"1e999", b'{"a":-1e999}', b"[1.8e308]", b"9" * 4301, b"-" + b"9" * 5000, b"9" * 400 + b".0"]
)
def test_a_number_that_no_double_holds_or_with_too_many_digits_is_a_number_fault(body: bytes) -> None:
    assert reason_of(body) == "number"


@pytest.mark.parametrize("body", [b'"\\u0000"', b'{"a\\u0000":1}', b'[{"a":["x\\u0000y"]}]', BOM + b'"\\u0000"'])
def test_a_nul_in_a_text_or_key_is_refused(body: bytes) -> None:
    assert reason_of(body) == "nul"


def test_an_escaped_backslash_in_front_of_u0000_is_no_nul() -> None:
    assert decode_whole(b'{"a":["\\\\u0000"]}') == {"a": ["\\u0000"]}


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_a_hundred_levels_are_read_and_one_more_is_too_deep(opening: bytes, closing: bytes) -> None:
    per_repeat = 2 if len(closing) == 2 else 1
    most = MAX_DEPTH // per_repeat
    decode_whole(opening * most + b"1" + closing * most)
    assert reason_of(opening * (most + 1) + b"1" + closing * (most + 1)) == "too_deep"


def test_the_deepest_document_may_be_wide_as_well() -> None:
    decode_whole(b"[" + nested(MAX_DEPTH - 1) + b",{}" * 100 + b"]")
    assert reason_of(b"[" + nested(MAX_DEPTH) + b",{}" * 100 + b"]") == "too_deep"


def test_any_depth_is_too_deep_whatever_the_decoder_would_take() -> None:
    for depth in (101, 500, 990, 1000, 5000, 200_000):
        assert reason_of(nested(depth)) == "too_deep"
    assert reason_of(b"[" * 200_000) == "too_deep"


def test_brackets_within_texts_and_wide_documents_are_not_deep() -> None:
    assert decode_whole(json.dumps(["[{" * 500]).encode()) == ["[{" * 500]
    assert len(decode_whole(b"[" + b",".join([b"[{}]"] * 1000) + b"]")) == 1000


def test_depth_can_not_be_hidden_behind_brackets_in_texts() -> None:
    assert reason_of(b'["]]",' * 101 + b"1" + b"]" * 101) == "too_deep"


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x00\x00\x00\x2a\x02\x06abc", b"\x00\x00\x00\x01\x00\x06\xff\xfe\xfd", b"\x00\x00\x00\x00\x01",
        b"\xc3\x01\x8f\x5c\x39\x3f\x1a\xd5\x75\x72\x02",
    ],
)  # fmt: skip
def test_framed_binary_is_named_for_what_it_is(body: bytes) -> None:
    with pytest.raises(DecodeFault) as caught:
        decode_whole(body)
    assert caught.value.fault.reason == "framing"
    assert f"0x{body[0]:02x}: framed binary, and the stream declares json" in caught.value.fault.error
    fault = encoding_fault(body)
    assert fault is None or fault.reason == "framing"


def test_utf16_and_utf32_without_a_mark_are_not_taken_for_framed_binary() -> None:
    for text in ("{}", '{"a":1}', "[1]", '"x"', '[{"a":"b"}]'):
        for encoding in ("utf-16-be", "utf-16-le", "utf-32-be", "utf-32-le"):
            assert reason_of(text.encode(encoding)) == "encoding"


# Strict


@pytest.mark.parametrize("body", [b'{"a":1,"a":1}', b'[{"x":{"a":1,"b":2,"\\u0061":3}}]'])
def test_a_strict_reader_refuses_duplicate_keys(body: bytes) -> None:
    decode_whole(body)
    assert reason_of(body, strict=True) == "duplicate_key"


def test_a_strict_reader_takes_what_has_none() -> None:
    body = b'{"a":{"a":[{"a":1},{"a":1e3},{"a":%d}]}}' % 10**400
    assert decode_whole(body, strict=True) == decode_whole(body)


# A poll


def test_a_poll_is_utf8_if_every_body_is() -> None:
    assert is_utf8([])
    assert is_utf8([b"{}", "é".encode(), b""])
    assert not is_utf8([b"{}", "é".encode(), b"\xe9"])
    assert not is_utf8([b"\xff", b"{}"])


# For any bytes at all

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
)  # fmt: skip
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))


@given(values, st.booleans())
@settings(deadline=None)
def test_every_json_value_comes_back_equal(value: Any, ascii_only: bool) -> None:
    assert decode_whole(json.dumps(value, ensure_ascii=ascii_only).encode(), strict=True) == value


def depth_of(value: Any) -> int:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if members is None else 1 + max(map(depth_of, members), default=0)


confusing = st.text('[]{}"\\,u05bd', max_size=6)


@given(
    st.recursive(confusing, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(confusing, inner, max_size=3)),
    st.integers(MAX_DEPTH - 4, MAX_DEPTH),
    st.integers(0, 100),
)
@settings(deadline=None)
def test_depth_is_counted_whatever_stands_in_texts(value: Any, around: int, beside: int) -> None:
    for _ in range(around):
        value = [value]
    body = json.dumps([value, [[]] * beside]).encode()
    if depth_of(value) + 1 > MAX_DEPTH:
        assert reason_of(body) == "too_deep"
    else:
        assert decode_whole(body) == [value, [[]] * beside]


@given(st.text('\0\\u0"', max_size=8), st.booleans())
@settings(deadline=None)
def test_a_nul_is_found_among_backslashes(text: str, is_key: bool) -> None:
    body = json.dumps({text: 1} if is_key else [text]).encode()
    if "\0" in text:
        assert reason_of(body) == "nul"
    else:
        assert decode_whole(body) == ({text: 1} if is_key else [text])


fragments = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b'"', b":", b",", b'"a"', b'"a":', b"1", b"-", b".5", b"e9", b"true", b"null", b"NaN",
        b"\\u0000", b'"\\ud800"', b'"\\u0041"', b"\xc3\xa9", b"\xff", b" ", b"9" * 310, b"9" * 4400, b"\x00", BOM,
        b"[" * 60, b"]" * 60,
    ]
)  # fmt: skip


@given(st.binary(max_size=40) | st.lists(fragments, max_size=14).map(b"".join), st.booleans())
@example(b"\x00", False)
@settings(deadline=None, max_examples=300)
def test_whatever_is_read_the_standard_library_reads_alike_and_the_rest_is_a_fault(body: bytes, strict: bool) -> None:
    fault = None
    try:
        value = decode_whole(body, strict=strict)
    except DecodeFault as error:
        fault = error.fault
    if fault is not None:
        assert fault.reason in {"malformed", "encoding", "too_deep", "number", "nul", "framing", "duplicate_key"}
        assert fault.error
    else:
        assert json.loads(strip_bom(body).decode(), parse_constant=lambda name: pytest.fail(name)) == value
        assert decode_whole(json.dumps(value, allow_nan=False).encode(), strict=True) == value
