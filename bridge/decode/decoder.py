"""The decoder of a stream: whatever a body is, each event in it becomes strict JSON text, or the body a typed fault.

Behind it everything reads JSON, and nothing knows what the broker carried. Plain JSON has no decoder: its bodies are
texts already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, Protocol

from msgspec import Struct

from bridge.core.errors import Refused
from bridge.core.model import TOMBSTONE, Tombstone
from bridge.core.units import format_size
from bridge.decode import cloudevents, msgpack
from bridge.decode.cloudevents import Headers
from bridge.decode.envelopes import Attributes, Enclosed, Ignored, opened
from bridge.decode.json import DecodeFault, strip_bom
from bridge.decode.options import AvroOptions, Decoding, ProtobufOptions
from bridge.decode.text import checked, fault, read_text, written
from bridge.decode.wrappers import unwrap

EMPTY_BATCH: Final = "empty batch"


class Event(Struct, frozen=True):
    """One event of a message: strict JSON without a byte order mark.

    `attributes` are those of the envelope that it came in, and stand for the message's headers; None: no envelope.
    """

    text: bytes
    attributes: Attributes | None = None


class Decoded(Struct, frozen=True):
    """The events of one message, in its order. Where there are none, `ignored` says why: it is no fault of anybody."""

    events: Sequence[Event]
    ignored: str = ""


_NULL: Final = Decoded((Event(TOMBSTONE),))


class Reader(Protocol):
    """A format: the texts of the events within a body whose envelopes and wrappers are off. Raises DecodeFault."""

    def __call__(self, body: bytes, headers: Headers, /) -> Sequence[bytes]: ...


class Teachable(Protocol):
    """A format whose schemas come from outside, one by one."""

    def needs(self, body: bytes) -> int | None: ...
    def learn(self, schema_id: int, schema: str | None, why: str = "") -> None: ...


class Decoder:
    """What `decoding` declares.

    `uses_headers`: whether `events` looks at its headers. `unpacks`: whether a small body may become one of `max_body`.
    """

    def __init__(self, decoding: Decoding, read: Reader, *, max_body: int, schemas: Teachable | None = None) -> None:
        self.uses_headers = decoding.format == "cloudevents"
        self.unpacks = "gzip" in decoding.wrappers
        self._envelopes = decoding.unwrap
        self._wrappers = decoding.wrappers
        self._strict = decoding.strict
        self._read = read
        self._max_body = max_body
        self._schemas = schemas

    def events(self, body: bytes, headers: Headers = ()) -> Decoded:
        """The events of a message: none, one or many. Total: raises DecodeFault and nothing else.

        A tombstone is the event `null`, whatever is declared: there is nothing in it to be unwrapped or decoded.
        """
        if type(body) is Tombstone:
            return _NULL
        try:
            events = [event for inner in self._opened(body) for event in self._events(inner, headers)]
        except DecodeFault:
            raise
        except Ignored as reason:
            return Decoded((), str(reason))
        except RecursionError as error:
            raise fault("too_deep", "nested deeper than 100 levels") from error
        except Exception as error:  # a defect of ours must not hold up the messages behind
            raise fault("malformed", f"the decoder failed: {type(error).__name__}") from error
        return Decoded(events, "" if events else EMPTY_BATCH)

    def needs(self, body: bytes) -> int | None:
        """The id of a schema that this body takes and that is not learned. Never raises."""
        if self._schemas is None or type(body) is Tombstone:
            return None
        try:
            needed = (self._schemas.needs(inner.body) for inner in self._opened(body))
            return next((schema_id for schema_id in needed if schema_id is not None), None)
        except Exception:
            return None  # `events` says what is wrong with it

    def learn(self, schema_id: int, schema: str | None, why: str = "") -> None:
        """The text of a schema. None: there is none as yet, or, where `why` says so, none that can be used, ever."""
        if self._schemas is not None:
            self._schemas.learn(schema_id, schema, why)

    def _opened(self, body: bytes) -> list[Enclosed]:
        """What is within the envelopes, and in there within the wrappers."""
        if len(body) > self._max_body:
            raise fault("too_big", f"{len(body)} bytes, and `max_body` is {format_size(self._max_body)}")
        if not self._wrappers:
            return opened(body, self._envelopes)
        return [Enclosed(self._unwrapped(each.body), each.attributes) for each in opened(body, self._envelopes)]

    def _unwrapped(self, body: bytes) -> bytes:
        for wrapper in self._wrappers:
            body = unwrap(body, wrapper, self._max_body)
        return body

    def _events(self, enclosed: Enclosed, headers: Headers) -> list[Event]:
        attributes = enclosed.attributes
        texts = self._read(enclosed.body, headers if attributes is None else _as_headers(attributes))
        return [Event(checked(text, self._max_body, strict=self._strict), attributes) for text in texts]


def _as_headers(attributes: Attributes) -> Headers:
    """Attributes of an envelope as the headers that the message would have had without it."""
    return [
        (name, value if isinstance(value, bytes) else str(value).encode())
        for name, value in attributes.items()
        if isinstance(value, str | bytes | int | Decimal)
    ]


# Which one ------------------------------------------------------------------------------------------------------------


def decoder_of(decoding: Decoding, *, max_body: int, read: Callable[[str], bytes]) -> Decoder | None:
    """The decoder that a stream declares; None for plain JSON.

    `read` gives the bytes of a file, or raises OSError or ValueError. Raises Refused with a sentence that says what to
    correct.
    """
    match decoding.format:
        case "json":
            if not decoding.wrappers and not decoding.unwrap:
                return None
            return Decoder(decoding, _json, max_body=max_body)
        case "cloudevents":
            return Decoder(decoding, cloudevents.read, max_body=max_body)
        case "text":
            return Decoder(decoding, _text, max_body=max_body)
        case "raw":
            return Decoder(decoding, _raw, max_body=max_body)
        case "msgpack":
            return Decoder(decoding, _bodies(msgpack.read), max_body=max_body)
        case "avro":
            return _avro(decoding, max_body, read)
        case "protobuf":
            return _protobuf(decoding, max_body, read)


def _json(body: bytes, _headers: Headers) -> list[bytes]:
    return [strip_bom(body)]


def _text(body: bytes, _headers: Headers) -> list[bytes]:
    return [written(read_text(body))]


def _raw(body: bytes, _headers: Headers) -> list[bytes]:
    return [written(body)]


def _bodies(read: Callable[[bytes], bytes]) -> Reader:
    """Of a format that is one event a body, and looks at no headers."""
    return lambda body, _headers: [read(body)]


def _avro(decoding: Decoding, max_body: int, read: Callable[[str], bytes]) -> Decoder:
    options = decoding.avro or AvroOptions()
    if bool(options.schemas) == (options.registry is not None):
        raise Refused("`decode: avro` needs either `schemas`, a list of .avsc files, or `registry`, and not both")
    try:
        from bridge.decode.avro import Registered, SingleObject
        from bridge.decode.avro_schema import BadSchema
    except ImportError as error:
        raise _not_installed("avro", error) from error
    if options.registry is not None:
        schemas = Registered()
        return Decoder(decoding, _bodies(schemas.read), max_body=max_body, schemas=schemas)
    try:
        single = SingleObject([_file(path, "avro.schemas", read) for path in options.schemas])
    except BadSchema as error:
        raise Refused(f"`decode.avro.schemas`, {', '.join(options.schemas)}: {error}") from error
    return Decoder(decoding, _bodies(single.read), max_body=max_body)


def _protobuf(decoding: Decoding, max_body: int, read: Callable[[str], bytes]) -> Decoder:
    options = decoding.protobuf or ProtobufOptions("", "")
    if not options.descriptor_set or not options.message:
        raise Refused("`decode: protobuf` needs `descriptor_set`, a file, and `message`, the full name of a message")
    try:
        from bridge.decode.protobuf import ProtobufReader
    except ImportError as error:
        raise _not_installed("protobuf", error) from error
    file = options.descriptor_set
    descriptors = _file(file, "protobuf.descriptor_set", read)
    try:
        reader = ProtobufReader(descriptors, options.message, file=file, max_body=max_body)
    except Refused as error:
        raise Refused(f"`decode.protobuf`: {error}") from error
    return Decoder(decoding, _bodies(reader.read), max_body=max_body)


def _file(path: str, key: str, read: Callable[[str], bytes]) -> bytes:
    try:
        return read(path)
    except OSError as error:
        raise Refused(f"`decode.{key}`: {path} can't be read: {error.strerror or error}") from error
    except ValueError as error:
        raise Refused(f"`decode.{key}`: {error}") from error


def _not_installed(extra: str, error: ImportError) -> Refused:
    return Refused(f"`decode: {extra}` needs a package that is not there ({error}): pip install headrace[{extra}]")
