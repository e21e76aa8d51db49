"""The functions of an expression: their names, how they are written, and what they take and give.

This table is the allow-list: what is not in it can't be called. What each does is in `calls.py`.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["text", "number", "bool", "list", "mapping", "timestamp", "duration", "bytes", "any"]
"""What a value is. `any`: only an event tells."""

KINDS: Final[dict[str, str]] = {
    "text": "text",
    "number": "a number",
    "bool": "true or false",
    "list": "a list",
    "mapping": "an object",
    "timestamp": "a timestamp",
    "duration": "a duration",
    "bytes": "bytes that are no text",
    "any": "a value",
}
"""Kinds in words, for people."""


class Function(NamedTuple):
    """`form`: `method` is written `event.name.lower()`, `function` `size(event.name)`, `both` either way.

    `takes` has the kinds of each argument, the receiver first. `constant`: numbers of the arguments that must be
    literals. `written`: an example.
    """

    form: Literal["function", "method", "both", "operator"]
    takes: tuple[frozenset[Kind], ...]
    gives: Kind
    written: str
    constant: tuple[int, ...] = ()


_TEXT: Final[frozenset[Kind]] = frozenset({"text"})
_NUMBER: Final[frozenset[Kind]] = frozenset({"number"})
_SIZED: Final[frozenset[Kind]] = frozenset({"text", "list", "mapping", "bytes"})
_ADDED: Final[frozenset[Kind]] = frozenset({"number", "text", "list", "timestamp", "duration"})
_TAKEN: Final[frozenset[Kind]] = frozenset({"number", "timestamp", "duration"})
_ANY: Final[frozenset[Kind]] = frozenset({"any"})

FUNCTIONS: Final[dict[str, Function]] = {
    "startsWith": Function("method", (_TEXT, _TEXT), "bool", 'event.name.startsWith("a")'),
    "endsWith": Function("method", (_TEXT, _TEXT), "bool", 'event.name.endsWith(".csv")'),
    "contains": Function("method", (_TEXT, _TEXT), "bool", 'event.name.contains("a")'),
    "matches": Function("both", (_TEXT, _TEXT), "bool", 'event.name.matches("^a[0-9]+$")', constant=(1,)),
    "cidr": Function("method", (_TEXT, _TEXT), "bool", 'event.ip.cidr("10.0.0.0/8")', constant=(1,)),
    "size": Function("both", (_SIZED,), "number", "size(event.items)"),
    "lower": Function("method", (_TEXT,), "text", "event.name.lower()"),
    "upper": Function("method", (_TEXT,), "text", "event.name.upper()"),
    "timestamp": Function(
        "function", (frozenset({"text", "number", "timestamp"}),), "timestamp", 'timestamp("2026-01-01T00:00:00Z")'
    ),
    "duration": Function("function", (frozenset({"text", "duration"}),), "duration", 'duration("1h30m")'),
    "string": Function(
        "function",
        (frozenset({"text", "number", "bool", "timestamp", "duration"}),),
        "text",
        "string(event.number)",
    ),
    "int": Function("function", (frozenset({"text", "number", "timestamp"}),), "number", "int(event.amount)"),
    "double": Function("function", (frozenset({"text", "number"}),), "number", "double(event.amount)"),
    "default": Function("function", (_ANY, _ANY), "any", 'default(event.name, "none")'),
    "in": Function("operator", (_ANY, frozenset({"list", "mapping"})), "bool", '"a" in event.tags'),
    "+": Function("operator", (_ADDED, _ADDED), "any", "event.a + event.b"),
    "-": Function("operator", (_TAKEN, _TAKEN), "any", "event.a - event.b"),
    "*": Function("operator", (_NUMBER, _NUMBER), "number", "event.a * event.b"),
    "/": Function("operator", (_NUMBER, _NUMBER), "number", "event.a / event.b"),
    "%": Function("operator", (_NUMBER, _NUMBER), "number", "event.a % event.b"),
    "neg": Function("operator", (frozenset({"number", "duration"}),), "any", "-event.a"),
}

MACROS: Final[dict[str, str]] = {
    "has": "has(event.customer.tier)",
    "exists": "event.items.exists(item, item.price > 100)",
    "all": "event.items.all(item, item.price > 100)",
    "filter": "event.items.filter(item, item.price > 100)",
    "map": "event.items.map(item, item.sku)",
}
"""Macros bind a name or look at a field and not at its value; with an example of each."""

TEXTUAL: Final = frozenset({"startsWith", "endsWith", "contains", "matches", "cidr"})
"""Questions to a text: of anything else they are an error."""

EXACT: Final = TEXTUAL | {"lower", "upper", "size"}
"""Functions that never look at the value of a number, so that a float may stand for a decimal."""
