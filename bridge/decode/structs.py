"""Structs to decode some fields of an object and skip the others.

Their attributes are numbers, since what fields are called says nothing about which names a Python class can have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct


def struct_of(fields: Iterable[tuple[int, str, Any, Any]]) -> type[Struct]:
    """A Struct with the given fields: (number, name in the document, type, default).

    Its attributes are `numbered(0)`, `numbered(1)` and so on. Instances equal only themselves, so that no table of
    values holds one. They hold no cycle, so the collector need not trace them.
    """
    fields = list(fields)
    attributes = [(numbered(number), kind, default) for number, _, kind, default in fields]
    names = {numbered(number): name for number, name, _, _ in fields}
    return msgspec.defstruct("Fields", attributes, rename=names, frozen=True, eq=False, gc=False)


def numbered(number: int) -> str:
    return f"f{number}"
