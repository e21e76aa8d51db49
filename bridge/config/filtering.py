"""What a watcher takes and what its run is told: blocks and expressions, handed to those who compile them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from bridge.config.conditions import read_condition, read_match, read_when
from bridge.config.expressions import read_key, read_params, read_tags
from bridge.config.fields import BAD
from bridge.config.foreach import mentions_each
from bridge.config.nodes import Entry, Node
from bridge.config.reading import Reading, Where
from bridge.language.ir import ROOTS, AllOf, Expr

Each = Mapping[str, object] | None
"""The item of `for_each`, for expressions; None where there is none."""

Below = Callable[[str], Where]
"""The place behind a key."""


class Compiled:
    """Expressions that are the same for every item of a `for_each` are compiled once. Their nodes are kept, so that no
    other node is ever taken for one of them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Node, Any]] = {}

    def once(self, node: Node, read: Callable[[], Any]) -> Any:
        """What `read` makes of the node."""
        known = self._known.get(id(node))
        if known is not None:
            return known[1]
        made = read()
        if made is not BAD and not mentions_each(node):
            self._known[id(node)] = (node, made)
        return made


def read_filter(
    entries: Mapping[str, Entry], below: Below, each: Each, compiled: Compiled, reading: Reading
) -> dict[str, Any] | None:
    """`condition` and `reject`; None with problems."""
    conditions: list[Any] = []
    reject = None
    if "match" in entries:
        conditions.append(read_match(entries["match"].value, below("match"), reading))
    if "when" in entries:
        when = entries["when"].value
        conditions.append(compiled.once(when, lambda: read_when(when, below("when"), reading, each=each)))
    if "reject" in entries:
        reject = read_condition(entries["reject"].value, below("reject"), reading, each=each)
    if reject is BAD or any(condition is BAD for condition in conditions):
        return None
    return {"condition": all_of(conditions), "reject": reject}


def all_of(conditions: list[Expr]) -> Expr | None:
    """Every one of them; None, which holds for every event, where there is none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return AllOf(tuple(part for c in conditions for part in (c.parts if isinstance(c, AllOf) else (c,))))


def read_run(
    entries: Mapping[str, Entry],
    below: Below,
    each: Each,
    compiled: Compiled,
    reading: Reading,
    *,
    is_python: bool,
) -> dict[str, Any] | None:
    """`params`, `tags` and `key`; None with problems. What a Python watcher yielded is the root `trigger`."""
    roots = (*ROOTS, "trigger") if is_python else ROOTS
    plans: dict[str, Any] = {"key": None}
    for name, read in _READ.items():
        node = entries[name].value if name in entries else None
        if node is None and name != "key":
            plans[name] = read(None, below(name), reading, roots=roots)
        elif node is not None:
            plans[name] = compiled.once(node, partial(read, node, below(name), reading, roots=roots, each=each))
    return None if any(plan is BAD for plan in plans.values()) else plans


_READ: Final[dict[str, Callable[..., Any]]] = {"params": read_params, "tags": read_tags, "key": read_key}
