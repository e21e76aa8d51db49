"""What the values of Protobuf messages are in JSON: close to the ProtoJSON mapping, and easier to filter.

Beside it: fields keep the names of the .proto file, and integers of 64 bits are numbers. Fields without presence (plain
scalars of proto3, lists, maps) are always there, those with presence only where they were sent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from math import isfinite
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from msgspec import Struct

from bridge.decode.text import fault, fraction, rfc3339, shortest

Convert = Callable[[Any], object]  # of a field's value, whose type the descriptor says and Python's types can't

_LONGEST_DURATION: Final = 315_576_000_000  # seconds: 10,000 years
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class _Field(Struct, frozen=True):
    """`convert` None: the value as it is."""

    name: str
    has_presence: bool
    convert: Convert | None


class _Plan(Struct, frozen=True):
    """How a type of message is printed. `cost`: bytes of JSON that an empty one makes."""

    fields: tuple[_Field, ...]
    cost: int


class _Room(Struct):
    """What is left of the bytes of JSON that the message being printed may make."""

    left: int


_room: ContextVar[_Room] = ContextVar("headrace_protobuf_room")  # the threads of a stream print at the same time


class Printer:
    """Messages as dicts, lists, texts, numbers and bytes."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        self._plans: dict[str, _Plan] = {}
        self._known: dict[str, Convert] = {
            "google.protobuf.Timestamp": _timestamp,
            "google.protobuf.Duration": _duration,
            "google.protobuf.FieldMask": _field_mask,
            "google.protobuf.Struct": self._struct,
            "google.protobuf.Value": self._value,
            "google.protobuf.ListValue": self._list_value,
            "google.protobuf.Any": self._any,
        }

    def value_of(self, message: Message, most: int) -> object:
        """The message as JSON has it. Raises DecodeFault, `too_big` where defaults alone would make `most` bytes."""
        _room.set(_Room(most))
        return self._convert(message)

    def _convert(self, message: Any) -> object:
        """Of any type."""
        name = message.DESCRIPTOR.full_name
        known = self._known.get(name)
        if known is not None:
            return known(message)
        return self._wrapped(message) if name in _WRAPPERS else self._message(message)

    def _wrapped(self, message: Any) -> object:
        convert = self._single(message.DESCRIPTOR.fields_by_name["value"])
        return message.value if convert is None else convert(message.value)

    def _message(self, message: Any) -> object:
        descriptor = message.DESCRIPTOR
        plan = self._plans.get(descriptor.full_name)
        if plan is None:
            plan = self._plans[descriptor.full_name] = self._plan_of(descriptor)
        room = _room.get()
        room.left -= plan.cost
        if room.left < 0:
            raise fault(
                "too_big", "as JSON it is many times as big as `max_body`: very many messages, mostly of defaults"
            )
        value: dict[str, object] = {}
        for field in plan.fields:
            if field.has_presence and not message.HasField(field.name):
                continue
            found = getattr(message, field.name)
            value[field.name] = found if field.convert is None else field.convert(found)
        return value

    def _plan_of(self, descriptor: Descriptor) -> _Plan:
        fields = tuple(_Field(field.name, field.has_presence, self._field(field)) for field in descriptor.fields)
        return _Plan(fields, 2 + sum(len(field.name) + 6 for field in fields if not field.has_presence))

    def _field(self, field: FieldDescriptor) -> Convert | None:
        if not field.is_repeated:
            return self._single(field)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            return self._map(entry.fields_by_name["value"])
        convert = self._single(field)
        return _listed if convert is None else lambda items: [convert(item) for item in items]

    def _map(self, value: FieldDescriptor) -> Convert:
        convert = self._single(value) or _same
        return lambda found: {key: convert(found[k]) for key, k in sorted((_key(k), k) for k in found)}

    def _single(self, field: FieldDescriptor) -> Convert | None:
        """Of one value of a field."""
        if field.message_type is not None:
            return self._convert
        if field.enum_type is not None:
            return _enum(field.enum_type)
        return _SCALARS.get(field.type)

    # Types that have a form of their own in JSON

    def _struct(self, message: Any) -> object:
        return {key: self._value(message.fields[key]) for key in sorted(message.fields)}

    def _list_value(self, message: Any) -> object:
        return [self._value(item) for item in message.values]

    def _value(self, message: Any) -> object:
        match message.WhichOneof("kind"):
            case "number_value":
                return _real(message.number_value)
            case "string_value":
                return _text(message.string_value)
            case "bool_value":
                return bool(message.bool_value)
            case "struct_value":
                return self._struct(message.struct_value)
            case "list_value":
                return self._list_value(message.list_value)
            case _:
                return None

    def _any(self, message: Any) -> object:
        """Of a type that the descriptor set has, its fields; of any other, its bytes."""
        url = _text(message.type_url)
        try:
            descriptor = self._pool.FindMessageTypeByName(url.rpartition("/")[2])
        except KeyError:
            return {"@type": url, "value": message.value}
        try:
            inner = GetMessageClass(descriptor).FromString(message.value)
        except DecodeError as error:
            raise fault("malformed", f"Protobuf: an Any is no {descriptor.full_name}, which it declares") from error
        value = self._convert(inner)
        is_special = descriptor.full_name in self._known or descriptor.full_name in _WRAPPERS
        return {"@type": url, "value": value} if is_special or not isinstance(value, dict) else {"@type": url, **value}


def _same(value: Any) -> object:
    return value


def _listed(values: Any) -> list[object]:
    return list(values)


def _key(key: bool | int | str) -> str:
    return str(key).lower() if isinstance(key, bool) else _text(key) if isinstance(key, str | bytes) else str(key)


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):  # of proto2, which doesn't check
        raise fault("encoding", "Protobuf: a text is not UTF-8")
    return value


def _real(value: float) -> float:
    if not isfinite(value):
        raise fault("number", "a number is NaN or infinite, which JSON has not")
    return value


def _single_float(value: float) -> float:
    return shortest(_real(value))


_SCALARS: Final[dict[int, Convert]] = {
    FieldDescriptor.TYPE_DOUBLE: _real,
    FieldDescriptor.TYPE_FLOAT: _single_float,
    FieldDescriptor.TYPE_STRING: _text,
}


def _enum(enum: EnumDescriptor) -> Convert:
    """Names; the number where it has none; null for NullValue."""
    if enum.full_name == "google.protobuf.NullValue":
        return lambda number: None
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    return lambda number: names.get(number, number)


def _timestamp(message: Any) -> str:
    if not 0 <= message.nanos < 10**9:
        raise fault("number", "Protobuf: a Timestamp has nanos outside of 0 to 999,999,999")
    return rfc3339(message.seconds, message.nanos)


def _duration(message: Any) -> str:
    seconds, nanos = message.seconds, message.nanos
    if abs(seconds) > _LONGEST_DURATION or abs(nanos) >= 10**9 or seconds * nanos < 0:
        raise fault("number", "Protobuf: a Duration is out of range, or its seconds and nanos differ in sign")
    sign = "-" if seconds < 0 or nanos < 0 else ""
    return f"{sign}{abs(seconds)}{fraction(abs(nanos))}s"


def _field_mask(message: Any) -> str:
    return ",".join(map(_camel, map(_text, message.paths)))


def _camel(path: str) -> str:
    first, *rest = path.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
