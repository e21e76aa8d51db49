"""What a watcher does, as a digest: the store remembers it, and notices when an id comes back as something else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from bridge.config.model import StreamConfig


def definition_of(
    stream: StreamConfig, source: str, good: Mapping[str, Any], run: Mapping[str, Any], written: Mapping[str, Any]
) -> str:
    """Of a watcher: not of its names, nor of a secret. `good` and `run` hold what was read, `written` what is shown.

    A key that is not there, or empty, adds nothing: so watchers that don't use it keep the digest that they had before
    the key existed.
    """
    optional = {
        **written,
        "on_error": good.get("on_error") if good.get("on_error") != "no_match" else None,
        "key_ttl": run.get("key_ttl"),
    }
    return digest_of({
        "source": [stream.kind, source],
        "trigger": good.get("trigger"),
        "target": run["target"],
        "job": run["job"],
        **{key: value for key, value in optional.items() if value},
    })  # fmt: skip


def digest_of(what: Mapping[str, Any]) -> str:
    """SHA-256 in hex: equal for equal values, whatever their order in the file."""
    text = json.dumps(what, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
