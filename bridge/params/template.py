"""A JSON text with holes, filled for each event: the form of params, tags and keys when they are compiled.

A plain path is not decoded and encoded again but cut out of the event's bytes, so 1.10 stays 1.10, and what it costs
does not depend on the size of the event's other fields. Everything else is evaluated over the roots of the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from msgspec import Struct

from bridge.language.errors import ParamError
from bridge.language.interpreter import Roots
from bridge.language.ir import Expr, Field, Path
from bridge.language.text import text_of_node
from bridge.language.trace import evaluate
from bridge.language.uses import EVENT, fields_of, paths_of, roots_of
from bridge.language.values import Fail
from bridge.language.view import View, decode_exactly
from bridge.params.payload import encode_payload, encode_value
from bridge.params.reader import EventReader, Shape, as_part

TRIGGER: Final = "trigger"
"""The root that is what a Python watcher yielded."""
_HEADERS: Final = "headers"


class Hole(Struct, frozen=True):
    """Where an expression's value goes, and in which shape (None: with its own type). `name` is how it is written."""

    node: Expr
    name: str
    shape: Shape | None = None


class Template:
    """`constant` is the text where nothing depends on the event, else None. `uses` holds the paths of the event that
    it reads; `()` is the whole event. Without `needs_view` the bytes of the event are enough to render it."""

    __slots__ = ("_evaluated", "_members", "_parts", "_read", "_yielded", "constant", "needs_view", "uses")

    def __init__(self, pieces: Iterable[bytes | Hole]) -> None:
        self._parts: list[bytes] = []
        self._members: list[_Member] = []
        self._evaluated: list[tuple[int, Hole, frozenset[str]]] = []
        wanted: dict[Path, list[tuple[int, Shape | None]]] = {}
        uses: set[Path] = set()
        self._yielded: str | None = None  # the first expression that asks for what a Python watcher yielded
        for place, piece in enumerate(_joined(pieces)):
            if isinstance(piece, bytes):
                self._parts.append(piece)
                continue
            self._parts.append(b"")
            node = piece.node
            if not isinstance(node, Field) or node.root not in (EVENT, TRIGGER):
                self._evaluated.append((place, piece, roots_of(node)))
            elif node.root == EVENT:
                wanted.setdefault(node.path, []).append((place, piece.shape))
            else:
                self._members.append(_Member(place, node.path, piece))
            uses |= paths_of(node)
            if TRIGGER in roots_of(node):
                self._yielded = self._yielded or piece.name
        self._read = EventReader(EVENT, wanted).fill
        is_constant = not (wanted or self._members or self._evaluated)
        self.constant: bytes | None = b"".join(self._parts) if is_constant else None
        self.needs_view = any(roots != {TRIGGER} for _, _, roots in self._evaluated)
        self.uses: frozenset[Path] = frozenset(uses)

    def render(self, text: bytes, view: View | None) -> bytes:
        """The JSON text for an event. `text` has passed `decode_whole`, `view` is that event's.

        Raises ParamError where a value is undefined, or of a kind that doesn't fit; and what the view raises.
        """
        if self.constant is not None:
            return self.constant
        parts = self._parts.copy()
        self._read(text, parts)
        if self._yielded is not None:
            raise ParamError(self._yielded, "only a Python watcher yields something")
        for place, hole, _ in self._evaluated:
            parts[place] = filled(hole, _given(view))
        return b"".join(parts)

    def render_trigger(self, text: bytes, view: View | None, payload: object) -> bytes:
        """The same for what a Python watcher yielded. Raises ParamError for what JSON doesn't have, too."""
        if self.constant is not None:
            return self.constant
        parts = self._parts.copy()
        self._read(text, parts)
        for member in self._members:
            parts[member.place] = member.json(payload)
        if self._evaluated:
            yielded = _Yielded(payload)
            for place, hole, roots in self._evaluated:
                parts[place] = filled(hole, yielded.beside(view, roots) if TRIGGER in roots else _given(view))
        return b"".join(parts)


def _joined(pieces: Iterable[bytes | Hole]) -> Iterator[bytes | Hole]:
    """Literal pieces in a row as one: fewer parts to join for each event."""
    for is_literal, row in groupby(pieces, lambda piece: isinstance(piece, bytes)):
        if is_literal:
            yield b"".join(piece for piece in row if isinstance(piece, bytes))
        else:
            yield from row


def _given(view: View | None) -> View:
    assert view is not None, "the template needs a view: see `needs_view`"
    return view


class _Member(NamedTuple):
    """A plain path into what a Python watcher yielded."""

    place: int
    path: Path
    hole: Hole

    def json(self, payload: object) -> bytes:
        encoded = encode_payload(self._find(payload), self.hole.name)
        return encoded if self.hole.shape is None else self.hole.shape(encoded, self.hole.name)

    def _find(self, payload: object) -> object:
        value = payload
        for depth, name in enumerate(self.path):
            if not isinstance(value, Mapping):
                problem = f"`{self._written(depth)}` is a {type(value).__name__}, not a mapping"
                raise ParamError(self.hole.name, problem)
            if name not in value:
                raise ParamError(self.hole.name, f"`{self._written(depth)}` has no `{name}`")
            value = value[name]
        return value

    def _written(self, depth: int) -> str:
        return text_of_node(Field(TRIGGER, self.path[:depth]))


class _Yielded:
    """What a Python watcher yielded, as a root: as strict JSON has it, made when first asked for."""

    __slots__ = ("_payload", "_plain")

    def __init__(self, payload: object) -> None:
        self._payload = payload
        self._plain: list[Any] = []

    def beside(self, view: View | None, roots: Iterable[str]) -> Roots:
        if not self._plain:
            self._plain.append(decode_exactly(encode_payload(self._payload, TRIGGER)))
        return {root: self._plain[0] if root == TRIGGER else _given(view)[root] for root in roots}


def filled(hole: Hole, roots: Roots) -> bytes:
    """What goes into the hole. Raises ParamError where that is undefined, an error, or of a kind that doesn't fit."""
    value = evaluate(hole.node, roots)
    if value is None:
        if hole.shape is None and _is_null(hole.node, roots):
            return b"null"
        raise ParamError(hole.name, _undefined(hole.node, roots))
    if isinstance(value, Fail):
        raise ParamError(hole.name, value.message)
    if hole.shape is None:
        return encode_value(value, hole.name)
    if isinstance(value, bytes) and hole.shape is as_part:
        raise ParamError(hole.name, "bytes that are no UTF-8 can't stand in a text: take them alone, as base64")
    return hole.shape(encode_value(value, hole.name), hole.name)


def _is_null(node: Expr, roots: Roots) -> bool:
    """Whether it is a header that is there and null, or a field of an attribute that is."""
    if not isinstance(node, Field) or node.root != _HEADERS:
        return False
    value = roots[_HEADERS]
    for name in node.path:
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    return value is None


def _undefined(node: Expr, roots: Roots) -> str:
    """Names what is lacking, as far as that can be told: an item of a list has no name."""
    lacking = {text_of_node(field): None for field in fields_of(node) if evaluate(field, roots) is None}
    if not lacking:
        return "it has no value for this event"
    verb = "is" if len(lacking) == 1 else "are"
    return f"{', '.join(f'`{name}`' for name in lacking)} {verb} missing or null; default(x, y) stands in for that"
