"""Avro schemas from their JSON text: complete in themselves, and known by their fingerprint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form
from fastavro.types import Schema

from bridge.core.errors import HeadraceError
from bridge.decode.json import DecodeFault, decode_whole

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

_KINDS: Final = PRIMITIVES | {"record", "enum", "fixed", "array", "map"}
_KEPT: Final = ("name", "namespace", "size", "symbols", "logicalType", "precision", "scale")


class BadSchema(HeadraceError):
    """The text is no Avro schema that can be used. The message goes on where a sentence has named the schema."""


def schemas_of(texts: Sequence[bytes]) -> list[Schema]:
    """Each of the schemas, with the named types that it takes from those before it written in.

    Raises BadSchema, whose words begin with the number of the text, from 1, where there are several.
    """
    named: dict[str, dict[object, object]] = {}
    schemas: list[Schema] = []
    for number, text in enumerate(texts, 1):
        which = f"(number {number}) " if len(texts) > 1 else ""
        try:
            parsed = parse_schema(_lean(decode_whole(text)), named)
            schemas.append(_complete(parsed, named, set()))
        except DecodeFault as error:
            raise BadSchema(f"{which}is not JSON: {error.fault.error}") from error
        except RecursionError as error:
            raise BadSchema(f"{which}is nested too deep") from error
        except Exception as error:  # fastavro has an error of its own for some mistakes, and KeyError for others
            raise BadSchema(f"{which}is no Avro schema: {type(error).__name__}: {str(error)[:200]}") from error
    return schemas


def fingerprint_of(schema: Schema) -> bytes:
    """CRC-64-AVRO of the parsing canonical form: 8 bytes, little-endian, as single-object encoding has it."""
    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def _lean(node: Schema) -> Schema:
    """Without what reading doesn't need (docs, aliases, defaults, which may not even fit), and in one spelling."""
    if isinstance(node, list):
        return [_lean(branch) for branch in node]
    if not isinstance(node, dict):
        return node
    kind = "record" if node["type"] == "error" else node["type"]
    if not isinstance(kind, str) or kind not in _KINDS:
        return _lean(kind)  # {"type": {"type": "string"}} or {"type": "a.Name"}: braces that say nothing
    lean: dict[str, object] = {"type": kind}
    lean |= {key: node[key] for key in _KEPT if key in node}
    if kind == "record":
        lean["fields"] = [{"name": field["name"], "type": _lean(field["type"])} for field in node["fields"]]
    for inner in ("items", "values"):
        if inner in node:
            lean[inner] = _lean(node[inner])
    return lean


def _complete(node: Schema, named: dict[str, dict[object, object]], seen: set[str]) -> Schema:
    """With each name that is not defined within replaced by its definition, where it occurs first."""
    if isinstance(node, list):
        return [_complete(branch, named, seen) for branch in node]
    if isinstance(node, str):
        known = node in PRIMITIVES or node in seen
        return node if known else _complete(named[node], named, seen)
    complete = {key: value for key, value in node.items() if key in _KEPT or key == "type"}
    if "name" in node:
        seen.add(node["name"])
        if "." not in node["name"]:
            complete["namespace"] = ""  # or it would take that of what it stands in, when it is read again
    if "fields" in node:
        complete["fields"] = [
            {"name": field["name"], "type": _complete(field["type"], named, seen)} for field in node["fields"]
        ]
    for inner in ("items", "values"):
        if inner in node:
            complete[inner] = _complete(node[inner], named, seen)
    return complete
