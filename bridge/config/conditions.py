"""`match`, `params` and `tags`: handed to the filter compiler, whose problems get a line and a column here."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from bridge.config import later
from bridge.config.fields import BAD, refuse
from bridge.config.nodes import Mapping, Node, Place, Scalar, Sequence
from bridge.config.reading import Reading, Where, part_of
from bridge.filters.errors import FilterError, FilterProblem
from bridge.filters.match import compile_match
from bridge.filters.params import compile_params

# What a person writes who means the environment: an event's field comes behind a root, like `event.`.
_ENVIRONMENT: Final = re.compile(r"\$\{(?:[A-Z_][A-Z0-9_]*|[A-Za-z_][A-Za-z0-9_]*:-[^}]*|file:[^}]*)\}")
_DOLLARS: Final = re.compile(r"\$\$|\$\{[^}]*\}?")


def read_match(node: Node, where: Where, reading: Reading) -> Any:
    """The compiled filter, or BAD with problems. `${...}` in it is the environment's."""
    before = len(reading.problems)
    block = reading.plain(node, where.foreign_names())
    if len(reading.problems) > before:
        return BAD
    try:
        return compile_match(block)
    except FilterError as error:
        for problem in error.problems:
            # The compiler quotes values, and cuts or escapes them: one that must not be shown is not let near it.
            masked = reading.masked.get((*where.path, *problem.path[1:]))
            message = f"{masked} does not fit here" if masked else problem.problem
            reading.foreign(_place_of(problem, node, where), message, problem.hint)
        return BAD


def read_params(node: Node | None, where: Where, roots: Collection[str], reading: Reading) -> Any:
    """The compiled params, or BAD with problems. `${...}` in them is an expression over the event."""
    if node is None:
        return compile_params({}, roots)
    if not isinstance(node, Mapping):
        return refuse(node, "a mapping", where, reading, 'like `params: {order: "${event.order_id}"}`')
    before = len(reading.problems)
    mistaken = _refuse_environment(node, where, reading)
    values = reading.unfilled(node, where)
    try:
        assert isinstance(values, dict)
        compiled = compile_params(values, roots)
    except FilterError as error:
        for problem in error.problems:
            if problem.path[1:] not in mistaken:
                reading.foreign(_place_of(problem, node, where), problem.problem, problem.hint)
        return BAD
    return BAD if len(reading.problems) > before else compiled


def read_tags(node: Node | None, where: Where, reading: Reading) -> dict[str, Any]:
    """Text, numbers and bools by name: what does not depend on the event."""
    if node is None:
        return {}
    if not isinstance(node, Mapping):
        refuse(node, "a mapping", where, reading, "like `tags: {team: orders}`")
        return {}
    mistaken = _refuse_environment(node, where, reading)
    tags: dict[str, Any] = {}
    for name, entry in node.entries.items():
        at = where.field(name, entry.key.place)
        if not isinstance(entry.value, Scalar):
            refuse(entry.value, "text, a number, true or false", at, reading)
        elif entry.value.kind == "nothing":
            reading.problem(entry.key.place, f"the tag `{name[:60]}` has no value", "give it one, or remove it")
        elif (name,) not in mistaken:
            tags[name] = _tag(entry.value, at, reading)
    return tags


def _tag(scalar: Scalar, where: Where, reading: Reading) -> object:
    value = reading.unfilled(scalar, where)
    if not isinstance(value, str):
        return value
    expression = next((m for m in _DOLLARS.findall(value) if m != "$$"), None)
    if expression is not None:
        place = part_of(scalar.place, expression)
        reading.problem(place, f"an expression in `tags` {later.NOT_YET}", "put it in `params`; $${ is the text ${")
    return value.replace("$$", "$")


def _refuse_environment(node: Mapping, where: Where, reading: Reading) -> set[tuple[str | int, ...]]:
    """Adds a problem for each scalar that asks for the environment; returns their paths."""
    mistaken: set[tuple[str | int, ...]] = set()
    for path, scalar in _scalars(node, ()):
        found = next((m[0] for m in _ENVIRONMENT.finditer(scalar.text.replace("$$", "  "))), None)
        if found is not None:
            mistaken.add(path)
            reading.problem(
                part_of(scalar.place, found),
                f"in `{where.name}`, ${{…}} is an expression over the event, and not a variable of the environment",
                "a field of the event is ${event.name}; the environment can be used anywhere else",
            )
    return mistaken


def _scalars(node: Node, path: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Scalar]]:
    if isinstance(node, Scalar):
        return [(path, node)] if "${" in node.text else []
    if isinstance(node, Sequence):
        return [found for n, item in enumerate(node.items) for found in _scalars(item, (*path, n))]
    return [found for name, entry in node.entries.items() for found in _scalars(entry.value, (*path, name))]


def _place_of(problem: FilterProblem, node: Node, where: Where) -> Place:
    """Where the path leads: to the value for an item or an offset in a text, else to the key."""
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
    if problem.at is not None and isinstance(node, Scalar):
        return _offset(node, problem.at)
    return place


def _offset(scalar: Scalar, at: int) -> Place:
    """The place within a scalar, where its text stands in its first line as it was written."""
    place = scalar.place
    start = place.source.lines[place.line - 1].find(scalar.text, place.column - 1) if scalar.text else -1
    if start < 0 or at >= len(scalar.text):
        return place
    return place.source.at(place.line, start + at + 1, len(scalar.text) - at)
