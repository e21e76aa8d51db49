"""A file of a configuration, quoted in problems without giving a secret away."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from bridge.config.nodes import Mapping, Node, Place, Scalar
from bridge.config.problems import Problem
from bridge.config.secrecy import (
    MASK,
    guessed_secret,
    is_only_a_reference,
    is_secret_group,
    may_be_secret_name,
    url_passwords,
)

_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")  # what the parser counts as one
_OVER_EVENTS: Final = frozenset({"match", "when", "reject"})
_SHOWN_BEFORE: Final = 100
_SHOWN: Final = 160

Spans = set[tuple[int, int]]  # start and end within a line


class Source:
    """One file's text. Until `hide_secrets` is called with the parsed tree, secrets are guessed by their names."""

    def __init__(self, name: str, folder: Path, text: str) -> None:
        self.name = name
        self.folder = folder
        self.text = text
        self.lines = _LINE_BREAK.split(text)
        self._secrets: dict[int, Spans] | None = None

    def hide_secrets(self, root: Node) -> None:
        """From now on the values of fields with secret names are masked in every quoted line."""
        self._secrets = {}
        self._hide_below(root, (), is_secret=False)

    def problem(self, place: Place, message: str, hint: str = "") -> Problem:
        shown, caret, width = self._quoted(place)
        return Problem(self.name, place.line, place.column, shown, width, message, hint, caret)

    def at(self, line: int, column: int, width: int = 1) -> Place:
        return Place(self, line, column, width, line)

    def at_index(self, index: int, width: int = 1) -> Place:
        """The place of the text's character number `index`, from 0."""
        before = self.text[:index]
        breaks = list(_LINE_BREAK.finditer(before))
        return self.at(len(breaks) + 1, index - (breaks[-1].end() if breaks else 0) + 1, width)

    def whole(self, message: str, hint: str = "") -> Problem:
        """A problem of the file as such."""
        return file_problem(self.name, message, hint)

    # Quoting ---------------------------------------------------------------------------------------------------------

    def _quoted(self, place: Place) -> tuple[str, int, int]:
        """The line as it may be shown, and the caret's column and width in it."""
        line = self.lines[place.line - 1] if place.line <= len(self.lines) else ""
        hidden = self._hidden(place.line, line)
        first = place.column - 1
        start = max(0, first - _SHOWN_BEFORE) if len(line) > _SHOWN else 0
        stop = min(len(line), start + _SHOWN)
        shown = ["…"] if start else []
        length = len(shown)
        at: dict[int, int] = {}  # index in the line -> column in what is shown
        index = start
        while index < stop:
            span = next((s for s in hidden if s[0] <= index < s[1]), None)
            piece = MASK if span else _printable(line[index])
            until = span[1] if span else index + 1
            for covered in range(index, min(until, stop)):
                at[covered] = length
            shown.append(piece)
            length += len(piece)
            index = until
        if stop < len(line):
            shown.append("…")
        caret = at.get(first, length)
        last = at.get(first + place.width, length)
        width = max(1, last - caret) if not any(s[0] <= first < s[1] for s in hidden) else len(MASK)
        return "".join(shown), caret + 1, width

    def _hidden(self, number: int, line: str) -> Spans:
        if self._secrets is None:
            guess = guessed_secret(self.lines, number - 1) if line else None
            return ({guess} if guess else set()).union(url_passwords(line))
        return self._secrets.get(number, set()).union(url_passwords(line))

    def _hide_below(self, node: Node, path: tuple[str, ...], *, is_secret: bool) -> None:
        if isinstance(node, Scalar):
            if is_secret and not is_only_a_reference(node.text):
                self._hide(node.place)
        elif isinstance(node, Mapping):
            # Without its quotes, `{hunter2}` is a mapping with a key of that name.
            hides_keys = is_secret and not any(map(is_secret_group, path))
            for name, entry in node.entries.items():
                if name in _OVER_EVENTS or (name == "key" and _is_run(path)):
                    continue  # conditions name the fields of events, and those are no secrets of ours
                if hides_keys:
                    self._hide(entry.key.place)
                # What a person calls a stream, target or asset says nothing about the values in it.
                named = len(path) != 1 and may_be_secret_name(name)
                self._hide_below(entry.value, (*path, name), is_secret=is_secret or named)
        else:
            for item in node.items:
                self._hide_below(item, (*path, "[]"), is_secret=is_secret)

    def _hide(self, place: Place) -> None:
        assert self._secrets is not None
        column = place.column - 1
        first_width = place.width if place.end_line == place.line else len(self.lines[place.line - 1])
        self._secrets.setdefault(place.line, set()).add((column, column + first_width))
        for number in range(place.line + 1, min(place.end_line, len(self.lines)) + 1):
            self._secrets.setdefault(number, set()).add((0, max(1, len(self.lines[number - 1]))))


def _is_run(path: tuple[str, ...]) -> bool:
    """Whether it leads to the `run` of a watcher, whose `key` is an expression."""
    return (len(path) == 5 and path[0] == "assets" and path[4] == "run") or path == ("defaults", "watchers", "run")


def file_problem(name: str, message: str, hint: str = "") -> Problem:
    """A problem that has no line."""
    return Problem(name, 0, 0, "", 0, message, hint)


def _printable(character: str) -> str:
    if character == "\t":
        return "→"
    return character if character.isprintable() else "·"
