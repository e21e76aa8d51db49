"""The keys `decode` and `unwrap` of a stream: what a person writes for them, and the `Decoding` that it means.

decode: json                                      a format
decode: {avro: {schemas: [order.avsc]}}           a format with options
decode: [base64, gzip, json]                      from the outside in: wrappers, and the format last
unwrap: [sns, s3]                                 envelopes, from the outside in
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from msgspec import Meta, Struct, structs

from bridge.config.shapes import FilePath
from bridge.core.units import Duration, format_duration, format_size
from bridge.decode.options import (
    AvroOptions,
    Decoding,
    Envelope,
    Format,
    ProtobufOptions,
    RegistryOptions,
    Wrapper,
)

LARGEST_SCHEMA: Final = 64 * 1024 * 1024


class RegistryBlock(Struct, frozen=True, kw_only=True):
    """A schema registry, asked for the schemas that messages name."""

    url: Annotated[str, Meta(pattern="^https?://[^/]", description="like http://localhost:8081")]
    username: str = ""
    password: str = ""
    token: str = ""
    timeout: Annotated[Duration, Meta(gt=0)] = 10.0

    def __post_init__(self) -> None:
        if self.token and (self.username or self.password):
            raise ValueError("`token` and `username` are two ways to sign in: leave one out")
        if self.password and not self.username:
            raise ValueError("`password` without `username`")

    def __repr__(self) -> str:
        return "RegistryBlock(…)"


class AvroBlock(Struct, frozen=True, kw_only=True):
    """`schemas` for Avro's single-object encoding, `registry` for Confluent's framing."""

    schemas: list[FilePath] = []
    registry: RegistryBlock | None = None

    def __post_init__(self) -> None:
        if bool(self.schemas) == (self.registry is not None):
            raise ValueError("it takes `schemas`, a list of files, or `registry`, and not both")


class ProtobufBlock(Struct, frozen=True, kw_only=True):
    """The message type of every body, and the file that describes it."""

    descriptor_set: FilePath
    message: Annotated[str, Meta(min_length=1, description="its full name, like shop.orders.Order")]


class FormatBlock(Struct, frozen=True, kw_only=True):
    """One format with its options."""

    json: Literal["strict"] | None = None
    avro: AvroBlock | None = None
    protobuf: ProtobufBlock | None = None

    def __post_init__(self) -> None:
        if len(self.named) != 1:
            raise ValueError("it takes one of json, avro and protobuf")

    @property
    def named(self) -> list[str]:
        """The names of the formats that are written."""
        return [name for name in self.__struct_fields__ if getattr(self, name) is not None]


Layer = Format | Wrapper | FormatBlock
Written = Layer | list[Layer]
WrittenEnvelopes = Envelope | list[Envelope]


class DecodingBlock(Struct, frozen=True, kw_only=True):
    """The keys of a stream that say how its bodies are read."""

    decode: Written = "json"
    unwrap: WrittenEnvelopes = []


class Senseless(NamedTuple):
    """Why what is written means nothing. `key` is to blame."""

    key: Literal["decode", "unwrap"]
    message: str
    hint: str


_ORDER: Final = "from the outside in, with the format last: decode: [base64, gzip, json]"
_EXAMPLES: Final = {
    "avro": "decode: {avro: {registry: {url: http://localhost:8081}}}, or {avro: {schemas: [order.avsc]}}",
    "protobuf": "decode: {protobuf: {descriptor_set: orders.pb, message: shop.Order}}",
}


def decoding_of(written: Written, unwrap: WrittenEnvelopes) -> Decoding | Senseless:
    """What the two keys mean together."""
    layers: list[Layer] = written if isinstance(written, list) else [written]
    if not layers:
        return Senseless("decode", "an empty list", _ORDER)
    wrappers: list[Wrapper] = []
    for layer in layers[:-1]:
        if layer != "gzip" and layer != "base64":
            return Senseless("decode", f"{_name(layer)} stands before the end of the list", _ORDER)
        wrappers.append("gzip" if layer == "gzip" else "base64")
    last = layers[-1]
    if last == "gzip" or last == "base64":
        return Senseless("decode", f"{last} is around something, and what is in it is missing", _ORDER)
    example = _EXAMPLES.get(_name(last))
    if example is not None and not isinstance(last, FormatBlock):
        return Senseless("decode", f"{last} needs to know what its messages look like", f"write {example}")
    decoding = structs.replace(_format(last), wrappers=tuple(wrappers), unwrap=_envelopes(unwrap))
    opaque = next((envelope for envelope in decoding.unwrap if envelope != "sns"), None)
    if opaque is not None and (decoding.format != "json" or wrappers):
        hint = f"what is in an envelope of {opaque} is JSON: leave `decode` out, or write `decode: json`"
        return Senseless("unwrap", f"{opaque} goes with `decode: json` alone", hint)
    return decoding


def _name(layer: Layer) -> str:
    return ", ".join(layer.named) if isinstance(layer, FormatBlock) else layer


def _envelopes(unwrap: WrittenEnvelopes) -> tuple[Envelope, ...]:
    return tuple(unwrap) if isinstance(unwrap, list) else (unwrap,)


def _format(layer: Format | FormatBlock) -> Decoding:
    if not isinstance(layer, FormatBlock):
        return Decoding(layer)
    if layer.avro is not None:
        registry = layer.avro.registry
        reached = None if registry is None else RegistryOptions(**structs.asdict(registry))
        return Decoding("avro", avro=AvroOptions(tuple(layer.avro.schemas), reached))
    if layer.protobuf is not None:
        return Decoding("protobuf", protobuf=ProtobufOptions(layer.protobuf.descriptor_set, layer.protobuf.message))
    return Decoding(strict=True)


# Back to what is written ---------------------------------------------------------------------------------------------


def written_decode(decoding: Decoding) -> list[object]:
    """What a person writes for it: the layers of `decode`, secrets included."""
    return [*decoding.wrappers, _written_format(decoding)]


def _written_format(decoding: Decoding) -> object:
    if decoding.avro is not None and decoding.avro.registry is not None:
        registry = structs.asdict(decoding.avro.registry)
        given = {key: value for key, value in registry.items() if value != ""}
        return {"avro": {"registry": {**given, "timeout": format_duration(decoding.avro.registry.timeout)}}}
    if decoding.avro is not None:
        return {"avro": {"schemas": list(decoding.avro.schemas)}}
    if decoding.protobuf is not None:
        return {"protobuf": structs.asdict(decoding.protobuf)}
    return {"json": "strict"} if decoding.strict else decoding.format


def read_schema(path: str) -> bytes:
    """The content of a file that `decode` names. Raises OSError or ValueError."""
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_SCHEMA + 1)
    if len(data) > LARGEST_SCHEMA:
        raise ValueError(f"{path} is larger than {format_size(LARGEST_SCHEMA)}")
    return data
