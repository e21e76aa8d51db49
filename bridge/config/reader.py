"""Text to nodes: YAML 1.2 without tags, one document, no key twice, aliases within bounds.

The parser is used for its events only. So scalars stay text until somebody knows what type is asked for, every node
keeps its place, and a document that would grow without bounds is refused before it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NoReturn

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)
from ruamel.yaml.reader import ReaderError

from bridge.config.nodes import Entry, Mapping, Node, Place, Scalar, Sequence
from bridge.config.problems import Problems
from bridge.config.secrecy import MASK, may_be_secret_name
from bridge.config.source import Source
from bridge.config.suggest import did_you_mean
from bridge.config.syntax import in_plain_words

DEEPEST: Final = 64
MOST_FROM_ALIASES: Final = 200_000
"""Nodes that aliases may add to a file: far more than anybody writes, far less than what hurts."""


class _Stop(Exception):
    """The rest of the file makes no sense any more; its problem has been added."""


class _Grown(Struct, eq=False):
    """A finished node with its size and height, both as if every alias were written out."""

    node: Node
    size: int
    height: int


class _Open(Struct, eq=False):
    """A collection whose end was not read yet. `key` waits for its value."""

    place: Place
    anchor: str | None
    is_mapping: bool
    items: list[_Grown]
    keys: list[Scalar | None]
    waits: bool = False


def read_nodes(source: Source, problems: Problems) -> Node | None:
    """The root node, or None where the file can't be parsed."""
    composer = _Composer(source, problems)
    try:
        root = composer.compose()
    except _Stop:
        return None
    if root is None or (isinstance(root, Scalar) and root.kind == "nothing"):
        problems.add(source.whole("the file is empty", "write at least `store`, `streams`, `targets` and `assets`"))
        return None
    source.hide_secrets(root)
    return root


