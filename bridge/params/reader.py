"""Cuts fields out of the bytes of an event: each the JSON text that it is, digits and all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw, Struct

from bridge.decode.json import strip_bom
from bridge.decode.structs import numbered, struct_of
from bridge.language.errors import ParamError
from bridge.language.ir import Field, Path
from bridge.language.text import text_of_node

Shape = Callable[[bytes, str], bytes]
"""Makes of the JSON text of a value what goes into a template. Its second argument is how the value is called."""

Spots = Sequence[tuple[int, Shape | None]]
"""Places of a list of parts, and in which shape a value goes there; None: as it is."""

Wanted = Mapping[Path, Spots]
"""Which fields go where."""

_BOM_BEGINS: Final = 0xEF  # no JSON text begins so
_CONTAINER: Final = (ord("{"), ord("["))
_TEXT: Final = ord('"')
_NULL: Final = ord("n")
_KINDS: Final = {ord("{"): "an object", ord("["): "a list", ord('"'): "a text", ord("n"): "null",
                 ord("t"): "true", ord("f"): "false"}  # fmt: skip

_decode_exactly = msgspec.json.Decoder(float_hook=Raw).decode  # a number with a fraction stays the text that it was
_encode = msgspec.json.Encoder().encode


class EventReader:
    """Puts the fields at `wanted` into the parts of a template. `root` is what an event is called in errors."""

    __slots__ = ("_object", "_root", "_whole")

    def __init__(self, root: str, wanted: Wanted) -> None:
        self._root = root
        self._whole = wanted.get((), ())
        fields = {path: spots for path, spots in wanted.items() if path}
        self._object = _Object(Field(root), fields) if fields else None

    def fill(self, body: bytes, parts: list[bytes]) -> None:
        """`body` has passed `decode_whole`. Raises ParamError at the first field that is missing, or of a kind that
        its shape doesn't take."""
        text = body if body[0] != _BOM_BEGINS else strip_bom(body)
        if self._object is not None:
            self._object.fill(text, parts)
        if self._whole:
            text = text.strip(b" \t\r\n")
            for place, shape in self._whole:
                parts[place] = _as_written(text) if shape is None else shape(text, self._root)


class _Member(NamedTuple):
    """A field of an object: it fills places itself, or has fields below it that do, or both."""

    name: str
    first_wanted: str
    read: Callable[[Struct], Raw | None]
    spots: Spots
    below: _Object | None


class _Object:
    """The wanted fields of one object, decoded no further than into the texts of its members."""

    __slots__ = ("_decode", "_members", "_name")

    def __init__(self, field: Field, wanted: Wanted) -> None:
        by_name: dict[str, dict[Path, Spots]] = {}
        for (first, *rest), spots in wanted.items():
            by_name.setdefault(first, {})[tuple(rest)] = spots
        struct = struct_of([(number, name, Raw, None) for number, name in enumerate(by_name)])
        self._name = text_of_node(field)
        self._decode: Callable[[bytes | Raw], Struct] = msgspec.json.Decoder(struct).decode
        self._members = [
            _member(_below(field, (name,)), attrgetter(numbered(index)), inner)
            for index, (name, inner) in enumerate(by_name.items())
        ]

    def fill(self, text: bytes | Raw, parts: list[bytes]) -> None:
        try:
            members = self._decode(text)
        except msgspec.ValidationError:
            problem = f"`{self._name}` is {_kind(text)}, not an object"
            raise ParamError(self._members[0].first_wanted, problem) from None
        for name, first_wanted, read, spots, below in self._members:
            raw = read(members)
            if raw is None:
                raise ParamError(first_wanted, f"the event has no `{name}`")
            for place, shape in spots:
                parts[place] = _as_written(bytes(raw)) if shape is None else shape(bytes(raw), name)
            if below is not None:
                below.fill(raw, parts)


def _member(field: Field, read: Callable[[Any], Any], wanted: dict[Path, Spots]) -> _Member:
    first_wanted = text_of_node(_below(field, next(iter(wanted))))
    spots = wanted.pop((), ())
    return _Member(text_of_node(field), first_wanted, read, spots, _Object(field, wanted) if wanted else None)


def _below(field: Field, path: Path) -> Field:
    return Field(field.root, (*field.path, *path))


def _as_written(text: bytes) -> bytes:
    """A text, number, true, false or null as it is; objects and lists in the one way that is ours."""
    return _encode(_decode_exactly(text)) if text[0] in _CONTAINER else text


def as_scalar(text: bytes, name: str) -> bytes:
    """A shape: texts, numbers, true and false alone."""
    if text[0] in _CONTAINER or text[0] == _NULL:
        raise ParamError(name, f"`{name}` is {_kind(text)}, where a text, a number, true or false is needed")
    return text


def as_part(text: bytes, name: str) -> bytes:
    """A shape: what stands for the value between the quotes of a larger text. Numbers keep their digits."""
    first = text[0]
    if first == _TEXT:
        return text[1:-1]
    if first in _CONTAINER or first == _NULL:
        hint = f"take ${{{name}}} alone, or say default(x, y)"
        raise ParamError(name, f"`{name}` is {_kind(text)}, which can't stand in a text: {hint}")
    return text


def _kind(text: bytes | Raw) -> str:
    return _KINDS.get(bytes(text).lstrip(b" \t\r\n")[0], "a number")
