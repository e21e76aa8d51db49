"""Compressions: which of them can't be read here, and what to install (B16).

gzip is part of Python; the others are one package. Which of them a topic uses is known to whoever writes to it, and a
topic may mix them, so what is missing is a warning until it is met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from aiokafka import codec
from aiokafka.errors import UnsupportedCodecError

from bridge.core.errors import Refused

PACKAGE: Final = "cramjam"
INSTALL: Final = f"install it with: pip install 'headrace[kafka]' (or {PACKAGE} alone)"

_READERS: Final[Mapping[str, Callable[[], bool]]] = {
    "gzip": codec.has_gzip,
    "snappy": codec.has_snappy,
    "lz4": codec.has_lz4,
    "zstd": codec.has_zstd,
}
_NAMED: Final = re.compile(r"Libraries for (\w+) ")


def missing_codecs(readers: Mapping[str, Callable[[], bool]] = _READERS) -> list[str]:
    """Compressions whose records can't be read by this process."""
    return [name for name, is_there in readers.items() if not is_there()]


def codec_warning(missing: list[str]) -> str:
    """What it means that they are missing; empty where none is."""
    if not missing:
        return ""
    names = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
    return (
        f"records compressed with {names} can't be read: the package {PACKAGE} is not installed. A topic that holds "
        f"any stops its stream there; {INSTALL}"
    )


def codec_refused(error: UnsupportedCodecError) -> Refused:
    """What aiokafka says when it meets such records, with what to do. Nothing behind them is committed."""
    found = _NAMED.search(str(error))
    if found is None:
        return Refused(f"the topic holds records with a compression that is not known here: {error}")
    return Refused(
        f"the topic holds records compressed with {found[1]}, and the package {PACKAGE} is not installed: {INSTALL}, "
        "then start again; nothing was committed past them"
    )
