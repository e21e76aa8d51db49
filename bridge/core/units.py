"""Durations and sizes as people write them: always with a unit. Used as field types of every configuration struct."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta

Duration = Annotated[float, Meta(description="a duration with its unit: 500ms, 30s, 5m, 2h, 7d")]
"""Seconds, once read."""

Size = Annotated[int, Meta(description="a size with its unit: 512B, 256KiB, 64MiB, 2GiB")]
"""Bytes, once read."""

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3,
}  # fmt: skip
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def parse_duration(text: str) -> float:
    """`5m` -> 300.0. Raises ValueError with a sentence that says what to write."""
    return _quantity(text, _SECONDS, "a duration needs a unit, like 500ms, 30s, 5m, 2h or 7d")


def parse_size(text: str) -> int:
    """`256KiB` -> 262144. Raises ValueError with a sentence that says what to write."""
    return int(_quantity(text, _BYTES, "a size needs a unit, like 512B, 256KiB, 64MiB or 2GiB"))


def format_duration(seconds: float) -> str:
    """The shortest exact spelling: 300.0 -> `5m`, 0.5 -> `500ms`."""
    for unit in ("d", "h", "m", "s"):
        whole = seconds / _SECONDS[unit]
        if whole >= 1 and whole == int(whole):
            return f"{int(whole)}{unit}"
    return f"{seconds * 1000:g}ms"


def format_size(size: int) -> str:
    """The shortest exact spelling in binary units: 67108864 -> `64MiB`."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return f"{size}B"


def _quantity(text: str, units: dict[str, float] | dict[str, int], hint: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise ValueError(hint)
    return float(found[1]) * units[found[2]]
