"""Avro bodies: which schema wrote them, by the frame in front, and then what they hold as JSON text.

Two frames: single-object encoding (C3 01 and the fingerprint of the schema, against declared files), and Confluent's
(00 and the id of the schema in a registry, which somebody else asks). The schema that wrote a body also reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastavro.types import Schema

from bridge.core.model import Fault
from bridge.decode.avro_reader import Read, reader_of, value_of
from bridge.decode.avro_schema import BadSchema, fingerprint_of, schemas_of
from bridge.decode.json import DecodeFault
from bridge.decode.text import fault, written

_SINGLE_OBJECT: Final = b"\xc3\x01"
_FINGERPRINT_END: Final = 10
_ID_END: Final = 5
_LARGEST_ID: Final = 2**31 - 1
"""Ids are signed. To a larger one a registry gives no answer that decides, and its stream would wait for ever."""


class SingleObject:
    """Reads single-object encoding. `texts` are schemas (.avsc) in an order in which each is defined before its use.

    Raises BadSchema.
    """

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._readers = {fingerprint_of(schema): _reader(schema) for schema in schemas_of(texts)}

    def read(self, body: bytes) -> bytes:
        """The event as JSON text. Raises DecodeFault."""
        if not body.startswith(_SINGLE_OBJECT):
            seen = body[:2].hex(" ").upper() or "nothing"
            raise fault("framing", f"Avro's single-object encoding begins with the bytes C3 01, and this with {seen}")
        if len(body) < _FINGERPRINT_END:
            raise fault(
                "framing", f"{len(body)} bytes, too short for the fingerprint of a schema (8 bytes behind C3 01)"
            )
        fingerprint = body[2:_FINGERPRINT_END]
        read = self._readers.get(fingerprint)
        if read is None:
            name = fingerprint[::-1].hex()
            raise fault("framing", f"none of the declared schemas has the fingerprint 0x{name} (CRC-64-AVRO)")
        return written(value_of(read, body, _FINGERPRINT_END))


class Registered:
    """Reads Confluent's framing, once it has been taught the schemas."""

    def __init__(self) -> None:
        self._known: dict[int, Read | Fault] = {}

    def needs(self, body: bytes) -> int | None:
        """The id of the schema that wrote the body, if it has not been learned; None too for what is not framed."""
        schema_id = _id_of(body)
        return None if schema_id is None or schema_id in self._known or schema_id > _LARGEST_ID else schema_id

    def learn(self, schema_id: int, schema: str | None, why: str = "") -> None:
        """The schema of an id. None: there is none now, or, with `why`, one that can never be used. Never raises."""
        if schema is None:
            if why:
                self._known[schema_id] = Fault("framing", why)
            return
        try:
            self._known[schema_id] = _reader(schemas_of([schema.encode()])[0])
        except (BadSchema, UnicodeEncodeError) as error:
            self._known[schema_id] = Fault("framing", f"the schema with the id {schema_id} {error}")

    def read(self, body: bytes) -> bytes:
        """The event as JSON text. Raises DecodeFault."""
        schema_id = _id_of(body)
        if schema_id is None:
            if body[:1] == b"\0":
                raise fault("framing", f"{len(body)} bytes, too short for the id of a schema (4 bytes behind 0x00)")
            seen = f"0x{body[0]:02x}" if body else "nothing: the body is empty"
            raise fault(
                "framing", f"framed Avro begins with the magic byte 0x00 and the id of a schema, this with {seen}"
            )
        if schema_id > _LARGEST_ID:
            raise fault("framing", f"no schema has the id {schema_id}: the largest is {_LARGEST_ID}")
        read = self._known.get(schema_id)
        if read is None:
            raise fault("framing", f"the registry knows no schema with the id {schema_id}")
        if isinstance(read, Fault):
            raise DecodeFault(read)
        return written(value_of(read, body, _ID_END))


def _id_of(body: bytes) -> int | None:
    return int.from_bytes(body[1:_ID_END], "big") if len(body) >= _ID_END and body[0] == 0 else None


def _reader(schema: Schema) -> Read:
    """Raises BadSchema."""
    try:
        return reader_of(schema)
    except RecursionError as error:
        raise BadSchema("is nested too deep") from error
    except (ValueError, TypeError, KeyError) as error:
        raise BadSchema(f"is no Avro schema: {str(error)[:200]}") from error
