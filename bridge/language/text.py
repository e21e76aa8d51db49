"""A node as the expression that it could have been written as: in traces, and where people are told of a clause.

Parentheses stand only where they are needed, and what comes out means the same when it is read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, assert_never

from bridge.language.functions import FUNCTIONS
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
from bridge.language.times import text_of_duration, text_of_timestamp
from bridge.language.values import Duration, Timestamp

# How near an operator is to its operands: what stands in the place of one needs brackets where it is less near.
_CHOICE, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_METHODS: Final = frozenset({"matches", *(name for name, f in FUNCTIONS.items() if f.form == "method")})


def text_of_node(node: Expr) -> str:
    """The text of a whole condition, or of one clause."""
    return _text(node, _CHOICE)


def _text(node: Expr, least: int) -> str:
    """The text of a node in a place where operators less near than `least` need brackets."""
    text, nearness = _written(node)
    return text if nearness >= least else f"({text})"


def _written(node: Expr) -> tuple[str, int]:
    match node:
        case Const():
            return _literal(node.value)
        case Field():
            return node.root + "".join(map(_step, node.path)), _MEMBER
        case Select():
            return _text(node.of, _MEMBER) + _step(node.name), _MEMBER
        case Item():
            return f"{_text(node.of, _MEMBER)}[{_text(node.key, _CHOICE)}]", _MEMBER
        case ListOf():
            return f"[{_listed(node.items)}]", _MEMBER
        case AnyOf() | Compare():
            return _relation(node, "=="), _RELATION
        case Not():
            return _negation(node.part)
        case AllOf():
            return _joined(node.parts, "&&", _AND, "true")
        case OneOf():
            return _joined(node.parts, "||", _OR, "false")
        case If():
            test, then = _text(node.test, _OR), _text(node.then, _OR)
            return f"{test} ? {then} : {_text(node.other, _CHOICE)}", _CHOICE
        case Call() | Has() | Each():
            return _call(node)
        case _:
            assert_never(node)


def _relation(node: AnyOf | Compare, equals: str) -> str:
    """`equals` is `==`, or `!=` for the contrary."""
    if isinstance(node, Compare):
        return f"{_text(node.left, _SUM)} {equals if node.op == '==' else node.op} {_text(node.right, _SUM)}"
    of = _text(node.of, _SUM)
    if len(node.values) == 1:
        return f"{of} {equals} {_text(Const(node.values[0]), _SUM)}"
    return f"{of} in [{', '.join(_literal(value)[0] for value in node.values)}]"


def _negation(part: Expr) -> tuple[str, int]:
    is_equality = isinstance(part, AnyOf) and len(part.values) == 1
    if is_equality or (isinstance(part, Compare) and part.op == "==" and not _is_list(part.right)):
        assert isinstance(part, (AnyOf, Compare))
        return _relation(part, "!="), _RELATION
    return f"!{_text(part, _UNARY if isinstance(part, Not) else _MEMBER)}", _UNARY


def _is_list(node: Expr) -> bool:
    return isinstance(node, ListOf) or (isinstance(node, Const) and isinstance(node.value, tuple))


def _joined(parts: tuple[Expr, ...], sign: str, nearness: int, empty: str) -> tuple[str, int]:
    if len(parts) < 2:
        return (_written(parts[0])) if parts else (empty, _MEMBER)
    return f" {sign} ".join(_text(part, nearness + 1) for part in parts), nearness


def _call(node: Call | Has | Each) -> tuple[str, int]:
    if isinstance(node, Has):
        return f"has({_text(node.field, _CHOICE)})", _MEMBER
    if isinstance(node, Each):
        inside = (node.body,) if node.keep is None else (node.keep, node.body)
        return f"{_text(node.over, _MEMBER)}.{node.kind}({node.var}, {_listed(inside)})", _MEMBER
    name, args = node.name, node.args
    match name:
        case "+" | "-":
            return f"{_text(args[0], _SUM)} {name} {_text(args[1], _PRODUCT)}", _SUM
        case "*" | "/" | "%":
            return f"{_text(args[0], _PRODUCT)} {name} {_text(args[1], _UNARY)}", _PRODUCT
        case "in":
            return f"{_text(args[0], _SUM)} in {_text(args[1], _SUM)}", _RELATION
        case "neg":
            is_neg = isinstance(args[0], Call) and args[0].name == "neg"
            return f"-{_text(args[0], _UNARY if is_neg else _MEMBER)}", _UNARY
    if name in _METHODS:
        return f"{_text(args[0], _MEMBER)}.{name}({_listed(args[1:])})", _MEMBER
    return f"{name}({_listed(args)})", _MEMBER


def _listed(nodes: tuple[Expr, ...]) -> str:
    return ", ".join(_text(node, _CHOICE) for node in nodes)


def _step(name: str) -> str:
    return f".{name}" if _NAME.fullmatch(name) else f"[{json.dumps(name, ensure_ascii=False)}]"


def _literal(value: object) -> tuple[str, int]:
    """Null and objects come from `each` only, and can't be read again."""
    match value:
        case bool():
            return ("true" if value else "false"), _MEMBER
        case str():
            return json.dumps(value, ensure_ascii=False), _MEMBER
        case int():
            return str(value), _UNARY if value < 0 else _MEMBER
        case Decimal():
            return _decimal(value), _UNARY if value.is_signed() else _MEMBER
        case Timestamp():
            return f'timestamp("{text_of_timestamp(value)}")', _MEMBER
        case Duration():
            return f'duration("{text_of_duration(value)}")', _MEMBER
        case list() | tuple():
            return f"[{', '.join(_literal(item)[0] for item in value)}]", _MEMBER
        case Mapping():
            fields = (f"{json.dumps(name, ensure_ascii=False)}: {_literal(below)[0]}" for name, below in value.items())
            return f"{{{', '.join(fields)}}}", _MEMBER
        case None:
            return "null", _MEMBER
        case _:
            return "?", _MEMBER


def _decimal(value: Decimal) -> str:
    """As it was written, but never so that it could be read as a whole number."""
    text = str(value)
    return text if "." in text or "E" in text else f"{text}e0"
