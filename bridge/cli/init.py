"""`headrace init`: a folder with a configuration, samples and tests that work at once."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bridge.cli.endings import Unmet, WrongCall
from bridge.cli.options import ActionOutput
from bridge.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from bridge.cli.templates import Plan

_STREAM: Final = "directory"
_TARGET: Final = "command"

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="Where to write it; made if it is not there.", show_default=False)
]
StreamKind = Annotated[
    str | None,
    typer.Option(
        "--stream",
        metavar="KIND",
        help=f"The kind of stream. Asked for on a terminal, else {_STREAM}.",
        show_default=False,
    ),
]
TargetKind = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="KIND",
        help=f"The kind of target. Asked for on a terminal, else {_TARGET}.",
        show_default=False,
    ),
]


def init(
    folder: Folder = Path(), stream: StreamKind = None, target: TargetKind = None, output: ActionOutput = None
) -> None:
    """Write a configuration to begin with.

    A commented headrace.yaml for one stream and one target, sample messages, and tests that pass. Nothing that is
    there is overwritten.

    \b
    Examples:
      headrace init
      headrace init orders --stream python --target log
    """
    from bridge import targets
    from bridge.cli.templates import plan_of
    from bridge.config.later import STREAM_KINDS, TARGET_KINDS
    from connectors import KINDS

    source = _kind("stream", stream, KINDS, STREAM_KINDS, _STREAM)
    sink = _kind("target", target, targets.KINDS, TARGET_KINDS, _TARGET)
    plan = plan_of(source, sink)
    _refuse_what_is_there(folder, plan)
    _write(folder, plan)
    commands = _next_commands(folder, plan)
    if output == "json":
        files = [str(folder / name) for name in plan.files]
        say_json({"folder": str(folder), "stream": source, "target": sink, "files": files, "next": commands})
    else:
        say(_told(folder, plan, commands))


# Which kinds ---------------------------------------------------------------------------------------------------------


def _kind(what: str, given: str | None, kinds: Collection[str], known: Collection[str], default: str) -> str:
    """The kind that was given, else the one that a person names, else the default. Raises WrongCall."""
    if given is not None:
        _refuse_unknown(what, given, kinds, known)
        return given
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return default
    while True:
        answer: str = typer.prompt(f"What kind of {what}? ({', '.join(kinds)})", default=default, err=True)
        try:
            _refuse_unknown(what, answer.strip(), kinds, known)
        except WrongCall as error:
            complain(str(error))
        else:
            return answer.strip()


def _refuse_unknown(what: str, kind: str, kinds: Collection[str], known: Collection[str]) -> None:
    from bridge.config.later import NOT_YET
    from bridge.config.suggest import did_you_mean, listed

    if kind in kinds:
        return
    there_are = f"the kinds are {listed(kinds)}"
    if kind in known:
        raise WrongCall(f"--{what} {kind}: this kind {NOT_YET}; {there_are}")
    raise WrongCall(f"--{what} {kind}: there is no kind {kind!r} of {what}s; {did_you_mean(kind, kinds, there_are)}")


# Writing -------------------------------------------------------------------------------------------------------------


def _refuse_what_is_there(folder: Path, plan: Plan) -> None:
    """Raises Unmet with everything that is in the way, before anything was written."""
    in_the_way = [name for name in plan.files if os.path.lexists(folder / name)]
    in_the_way += [name for name in plan.folders if os.path.lexists(folder / name) and not (folder / name).is_dir()]
    if os.path.lexists(folder) and not folder.is_dir():
        raise Unmet(f"{folder} is a file: name a folder")
    if in_the_way:
        lines = "\n".join(f"  {folder / name}" for name in in_the_way)
        raise Unmet(
            f"nothing was written, because these are there already:\n{lines}\nname another folder, or move them"
        )


def _write(folder: Path, plan: Plan) -> None:
    """Raises Unmet where the system refuses; what was written until then stays."""
    try:
        for name in plan.folders:
            (folder / name).mkdir(parents=True, exist_ok=True)
        for name, text in plan.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise Unmet(f"{error.filename or folder} can't be written: {error.strerror or error}") from error


def _next_commands(folder: Path, plan: Plan) -> list[str]:
    go = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
    return [
        *go,
        "headrace validate",
        "headrace test",
        "headrace explain < samples/small_order.json",
        "headrace run",
        plan.feed,
    ]


def _told(folder: Path, plan: Plan, commands: Sequence[str]) -> str:
    wrote = "\n".join(f"  {folder / name}" for name in plan.files)
    *first, last = commands
    following = "\n".join(f"  {command}" for command in first)
    return f"wrote\n{wrote}\n\nnext\n{following}\nand while it runs, in a second terminal in that folder\n  {last}"
