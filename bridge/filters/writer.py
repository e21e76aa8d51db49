"""Writes a condition as Python: `phrases.py` has what its source consists of, `compiled.py` what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, Protocol

from bridge.filters.phrases import (
    COMPARES,
    COMPARES_FRACTION,
    COMPARES_TEXT,
    NUMBER_IN,
    ORDERS,
    TEXT_CALLS,
    TEXT_EQUALS,
    TEXT_IN,
    TRUTH_IN,
    interpreting,
)
from bridge.language.functions import EXACT, FUNCTIONS, TEXTUAL
from bridge.language.ir import (
    AllOf,
    AnyOf,
    Call,
    Compare,
    Const,
    Each,
    Expr,
    Field,
    Has,
    Not,
    OneOf,
    Path,
    Select,
)
from bridge.language.uses import nodes_of
from bridge.language.values import Duration, Timestamp

MOST_MACROS: Final = 8
LARGEST_BODY: Final = 100
"""Nodes of a macro's body, and macros of a condition, whose work need not be counted: see `interpreter.MOST_WORK`."""

_UNBOUNDED: Final = frozenset({"+", "*", "string"})
"""Functions that may make more than they are given: left to the interpreter, which bounds what they make."""


class Fields(Protocol):
    """How a condition reads a field of the event."""

    def phrase(self, path: Path) -> tuple[str, tuple[str, ...]] | None:
        """An expression over `e`, with `{0}`, `{1}` for the names given beside it. None: ask the interpreter."""
        ...

    def presence(self, path: Path) -> str | None:
        """An expression over `e` that is true where the field is there and not null. None: ask the interpreter."""
        ...


