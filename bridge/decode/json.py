"""Strict JSON: RFC 8259 in UTF-8, and nothing that two readers could read differently.

Refused beside what the grammar refuses: invalid UTF-8, UTF-16, lone surrogates, a NUL in a text (no store takes it),
numbers that a double can't hold or of more than 4,300 digits (the decoder's limit), more than 100 levels. Integers are
exact, whatever their size. A byte order mark in front is skipped. Of a key that occurs twice the last one wins, unless
the reader is strict.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

import msgspec

from bridge.core.errors import HeadraceError
from bridge.core.model import Fault

MAX_DEPTH: Final = 100

_BOM: Final = b"\xef\xbb\xbf"
_BRACE: Final = ord("{")
_BRACKET: Final = ord("[")
_BACKSLASH: Final = ord("\\")
_NUL_ESCAPE: Final = b"\\u0000"
_QUOTED: Final = re.compile(rb'"[^"]*"')
_SQUARED: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b'[]{}"')
_SURROGATE_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

decode = msgspec.json.Decoder().decode
"""The value of a document; lets pass a NUL in a text and any depth that the interpreter can stand."""


class DecodeFault(HeadraceError):
    """The bytes can't be read.

    `fault.reason` is one of `malformed`, `encoding`, `too_deep`, `number`, `nul`, `framing` (bytes that a schema stands
    in front of, or should), and `duplicate_key` where the reader is strict; other decoders add `too_big` and
    `cloudevent`. `fault.error` says it in words and quotes no value of the body.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.error)
        self.fault = fault


def decode_whole(body: bytes, *, strict: bool = False) -> Any:
    """The value of a JSON document: dict, list, str, int, float, bool or None. Raises DecodeFault and nothing else.

    `strict` refuses duplicate keys as well, at several times the cost.
    """
    try:
        value = decode(body)
    except Exception as error:
        text = strip_bom(body)
        if text is body:
            raise DecodeFault(_explain(body, error)) from error
        value = _decode_behind_bom(text)
    doubtful = bool(_doubtful((body,)))
    if doubtful and _is_deep(body):  # the decoder's own limit on depth differs between versions of Python
        raise DecodeFault(_too_deep())
    if doubtful and _has_nul(body):
        raise DecodeFault(Fault("nul", "a text or key holds the character U+0000, which no store can keep"))
    if strict:
        json.loads(strip_bom(body), object_pairs_hook=_unique, parse_int=str, parse_float=str)
    return value


def faults_of(bodies: Sequence[bytes], *, strict: bool = False, is_decoded: bool = False) -> dict[int, Fault]:
    """By index, why a body is not what `decode_whole` takes. Many at once cost little more than their decoding.

    `is_decoded`: all of them have been through `decode`, so only what that lets pass is looked for.
    """
    try:
        if not is_decoded:
            deque(map(decode, bodies), maxlen=0)
    except Exception:
        doubtful: Sequence[int] = range(len(bodies))
    else:
        doubtful = range(len(bodies)) if strict else _doubtful(bodies)
    faults: dict[int, Fault] = {}
    for index in doubtful:
        try:
            decode_whole(bodies[index], strict=strict)
        except DecodeFault as error:
            faults[index] = error.fault
    return faults


def _doubtful(bodies: Sequence[bytes]) -> list[int]:
    """Those that were decoded well, and yet may be too deep or hold a NUL: very few.

    To look for a byte costs a tenth of counting it, or of looking for a text: so that comes first. Objects alone need
    five bytes a level (`{"":` and `}`), so a short body without a list is not deep.
    """
    joined = b"".join(bodies)
    if _BACKSLASH not in joined and _BRACKET not in joined and max(map(len, bodies), default=0) <= 5 * MAX_DEPTH:
        return []  # most polls of small events: three looks at all of them cost less than two at each
    return [
        i
        for i, body in enumerate(bodies)
        if ((_BRACKET in body or len(body) > 5 * MAX_DEPTH) and body.count(_BRACE) + body.count(_BRACKET) > MAX_DEPTH)
        or (_BACKSLASH in body and _NUL_ESCAPE in body)
    ]


