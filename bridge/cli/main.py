"""The command `headrace`: puts the commands together, and sees to it that each ends with a code and no stack."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import Final

import typer

from bridge.cli import (
    completion,
    dead_letters,
    explain,
    init,
    run,
    runs,
    schema,
    send,
    show,
    status,
    tail,
    test,
    validate,
    version,
    watchers,
)
from bridge.cli.endings import FINDINGS, INTERRUPTED, OK, USAGE, code_of, log_at
from bridge.cli.output import note

_OF_CONFIGURATIONS: Final = ("validate", "test", "run", "status", "show")

app = typer.Typer(
    name="headrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="""Carry messages from brokers to orchestrators: one message, one run.

\b
Examples:
  headrace init
  headrace validate
  headrace run
  headrace status
""",
    epilog="Exit codes: 0 fine, 1 findings, 2 wrong call, 3 store or broker unusable. More of them: headrace run -h",
)
app.command()(init.init)
app.command()(validate.validate)
app.command("test")(test.run_tests)
app.command()(explain.explain)
app.command()(run.run)
app.command()(send.send)
app.command()(tail.tail)
app.command()(status.status)
app.command()(show.show)
app.add_typer(runs.app, name="runs")
app.add_typer(dead_letters.app, name="dlq")
app.command()(watchers.pause)
app.command()(watchers.resume)
app.command()(watchers.disable)
app.command()(watchers.enable)
app.command()(schema.schema)
app.command()(completion.completion)
app.command()(version.version)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command (of `sys.argv` by default) and returns its exit code."""
    _prepare_streams()
    log_at()
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if completion.is_asked():
            completion.prepare()
        if given == ["version"]:  # Typer takes 0.2 s to look at options, even at those that are not there
            version.version()
        else:
            app(args=given, prog_name="headrace")
    except SystemExit as end:
        if end.code == USAGE:
            _say_where_configurations_go(given)
        return end.code if isinstance(end.code, int) else OK if end.code is None else FINDINGS
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return code_of(error)
    return OK


def _say_where_configurations_go(given: Sequence[str]) -> None:
    """Commands with arguments of another kind have `--config`; whoever has just used one of these tries it here."""
    if given and given[0] in _OF_CONFIGURATIONS and not {"--config", "-c"}.isdisjoint(given):
        note(f"`headrace {given[0]}` takes the configuration as its argument: headrace {given[0]} PATH")


def _prepare_streams() -> None:
    """A text that the terminal's encoding lacks is escaped; a closed output takes everything and shows nothing, and a
    closed input is empty."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # as long as the process lives
    if isinstance(sys.stdout, TextIOWrapper):
        with suppress(OSError, ValueError):
            sys.stdout.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