class _Composer:
    def __init__(self, source: Source, problems: Problems) -> None:
        self._source = source
        self._problems = problems
        self._anchors: dict[str, _Grown | None] = {}  # None: begun, and not finished
        self._from_aliases = 0
        self._stack: list[_Open] = []
        self._root: _Grown | None = None
        self._documents = 0

    def compose(self) -> Node | None:
        for event in self._events():
            if isinstance(event, ScalarEvent):
                self._scalar(event)
            elif isinstance(event, MappingStartEvent | SequenceStartEvent):
                self._open(event)
            elif isinstance(event, MappingEndEvent | SequenceEndEvent):
                self._close(event)
            elif isinstance(event, AliasEvent):
                self._alias(event)
            elif isinstance(event, DocumentStartEvent):
                self._document(event)
        return self._root.node if self._root else None

    # Events ----------------------------------------------------------------------------------------------------------

    def _events(self) -> Iterator[Any]:
        """The parser's events. Whatever it raises becomes a problem: it fails in odd ways on odd input."""
        seen = self._source.at(1, 1)
        try:
            for event in YAML(typ="safe", pure=True).parse(self._source.text):
                yield event
                seen = self._place(event)
        except MarkedYAMLError as error:
            self._syntax(error, seen)
        except ReaderError as error:
            place = self._source.at_index(error.position)
            self._stop(place, f"a control character (0x{ord(self._source.text[error.position]):02x})", "remove it")
        except Exception as error:
            self._stop(seen, f"something near here is not valid YAML ({type(error).__name__})")

    def _syntax(self, error: MarkedYAMLError, seen: Place) -> None:
        words = in_plain_words(str(error.problem or error.context or error))
        mark = (words.at_start and error.context_mark) or error.problem_mark or error.context_mark
        place = seen if mark is None else self._within(mark.line + 1, mark.column + 1)
        self._stop(place, words.message, words.hint)

    def _within(self, line: int, column: int) -> Place:
        """The end of the text counts as the end of its last line that is not blank."""
        lines = self._source.lines
        while line > 1 and (line > len(lines) or not lines[line - 1].strip()):
            line, column = line - 1, 0
        return self._source.at(line, column or len(lines[line - 1].rstrip()) + 1)

    def _document(self, event: DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            self._stop(self._place(event), "a second document", "one file is one document: remove the `---`")
        if event.version and tuple(event.version) != (1, 2):
            self._stop(self._source.at(1, 1), "YAML 1.2 is what is read here", "remove the %YAML line")
        if event.tags:
            self._stop(self._source.at(1, 1), "YAML tags are not used here", "remove the %TAG line")

    def _scalar(self, event: ScalarEvent) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        try:
            event.value.encode()
        except UnicodeEncodeError:
            self._stop(place, "half a surrogate pair, which is no character", "write the character itself")
        if "\0" in event.value:
            self._stop(place, "the character U+0000, which nothing can store", "remove it")
        scalar = Scalar(event.value, event.style is None, place)
        self._keep(event.anchor, place, _Grown(scalar, 1, 0))

    def _open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        place = self._place(event)
        self._refuse_tag(event, place)
        if len(self._stack) >= DEEPEST:
            self._stop(place, f"nested deeper than {DEEPEST} levels")
        if event.anchor is not None:
            self._claim(event.anchor, place)
        self._stack.append(_Open(place, event.anchor, isinstance(event, MappingStartEvent), [], []))

    def _close(self, event: MappingEndEvent | SequenceEndEvent) -> None:
        done = self._stack.pop()
        place = self._spanning(done.place, event)
        size = 1 + len(done.keys) + sum(item.size for item in done.items)
        height = 1 + max((item.height for item in done.items), default=0)
        values = [item.node for item in done.items]
        node = self._mapping(done.keys, values, place) if done.is_mapping else Sequence(values, place)
        grown = _Grown(node, size, height)
        if done.anchor is not None:
            self._anchors[done.anchor] = grown
        self._place_in_parent(grown)

    def _alias(self, event: AliasEvent) -> None:
        name, place = event.anchor, self._place(event)
        if name not in self._anchors:
            hint = "an anchor (&name) must stand above its alias (*name); text that begins with * needs quotes"
            self._stop(place, f"there is no anchor &{self._named(name)}", did_you_mean(name, self._anchors, hint))
        grown = self._anchors[name]
        if grown is None:
            self._stop(place, f"&{self._named(name)} contains itself")
        self._from_aliases += grown.size
        if self._from_aliases > MOST_FROM_ALIASES:
            self._stop(place, f"the aliases of this file stand for more than {MOST_FROM_ALIASES:,} values", "use fewer")
        if len(self._stack) + grown.height > DEEPEST:
            self._stop(place, f"with what *{self._named(name)} stands for, nested deeper than {DEEPEST} levels")
        self._place_in_parent(grown)

    # Building --------------------------------------------------------------------------------------------------------

    def _keep(self, anchor: str | None, place: Place, grown: _Grown) -> None:
        if anchor is not None:
            self._claim(anchor, place)
            self._anchors[anchor] = grown
        self._place_in_parent(grown)

    def _claim(self, anchor: str, place: Place) -> None:
        # YAML lets the later one win, from there on: that is never what somebody meant in a configuration.
        if anchor in self._anchors:
            self._stop(place, f"the anchor &{self._named(anchor)} is there twice", "give it another name")
        self._anchors[anchor] = None

    def _named(self, anchor: str) -> str:
        """An anchor's name, unless it is a password that lacks its quotes."""
        keys = [block.keys[-1] for block in self._stack if block.keys]
        is_secret = any(key is not None and may_be_secret_name(key.text) for key in keys)
        return MASK if is_secret else anchor[:60]

    def _place_in_parent(self, grown: _Grown) -> None:
        if not self._stack:
            self._root = grown
            return
        parent = self._stack[-1]
        if not parent.is_mapping or parent.waits:
            parent.items.append(grown)
            parent.waits = False
            return
        parent.waits = True
        if isinstance(grown.node, Scalar):
            parent.keys.append(grown.node)
        else:
            self._add(grown.node.place, "a key must be a single text, not a list or a mapping")
            parent.keys.append(None)

    def _mapping(self, keys: list[Scalar | None], values: list[Node], place: Place) -> Mapping:
        entries: dict[str, Entry] = {}
        merged: list[Node] = []
        merge_key: Scalar | None = None
        for key, value in zip(keys, values, strict=True):
            if key is None:
                continue
            is_merge = key.is_plain and key.text == "<<"
            first = merge_key if is_merge else entries[key.text].key if key.text in entries else None
            if first is not None:
                self._twice(key, first)
            elif is_merge:
                merge_key = key
                merged = value.items if isinstance(value, Sequence) else [value]
            else:
                entries[key.text] = Entry(key, value)
        for mapping in merged:
            self._merge(entries, mapping)
        return Mapping(entries, place)

    def _twice(self, key: Scalar, first: Scalar) -> None:
        lines = f"lines {first.place.line} and {key.place.line}"
        self._add(key.place, f"`{key.text[:60]}` is there twice, in {lines}", "remove one of them, or merge them")

    def _merge(self, entries: dict[str, Entry], mapping: Node) -> None:
        if not isinstance(mapping, Mapping):
            self._add(mapping.place, "`<<` takes a mapping, or a list of them", "like `<<: *name`")
            return
        for name, entry in mapping.entries.items():
            entries.setdefault(name, entry)

    # Places and problems ---------------------------------------------------------------------------------------------

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        line, column = start.line + 1, start.column + 1
        last = end.line + 1
        if last > line and end.column == 0:
            last -= 1  # a block scalar ends where the next line begins
        width = end.column - start.column if end.line == start.line else len(self._source.lines[line - 1]) - column + 1
        return Place(self._source, line, column, max(1, width), last)

    def _spanning(self, start: Place, event: Any) -> Place:
        end = event.end_mark
        width = end.column + 1 - start.column if end.line + 1 == start.line else self._rest_of_line(start)
        return Place(self._source, start.line, start.column, max(1, width), end.line + 1)

    def _rest_of_line(self, start: Place) -> int:
        return len(self._source.lines[start.line - 1].rstrip()) - start.column + 1

    def _refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag is not None:
            self._stop(place, "YAML tags (!…) are not used here", "remove it, or put the text in quotes")

    def _add(self, place: Place, message: str, hint: str = "") -> None:
        self._problems.add(self._source.problem(place, message, hint))

    def _stop(self, place: Place, message: str, hint: str = "") -> NoReturn:
        self._add(place, message, hint)
        raise _Stop
