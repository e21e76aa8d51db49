"""What of a condition an index can look up: which field values an event must have for the condition to hold.

A condition is a choice of *alternatives* (most have one), each a list of parts that must all hold. Of an alternative's
parts, equalities make a key; failing these one with the key, a header or a
field of `meta`; failing that a prefix or suffix, or a threshold. What is left is asked of the few watchers that a
look-up finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from math import prod
from typing import Final, Literal

from msgspec import Struct

from bridge.filters.projection import Use
from bridge.filters.writer import Writer
from bridge.language.functions import TEXTUAL
from bridge.language.ir import AllOf, AnyOf, Call, Compare, Const, Expr, Field, Has, Not, OneOf, Path

MOST_KEYS: Final = 64
"""Keys per alternative. The narrowest field is a key however many values it lists: they are as long as was written."""

MOST_ALTERNATIVES: Final = 16


class Equality(Struct, frozen=True):
    """The field at `path` is one of `values`, all of one kind. Floats stand for fractions: see `is_exact`."""

    path: Path
    values: tuple[str | int | float | bool, ...]
    use: Use
    part: AnyOf

    @property
    def is_exact(self) -> bool:
        """Whether a look-up settles it: not for numbers, of which a float may only seem to be equal."""
        return self.use != "number"


class Outside(Struct, frozen=True):
    """A text of another root than the event is one of `values`."""

    root: str
    path: Path
    values: tuple[str, ...]
    part: AnyOf


class Affix(Struct, frozen=True):
    """The field at `path` begins, or ends, with `text`."""

    path: Path
    text: str
    at_end: bool
    part: Expr

    def shortened(self, length: int) -> str:
        """The outer characters of the text."""
        return self.text[-length:] if self.at_end else self.text[:length]


class Threshold(Struct, frozen=True):
    """The field at `path` is beyond `limit`, the nearest float or the int itself."""

    path: Path
    op: Literal["<", "<=", ">", ">="]
    limit: int | float
    part: Compare


class Alternative(Struct, frozen=True):
    """One way for a condition to hold. `rest` are the parts that the look-up does not settle."""

    equalities: tuple[Equality, ...]
    outside: Outside | None
    affix: Affix | None
    threshold: Threshold | None
    rest: tuple[Expr, ...]

    @property
    def is_single_threshold(self) -> bool:
        """Beside its key it asks for one threshold and nothing else."""
        return self.threshold is not None and self.rest == (self.threshold.part,)


def alternatives_of(condition: Expr) -> list[Alternative]:
    """At least one. Where there would be too many, choices are left among the parts, to be asked."""
    return [_alternative(parts) for parts in _alternatives(condition)]


def _alternatives(node: Expr) -> list[tuple[Expr, ...]]:
    if isinstance(node, AllOf):
        found: list[tuple[Expr, ...]] = [()]
        for part in node.parts:
            below = _alternatives(part)
            if len(found) * len(below) > MOST_ALTERNATIVES:
                below = [(part,)]
            found = [(*parts, *more) for parts, more in product(found, below)]
        return found
    if isinstance(node, OneOf):
        found = [parts for part in node.parts for parts in _alternatives(part)]
        return found if len(found) <= MOST_ALTERNATIVES else [(node,)]
    return [(node,)]


def _alternative(parts: tuple[Expr, ...]) -> Alternative:
    equalities = _narrowest([found for part in parts if (found := _equality(part)) is not None])
    outside = None if equalities else next((o for part in parts if (o := _outside(part)) is not None), None)
    is_keyed = bool(equalities) or outside is not None
    affix = None if is_keyed else next((a for part in parts if (a := _affix(part)) is not None), None)
    settled = {id(e.part) for e in equalities if e.is_exact}
    settled |= {id(key.part) for key in (outside, affix) if key is not None}
    rest = tuple(part for part in parts if id(part) not in settled)
    threshold = next((t for part in rest if (t := _threshold(part)) is not None), None)
    return Alternative(equalities, outside, affix, threshold, rest)


def _narrowest(equalities: list[Equality]) -> tuple[Equality, ...]:
    """Those that make the key, by path: the narrowest first, as many as the number of keys allows, one for a field."""
    chosen: dict[Path, Equality] = {}
    for equality in sorted(equalities, key=lambda e: len(e.values)):
        if equality.path in chosen:
            continue
        if chosen and prod(len(e.values) for e in (*chosen.values(), equality)) > MOST_KEYS:
            break
        chosen[equality.path] = equality
    return tuple(sorted(chosen.values(), key=lambda e: (e.path, e.use)))


def _equality(part: Expr) -> Equality | None:
    if not (isinstance(part, AnyOf) and _is_event(part.of)):
        return None
    kinds: set[Use] = {_kind(value) for value in part.values}
    if len(kinds) > 1:
        return None
    values = tuple(_as_key(value) for value in part.values)
    if None in values:
        return None
    assert isinstance(part.of, Field)
    return Equality(part.of.path, tuple(v for v in values if v is not None), kinds.pop(), part)


def _outside(part: Expr) -> Outside | None:
    if isinstance(part, AnyOf) and isinstance(part.of, Field) and part.of.root in ("headers", "key", "meta"):
        texts = tuple(value for value in part.values if isinstance(value, str))
        if len(texts) == len(part.values):
            return Outside(part.of.root, part.of.path, texts, part)
    return None


def _affix(part: Expr) -> Affix | None:
    match part:
        case Call("startsWith" | "endsWith" as name, (Field("event", path), Const(str() as text))) if path and text:
            return Affix(path, text, name == "endsWith", part)
    return None


def _threshold(part: Expr) -> Threshold | None:
    match part:
        case Compare(("<" | "<=" | ">" | ">=") as op, Field("event", path), Const(int() | Decimal() as limit)) if path:
            key = _as_key(limit)
            if isinstance(key, (int, float)) and not isinstance(key, bool):
                return Threshold(path, op, key, part)
    return None


def _as_key(value: object) -> str | int | float | bool | None:
    """What Python's own equality finds; None for a number that no float comes near."""
    if not isinstance(value, Decimal):
        return value if isinstance(value, (str, int)) else None
    near = float(value)
    return None if near in (float("inf"), float("-inf")) else near


