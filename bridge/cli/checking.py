"""Whether a message does what a test expects, and how what was seen differs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bridge.cli.expectations import NOTHING, Case, Expected, WantedRun, is_of
from bridge.cli.hiding import Hiding
from bridge.cli.messages import exact
from bridge.cli.trees import lines_of, reason_of, sentence_of, shown
from bridge.cli.words import count
from bridge.language.values import equal

if TYPE_CHECKING:
    from bridge.core.model import Run
    from bridge.language.trace import Traced
    from bridge.rehearsal import Outcome, Rehearsed

DIFFERENCES_MOST: Final = 20
"""Lines of a difference."""
_OPEN: Final = Hiding(())
_QUIET: Final = frozenset({"no_match", "missing_field", "python"})


class Failure(Struct, frozen=True):
    """What one watcher did otherwise than expected. `differences`: a line for each value; `traced`: why."""

    watcher: str
    expected: str
    seen: str
    sentence: str
    differences: tuple[str, ...] = ()
    traced: tuple[Traced, ...] = ()

    @property
    def lines(self) -> list[str]:
        """All of it as plain text."""
        tree = [line for each in self.traced for line in lines_of(each, "    ")]
        return [self.sentence, *(f"    {line}" for line in self.differences), *tree]


class Result(Struct, frozen=True):
    """A test that was run. `seconds` is how long it took."""

    suite: str
    place: str
    name: str
    seconds: float
    failures: tuple[Failure, ...]

    @property
    def is_passed(self) -> bool:
        return not self.failures


def check(test: Case, seen: Rehearsed, hiding: Hiding = _OPEN) -> tuple[Failure, ...]:
    """What is not as it should be; empty where the test passes. `hiding` keeps secrets out of what is said."""
    found = ((each, seen.outcomes[each.watcher]) for each in test.expected)
    failures = [failure for each, outcome in found if (failure := _check(each, outcome, seen, hiding))]
    if test.quiet:
        named = {each.watcher for each in test.expected}
        failures += [
            _otherwise(outcome, seen, "no_match, as `others` says")
            for name, outcome in seen.outcomes.items()
            if name not in named and (outcome.verdict not in _QUIET or outcome.defect)
        ]
    return tuple(failures)


def _check(expected: Expected, outcome: Outcome, seen: Rehearsed, hiding: Hiding) -> Failure | None:
    wanted = f"{expected.verdict} ({expected.reason})" if expected.reason else expected.verdict
    if outcome.defect or not is_of(outcome.verdict, expected.verdict):
        return _otherwise(outcome, seen, wanted)
    if expected.reason and outcome.reason != expected.reason:
        return _otherwise(outcome, seen, wanted)
    differences = list(_differences(expected, outcome, hiding))
    if not differences:
        return None
    watcher = expected.watcher
    sentence = f"{watcher}: {expected.verdict}, as expected, but {count(len(differences), 'value')} differ"
    if len(differences) == 1:
        sentence = f"{watcher}: {expected.verdict}, as expected, but a value differs"
    return Failure(watcher, wanted, outcome.verdict, sentence, tuple(differences[:DIFFERENCES_MOST]))


def _otherwise(outcome: Outcome, seen: Rehearsed, wanted: str) -> Failure:
    told = told_of(outcome)
    why = outcome.defect and f"a defect of headrace, please report it: {outcome.defect}"
    why = why or why_of(outcome, seen)
    sentence = f"{outcome.watcher}: expected {wanted}, saw {told}" + (f": {why}" if why else "")
    traced = tuple(each for asked in outcome.asked for each in (asked.condition, asked.reject) if each is not None)
    return Failure(outcome.watcher, wanted, told, sentence, (), traced)


def told_of(outcome: Outcome) -> str:
    """`dead_letter (params)`: the verdict with its reason."""
    return f"{outcome.verdict} ({outcome.reason})" if outcome.reason else outcome.verdict


def why_of(outcome: Outcome, seen: Rehearsed) -> str:
    """What decided, in a line; "" where there is nothing to tell."""
    if outcome.error:
        return outcome.error
    if not outcome.asked:
        return f"the message holds no event ({seen.ignored})" if seen.ignored else ""
    decisive = next((asked for asked in outcome.asked if asked.truth is not True), outcome.asked[0])
    return "" if outcome.verdict == "match" else sentence_of(reason_of(decisive.condition))


# Values --------------------------------------------------------------------------------------------------------------


def _differences(expected: Expected, outcome: Outcome, hiding: Hiding) -> Iterator[str]:
    if expected.runs is None:
        return
    if len(expected.runs) != len(outcome.runs):
        yield f"runs: expected {len(expected.runs)}, saw {len(outcome.runs)}"
        return
    for number, (wanted, run) in enumerate(zip(expected.runs, outcome.runs, strict=True)):
        yield from _of_run(wanted, run, f"runs[{number}]." if len(outcome.runs) > 1 else "", hiding)


def _of_run(wanted: WantedRun, run: Run, place: str, hiding: Hiding) -> Iterator[str]:
    seen = {"params": exact(run.params), "tags": exact(run.tags or b"{}"), "key": run.key}
    for name, value in (("params", wanted.params), ("tags", wanted.tags), ("key", wanted.key)):
        if value is not NOTHING:
            yield from differences(value, seen[name], f"{place}{name}", hiding)


def differences(expected: object, seen: object, place: str, hiding: Hiding = _OPEN) -> Iterator[str]:
    """A line for each value that is another, missing or too much. Numbers are compared by value: 1.10 is 1.1."""
    if isinstance(expected, Mapping) and isinstance(seen, Mapping):
        for name in dict.fromkeys((*expected, *seen)):
            below = f"{place}.{name}"
            if name not in seen:
                yield f"{below}: expected {shown_value(hiding.value(expected[name]))}, and it is missing"
            elif name not in expected:
                yield f"{below}: not expected, saw {shown_value(hiding.value(seen[name]))}"
            else:
                yield from differences(expected[name], seen[name], below, hiding)
    elif isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        for number, (one, other) in enumerate(zip(expected, seen, strict=True)):
            yield from differences(one, other, f"{place}[{number}]", hiding)
    elif not is_same(expected, seen):
        told = (shown_value(hiding.value(expected)), shown_value(hiding.value(seen)))
        yield f"{place}: expected {told[0]}, saw {told[1]}"


def is_same(one: object, other: object) -> bool:
    """Equal as JSON values; null is null."""
    if one is None or other is None:
        return one is other
    return not isinstance(one, list | Mapping) and equal(one, other) is True


def shown_value(value: object) -> str:
    return "null" if value is None else shown(value)
