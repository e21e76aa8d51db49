"""From how an expression is written to what it means: a function for each form that it can have.

Names are looked up, kinds checked, and what can be written in several ways is made one. Reading goes on behind a
problem, so that all of them are reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, Literal, cast

from bridge.language.errors import FilterError, FilterProblem
from bridge.language.functions import Kind
from bridge.language.ir import Const, Expr, Field, If, Item, Not, Select
from bridge.language.numbers import negative
from bridge.language.reading import checks
from bridge.language.reading.calling import called, read_call, read_method
from bridge.language.reading.checks import Complaint
from bridge.language.reading.lowering import How, Lowering, Path, below, is_any_broken
from bridge.language.reading.operators import Op, comparison, joined, listing, membership
from bridge.language.reading.scope import Scope, Wrong, did_you_mean, listed
from bridge.language.reading.syntax import Syntax, What, Word, parsed
from bridge.language.reading.typed import Typed, constant
from bridge.language.values import kind_of


def lowered(text: str, scope: Scope, path: Path, offset: int, *, is_condition: bool) -> Expr:
    """Raises FilterError with every problem that can be found."""
    try:
        syntax = parsed(text)
    except FilterError as error:
        raise FilterError(_moved(problem, path, offset) for problem in error.problems) from None
    lowering = Lowering(text, path, offset, _HOW)
    typed = lowering.condition(syntax, scope) if is_condition else lowering.part(syntax, scope)
    if lowering.problems:
        raise FilterError(sorted(lowering.problems, key=lambda problem: problem.at or 0))
    return typed.node


def _moved(problem: FilterProblem, path: Path, offset: int) -> FilterProblem:
    return FilterProblem(path, problem.problem, problem.hint, offset + (problem.at or 0), problem.width)


_NOWHERE: Final = object()

# Values ---------------------------------------------------------------------------------------------------------------


def _literal(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    return lowering.made(Const(syntax.value, at=lowering.at(syntax.start)), kind_of(syntax.value), syntax)


def _null(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    hint = "whether a field is there, and not null, is has(event.a); a value in its place default(event.a, 0)"
    return lowering.refused(syntax, Complaint("`null` equals nothing", hint))


def _path(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    found = scope.find(syntax.words, lowering.at(syntax.start), lowering.text[: syntax.start])
    if isinstance(found, Wrong):
        return lowering.refused(found.word, Complaint(found.problem, found.hint))
    return lowering.made(found.node, found.kind, syntax)


def _list(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    items = lowering.parts(syntax, scope)
    if is_any_broken(*items):
        return lowering.broken(syntax)
    node = listing(tuple(item.node for item in items), lowering.at(syntax.start))
    return lowering.made(node, "list", syntax, below(*items))


def _dot(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    of, name = lowering.part(syntax.parts[0], scope), syntax.words[0]
    if of.is_broken:
        return of
    if of.kind not in ("mapping", "any"):
        return lowering.refused(name, Complaint(f"{checks.in_words(of.kind)} has no fields", ""))
    at = lowering.at(syntax.start)
    if isinstance(of.node, Const) and isinstance(of.node.value, Mapping):
        return _picked(lowering, syntax, of.node.value, name.text, name)
    if isinstance(of.node, Field):
        return lowering.made(Field(of.node.root, (*of.node.path, name.text), at=at), "any", syntax)
    return lowering.made(Select(of.node, name.text, at=at), "any", syntax, below(of))


def _index(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    of, key = lowering.parts(syntax, scope)
    if is_any_broken(of, key):
        return lowering.broken(syntax)
    complaint = checks.about_index(of, key)
    if complaint is not None:
        return lowering.refused(key, complaint)
    if isinstance(of.node, Const) and isinstance(key.node, Const) and isinstance(of.node.value, (Mapping, tuple)):
        return _picked(lowering, syntax, of.node.value, key.node.value, key)
    return lowering.made(Item(of.node, key.node, at=lowering.at(syntax.start)), "any", syntax, below(of, key))


def _picked(
    lowering: Lowering,
    syntax: Syntax,
    of: Mapping[str, object] | Sequence[object],
    key: object,
    place: Word | Typed,
) -> Typed:
    """An item of a literal, which is one for every event."""
    if isinstance(of, Mapping):
        value = of.get(key, _NOWHERE) if isinstance(key, str) else _NOWHERE
    else:
        value = of[key] if isinstance(key, int) and key < len(of) else _NOWHERE
    if value is _NOWHERE:
        hint = did_you_mean(str(key), of, f"it has {listed(of)}") if isinstance(of, Mapping) else f"it has {len(of)}"
        return lowering.refused(place, Complaint("there is no such item", hint))
    return lowering.made(Const(constant(value), at=lowering.at(syntax.start)), kind_of(value), syntax)


# Operators ------------------------------------------------------------------------------------------------------------


def _prefixed(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    is_not = syntax.words[0].text == "!"
    inner = syntax.parts[0]
    part = lowering.condition(inner, scope) if is_not else lowering.part(inner, scope)
    for sign in reversed(syntax.words):
        if part.is_broken:
            return lowering.broken(syntax)
        span = Word(sign.text, sign.start, syntax.end)
        at = lowering.at(sign.start)
        part = (
            lowering.made(Not(part.node, at=at), "bool", span, below(part)) if is_not else _minus(lowering, part, span)
        )
    return part


def _minus(lowering: Lowering, part: Typed, span: Word) -> Typed:
    at = lowering.at(span.start)
    if isinstance(part.node, Const) and isinstance(part.node.value, (int, Decimal)) and part.kind == "number":
        number = negative(part.node.value)
        assert isinstance(number, (int, Decimal))
        return lowering.made(Const(number, at=at), "number", span)
    return called(lowering, "neg", (part,), span)


def _operations(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    """A chain from the left: `a - b - c` is `(a - b) - c`."""
    null = next((part for part in syntax.parts if part.what == "null"), None)
    if null is not None and syntax.words[0].text in ("==", "!="):
        return lowering.refused(syntax, _about_null(lowering, syntax, null))
    whole = lowering.part(syntax.parts[0], scope)
    for sign, following in zip(syntax.words, syntax.parts[1:], strict=True):
        part = lowering.part(following, scope)
        span = Word(sign.text, syntax.start, part.end)
        whole = _operated(lowering, sign.text, whole, part, span)
    return whole


def _about_null(lowering: Lowering, syntax: Syntax, null: Syntax) -> Complaint:
    other = next((part for part in syntax.parts if part is not null), null)
    field = lowering.text[other.start : other.end]
    return Complaint("`null` equals nothing", f"write {'!' * (syntax.words[0].text == '==')}has({field})")


def _operated(lowering: Lowering, sign: str, left: Typed, right: Typed, span: Word) -> Typed:
    if is_any_broken(left, right):
        return lowering.broken(span)
    if sign in "+-*/%":
        return called(lowering, sign, (left, right), span)
    is_in = sign == "in"
    complaint = checks.about_membership(left, right) if is_in else checks.about_comparison(sign, left, right)
    if complaint is not None:
        return lowering.refused(span, complaint)
    at = lowering.at(span.start)
    node = membership(left.node, right.node, at) if is_in else comparison(cast(Op, sign), left.node, right.node, at)
    return lowering.made(node, "bool", span, below(left, right) + isinstance(node, Not))


def _joined(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    parts = [lowering.condition(part, scope) for part in syntax.parts]
    if is_any_broken(*parts):
        return lowering.broken(syntax)
    node = joined(
        cast(Literal["all", "any"], syntax.what), tuple(part.node for part in parts), lowering.at(syntax.start)
    )
    depth = max(part.depth - (type(part.node) is type(node)) for part in parts)
    return lowering.made(node, "bool", syntax, 1 + depth)


def _choice(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    """`a ? b : c ? d : e` is `a ? b : (c ? d : e)`."""
    tests = [lowering.condition(part, scope) for part in syntax.parts[:-1:2]]
    values = [lowering.part(part, scope) for part in syntax.parts[1::2]]
    whole = lowering.part(syntax.parts[-1], scope)
    for test, then in zip(reversed(tests), reversed(values), strict=True):
        span = Word("?", test.start, syntax.end)
        if is_any_broken(test, then, whole):
            return lowering.broken(syntax)
        kind: Kind = then.kind if then.kind == whole.kind else "any"
        node = If(test.node, then.node, whole.node, at=lowering.at(test.start))
        whole = lowering.made(node, kind, span, below(test, then, whole))
    return whole


_HOW: Final[dict[What, How]] = {
    "literal": _literal,
    "null": _null,
    "path": _path,
    "list": _list,
    "dot": _dot,
    "index": _index,
    "call": read_call,
    "method": read_method,
    "prefixed": _prefixed,
    "operations": _operations,
    "all": _joined,
    "any": _joined,
    "choice": _choice,
}
