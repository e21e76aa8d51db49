"""One evaluation of an expression, node by node; see `trace.py` for what it is asked through.

An AND ends at the first part that is false, an OR at the first that is true. Where it is traced, the parts behind are
asked as well, with a budget of their own, so that the value can't depend on it.

Outside of macros an evaluation is as long as its text, times what one node takes of the event. Macros multiply that,
and therefore have a budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol, assert_never

from msgspec import Struct

from bridge.language import wording
from bridge.language.calls import call, is_too_large
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
    If,
    Item,
    ListOf,
    Not,
    OneOf,
    Select,
)
from bridge.language.text import text_of_node
from bridge.language.values import (
    Fail,
    Meter,
    Truth,
    Value,
    any_of,
    equal,
    joined,
    less,
    less_or_equal,
    negation,
    undefined,
)

MOST_STEPS: Final = 10_000
"""Items that the macros of one evaluation look at, all together."""

MOST_WORK: Final = 500_000
"""Nodes that are evaluated within macros; what is compared, read and made there counts as well."""

MOST_TRACED: Final = 20
"""Items of a macro that a trace shows."""

_ROOM: Final = 2_000  # nodes within macros that a trace shows
_PER_UNIT: Final = 4096  # characters of two texts that are compared at the price of a node


class Roots(Protocol):
    """A View, or a mapping."""

    def __getitem__(self, root: str, /) -> Any: ...


class Traced(Struct, frozen=True):
    """A node, how it is written, its value for this event, and what that was made of; literals are left out.

    Of a macro the parts are the list, and then its body (behind its filter, if it has one) for each of the first 20
    items.
    """

    node: Expr
    text: str
    value: Value
    parts: tuple[Traced, ...]


class Budget:
    """What the macros of one evaluation may take, all together."""

    __slots__ = ("_steps", "meter")

    def __init__(self) -> None:
        self._steps = MOST_STEPS
        self.meter = Meter(MOST_WORK, Fail("the macros compare and compute more than one event may take"))

    def step(self) -> Fail | None:
        """Takes one item. A Fail where nothing is left."""
        self._steps -= 1
        if self._steps < 0:
            return Fail(f"more than {MOST_STEPS:,} steps in macros")
        return self.meter.spent if self.meter.left < 0 else None


class Walk:
    """Gives the value of an expression. `parts` collects what is traced; None: nothing is."""

    def __init__(self, roots: Roots, budget: Budget, parts: list[Traced] | None = None) -> None:
        self._roots = roots
        self._budget = budget
        self._spare = budget if parts is None else Budget()
        self._parts = parts
        self._room = _ROOM
        self._scope: dict[str, Value] = {}
        self._nesting = 0
        self._has_made_a_list = False

    def whole(self, node: Expr) -> Value:
        """The value of the whole expression."""
        value = self.value(node)
        return wording.of_size(node) if self._has_made_a_list and is_too_large(value) else value

    def truth(self, node: Expr) -> Truth:
        """The value of a part that must be true, false or unknown."""
        value = self.value(node)
        if value is None or isinstance(value, bool | Fail):
            return value
        return wording.of_truth(node, value)

    def value(self, node: Expr) -> Value:
        if self._nesting:
            self._budget.meter.left -= 1
        if self._parts is None or isinstance(node, Const):
            return self._evaluated(node)
        outer, parts = self._parts, list[Traced]()
        self._parts = parts
        value = self._evaluated(node)
        self._parts = outer
        outer.append(Traced(node, text_of_node(node), value, tuple(parts)))
        if self._nesting:
            self._room -= 1
        return value

    def _evaluated(self, node: Expr) -> Value:
        match node:
            case Field():
                return self._field(node)
            case Const():
                return node.value
            case AnyOf():
                return self._any_of(node)
            case Compare():
                return self._compare(node)
            case Call():
                return self._call(node)
            case AllOf():
                return self._join(node.parts, neutral=True)
            case OneOf():
                return self._join(node.parts, neutral=False)
            case Not():
                return negation(self.truth(node.part))
            case Has():
                return not isinstance(self.value(node.field), Fail | None)
            case Select():
                of = self.value(node.of)
                return of if isinstance(of, Fail) else _member(of, node.name)
            case Item():
                return self._item(node)
            case ListOf():
                return self._list(node)
            case If():
                test = self.truth(node.test)
                return self.value(node.then if test else node.other) if isinstance(test, bool) else test
            case Each():
                return self._each(node)
            case _:
                assert_never(node)

    def _field(self, node: Field) -> Value:
        value: Value
        if node.root in self._scope:
            value = self._scope[node.root]
        else:
            value = self._roots.get(node.root) if isinstance(self._roots, Mapping) else self._roots[node.root]
        for name in node.path:
            value = _member(value, name)
        return value

    def _item(self, node: Item) -> Value:
        """A number finds an item of a list, text a field of an object; anywhere else nothing is there."""
        of, key = self.value(node.of), self.value(node.key)
        truth = undefined(of, key)
        if truth is not True:
            return truth
        if isinstance(key, str):
            return _member(of, key)
        if isinstance(key, bool) or not isinstance(key, int | float | Decimal):
            return wording.of_key(node.key, key)
        if not isinstance(of, list | tuple) or not 0 <= key < len(of) or key != int(key):
            return None
        item: Value = of[int(key)]
        return item

    def _any_of(self, node: AnyOf) -> Truth:
        value = self.value(node.of)
        if self._nesting:
            self._budget.meter.left -= len(node.values) // 8
        truth = any_of(value, node.values)
        return wording.of_choice(node, value) if isinstance(truth, Fail) and truth is not value else truth

    def _compare(self, node: Compare) -> Truth:
        left, right = self.value(node.left), self.value(node.right)
        truth = undefined(left, right)
        if truth is not True:
            return truth
        meter = self._budget.meter if self._nesting else None
        if meter is not None and isinstance(left, str) and isinstance(right, str):
            meter.left -= min(len(left), len(right)) // _PER_UNIT
        match node.op:
            case "==":
                truth = equal(left, right, meter)
            case "<":
                truth = less(left, right)
            case "<=":
                truth = less_or_equal(left, right)
            case ">":
                truth = less(right, left)
            case ">=":
                truth = less_or_equal(right, left)
        return wording.of_comparison(node, left, right, truth) if isinstance(truth, Fail) else truth

    def _call(self, node: Call) -> Value:
        if node.name == "default":
            value = self.value(node.args[0])
            return value if value is not None else self.value(node.args[1])
        values = [self.value(arg) for arg in node.args]
        value = call(node.name, values, self._budget.meter if self._nesting else None)
        self._has_made_a_list |= isinstance(value, list)
        if isinstance(value, Fail) and undefined(*values) is True and value is not self._budget.meter.spent:
            return wording.of_call(node, values, value)
        return value

    def _list(self, node: ListOf) -> Value:
        values = [self.value(item) for item in node.items]
        truth = undefined(*values)
        self._has_made_a_list = True
        return values if truth is True else truth

    def _join(self, parts: Sequence[Expr], *, neutral: bool) -> Truth:
        """AND (nothing but true is neutral to it) or OR."""
        worst: Truth = neutral
        for place, part in enumerate(parts):
            truth = self.truth(part)
            if isinstance(truth, bool) and truth is not neutral:
                self._ask_for_the_record(parts[place + 1 :])
                return truth
            worst = joined(worst, truth, neutral)
        return worst

    def _ask_for_the_record(self, parts: Sequence[Expr]) -> None:
        if self._parts is not None:
            budget, self._budget = self._budget, self._spare
            for part in parts:
                self.value(part)
            self._budget = budget

    def _each(self, node: Each) -> Value:
        over = self.value(node.over)
        if not isinstance(over, list | tuple | Mapping):
            return over if isinstance(over, Fail | None) else wording.of_macro(node, over)
        outer = self._scope, self._parts
        self._scope = dict(self._scope)
        self._nesting += 1
        value = self._question(node, over) if node.kind in ("exists", "all") else self._selection(node, over)
        self._nesting -= 1
        self._scope, self._parts = outer
        return value

    def _question(self, node: Each, items: Iterable[Value]) -> Truth:
        """`exists` is an OR over the items, `all` an AND."""
        neutral = node.kind == "all"
        worst: Truth = neutral
        for number, item in enumerate(items):
            spent = self._turn_to(node.var, number, item)
            if spent is not None:
                return spent
            truth = self.truth(node.body)
            if isinstance(truth, bool) and truth is not neutral:
                return truth
            worst = joined(worst, truth, neutral)
        return worst

    def _selection(self, node: Each, items: Iterable[Value]) -> Value:
        """`filter` and `map`: a Fail if one of them is, else unknown if something is unknown of one."""
        keep, makes = (node.body, None) if node.kind == "filter" else (node.keep, node.body)
        found: list[Value] = []
        is_known = True
        self._has_made_a_list = True
        for number, item in enumerate(items):
            spent = self._turn_to(node.var, number, item)
            if spent is not None:
                return spent
            kept = self.truth(keep) if keep is not None else True
            value = self.value(makes) if makes is not None and kept is True else item
            if isinstance(kept, Fail) or isinstance(value, Fail):
                return kept if isinstance(kept, Fail) else value
            if kept is None or (kept and value is None and makes is not None):
                is_known = False
            elif kept:
                found.append(value)
        return found if is_known else None

    def _turn_to(self, var: str, number: int, item: Value) -> Fail | None:
        """Makes an item the value of the variable. A Fail where the budget is spent."""
        if number >= MOST_TRACED or self._room <= 0:
            self._parts = None
        self._scope[var] = item
        return self._budget.step()


def _member(of: Value, name: str) -> Value:
    """A field of an object; None where it has none, or is none."""
    return of.get(name) if isinstance(of, Mapping) else None
