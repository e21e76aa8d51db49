"""The operators of `match:`, each by what it takes and what it means for a field.

| operator | takes | as an expression |
|---|---|---|
| `=`, `==` | a value, or a list | `event.a == 1`, `event.a in [1, 2]` |
| `!=` | a value | `event.a != 1` |
| `<`, `<=`, `>`, `>=` | a number or a text | `event.a < 1` |
| `prefix`, `suffix` | a text, or a list | `event.a.startsWith("x")`, `event.a.endsWith("x")` |
| `exists` | true or false | `has(event.a)`, `!has(event.a)` |
| `anything_but` | a value, or a list | `!(event.a in [1, 2])` |
| `cidr` | a network, or a list | `event.a.cidr("10.0.0.0/8")` |

`any_of` is a form of the block, and not here.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal, cast

from msgspec import Struct

from bridge.language.ir import AnyOf, Call, Compare, Const, Expr, Field, Has, Not, Path, Scalar
from bridge.language.reading.checks import about_network
from bridge.language.reading.operators import joined
from bridge.language.text import text_of_node
from bridge.language.values import kind_of

SIGNS: Final = frozenset({"=", "==", "!=", "<", "<=", ">", ">="})
WORDS: Final = frozenset({"prefix", "suffix", "exists", "anything_but", "cidr", "any_of"})

_CALLED: Final = {"prefix": "startsWith", "suffix": "endsWith", "cidr": "cidr"}
_AS_CONDITION: Final = {
    "prefix": '{}.startsWith("…")', "suffix": '{}.endsWith("…")', "exists": "has({})", "cidr": '{}.cidr("…")',
    "anything_but": "!({} in […])", "any_of": "({} == … || {} == …)", "=": "{} == …",
}  # fmt: skip

# What other systems call an operator, and what is to be written here.
_FOREIGN: Final = {
    "matches": 'write `when: {}.matches("…")`', "regex": 'write `when: {}.matches("…")`',
    "wildcard": 'write `when: {}.matches("…")`', "contains": 'write `when: {}.contains("…")`',
    "equals-ignore-case": 'write `when: {}.lower() == "…"`', "in": "write the list itself",
    "not_in": "write anything_but", "nin": "write anything_but", "not": "write anything_but",
    "anything-but": "write anything_but", "eq": "write the value itself", "equals": "write the value itself",
    "ne": 'write "!="', "gt": 'write ">"', "gte": 'write ">="', "lt": 'write "<"', "lte": 'write "<="',
    "numeric": 'write ">", "<" and the like',
    "between": 'write ">=" and "<="', "startsWith": "write prefix", "starts_with": "write prefix",
    "startswith": "write prefix", "endsWith": "write suffix", "ends_with": "write suffix", "endswith": "write suffix",
}  # fmt: skip
_FOREIGN_SIGNS: Final = {
    "=>": 'write ">="', "=<": 'write "<="', "<>": 'write "!="', "===": "write the value itself", "!==": 'write "!="',
    "!": "write anything_but", "=~": 'write `when: {}.matches("…")`', "~": 'write `when: {}.matches("…")`',
    "!~": 'write `when: !{}.matches("…")`',
}  # fmt: skip
_OF_SIGNS: Final = frozenset("=<>!~")
_CLOSE: Final = 0.83  # of what difflib gives: one letter too many, missing or swapped
_GUESSED: Final = {name.replace("_", ""): name for name in sorted(WORDS - {"cidr"})}
"""`cidr` is too short: `cid` may well be a field."""


class Refused(Struct, frozen=True):
    """Why an operand can't be used; `item` where it is one of a list."""

    problem: str
    hint: str = ""
    item: int | None = None


Made = Expr | tuple[Refused, ...]


def is_block(value: object) -> bool:
    """A mapping with the name of a field among its keys."""
    return isinstance(value, Mapping) and any(not is_sign(name) and name not in WORDS for name in value)


def is_sign(name: object) -> bool:
    """Made of `= < > ! ~` alone, and so never meant as a field, whether there is such an operator or not."""
    return isinstance(name, str) and bool(name) and _OF_SIGNS.issuperset(name)


def is_operation(name: object, operand: object) -> bool:
    """`{prefix: a}`, but not `{prefix: {code: 44}}`, which can only be a field."""
    if name == "any_of" and isinstance(operand, list):
        return not (operand and all(map(is_block, operand)))
    return name in SIGNS or (name in WORDS and not is_block(operand))


def is_foreign(name: object, operand: object) -> bool:
    """Whether an operator of another system is meant, or one of ours that is misspelled."""
    if is_sign(name):
        return name not in SIGNS
    if isinstance(operand, Mapping) or not isinstance(name, str) or name in WORDS:
        return False
    return name in _FOREIGN or _nearest(name) is not None


def foreign_hint(path: Path, name: str) -> str:
    """What is to be written for a name that `is_foreign`."""
    field = text_of_node(Field("event", path))
    meant = _FOREIGN.get(name) or _FOREIGN_SIGNS.get(name)
    if meant is None:
        nearest = _nearest(name)
        meant = f"did you mean `{nearest}`?" if nearest else "there are =, !=, <, <=, > and >="
    asked = f"`when: {text_of_node(Field('event', (*path, name)))} == …`"
    if meant.endswith("?"):
        return f"{meant} A field of that name is asked for with {asked}"
    return f"{meant.format(field)}; for a field of that name {asked}"


