"""The structure of an expression, as it is written: operators and brackets resolved, names not looked at yet.

The parser works on a stack of its own, and what it makes is never deeper than MOST_DEPTH: only so may the rest of the
way to the typed form call itself for each level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from bridge.language.ir import MOST_DEPTH, Scalar
from bridge.language.reading import literals
from bridge.language.reading.grammar import GRAMMAR
from bridge.language.reading.mistakes import refuse_mistake
from bridge.language.reading.tokens import refuse, tokens_of

if TYPE_CHECKING:
    from lark import Lark
    from lark import Token as Terminal

What = Literal["literal", "null", "path", "list", "dot", "index", "call", "method", "prefixed", "operations", "all",
               "any", "choice"]  # fmt: skip


class Word(NamedTuple):
    """A name or a sign, with its place."""

    text: str
    start: int
    end: int


class Syntax(Struct, frozen=True):
    """A part of an expression, from `start` to `end`; `depth` counts levels.

    | what | parts | words |
    |---|---|---|
    | literal, null | | |
    | path | | root and names: `event.a["b"]` |
    | list | items | |
    | dot | what it is of | the name |
    | index | what it is of, the index | |
    | call | arguments | the function |
    | method | what stands in front of the dot, arguments | the function |
    | prefixed | the operand | `!` or `-`, once or more |
    | operations | operands | the operators between them, from left to right |
    | all, any | operands of `&&`, of `||` | |
    | choice | test, value, test, value, …, value | |
    """

    what: What
    start: int
    end: int
    parts: tuple[Syntax, ...] = ()
    words: tuple[Word, ...] = ()
    value: Scalar = False
    depth: int = 1


def parsed(text: str) -> Syntax:
    """Raises FilterError with one problem: behind the first mistake nothing is certain."""
    from lark import Token as Terminal
    from lark import UnexpectedToken

    tokens = tokens_of(text)
    if not tokens:
        refuse("an empty expression", 'write a condition, like event.region == "eu"', 0)
    terminals = [Terminal(token.kind, token.text, token.start, end_pos=token.end) for token in tokens]
    try:
        return _parser().parse(terminals)  # type: ignore[return-value]  # what the builder makes
    except UnexpectedToken as error:
        at = error.token.start_pos
        index = next((i for i, token in enumerate(tokens) if token.start == at), len(tokens))
        refuse_mistake(tokens, len(tokens) if error.token.type == "$END" else index)


@cache
def _parser() -> Lark:
    """Made when it is first needed: importing lark and reading the grammar take a tenth of a second."""
    from lark import Lark
    from lark.lexer import Lexer

    class Given(Lexer):
        """Hands on the tokens that it is given in the place of a text."""

        def __init__(self, _: object) -> None:
            pass

        def lex(self, data: Sequence[Terminal]) -> Iterator[Terminal]:  # type: ignore[override]
            return iter(data)

    return Lark(GRAMMAR, parser="lalr", lexer=Given, transformer=_Builder())


class _Builder:
    """A method for each rule; the parser calls it with what it has read, as soon as it has."""

    def literal(self, children: list[Terminal]) -> Syntax:
        (token,) = children
        start, end = _span(token)
        match token.type:
            case "NULL":
                return Syntax("null", start, end)
            case "TEXT":
                return Syntax("literal", start, end, value=literals.text(token, start))
            case "WHOLE":
                return Syntax("literal", start, end, value=literals.whole(token, start))
            case "DECIMAL":
                return Syntax("literal", start, end, value=literals.decimal(token, start))
            case _:
                return Syntax("literal", start, end, value=token.type == "TRUE")

    def name(self, children: list[Terminal]) -> Syntax:
        word = _word(children[0])
        return Syntax("path", word.start, word.end, words=(word,))

    def group(self, children: tuple[Terminal, Syntax, Terminal]) -> Syntax:
        opening, inner, closing = children
        return replace(inner, start=_span(opening)[0], end=_span(closing)[1])

    def listed(self, children: list[Terminal | Syntax]) -> Syntax:
        return _made("list", _start(children[0]), _end(children[-1]), _parts(children))

    def dot(self, children: tuple[Syntax, Terminal]) -> Syntax:
        of, name = children[0], _word(children[1])
        return _path(of, name, name.end) or _made("dot", of.start, name.end, (of,), (name,))

    def index(self, children: tuple[Syntax, Terminal, Syntax, Terminal]) -> Syntax:
        of, _, key, closing = children
        end = _span(closing)[1]
        if key.what == "literal" and isinstance(key.value, str):
            name = Word(key.value, key.start, key.end)
            return _path(of, name, end) or _made("dot", of.start, end, (of,), (name,))
        return _made("index", of.start, end, (of, key))

    def arguments(self, children: list[Syntax]) -> tuple[Syntax, ...]:
        return tuple(children)

    def call(self, children: tuple[Terminal, Terminal, tuple[Syntax, ...] | None, Terminal]) -> Syntax:
        name, _, arguments, closing = children
        word = _word(name)
        return _made("call", word.start, _span(closing)[1], arguments or (), (word,))

    def method(self, children: tuple[Syntax, Terminal, Terminal, tuple[Syntax, ...] | None, Terminal]) -> Syntax:
        of, name, _, arguments, closing = children
        return _made("method", of.start, _span(closing)[1], (of, *(arguments or ())), (_word(name),))

    def prefixed(self, children: list[Terminal | Syntax]) -> Syntax:
        signs, parts = _words(children), _parts(children)
        syntax = _made("prefixed", _start(children[0]), _end(children[-1]), parts, signs)
        return _checked(replace(syntax, depth=parts[0].depth + len(signs)))

    def operations(self, children: list[Terminal | Syntax]) -> Syntax:
        return _made("operations", _start(children[0]), _end(children[-1]), _parts(children), _words(children))

    def all(self, children: list[Syntax]) -> Syntax:
        return _made("all", children[0].start, children[-1].end, tuple(children))

    def any(self, children: list[Syntax]) -> Syntax:
        return _made("any", children[0].start, children[-1].end, tuple(children))

    def choice(self, children: list[Syntax]) -> Syntax:
        return _made("choice", children[0].start, children[-1].end, tuple(children))


def _made(what: What, start: int, end: int, parts: tuple[Syntax, ...], words: tuple[Word, ...] = ()) -> Syntax:
    depth = 1 + max((part.depth for part in parts), default=0)
    return _checked(Syntax(what, start, end, parts, words, depth=depth))


def _checked(syntax: Syntax) -> Syntax:
    if syntax.depth > MOST_DEPTH:
        refuse(f"nested deeper than {MOST_DEPTH} levels", "split the condition", syntax.start)
    return syntax


def _path(of: Syntax, name: Word, end: int) -> Syntax | None:
    """A name more of a path, which is one level however long it is; None where `of` is something else."""
    if of.what != "path":
        return None
    return Syntax("path", of.start, end, words=(*of.words, name))


def _parts(children: Sequence[Terminal | Syntax]) -> tuple[Syntax, ...]:
    return tuple(child for child in children if isinstance(child, Syntax))


def _words(children: Sequence[Terminal | Syntax]) -> tuple[Word, ...]:
    return tuple(_word(child) for child in children if not isinstance(child, Syntax))


def _word(token: Terminal) -> Word:
    return Word(str(token), *_span(token))


def _start(child: Terminal | Syntax) -> int:
    return child.start if isinstance(child, Syntax) else _span(child)[0]


def _end(child: Terminal | Syntax) -> int:
    return child.end if isinstance(child, Syntax) else _span(child)[1]


def _span(token: Terminal) -> tuple[int, int]:
    assert token.start_pos is not None
    assert token.end_pos is not None
    return token.start_pos, token.end_pos