def _kind(value: object) -> Use:
    return "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _is_event(node: Expr) -> bool:
    return isinstance(node, Field) and node.root == "event" and bool(node.path)


# Fields --------------------------------------------------------------------------------------------------------------


def fields_of(node: Expr) -> Iterator[tuple[Path, Use]]:
    """The fields that the compiled form of a condition reads, and what each is asked for.

    What it leaves to the interpreter is read from the document, and costs an event nothing that is no candidate.
    """
    match node:
        case AllOf(parts) | OneOf(parts):
            for part in parts:
                yield from fields_of(part)
        case Not(part):
            yield from fields_of(part)
        case Has(Field("event", path)) if path:
            yield path, "presence"
        case AnyOf(Field("event", path), values) if path:
            kinds: set[Use] = {_kind(value) for value in values}
            yield path, kinds.pop() if len(kinds) == 1 else "any"
        case Compare(_, Field("event", path), Const(right)) if path and isinstance(right, (str, int, Decimal)):
            yield path, _kind(right)
        case Call(name, (Field("event", path), Const())) if path and name in TEXTUAL:
            yield path, "text"
        case _:
            reads = _Reads()
            Writer(reads).source(node)
            for path in reads.paths:
                yield path, "any"


class _Reads:
    """The fields that a compiled condition would read; see `writer.Fields`."""

    def __init__(self) -> None:
        self.paths: dict[Path, None] = {}

    def phrase(self, path: Path) -> tuple[str, tuple[str, ...]]:
        self.paths[path] = None
        return "e", ()

    def presence(self, path: Path) -> str:
        self.paths[path] = None
        return "e"
