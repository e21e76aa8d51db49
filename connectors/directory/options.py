"""What a user writes for a drop folder, and what can be found wrong with it before anything is touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from bridge.core.units import Duration, Size

OnDone = Literal["move", "delete"]

WORK: Final = ".work"
DONE: Final = "done"
DEAD: Final = "dead"


class DirectoryOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`path` is the folder; files directly in it whose whole name matches the glob `pattern` are read.

    A file is left alone until its size and mtime have not changed for `settle`. With `lines` each line is an event,
    otherwise each file is one, of at most `max_file`. `on_done` says what becomes of a file that is settled. Of a
    line over `max_line` only so much is read (see `connectors.directory.lines`).
    """

    path: Annotated[str, Meta(min_length=1)]
    pattern: Annotated[str, Meta(min_length=1)] = "*"
    lines: bool = False
    on_done: OnDone = "move"
    settle: Annotated[Duration, Meta(ge=0)] = 1.0
    poll_interval: Annotated[Duration, Meta(gt=0)] = 0.2
    max_line: Annotated[Size, Meta(ge=1)] = 1024 * 1024
    max_file: Annotated[Size, Meta(ge=1)] = 64 * 1024 * 1024


def check(options: DirectoryOptions) -> Sequence[str]:
    """Start-up problems, as sentences."""
    problems = folder_problems(options.path, options.on_done)
    if "/" in options.pattern:
        problems.append(
            f"`pattern` {options.pattern!r} has a '/' in it: only files directly in the folder are read, so it "
            "matches names, not paths"
        )
    elif options.pattern.startswith("."):
        problems.append(f"`pattern` {options.pattern!r} asks for hidden files, and these are never read")
    return problems


def folder_problems(path: str, on_done: OnDone) -> list[str]:
    """Why the folder can't be used as it is; empty when it can."""
    path = os.path.abspath(path)
    try:
        here = os.stat(path)
    except FileNotFoundError:
        return [f"the folder {path} does not exist: create it, or correct `path`"]
    except OSError as error:
        return [f"the folder {path} can't be looked at ({error.strerror}): correct its permissions, or `path`"]
    if not stat.S_ISDIR(here.st_mode):
        return [f"{path} is a file, not a folder: `path` names the folder that files are dropped into"]
    if not is_usable(path):
        need = "claiming a file renames it, so the user that runs this needs to read, write and enter it"
        return [f"no permission on the folder {path}: {need}"]
    return [problem for name in places(on_done) if (problem := _place_problem(path, name, here.st_dev))]


def places(on_done: OnDone) -> tuple[str, ...]:
    """The folders below `path` that files are moved to."""
    return (WORK, DONE, DEAD) if on_done == "move" else (WORK, DEAD)


def _place_problem(path: str, name: str, device: int) -> str | None:
    place = os.path.join(path, name)
    try:
        there = os.stat(place)
    except FileNotFoundError:
        return f"{place} is a symbolic link to nothing: remove it" if os.path.islink(place) else None
    except OSError as error:
        return f"{place} can't be looked at: {error.strerror}"
    if not stat.S_ISDIR(there.st_mode):
        return f"{place} is in the way: a folder of this name is needed there, move the file elsewhere"
    if there.st_dev != device:
        return (
            f"{place} is on another file system than {path}, where no file can be moved to in one step: unmount it, "
            "or move finished files on from there by other means"
        )
    if not is_usable(place):
        return f"no permission on {place}: files are moved there, so it must be readable and writable"
    return None


def is_usable(path: str) -> bool:
    """Listed, entered and changed by the user that we are."""
    return os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)
