"""Why a condition came to its verdict, for people and programs: its clauses with the values that they saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich.text import Text
from rich.tree import Tree

from bridge.cli.words import printable
from bridge.language.calls import call
from bridge.language.ir import AllOf, Call, Each, Field, Item, Not, OneOf, Select
from bridge.language.values import Duration, Fail, Timestamp, truth_of

if TYPE_CHECKING:
    from bridge.language.trace import Traced

LONGEST: Final = 60
"""Characters of a value."""
_SEEN_MOST: Final = 4

Word = str
SYMBOLS: Final[Mapping[Word, str]] = {"true": "✓", "false": "✗", "unknown": "?", "error": "!"}
_STYLES: Final[Mapping[Word, str]] = {"true": "green", "false": "red", "unknown": "yellow", "error": "bold red"}


def word_of(value: object) -> Word:
    """What a clause came to: true, false, unknown (a field is missing) or error."""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return "unknown" if value is None else "error"


def error_of(traced: Traced) -> str:
    """Why it is an error; "" where it is none."""
    truth = truth_of(traced.value)
    return truth.message if isinstance(truth, Fail) else ""


def reason_of(traced: Traced) -> Traced:
    """The first clause that decided against it: false, unknown or an error, as the whole is. Itself where it holds."""
    word = word_of(traced.value)
    if word != "true" and isinstance(traced.node, AllOf):
        for part in traced.parts:
            if word_of(part.value) == word:
                return reason_of(part)
    return traced


def sentence_of(traced: Traced) -> str:
    """`event.amount > 100, and event.amount is 20`: a clause and what it saw, in a line."""
    if error := error_of(traced):
        return f"{traced.text}: {error}"
    saw = ", ".join(f"{name} is {value}" for name, value in seen_by(traced).items())
    return f"{traced.text}, and {saw}" if saw else traced.text


def leaves_of(traced: Traced) -> Iterator[Traced]:
    """Its clauses: what AND, OR and NOT join, in the order in which they are written."""
    if isinstance(traced.node, AllOf | OneOf | Not):
        for part in traced.parts:
            yield from leaves_of(part)
    else:
        yield traced


def seen_by(traced: Traced) -> dict[str, str]:
    """What the fields and functions of a clause gave, by their text; only so many."""
    found: dict[str, str] = {}
    for part in _telling(traced):
        if len(found) == _SEEN_MOST:
            break
        found.setdefault(part.text, shown(part.value))
    return found


def _telling(traced: Traced) -> Iterator[Traced]:
    """Parts with a value of their own. What a macro looks at inside of a list would be too much."""
    for part in traced.parts:
        if isinstance(part.node, Field | Select | Item | Call | Each):
            yield part
        if not isinstance(part.node, Each):
            yield from _telling(part)


# Values --------------------------------------------------------------------------------------------------------------


def shown(value: object, longest: int = LONGEST) -> str:
    """A value of an event in a line, as JSON where it is that; cut where it is long."""
    text = _text(value)
    return printable(text if len(text) <= longest else f"{text[:longest]}…")


def _text(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, Fail):
        return f"an error: {value.message}"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return compact(value)


def compact(value: object) -> str:
    """JSON without white space; numbers keep their digits, times are RFC 3339."""
    return msgspec.json.encode(plain(value)).decode()


def plain(value: object) -> Any:
    """What JSON has in the place of times and of bytes that are no text; numbers with the digits that they have."""
    if isinstance(value, Decimal):
        return msgspec.Raw(str(value).encode())
    if isinstance(value, Timestamp | Duration):
        return _time_text(value)
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Fail):
        return {"error": value.message}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _time_text(value: Timestamp | Duration) -> object:
    text = call("string", (value,))
    return text if isinstance(text, str) else None


# For people ----------------------------------------------------------------------------------------------------------


def lines_of(traced: Traced, indent: str = "") -> Iterator[str]:
    """The tree as plain lines."""
    yield f"{indent}{_label(traced).plain}"
    if isinstance(traced.node, AllOf | OneOf | Not):
        for part in traced.parts:
            yield from lines_of(part, f"{indent}  ")
    else:
        for name, value in seen_by(traced).items():
            yield f"{indent}    {printable(name)} = {value}"


def tree_of(traced: Traced) -> Tree:
    """Colours and symbols: ✓ true, ✗ false, ? unknown, ! error."""
    tree = Tree(_label(traced), guide_style="dim")
    _grow(tree, traced)
    return tree


def _grow(tree: Tree, traced: Traced) -> None:
    if isinstance(traced.node, AllOf | OneOf | Not):
        for part in traced.parts:
            _grow(tree.add(_label(part)), part)
        return
    for name, value in seen_by(traced).items():
        tree.add(Text.assemble((printable(name), "dim"), (" = ", "dim"), value))


def _label(traced: Traced) -> Text:
    word = word_of(traced.value)
    text = Text.assemble((SYMBOLS[word], _STYLES[word]), " ", printable(_title(traced)))
    if word == "error" and not isinstance(traced.node, AllOf | OneOf | Not):
        text.append(f"  ({printable(error_of(traced))})", _STYLES[word])
    return text


def _title(traced: Traced) -> str:
    match traced.node:
        case AllOf(parts):
            return "all of these" if parts else "every event"
        case OneOf():
            return "any of these"
        case Not():
            return "not"
        case _:
            return traced.text


# For programs --------------------------------------------------------------------------------------------------------


def as_json(traced: Traced) -> dict[str, Any]:
    """`value` is true, false, unknown or error; `saw` the values of a clause, whole."""
    told: dict[str, Any] = {"clause": traced.text, "value": word_of(traced.value)}
    if error := error_of(traced):
        told["error"] = error
    if isinstance(traced.node, AllOf | OneOf | Not):
        return told | {"parts": [as_json(part) for part in traced.parts]}
    saw = {part.text: plain(part.value) for part in _telling(traced)}
    return told | ({"saw": saw} if saw else {})
