"""Types to readers: any msgspec Struct becomes a reader of nodes that knows the place of everything it refuses.

Fields may be text, numbers, bools, `Duration`, `Size`, `Literal`, lists, tuples, sets, mappings, nested Structs,
`None` and unions of these, each with the constraints of `msgspec.Meta`. A value of type `Annotated[Node, Looks(...)]`
stays a node.
"""

from __future__ import annotations

import types
from collections import abc
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from bridge.config.fields import BAD, Field, Fields, Shape, construct, refuse
from bridge.config.nodes import Mapping, Node, Scalar, Sequence
from bridge.config.reading import Reading, Where, is_hidden, seen
from bridge.config.scalars import (
    Bounds,
    Choice,
    DurationShape,
    Miss,
    Nothing,
    Number,
    ScalarShape,
    SizeShape,
    Text,
    Whole,
    YesOrNo,
    bounds_of,
)
from bridge.config.suggest import listed, one_of
from bridge.core.units import Duration, Size

FilePath = Annotated[str, Meta(min_length=1, extra={"is_path": True}, description="the path of a file")]
"""Text that becomes an absolute path: a relative one begins at the folder of the YAML file that it stands in."""


class Looks(Struct, frozen=True):
    """Behind `Node` in the type of a field that somebody else reads: what it may hold, for whoever describes it."""

    like: Any
    about: str = ""


_DURATION: Final = get_args(Duration)[1]
_SIZE: Final = get_args(Size)[1]


class Block(Struct, frozen=True, dict=True):
    """A mapping with fixed keys."""

    made: type[Struct]
    expected: str = "a mapping"

    @cached_property
    def fields(self) -> Fields:
        return fields_of(self.made)

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        if not isinstance(node, Mapping):
            return refuse(node, self.expected, where, reading, f"with the keys {listed(self.fields.by_name)}")
        values = self.fields.read(node, where, reading)
        if not values.is_complete or any(name not in self.fields.by_name for name in node.entries):
            return BAD
        return construct(self.made, values.good, where, reading)


class ListOf(Struct, frozen=True):
    item: Shape
    make: abc.Callable[[list[object]], object]
    bounds: Bounds

    @property
    def expected(self) -> str:
        few = f" of at least {self.bounds.min_length}" if self.bounds.min_length else ""
        many = f" of at most {self.bounds.max_length}" if self.bounds.max_length is not None else ""
        return f"a list{few or many}"

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        if not isinstance(node, Sequence):
            hint = "write it as [a, b], or one item a line, each after `- `"
            return refuse(node, self.expected, where, reading, hint)
        if not self.bounds.holds_length(len(node.items)):
            count = "1 item" if len(node.items) == 1 else f"{len(node.items)} items"
            message = f"`{where.name}`: expected {self.expected}, saw {count}"
            reading.problem(node.place, message)
            return BAD
        items = [self.item.read(item, where.item(n, item.place), reading) for n, item in enumerate(node.items)]
        return BAD if any(item is BAD for item in items) else self.make(items)


class MappingOf(Struct, frozen=True):
    value: Shape
    expected: str = "a mapping"

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        if not isinstance(node, Mapping):
            return refuse(node, self.expected, where, reading)
        values = {
            name: self.value.read(entry.value, where.field(name, entry.key.place), reading)
            for name, entry in node.entries.items()
        }
        return BAD if any(value is BAD for value in values.values()) else values


class Anything(Struct, frozen=True):
    expected: str = "a value"

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        return reading.plain(node, where)


class AsNode(Struct, frozen=True):
    """A node for somebody else to read; it looks like a value of the type `looks`."""

    looks: Any = Any
    expected: str = "a value"

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        return node


