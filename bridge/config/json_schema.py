"""A JSON Schema of a configuration, for editors: made from the shapes that read one.

It is a little more generous than the reader, which alone knows what `defaults`, other files and the environment add:
a value may always be a `${...}`, and what defaults can give is never required.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from bridge.config.blocks import KIND, STREAM_FIELDS, TARGET_FIELDS, Kinds, defaults_of
from bridge.config.decoding import DecodingBlock
from bridge.config.defaults import UNSHARED, DefaultsBlock
from bridge.config.document import TOP_FIELDS
from bridge.config.effective import with_unit
from bridge.config.fields import Field, Fields, Shape
from bridge.config.model import StreamConfig, TargetConfig
from bridge.config.names import LONGEST, NAME_PATTERN, NAME_RULE
from bridge.config.scalars import (
    DURATION_UNITS,
    SIZE_UNITS,
    Bounds,
    Choice,
    DurationShape,
    Nothing,
    Number,
    ScalarShape,
    SizeShape,
    Text,
    Whole,
    YesOrNo,
)
from bridge.config.shapes import AsNode, Block, ListOf, MappingOf, OneOf, OneScalar, fields_of, shape_of
from bridge.config.watcher_blocks import WATCHER_FIELDS, RunBlock, WatcherBlock

Schema = dict[str, Any]

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_VARIABLE: Final[Schema] = {"type": "string", "pattern": r"\$\{"}
_HOLE: Final[Schema] = {"type": "string", "pattern": r"^\$\{each\.[^}]*\}$"}
_NAMES: Final[Schema] = {"pattern": NAME_PATTERN, "maxLength": LONGEST, "description": NAME_RULE}
_BOUNDS: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}


def json_schema(kinds: Kinds) -> Schema:
    """The schema of one file. A kind whose package is missing may have any keys."""
    return _Renderer(kinds).whole()


class _Renderer:
    """`_defs` gathers what is referred to by name."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._defs: dict[str, Schema] = {}

    def whole(self) -> Schema:
        properties = self._properties(TOP_FIELDS, {})
        streams = self._section("stream", self._kinds.streams, STREAM_FIELDS, StreamConfig)
        targets = self._section("target", self._kinds.targets, TARGET_FIELDS, TargetConfig)
        properties["streams"] = {**streams, "description": "where messages come from, by name"}
        properties["targets"] = {**targets, "description": "what starts runs, by name"}
        properties["assets"] = {**properties["assets"], "propertyNames": _NAMES}
        return {
            "$schema": DIALECT,
            "title": "Headrace configuration",
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
            "$defs": self._defs,
        }

    # Blocks ----------------------------------------------------------------------------------------------------------

    def _section(self, what: str, kinds: Mapping[str, Any], common: Fields, made: type[Struct]) -> Schema:
        """Blocks by name, each with the keys of its kind beside the common ones."""
        defaults = {**_defaults_of(DecodingBlock), **_defaults_of(made)}
        cases: list[Schema] = []
        keys: set[str] = {"kind"}
        for name, load in kinds.items():
            try:
                loaded = load()
            except ImportError:
                continue
            options: type[Struct] = loaded.options
            fields = fields_of(options)
            both = Fields((KIND, *{**common.by_name, **fields.by_name}.values()), {})
            self._defs[f"{what}.{name}"] = self._object(
                both, {**defaults, **defaults_of(loaded), **_defaults_of(options)}, options
            )
            is_it = {"properties": {"kind": {"const": name}}, "required": ["kind"]}
            cases.append({"if": is_it, "then": {"$ref": f"#/$defs/{what}.{name}"}})
            keys.update(both.by_name)
        kind = {"anyOf": [{"enum": list(kinds)}, _VARIABLE], "description": "what it is"}
        block: Schema = {"type": "object", "properties": {"kind": kind}, "allOf": cases}
        if len(cases) == len(kinds):  # else there are keys that nobody knows here
            block["propertyNames"] = {"enum": sorted(keys)}
        return {"type": "object", "propertyNames": _NAMES, "additionalProperties": block}

    def _object(self, fields: Fields, defaults: Mapping[str, object], made: type[Struct]) -> Schema:
        required = [field.name for field in fields.by_name.values() if field.is_required and made not in _SHARED]
        schema: Schema = {"type": "object", "description": _first_line(made)}
        schema["properties"] = self._properties(fields, defaults, made)
        return schema | ({"required": required} if required else {}) | {"additionalProperties": False}

    def _properties(
        self, fields: Fields, defaults: Mapping[str, object], made: type[Struct] | None = None
    ) -> dict[str, Schema]:
        return {
            field.name: self._property(field, defaults.get(field.name), may_be_hole=made in _SHARED)
            for field in fields.by_name.values()
        }

    def _property(self, field: Field, default: object, *, may_be_hole: bool) -> Schema:
        schema = self._of(field.shape)
        if may_be_hole and isinstance(field.shape, AsNode):
            schema = {"anyOf": [schema, _HOLE]}
        about = field.about or _about(field.shape)
        described = {"description": about} if about else {}
        return {**schema, **described, **({} if default is None else {"default": default})}

    # Shapes ----------------------------------------------------------------------------------------------------------

    def _of(self, shape: Shape) -> Schema:
        match shape:
            case OneScalar():
                return _of_scalars(shape)
            case OneOf():
                return {"anyOf": [self._of(one) for one in shape.shapes]}
            case ListOf():
                limits = {"minItems": shape.bounds.min_length, "maxItems": shape.bounds.max_length}
                return {"type": "array", "items": self._of(shape.item), **_given(limits)}
            case MappingOf():
                return {"type": "object", "additionalProperties": self._of(shape.value)}
            case Block():
                return self._block(shape.made)
            case AsNode():
                return self._of(shape_of(shape.looks))
            case _:
                return {}

    def _block(self, made: type[Struct]) -> Schema:
        name = made.__name__.removesuffix("Block")
        if name not in self._defs:
            self._defs[name] = {}  # so that a block in itself ends here
            self._defs[name] = self._shared() if made is DefaultsBlock else self._named(made)
        return {"$ref": f"#/$defs/{name}"}

    def _named(self, made: type[Struct]) -> Schema:
        return self._object(fields_of(made), _defaults_of(made), made)

    def _shared(self) -> Schema:
        """The block `defaults`: what streams, targets and watchers may have, and nothing that they must have."""
        watcher = {name: field for name, field in WATCHER_FIELDS.by_name.items() if name not in UNSHARED}
        common = {
            "streams": (KIND, *STREAM_FIELDS.by_name.values()),
            "watchers": tuple(watcher.values()),
            "targets": (KIND, *TARGET_FIELDS.by_name.values()),
        }
        properties = {
            name: {
                "type": "object",
                "properties": self._properties(Fields(fields, {}), {}, WatcherBlock if name == "watchers" else None),
                "additionalProperties": False,
            }
            for name, fields in common.items()
        }
        about = _first_line(DefaultsBlock)
        return {"type": "object", "description": about, "properties": properties, "additionalProperties": False}


