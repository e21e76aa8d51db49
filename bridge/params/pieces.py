"""Cuts a text into what stands for itself and the expressions between `${` and `}`.

`$$` is a literal dollar, so `$${event.id}` is the text `${event.id}`. A dollar that begins nothing stands for itself.
The `}` of an expression is the first outside of its strings: `${event.name.contains("}")}` is one expression.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

_DOLLAR: Final = re.compile(r"\$\$|\$\{|\$(?P<name>[^\W\d]\w*)")
_QUOTE_OR_END: Final = re.compile(
    r"""(?P<text>
        \b[rR](?:\"{3}.*?\"{3} | '{3}.*?'{3} | "[^"]*" | '[^']*')       # raw: a backslash is a backslash
      | \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
      | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    ) | (?P<open>["']) | }""",
    re.DOTALL | re.VERBOSE,
)
_LITERALLY: Final = "for the text itself write $${"


class Written(Struct, frozen=True):
    """The source of an expression, without `${` and `}`. `at` is where in the text it begins."""

    source: str
    at: int


class CutError(ValueError):
    """The text can't be cut; `width` characters from the offset `at` are wrong with it."""

    def __init__(self, problem: str, hint: str, at: int, width: int = 1) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.at = at
        self.width = width


def cut(text: str, roots: Collection[str]) -> tuple[str | Written, ...]:
    """Literal parts (unescaped, never empty, never two in a row) and expressions, in their order.

    Raises CutError for an expression that is empty or doesn't end, and for `$event`: a dollar before one of `roots`.
    """
    parts: list[str | Written] = []
    literal = ""
    for part in _parts(text, roots):
        if isinstance(part, str):
            literal += part
            continue
        if literal:
            parts.append(literal)
            literal = ""
        parts.append(part)
    return (*parts, literal) if literal else tuple(parts)


def _parts(text: str, roots: Collection[str]) -> Iterator[str | Written]:
    here = 0
    while (found := _DOLLAR.search(text, here)) is not None:
        yield text[here : found.start()]
        here = found.end()
        if found[0] == "${":
            written = _written(text, here)
            yield written
            here += len(written.source) + 1
        elif found[0] == "$$":
            yield "$"
        elif found["name"] in roots:
            name = found["name"]
            hint = f"write ${{{name}}} for its value, or $${name} for the text"
            raise CutError(f"`${name}` lacks its braces", hint, found.start(), len(found[0]))
        else:
            yield found[0]
    yield text[here:]


def _written(text: str, start: int) -> Written:
    for found in _QUOTE_OR_END.finditer(text, start):
        if found["open"]:
            raise CutError("a text in the expression has no closing quote", f"close it with {found[0]}", found.start())
        if found["text"] is None:
            source = text[start : found.start()]
            if not source.strip():
                raise CutError("an empty expression", "write ${event.field}", start)
            return Written(source, start)
    raise CutError("`${` has no closing `}`", _LITERALLY, start - 2, 2)
