"""What is wrong where the grammar stops, in words of the person who wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from bridge.language.reading.tokens import Token, refuse

_OPERANDS: Final = frozenset({"NAME", "WORD", "TEXT", "WHOLE", "DECIMAL", "TRUE", "FALSE", "NULL", "RPAR", "RSQB"})
_VALUES: Final = _OPERANDS - {"WORD", "RPAR", "RSQB"}
_OPENING: Final = {"RPAR": ("LPAR", "(", ")"), "RSQB": ("LSQB", "[", "]")}

# Words of other languages that stand between two values, or in front of one.
_BETWEEN: Final = {
    "and": "write && for AND", "or": "write || for OR", "is": "compare with ==; whether a field is there: has(event.x)",
    "eq": "write ==", "ne": "write !=", "lt": "write <", "le": "write <=", "gt": "write >", "ge": "write >=",
    "not": "write !(event.region in [\"eu\", \"uk\"])", "if": "write test ? value : other value",
    "like": 'write event.name.startsWith("a"), or matches', "between": "write event.n >= 1 && event.n <= 5",
    "xor": "write a != b", "div": "write /", "mod": "write %",
    "contains": 'write event.name.contains("a")', "startswith": 'write event.name.startsWith("a")',
    "endswith": 'write event.name.endsWith("a")', "matches": 'write event.name.matches("^a")',
    "includes": 'write event.name.contains("a")', "intersects": "write event.tags.exists(tag, tag in [\"a\", \"b\"])",
}  # fmt: skip
_IN_FRONT: Final = {
    "not": "write ! in front of it, as in !(event.a == 1)", "if": "write test ? value : other value",
    "lambda": "a macro binds a name: event.items.exists(item, item.price > 100)",
    "exists": "write has(event.a)", "return": "a condition is an expression and no program",
    "let": "a condition assigns nothing", "var": "a condition assigns nothing", "const": "a condition assigns nothing",
    "for": "a macro looks at each item: event.items.all(item, item.price > 100)",
    "def": "there are no functions but those that are built in",
    "import": "a condition is an expression and no program", "where": "leave it out", "when": "leave it out",
    "select": "leave it out", "await": "leave it out",
}  # fmt: skip


def refuse_mistake(tokens: Sequence[Token], index: int) -> NoReturn:
    """Raises FilterError for the tokens, of which number `index` is the first that can't follow those before it."""
    last = tokens[index - 1] if index else None
    if index == len(tokens):
        _refuse_end(tokens)
    token = tokens[index]
    _refuse_foreign_word(tokens, index)
    if token.kind in _OPENING:
        _refuse_closing(tokens, index)
    if last is not None and last.kind == "_DOT":
        _refuse_behind_dot(token, last)
    if token.kind in ("LPAR", "LSQB"):
        _refuse_opening(token, last)
    if token.kind in _VALUES:
        _refuse_value(token, last)
    if token.kind == "_COMMA" and _ends_value(last):
        hint = "a list is written [1, 2]" if _is_open(tokens[:index]) else "join conditions with && or ||"
        refuse("a comma can't stand here", hint, token.start)
    if token.kind == "_COLON" and _ends_value(last):
        refuse("a : without its ?", "write test ? value : other value", token.start)
    if token.kind == "NOT" and _ends_value(last):
        refuse("! can't stand between two values", "write != for unequal", token.start)
    width = len(token.text)
    if last is None:
        refuse(
            f"a value is missing in front of `{token.text}`",
            "begin with a field, like event.region",
            token.start,
            width,
        )
    if _ends_value(last):
        refuse(f"`{token.text}` can't stand here", "", token.start, width)
    _refuse_missing_value(last)


def _refuse_end(tokens: Sequence[Token]) -> NoReturn:
    last = tokens[-1]
    opened = _opened(tokens)
    if _ends_value(last) and opened:
        sign = opened[-1]
        closing = ")" if sign.text == "(" else "]"
        refuse(f"a {sign.text} that is not closed", f"close it with {closing}", sign.start)
    if last.kind == "NAME" and last.text.lower() in _IN_FRONT:
        _refuse_word(last, _IN_FRONT)
    if last.kind == "_DOT":
        refuse("a name is missing after the dot", "a number is written 1.0", last.start)
    if _ends_value(last):  # a choice that has no other value
        refuse("a ? without its :", "write test ? value : other value", last.end - 1)
    _refuse_missing_value(last)


