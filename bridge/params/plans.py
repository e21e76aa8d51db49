"""The `params:`, `tags:` and `key:` of a run, compiled to templates that are filled for each event.

`"${expr}"` alone keeps the expression's own type; text around it makes a text. The expressions are those of `when`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import msgspec

from bridge.decode.json import MAX_DEPTH
from bridge.language.errors import FilterError, FilterProblem, ParamError
from bridge.language.ir import ROOTS, Const, Each, Expr, ListOf
from bridge.language.numbers import MOST_DIGITS
from bridge.language.reading.parse import parse_expression
from bridge.language.uses import roots_of
from bridge.language.view import View
from bridge.params.payload import encode_payload
from bridge.params.pieces import CutError, Written, cut
from bridge.params.reader import Shape, as_part, as_scalar
from bridge.params.template import TRIGGER, Hole, Template, filled

LONGEST_KEY: Final = 1024
"""Characters of a business key; a longer one is replaced by its SHA-256 in hex."""

_ALL_ROOTS: Final = (*ROOTS, "attributes", "properties", TRIGGER, "each")
_LISTS: Final = ("map", "filter")
_LONGEST_NAME: Final = 100
_BEYOND: Final = 10**MOST_DIGITS

Steps = tuple[str | int, ...]
Constants = Mapping[str, object] | None
"""The entry of a `for_each`, whose values are constants of its expressions."""


def compile_params(params: object, roots: Collection[str] = ROOTS, *, each: Constants = None) -> ParamPlan:
    """The plan of a parsed `params:` block. `roots` holds `trigger` too for a Python watcher.

    Values are what JSON has, nested as one likes, and texts as in `bridge.params.pieces`. Raises FilterError with
    every problem of the block.
    """
    if not isinstance(params, Mapping):
        problem = f"`params` is a {type(params).__name__}"
        raise FilterError([FilterProblem(("params",), problem, "write a mapping: params: {order: ${event.order_id}}")])
    compiler = _Compiler(roots, each)
    return ParamPlan(compiler.finished(compiler.pieces(("params",), params)))


def compile_tags(tags: object, roots: Collection[str] = ROOTS, *, each: Constants = None) -> TagPlan:
    """The plan of a parsed `tags:` block: texts, numbers and bools by name. Raises FilterError like compile_params."""
    if not isinstance(tags, Mapping):
        problem = f"`tags` is a {type(tags).__name__}"
        raise FilterError([FilterProblem(("tags",), problem, "write a mapping: tags: {team: orders}")])
    compiler = _Compiler(roots, each, shape=as_scalar)
    for name, value in tags.items():
        if value is None or isinstance(value, (Mapping, list, tuple)):
            compiler.note(("tags", str(name)), "a tag is a text, a number, true or false", "put it in `params`")
    in_order = dict(sorted(tags.items(), key=lambda tag: str(tag[0])))
    return TagPlan(compiler.finished(compiler.pieces(("tags",), in_order)))


def compile_key(key: object, roots: Collection[str] = ROOTS, *, each: Constants = None) -> KeyPlan:
    """The plan of a `key:`, a text with at least one expression over the event. Raises FilterError."""
    if not isinstance(key, str):
        problem = f"`key` is a {type(key).__name__}"
        raise FilterError([FilterProblem(("key",), problem, "write a text: key: ${event.order_id}")])
    compiler = _Compiler(roots, each)
    plan = KeyPlan(compiler.finished(compiler.joined(("key",), key)))
    if plan.constant is not None:
        problem = "a key that is the same for every event would let one run through, and keep all others away"
        raise FilterError([FilterProblem(("key",), problem, "take a field of the event: ${event.order_id}")])
    return plan


class ParamPlan(Template):
    """A template of a JSON object, nested as one likes."""

    __slots__ = ()

    def render_trigger(self, text: bytes, view: View | None, payload: object) -> bytes:
        """As the template does; but without params the payload is the params: itself if it is a mapping, else as
        `{"payload": ...}`."""
        if self.constant != b"{}":
            return super().render_trigger(text, view, payload)
        encoded = encode_payload(payload, TRIGGER)
        return encoded if isinstance(payload, Mapping) else b'{"payload":' + encoded + b"}"


class TagPlan(Template):
    """A template of a JSON object of texts, numbers and bools, its names in order."""

    __slots__ = ()


class KeyPlan:
    """A template of one text, the business key. Numbers in it are as they are written: 1 and 1.0 are two keys."""

    __slots__ = ("_template", "constant", "needs_view", "uses")

    def __init__(self, pieces: Collection[bytes | Hole]) -> None:
        self._template = Template(pieces)
        self.constant = self._template.constant
        self.needs_view = self._template.needs_view
        self.uses = self._template.uses

    def render(self, text: bytes, view: View | None) -> str:
        """The key of an event: 1 to 1,024 characters. Raises ParamError as a template does, and for an empty one."""
        return _key_of(self._template.render(text, view))

    def render_trigger(self, text: bytes, view: View | None, payload: object) -> str:
        """The same for what a Python watcher yielded."""
        return _key_of(self._template.render_trigger(text, view, payload))


def _key_of(encoded: bytes) -> str:
    key = msgspec.json.decode(encoded, type=str)
    if not key:
        raise ParamError("key", "it is empty for this event")
    return key if len(key) <= LONGEST_KEY else hashlib.sha256(key.encode()).hexdigest()


class _Compiler:
    """Turns a block into JSON text and holes, and notes what is wrong on the way. `shape` is that of a lone value."""

    def __init__(self, roots: Collection[str], each: Constants, shape: Shape | None = None) -> None:
        self._problems: list[FilterProblem] = []
        self._roots = roots
        self._each = each
        self._shape = shape

    def note(self, path: Steps, problem: str, hint: str = "", at: int | None = None) -> None:
        self._problems.append(FilterProblem(path, problem, hint, at))

    def finished(self, pieces: Iterator[bytes | Hole]) -> list[bytes | Hole]:
        """All pieces. Raises FilterError where something is wrong with any."""
        found = list(pieces)
        if self._problems:
            raise FilterError(self._problems)
        return found

    # JSON -------------------------------------------------------------------------------------------------------------

    def pieces(self, path: Steps, value: object) -> Iterator[bytes | Hole]:
        if len(path) > MAX_DEPTH:
            self.note(path, f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(value, str):
            yield from self._text(path, value)
        elif isinstance(value, Mapping):
            yield from self._mapping(path, value)
        elif isinstance(value, (list, tuple)):
            yield b"["
            for index, item in enumerate(value):
                yield b"," if index else b""
                yield from self.pieces((*path, index), item)
            yield b"]"
        elif value is not None and not isinstance(value, (bool, int, float)):
            self.note(path, f"a {type(value).__name__} is no JSON value", "write it as a text, in quotes")
        elif isinstance(value, int) and abs(value) >= _BEYOND:
            self.note(
                path,
                f"a number of more than {MOST_DIGITS:,} digits, which no reader takes",
                "write it as a text, in quotes",
            )
        elif isinstance(value, float) and not math.isfinite(value):
            self.note(path, f"no JSON number is {value}", "write a finite number")
        else:
            yield msgspec.json.encode(value)

    def _mapping(self, path: Steps, mapping: Mapping[object, object]) -> Iterator[bytes | Hole]:
        what = path[0].removesuffix("s") if isinstance(path[0], str) else "param"
        yield b"{"
        for index, (name, value) in enumerate(mapping.items()):
            if not isinstance(name, str):
                key = name if isinstance(name, int) else str(name)
                self.note((*path, key), f"a {what}'s name is text, not {name!r}", "put it in quotes")
            elif "${" in name:
                self.note((*path, name), f"a {what}'s name can't be an expression", "expressions stand in values only")
            else:
                yield b"," if index else b""
                yield b'"' + self._literal((*path, name), name) + b'":'
                yield from self.pieces((*path, name), value)
        yield b"}"

    # Texts ------------------------------------------------------------------------------------------------------------

    def _text(self, path: Steps, text: str) -> Iterator[bytes | Hole]:
        parts = self._cut(path, text)
        if len(parts) == 1 and isinstance(parts[0], Written):
            yield from self._hole(path, parts[0], self._shape)
        else:
            yield from self._quoted(path, parts)

    def joined(self, path: Steps, text: str) -> Iterator[bytes | Hole]:
        """A text in any case, as a key is."""
        yield from self._quoted(path, self._cut(path, text))

    def _quoted(self, path: Steps, parts: Collection[str | Written]) -> Iterator[bytes | Hole]:
        yield b'"'
        for part in parts:
            if isinstance(part, str):
                yield self._literal(path, part)
            else:
                yield from self._hole(path, part, as_part)
        yield b'"'

    def _cut(self, path: Steps, text: str) -> tuple[str | Written, ...]:
        try:
            return cut(text, _ALL_ROOTS)
        except CutError as error:
            self._problems.append(FilterProblem(path, error.problem, error.hint, error.at, error.width))
            return ()

    def _literal(self, path: Steps, text: str) -> bytes:
        """The JSON of a text, without its quotes."""
        if "\0" in text:
            self.note(path, "a text can't hold the character U+0000, which no store can keep")
        try:
            return msgspec.json.encode(text)[1:-1]
        except UnicodeEncodeError:
            self.note(path, "a text can't hold half of a surrogate pair")
            return b""

    def _hole(self, path: Steps, written: Written, shape: Shape | None) -> Iterator[bytes | Hole]:
        node = self._parsed(path, written)
        if node is None:
            return
        source = written.source.strip()
        name = source if len(source) <= _LONGEST_NAME else source[:_LONGEST_NAME] + "…"
        hole = Hole(node, name, shape)
        try:
            yield _checked(hole) if roots_of(node) else _constant(hole)
        except ParamError as error:
            self._problems.append(FilterProblem(path, error.problem, "", written.at, len(written.source)))

    def _parsed(self, path: Steps, written: Written) -> Expr | None:
        try:
            return parse_expression(written.source, self._roots, each=self._each, path=path, at=written.at)
        except FilterError as error:
            self._problems += error.problems
            return None


def _checked(hole: Hole) -> Hole:
    """Raises ParamError for what gives a list, whatever the event, where none fits."""
    node = hole.node
    if hole.shape is not None and (isinstance(node, ListOf) or (isinstance(node, Each) and node.kind in _LISTS)):
        hole.shape(b"[]", hole.name)
    return hole


def _constant(hole: Hole) -> bytes:
    """What no event has a say in is part of the template: `${each.tenant}`, and null from there is null."""
    if isinstance(hole.node, Const) and hole.node.value is None:
        return b"null" if hole.shape is None else hole.shape(b"null", hole.name)
    return filled(hole, {})
