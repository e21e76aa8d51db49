"""The words and signs of an expression, before anything is known of its structure.

What can't be a token is refused here, with what was meant by it where that can be guessed; so are texts that are too
long, and brackets that are nested too deep: everything behind this works on a few thousand tokens at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, NoReturn

from bridge.language.errors import FilterError, FilterProblem
from bridge.language.ir import LONGEST_SOURCE, MOST_DEPTH

_TEXT: Final = r"""
    [rR](?:\"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\r\n]*" | '[^'\r\n]*')
  | \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
  | "(?:\\[^\r\n]|[^"\\\r\n])*" | '(?:\\[^\r\n]|[^'\\\r\n])*'
"""
_LITERAL: Final = re.compile(_TEXT, re.DOTALL | re.VERBOSE)
_TOKEN: Final = re.compile(
    rf"""
    (?P<WHITE>[ \t\r\n]+)
  | (?P<TEXT>{_TEXT})
  | (?P<DECIMAL>(?:[0-9]*\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?)
  | (?P<WHOLE>0[xX][0-9a-fA-F]+|[0-9]+)
  | (?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<WRONG>===|!==|=~|!~|:=|[-+*/]=|<>|=<|=>|<<|>>|\+\+|\*\*|//|/\*|->|\?\?|\?:|\?\.(?![0-9])|&&&|\|\|\|)
  | (?P<SIGN>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]])
    """,
    re.DOTALL | re.VERBOSE,
)
_KEYWORDS: Final = {"in": "IN", "true": "TRUE", "false": "FALSE", "null": "NULL"}
_SIGNS: Final = {
    "&&": "_AND", "||": "_OR", "?": "_QUESTION", ":": "_COLON", ".": "_DOT", ",": "_COMMA", "(": "LPAR", ")": "RPAR",
    "[": "LSQB", "]": "RSQB", "+": "PLUS", "-": "MINUS", "*": "TIMES", "/": "TIMES", "%": "TIMES", "!": "NOT",
    "==": "RELATION", "!=": "RELATION", "<": "RELATION", "<=": "RELATION", ">": "RELATION", ">=": "RELATION",
}  # fmt: skip
_RUN: Final = re.compile(r"[A-Za-z0-9_]*")
_WORD: Final = re.compile(r"\w+")

# What people write who come from another language, or whose editor means well.
_MEANT: Final = {
    "=": "to compare write ==; a condition assigns nothing", ":=": "a condition assigns nothing; to compare write ==",
    "===": "write ==", "!==": "write !=", "<>": "write !=", "≠": "write !=", "=<": "write <=", "≤": "write <=",
    "=>": "write >=", "≥": "write >=", "&": "write && for AND", "&&&": "write &&", "∧": "write &&",
    "|": "write || for OR", "|||": "write ||", "∨": "write ||", "**": "powers are not available",
    "^": "powers are not available", "++": "write one +", "=~": 'write event.name.matches("^a")',
    "~": 'write event.name.matches("^a")', "!~": 'write !event.name.matches("^a")',
    "//": "a comment is put in front of the key, behind a #", "#": "a comment is put in front of the key",
    "/*": "a comment is put in front of the key, behind a #",
    "->": "a macro is written event.items.exists(item, item.price > 100)",
    "?.": "write a dot: a field of what is missing is missing", "??": 'write default(event.name, "none")',
    "?:": 'write default(event.name, "none")', "{": "objects can't be written here; compare their fields",
    "}": "objects can't be written here; compare their fields", "$": "write the field itself: event.name",
    ";": "join conditions with && or ||", "@": 'for a field write event["@name"]',
    "`": 'for a field with other characters write event["order-id"]', "\\": "outside of quotes nothing is escaped",
    "“": 'use straight quotes: "', "”": 'use straight quotes: "', "„": 'use straight quotes: "',
    "«": 'use straight quotes: "', "»": 'use straight quotes: "', "‘": "use straight quotes: '",
    "’": "use straight quotes: '", "–": "a minus is -", "—": "a minus is -", "−": "a minus is -",
}  # fmt: skip


class Token(NamedTuple):
    """`kind` is a terminal of grammar.lark. `start` and `end` are offsets in the text."""

    kind: str
    text: str
    start: int
    end: int


def tokens_of(text: str) -> list[Token]:
    """Raises FilterError with one problem."""
    _check_size(text)
    tokens: list[Token] = []
    depth = 0
    for token in _tokens(text):
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth > MOST_DEPTH:
            refuse(f"brackets nested deeper than {MOST_DEPTH} levels", "", token.start)
        tokens.append(token)
    return tokens


def texts_in(text: str) -> list[tuple[int, int]]:
    """From where to where there are literals of text, quotes included; in a text that is no expression, too."""
    return [found.span() for found in _LITERAL.finditer(text)]


def refuse(problem: str, hint: str, at: int, width: int = 1) -> NoReturn:
    raise FilterError((FilterProblem((), problem, hint, at, width),))


def _check_size(text: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        refuse("half of a surrogate pair, which is no character", "write the character itself", error.start)
    if size > LONGEST_SOURCE:
        hint = "split it: `match` holds long lists, and two watchers two conditions"
        refuse(f"an expression of {size:,} bytes: at most {LONGEST_SOURCE:,}", hint, 0)
    if "\0" in text:
        refuse("the character U+0000, which no event holds", "remove it", text.index("\0"))


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    is_selector = False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found.lastgroup is None or found.lastgroup == "WRONG":
            _refuse_sign(text, at, found[0] if found else text[at])
        kind, at = found.lastgroup, found.end()
        if kind == "WHITE":
            continue
        if kind in ("WHOLE", "DECIMAL"):
            _check_number(text, found.start(), at)
        if kind == "NAME":
            _check_name(text, found[0], at)
            kind = "WORD" if is_selector else _KEYWORDS.get(found[0], kind)
        elif kind == "SIGN":
            kind = _SIGNS[found[0]]
        is_selector = kind == "_DOT"
        yield Token(kind, found[0], found.start(), at)


def _check_number(text: str, start: int, end: int) -> None:
    behind = _RUN.match(text, end)
    assert behind is not None
    written = text[start : behind.end()]
    width = len(written)
    if behind[0] in ("u", "U"):
        refuse(f"`{written[:40]}`: there is one kind of number", "leave the u out", start, width)
    if behind[0]:
        hint = "a number is digits: 1000, 2.5 or 1e6; a name begins with a letter"
        refuse(f"`{written[:40]}` is neither a number nor a name", hint, start, width)
    if len(written) > 1 and written[0] == "0" and written[1].isdigit():
        refuse(
            f"`{written[:40]}` begins with a zero", "a number has no zeros in front; text needs quotes", start, width
        )


def _check_name(text: str, name: str, end: int) -> None:
    following = text[end : end + 1]
    if following in ('"', "'"):
        hint = "a text has quotes and nothing in front; r'…' where a backslash is a backslash"
        refuse(f"`{name[:20]}` in front of a text", hint, end - len(name), len(name))
    if following.isalnum():
        _refuse_sign(text, end, following)


def _refuse_sign(text: str, at: int, sign: str) -> NoReturn:
    if sign in ('"', "'"):
        refuse("a text without its closing quote", f"close it with {sign}; a line break in it is written \\n", at)
    if sign in _MEANT:
        refuse(f"`{sign}` means nothing here", _MEANT[sign], at, len(sign))
    if sign.isalnum():
        _refuse_word(text, at)
    if sign.isspace() or not sign.isprintable():
        refuse(f"the character U+{ord(sign):04X}", "write a plain space", at)
    refuse(f"`{sign}` means nothing here", "texts are written in quotes", at, len(sign))


def _refuse_word(text: str, at: int) -> NoReturn:
    """A name that no expression has; `at` is that of one of its characters."""
    word = next(found for found in _WORD.finditer(text) if found.end() > at)
    hint = f'for a field of that name write event["{word[0][:40]}"]; a text needs quotes'
    refuse(f"`{word[0][:40]}` has letters other than a to z", hint, word.start(), len(word[0]))
