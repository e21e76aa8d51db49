"""Errors of an evaluation in words: which field it was, what it is, and what was wanted. Never a value of an event."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bridge.language.calls import refusal
from bridge.language.functions import KINDS
from bridge.language.ir import AnyOf, Call, Compare, Const, Each, Expr
from bridge.language.text import text_of_node
from bridge.language.values import Fail, Value, kind_of, kinds_in_words

_LONGEST: Final = 80
_TEXT: Final = re.compile(r'(?<!\[)"(?:[^"\\]|\\.)*"')  # but not the name of a field in brackets


def of_comparison(node: Compare, left: Value, right: Value, fail: Fail) -> Fail:
    """`event.region is a number, compared with text`."""
    kinds = kind_of(left), kind_of(right)
    if kinds[0] == kinds[1]:
        return _in_node(node, fail)
    other = KINDS[kinds[1]]
    if not isinstance(node.right, Const):
        other = f"{_named(node.right)}, which is {other}"
    return Fail(f"{_named(node.left)} is {KINDS[kinds[0]]}, compared with {other}")


def of_choice(node: AnyOf, value: Value) -> Fail:
    """`event.region is a number, compared with text`; several kinds where the literals are of several."""
    return Fail(f"{_named(node.of)} is {_kind(value)}, compared with {kinds_in_words(map(kind_of, node.values))}")


def of_call(node: Call, values: Sequence[Value], fail: Fail) -> Fail:
    """`event.name is a number, and lower takes text`; or what went wrong: `event.a / event.b: division by zero`."""
    refused = refusal(node.name, [kind_of(value) for value in values], [_named(arg) for arg in node.args])
    return _in_node(node, fail) if refused is None else Fail(refused)


def of_truth(node: Expr, value: Value) -> Fail:
    return Fail(f"{_named(node)} is {_kind(value)}, not true or false")


def of_macro(node: Each, over: Value) -> Fail:
    return Fail(f"{_named(node.over)} is {_kind(over)}, and {node.kind} goes over a list or an object")


def of_key(key: Expr, value: Value) -> Fail:
    return Fail(f"{_named(key)} is {_kind(value)}, and an item is found by a number or by text")


def of_size(node: Expr) -> Fail:
    return Fail(f"{_named(node)} gives more than 16 MiB")


def _in_node(node: Expr, fail: Fail) -> Fail:
    return Fail(f"{_named(node)}: {fail.message}")


def _kind(value: Value) -> str:
    return KINDS[kind_of(value)]


def _named(node: Expr) -> str:
    """As it was written, without its texts: one that came from the environment may be a secret."""
    text = _TEXT.sub('"…"', text_of_node(node))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
