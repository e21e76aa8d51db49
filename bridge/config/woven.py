"""Variables of the environment in an expression: they become values of it, and never a part of how it is written.

    when: event.region == "${REGION}" && event.amount > ${LIMIT}

Inside of a text a variable is text, whatever quotes it holds; elsewhere it must be a number, true or false.
"""

from __future__ import annotations

import json
import re
from typing import Final

from msgspec import Struct

from bridge.config.nodes import Broken, Place, Scalar, kind_of
from bridge.config.offsets import place_of_offset
from bridge.config.reading import Reading, Where, is_hidden
from bridge.language.reading.tokens import texts_in

_DOLLAR: Final = re.compile(r"\$\$|\$\{[^}]*\}?")
_EXPRESSION: Final = re.compile(r"\$\{\s*((?:each|event|meta|headers|attributes|properties|trigger)\s*[.\[][^}]*)")


class _Piece(Struct, frozen=True):
    """`text` stands for what was written from `start` to `end`."""

    text: str
    start: int
    end: int
    is_variable: bool


class Woven(Struct, frozen=True):
    """An expression with its variables filled in. `is_secret`: nothing of it may be shown."""

    scalar: Scalar
    pieces: tuple[_Piece, ...]
    is_secret: bool = False

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    def place(self, at: int, width: int) -> Place:
        """The place in the file of a stretch of the text."""
        start, _ = self._written(at)
        _, end = self._written(at + max(1, width) - 1)
        return place_of_offset(self.scalar, start, end - start)

    def holds_variable(self, at: int, width: int) -> bool:
        """Whether a value of the environment is in a stretch of the text."""
        here = 0
        for piece in self.pieces:
            there = here + len(piece.text)
            if piece.is_variable and here < at + width and at < max(there, here + 1):
                return True
            here = there
        return False

    def _written(self, at: int) -> tuple[int, int]:
        """From where to where the character was written that the text has at `at`."""
        here = 0
        for piece in self.pieces:
            there = here + len(piece.text)
            if at < there:
                if len(piece.text) != piece.end - piece.start or piece.is_variable:
                    return piece.start, piece.end
                return piece.start + at - here, piece.start + at - here + 1
            here = there
        behind = len(self.scalar.text) + at - here
        return behind, behind + 1


def weave(scalar: Scalar, where: Where, reading: Reading) -> Woven | None:
    """None with problems."""
    text, is_secret = scalar.text, is_hidden(scalar, where)
    if "$" not in text or isinstance(scalar, Broken):
        filled = reading.fill(scalar, where)
        return None if filled is None else Woven(scalar, (_Piece(filled.text, 0, len(text), False),), is_secret)
    quoted = texts_in(text)
    pieces: list[_Piece] = []
    end = 0
    for found in _DOLLAR.finditer(text):
        pieces.append(_Piece(text[end : found.start()], end, found.start(), False))
        end = found.end()
        around = next((text[a:b] for a, b in quoted if a < found.start() < b), "")
        piece = _filled(scalar, found, around, where, reading)
        if piece is None:
            return None
        pieces.append(piece)
    pieces.append(_Piece(text[end:], end, len(text), False))
    return Woven(scalar, tuple(piece for piece in pieces if piece.text), is_secret)


def _filled(scalar: Scalar, found: re.Match[str], around: str, where: Where, reading: Reading) -> _Piece | None:
    """`around` is the literal that the variable stands in, if it does."""
    if found[0] == "$$":
        return _Piece("$", found.start(), found.end(), False)
    place = place_of_offset(scalar, found.start(), found.end() - found.start())
    expression = _EXPRESSION.match(found[0])
    if expression is not None:
        hint = f"write {expression[1].strip()} itself" + (", joined by + where text is around it" if around else "")
        reading.problem(place, "in a condition, ${…} is a variable of the environment", hint)
        return None
    filled = reading.fill(Scalar(found[0], False, scalar.place, scalar.is_secret), where)
    if filled is None:
        return None
    if not around and kind_of(filled.text) not in ("whole", "number", "bool"):
        hint = f'in quotes it is a text: "{_name(found[0])}"; what is asked is written in the condition itself'
        reading.problem(place, f"{_name(found[0])} holds no number, and neither true nor false", hint)
        return None
    if around[:1] in ("r", "R") and not _is_raw(filled.text, around[1]):
        hint = "leave out the r in front of the text, and write backslashes twice"
        reading.problem(place, f"{_name(found[0])} can't stand in a text with an r in front: it holds a quote", hint)
        return None
    value = filled.text if not around or around[0] in "rR" else _escaped(filled.text)
    return _Piece(value, found.start(), found.end(), True)


def _name(written: str) -> str:
    """Without its default, which may be a secret."""
    return written.removesuffix("}").partition(":-")[0] + "}"


def _is_raw(value: str, quote: str) -> bool:
    return not {quote, "\n", "\r"} & set(value)


def _escaped(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1].replace("'", "\\'")
