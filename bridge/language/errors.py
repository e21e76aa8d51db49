"""What can be wrong with a filter: at start-up with how it is written, later with an event that lacks a field."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from bridge.core.errors import HeadraceError


class FilterProblem(Struct, frozen=True):
    """One thing to put right in a `match:` or `params:` block, or an expression.

    `path` leads to it from the block's own key: `("match", "customer", "tier")`, with an int for an item of a list.
    `at` is the offset within the text of that value, where there is one to point at; `width` characters from there are
    wrong.
    """

    path: tuple[str | int, ...]
    problem: str
    hint: str = ""
    at: int | None = None
    width: int = 1

    def __str__(self) -> str:
        where = ".".join(map(str, self.path)) + (f", character {self.at + 1}" if self.at is not None else "")
        return f"{where}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class FilterError(HeadraceError):
    """The block can't be used. `problems` holds all that is wrong with it, never empty, in the order of the text."""

    def __init__(self, problems: Iterable[FilterProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class ParamError(HeadraceError):
    """A param has no value for this event. `path` is what was asked for, as it is written: `event.customer.tier`."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem
