"""The `match:` block of a watcher, compiled to the typed form.

    match:
      region: [eu, uk]                       any of these
      customer: {tier: gold}                 a field of a field
      amount: {">": 100, "<=": 500}          operators: all of them
      name: [b, {prefix: a}]                 values and operators in a list: any of them
      any_of: [{express: true}, {tier: x}]   one of these blocks

A mapping that holds nothing but operators is never taken for fields of those names, unless what stands behind one is a
block of fields; nor are operators of other systems, and such as are misspelled. What each means is in operations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from bridge.decode.json import MAX_DEPTH
from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import AnyOf, Expr, Field, Path
from bridge.language.reading.operations import (
    NOTHING,
    SIGNS,
    Made,
    Refused,
    Values,
    as_condition,
    equality,
    foreign_hint,
    is_block,
    is_foreign,
    is_operation,
    is_sign,
    is_unicode,
    named,
    operation,
)
from bridge.language.reading.operators import joined
from bridge.language.reading.scope import is_readable

MOST_VALUES: Final = 10_000
"""Values and mappings of a block."""

MOST_CHOICES: Final = 30
"""Levels of `any_of` in `any_of`, each of which makes two of the typed form."""


def compile_match(block: object, *, key: str = "match") -> Expr:
    """The condition that a parsed block asks for. `key` is what the block is called where it stands.

    Raises FilterError with every problem of the block.
    """
    compiler = _Compiler(key)
    try:
        parts = compiler.block(block)
    except _TooLarge:
        parts = []
    if compiler.problems:
        raise FilterError(compiler.problems)
    return joined("all", tuple(parts), None)


class _TooLarge(Exception):
    """The block is not read to its end; its problem has been noted."""


class _Spot(Struct, frozen=True):
    """Where we are: `steps` lead there from the block's key, `path` is the field of the event.

    `choices` counts the `any_of` around it.
    """

    steps: tuple[str | int, ...] = ()
    path: Path = ()
    choices: int = 0

    def field(self, name: str) -> _Spot:
        return _Spot((*self.steps, name), (*self.path, name), self.choices)

    def step(self, step: str | int) -> _Spot:
        return _Spot((*self.steps, step), self.path, self.choices + (step == "any_of"))


class _Compiler:
    """Walks a block, makes a part for each thing that it asks, and notes what is wrong on the way."""

    def __init__(self, key: str) -> None:
        self.problems: list[FilterProblem] = []
        self._key = key
        self._count = 0

    def block(self, block: object) -> list[Expr]:
        if isinstance(block, Mapping) and block:
            return self._fields(_Spot(), block)
        if isinstance(block, Mapping):
            hint = f"name a field, or leave `{self._key}` out"
            return self._note(_Spot(), f"`{self._key}` is empty", hint)
        hint = f"write a mapping of fields: {self._key}: {{region: [eu, uk]}}"
        return self._note(_Spot(), f"`{self._key}` is {named(block)}", hint)

    # Fields and operators ---------------------------------------------------------------------------------------------

    def _fields(self, spot: _Spot, fields: Mapping[object, object]) -> list[Expr]:
        self._counted(spot)
        return [part for name, value in fields.items() for part in self._entry(spot, name, value)]

    def _entry(self, spot: _Spot, name: object, value: object) -> list[Expr]:
        if not isinstance(name, str):
            at = spot.step(name if isinstance(name, int) else str(name))
            return self._note(at, f"a field's name is text, not {named(name)}", "put it in quotes")
        if name in SIGNS:
            hint = f'put it behind the field that it is for: amount: {{"{name}": 100}}'
            return self._note(spot.step(name), f"the operator `{name}` without a field", hint)
        if is_sign(name):
            return self._no_operator(spot, [name])
        if name == "any_of":
            return self._choice(spot.step(name), value)
        if not is_readable(name) or not is_unicode(name):
            return self._note(spot.step(name), "a field's name can't hold quotes, backslashes or control characters")
        return self._field(spot.field(str(name)), value)

    def _field(self, spot: _Spot, value: object) -> list[Expr]:
        """What is asked of the field at the spot."""
        if isinstance(value, Mapping):
            return self._mapping(spot, value)
        if isinstance(value, list):
            return self._choice(spot, value)
        return self._asked(spot, value, equality(Field("event", spot.path), value))

    def _mapping(self, spot: _Spot, mapping: Mapping[object, object]) -> list[Expr]:
        if not mapping:
            return self._note(spot, "an empty block says nothing about the field", "name a field of it, or a value")
        if len(spot.path) >= MAX_DEPTH:
            return self._note(spot, f"nested deeper than {MAX_DEPTH} levels, which no event is")
        operators = [str(name) for name, operand in mapping.items() if is_operation(name, operand)]
        foreign = [str(name) for name, operand in mapping.items() if is_foreign(name, operand)]
        if any(map(is_sign, foreign)) or (foreign and len(operators) + len(foreign) == len(mapping)):
            return self._no_operator(spot, foreign)
        if len(operators) == len(mapping):
            self._counted(spot)
            return [part for name in operators for part in self._operation(spot.step(name), name, mapping[name])]
        if operators:
            other = next(str(name) for name, operand in mapping.items() if not is_operation(name, operand))
            both = f"{as_condition(spot.path, operators[0])} && {as_condition((*spot.path, other))}"
            problem = f"the operator `{operators[0]}` beside the field `{other[:40]}`"
            return self._note(spot.step(operators[0]), problem, f"with both it is a condition, `when: {both}`")
        return self._fields(spot, mapping)

    def _no_operator(self, spot: _Spot, names: list[str]) -> list[Expr]:
        for name in names:
            self._note(spot.step(name), f"there is no operator `{name[:40]}`", foreign_hint(spot.path, name))
        return []

    def _operation(self, spot: _Spot, name: str, operand: object) -> list[Expr]:
        if name == "any_of":
            return self._choice(spot, operand)
        return self._asked(spot, operand, operation(name, Field("event", spot.path), operand))

    def _asked(self, spot: _Spot, operand: object, made: Made) -> list[Expr]:
        self._counted(spot, len(operand) if isinstance(operand, list) else 1)
        if not isinstance(made, tuple):
            return [made]
        for refused in made:
            self._refuse(spot, refused)
        return []

    # Choices ----------------------------------------------------------------------------------------------------------

    def _choice(self, spot: _Spot, value: object) -> list[Expr]:
        """One of a list. Its values are one part of the choice, at the place of the first."""
        if not isinstance(value, list):
            hint = "like any_of: [{region: eu}, {express: true}]"
            return self._note(spot, f"`any_of` takes a list, not {named(value)}", hint)
        if not value:
            return self._note(spot, NOTHING.problem, NOTHING.hint)
        if spot.choices > MOST_CHOICES:
            return self._note(spot, f"`any_of` nested deeper than {MOST_CHOICES} levels")
        before = len(self.problems)
        parts: dict[int, Expr] = {}
        values, first = Values(), len(value)
        for index, item in enumerate(value):
            self._counted(spot.step(index))
            if isinstance(item, Mapping):
                below = self._alternative(spot.step(index), item, is_any_of=spot.steps[-1] == "any_of")
                parts[index] = joined("all", tuple(below), None)
                continue
            first = min(first, index)
            refused = values.add(item, index) if spot.path else _no_block(item, index)
            if refused is not None:
                self._refuse(spot, refused)
        if len(self.problems) > before:
            return []
        if values.values:
            parts[first] = AnyOf(Field("event", spot.path), tuple(values.values))
        return [joined("any", tuple(parts[index] for index in sorted(parts)), None)]

    def _alternative(self, spot: _Spot, block: Mapping[object, object], *, is_any_of: bool) -> list[Expr]:
        if spot.path and is_block(block) and not is_any_of and not all(is_foreign(*entry) for entry in block.items()):
            hint = "a choice between blocks is written any_of: [{…}, {…}]"
            return self._note(spot, "a block of fields in a list of values", hint)
        if spot.path or not block:
            return self._mapping(spot, block)
        return self._fields(spot, block)

    # Notes ------------------------------------------------------------------------------------------------------------

    def _counted(self, spot: _Spot, count: int = 1) -> None:
        self._count += count
        if self._count > MOST_VALUES:
            self._note(spot, f"more than {MOST_VALUES:,} values in one block", "split it into several watchers")
            raise _TooLarge

    def _refuse(self, spot: _Spot, refused: Refused) -> None:
        at = spot if refused.item is None else spot.step(refused.item)
        self._note(at, refused.problem, refused.hint)

    def _note(self, spot: _Spot, problem: str, hint: str = "") -> list[Expr]:
        self.problems.append(FilterProblem((self._key, *spot.steps), problem, hint))
        return []


def _no_block(item: object, index: int) -> Refused:
    return Refused(f"{named(item)} is no block of fields", "a value stands behind its field: {region: eu}", index)
