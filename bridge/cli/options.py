"""Arguments and options that several commands have. Nothing heavy is imported: every start pays for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, get_args

import typer

from bridge.cli.completion import stream_names, watcher_ids
from bridge.cli.output import Format

_DEFAULT_PATH: Final = "By default what HEADRACE_CONFIG names, else headrace.yaml in this folder."
LARGEST_LIST: Final = 100_000

Paths = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH",
        help=f"A YAML file, or a folder of them; several count as one. {_DEFAULT_PATH}",
        show_default=False,
    ),
]
ConfigPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="PATH",
        help=f"The configuration that names the store. {_DEFAULT_PATH}",
        show_default=False,
    ),
]
StreamConfigPaths = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="PATH",
        help=f"The configuration that has the stream. {_DEFAULT_PATH}",
        show_default=False,
    ),
]
StreamName = Annotated[
    str,
    typer.Argument(metavar="STREAM", help="The name of a stream.", autocompletion=stream_names, show_default=False),
]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Ask this store, without a configuration: sqlite:///headrace.db",
        show_default=False,
    ),
]
Output = Annotated[
    Format | None,
    typer.Option(
        "--output", "-o", help="By default a table on a terminal, JSON into a pipe or file.", show_default=False
    ),
]
ActionOutput = Annotated[
    Format | None,
    typer.Option("--output", "-o", help="What is said of the outcome: by default a sentence.", show_default=False),
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=LARGEST_LIST, metavar="N", help="How many, the latest first.")
]

# The same words as in bridge.ports and bridge.store.views, which would have to be imported at every start.
RunState = Literal[
    "pending", "held", "skipped", "dispatching", "started", "suppressed", "failed", "succeeded", "failed_run"
]
LetterState = Literal["dead", "replaying", "replayed", "superseded", "dropped", "all"]

RunStateOption = Annotated[
    RunState | None,
    typer.Option(
        "--state",
        "-s",
        metavar="STATE",
        help=f"Only runs that are {', '.join(get_args(RunState))}.",
        show_default=False,
    ),
]
LetterStateOption = Annotated[
    LetterState,
    typer.Option("--state", "-s", metavar="STATE", help=f"Only those that are {', '.join(get_args(LetterState))}."),
]
WatcherOption = Annotated[
    str | None,
    typer.Option(
        "--watcher",
        "-w",
        metavar="ID",
        help="Only those of this watcher.",
        autocompletion=watcher_ids,
        show_default=False,
    ),
]
TargetOption = Annotated[
    str | None, typer.Option("--target", "-t", metavar="NAME", help="Only those for this target.", show_default=False)
]
StreamOption = Annotated[
    str | None,
    typer.Option(
        "--stream",
        metavar="NAME",
        help="Only those of this stream.",
        autocompletion=stream_names,
        show_default=False,
    ),
]
ReasonOption = Annotated[
    str | None,
    typer.Option(
        "--reason",
        "-r",
        metavar="WORD",
        help="Only those with this reason: malformed, rejected, ...",
        show_default=False,
    ),
]
LetterIds = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID", help="Numbers that `headrace dlq list` shows.", show_default=False),
]
WatcherName = Annotated[
    str,
    typer.Argument(
        metavar="WATCHER",
        help="The id of a watcher, as `headrace show` lists it.",
        autocompletion=watcher_ids,
        show_default=False,
    ),
]
