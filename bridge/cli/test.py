"""`headrace test`: what people expect of their watchers, checked on messages that they wrote down."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bridge.cli.endings import FINDINGS, WrongCall
from bridge.cli.opening import config_paths
from bridge.cli.options import Output
from bridge.cli.output import error_console, say_json, show_parts, wants_json
from bridge.cli.words import count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bridge.cli.checking import Result
    from bridge.cli.coverage import Coverage
    from bridge.cli.expectations import Case
    from bridge.cli.rehearsing import Scene

_MANY: Final = 200  # tests, from which on a terminal gets a progress bar
_GAPS_MOST: Final = 100  # clauses that a person is shown

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH",
        help="A configuration, a file of tests (*_test.yaml), or a folder of both. By default the configuration of "
        "this folder, or the one that HEADRACE_CONFIG names.",
        show_default=False,
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the results as JUnit's XML, too.", show_default=False),
]
Word = Annotated[
    str | None,
    typer.Option("--keyword", "-k", metavar="WORD", help="Only tests with this in their name.", show_default=False),
]
WantsCoverage = Annotated[
    bool | None,
    typer.Option(
        "--coverage/--no-coverage",
        help="Say which clauses no test made true or false. Done unless -k leaves tests out.",
        show_default=False,
    ),
]
RequireCoverage = Annotated[
    bool, typer.Option("--require-coverage", help="Exit code 1 where a clause was not seen both true and false.")
]


def run_tests(
    paths: Paths = None,
    junit: Junit = None,
    keyword: Word = None,
    coverage: WantsCoverage = None,
    require_coverage: RequireCoverage = False,
    output: Output = None,
) -> None:
    """Test watchers: send messages through the filters, and compare.

    The tests are in files beside the configuration (headrace_test.yaml) or in its own `tests:`. Nothing is connected
    to and no run is started. Exit code 1 when a test fails, 2 when there is none.

    \b
    Examples:
      headrace test
      headrace test conf/ --junit results.xml --require-coverage
      headrace test headrace_test.yaml -k refund
    """
    from bridge.cli import junit as xml
    from bridge.cli.coverage import together
    from bridge.cli.rehearsing import scenes_of

    with redirect_stdout(sys.stderr):  # classes of the user's own are imported
        scenes = scenes_of(paths, lambda: config_paths(paths))
    chosen = [(scene, [case for case in scene.cases if _is_meant(case, keyword)]) for scene in scenes]
    total = sum(len(cases) for _, cases in chosen)
    if not total:
        raise WrongCall(_why_none(scenes, keyword))
    results = [result for scene, cases in chosen for result in _shown(scene.run(cases), total)]
    if junit is not None:
        xml.write(results, junit)
    wants_coverage = require_coverage or (coverage if coverage is not None else keyword is None)
    covered = together([scene.coverage() for scene in scenes]) if wants_coverage else None
    if wants_json(output):
        say_json(_report(results, covered))
    else:
        show_parts(*_parts(results, covered))
    if not all(result.is_passed for result in results) or (require_coverage and covered is not None and covered.gaps):
        raise typer.Exit(FINDINGS)


def _is_meant(case: Case, keyword: str | None) -> bool:
    return keyword is None or keyword.casefold() in case.name.casefold()


def _why_none(scenes: Sequence[Scene], keyword: str | None) -> str:
    if any(scene.cases for scene in scenes):
        return f"no test has {keyword!r} in its name"
    return (
        "there is no test: write them into headrace_test.yaml beside headrace.yaml (x_test.yaml for x.yaml), or into "
        "`tests:` of the configuration; `headrace init` makes an example"
    )


def _shown(results: Iterable[Result], total: int) -> Iterator[Result]:
    """The same, with a progress bar where that takes a while and somebody watches."""
    if total < _MANY or not sys.stderr.isatty():
        yield from results
        return
    from rich.progress import Progress

    with Progress(console=error_console(), transient=True) as progress:
        task = progress.add_task("tests", total=total)
        for result in results:
            progress.advance(task)
            yield result


# For programs --------------------------------------------------------------------------------------------------------


def _report(results: Sequence[Result], covered: Coverage | None) -> dict[str, Any]:
    failed = sum(not result.is_passed for result in results)
    report: dict[str, Any] = {
        "ok": not failed,
        "passed": len(results) - failed,
        "failed": failed,
        "tests": [_as_json(result) for result in results],
    }
    if covered is not None:
        gaps = [{"watcher": g.watcher, "clause": g.clause, "never": list(g.missing)} for g in covered.gaps]
        report["coverage"] = {"clauses": covered.clauses, "covered": covered.covered, "missing": gaps}
    return report


def _as_json(result: Result) -> dict[str, Any]:
    from bridge.cli.trees import as_json

    failures = [
        {
            "watcher": failure.watcher,
            "expected": failure.expected,
            "seen": failure.seen,
            "message": failure.sentence,
            "differences": list(failure.differences),
            "conditions": [as_json(traced) for traced in failure.traced],
        }
        for failure in result.failures
    ]
    return {
        "name": result.name,
        "suite": result.suite,
        "place": result.place,
        "passed": result.is_passed,
        "seconds": round(result.seconds, 6),
        "failures": failures,
    }


# For people ----------------------------------------------------------------------------------------------------------


def _parts(results: Sequence[Result], covered: Coverage | None) -> list[RenderableType]:
    parts: list[RenderableType] = []
    for result in results:
        if not result.is_passed:
            parts += [*_failed(result), ""]
    if covered is not None and covered.gaps:
        parts += [*_gaps(covered), ""]
    return [*parts, _summary(results, covered)]


def _failed(result: Result) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from bridge.cli.trees import tree_of
    from bridge.cli.words import printable

    yield Text.assemble(("failed: ", "bold red"), (printable(result.name), "bold"), f"  {result.place}")
    for failure in result.failures:
        yield Text(f"  {printable(failure.sentence)}")
        for line in failure.differences:
            yield Text(f"    {printable(line)}", "red")
        for traced in failure.traced:
            yield Padding(tree_of(traced), (0, 0, 0, 4))


def _gaps(covered: Coverage) -> Iterator[RenderableType]:
    from bridge.cli.coverage import Gap
    from bridge.cli.output import width
    from bridge.cli.tables import Column, listing

    columns: list[Column[Gap]] = [
        Column("watcher", lambda gap: gap.watcher),
        Column("clause", lambda gap: gap.clause, shape="folded"),
        Column("in no test", lambda gap: " or ".join(gap.missing)),
    ]
    yield listing(covered.gaps[:_GAPS_MOST], columns, width())
    if len(covered.gaps) > _GAPS_MOST:
        yield f"and {count(len(covered.gaps) - _GAPS_MOST, 'clause')} more; --output json has all of them"


def _summary(results: Sequence[Result], covered: Coverage | None) -> RenderableType:
    from rich.text import Text

    failed = sum(not result.is_passed for result in results)
    seen = f"; {covered.sentence}" if covered is not None else ""
    if failed:
        return Text(f"{failed:,} of {count(len(results), 'test')} failed{seen}", "bold red")
    return Text(f"ok: {count(len(results), 'test')} passed{seen}", "bold green")
