"""A configuration with its tests, ready to be run: what `headrace test` works on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bridge.cli.checking import Failure, Result, check
from bridge.cli.coverage import Coverage, Ledger
from bridge.cli.expectations import Case, Cast, read_cases
from bridge.cli.hiding import Hiding
from bridge.cli.suites import Bundle, block_in, bundle_of, bundles_of, new_reading
from bridge.config.model import Config
from bridge.config.problems import ConfigError, Problem
from bridge.config.reading import Reading
from bridge.language.text import text_of_node
from bridge.language.trace import clauses_of
from bridge.rehearsal import NeedsSchema, Stage, conditions_of
from bridge.wiring import load_config


class Scene:
    """The streams of one configuration, and the tests of it. Raises Refused where a stream can't be decoded."""

    def __init__(self, config: Config, cases: Sequence[Case]) -> None:
        self.cases = cases
        self._hiding = Hiding(config.secrets)
        self._stages = {name: Stage(config, stream) for name, stream in config.streams.items()}
        self._ledger = Ledger(
            {
                name: [
                    self._hiding.text(text_of_node(clause))
                    for node in conditions_of(declared)
                    for clause in clauses_of(node)
                ]
                for stage in self._stages.values()
                for name, declared in stage.declared.items()
            }
        )

    def run(self, cases: Iterable[Case]) -> Iterator[Result]:
        """One after the other."""
        for case in cases:
            began = time.perf_counter()
            failures = self._run(case)
            yield Result(case.suite, case.place, case.name, time.perf_counter() - began, failures)

    def coverage(self) -> Coverage:
        """Of the tests that were run."""
        return self._ledger.coverage()

    def _run(self, case: Case) -> tuple[Failure, ...]:
        named = None if case.quiet else {each.watcher for each in case.expected}
        now = time.time() if case.now is None else case.now
        try:
            seen = self._hiding.clauses(self._stages[case.stream].rehearse(case.sample, now, named))
        except NeedsSchema as error:
            sentence = (
                f"the message names the schema {error.schema_id} of a registry, and `headrace test` asks none: give "
                "the stream its `schemas` as files, in a configuration for tests"
            )
            return (Failure("*", "a message that can be read", "an unknown schema", sentence),)
        for name, outcome in seen.outcomes.items():
            for asked in outcome.asked:
                self._ledger.note(name, asked.condition, asked.reject)
        return check(case, seen, self._hiding)


def scenes_of(paths: Sequence[Path] | None, default: Callable[[], Sequence[Path]]) -> list[Scene]:
    """What the paths stand for, or the configuration that is the default. Raises ConfigError with all the problems."""
    reading = new_reading()
    bundles = bundles_of(paths, reading) if paths else [bundle_of(default(), reading)]
    problems: list[Problem] = []
    loaded: list[tuple[Bundle, Config]] = []
    for bundle in bundles:
        try:
            loaded.append((bundle, load_config(bundle.paths, check=False)))
        except ConfigError as error:
            problems += error.problems
    found = [(config, _cases(bundle, config, reading)) for bundle, config in loaded]
    problems += reading.problems.sorted(())
    if problems:
        raise ConfigError(tuple(problems))
    return [Scene(config, cases) for config, cases in found]


def _cases(bundle: Bundle, config: Config, reading: Reading) -> list[Case]:
    """Those in the configuration itself come first."""
    cast = _cast(config)
    blocks = [block for file in config.files if (block := block_in(Path(file), reading)) is not None]
    blocks += [suite.block for suite in bundle.suites]
    return [case for block in blocks for case in read_cases(block.node, block.owner, cast, reading)]


def _cast(config: Config) -> Cast:
    declared: dict[str, list[str]] = {name: [] for name in config.streams}
    for watcher in config.watchers:
        if watcher.trigger is None:
            declared[watcher.stream].append(watcher.id)
    return Cast(declared, frozenset(w.id for w in config.watchers if w.trigger is not None))
