"""Functions and macros of an expression, on the way to the typed form."""

from __future__ import annotations

from typing import Final, Literal, cast

from bridge.language.calls import call
from bridge.language.functions import MACROS
from bridge.language.ir import Call, Const, Each, Expr, Field, Has, Item, Select
from bridge.language.reading import checks
from bridge.language.reading.checks import Complaint
from bridge.language.reading.lowering import Lowering, below, is_any_broken
from bridge.language.reading.names import about_count, about_name
from bridge.language.reading.scope import RESERVED, Scope
from bridge.language.reading.syntax import Syntax, Word
from bridge.language.reading.typed import Typed
from bridge.language.values import Duration, Fail, Timestamp, kind_of

_FOLDED: Final = frozenset({"timestamp", "duration"})
_ASKING: Final = frozenset({"exists", "all", "filter"})


def read_call(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    """`size(event.items)`"""
    name = syntax.words[0]
    if name.text == "has":
        return _has(lowering, syntax, scope)
    return _read(lowering, syntax, scope, is_method=False)


def read_method(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    """`event.name.lower()`, and macros"""
    if syntax.words[0].text in MACROS and syntax.words[0].text != "has":
        return _macro(lowering, syntax, scope)
    return _read(lowering, syntax, scope, is_method=True)


def _read(lowering: Lowering, syntax: Syntax, scope: Scope, *, is_method: bool) -> Typed:
    name = syntax.words[0]
    written = [lowering.text[part.start : part.end] for part in syntax.parts]
    complaint = about_name(name.text, is_method=is_method, written=written)
    if complaint is not None:
        return lowering.refused(name, complaint)
    args = lowering.parts(syntax, scope)
    complaint = about_count(name.text, len(args), is_method=is_method)
    if complaint is not None:
        return lowering.refused(syntax, complaint)
    return called(lowering, name.text, args, syntax)


def called(lowering: Lowering, name: str, args: tuple[Typed, ...], span: Syntax | Word) -> Typed:
    """A function or an operator of arguments that are as many as it takes."""
    if is_any_broken(*args):
        return lowering.broken(span)
    complaints = list(checks.about_arguments(name, args))
    for place, complaint in complaints:
        lowering.refused(span if place is None else args[place], complaint)
    if complaints:
        return lowering.broken(span)
    first = args[0]
    if name in _FOLDED and isinstance(first.node, Const):
        return _folded(lowering, name, first, span)
    if name == "default" and isinstance(first.node, Const):
        return args[1] if first.is_null else first
    node = Call(name, tuple(arg.node for arg in args), at=lowering.at(span.start))
    return lowering.made(node, checks.kind_of_result(name, [arg.kind for arg in args]), span, below(*args))


def _folded(lowering: Lowering, name: str, arg: Typed, span: Syntax | Word) -> Typed:
    """The timestamp or duration that a literal says, read once and not for each event."""
    assert isinstance(arg.node, Const)
    value = call(name, [arg.node.value])
    if isinstance(value, (Timestamp, Duration)):
        return lowering.made(Const(value, at=lowering.at(span.start)), kind_of(value), span)
    assert isinstance(value, Fail)
    return lowering.refused(arg, Complaint(value.message))


# Macros ---------------------------------------------------------------------------------------------------------------


def _has(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    if len(syntax.parts) != 1:
        return lowering.refused(
            syntax, Complaint("`has` takes one field between its brackets", f"like {MACROS['has']}")
        )
    part = lowering.part(syntax.parts[0], scope)
    if part.is_broken:
        return lowering.broken(syntax)
    at = lowering.at(syntax.start)
    if isinstance(part.node, (Field, Select, Item)):
        return lowering.made(Has(part.node, at=at), "bool", syntax, below(part))
    if isinstance(part.node, Const) and syntax.parts[0].what in ("path", "dot", "index"):  # of `each`
        return lowering.made(Const(not part.is_null, at=at), "bool", syntax)
    return lowering.refused(part, Complaint(f"`has` takes a field, not {part.shown}", f"like {MACROS['has']}"))


def _macro(lowering: Lowering, syntax: Syntax, scope: Scope) -> Typed:
    kind = cast(Literal["exists", "all", "filter", "map"], syntax.words[0].text)
    over = lowering.part(syntax.parts[0], scope)
    complaint = None if over.is_broken else _about_macro(kind, over, len(syntax.parts) - 1)
    if complaint is not None:
        return lowering.refused(syntax.words[0], complaint)
    variable = syntax.parts[1]
    complaint = _about_variable(kind, variable)
    if complaint is not None:
        return lowering.refused(variable, complaint)
    var = variable.words[0].text
    inner = scope.binding(var)
    is_asking = [kind in _ASKING] if len(syntax.parts) == 3 else [True, False]
    parts = [
        lowering.condition(part, inner) if asks else lowering.part(part, inner)
        for part, asks in zip(syntax.parts[2:], is_asking, strict=True)
    ]
    if is_any_broken(over, *parts):
        return lowering.broken(syntax)
    keep: Expr | None = parts[0].node if len(parts) == 2 else None
    node = Each(kind, over.node, var, parts[-1].node, keep, at=lowering.at(syntax.start))
    return lowering.made(node, "bool" if kind in ("exists", "all") else "list", syntax, below(over, *parts))


def _about_macro(kind: str, over: Typed, count: int) -> Complaint | None:
    if over.is_null:
        return Complaint(f"{over.shown} is null", "what is made of it is unknown")
    if over.kind not in ("list", "mapping", "any"):
        return Complaint(f"`{kind}` looks at the items of a list, and {over.shown} is {checks.in_words(over.kind)}")
    if kind == "exists" and count == 0:
        return Complaint("`exists` takes a name and a condition", f"whether the field is there: has({over.text})")
    if count == 2 or (kind == "map" and count == 3):
        return None
    return Complaint(f"`{kind}` takes a name and what is asked of it, not {count} values", f"like {MACROS[kind]}")


def _about_variable(kind: str, variable: Syntax) -> Complaint | None:
    if variable.what != "path" or len(variable.words) != 1:
        return Complaint(f"`{kind}` takes a name for the item first", f"like {MACROS[kind]}")
    name = variable.words[0].text
    if name in RESERVED:
        return Complaint(f"`{name}` can't be the name of an item: it is a root", "call it `item`")
    return None
