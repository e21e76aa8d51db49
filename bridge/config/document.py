"""All files of a configuration as one document: the files that were named, and those that they include."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta, Struct

from bridge.config import later
from bridge.config.blocks import STREAM_FIELDS, TARGET_FIELDS
from bridge.config.defaults import DEFAULTS_FIELDS, DefaultsBlock
from bridge.config.fields import refuse
from bridge.config.files import Unusable, files_of, find_files, read_source, resolved
from bridge.config.model import InstanceConfig, StoreConfig
from bridge.config.nodes import Entry, Node, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.nodes import Sequence as SequenceNode
from bridge.config.reader import read_nodes
from bridge.config.reading import Reading, Where, seen, shown
from bridge.config.shapes import Looks, fields_of, shape_of
from bridge.config.source import Source
from bridge.config.watcher_blocks import ASSET_FIELDS, RUN_FIELDS, WATCHER_FIELDS, AssetBlock


class TopBlock(Struct, frozen=True, kw_only=True):
    """What a file may hold. Everything may be in another file."""

    LATER: ClassVar[dict[str, str]] = later.TOP

    store: (
        Annotated[Node, Looks(StoreConfig | Annotated[str, Meta(min_length=1)], "where everything durable is")] | None
    ) = None
    targets: Annotated[Node, Looks(dict[str, Any])] | None = None
    streams: Annotated[Node, Looks(dict[str, Any])] | None = None
    assets: Annotated[Node, Looks(dict[str, AssetBlock], "watchers, by what they watch over")] | None = None
    instance: Annotated[Node, Looks(InstanceConfig)] | None = None
    defaults: Annotated[Node, Looks(DefaultsBlock)] | None = None
    include: Annotated[Node, Looks(list[str], "further files and folders, relative to this file")] | None = None
    tests: Annotated[Node, Looks(list[dict[str, Any]], "what `headrace test` runs")] | None = None


TOP_FIELDS: Final = fields_of(TopBlock)
SECTIONS: Final = {"targets": "a target", "streams": "a stream", "assets": "an asset"}
BLOCKS: Final = {
    "the top level": TOP_FIELDS,
    "store": fields_of(StoreConfig),
    "instance": fields_of(InstanceConfig),
    "defaults": DEFAULTS_FIELDS,
    "streams.<name>": STREAM_FIELDS,
    "targets.<name>": TARGET_FIELDS,
    "assets.<name>": ASSET_FIELDS,
    "assets.<name>.watchers[]": WATCHER_FIELDS,
    "assets.<name>.watchers[].run": RUN_FIELDS,
}

_PATH: Final = shape_of(Annotated[str, Meta(min_length=1, description="a file, or a folder of them")])


class Document:
    """Everything that is written, by block. `is_whole` is False where a file could not be read."""

    def __init__(self, paths: Sequence[Path], reading: Reading) -> None:
        self._reading = reading
        self._seen: set[Path] = set()
        self.is_whole = True
        self.files: list[str] = []
        self.singles: dict[str, Entry] = {}
        self.sections: dict[str, dict[str, Entry]] = {section: {} for section in SECTIONS}
        for path in find_files(paths, reading.problems):
            self._add_file(path)

    def _add_file(self, path: Path) -> None:
        """The file, and behind it what it includes; each is read once, so including each other does no harm."""
        waiting = [path]
        while waiting:
            file = waiting.pop(0)
            name = resolved(file)
            if name in self._seen:
                continue
            self._seen.add(name)
            self.files.append(str(file))
            root = self._root(read_source(file, self._reading.problems))
            if root is not None:
                self._add(root)
                waiting[:0] = self._included(root, file.parent)

    def _root(self, source: Source | None) -> MappingNode | None:
        root = read_nodes(source, self._reading.problems) if source is not None else None
        if isinstance(root, MappingNode):
            return root
        self.is_whole = False
        if root is not None:
            hint = "write `key: value`, with a space after the colon" if isinstance(root, Scalar) else ""
            message = f"expected a mapping with store, streams, targets and assets, {seen(root, None, _top(root))}"
            self._reading.problem(root.place, message, hint)
        return None

    def _included(self, root: MappingNode, folder: Path) -> Iterator[Path]:
        """The files that `include` names, relative to the one that names them."""
        entry = root.entries.get("include")
        if entry is None:
            return
        where = _top(root).field("include", entry.key.place)
        if not isinstance(entry.value, SequenceNode):
            refuse(entry.value, "a list of files and folders", where, self._reading, "like `include: [streams.yaml]`")
            return
        for number, item in enumerate(entry.value.items):
            path = _PATH.read(item, where.item(number, item.place), self._reading)
            if isinstance(path, str):
                yield from self._found(folder / path, item)
            else:
                self.is_whole = False

    def _found(self, path: Path, item: Node) -> list[Path]:
        files = files_of(path)
        if isinstance(files, list) and (files != [path] or _is_there(path)):
            return files
        missing = Unusable("there is no such file", f"looked in {path.absolute().parent}")
        message, hint = files if isinstance(files, Unusable) else missing
        self._reading.foreign(item.place, f"`include`: {shown(str(path))}: {message}", hint)
        self.is_whole = False
        return []

    def _add(self, root: MappingNode) -> None:
        TOP_FIELDS.read(root, _top(root), self._reading)
        for name, entry in root.entries.items():
            if name in self.sections:
                self._add_section(name, entry)
            elif name == "tests":
                _check_tests(entry, _top(root).field("tests", entry.key.place), self._reading)
            elif name in TOP_FIELDS.by_name and name != "include":
                self._add_single(name, entry)

    def _add_single(self, name: str, entry: Entry) -> None:
        first = self.singles.setdefault(name, entry)
        if first is not entry:
            message = f"`{name}` is defined twice: the first is at {first.key.place}"
            self._reading.problem(entry.key.place, message, "one file defines it for all")

    def _add_section(self, section: str, entry: Entry) -> None:
        node = entry.value
        if not isinstance(node, MappingNode):
            saw = seen(node, None, Where((section,), entry.key.place))
            hint = "remove it, or define something below it" if saw == "saw nothing" else "names with their keys below"
            self._reading.problem(entry.key.place, f"`{section}`: expected a mapping, {saw}", hint)
            return
        known = self.sections[section]
        for name, below in node.entries.items():
            if name in known:
                message = f"{section}.{name[:60]} is defined twice: the first is at {known[name].key.place}"
                self._reading.problem(below.key.place, message, "give one of them another name")
            else:
                known[name] = below


def _top(root: Node) -> Where:
    return Where((), root.place)


def _check_tests(entry: Entry, where: Where, reading: Reading) -> None:
    """What is in a test is for `headrace test` to say."""
    if not isinstance(entry.value, SequenceNode):
        refuse(entry.value, "a list of tests", where, reading, "begin each test with `- `")
        return
    for number, item in enumerate(entry.value.items):
        if not isinstance(item, MappingNode):
            at = where.item(number, item.place)
            refuse(item, "a mapping", at, reading, "a test has a message, and what is expected of it")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