class Writer:
    """Writes one condition. Names of literals are `k0`, `k1`, ..., of what is kept `a1`, `a2`, of an item `i`."""

    def __init__(self, fields: Fields) -> None:
        self.literals: list[object] = []
        self.needs_view = False
        self._fields = fields
        self._functions: list[str] = []
        self._kept = 0
        self._item: str | None = None  # what the macro that is being written calls its item
        self._is_whole = True  # nothing was left to the interpreter since this was set
        self._macros = 0

    def source(self, node: Expr) -> str:
        """A function `make` of the literals, which returns the condition: a function of `e` and `w`, the view."""
        name = self._group(node)
        arguments = ", ".join(f"k{i}" for i in range(len(self.literals)))
        return f"def make({arguments}):\n{''.join(self._functions)}    return {name}\n"

    # Truth ------------------------------------------------------------------------------------------------------------

    def _group(self, node: Expr) -> str:
        """A function of its own for a node; returns its name."""
        if isinstance(node, AllOf | OneOf):
            lines = list(_in_turn([self._truth(part) for part in node.parts], is_all=isinstance(node, AllOf)))
        else:
            lines = [f"return {self._truth(node)}"]
        name = f"g{len(self._functions)}"
        text = "".join(f"        {line}\n" for line in lines)
        self._functions.append(f"    def {name}(e, w):\n{text}")
        return name

    def _truth(self, node: Expr) -> str:
        """An expression that is True, False, None or FAIL."""
        return self._written(node) or self._interpreted(node)

    def _written(self, node: Expr) -> str | None:
        match node:
            case AllOf(parts) | OneOf(parts):
                if self._item is None:
                    return f"{self._group(node)}(e, w)"
                return self._inline([self._truth(part) for part in parts], is_all=isinstance(node, AllOf))
            case Not(part):
                return f"negated({self._truth(part)})"
            case Has(field):
                return self._has(field)
            case AnyOf(of, values):
                return self._any_of(of, values)
            case Compare(op, left, right):
                return self._compares(op, left, right)
            case Call(name, (of, Const(str() as text))) if name in TEXT_CALLS:
                read = self._value(of)
                return self._phrase(TEXT_CALLS[name], read, text) if read else None
            case Call(name) if FUNCTIONS[name].gives == "bool":
                value = self._value(node)
                return f"truth({value})" if value else None
            case Each("exists" | "all" as kind, over, var, body) if self._item is None:
                return self._macro(kind, over, var, body)
            case _:
                return None

    def _has(self, field: Field | Expr) -> str | None:
        if isinstance(field, Field) and field.root == "event":
            return self._fields.presence(field.path) if field.path and self._item is None else None
        value = self._value(field)
        return f"({value} is not None)" if value else None

    def _any_of(self, of: Expr, values: tuple[object, ...]) -> str | None:
        read = self._value(of)
        if read is None:
            return None
        kinds = {bool if isinstance(v, bool) else str if isinstance(v, str) else int for v in values}
        if len(kinds) > 1:
            return f"truth(any_of(exact({read}), {self._name(values)}))"
        if kinds == {str}:
            one = len(values) == 1
            return self._phrase(TEXT_EQUALS if one else TEXT_IN, read, values[0] if one else frozenset(values))
        if kinds == {bool}:
            return self._phrase(TRUTH_IN, read, frozenset(values))
        try:
            floats = frozenset(float(v) for v in values if isinstance(v, (int, Decimal)))
        except OverflowError:
            return None
        return self._phrase(NUMBER_IN, read, frozenset(values), f=self._name(floats))

    def _compares(self, op: str, left: Expr, right: Expr) -> str | None:
        read = self._value(left)
        if read is None:
            return None
        if isinstance(right, Const) and op != "==":
            limit = right.value
            if isinstance(limit, str):
                return self._phrase(COMPARES_TEXT, read, limit, op=op)
            if isinstance(limit, int) and not isinstance(limit, bool):
                return self._phrase(COMPARES, read, limit, op=op)
            if isinstance(limit, Decimal):
                near = float(limit)
                is_near = near not in (float("inf"), float("-inf"))
                return self._phrase(COMPARES_FRACTION, read, near, op=op) if is_near else None
        other = self._value(right)
        return ORDERS[op].format(left=f"exact({read})", right=f"exact({other})") if other else None

    def _macro(self, kind: str, over: Expr, var: str, body: Expr) -> str | None:
        """What a macro's items are asked is asked of them alone: each part of an event is looked at once."""
        if sum(1 for _ in nodes_of(body)) > LARGEST_BODY:
            return None
        read = self._value(over)
        if read is None:
            return None
        before = len(self.literals), self.needs_view
        self._item = var
        self._macros += 1
        written = self._wholly(body)
        self._item = None
        if written is None or self._macros > MOST_MACROS:
            del self.literals[before[0] :]
            self.needs_view = before[1]
            return None
        return f"{'some' if kind == 'exists' else 'every'}({read}, lambda i: {written})"

    def _wholly(self, body: Expr) -> str | None:
        """The body of a macro; None if any part of it would be left to the interpreter, which knows no item of ours."""
        self._is_whole = True
        written = self._truth(body)
        return written if self._is_whole else None

    def _inline(self, parts: Sequence[str], *, is_all: bool) -> str:
        """An AND or OR as one expression."""
        until, otherwise = ("False", "True") if is_all else ("True", "False")
        names = []
        asked = ""
        for part in parts:
            self._kept += 1
            names.append(f"a{self._kept}")
            asked += f"{until} if (a{self._kept} := {part}) is {until} else "
        alike = " and ".join(f"{name} is {otherwise}" for name in names)
        return f"({asked}{otherwise} if {alike} else settled({', '.join(names)}))"

    # Values -----------------------------------------------------------------------------------------------------------

    def _value(self, node: Expr) -> str | None:
        """An expression for a value. None: the interpreter must say."""
        match node:
            case Const(value) if isinstance(value, (str, int, Decimal, Timestamp, Duration)):
                return self._name(value)
            case Field(root, path) if root == self._item:
                return self._steps("i", path)
            case Field() if self._item is not None:
                return None  # what is outside of a list would be looked at again for each of its items
            case Field("event", path):
                found = self._fields.phrase(path) if path else None
                return found[0].format(*map(self._name, found[1])) if found else None
            case Field(root, path):
                self.needs_view = True
                return f"look(w, {self._name(root)}, {self._name(path)})"
            case Select(of, name):
                value = self._value(of)
                return self._steps(value, (name,)) if value else None
            case Call(name, args):
                return self._call(name, args)
            case _:
                return None

    def _call(self, name: str, args: tuple[Expr, ...]) -> str | None:
        if name in _UNBOUNDED or name == "in" or (self._item is not None and name not in TEXTUAL):
            return None
        values = [value for arg in args if (value := self._value(arg)) is not None]
        if len(values) < len(args):
            return None
        given = values if name in EXACT or name == "default" else [f"exact({value})" for value in values]
        return f"call({self._name(name)}, ({''.join(f'{value}, ' for value in given)}))"

    def _steps(self, value: str, path: Path) -> str:
        for name in path:
            value = f"step({value}, {self._name(name)})"
        return value

    def _phrase(self, phrase: str, read: str, value: object, **more: str) -> str:
        self._kept += 1
        return phrase.format(v=f"a{self._kept}", e=read, k=self._name(value), **more)

    def _interpreted(self, node: Expr) -> str:
        self._is_whole = False
        self.needs_view = True
        return f"{self._name(interpreting(node))}(e, w)"

    def _name(self, value: object) -> str:
        self.literals.append(value)
        return f"k{len(self.literals) - 1}"


def _in_turn(parts: Sequence[str], *, is_all: bool) -> Iterator[str]:
    """Lines that end at the first part that decides; else all must say the other, or something is unknown or wrong."""
    until, otherwise = ("False", "True") if is_all else ("True", "False")
    for number, part in enumerate(parts):
        yield f"r{number} = {part}"
        yield f"if r{number} is {until}: return {until}"
    names = [f"r{number}" for number in range(len(parts))]
    if names:
        yield f"if {' and '.join(f'{name} is {otherwise}' for name in names)}: return {otherwise}"
        yield f"return settled({', '.join(names)})"
    else:
        yield f"return {otherwise}"