class OneScalar(Struct, frozen=True):
    """A scalar that may be of several types: the first that takes it wins. `also` is what else could stand here."""

    shapes: tuple[ScalarShape, ...]
    about: str = ""
    also: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        words: list[str] = []
        for shape in self.shapes:
            if isinstance(shape, Choice):
                words += map(str, shape.values)
            elif not isinstance(shape, Nothing):
                words.append(shape.expected)
        return one_of((*words, *self.also))

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        if not isinstance(node, Scalar):
            return refuse(node, self.expected, where, reading, self.about)
        filled = reading.fill(node, where)
        if filled is None:
            return BAD
        hint = ""
        for shape in self.shapes:
            value = shape.take(filled)
            if isinstance(value, str) and isinstance(shape, Text) and shape.is_path:
                return str(node.place.source.folder / value)
            if not isinstance(value, Miss):
                return value
            hint = hint or value.hint
        if is_hidden(node, where) and filled.text in hint:
            hint = "put it in quotes"
        reading.problem(
            node.place, f"`{where.name}`: expected {self.expected}, {seen(node, filled, where)}", hint or self.about
        )
        return BAD


class OneOf(Struct, frozen=True):
    """A union: at most one shape for each kind of node."""

    shapes: tuple[Shape, ...]

    @property
    def expected(self) -> str:
        scalars = [shape for shape in self.shapes if isinstance(shape, OneScalar)]
        return scalars[0].expected if scalars else one_of(shape.expected for shape in self.shapes)

    def read(self, node: Node, where: Where, reading: Reading) -> object:
        for shape in self.shapes:
            if isinstance(shape, _KINDS_OF_NODE[type(node)]):
                return shape.read(node, where, reading)
        return refuse(node, self.expected, where, reading)


_KINDS_OF_NODE: Final[dict[type, tuple[type, ...]]] = {
    Scalar: (OneScalar,),
    Sequence: (ListOf,),
    Mapping: (Block, MappingOf),
}


# Types to shapes -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def fields_of(made: type[Struct], without: frozenset[str] = frozenset()) -> Fields:
    """The keys of a Struct, less some that are not written by people.

    A class variable `LATER` of the Struct holds keys that are known and not available yet: name to hint.
    """
    fields = (info for info in msgspec.structs.fields(made) if info.name not in without)
    return Fields(tuple(map(_field, fields)), getattr(made, "LATER", {}))


def _field(info: msgspec.structs.FieldInfo) -> Field:
    shape = shape_of(info.type)
    below = f"{info.encode_name}[]" if isinstance(shape, ListOf) else info.encode_name
    about = about_of(info.type)
    return Field(info.encode_name, info.name, shape, info.required, about, partial(_inner, shape), below)


def _inner(shape: Shape) -> Fields | None:
    """What a mapping of this shape may hold, where that is fixed."""
    shape = shape.item if isinstance(shape, ListOf) else shape
    shapes = shape.shapes if isinstance(shape, OneOf) else (shape,)
    return next((s.fields for s in shapes if isinstance(s, Block)), None)


def looks_of(annotation: Any) -> Looks | None:
    """What stands behind `Node` in a type, also where `None` is allowed beside it."""
    is_union = get_origin(annotation) in (Union, types.UnionType)
    for member in get_args(annotation) if is_union else (annotation,):
        for meta in getattr(member, "__metadata__", ()):
            if isinstance(meta, Looks):
                return meta
    return None


def about_of(annotation: Any) -> str:
    """The description that the field's annotation carries, if it has one of its own."""
    looks = looks_of(annotation)
    if looks is not None:
        return looks.about
    metas = [m for m in getattr(annotation, "__metadata__", ()) if isinstance(m, Meta) and m not in (_DURATION, _SIZE)]
    return next((m.description for m in reversed(metas) if m.description), "")


