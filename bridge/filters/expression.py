"""Texts in `params:`: a literal, or one path alone between `${` and `}`.

`$$` is a literal dollar, so `$${event.id}` is the text `${event.id}`. A dollar that begins nothing stands for itself.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection
from typing import Final

from msgspec import Struct

_DOLLAR: Final = re.compile(r"\$\$|\$\{|\$(\w+)")
_STRANGE: Final = re.compile(r"[^\w.\-]")
_ROOTS: Final = {"event": "the decoded event", "trigger": "what a Python watcher yields"}
_INDEX: Final = "take the whole list, as in ${event.items}"
_WHOLE: Final = "write the expression alone, as in order: ${event.order_id}"


class Expression(Struct, frozen=True):
    """`${root.a.b}`: the field at `path` of a root, or all of it where the path is empty."""

    root: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join((self.root, *self.path))


class ExpressionError(ValueError):
    """The text can't be read; `at` is the offset of what is wrong with it."""

    def __init__(self, problem: str, hint: str, at: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.at = at


def parse_text(text: str, roots: Collection[str]) -> str | Expression:
    """The literal that a text stands for, or its expression over one of `roots`. Raises ExpressionError."""
    for found in _DOLLAR.finditer(text):
        if found[0] == "${":
            return _parse_expression(text, found.start(), roots)
        if found[1] in _ROOTS:
            name = found[1]
            hint = f"write ${{{name}.field}}, or $${name} for the text"
            raise ExpressionError(f"`${name}` lacks its braces", hint, found.start())
    return text.replace("$$", "$")


def _parse_expression(text: str, start: int, roots: Collection[str]) -> Expression:
    end = text.find("}", start)
    if end < 0:
        raise ExpressionError("`${` has no closing `}`", "for the text itself write $${", start)
    expression = _parse_path(text[start + 2 : end], start + 2, roots)
    if start > 0:
        raise ExpressionError("text in front of an expression is not available", _WHOLE, 0)
    if end + 1 < len(text):
        raise ExpressionError("text after an expression is not available", _WHOLE, end + 1)
    return expression


def _parse_path(source: str, at: int, roots: Collection[str]) -> Expression:
    at += len(source) - len(source.lstrip())
    source = source.strip()
    if not source:
        raise ExpressionError("an empty expression", "write ${event.field}", at)
    strange = _STRANGE.search(source)
    if strange is not None:
        raise ExpressionError(*_about(strange[0]), at + strange.start())
    names = source.split(".")
    for name in names:
        if not name:
            raise ExpressionError("a name is missing beside a dot", "names are joined by single dots", at)
        if name.isdecimal():
            raise ExpressionError(f"items of a list can't be picked by number (`{name}`)", _INDEX, at)
        at += len(name) + 1
    if names[0] not in roots:
        at -= len(source) + 1
        raise ExpressionError(f"`{names[0]}` is no root of an expression", _about_root(source, names[0], roots), at)
    return Expression(names[0], tuple(names[1:]))


def _about(character: str) -> tuple[str, str]:
    if character in "[]":
        return "items of a list can't be picked by number", _INDEX
    if character == "(":
        return "functions are not available", "an expression is a path, as in ${event.customer.tier}"
    if character == ":":
        return "an expression has no default", "a field that is missing rejects the event for this watcher"
    return f"`{character}` can't stand in a path", "an expression is names joined by dots: letters, digits, _ and -"


def _about_root(source: str, name: str, roots: Collection[str]) -> str:
    if name in _ROOTS:
        return f"`{name}` is {_ROOTS[name]}; here there is {' and '.join(sorted(roots))}"
    close = difflib.get_close_matches(name, roots, n=1)
    return f"did you mean `{close[0]}`?" if close else f"for a field of the event write ${{event.{source}}}"