def decimal_of(text: str) -> Decimal:
    """A number of a document, exactly; nought where its exponent is smaller than any that a Decimal can have."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal(float(text))


def strip_bom(body: bytes) -> bytes:
    """The body without a UTF-8 byte order mark in front; the same object where there is none."""
    return body[3:] if body.startswith(_BOM) else body


def is_utf8(bodies: Sequence[bytes]) -> bool:
    """Whether every body of a poll is UTF-8: 30 to 60 ns a body where all are ASCII."""
    if all(map(bytes.isascii, bodies)):
        return True
    try:
        for body in bodies:
            if not body.isascii():
                str(body, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def encoding_fault(body: bytes) -> Fault | None:
    """Why the body is not UTF-8, or None where it is."""
    try:
        str(body, "utf-8")
    except UnicodeDecodeError as error:
        if _is_framed(body):
            return _framed(body)
        if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return _utf16()
        return Fault("encoding", f"not UTF-8: byte 0x{body[error.start]:02x} at offset {error.start} ({error.reason})")
    return None


def _decode_behind_bom(text: bytes) -> Any:
    try:
        return decode(text)
    except Exception as error:
        raise DecodeFault(_explain(text, error)) from error


def _explain(text: bytes, error: Exception) -> Fault:
    if not text.strip(b" \t\r\n"):
        return Fault("malformed", "the body is empty")
    fault = encoding_fault(text)
    if fault is not None:
        return fault
    if _is_framed(text):
        return _framed(text)
    if 0 in text[:2]:  # the other half of an ASCII character
        return _utf16()
    if isinstance(error, RecursionError):
        return _too_deep()
    if isinstance(error, msgspec.ValidationError):  # an untyped decode validates nothing but numbers
        return Fault("number", "a number is out of the range of a double, or has more than 4,300 digits")
    if _SURROGATE_ESCAPE.search(text) and _is_json_but_for_surrogates(text):
        return Fault("encoding", "a text holds a lone surrogate: half of a UTF-16 pair, written as \\ud800 to \\udfff")
    return Fault("malformed", f"not JSON: {str(error).removeprefix('JSON is malformed: ')}")


def _is_framed(body: bytes) -> bool:
    """Whether binary data stands behind the id of its schema, and not UTF-16 or UTF-32 behind the half of a character.

    Confluent: a zero and an id of four bytes, big-endian, of which the first is zero as well. Avro alone: C3 01.
    """
    if body.startswith(b"\xc3\x01"):
        return True
    utf32 = body[3:4] in (b"{", b"[", b'"') and len(body) % 4 == 0 and body[4:7] == b"\0\0\0"
    return len(body) >= 5 and body.startswith(b"\0\0") and not utf32


def _framed(body: bytes) -> Fault:
    return Fault(
        "framing",
        f"begins with 0x{body[0]:02x}: framed binary, and the stream declares json; if it is Avro, set `decode: avro`",
    )


def _utf16() -> Fault:
    return Fault("encoding", "not UTF-8: it looks like UTF-16 or UTF-32; JSON is exchanged as UTF-8 (RFC 8259, 8.1)")


def _too_deep() -> Fault:
    return Fault("too_deep", f"nested deeper than {MAX_DEPTH} levels")


def _is_json_but_for_surrogates(text: bytes) -> bool:
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _unique(pairs: list[tuple[str, object]]) -> None:
    counts = Counter(key for key, _ in pairs)
    if len(counts) != len(pairs):
        twice = counts.most_common(1)[0][0]
        raise DecodeFault(Fault("duplicate_key", f"an object has the key {twice[:80]!r} more than once"))


# The two below read the text of a document that the decoder has accepted: to walk its value would cost as much again.


def _is_deep(text: bytes) -> bool:
    if _BACKSLASH in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # What is left of a string are its quotes and the brackets in it. Taking out `""` leaves each bracket inside or
    # outside of quotes, as it was.
    brackets = _QUOTED.sub(b"", text.translate(_SQUARED, _NO_BRACKETS).replace(b'""', b""))
    for _ in range(MAX_DEPTH):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")  # the innermost level of every branch
    return bool(brackets)


def _has_nul(text: bytes) -> bool:
    return _NUL_ESCAPE in text.replace(b"\\\\", b"")  # an escaped backslash escapes nothing
