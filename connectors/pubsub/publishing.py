"""Messages as Pub/Sub takes them, and what it says to them. Pure, but for the call itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from grpc.aio import AioRpcError

from bridge.core.errors import HeadraceError
from connectors.pubsub.client import Client, PubsubMessage
from connectors.pubsub.errors import translated

ATTRIBUTES_MOST: Final = 100
NAME_MOST: Final = 256
VALUE_MOST: Final = 1024
KEY_MOST: Final = 1024
"""Attributes of a message; bytes of a name, a value and an ordering key. Limits of Pub/Sub."""
SIZE_MOST: Final = 10_000_000 - 4096
"""Bytes of a request to publish: Pub/Sub takes 10 MB, with the names around it."""
RESERVED: Final = "goog"

Attributes = dict[str, str]


def cut(text: str, most: int) -> str:
    """The beginning of it that fits into so many bytes of UTF-8, whole characters only."""
    return text.encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def attributes_of(headers: Iterable[tuple[str, bytes | None]]) -> Attributes:
    """Headers as attributes: the last of equal names; a null as an empty value; what is no text with marks for it."""
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}


def fits(name: str, value: str) -> bool:
    """Whether Pub/Sub takes it as an attribute."""
    return 0 < len(name.encode()) <= NAME_MOST and len(value.encode()) <= VALUE_MOST and not name.startswith(RESERVED)


def message_of(body: bytes, attributes: Attributes, ordering_key: str = "") -> Any:
    return PubsubMessage(data=body, attributes=attributes, ordering_key=ordering_key)


async def published(client: Client, topic: str, message: Any) -> str | HeadraceError:
    """Its id once the service has it, else what went wrong."""
    try:
        return (await client.publish(topic, [message]))[0]
    except HeadraceError as error:
        return error
    except AioRpcError as error:
        failure = translated(error, f"publishing to {topic}")
        failure.__cause__ = error
        return failure
