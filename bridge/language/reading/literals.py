"""The values of literals as they are written in an expression."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from bridge.language.numbers import MOST_DIGITS
from bridge.language.reading.tokens import refuse

LARGEST_EXPONENT: Final = 308
"""A double holds no larger one, so no event does."""

_BEYOND: Final = 10**MOST_DIGITS
_TOO_MANY: Final = f"a number of more than {MOST_DIGITS:,} digits, which no event holds"
_ESCAPE: Final = re.compile(
    r"""\\(?:(?P<letter>[abfnrtv\\?"'`]) | [xX](?P<x>[0-9a-fA-F]{2}) | u(?P<u>[0-9a-fA-F]{4}) | U(?P<U>[0-9a-fA-F]{8})
        | (?P<octal>[0-3][0-7][0-7]) | (?P<wrong>.?))""",
    re.DOTALL | re.VERBOSE,
)
_LETTERS: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def whole(written: str, at: int) -> int:
    """`12` or `0xff`. `at` is where it stands. Raises FilterError, like everything here."""
    if written[:2] in ("0x", "0X"):
        number = int(written, 16)
        if number >= _BEYOND:
            refuse(_TOO_MANY, "", at, len(written))
        return number
    if len(written) > MOST_DIGITS:
        refuse(_TOO_MANY, "", at, len(written))
    return int(written)


def decimal(written: str, at: int) -> Decimal:
    """`2.50`, `.5` or `1e6`, with every digit."""
    digits, _, exponent = written.lower().partition("e")
    if len(digits) > MOST_DIGITS:
        refuse(_TOO_MANY, "", at, len(written))
    if abs(int(exponent[:20] or 0)) > MOST_DIGITS or (number := Decimal(written)).adjusted() > LARGEST_EXPONENT:
        refuse("a number that no event holds", f"exponents go up to {LARGEST_EXPONENT}", at, len(written))
    return number


def text(written: str, at: int) -> str:
    """The text between the quotes, escapes resolved; without an `r` in front, that is."""
    is_raw = written[0] in "rR"
    quotes = 3 if written.lstrip("rR")[:3] in ('"""', "'''") and len(written) >= 6 + is_raw else 1
    inside = written[is_raw + quotes : -quotes]
    if is_raw or "\\" not in inside:
        return inside
    start = at + quotes
    return _ESCAPE.sub(lambda found: _unescaped(found, start), inside)


def _unescaped(found: re.Match[str], start: int) -> str:
    kind = found.lastgroup
    if kind == "letter":
        return _LETTERS.get(found["letter"], found["letter"])
    at, width = start + found.start(), len(found[0])
    if kind is None or kind == "wrong":
        hint = f'write \\\\{found["wrong"]} for a backslash, or put an r in front of the text: r"{found[0]}"'
        refuse(f"`{found[0]}` stands for no character", hint, at, width)
    code = int(found[kind], 8 if kind == "octal" else 16)
    if code == 0 or 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        refuse(f"`{found[0]}` is no character that an event holds", "remove it", at, width)
    return chr(code)