@lru_cache(1024)
def _nearest(name: str) -> str | None:
    """The operator that a misspelled name is likely to be."""
    close = difflib.get_close_matches(name[:40].lower().replace("_", "").replace("-", ""), _GUESSED, 1, _CLOSE)
    return _GUESSED[close[0]] if close else None


def as_condition(path: Path, operator: str = "=") -> str:
    """How an operator on a field is written in `when:`, the operand left open."""
    field = text_of_node(Field("event", path))
    return _AS_CONDITION.get(operator, f"{{}} {operator} …").format(field, field)


def operation(name: str, field: Field, operand: object) -> Made:
    """What the operator asks of the field, or why it can't."""
    match name:
        case "=" | "==":
            return equality(field, operand)
        case "!=" if isinstance(operand, list):
            hint = "write anything_but: […]"
            return (Refused("`!=` with a list: it is unequal to its items in any case", hint),)
        case "anything_but" if isinstance(operand, Mapping):
            hint = f"write a condition, like `when: !{as_condition(field.path, 'prefix')}`"
            return (Refused("`anything_but` takes a value or a list, not a mapping", hint),)
        case "!=" | "anything_but":
            made = equality(field, operand)
            return made if isinstance(made, tuple) else Not(made)
        case "exists":
            if not isinstance(operand, bool):
                return (Refused(f"`exists` takes true or false, not {named(operand)}"),)
            return Has(field) if operand else Not(Has(field))
        case "prefix" | "suffix" | "cidr":
            return _texts(name, field, operand)
        case _:
            return _ordering(name, field, operand)


def equality(field: Field, operand: object) -> Made:
    """A value, or a list of which one must be equal."""
    if not isinstance(operand, list):
        value = scalar(operand)
        return (value,) if isinstance(value, Refused) else AnyOf(field, (value,))
    if not operand:
        return (NOTHING,)
    values = Values()
    refused = tuple(values.add(item, index) for index, item in enumerate(operand))
    wrong = tuple(item for item in refused if item is not None)
    return wrong or AnyOf(field, tuple(values.values))


def _texts(name: str, field: Field, operand: object) -> Made:
    operands = operand if isinstance(operand, list) else [operand]
    if not operands:
        return (NOTHING,)
    wrong = tuple(_wrong_texts(name, operands, is_list=operands is operand))
    if wrong:
        return wrong
    calls = tuple(Call(_CALLED[name], (field, Const(text))) for text in cast(list[str], operands))
    return joined("any", calls, None)


def _wrong_texts(name: str, operands: list[object], *, is_list: bool) -> Iterator[Refused]:
    seen: set[str] = set()
    for index, text in enumerate(operands):
        item = index if is_list else None
        value = scalar(text)
        if isinstance(value, Refused) or not isinstance(value, str):
            yield Refused(f"`{name}` takes text, not {named(text)}", _quoted_hint(value), item)
        elif value in seen:
            yield Refused(f"{named(value)} is in the list twice", "remove one of them", item)
        elif not value:
            yield Refused(f"an empty text: `{name}` holds for every text", "write the text, or exists: true", item)
        elif name == "cidr" and (complaint := about_network(value)) is not None:
            yield Refused(f"{named(value)}: {complaint.problem}", complaint.hint, item)
        else:
            seen.add(value)


def _ordering(name: str, field: Field, operand: object) -> Made:
    value = scalar(operand)
    if isinstance(value, (Refused, bool)):
        return (Refused(f"`{name}` takes a number or a text, not {named(operand)}"),)
    return Compare(cast(Literal["<", "<=", ">", ">="], name), field, Const(value))


# Values ---------------------------------------------------------------------------------------------------------------

NOTHING: Final = Refused("an empty list: no value is any of none", "name at least one value")


class Values:
    """Scalars that are any of one another: no two of them equal."""

    def __init__(self) -> None:
        self.values: list[Scalar] = []
        self._seen: set[object] = set()

    def add(self, value: object, item: int) -> Refused | None:
        found = scalar(value)
        if isinstance(found, Refused):
            return Refused(found.problem, found.hint, item)
        if (kind_of(found), found) in self._seen:
            return Refused(f"{named(value)} is in the list twice", "remove one of them", item)
        self._seen.add((kind_of(found), found))
        self.values.append(found)
        return None


def scalar(value: object) -> Scalar | Refused:
    """The literal that a value of a block is: what has a fraction is the Decimal that was written."""
    if value is None:
        return Refused("null is no value to match", "a field that is missing or null: exists: false")
    if isinstance(value, str):
        if "\0" in value or not is_unicode(value):
            return Refused("a text with U+0000 or half of a surrogate pair is refused in every event")
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            return Refused(f"no JSON number is {value}", "write a finite number")
        return value if isinstance(value, Decimal) else Decimal(repr(value))
    return Refused(f"{named(value)} is no value to match", "write a text, a number, true or false")


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def named(value: object) -> str:
    """The kind of a value that should not be there, for people."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float, str, Decimal)):
        return f"{value!r}"[:60]
    return f"a {type(value).__name__}"


def _quoted_hint(value: Scalar | Refused) -> str:
    return "put it in quotes" if isinstance(value, (int, Decimal)) else ""
