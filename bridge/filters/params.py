"""The `params:` of a run, compiled to a template: JSON text with holes, filled from the bytes of an event.

Values are not decoded and encoded again but cut out of the body, so 1.10 stays 1.10. Objects and lists are rewritten,
which settles duplicate keys (the last one wins) and white space; numbers inside them keep their digits as well.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from bridge.decode.json import MAX_DEPTH
from bridge.filters.errors import FilterError, FilterProblem, ParamError
from bridge.filters.expression import Expression, ExpressionError, parse_text
from bridge.filters.ir import Path
from bridge.filters.payload import encode_payload
from bridge.filters.reader import EventReader

EVENT = "event"
TRIGGER = "trigger"


def compile_params(params: object, roots: Collection[str] = (EVENT,)) -> ParamPlan:
    """The plan of a parsed `params:` block. `roots` holds `trigger` too for a Python watcher.

    Values are what JSON has, nested as one likes, and texts as in `bridge.filters.expression`. Raises FilterError with
    every problem of the block.
    """
    if not isinstance(params, Mapping):
        problem = f"`params` is a {type(params).__name__}"
        raise FilterError([FilterProblem(("params",), problem, "write a mapping: params: {order: ${event.order_id}}")])
    compiler = _Compiler(roots)
    pieces = list(compiler.pieces((), params))
    if compiler.problems:
        raise FilterError(compiler.problems)
    return ParamPlan(pieces)


class ParamPlan:
    """A template of a JSON object. `uses` holds the paths of the event that it reads; `()` is the whole event."""

    __slots__ = ("_constant", "_is_empty", "_parts", "_read", "_triggers", "uses")

    def __init__(self, pieces: Sequence[bytes | Expression]) -> None:
        self._parts = [piece if isinstance(piece, bytes) else b"" for piece in pieces]
        holes = [(place, piece) for place, piece in enumerate(pieces) if isinstance(piece, Expression)]
        wanted: dict[Path, list[int]] = {}
        for place, expression in holes:
            if expression.root == EVENT:
                wanted.setdefault(expression.path, []).append(place)
        self._triggers = [(place, expression) for place, expression in holes if expression.root == TRIGGER]
        self._read = EventReader(EVENT, wanted).fill
        self._constant = None if holes else b"".join(self._parts)
        self._is_empty = self._constant == b"{}"
        self.uses: frozenset[Path] = frozenset(wanted)

    def render(self, body: bytes) -> bytes:
        """The params of an event, a strict JSON object. `body` has passed `decode_whole`.

        Raises ParamError where the event lacks a field; a field that is null is there.
        """
        if self._constant is not None:
            return self._constant
        for _, expression in self._triggers:
            raise ParamError(str(expression), "only a Python watcher yields something")
        parts = self._parts.copy()
        self._read(body, parts)
        return b"".join(parts)

    def render_trigger(self, body: bytes, payload: object) -> bytes:
        """The same for what a Python watcher yielded. Without params the payload is the params: itself if it is a
        mapping, else as `{"payload": ...}`. Raises ParamError for what JSON doesn't have, too."""
        if self._is_empty:
            encoded = encode_payload(payload, TRIGGER)
            return encoded if isinstance(payload, Mapping) else b'{"payload":' + encoded + b"}"
        parts = self._parts.copy()
        self._read(body, parts)
        for place, expression in self._triggers:
            parts[place] = encode_payload(_member(payload, expression), str(expression))
        return b"".join(parts)


def _member(payload: object, expression: Expression) -> object:
    value, seen = payload, TRIGGER
    for name in expression.path:
        if not isinstance(value, Mapping):
            raise ParamError(str(expression), f"`{seen}` is a {type(value).__name__}, not a mapping")
        if name not in value:
            raise ParamError(str(expression), f"`{seen}` has no `{name}`")
        value, seen = value[name], f"{seen}.{name}"
    return value


class _Compiler:
    """Turns a block into JSON text and expressions, and notes what is wrong on the way."""

    def __init__(self, roots: Collection[str]) -> None:
        self.problems: list[FilterProblem] = []
        self._roots = roots

    def note(self, path: tuple[str | int, ...], problem: str, hint: str = "", at: int | None = None) -> None:
        self.problems.append(FilterProblem(("params", *path), problem, hint, at))

    def pieces(self, path: tuple[str | int, ...], value: object) -> Iterator[bytes | Expression]:
        if len(path) >= MAX_DEPTH:
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
        elif isinstance(value, float) and not math.isfinite(value):
            self.note(path, f"no JSON number is {value}", "write a finite number")
        else:
            yield msgspec.json.encode(value)

    def _mapping(self, path: tuple[str | int, ...], mapping: Mapping[object, object]) -> Iterator[bytes | Expression]:
        yield b"{"
        for index, (name, value) in enumerate(mapping.items()):
            if not isinstance(name, str):
                key = name if isinstance(name, int) else str(name)
                self.note((*path, key), f"a param's name is text, not {name!r}", "put it in quotes")
            elif "${" in name:
                self.note((*path, name), "a param's name can't be an expression", "expressions stand in values only")
            else:
                yield b"," if index else b""
                yield from self._literal((*path, name), name)
                yield b":"
                yield from self.pieces((*path, name), value)
        yield b"}"

    def _text(self, path: tuple[str | int, ...], text: str) -> Iterator[bytes | Expression]:
        try:
            parsed = parse_text(text, self._roots)
        except ExpressionError as error:
            self.note(path, error.problem, error.hint, error.at)
            return
        if isinstance(parsed, Expression):
            yield parsed
        else:
            yield from self._literal(path, parsed)

    def _literal(self, path: tuple[str | int, ...], text: str) -> Iterator[bytes]:
        try:
            encoded = msgspec.json.encode(text)
        except UnicodeEncodeError:
            self.note(path, "a text can't hold half of a surrogate pair")
            return
        if "\0" in text:
            self.note(path, "a text can't hold the character U+0000, which no store can keep")
        yield encoded
