"""What bytes are wrapped in before they are sent: base64 and gzip. Declared, never guessed."""

from __future__ import annotations

import binascii
import zlib
from io import BytesIO
from typing import Final

from bridge.core.units import format_size
from bridge.decode.options import Wrapper
from bridge.decode.text import fault

_SLICE: Final = 16 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


def unwrap(body: bytes, wrapper: Wrapper, max_body: int) -> bytes:
    """The bytes within one wrapper. Raises DecodeFault: `encoding`, or `too_big` past `max_body` bytes."""
    return unbase64(body) if wrapper == "base64" else gunzip(body, max_body)


def unbase64(body: bytes) -> bytes:
    """The standard alphabet of RFC 4648, padded, in one piece; white space may follow. Raises DecodeFault."""
    text = body.rstrip(b" \t\r\n")
    try:
        return strictly(text)
    except binascii.Error as error:
        raise fault("encoding", f"not base64, which the stream declares: {error}") from error


def strictly(text: bytes) -> bytes:
    """base64 by its grammar. Raises binascii.Error."""
    if text.endswith(b"=") and len(text) % 4:  # before Python 3.12 padding may follow what needs none
        raise binascii.Error("Incorrect padding")
    if text.endswith(b"==="):
        raise binascii.Error("Excess padding")
    return binascii.a2b_base64(text, strict_mode=True)


def gunzip(body: bytes, max_body: int) -> bytes:
    """One gzip member or several behind each other (RFC 1952), up to `max_body` bytes in all. Raises DecodeFault.

    In slices, so that what is unpacked is in memory once and what is left over is never copied whole. A bomb costs the
    time and the memory of `max_body`.
    """
    out = BytesIO()
    source = BytesIO(body)
    room = max_body
    rest = source.read(_SLICE)
    if not rest:
        raise fault("encoding", "not gzip, which the stream declares: the body is empty")
    while rest:
        member = zlib.decompressobj(wbits=_GZIP)
        while not member.eof:
            if not rest:
                raise fault("encoding", "gzip is cut off: it ends within a member")
            piece = _unpacked(member, rest, room)
            room -= len(piece)
            if room < 0:
                raise fault("too_big", f"more than {max_body} bytes unpacked; `max_body` is {format_size(max_body)}")
            out.write(piece)
            rest = member.unconsumed_tail or member.unused_data or source.read(_SLICE)
    return out.getvalue()


def _unpacked(member: zlib._Decompress, data: bytes, room: int) -> bytes:
    try:
        return member.decompress(data, min(room + 1, 4 * _SLICE))
    except zlib.error as error:
        words = str(error).rpartition(": ")[2]
        raise fault("encoding", f"not gzip, which the stream declares: {words}") from error
