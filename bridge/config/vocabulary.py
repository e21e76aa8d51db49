"""What to say about a key that a mapping does not have: not available yet, in the wrong place, or misspelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bridge.config.later import NOT_YET
from bridge.config.nodes import Scalar
from bridge.config.reading import Reading, Where, shown
from bridge.config.suggest import VERY_CLOSE, listed, nearest, one_of

if TYPE_CHECKING:
    from bridge.config.fields import Fields


def refuse_key(key: Scalar, fields: Fields, where: Where, reading: Reading) -> str | None:
    """Adds the problem of the key. Returns the key that was probably meant, and so isn't simply missing."""
    name = key.text
    if reading.problems.is_full:
        reading.problem(key.place, "an unknown key")
        return None
    if name in fields.later:
        reading.problem(key.place, f"`{name}` {NOT_YET}", fields.later[name] or "remove it")
        return None
    hint = _belongs(name, fields, where, reading)
    close = nearest(name, fields.by_name, VERY_CLOSE) if hint else nearest(name, fields.by_name)
    if close:
        hint = f"{hint}; or did you mean `{close}`?" if hint else f"did you mean `{close}`?"
    elif not hint:
        soon = nearest(name, fields.later)
        hint = f"did you mean `{soon}`? It {NOT_YET}" if soon else f"the keys here are {listed(fields.by_name)}"
    reading.problem(key.place, f"`{shown(name)}` is not a key of {where.label}", hint)
    return close


def _belongs(name: str, fields: Fields, where: Where, reading: Reading) -> str:
    """Where else a key of exactly this name could stand, nearest place first."""
    for field in fields.by_name.values():
        inner = field.inner()
        if inner is not None and name in inner:
            return f"it belongs one level down, in {where.prefix}{field.below}"
    above = next((w for w in _above(where) if w.fields is not None and name in w.fields), None)
    if above is not None:
        return f"it belongs further up, in {above.label}"
    elsewhere = reading.blocks_with(name)
    return f"it belongs in {one_of(elsewhere)}" if elsewhere else ""


def _above(where: Where) -> Iterator[Where]:
    above = where.outer
    while above is not None:
        yield above
        above = above.outer
