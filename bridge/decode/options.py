"""How the bodies of a stream are read: declared, never guessed."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Format = Literal["json", "cloudevents", "text", "raw", "msgpack", "avro", "protobuf"]
Wrapper = Literal["gzip", "base64"]
Envelope = Literal["sns", "s3", "eventbridge"]


class RegistryOptions(Struct, frozen=True):
    """A schema registry with Confluent's API. `timeout` in seconds, for one request."""

    url: str
    username: str = ""
    password: str = ""
    token: str = ""
    timeout: float = 10.0

    def __repr__(self) -> str:
        return "RegistryOptions(…)"


class AvroOptions(Struct, frozen=True):
    """Either `schemas`, files (.avsc) for Avro's single-object encoding, or a registry for Confluent's framing."""

    schemas: tuple[str, ...] = ()
    registry: RegistryOptions | None = None


class ProtobufOptions(Struct, frozen=True):
    """`descriptor_set`: a file that `protoc --include_imports --descriptor_set_out` wrote; `message`: a full name."""

    descriptor_set: str
    message: str


class Decoding(Struct, frozen=True):
    """From the outside in: envelopes are taken off, then wrappers, then the format is read.

    `strict` (JSON only) refuses keys that are there twice.
    """

    format: Format = "json"
    strict: bool = False
    wrappers: tuple[Wrapper, ...] = ()
    unwrap: tuple[Envelope, ...] = ()
    avro: AvroOptions | None = None
    protobuf: ProtobufOptions | None = None