_SHARED: Final[tuple[type[Struct] | None, ...]] = (WatcherBlock, RunBlock)
"""Blocks whose keys defaults can give, and `for_each`."""

# Scalars -------------------------------------------------------------------------------------------------------------


def _of_scalars(shape: OneScalar) -> Schema:
    variants = [_of_scalar(one) for one in shape.shapes]
    if not any(isinstance(one, Text) and one.bounds.pattern is None for one in shape.shapes):
        variants.append(_VARIABLE)
    return variants[0] if len(variants) == 1 else {"anyOf": variants}


def _of_scalar(shape: ScalarShape) -> Schema:
    match shape:
        case Text():
            limits = {"minLength": shape.bounds.min_length, "maxLength": shape.bounds.max_length}
            return {"type": "string", **_given({**limits, "pattern": shape.bounds.pattern})}
        case Whole():
            return {"type": "integer", **_bounds(shape.bounds)}
        case Number():
            return {"type": "number", **_bounds(shape.bounds)}
        case YesOrNo():
            return {"type": "boolean"}
        case Nothing():
            return {"type": "null"}
        case DurationShape():
            return {"type": "string", "pattern": _quantity(DURATION_UNITS)}
        case SizeShape():
            return {"type": "string", "pattern": _quantity(SIZE_UNITS)}
        case Choice():
            return {"enum": list(shape.values)}
        case _:
            return {}


def _quantity(units: tuple[str, ...]) -> str:
    return rf"^\s*\d+(\.\d+)?\s*({'|'.join(units)})\s*$"


def _bounds(bounds: Bounds) -> Schema:
    return _given({word: getattr(bounds, name) for name, word in _BOUNDS.items()})


def _given(values: Mapping[str, object]) -> Schema:
    return {name: value for name, value in values.items() if value is not None}


# Words ---------------------------------------------------------------------------------------------------------------


def _about(shape: Shape) -> str:
    """What the reader expects there, where nothing better is known."""
    return "" if isinstance(shape, AsNode | Block | MappingOf) else shape.expected


def _first_line(made: type[Struct]) -> str:
    return (made.__doc__ or "").partition("\n")[0]


def _defaults_of(made: type[Struct]) -> dict[str, object]:
    """By key, as they are written; those that are scalars."""
    return {
        info.encode_name: with_unit(info.default, info.type)
        for info in msgspec.structs.fields(made)
        if isinstance(info.default, str | int | float)
    }
