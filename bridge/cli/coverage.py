"""Which clauses of which conditions a suite has seen both true and false. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from bridge.cli.trees import leaves_of, word_of
from bridge.cli.words import count

if TYPE_CHECKING:
    from bridge.language.trace import Traced

Way = Literal["true", "false"]
BOTH_WAYS: Final[tuple[Way, ...]] = ("true", "false")


class Gap(Struct, frozen=True):
    """A clause, and what no test ever made of it."""

    watcher: str
    clause: str
    missing: tuple[Way, ...]


class Coverage(Struct, frozen=True):
    """`clauses` counts all of them, `gaps` lists those that were not seen both ways."""

    clauses: int
    gaps: tuple[Gap, ...]

    @property
    def covered(self) -> int:
        return self.clauses - len(self.gaps)

    @property
    def sentence(self) -> str:
        if not self.clauses:
            return "there are no clauses to be seen"
        return f"{self.covered:,} of {count(self.clauses, 'clause')} seen both ways"


class Ledger:
    """Notes what each clause came to. `conditions`: by watcher, the texts of the clauses of its `match` and `when`, and
    behind them those of its `reject`."""

    def __init__(self, conditions: Mapping[str, Sequence[str]]) -> None:
        self._conditions = conditions
        self._seen: dict[tuple[str, int], set[str]] = {}

    def note(self, watcher: str, condition: Traced, reject: Traced | None) -> None:
        """`reject` None: it was not asked, or there is none."""
        clauses = len(self._conditions[watcher])
        self._note(watcher, 0, list(leaves_of(condition)))
        if reject is not None:
            leaves = list(leaves_of(reject))
            self._note(watcher, clauses - len(leaves), leaves)

    def _note(self, watcher: str, start: int, leaves: Sequence[Traced]) -> None:
        for place, leaf in enumerate(leaves, start):
            self._seen.setdefault((watcher, place), set()).add(word_of(leaf.value))

    def coverage(self) -> Coverage:
        gaps: list[Gap] = []
        for watcher, clauses in self._conditions.items():
            for place, clause in enumerate(clauses):
                seen = self._seen.get((watcher, place), set())
                missing: tuple[Way, ...] = tuple(way for way in BOTH_WAYS if way not in seen)
                if missing:
                    gaps.append(Gap(watcher, clause, missing))
        return Coverage(sum(map(len, self._conditions.values())), tuple(gaps))


def together(coverages: Sequence[Coverage]) -> Coverage:
    return Coverage(sum(c.clauses for c in coverages), tuple(gap for c in coverages for gap in c.gaps))
