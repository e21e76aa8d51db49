"""The files of a configuration: found, read, and quoted in problems without giving a secret away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bridge.config.nodes import Mapping, Node, Place, Scalar
from bridge.config.problems import Problem, Problems
from bridge.config.secrecy import (
    MASK,
    guessed_secret,
    is_only_a_reference,
    is_secret_group,
    may_be_secret_name,
    url_passwords,
)
from bridge.core.units import format_size

LARGEST_FILE: Final = 4 * 1024 * 1024
_SUFFIXES: Final = (".yaml", ".yml")
_LINE_BREAK: Final = re.compile(r"\r\n|\r|\n")  # what the parser counts as one
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
                if name in ("match", "when"):
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


def file_problem(name: str, message: str, hint: str = "") -> Problem:
    """A problem that has no line."""
    return Problem(name, 0, 0, "", 0, message, hint)


def _printable(character: str) -> str:
    if character == "\t":
        return "→"
    return character if character.isprintable() else "·"


# Finding and reading -------------------------------------------------------------------------------------------------


def find_files(paths: Sequence[Path], problems: Problems) -> list[Path]:
    """The files that the paths stand for, each once: a folder's `*.yaml` and `*.yml`, sorted, hidden ones left out."""
    if not paths:
        problems.add(file_problem("configuration", "no file was given", "name a YAML file, or a folder of them"))
    found: dict[Path, Path] = {}
    for path in paths:
        for file in _files_of(path, problems):
            found.setdefault(_resolved(file), file)
    return list(found.values())


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a name that no system takes: reading will tell
        return path


def _files_of(path: Path, problems: Problems) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        files = sorted(
            f for f in path.iterdir() if f.suffix in _SUFFIXES and not f.name.startswith(".") and f.is_file()
        )
    except (OSError, ValueError) as error:
        problems.add(file_problem(str(path), f"can't be read: {_reason(error)}"))
        return []
    if not files:
        problems.add(file_problem(str(path), "a folder without any *.yaml or *.yml file", "name the file itself?"))
    return files


def read_source(path: Path, problems: Problems) -> Source | None:
    """The file's text, or None with a problem."""
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        problems.add(file_problem(name, "there is no such file", f"looked in {path.absolute().parent}"))
        return None
    except (OSError, ValueError) as error:
        problems.add(file_problem(name, f"can't be read: {_reason(error)}"))
        return None
    if len(data) > LARGEST_FILE:
        problems.add(file_problem(name, f"larger than {format_size(LARGEST_FILE)}", "split it into a folder of files"))
        return None
    try:
        return Source(name, path.absolute().parent, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = Source(name, path.parent, data[: error.start].decode("utf-8-sig", errors="replace") + "·")
        place = before.at_index(len(before.text) - 1)
        message = f"not UTF-8: byte 0x{data[error.start]:02x}"
        problems.add(before.problem(place, message, "save the file with the encoding UTF-8"))
        return None


def _reason(error: OSError | ValueError) -> str:
    """The operating system's words, without the path that is named already."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
