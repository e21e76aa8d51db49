"""`params`, `tags` and `key`: handed to the compiler of templates, whose problems get a line and a column here."""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeVar

from msgspec import structs

from bridge.config.fields import BAD, Bad, refuse
from bridge.config.nodes import Mapping, Node, Place, Scalar, Sequence
from bridge.config.offsets import place_of_offset
from bridge.config.reading import KeyPath, Reading, Where, is_hidden, part_of
from bridge.config.secrecy import MASK, is_only_a_reference
from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import ROOTS
from bridge.params.pieces import CutError, Written, cut
from bridge.params.plans import KeyPlan, ParamPlan, TagPlan, compile_key, compile_params, compile_tags

Each = abc.Mapping[str, object] | None
"""The constants of one entry of a `for_each`, by name; None where there is none."""

Plan = TypeVar("Plan", ParamPlan, TagPlan, KeyPlan)

# What a person writes who means the environment: an event's field comes behind a root, like `event.`.
_ENVIRONMENT: Final = re.compile(r"[A-Z_][A-Z0-9_]*|[A-Za-z_][A-Za-z0-9_]*:-.*|file:.*", re.DOTALL)
_BRACED: Final = re.compile(r"\$\{([^}]*)\}?")


def read_params(
    node: Node | None, where: Where, reading: Reading, roots: Collection[str] = ROOTS, each: Each = None
) -> ParamPlan | Bad:
    """The compiled params (of none at all, too), or BAD with problems. `${...}` in them is an expression."""
    if node is None:
        return compile_params({}, roots)
    if not isinstance(node, Mapping):
        return refuse(node, "a mapping", where, reading, 'like `params: {order: "${event.order_id}"}`')
    return _compiled(node, where, reading, lambda values: compile_params(values, roots, each=each))


def read_tags(
    node: Node | None, where: Where, reading: Reading, roots: Collection[str] = ROOTS, each: Each = None
) -> TagPlan | Bad:
    """The compiled tags (of none at all, too), or BAD with problems: texts, numbers and bools by name."""
    if node is None:
        return compile_tags({}, roots)
    if not isinstance(node, Mapping):
        return refuse(node, "a mapping", where, reading, "like `tags: {team: orders}`")
    before = len(reading.problems)
    for name, entry in node.entries.items():
        at = where.field(name, entry.key.place)
        if not isinstance(entry.value, Scalar):
            refuse(entry.value, "text, a number, true or false", at, reading)
        elif entry.value.kind == "nothing":
            reading.problem(entry.key.place, f"the tag `{name[:60]}` has no value", "give it one, or remove it")
    if len(reading.problems) > before:
        return BAD
    return _compiled(node, where, reading, lambda values: compile_tags(values, roots, each=each))


def read_key(
    node: Node, where: Where, reading: Reading, roots: Collection[str] = ROOTS, each: Each = None
) -> KeyPlan | Bad:
    """The compiled business key, or BAD with problems: a text with an expression over the event in it."""
    if not isinstance(node, Scalar) or node.kind != "text":
        return refuse(node, "text", where, reading, 'like `key: "${event.order_id}"`')
    where = structs.replace(where, is_secret=False)  # called `key`, and yet none that opens anything
    return _compiled(node, where, reading, lambda value: compile_key(value, roots, each=each))


def _compiled(node: Node, where: Where, reading: Reading, compile_: Callable[[object], Plan]) -> Plan | Bad:
    before = len(reading.problems)
    mistaken = _refuse_environment(node, where, reading)
    values = reading.unfilled(node, where)
    try:
        plan = compile_(values)
    except FilterError as error:
        for problem in error.problems:
            if problem.path[1:] not in mistaken:
                _report(problem, node, where, reading)
        return BAD
    return BAD if len(reading.problems) > before else plan


# The environment -----------------------------------------------------------------------------------------------------


def _refuse_environment(node: Node, where: Where, reading: Reading) -> set[KeyPath]:
    """Adds a problem for each scalar that asks for the environment; returns their paths."""
    mistaken: set[KeyPath] = set()
    for path, scalar in _scalars(node, ()):
        found = next((source for source in _sources(scalar.text) if _ENVIRONMENT.fullmatch(source)), None)
        if found is not None:
            mistaken.add(path)
            reading.problem(
                part_of(scalar.place, f"${{{found}}}"),
                f"in `{where.name}`, ${{…}} is an expression over the event, and not a variable of the environment",
                "a field of the event is ${event.name}; the environment can be used anywhere else",
            )
    return mistaken


def _sources(text: str) -> list[str]:
    """What stands between `${` and `}`, as well as that can be told."""
    try:
        return [part.source for part in cut(text, ()) if isinstance(part, Written)]
    except CutError:
        return _BRACED.findall(text.replace("$$", "  "))


def _scalars(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, Scalar]]:
    if isinstance(node, Scalar):
        if "${" in node.text:
            yield path, node
    elif isinstance(node, Sequence):
        for number, item in enumerate(node.items):
            yield from _scalars(item, (*path, number))
    else:
        for name, entry in node.entries.items():
            yield from _scalars(entry.value, (*path, name))


# Places --------------------------------------------------------------------------------------------------------------


def _report(problem: FilterProblem, node: Node, where: Where, reading: Reading) -> None:
    """The compiler quotes names and values: one that must not be shown is not let near it."""
    place, is_secret, marked = _place_of(problem, node, where)
    if is_secret:
        reading.problem(place, f"the expression in {MASK} can't be used", "write ${event.field}, or $$ for a dollar")
    else:
        reading.foreign(place, problem.problem, reading.hint_with_item(problem.hint, problem.problem, marked))


def _place_of(problem: FilterProblem, node: Node, where: Where) -> tuple[Place, bool, str]:
    """Where the path leads: to the value for an item or an offset in a text, else to the key. Whether what stands
    there is a secret, and the part of the text that is wrong."""
    place = where.owner
    for step in problem.path[1:]:
        if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            place = node.place
            where = where.item(step, place)
        elif isinstance(node, Mapping) and str(step) in node.entries:
            entry = node.entries[str(step)]
            node, place = entry.value, entry.key.place
            where = where.field(str(step), place)
        else:
            return place, False, ""
    if not isinstance(node, Scalar):
        return place, False, ""
    is_secret = is_hidden(node, where) and not is_only_a_reference(node.text)
    if problem.at is None:
        return place, is_secret, ""
    marked = node.text[problem.at : problem.at + problem.width]
    return place_of_offset(node, problem.at, problem.width), is_secret, marked
