"""Bytes of a message, as they may be shown: text where they are text, else hex, and no more than a screen can take.

Pure.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from bridge.cli.words import printable

LONGEST: Final = 4096
"""Bytes of a body that are shown."""
_HEADER_LONGEST: Final = 256
_ROW: Final = 16


class Shown(Struct, frozen=True):
    """`text` is the text itself or lower-case hex; `size` counts all bytes, shown or not."""

    encoding: Literal["utf-8", "hex"]
    text: str
    size: int
    is_cut: bool


def shown(data: bytes, longest: int = LONGEST) -> Shown:
    """The first `longest` bytes: as text where these are UTF-8 (a character cut in two is left out), else as hex."""
    head = data[:longest]
    is_cut = len(head) < len(data)
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head, final=not is_cut)
    except UnicodeDecodeError:
        return Shown("hex", head.hex(), len(data), is_cut)
    return Shown("utf-8", text, len(data), is_cut)


def for_terminal(data: bytes | None) -> str:
    """One line about the body, then the body; hex in rows of 16 with their offset. None: the message has none."""
    if data is None:
        return "no body (a tombstone)"
    body = shown(data)
    if not body.size:
        return "body (empty)"
    kind = "text" if body.encoding == "utf-8" else "no UTF-8, as hex"
    cut = f"; the first {LONGEST:,} are shown, --raw writes all" if body.is_cut else ""
    text = printable(body.text, lines=True) if body.encoding == "utf-8" else _rows(data[:LONGEST])
    return f"body ({body.size:,} {'byte' if body.size == 1 else 'bytes'}, {kind}{cut})\n{text}"


def in_a_line(data: bytes | None) -> str:
    """A key or the value of a header, and never nothing: `<null>` is a null, `<empty>` no byte."""
    if not data:
        return "<null>" if data is None else "<empty>"
    value = shown(data, _HEADER_LONGEST)
    text = printable(value.text) if value.encoding == "utf-8" else f"hex {value.text}"
    return f"{text} ... ({value.size:,} bytes)" if value.is_cut else text


def headers_of(stored: bytes) -> list[tuple[str, bytes | None]]:
    """From the JSON list of [name, base64 of the value, or null] in a dead letter. Damaged ones are left out."""
    try:
        pairs = msgspec.json.decode(stored, type=list[tuple[str, str | None]])
        return [(name, None if value is None else base64.b64decode(value, validate=True)) for name, value in pairs]
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return []


def as_json(data: bytes | None) -> dict[str, Any] | None:
    """The same for programs; None where there are no bytes at all (a null)."""
    if data is None:
        return None
    value = shown(data)
    return {"encoding": value.encoding, "text": value.text, "size": value.size, "is_cut": value.is_cut}


def whole_as_json(data: bytes | None) -> dict[str, Any] | None:
    """The same, and nothing is cut."""
    return None if data is None else msgspec.structs.asdict(shown(data, len(data)))


def _rows(data: bytes) -> str:
    rows = []
    for start in range(0, len(data), _ROW):
        row = data[start : start + _ROW]
        letters = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in row)
        rows.append(f"{start:04x}  {row.hex(' '):<{_ROW * 3 - 1}}  {letters}")
    return "\n".join(rows)
