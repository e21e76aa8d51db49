"""Cuts fields out of the bytes of an event: each the JSON text that it is, digits and all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from bridge.decode.json import strip_bom
from bridge.filters.errors import ParamError
from bridge.filters.ir import Path
from bridge.filters.projection import numbered, numbered_struct

Wanted = Mapping[Path, Sequence[int]]
"""Which fields go into which places of a list of parts."""

_BOM_BEGINS: Final = 0xEF  # no JSON text begins so
_CONTAINER: Final = (ord("{"), ord("["))
_KINDS: Final = {ord("{"): "an object", ord("["): "a list", ord('"'): "a text", ord("n"): "null",
                 ord("t"): "true", ord("f"): "false"}  # fmt: skip

_decode_exactly = msgspec.json.Decoder(float_hook=Raw).decode  # a number with a fraction stays the text that it was
_encode = msgspec.json.Encoder().encode


class EventReader:
    """Puts the fields at `wanted` into the parts of a template. `root` is what an event is called in errors."""

    __slots__ = ("_object", "_whole")

    def __init__(self, root: str, wanted: Wanted) -> None:
        self._whole = wanted.get((), ())
        fields = {path: places for path, places in wanted.items() if path}
        self._object = _Object(root, fields) if fields else None

    def fill(self, body: bytes, parts: list[bytes]) -> None:
        """`body` has passed `decode_whole`. Raises ParamError at the first field that is missing."""
        text = body if body[0] != _BOM_BEGINS else strip_bom(body)
        if self._object is not None:
            self._object.fill(text, parts)
        if self._whole:
            value = _as_written(text.strip(b" \t\r\n"))
            for place in self._whole:
                parts[place] = value


class _Field(NamedTuple):
    """A field of an object: it fills places itself, or has fields below it that do, or both."""

    name: str
    first_wanted: str
    read: Callable[[Struct], Raw | None]
    places: Sequence[int]
    below: _Object | None


class _Object:
    """The wanted fields of one object, decoded no further than into the texts of its members."""

    __slots__ = ("_decode", "_fields", "_name")

    def __init__(self, name: str, wanted: Wanted) -> None:
        by_name: dict[str, dict[Path, Sequence[int]]] = {}
        for (first, *rest), places in wanted.items():
            by_name.setdefault(first, {})[tuple(rest)] = places
        struct = numbered_struct([(field, Raw, None) for field in by_name])
        self._name = name
        self._decode: Callable[[bytes | Raw], Struct] = msgspec.json.Decoder(struct).decode
        self._fields = [
            _field(f"{name}.{field}", attrgetter(numbered(index)), inner)
            for index, (field, inner) in enumerate(by_name.items())
        ]

    def fill(self, text: bytes | Raw, parts: list[bytes]) -> None:
        try:
            members = self._decode(text)
        except msgspec.ValidationError:
            raise ParamError(self._fields[0].first_wanted, f"`{self._name}` is {_kind(text)}, not an object") from None
        for name, first_wanted, read, places, below in self._fields:
            raw = read(members)
            if raw is None:
                raise ParamError(first_wanted, f"the event has no `{name}`")
            for place in places:
                parts[place] = _as_written(bytes(raw))
            if below is not None:
                below.fill(raw, parts)


def _field(name: str, read: Callable[[Any], Any], wanted: dict[Path, Sequence[int]]) -> _Field:
    first_wanted = ".".join((name, *next(iter(wanted))))
    places = wanted.pop((), ())
    return _Field(name, first_wanted, read, places, _Object(name, wanted) if wanted else None)


def _as_written(text: bytes) -> bytes:
    """A text, number, true, false or null as it is; objects and lists in the one way that is ours."""
    return _encode(_decode_exactly(text)) if text[0] in _CONTAINER else text


def _kind(text: bytes | Raw) -> str:
    return _KINDS.get(bytes(text).lstrip(b" \t\r\n")[0], "a number")
