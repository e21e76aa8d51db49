"""The files of a configuration and its test suites: found and read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bridge.config.problems import Problems
from bridge.config.source import Source, file_problem
from bridge.core.units import format_size

LARGEST_FILE: Final = 4 * 1024 * 1024
_SUFFIXES: Final = (".yaml", ".yml")


class Unusable(NamedTuple):
    """Why a path stands for no file."""

    message: str
    hint: str = ""


def find_files(paths: Sequence[Path], problems: Problems) -> list[Path]:
    """The files of a configuration that the paths stand for, each once."""
    if not paths:
        problems.add(file_problem("configuration", "no file was given", "name a YAML file, or a folder of them"))
    found: dict[Path, Path] = {}
    for path in paths:
        files = files_of(path)
        if isinstance(files, Unusable):
            problems.add(file_problem(str(path), *files))
            continue
        for file in files:
            found.setdefault(resolved(file), file)
    return list(found.values())


def files_of(path: Path) -> list[Path] | Unusable:
    """A folder's `*.yaml` and `*.yml`, sorted, less hidden ones and test suites; or the file itself, there or not."""
    every = _yaml_of(path)
    if isinstance(every, Unusable):
        return every
    if every is None and is_suite(path):
        hint = "`headrace test` reads it; give it another name if it is a configuration"
        return Unusable("a test suite (*_test.yaml) is no part of a configuration", hint)
    if every is None:
        return [path]
    files = [file for file in every if not is_suite(file)]
    if not files:
        hint = "what ends in _test.yaml is a test suite" if every else "name the file itself?"
        return Unusable("a folder without any *.yaml or *.yml file", hint)
    return files


def suites_of(path: Path) -> list[Path] | Unusable:
    """A folder's `*_test.yaml` and `*_test.yml`, maybe none; or the file itself, there or not."""
    every = _yaml_of(path)
    if isinstance(every, Unusable):
        return every
    return [path] if every is None else [file for file in every if is_suite(file)]


def is_suite(path: Path) -> bool:
    """Whether the name says that the file holds tests: `orders_test.yaml`."""
    return path.suffix in _SUFFIXES and path.stem.endswith("_test")


def _yaml_of(path: Path) -> list[Path] | Unusable | None:
    """All YAML files of a folder; None where the path is no folder."""
    try:
        if not path.is_dir():
            return None
        return sorted(f for f in path.iterdir() if f.suffix in _SUFFIXES and not f.name.startswith(".") and f.is_file())
    except (OSError, ValueError) as error:
        return Unusable(f"can't be read: {_reason(error)}")


def resolved(path: Path) -> Path:
    """What makes two paths the same file."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links, a name that no system takes: reading will tell
        return path


def read_source(path: Path, problems: Problems) -> Source | None:
    """The file's text, or None with a problem."""
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except FileNotFoundError:
        problems.add(file_problem(name, "there is no such file", f"looked in {path.absolute().parent}"))
        return None
    except (OSError, ValueError) as error:
        problems.add(file_problem(name, f"can't be read: {_reason(error)}"))
        return None
    if len(data) > LARGEST_FILE:
        problems.add(file_problem(name, f"larger than {format_size(LARGEST_FILE)}", "split it into a folder of files"))
        return None
    try:
        return Source(name, path.absolute().parent, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = Source(name, path.parent, data[: error.start].decode("utf-8-sig", errors="replace") + "·")
        place = before.at_index(len(before.text) - 1)
        message = f"not UTF-8: byte 0x{data[error.start]:02x}"
        problems.add(before.problem(place, message, "save the file with the encoding UTF-8"))
        return None


def _reason(error: OSError | ValueError) -> str:
    """The operating system's words, without the path that is named already."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
