"""The blocks `store` and `instance`, of which there is one each."""

from __future__ import annotations

from typing import Final

from bridge.config import later
from bridge.config.fields import BAD, construct, refuse
from bridge.config.model import InstanceConfig, StoreConfig
from bridge.config.nodes import Entry, Node, Scalar
from bridge.config.nodes import Mapping as MappingNode
from bridge.config.reading import Reading, Where
from bridge.config.shapes import Block, fields_of


def read_store(entry: Entry, where: Where, reading: Reading) -> StoreConfig | None:
    """A URL, or a mapping with `url` and more."""
    url: Node | None = entry.value
    if isinstance(entry.value, MappingNode):
        store = Block(StoreConfig).read(entry.value, where, reading)
        url = entry.value.entries["url"].value if "url" in entry.value.entries else None
    elif isinstance(entry.value, Scalar):
        text = STORE_URL.read(entry.value, where.field("url", entry.key.place), reading)
        store = BAD if text is BAD else construct(StoreConfig, {"url": text}, where, reading)
    else:
        store = refuse(entry.value, "a URL or a mapping", where, reading, "like `store: sqlite:///headrace.db`")
    if not isinstance(store, StoreConfig):
        return None
    return store if url is None or _is_known_store(store.url, url, reading) else None


STORE_URL: Final = fields_of(StoreConfig).by_name["url"].shape


def _is_known_store(text: str, url: Node, reading: Reading) -> bool:
    scheme, _, rest = text.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return True
    if scheme == "sqlite":
        reading.problem(url.place, "the address of the store names no file", "three slashes: sqlite:///headrace.db")
    elif scheme.partition("+")[0] in ("postgresql", "postgres"):
        reading.problem(url.place, f"a store on PostgreSQL {later.NOT_YET}", "what works is sqlite:///headrace.db")
    else:
        reading.problem(
            url.place, "the address of the store is no URL that is known here", "like sqlite:///headrace.db"
        )
    return False


def read_instance(entry: Entry, where: Where, reading: Reading) -> InstanceConfig | None:
    instance = Block(InstanceConfig).read(entry.value, where, reading)
    return instance if isinstance(instance, InstanceConfig) else None
