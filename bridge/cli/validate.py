"""`headrace validate`, and the checks that `headrace run` begins with."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.cli.endings import FINDINGS
from bridge.cli.opening import config_of
from bridge.cli.options import Output, Paths
from bridge.cli.output import Format, say, say_json, show_parts, wants_json, width
from bridge.cli.words import count

if TYPE_CHECKING:
    from bridge.config.model import Config
    from bridge.config.problems import Problem


Connect = Annotated[
    bool,
    typer.Option(
        "--connect", help="Look at the brokers, too: are topics, rights and offsets as the streams need them?"
    ),
]


def validate(paths: Paths = None, connect: Connect = False, output: Output = None) -> None:
    """Check a configuration, report every problem at once.

    Each comes with its place and what to write instead. Connects to nothing without --connect, and then takes nothing
    from any stream; folders and commands must be there, Python classes are imported and made. Exit code 1 when there
    is a problem.

    \b
    Examples:
      headrace validate
      headrace validate conf/ --output json
      headrace validate --connect
    """
    from bridge.config.problems import ConfigError

    try:
        config = checked(paths)
    except ConfigError as error:
        if wants_json(output):
            say_json(_report(error.problems, (), error.unlisted))
        if output == "json":
            raise typer.Exit(FINDINGS) from None
        raise
    warnings = warnings_of(config)
    if output != "json":
        from bridge.cli.problems import complain_of_all

        complain_of_all(warnings, is_warning=True)
    if connect:
        _connect(config, warnings, output)
    elif wants_json(output):
        say_json(_report((), warnings))
    else:
        say(f"ok: {summary(config)}")


def _connect(config: Config, warnings: Sequence[Problem], output: Format | None) -> None:
    """The look at the brokers, once the configuration itself is fine."""
    from bridge.cli import connecting

    looks = connecting.looked_at(config)
    is_ok = not connecting.has_errors(looks)
    if wants_json(output):
        say_json(_report((), warnings) | {"ok": is_ok, "streams": connecting.as_json(looks)})
    else:
        show_parts(connecting.table_of(looks, width()))
        say(f"\n{'ok' if is_ok else 'not ok'}: {summary(config)}; {connecting.summary(looks)}")
    if not is_ok:
        raise typer.Exit(FINDINGS)


def checked(given: Sequence[Path] | None) -> Config:
    """The configuration, with everything looked at. Raises WrongCall, and ConfigError with all the problems."""
    config = config_of(given, check=True)
    from bridge.cli.problems import of_sentence
    from bridge.config.problems import ConfigError
    from bridge.wiring import problems_of

    with redirect_stdout(sys.stderr):
        sentences = problems_of(config)
    if sentences:
        raise ConfigError(tuple(of_sentence(sentence, config.files) for sentence in sentences))
    return config


def warnings_of(config: Config) -> list[Problem]:
    """What is allowed, and should be known: those of the configuration, and promises that a source can't keep."""
    from bridge.cli.problems import of_sentence
    from bridge.cli.promises import promises_of

    promised = [
        of_sentence(f"{name}: {note}", config.files)
        for name, promise in promises_of(config).items()
        if name.startswith("streams.") and promise.guarantee == "at least once"
        for note in promise.notes
        if note.startswith("no identity")
    ]
    return [*config.warnings, *promised]


def summary(config: Config) -> str:
    """`3 streams, 21 watchers, 2 targets`."""
    counts = {"stream": config.streams, "watcher": config.watchers, "target": config.targets}
    return ", ".join(count(len(found), what) for what, found in counts.items())


def _report(problems: Sequence[Problem], warnings: Sequence[Problem], unlisted: int = 0) -> dict[str, Any]:
    from bridge.cli.problems import as_json

    report: dict[str, Any] = {
        "ok": not problems,
        "problems": [as_json(problem) for problem in problems],
        "warnings": [as_json(warning) for warning in warnings],
    }
    return report | ({"unlisted": unlisted} if unlisted else {})
