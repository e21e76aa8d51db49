"""The `match:` block of a watcher, compiled to the typed form.

    match:
      region: [eu, uk]            any of these
      customer: {tier: gold}      a field of a field
      express: true               several fields: all of them

Comparisons other than equality are known by name and refused: a mapping that holds nothing but operators is never
taken for fields of those names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from bridge.decode.json import MAX_DEPTH
from bridge.filters.errors import FilterError, FilterProblem
from bridge.filters.ir import AllOf, AnyOf, Path, Scalar, is_scalar, typed

_SIGNS: Final = frozenset({"=", "==", "!=", "<", "<=", ">", ">="})
_WORDS: Final = frozenset({"prefix", "suffix", "exists", "anything_but", "cidr", "any_of"})
_EQUALITY: Final = "a value, or a list of values of which one must be equal, is what `match` takes"

# The decoder finds a field by the bytes of its name, which must therefore have one spelling only.
_UNFINDABLE: Final = frozenset('"\\' + "".join(map(chr, range(32))))


def compile_match(block: object) -> AllOf:
    """The filter that a parsed `match:` block asks for. Raises FilterError with every problem of the block."""
    compiler = _Compiler()
    parts = tuple(compiler.block(block))
    if compiler.problems:
        raise FilterError(compiler.problems)
    return AllOf(parts)


class _Compiler:
    """Walks a block, yields a part for each field, and notes what is wrong on the way."""

    def __init__(self) -> None:
        self.problems: list[FilterProblem] = []

    def block(self, block: object) -> Iterator[AnyOf]:
        if not isinstance(block, Mapping):
            self._note((), f"`match` is {_named(block)}", "write a mapping of fields: match: {region: [eu, uk]}")
        elif not block:
            self._note((), "`match` is empty", "name a field, or leave `match` out: then every event matches")
        elif isinstance(block.get("any_of"), list) and any(isinstance(v, Mapping) for v in block["any_of"]):
            self._refuse_operator(("any_of",), "any_of")
        else:
            yield from self._fields((), block)

    def _fields(self, path: Path, fields: Mapping[object, object]) -> Iterator[AnyOf]:
        for name, value in fields.items():
            if not isinstance(name, str):
                key = name if isinstance(name, int) else str(name)
                self._note((*path, key), f"a field's name is text, not {_named(name)}", "put it in quotes")
            elif name in _SIGNS:
                self._refuse_operator((*path, name), name)
            elif not _UNFINDABLE.isdisjoint(name) or not _is_unicode(name):
                self._note((*path, name), "a field's name can't hold quotes, backslashes or control characters")
            else:
                yield from self._field((*path, str(name)), value)

    def _field(self, path: Path, value: object) -> Iterator[AnyOf]:
        if isinstance(value, Mapping):
            if not value:
                self._note(path, "an empty block says nothing about the field", "name a field of it, or a value")
            elif len(path) >= MAX_DEPTH:
                self._note(path, f"nested deeper than {MAX_DEPTH} levels, which no event is")
            elif all(_is_operation(name, operand) for name, operand in value.items()):
                for name in value:
                    self._refuse_operator((*path, str(name)), str(name))
            else:
                yield from self._fields(path, value)
            return
        values = tuple(self._values(path, value))
        if values:
            yield AnyOf(path, values)

    def _values(self, path: Path, value: object) -> Iterator[Scalar]:
        if not isinstance(value, list):
            yield from self._scalar(path, value)
            return
        if not value:
            self._note(path, "an empty list: no value is any of none", "name at least one value")
        seen: set[object] = set()
        for index, item in enumerate(value):
            for scalar in self._scalar((*path, index), item):
                if typed(scalar) in seen:
                    self._note((*path, index), f"{_named(scalar)} is in the list twice", "remove one of them")
                seen.add(typed(scalar))
                yield scalar

    def _scalar(self, path: tuple[str | int, ...], value: object) -> Iterator[Scalar]:
        if value is None:
            self._note(path, "null is no value to match", "a field that is missing or null never equals anything")
        elif not is_scalar(value):
            self._note(path, f"{_named(value)} is no value to match", "write a text, a number, true or false")
        elif isinstance(value, float) and not math.isfinite(value):
            self._note(path, f"no JSON number is {value}", "write a finite number")
        elif isinstance(value, str) and ("\0" in value or not _is_unicode(value)):
            self._note(path, "a text with U+0000 or half of a surrogate pair is refused in every event")
        else:
            yield value

    def _refuse_operator(self, path: tuple[str | int, ...], name: str) -> None:
        self._note(path, f"the operator `{name}` is not available", _EQUALITY)

    def _note(self, path: tuple[str | int, ...], problem: str, hint: str = "") -> None:
        self.problems.append(FilterProblem(("match", *path), problem, hint))


def _is_operation(name: object, operand: object) -> bool:
    """`{prefix: a}`, but not `{prefix: {code: 44}}`, which can only be a field."""
    return isinstance(name, str) and name in _SIGNS | _WORDS and not isinstance(operand, Mapping)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _named(value: object) -> str:
    """The kind of a value that should not be there, for people."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, str)):
        return f"{value!r}"[:60]
    return f"a {type(value).__name__}"
