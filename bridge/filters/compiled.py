"""Conditions as Python functions: a hundred nanoseconds where the interpreter takes several microseconds.

What people wrote is never part of the source of such a function (`phrases.py`): it comes in as arguments of the factory
that the source defines. So conditions that differ in their literals share one code object, and ten thousand watchers of
one form are compiled once.

A function answers True, False, None (unknown) or FAIL. Where floats can't tell (`Inexact`), where a path leads through
what is no object, and to put an error into words, `Condition.ask` leaves the answer to the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from bridge.filters.phrases import FAIL, TOOLS, Inexact, interpreting
from bridge.filters.writer import Fields, Writer
from bridge.language.ir import Expr, Path
from bridge.language.trace import verdict
from bridge.language.uses import macros_of
from bridge.language.values import Truth
from bridge.language.view import View

__all__ = ["FAIL", "Asked", "Condition", "Documents", "Fields"]

Asked = Callable[[Any, View | None], Truth]
"""Takes the fields of an event (a Struct of the projection, or a decoded document) and its view."""


class Condition:
    """A compiled condition. `needs_view`: it asks more than the fields of the event."""

    __slots__ = ("_is_interpreted", "function", "needs_view", "node")

    def __init__(self, node: Expr, fields: Fields) -> None:
        self.node = node
        writer = Writer(fields)
        source = writer.source(node)
        self.needs_view = writer.needs_view
        self.function: Asked
        """Bare: it may raise what `ask` handles, and errors have no words."""
        # The work of all macros of a condition is counted together.
        self._is_interpreted = writer.needs_view and macros_of(node) > 1
        self.function = interpreting(node) if self._is_interpreted else _factory(source)(*writer.literals)

    def ask(self, fields: Any, view: Callable[[], View]) -> Truth:
        """True, False, None or a Fail with its words. Raises only what `view` raises."""
        if self._is_interpreted:
            return verdict(self.node, view())
        try:
            truth = self.function(fields, view() if self.needs_view else None)
        except (Inexact, AttributeError, TypeError):
            return verdict(self.node, view())
        return verdict(self.node, view()) if truth is FAIL else truth

    def open(self, poll: Sequence[Any]) -> Sequence[int]:
        """The indexes of those that it may say anything but no to, of many events at once."""
        if self.needs_view:
            return range(len(poll))
        function = self.function
        try:
            return [index for index, fields in enumerate(poll) if function(fields, None) is not False]
        except (Inexact, AttributeError, TypeError):
            return range(len(poll))


class Documents:
    """Fields of a decoded document: a dict."""

    def phrase(self, path: Path) -> tuple[str, tuple[str, ...]] | None:
        return ("e.get({0})", path) if len(path) == 1 else None

    def presence(self, path: Path) -> str | None:
        return None


@lru_cache(maxsize=4096)
def _factory(source: str) -> Callable[..., Asked]:
    namespace: dict[str, Any] = dict(TOOLS)
    exec(compile(source, "<condition>", "exec"), namespace)  # noqa: S102  # made of our own phrases alone
    made: Callable[..., Asked] = namespace["make"]
    return made
