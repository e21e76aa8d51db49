"""What came into a watcher through variables, kept out of what people are told of its filters and runs. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import structs

from bridge.cli.messages import exact
from bridge.cli.trees import compact
from bridge.config.nodes import kind_of
from bridge.config.secrecy import MASK
from bridge.core.model import Run
from bridge.language.trace import Traced
from bridge.rehearsal import Asked, Outcome, Rehearsed

_NUMBERS: Final = ("whole", "number")
_HARMLESS: Final = ("bool", "nothing")  # `true` would be missing everywhere


class Hiding:
    """Masks secrets: in the texts of clauses, which are written as JSON is, and in values."""

    def __init__(self, secrets: Collection[str]) -> None:
        longest_first = sorted(secrets, key=lambda text: (-len(text), text))
        spellings = dict.fromkeys(s for text in longest_first for s in _spellings(text))
        # `.lower()` of a secret is one, too.
        self._found = re.compile("|".join(spellings), re.IGNORECASE) if spellings else None

    def text(self, text: str) -> str:
        """The text of a clause, or a sentence that quotes it."""
        return text if self._found is None else self._found.sub(MASK, text)

    def value(self, value: object) -> object:
        """A value of an event or of params; itself where nothing is to be hidden."""
        if self._found is None or value is None or isinstance(value, bool | bytes):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {str(name): self.value(item) for name, item in value.items()}
        if isinstance(value, Sequence):
            return [self.value(item) for item in value]
        return MASK if self._found.search(compact(value)) else value

    def traced(self, traced: Traced) -> Traced:
        """A tree of clauses."""
        if self._found is None:
            return traced
        parts = tuple(map(self.traced, traced.parts))
        return Traced(traced.node, self.text(traced.text), self.value(traced.value), parts)

    def clauses(self, seen: Rehearsed) -> Rehearsed:
        """What was seen, its clauses masked; the runs are as they are, to be compared."""
        if self._found is None:
            return seen
        outcomes = {
            name: structs.replace(outcome, asked=tuple(map(self._asked, outcome.asked)))
            for name, outcome in seen.outcomes.items()
        }
        return structs.replace(seen, outcomes=outcomes)

    def everything(self, seen: Rehearsed) -> Rehearsed:
        """What was seen, its clauses and its runs masked."""
        if self._found is None:
            return seen
        outcomes = {name: self._runs(outcome) for name, outcome in self.clauses(seen).outcomes.items()}
        return structs.replace(seen, outcomes=outcomes)

    def _asked(self, asked: Asked) -> Asked:
        reject = None if asked.reject is None else self.traced(asked.reject)
        return structs.replace(asked, condition=self.traced(asked.condition), reject=reject)

    def _runs(self, outcome: Outcome) -> Outcome:
        return structs.replace(outcome, runs=tuple(map(self._run, outcome.runs)))

    def _run(self, run: Run) -> Run:
        key = None if run.key is None else self.text(run.key)
        tags = None if run.tags is None else self._document(run.tags)
        return structs.replace(run, params=self._document(run.params), tags=tags, key=key)

    def _document(self, text: bytes) -> bytes:
        return compact(self.value(exact(text))).encode()


def _spellings(secret: str) -> tuple[str, ...]:
    """Patterns for how the text of a secret may be written."""
    kind = kind_of(secret)
    if kind in _HARMLESS:
        return ()
    if kind in _NUMBERS:
        return (rf"(?<![\w.]){re.escape(secret)}(?![\w.])",)
    return (re.escape(json.dumps(secret, ensure_ascii=False)[1:-1]), re.escape(secret))
