"""What goes along while an expression is read: its text, the problems so far, and how each form is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from bridge.language.errors import FilterError, FilterProblem
from bridge.language.functions import Kind
from bridge.language.ir import MOST_DEPTH, Const, Expr
from bridge.language.reading import checks
from bridge.language.reading.checks import Complaint
from bridge.language.reading.scope import Scope
from bridge.language.reading.syntax import Syntax, What, Word
from bridge.language.reading.typed import Typed

MOST_PROBLEMS: Final = 50
"""Of one expression: who has more has made one mistake many times."""

Path: TypeAlias = tuple[str | int, ...]


class Lowering:
    """Reads one expression. `offset` is where its text stands in the text of the value that `path` leads to."""

    def __init__(self, text: str, path: Path, offset: int, how: Mapping[What, How]) -> None:
        self.text = text
        self.problems: list[FilterProblem] = []
        self._path = path
        self._offset = offset
        self._how = how

    def part(self, syntax: Syntax, scope: Scope) -> Typed:
        return self._how[syntax.what](self, syntax, scope)

    def parts(self, syntax: Syntax, scope: Scope) -> tuple[Typed, ...]:
        return tuple(self.part(part, scope) for part in syntax.parts)

    def condition(self, syntax: Syntax, scope: Scope) -> Typed:
        """A part that must give true or false."""
        part = self.part(syntax, scope)
        complaint = None if part.is_broken else checks.about_truth(part)
        return part if complaint is None else self.refused(syntax, complaint)

    def made(self, node: Expr, kind: Kind, span: Syntax | Typed | Word, depth: int = 1) -> Typed:
        """Raises FilterError where the whole has become too deep: nobody behind this could stand it."""
        text = self.text[span.start : span.end]
        if depth > MOST_DEPTH:
            self.note(Complaint(f"nested deeper than {MOST_DEPTH} levels", "split the condition"), span.start)
            raise FilterError(self.problems)
        return Typed(node, kind, text, span.start, span.end, depth)

    def at(self, start: int) -> int:
        """The place of a node in the text that the person wrote."""
        return self._offset + start

    def note(self, complaint: Complaint, start: int, end: int | None = None) -> None:
        width = max(1, (start + 1 if end is None else end) - start)
        self.problems.append(FilterProblem(self._path, complaint.problem, complaint.hint, self.at(start), width))
        if len(self.problems) >= MOST_PROBLEMS:
            raise FilterError(self.problems)

    def refused(self, span: Syntax | Typed | Word, complaint: Complaint) -> Typed:
        """Notes the problem, and gives something to go on with."""
        self.note(complaint, span.start, span.end)
        return self.broken(span)

    def broken(self, span: Syntax | Typed | Word) -> Typed:
        return Typed(Const(False), "any", self.text[span.start : span.end], span.start, span.end, is_broken=True)


How: TypeAlias = Callable[[Lowering, Syntax, Scope], Typed]


def below(*parts: Typed) -> int:
    """The depth of what is made of these parts."""
    return 1 + max((part.depth for part in parts), default=0)


def is_any_broken(*parts: Typed) -> bool:
    return any(part.is_broken for part in parts)
