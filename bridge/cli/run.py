"""`headrace run`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bridge.cli.endings import LOG_LEVEL, WrongCall, log_at
from bridge.cli.options import Paths
from bridge.cli.validate import checked, summary, warnings_of

if TYPE_CHECKING:
    from bridge.cli.live import LiveTable
    from bridge.config.model import Config

Level = Annotated[
    Literal["debug", "info", "warning", "error"],
    typer.Option("--log-level", envvar=LOG_LEVEL, case_sensitive=False, help="The least that is logged."),
]
Accept = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="NAME",
        help="A watcher's id that comes back with another definition, a stream that reads another source than "
        "before, or one whose broker was told of another store: this is meant. May be given several times.",
        show_default=False,
    ),
]
Rewind = Annotated[
    list[str] | None,
    typer.Option(
        "--rewind",
        metavar="STREAM",
        help="A stream whose broker was told more than the store remembers (the store was restored from a copy): go "
        "back to what the store knows. May be given several times.",
        show_default=False,
    ),
]
NoLive = Annotated[bool, typer.Option("--no-live", help="On a terminal too: the log alone, without the table.")]


def run(
    paths: Paths = None,
    log_level: Level = "info",
    accept: Accept = None,
    rewind: Rewind = None,
    no_live: NoLive = False,
) -> None:
    """Carry messages to runs, until SIGTERM or Ctrl-C.

    A second signal ends it at once. The configuration is checked first, as `headrace validate` does. The log goes
    to standard error: JSON lines where that is no terminal. On a terminal a table below it shows how it goes, unless
    the log level is debug.

    Exit codes: 0 stopped cleanly, 1 problems in the configuration, 3 the store can't be used (another process has
    it, its path is bad, it is newer), or a stream can't begin (its topic or that of its dead letters does not exist, a
    right is missing, its offsets are those of another store), 4 the time to stop ran out (nothing is lost, some work
    comes again), 70 code of watchers hung too often, 128 + signal ended at once.

    \b
    Examples:
      headrace run
      headrace run conf/ --log-level warning
      headrace run --accept eu_orders
      headrace run --rewind orders
    """
    log_at(log_level)
    config = checked(paths)
    accepted = accept or []
    _refuse_unknown(accepted, config)
    back = rewind or []
    _refuse_without_places(back, config)
    from bridge import wiring

    table = None if no_live or log_level == "debug" else _table(config)
    try:
        _announce(config, log_level)
        code = wiring.run(config, accept=accepted, rewind=back, watch=table)
    finally:
        if table is not None:
            table.close()
    raise typer.Exit(code)


def _table(config: Config) -> LiveTable | None:
    """Where somebody watches. From here on the log goes through it."""
    if not (sys.stderr.isatty() or sys.stdout.isatty()):
        return None
    from bridge.cli.live import LiveTable, terminals
    from bridge.wiring import open_reader

    found = terminals()
    if found is None:
        return None
    console, above = found
    return LiveTable(console, above, lambda: open_reader(config.store.url).counts(finished=False))


def _refuse_unknown(accepted: Sequence[str], config: Config) -> None:
    from bridge.config.suggest import did_you_mean

    known = {*(watcher.id for watcher in config.watchers), *config.streams}
    for name in accepted:
        if name not in known:
            hint = did_you_mean(name, known, "name a watcher's id or a stream")
            raise WrongCall(f"--accept {name}: there is no watcher or stream of this name; {hint}")


def _refuse_without_places(names: Sequence[str], config: Config) -> None:
    from bridge.config.suggest import did_you_mean
    from bridge.wiring import keeps_places

    for name in names:
        stream = config.streams.get(name)
        if stream is None:
            hint = did_you_mean(name, config.streams, "name a stream")
            raise WrongCall(f"--rewind {name}: there is no stream of this name; {hint}")
        if not keeps_places(stream):
            raise WrongCall(
                f"--rewind {name}: the source of this stream (kind {stream.kind!r}) keeps no place that could be ahead "
                "of the store; leave it out"
            )


def _announce(config: Config, log_level: str) -> None:
    """The first lines of the log: what runs, and what should be known about it."""
    import structlog

    from bridge import telemetry

    telemetry.configure(log_level)
    log = structlog.get_logger("headrace.run")
    for warning in warnings_of(config):
        log.warning(warning.message, place=warning.place, hint=warning.hint)
    log.info("headrace starts", configured=summary(config), files=list(config.files), pid=os.getpid())
