"""Problems of a configuration: for people with colour, for programs as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from bridge.cli.output import complain_with
from bridge.cli.words import printable
from bridge.config.problems import ConfigError, Problem

_CARET: Final = re.compile(r"^ +\| +\^+$", re.MULTILINE)


def complain_of(error: ConfigError) -> None:
    """All of them, to standard error."""
    complain_of_all(error.problems)
    if error.unlisted:
        complain_with(Text(f"\nand {error.unlisted} more problems"))


def complain_of_all(problems: Sequence[Problem], *, is_warning: bool = False) -> None:
    """A blank line between two. The text is that of `Problem.render`, byte for byte, where there is no colour."""
    for number, problem in enumerate(problems):
        text = coloured(problem)
        if is_warning:
            text = Text.assemble(("warning: ", "bold yellow"), text)
        complain_with(Text.assemble("\n", text) if number else text)


def coloured(problem: Problem) -> Text:
    """The rendered problem: place bold, caret red, hint cyan."""
    rendered = printable(problem.render(), lines=True)
    text = Text(rendered)
    text.stylize("bold", 0, len(problem.place))
    found = _CARET.search(rendered)
    if found is not None:
        text.stylize("bold red", found.end() - len(found[0].lstrip(" |")), found.end())
    if problem.hint:
        text.stylize("cyan", len(rendered) - len(printable(problem.hint, lines=True)))
    return text


def as_json(problem: Problem) -> dict[str, object]:
    """`line` and `column` count from 1; 0 where the problem has no line."""
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "message": problem.message,
        "hint": problem.hint,
    }


def of_sentence(sentence: str, files: Sequence[str]) -> Problem:
    """What has no line in a file: user code that can't be imported or made, or what a source can't promise."""
    return Problem(files[0] if len(files) == 1 else "configuration", 0, 0, "", 0, sentence)