def shape_of(annotation: Any) -> Shape:
    """The reader for a type. Raises TypeError for one that a configuration can't hold: a defect of the kind."""
    looks = looks_of(annotation)
    if looks is not None:
        return AsNode(looks.like)
    metas: list[Meta] = []
    if get_origin(annotation) is Annotated:
        metas = [meta for meta in annotation.__metadata__ if isinstance(meta, Meta)]
        annotation = annotation.__origin__
    if get_origin(annotation) in (Union, types.UnionType):
        return _union([shape_of(_annotated(member, metas)) for member in get_args(annotation)])
    scalar = _scalar(annotation, metas)
    if scalar is not None:
        return OneScalar((scalar,), next((m.description for m in reversed(metas) if _describes(m)), "") or "")
    return _collection(annotation, bounds_of(metas))


def _annotated(member: Any, metas: list[Meta]) -> Any:
    # Constraints around a union are its members' constraints; None has none.
    return member if member is type(None) or not metas else Annotated[(member, *metas)]


def _describes(meta: Meta) -> bool:
    return bool(meta.description) and meta not in (_DURATION, _SIZE)


def _scalar(annotation: Any, metas: list[Meta]) -> ScalarShape | None:
    bounds = bounds_of(metas)
    if _DURATION in metas:
        return DurationShape(bounds)
    if _SIZE in metas:
        return SizeShape(bounds)
    if get_origin(annotation) is Literal:
        later = next((m.extra["later"] for m in metas if m.extra and "later" in m.extra), ())
        return Choice(get_args(annotation), later)
    if annotation in (None, type(None)):
        return Nothing()
    if annotation is bool:
        return YesOrNo()
    if annotation is str:
        return Text(bounds, any(m.extra and m.extra.get("is_path") for m in metas))
    shapes: dict[object, abc.Callable[[Bounds], ScalarShape]] = {int: Whole, float: Number}
    return shapes[annotation](bounds) if annotation in shapes else None


def _collection(annotation: Any, bounds: Bounds) -> Shape:
    if annotation is Any or annotation is object:
        return Anything()
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return Block(annotation)
    origin, arguments = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (dict, abc.Mapping, abc.MutableMapping):
        return MappingOf(shape_of(arguments[1]) if arguments else Anything())
    makers: dict[object, abc.Callable[[list[object]], object]] = {
        list: list, tuple: tuple, set: set, frozenset: frozenset, abc.Sequence: tuple, abc.Set: frozenset,
    }  # fmt: skip
    if origin in makers and (origin is not tuple or arguments[1:] in ((), (...,))):
        return ListOf(shape_of(arguments[0]) if arguments else Anything(), makers[origin], bounds)
    raise TypeError(f"a configuration can't hold a value of type {annotation}")


def _union(shapes: list[Shape]) -> Shape:
    for shape in shapes:
        if isinstance(shape, AsNode | Anything):
            return shape
    inner = [s for shape in shapes for s in (shape.shapes if isinstance(shape, OneOf) else (shape,))]
    scalars = tuple(s for shape in inner if isinstance(shape, OneScalar) for s in shape.shapes)
    about = next((shape.about for shape in inner if isinstance(shape, OneScalar) and shape.about), "")
    # Text takes whatever comes through a variable, so the others are asked first.
    ordered = tuple(sorted(_one_choice(scalars), key=lambda shape: isinstance(shape, Text)))
    others = [shape for shape in inner if not isinstance(shape, OneScalar)]
    if len({isinstance(shape, ListOf) for shape in others}) != len(others):
        raise TypeError(f"a configuration can't tell these apart: {one_of(s.expected for s in others)}")
    if not ordered:
        return others[0] if len(others) == 1 else OneOf(tuple(others))
    scalar = OneScalar(ordered, about, tuple(shape.expected for shape in others))
    return OneOf((scalar, *others)) if others else scalar


def _one_choice(scalars: tuple[ScalarShape, ...]) -> list[ScalarShape]:
    """Several choices as one, so that all of them are offered together."""
    choices = [shape for shape in scalars if isinstance(shape, Choice)]
    if len(choices) < 2:
        return list(scalars)
    values = tuple(value for choice in choices for value in choice.values)
    later = tuple(value for choice in choices for value in choice.later)
    return [Choice(values, later), *(shape for shape in scalars if not isinstance(shape, Choice))]
