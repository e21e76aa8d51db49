"""What compiled conditions are put together from: phrases of Python, and the functions that they call.

The source of a condition consists of these phrases and of names that we number ourselves. Literals, names of fields and
everything else that people write are values in the functions' closures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.language.calls import call
from bridge.language.ir import Expr
from bridge.language.trace import verdict
from bridge.language.values import Fail, Truth, Value, any_of, equal, less, less_or_equal, truth_of
from bridge.language.view import View

FAIL: Final = Fail("an error")
"""What a compiled condition answers for every error; the interpreter finds the words."""

MOST_ITEMS: Final = 1000
"""Items of a list that a compiled macro walks; longer ones are left to the interpreter, which counts what it does."""


class Inexact(Exception):
    """Only the interpreter can tell: a float equals what it is compared with, and only the digits that were written say
    whether the numbers do; or the work has to be counted."""


# Each takes `e`, an expression for a value, and `v`, a name to keep it in; `k` and `f` are names of literals.

TEXT_EQUALS: Final = "({v} == {k} if ({v} := {e}).__class__ is str else None if {v} is None else FAIL)"
TEXT_IN: Final = "({v} in {k} if ({v} := {e}).__class__ is str else None if {v} is None else FAIL)"
TRUTH_IN: Final = "({v} in {k} if ({v} := {e}).__class__ is bool else None if {v} is None else FAIL)"
NUMBER_IN: Final = (
    "({v} in {k} if (c := ({v} := {e}).__class__) is int else ({v} in {f} and inexact()) if c is float"
    " else None if {v} is None else FAIL)"
)
COMPARES: Final = (
    "({v} {op} {k} if (c := ({v} := {e}).__class__) is int else ({v} {op} {k} if {v} != {k} else inexact())"
    " if c is float else None if {v} is None else FAIL)"
)
COMPARES_FRACTION: Final = (
    "(({v} {op} {k} if {v} != {k} else inexact()) if (c := ({v} := {e}).__class__) is int or c is float"
    " else None if {v} is None else FAIL)"
)
COMPARES_TEXT: Final = "({v} {op} {k} if ({v} := {e}).__class__ is str else None if {v} is None else FAIL)"
TEXT_CALLS: Final = {
    "startsWith": "({v}.startswith({k}) if ({v} := {e}).__class__ is str else None if {v} is None else FAIL)",
    "endsWith": "({v}.endswith({k}) if ({v} := {e}).__class__ is str else None if {v} is None else FAIL)",
    "contains": "({k} in {v} if ({v} := {e}).__class__ is str else None if {v} is None else FAIL)",
}
ORDERS: Final = {
    "==": "truth(equal({left}, {right}))",
    "<": "truth(less({left}, {right}))",
    "<=": "truth(less_or_equal({left}, {right}))",
    ">": "truth(less({right}, {left}))",
    ">=": "truth(less_or_equal({right}, {left}))",
}


def interpreting(node: Expr) -> Callable[[Any, View | None], Truth]:
    """A condition, or a part of one, that is left to the interpreter."""

    def ask(_: object, view: View | None) -> Truth:
        assert view is not None
        return _alike(verdict(node, view))

    return ask


def _inexact() -> bool:
    raise Inexact


def _exact(value: Value) -> Value:
    """A value that an operation may look into: no number that is the nearest float only."""
    if value.__class__ in (float, list, dict):
        raise Inexact
    return value


def _alike(truth: Truth) -> Truth:
    """Errors are all alike here."""
    return FAIL if isinstance(truth, Fail) else truth


def _truth(value: Value) -> Truth:
    return _alike(truth_of(value))


def _negated(truth: Truth) -> Truth:
    return not truth if truth is True or truth is False else truth


def _settled(*truths: Truth) -> Truth:
    """Of parts of an AND of which none is False, or of an OR of which none is True, and not all alike."""
    return FAIL if FAIL in truths else None


def _step(value: Value, name: str) -> Value:
    return value.get(name) if isinstance(value, Mapping) else None


def look(view: View, root: str, path: tuple[str, ...]) -> Value:
    """A field of a root other than the event."""
    value: Value = view[root]
    for name in path:
        value = _step(value, name)
    return value


def _some(over: Value, body: Callable[[Value], Truth]) -> Truth:
    """`exists`"""
    return _walk(over, body, until=True)


def _every(over: Value, body: Callable[[Value], Truth]) -> Truth:
    """`all`"""
    return _walk(over, body, until=False)


def _walk(over: Value, body: Callable[[Value], Truth], *, until: bool) -> Truth:
    if over is None:
        return None
    if not isinstance(over, (list, dict)):
        return FAIL
    if len(over) > MOST_ITEMS:
        raise Inexact
    found: Truth = not until
    for item in over:
        truth = body(item)
        if truth is until:
            return until
        if truth is not found and found is not FAIL:
            found = FAIL if truth is FAIL else None if truth is None else found
    return found


TOOLS: Final[dict[str, object]] = {
    "__builtins__": {},
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "FAIL": FAIL,
    "inexact": _inexact,
    "exact": _exact,
    "negated": _negated,
    "settled": _settled,
    "truth": _truth,
    "step": _step,
    "look": look,
    "some": _some,
    "every": _every,
    "any_of": any_of,
    "call": call,
    "equal": equal,
    "less": less,
    "less_or_equal": less_or_equal,
}
"""All that a compiled condition can reach."""
