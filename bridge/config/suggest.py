"""Did you mean: the nearest valid name, by spelling or by meaning."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Final

_LONGEST: Final = 64
_CLOSE: Final = 0.6
VERY_CLOSE: Final = 0.75
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

# What people write who come from elsewhere.
_MEANT: Final = {
    "filter": "match", "filters": "match", "where": "match", "condition": "match", "conditions": "match",
    "rule": "match", "rules": "match", "arguments": "params", "args": "params", "parameters": "params",
    "conf": "params", "vars": "params", "variables": "params", "inputs": "params", "dag": "job", "dag_id": "job",
    "deployment": "job", "flow": "job", "labels": "tags", "type": "kind", "connector": "kind", "source": "stream",
    "destination": "target", "sources": "streams", "destinations": "targets", "outputs": "targets",
    "triggers": "assets", "database": "store", "storage": "store", "state": "store", "active": "enabled",
    "topic": "stream", "queue": "stream", "action": "run", "retries": "max_attempts", "attempts": "max_attempts",
    "lease": "ack_timeout", "directory": "path", "folder": "path", "dir": "path", "expression": "when", "expr": "when",
    "cel": "when", "if": "when", "exclude": "reject", "unless": "reject", "loop": "for_each", "matrix": "for_each",
    "with_items": "for_each", "import": "include", "imports": "include", "includes": "include", "common": "defaults",
    "shared": "defaults", "format": "decode", "encoding": "decode", "codec": "decode", "envelope": "unwrap",
    "dedupe_key": "key", "idempotency_key": "key", "ttl": "key_ttl",
}  # fmt: skip


def nearest(name: str, valid: Iterable[str], cutoff: float = _CLOSE) -> str | None:
    """The valid name that was most likely meant, or None."""
    if len(name) > _LONGEST:
        return None
    candidates = [v for v in valid if len(v) <= _LONGEST]
    plain = {_plain(v): v for v in candidates}
    written = _plain(name)
    if written in plain:
        return plain[written]
    meant = _MEANT.get(written)
    if meant in candidates:
        return meant
    close = difflib.get_close_matches(written, plain, n=1, cutoff=cutoff)
    return plain[close[0]] if close else None


def did_you_mean(name: str, valid: Iterable[str], otherwise: str = "") -> str:
    """A hint: the nearest name, or `otherwise`."""
    found = nearest(name, valid)
    return f"did you mean `{found}`?" if found else otherwise


def one_of(names: Iterable[str]) -> str:
    """`a, b or c`."""
    listed = list(names)
    return " or ".join(part for part in (", ".join(listed[:-1]), *listed[-1:]) if part)


def listed(names: Iterable[str], most: int = 40) -> str:
    """`a, b, c`, cut short where there are many."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def _plain(name: str) -> str:
    return _CAMEL.sub("_", name).replace("-", "_").lower()
