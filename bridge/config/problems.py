"""What is wrong with a configuration, and where: every problem at once, rendered for people.

headrace.yaml:14:7: `max_in_fligth` is not a key of targets.airflow
   14 |       max_in_fligth: 5
      |       ^^^^^^^^^^^^^
   did you mean `max_in_flight`?
"""

from __future__ import annotations

import unicodedata
from typing import Final

from msgspec import Struct

from bridge.core.errors import HeadraceError

MOST: Final = 1000
"""Problems that are kept; more are only counted, so that a file of junk costs no minutes."""


class Problem(Struct, frozen=True):
    """One thing to put right. `line` and `column` count from 1; `line` 0 means the file as a whole.

    `source_line` is fit to be shown: secrets masked, control characters replaced, long lines cut; so the caret has a
    column of its own, `caret`, and is `width` wide.
    """

    file: str
    line: int
    column: int
    source_line: str
    width: int
    message: str
    hint: str = ""
    caret: int = 1

    @property
    def place(self) -> str:
        """`file:line:column`, or the file alone."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def render(self) -> str:
        """The text for people, of two to five lines, without a newline at the end."""
        lines = [f"{self.place}: {self.message}"]
        if self.line:
            margin = f"   {self.line} | "
            before = self.source_line[: self.caret - 1]
            marked = self.source_line[self.caret - 1 : self.caret - 1 + self.width]
            lines.append(f"{margin}{self.source_line}".rstrip())
            lines.append(f"{' ' * (len(margin) - 2)}| {' ' * _cells(before)}{'^' * max(1, _cells(marked))}")
        if self.hint:
            lines.append(f"   {self.hint}")
        return "\n".join(lines)


class ConfigError(HeadraceError):
    """The configuration can't be used. `problems` is never empty, and sorted by file and line."""

    def __init__(self, problems: tuple[Problem, ...], unlisted: int = 0) -> None:
        super().__init__(problems)
        self.problems = problems
        self.unlisted = unlisted

    def __str__(self) -> str:
        rendered = [problem.render() for problem in self.problems]
        if self.unlisted:
            rendered.append(f"and {self.unlisted} more problems")
        return "\n\n".join(rendered)


class Problems:
    """Gathers problems. The same one, met again through an alias, a default or `for_each`, is listed once."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, int, int, str], Problem] = {}
        self._met = 0
        self.unlisted = 0

    def __len__(self) -> int:
        """How often one was met, the same one again included: whoever compares sees that something was wrong."""
        return self._met

    @property
    def is_full(self) -> bool:
        """Whoever has to work for a good hint asks first."""
        return len(self._problems) >= MOST

    def add(self, problem: Problem) -> None:
        self._met += 1
        same = (problem.file, problem.line, problem.column, problem.message)
        if same in self._problems:
            return
        if self.is_full:
            self.unlisted += 1
        else:
            self._problems[same] = problem

    def sorted(self, files: tuple[str, ...]) -> tuple[Problem, ...]:
        """By file in the order of `files` (others come first), then by place."""
        order = {file: number for number, file in enumerate(files)}
        return tuple(sorted(self._problems.values(), key=lambda p: (order.get(p.file, -1), p.file, p.line, p.column)))


def _cells(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
