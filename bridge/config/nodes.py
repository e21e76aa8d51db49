"""A parsed YAML document: three kinds of node, each with its place. Nothing is typed or substituted yet."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from bridge.config.problems import Problem

if TYPE_CHECKING:
    from bridge.config.source import Source


class Place(Struct, frozen=True, eq=False, gc=False):
    """Where a node stands. Lines and columns count from 1; `width` is that of its first line, `end_line` its last."""

    source: Source
    line: int
    column: int
    width: int
    end_line: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


class Scalar(Struct, frozen=True, eq=False):
    """Text; `is_plain` where it was written without quotes, and so may stand for a number, a bool or nothing.

    `is_secret` where the name that it came by says so, and not the one that it stands behind.
    """

    text: str
    is_plain: bool
    place: Place
    is_secret: bool = False

    @property
    def kind(self) -> ScalarKind:
        return kind_of(self.text) if self.is_plain else "text"


class Broken(Scalar, frozen=True, eq=False):
    """A scalar that can't be had; whoever asks for its value meets the problem."""

    problem: Problem | None = None


class Entry(Struct, frozen=True, eq=False):
    key: Scalar
    value: Node


class Mapping(Struct, frozen=True, eq=False):
    """Entries in the order of the file, merge keys resolved, no key twice."""

    entries: dict[str, Entry]
    place: Place


class Sequence(Struct, frozen=True, eq=False):
    items: list[Node]
    place: Place


Node = Scalar | Mapping | Sequence

ScalarKind = Literal["text", "whole", "number", "bool", "nothing"]

# YAML 1.2, core schema, less its surprises: a number has no leading zero, no underscore and no other base than ten.
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_NUMBER: Final = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
TRUE: Final = frozenset({"true", "True", "TRUE"})
FALSE: Final = frozenset({"false", "False", "FALSE"})
_NOTHING: Final = frozenset({"", "~", "null", "Null", "NULL"})
MOST_DIGITS: Final = 1000


def kind_of(text: str) -> ScalarKind:
    """What an unquoted scalar stands for. `no`, `on`, `0755`, `1_000` and dates are text."""
    if text in _NOTHING:
        return "nothing"
    if text in TRUE or text in FALSE:
        return "bool"
    if text[0] in "+-.0123456789":
        if _WHOLE.fullmatch(text):
            return "whole"
        if _NUMBER.fullmatch(text) or _INFINITE.fullmatch(text):
            return "number"
    return "text"


def number_of(text: str) -> float:
    """The value of a scalar of kind `number`; infinite and not-a-number included."""
    if _INFINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return float(text)


def walk(node: Node) -> Iterator[Scalar]:
    """Every scalar value below the node, each as often as it is reached."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Mapping):
        for entry in node.entries.values():
            yield from walk(entry.value)
    else:
        for item in node.items:
            yield from walk(item)
