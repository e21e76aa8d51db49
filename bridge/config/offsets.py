"""From an offset in a scalar's text to the place in the file where that character was written.

Between the two lie quotes, escapes, indentation and folded lines. But whatever the style of a scalar, YAML changes
nothing but its white space (and escapes in quotes): the nth character of the text that is no white space is the nth
such character of the file from where the scalar begins. That is all that is used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from bridge.config.nodes import Place, Scalar

_WHITE: Final = frozenset(" \t\r\n\x85\u2028\u2029")
_ANCHOR: Final = re.compile(r"&\S+\s*")
_ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.|$)")
_SPELLED: Final = {"0": "\0", "a": "\a", "b": "\b", "v": "\v", "f": "\f", "e": "\x1b", "_": "\xa0"}
_ESCAPED_WHITE: Final = frozenset(" \t") | frozenset("tnrNLP")


class _Spot(NamedTuple):
    """One character that is no white space, as it was written: `width` is 2 for `''`, up to 10 for an escape."""

    character: str
    line: int
    column: int
    width: int


def place_of_offset(scalar: Scalar, at: int, width: int = 1) -> Place:
    """The place of `width` characters of the scalar's text from `at`; at the end of the text, of what is behind it.

    What goes on in the next line is marked as far as its first line goes. The whole scalar where its text is not what
    stands in the file.
    """
    spots = _aligned(scalar)
    if not spots:
        return scalar.place
    first = sum(character not in _WHITE for character in scalar.text[:at])
    source = scalar.place.source
    if at >= len(scalar.text) or scalar.text[at] in _WHITE:
        before = spots[max(0, first - 1)]
        return source.at(before.line, before.column + (before.width if first else 0))
    count = sum(character not in _WHITE for character in scalar.text[at : at + max(1, width)])
    start = spots[first]
    last = [spot for spot in spots[first : first + count] if spot.line == start.line][-1]
    return source.at(start.line, start.column, last.column + last.width - start.column)


def _aligned(scalar: Scalar) -> list[_Spot]:
    """A spot for each character of the text that is no white space; empty where the file has something else."""
    spots: list[_Spot] = []
    written = _written(scalar)
    for character in scalar.text:
        if character not in _WHITE:
            spot = next(written, None)
            if spot is None or spot.character != character:
                return []
            spots.append(spot)
    return spots


def _written(scalar: Scalar) -> Iterator[_Spot]:
    place = scalar.place
    lines = place.source.lines
    line, column = place.line, place.column - 1
    anchor = _ANCHOR.match(lines[line - 1], column)
    if anchor is not None:
        column = anchor.end()
        if column == len(lines[line - 1]) and line < len(lines):
            line += 1
            column = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    style = "" if scalar.is_plain else lines[line - 1][column : column + 1]
    if style and style in "|>":
        line, column = line + 1, 0  # what stands behind the sign is about the text, and not in it
    elif style:
        column += 1
    for number in range(line, len(lines) + 1):
        yield from _in_line(lines[number - 1], column, number, style)
        column = 0


def _in_line(text: str, index: int, number: int, style: str) -> Iterator[_Spot]:
    while index < len(text):
        character, width = text[index], 1
        if style == "'" and text.startswith("''", index):
            width = 2
        elif style == '"' and character == "\\":
            escape = _ESCAPE.match(text, index)
            assert escape is not None
            width = len(escape[0])
            character = _unescaped(escape[0][1:])
        if character not in _WHITE:
            yield _Spot(character, number, index + 1, width)
        index += width


def _unescaped(escape: str) -> str:
    """The character that stands for what follows a backslash; a space where that is white space or a line's end."""
    if not escape or escape in _ESCAPED_WHITE:
        return " "
    if len(escape) > 1:
        return chr(min(int(escape[1:], 16), 0x10FFFF))
    return _SPELLED.get(escape, escape)