def _refuse_foreign_word(tokens: Sequence[Token], index: int) -> None:
    token = tokens[index]
    last = tokens[index - 1] if index else None
    if last is not None and last.kind == "NAME" and token.kind in _VALUES | {"LSQB", "NOT"}:
        is_first = index < 2 or not _ends_value(tokens[index - 2])
        if is_first and last.text.lower() in _IN_FRONT:
            _refuse_word(last, _IN_FRONT)
        if is_first and last.text.lower() in ("and", "or", "xor"):
            refuse(
                f"a value is missing in front of `{last.text}`", _BETWEEN[last.text.lower()], last.start, len(last.text)
            )
    if token.kind == "NAME" and _ends_value(last) and token.text.lower() in _BETWEEN:
        _refuse_word(token, _BETWEEN)


def _refuse_word(token: Token, hints: dict[str, str]) -> NoReturn:
    refuse(f"`{token.text}` is no operator", hints[token.text.lower()], token.start, len(token.text))


def _refuse_closing(tokens: Sequence[Token], index: int) -> NoReturn:
    token, last = tokens[index], tokens[index - 1] if index else None
    kind, opening, closing = _OPENING[token.kind]
    opened = _opened(tokens[:index])
    if not opened:
        refuse(f"a {closing} without its {opening}", "remove it, or open the bracket", token.start)
    if _ends_value(last) and opened[-1].kind != kind:
        refuse(f"a {closing} that closes a {opened[-1].text}", f"the {opened[-1].text} is not closed", token.start)
    if last is not None and last.kind in ("LPAR", "LSQB"):
        refuse("nothing between the brackets", "write a value between them, or remove them", last.start, 2)
    if last is not None and last.kind == "_DOT":
        refuse("a name is missing after the dot", "", last.start)
    if last is not None and last.kind == "_COMMA":
        refuse("a value is missing after the comma", "remove the comma", last.start)
    if _ends_value(last):
        refuse("a ? without its :", "write test ? value : other value", token.start)
    assert last is not None
    _refuse_missing_value(last)


def _refuse_behind_dot(token: Token, dot: Token) -> NoReturn:
    hint = "a name follows a dot: event.region"
    if token.kind == "TEXT":
        hint = f"leave the dot out: event[{token.text[:40]}]"
    elif token.kind in ("WHOLE", "DECIMAL"):
        hint = f"an item is event.items[{token.text[:40]}]"
    refuse("a name is missing after the dot", hint, dot.start, token.end - dot.start)


def _refuse_opening(token: Token, last: Token | None) -> NoReturn:
    if token.text == "(":
        hint = "to call is possible by name only: size(event.items), event.name.lower()"
        refuse("a ( behind a value", hint, token.start)
    refuse("a [ can't stand here", "a list is written [1, 2], an item of one event.items[0]", token.start)


def _refuse_value(token: Token, last: Token | None) -> NoReturn:
    shown = token.text if len(token.text) <= 40 else token.text[:40] + "…"
    if token.kind == "DECIMAL" and token.text.startswith("."):
        hint = f"an item of a list is event.items[{token.text[1:40]}]"
    elif token.kind == "TEXT" and last is not None and last.kind == "TEXT":
        hint = 'texts are joined with +; quotes in a text are written \\"'
    else:
        hint = "write == to compare, && for AND, || for OR"
    refuse(f"an operator is missing in front of `{shown}`", hint, token.start, len(token.text))


def _refuse_missing_value(last: Token) -> NoReturn:
    hint = "write brackets where two signs follow each other: !(-event.a)" if last.kind in ("NOT", "MINUS") else ""
    refuse(f"a value is missing after `{last.text}`", hint, last.start, len(last.text))


def _ends_value(token: Token | None) -> bool:
    return token is not None and token.kind in _OPERANDS


def _opened(tokens: Sequence[Token]) -> list[Token]:
    """The brackets that are not closed yet."""
    opened: list[Token] = []
    for token in tokens:
        if token.kind in ("LPAR", "LSQB"):
            opened.append(token)
        elif token.kind in _OPENING and opened:
            opened.pop()
    return opened


def _is_open(tokens: Sequence[Token]) -> bool:
    return bool(_opened(tokens))
