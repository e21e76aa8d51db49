"""Protobuf bodies: messages of one declared type, read with the descriptors that protoc wrote."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from bridge.core.errors import Refused
from bridge.decode.json import DecodeFault
from bridge.decode.protobuf_values import Printer
from bridge.decode.text import GROWTH, fault, written

_MOST_LISTED: Final = 20


class ProtobufReader:
    """Reads messages of the type `message`, a full name, as `descriptor_set` (the bytes of `file`) defines it.

    Raises Refused where that can't be.
    """

    def __init__(self, descriptor_set: bytes, message: str, *, file: str, max_body: int) -> None:
        files = _files_of(descriptor_set, file)
        pool = _pool_of(files, file)
        try:
            descriptor = pool.FindMessageTypeByName(message.removeprefix("."))
        except KeyError as error:
            raise Refused(_no_such_message(message, files, file)) from error
        self._class: type[Message] = GetMessageClass(descriptor)
        self._printer = Printer(pool)
        self._most = GROWTH * max_body

    def read(self, body: bytes) -> bytes:
        """The event as JSON text. Raises DecodeFault."""
        try:
            message = self._class.FromString(body)
        except DecodeError as error:
            raise _fault_of(body, error) from error
        if not message.IsInitialized():
            raise _incomplete(message)
        try:
            return written(self._printer.value_of(message, self._most))
        except RecursionError as error:
            raise fault("too_deep", "nested deeper than 100 levels") from error


def _incomplete(message: Message) -> DecodeFault:
    try:
        message.SerializeToString()
    except EncodeError as error:  # which names the fields
        return fault("malformed", f"Protobuf: {str(error)[:200]}")
    return fault("malformed", "Protobuf: required fields are missing")


def _fault_of(body: bytes, error: DecodeError) -> DecodeFault:
    words = str(error).rpartition(": ")[2]
    if body.startswith(b"\0"):
        return fault(
            "framing", "begins with 0x00: framed by a schema registry, and `decode: protobuf` reads bare messages"
        )
    if "UTF-8" in words:
        return fault("encoding", "Protobuf: a text is not UTF-8")
    if "Depth" in words:
        return fault("too_deep", "nested deeper than 100 levels")
    return fault("malformed", f"no Protobuf message of the declared type: {words}")


def _files_of(descriptor_set: bytes, file: str) -> dict[str, FileDescriptorProto]:
    try:
        files = {each.name: each for each in FileDescriptorSet.FromString(descriptor_set).file}
    except DecodeError as error:
        raise Refused(f"{file} is no descriptor set: write it with protoc --descriptor_set_out") from error
    if not files:
        raise Refused(f"{file} holds no descriptors: write it with protoc --descriptor_set_out")
    return files


def _pool_of(files: dict[str, FileDescriptorProto], file: str) -> DescriptorPool:
    """All files, each behind those that it imports."""
    pool = DescriptorPool()
    added: set[str] = set()

    def add(name: str, needed_by: str) -> None:
        if name in added:
            return
        if name not in files:
            raise Refused(f"{file} lacks {name}, which {needed_by} imports: write it with protoc --include_imports")
        added.add(name)
        for dependency in files[name].dependency:
            add(dependency, name)
        pool.AddSerializedFile(files[name].SerializeToString())

    try:
        for name in files:
            add(name, "")
    except (TypeError, RecursionError) as error:
        raise Refused(f"{file} can't be used: {str(error)[:300]}") from error
    return pool


def _no_such_message(message: str, files: dict[str, FileDescriptorProto], file: str) -> str:
    names = sorted(name for each in files.values() for name in _names(each.message_type, each.package))
    near = difflib.get_close_matches(message, names, n=1) or [n for n in names if n.endswith(f".{message}")]
    hint = f": did you mean `{near[0]}`?" if near else "."
    own = [name for name in names if not name.startswith("google.protobuf.")] or names
    more = f" and {len(own) - _MOST_LISTED} more" if len(own) > _MOST_LISTED else ""
    return f"{file} has no message `{message}`{hint} It has: {', '.join(own[:_MOST_LISTED])}{more}"


def _names(messages: Iterable[DescriptorProto], scope: str) -> Iterator[str]:
    for message in messages:
        if not message.options.map_entry:
            name = f"{scope}.{message.name}" if scope else message.name
            yield name
            yield from _names(message.nested_type, name)
