"""Which files hold tests, and which configuration each of them tests.

The configuration of a suite is, first of these that there is:

    what its key `config` names (a file or a folder; the path begins at the suite's own folder)
    for x_test.yaml: x.yaml beside it
    headrace.yaml beside it
    the folder that it is in, all its files together
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct

from bridge.cli.messages import Unread
from bridge.cli.opening import DEFAULT
from bridge.config.files import Unusable, files_of, is_suite, read_source, resolved, suites_of
from bridge.config.model import Name
from bridge.config.nodes import Mapping, Node, Place
from bridge.config.reader import read_nodes
from bridge.config.reading import Reading, Where, seen
from bridge.config.shapes import fields_of

_SUFFIXES: Final = (".yaml", ".yml")


class SuiteBlock(Struct, frozen=True, kw_only=True):
    """What a file of tests may hold."""

    tests: Unread
    config: Name | None = None


_SUITE: Final = fields_of(SuiteBlock)


class Block(NamedTuple):
    """A `tests:` block; `owner` is its key."""

    node: Node
    owner: Place


class Suite(NamedTuple):
    """A file of tests, and what it is about."""

    path: Path
    home: Path
    block: Block


class Bundle(NamedTuple):
    """A configuration, as its paths, with the suites that test it."""

    paths: tuple[Path, ...]
    suites: tuple[Suite, ...]


def bundles_of(paths: Sequence[Path], reading: Reading) -> list[Bundle]:
    """What there is to test, in the order of the paths. Problems of suites are added to the reading."""
    found: dict[Path, Bundle] = {}
    for path in paths:
        for bundle in _bundles_of_path(path, reading):
            key = resolved(bundle.paths[0])
            before = found.get(key, Bundle(bundle.paths, ()))
            known = {resolved(suite.path) for suite in before.suites}
            new = tuple(suite for suite in bundle.suites if resolved(suite.path) not in known)
            found[key] = Bundle(before.paths, (*before.suites, *new))
    return list(found.values())


def bundle_of(paths: Sequence[Path], reading: Reading) -> Bundle:
    """One configuration of several paths, with the suites beside it."""
    homes = {resolved(path) for path in paths}
    folders = dict.fromkeys(path if path.is_dir() else path.parent for path in paths)
    suites = [suite for folder in folders for suite in _suites_in(folder, reading) if resolved(suite.home) in homes]
    return Bundle(tuple(paths), tuple(suites))


def block_in(path: Path, reading: Reading) -> Block | None:
    """The `tests:` block of a configuration's file, which has been read without a problem before."""
    source = read_source(path, reading.problems)
    if source is None or "tests" not in source.text:
        return None
    root = read_nodes(source, reading.problems)
    entry = root.entries.get("tests") if isinstance(root, Mapping) else None
    return None if entry is None else Block(entry.value, entry.key.place)


def _bundles_of_path(path: Path, reading: Reading) -> Iterable[Bundle]:
    if is_suite(path) and not path.is_dir():
        suite = _read(path, reading)
        return () if suite is None else (Bundle((suite.home,), (suite,)),)
    if not path.is_dir():
        return (bundle_of([path], reading),)
    suites = _suites_in(path, reading)
    homes = {resolved(suite.home): suite.home for suite in suites}
    if not homes or resolved(path) in homes:
        return (Bundle((path,), tuple(suites)),)
    bundles = [
        Bundle((home,), tuple(suite for suite in suites if resolved(suite.home) == key)) for key, home in homes.items()
    ]
    return (
        *bundles,
        *(Bundle((file,), ()) for file in _files_in(path) if resolved(file) not in homes and _has_tests(file)),
    )


def _suites_in(folder: Path, reading: Reading) -> list[Suite]:
    files = suites_of(folder)
    if isinstance(files, Unusable):
        return []  # whoever reads the configuration says why
    return [suite for file in files if (suite := _read(file, reading)) is not None]


def _files_in(folder: Path) -> list[Path]:
    files = files_of(folder)
    return [] if isinstance(files, Unusable) else files


def _has_tests(file: Path) -> bool:
    return block_in(file, Reading({}, lambda _: "")) is not None


def _read(path: Path, reading: Reading) -> Suite | None:
    source = read_source(path, reading.problems)
    root = read_nodes(source, reading.problems) if source is not None else None
    if root is None:
        return None
    where = Where((), root.place)
    if not isinstance(root, Mapping):
        reading.problem(root.place, f"expected a mapping with `tests`, {seen(root, None, where)}")
        return None
    good = _SUITE.read(root, where, reading).good
    home = path.parent / good["config"] if good.get("config") else _home_of(path)
    if good.get("config") and not home.exists():
        hint = f"looked for {home}; the path begins at the folder of the suite"
        reading.problem(root.entries["config"].value.place, "there is no such configuration", hint)
        return None
    return Suite(path, home, Block(good["tests"], root.entries["tests"].key.place)) if "tests" in good else None


def _home_of(path: Path) -> Path:
    beside = [path.with_name(path.stem.removesuffix("_test") + suffix) for suffix in _SUFFIXES]
    return next((home for home in (*beside, path.with_name(DEFAULT)) if home.is_file()), path.parent)


def new_reading() -> Reading:
    """For suites, in which `${...}` stands for itself wherever a message may hold it."""
    import os

    from bridge.config.variables import read_secret_file

    return Reading(os.environ, read_secret_file)
