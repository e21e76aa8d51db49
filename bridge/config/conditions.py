"""`match`, `when` and `reject`: handed to the filter compiler, whose problems get a line and a column here."""

from __future__ import annotations

from collections.abc import Mapping as Values
from typing import Any

from bridge.config.fields import BAD, refuse
from bridge.config.nodes import Mapping, Node, Place, Scalar, Sequence
from bridge.config.reading import Reading, Where
from bridge.config.woven import weave
from bridge.language.errors import FilterError, FilterProblem
from bridge.language.reading.match import compile_match
from bridge.language.reading.parse import compile_when


def read_match(node: Node, where: Where, reading: Reading) -> Any:
    """The condition that a block asks for, or BAD with problems. `${...}` in it is the environment's."""
    before = len(reading.problems)
    block = reading.exact(node, where.foreign_names())
    if len(reading.problems) > before:
        return BAD
    try:
        return compile_match(block, key=where.name)
    except FilterError as error:
        for problem in error.problems:
            # The compiler quotes values, and cuts or escapes them: one that must not be shown is not let near it.
            masked = reading.masked.get((*where.path, *problem.path[1:]))
            message, hint = (problem.problem, problem.hint) if masked is None else (f"{masked} does not fit here", "")
            reading.foreign(_place_of(problem, node, where), message, hint)
        return BAD


def read_when(node: Node, where: Where, reading: Reading, each: Values[str, object] | None = None) -> Any:
    """The condition that an expression is, or BAD with problems, each at the part of it that is wrong.

    `${...}` in it is the environment's, and a value; `each` is the item of `for_each`.
    """
    if not isinstance(node, Scalar):
        hint = f"like `{where.name}: event.amount > 100`; a block of fields is what `match` takes"
        return refuse(node, "an expression", where, reading, hint)
    if node.kind == "nothing":
        hint = f'write a condition, like event.region == "eu", or leave `{where.name}` out'
        reading.problem(node.place if node.text else where.owner, f"`{where.name}` is empty", hint)
        return BAD
    where = where.foreign_names()
    woven = weave(node, where, reading)
    if woven is None:
        return BAD
    try:
        return compile_when(woven.text, each=each)
    except FilterError as error:
        for problem in error.problems:
            at = problem.at or 0
            marked = woven.text[at : at + problem.width]
            is_masked = woven.is_secret or woven.holds_variable(at, problem.width)
            message, hint = problem.problem, problem.hint
            if is_masked:
                message, hint = f"{reading.masked.get(where.path, 'a value')} does not fit here", ""
            hint = reading.hint_with_item(hint, message, marked)
            reading.foreign(woven.place(at, problem.width), message, hint)
        return BAD


def read_condition(node: Node, where: Where, reading: Reading, each: Values[str, object] | None = None) -> Any:
    """Either of the two: a mapping is a block of fields, a text an expression."""
    if isinstance(node, Mapping):
        return read_match(node, where, reading)
    if isinstance(node, Scalar):
        return read_when(node, where, reading, each)
    return refuse(
        node, "an expression or a block of fields", where, reading, "like `event.amount > 100`, or {region: eu}"
    )


def _place_of(problem: FilterProblem, node: Node, where: Where) -> Place:
    """Where the path leads: to an item of a list, else to the key."""
    place = where.owner
    for step in problem.path[1:]:
        if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            place = node.place
        elif isinstance(node, Mapping) and str(step) in node.entries:
            entry = node.entries[str(step)]
            node, place = entry.value, entry.key.place
        else:
            return place
    return place
