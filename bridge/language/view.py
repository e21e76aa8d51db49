"""One event as conditions and params see it beside the fields that the projection reads: made when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from bridge.core.model import Context, Meta
from bridge.decode.json import decimal_of, decode_whole, strip_bom
from bridge.language.values import Timestamp

decode_exactly = msgspec.json.Decoder(float_hook=Decimal).decode
"""The value of a JSON document, where a number with a fraction or an exponent is the Decimal that was written."""

_decode_tiny = msgspec.json.Decoder(float_hook=decimal_of).decode


class View:
    """The roots of one event, as a mapping: `event`, `meta`, `key`, `headers`, `now`.

    `text` is the event as strict JSON: the body, or what the stream's decoder made of it. `attributes` stands for the
    headers where an envelope was taken off. Asking raises what the producer's `describe` raises.
    """

    __slots__ = ("_attributes", "_context", "_found", "_payload", "text")

    def __init__(
        self, text: bytes, payload: Any, context: Context, attributes: Mapping[str, Any] | None = None
    ) -> None:
        self.text = text
        self._payload = payload
        self._context = context
        self._attributes = attributes
        self._found: dict[str, Any] = {}

    def __getitem__(self, root: str) -> Any:
        """The value of a root. Raises KeyError for one that no event has."""
        found = self._found
        if root not in found:
            found[root] = self._find(root)
        return found[root]

    def _find(self, root: str) -> Any:
        match root:
            case "event":
                return self._document()
            case "now":
                return _instant(self._context.now)
            case "meta":
                return meta_root(self._context.stream, self._meta)
            case "key":
                return text_of(self._meta.key)
            case "headers":
                if self._attributes is not None:
                    return self._attributes
                return {name: text_of(value) for name, value in self._meta.headers}
            case _:
                raise KeyError(root)

    def _document(self) -> Any:
        """Raises DecodeFault where the text is no strict JSON, which nobody has made sure of before it matched."""
        text = strip_bom(self.text)
        try:
            return decode_exactly(text)
        except Exception:
            decode_whole(text)
            return _decode_tiny(text)

    @property
    def _meta(self) -> Meta:
        found = self._found
        if "described" not in found:
            found["described"] = self._context.describe(self._payload)
        meta: Meta = found["described"]
        return meta


def meta_root(stream: str, meta: Meta) -> dict[str, Any]:
    """What `meta` is in an expression; see `ir.META_FIELDS`. What the broker doesn't tell is None."""
    return {
        "stream": stream,
        "lane": meta.lane or None,
        "position": meta.position or None,
        "message_id": meta.message_id or None,
        "timestamp": None if meta.timestamp is None else _instant(meta.timestamp),
        "delivery_attempt": meta.delivery_attempt,
        "tombstone": meta.tombstone,
    }


def _instant(seconds: float) -> Timestamp:
    """To the microsecond, beyond which a float of seconds says nothing."""
    return Timestamp(round(seconds * 1_000_000) * 1000)


def text_of(value: bytes | None) -> str | bytes | None:
    """A key or header: text where it is UTF-8, else the bytes; text compared with those is an error outcome."""
    try:
        return value if value is None else value.decode()
    except UnicodeDecodeError:
        return value
