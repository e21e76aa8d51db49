"""What a look-up finds: the watchers whose key an event has; in the order of their limits, where they are many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, ge, gt, le, lt
from typing import Any, Final

from msgspec import Struct

from bridge.filters.compiled import Condition, Fields
from bridge.filters.keys import Threshold
from bridge.filters.projection import Projection
from bridge.filters.watch import Watch
from bridge.language.ir import AllOf, Expr, Path
from bridge.language.values import Truth
from bridge.language.view import View

LADDER_FROM: Final = 8
"""Watchers of one bucket with a threshold on the same field, from which they are kept in order of their limits."""


class Candidate:
    """A watcher, and what is left to be asked when a look-up has found it. `rest` None: nothing."""

    __slots__ = ("_condition", "order", "rest", "watch")

    def __init__(self, watch: Watch, rest: Expr | None = None) -> None:
        self.watch = watch
        self.order = watch.order
        self.rest = rest
        self._condition: Condition | None = None

    def condition(self, projection: Fields) -> Condition:
        """What is left, compiled when it is first asked."""
        if self._condition is None:
            self._condition = Condition(self.rest if self.rest is not None else AllOf(()), projection)
        return self._condition

    def ask(self, projection: Fields, fields: Struct, view: Callable[[], View]) -> Truth:
        return True if self.rest is None else self.condition(projection).ask(fields, view)


class Step(Candidate):
    """One of which nothing is left but a threshold: no function of its own, so that ten thousand fit into a cache."""

    __slots__ = ("_beyond", "_read", "limit", "threshold")

    def __init__(self, watch: Watch, threshold: Threshold, read: Callable[[Struct], Any]) -> None:
        super().__init__(watch, threshold.part)
        self.threshold = threshold
        self.limit = threshold.limit
        self._read = read
        self._beyond = _BEYOND[threshold.op]

    def ask(self, projection: Fields, fields: Struct, view: Callable[[], View]) -> Truth:
        """As the condition says, which is asked where a float can't tell."""
        try:
            value = self._read(fields)
        except AttributeError:
            value = None
        if (value.__class__ is int or value.__class__ is float) and value != self.limit:
            return self._beyond(value, self.limit)
        return super().ask(projection, fields, view)


class Ladder:
    """Candidates that ask one field for one threshold each, in the order of their limits.

    Those that an event is beyond are one end of the list: found by halves, however many there are. `>` and `>=` take
    the low end, `<` and `<=` the high one. Limits that are equal to the value stay in: they are asked. Where the field
    is missing the answer of all is the same, and is counted here until somebody asks.
    """

    __slots__ = ("_errors", "_is_low", "_lacks", "_limits", "_missing", "_read", "steps")

    def __init__(self, path: Path, op: str, projection: Projection) -> None:
        self.steps: list[Step] = []
        self._missing = self._errors = 0
        self._limits: list[int | float] = []
        self._is_low = op in (">", ">=")
        self._read = projection.getter(path)
        self._lacks = projection.lacks(path)

    def add(self, step: Step) -> None:
        self.settle()
        place = bisect_right(self._limits, step.limit)
        self.steps.insert(place, step)
        self._limits.insert(place, step.limit)

    def remove(self, watch: Watch) -> None:
        self.settle()
        self.steps = [step for step in self.steps if step.watch is not watch]
        self._limits = [step.limit for step in self.steps]

    def reached(self, fields: Struct) -> Sequence[Candidate]:
        """Those that the event may be beyond, and those that want to know of an error."""
        try:
            value = self._read(fields)
        except AttributeError:
            self._missing += 1
            return ()
        if value.__class__ not in (int, float):
            if self._lacks(value):
                self._missing += 1
                return ()
            self._errors += 1
            return [step for step in self.steps if step.watch.is_rejecting]
        if self._is_low:
            return self.steps[: bisect_right(self._limits, value)]
        return self.steps[bisect_left(self._limits, value) :]

    def settle(self) -> None:
        """Shares out what was counted."""
        for step in self.steps:
            watch = step.watch
            watch.missing += self._missing
            if self._errors and not watch.is_rejecting:
                watch.errors += self._errors
                watch.last_error = f"event.{'.'.join(step.threshold.path)} is no number"
        self._missing = self._errors = 0


class Bucket(list[Candidate]):
    """The candidates of one key that are asked one by one, in the order of the watchers; others are on `ladders`.

    A list itself, and one object for what would be two: where there are ten thousand, each is a miss in the cache.
    """

    __slots__ = ("ladders",)

    def __init__(self) -> None:
        super().__init__()
        self.ladders = _NO_LADDERS

    def __bool__(self) -> bool:
        """One that was found is something, also where all that it has is on ladders."""
        return True

    @property
    def is_empty(self) -> bool:
        return len(self) == 0 and not self.ladders

    @property
    def watches(self) -> Iterator[Watch]:
        """All of them."""
        yield from (candidate.watch for candidate in self)
        for ladder in self.ladders.values():
            yield from (step.watch for step in ladder.steps)

    def add(self, candidate: Candidate, projection: Projection) -> None:
        if not isinstance(candidate, Step):
            if len(self) == 0 or self[-1].watch is not candidate.watch:
                self.append(candidate)
            elif candidate.rest is None:  # two alternatives with one key: what holds for sure need not be asked
                self[-1] = candidate
            return
        form = (candidate.threshold.path, candidate.threshold.op)
        if form in self.ladders:
            self.ladders[form].add(candidate)
            return
        self.append(candidate)
        if len(self) >= LADDER_FROM and sum(_form(c) == form for c in self) >= LADDER_FROM:
            self._raise_ladder(form, projection)

    def _raise_ladder(self, form: tuple[Path, str], projection: Projection) -> None:
        ladder = Ladder(*form, projection)
        self.ladders = {**self.ladders, form: ladder}
        rest: list[Candidate] = []
        for candidate in self:
            if isinstance(candidate, Step) and _form(candidate) == form:
                ladder.add(candidate)
            else:
                rest.append(candidate)
        self[:] = rest

    def leave(self, watch: Watch) -> None:
        self[:] = [candidate for candidate in self if candidate.watch is not watch]
        for ladder in self.ladders.values():
            ladder.remove(watch)
        if self.ladders:
            self.ladders = {form: ladder for form, ladder in self.ladders.items() if ladder.steps}

    def settle(self) -> None:
        for ladder in self.ladders.values():
            ladder.settle()

    def of(self, fields: Struct) -> Sequence[Candidate]:
        """Those that an event with this key may match."""
        reached = self.reached(fields)
        return sorted((*self, *reached), key=_order) if reached else self

    def reached(self, fields: Struct) -> list[Candidate]:
        """Those on ladders alone."""
        return [step for ladder in self.ladders.values() for step in ladder.reached(fields)]


_order = attrgetter("order")
_BEYOND: Final[dict[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}


_NO_LADDERS: Final[dict[tuple[Path, str], Ladder]] = {}  # of all buckets without: there are many, and each is small


def _form(candidate: Candidate) -> tuple[Path, str] | None:
    return (candidate.threshold.path, candidate.threshold.op) if isinstance(candidate, Step) else None
