"""The names that an expression may begin with: roots, the variables of macros, and `each` of a watcher."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import Struct

from bridge.decode.json import MAX_DEPTH
from bridge.language.functions import FUNCTIONS, MACROS, Kind
from bridge.language.ir import META_FIELDS, ROOTS, Const, Expr, Field
from bridge.language.reading.syntax import Word
from bridge.language.reading.typed import constant
from bridge.language.values import kind_of

EACH: Final = "each"
TRIGGER: Final = "trigger"
ALIASES: Final = {"attributes": "headers", "properties": "headers"}
RESERVED: Final = frozenset({*ROOTS, *ALIASES, EACH, TRIGGER})
"""What the variable of a macro can't be called."""

_UNREAD: Final = frozenset('"\\' + "".join(map(chr, range(32))))
_DASHED: Final = re.compile(r"\b[A-Za-z_](?:[A-Za-z0-9_]|-(?=.))*-$")
_ABOUT: Final = {
    TRIGGER: "`trigger` is what a Python watcher yields",
    EACH: "`each` is there for a watcher with `for_each`",
}
_LITERALS: Final = {"true": "true", "false": "false", "none": "!has(event.a)", "nil": "!has(event.a)",
                    "undefined": "!has(event.a)", "missing": "!has(event.a)", "null": "!has(event.a)"}  # fmt: skip
_KINDS: Final[dict[str, Kind]] = {"now": "timestamp", "meta": "mapping", "headers": "mapping"}
_META_KINDS: Final[dict[str, Kind]] = {"text": "text", "timestamp": "timestamp", "number": "number", "bool": "bool"}


class Found(NamedTuple):
    node: Expr
    kind: Kind


class Wrong(NamedTuple):
    """`word` is to blame."""

    problem: str
    hint: str
    word: Word


class Scope(Struct, frozen=True):
    """`before` is the text in front of a name, to tell `event.order-id` from a subtraction."""

    roots: frozenset[str]
    each: Mapping[str, object] | None = None
    variables: tuple[str, ...] = ()

    def binding(self, name: str) -> Scope:
        return Scope(self.roots, self.each, (*self.variables, name))

    def find(self, words: Sequence[Word], at: int | None, before: str) -> Found | Wrong:
        """What a path stands for. `at` is its place for the node, `before` the text in front of it."""
        root, path = words[0].text, tuple(word.text for word in words[1:])
        if root in self.variables:
            return Found(Field(root, path, at=at), "any")
        if root == EACH and self.each is not None:
            return self._each(words, self.each, at)
        name = ALIASES.get(root, root)
        if name not in self.roots:
            return Wrong(f"there is no `{root[:40]}` here", self._hint(words, before), words[0])
        return _wrong_path(name, words[1:]) or Found(Field(name, path, at=at), _kind(name, path))

    def _each(self, words: Sequence[Word], each: Mapping[str, object], at: int | None) -> Found | Wrong:
        value: object = each
        for index, word in enumerate(words[1:]):
            written = _plainly(words[: index + 1])
            if not isinstance(value, Mapping):
                return Wrong(f"`{written}` has no fields", "it is no mapping", word)
            if word.text not in value:
                hint = did_you_mean(word.text, [str(name) for name in value], f"it has {listed(map(str, value))}")
                return Wrong(f"`{written}` has no `{word.text[:40]}`", hint, word)
            value = value[word.text]
        made = constant(value)
        return Found(Const(made, at=at), kind_of(made))

    def _hint(self, words: Sequence[Word], before: str) -> str:
        root = words[0].text
        if root in _ABOUT:
            return f"{_ABOUT[root]}; here there are {listed(sorted(self.roots))}"
        if root.lower() in _LITERALS:
            return f"write {_LITERALS[root.lower()]}"
        dashed = _DASHED.search(before[-40:])
        if dashed is not None:
            return f'a name with a dash in it is written event["{dashed[0]}{root[:40]}"]'
        if root in FUNCTIONS or root in MACROS:
            return f"it is a function: {FUNCTIONS[root].written if root in FUNCTIONS else MACROS[root]}"
        names = [*self.variables, *self.roots, *ALIASES, *([EACH] if self.each is not None else [])]
        return did_you_mean(root, names, f"for a field of the event write event.{_plainly(words)}")


def _wrong_path(root: str, names: Sequence[Word]) -> Wrong | None:
    if not names:
        return None
    first = names[0]
    if root == "meta" and first.text not in META_FIELDS:
        hint = did_you_mean(first.text, META_FIELDS, f"it has {listed(META_FIELDS)}")
        return Wrong(f"`meta` has no `{first.text[:40]}`", hint, first)
    if root in ("key", "now"):
        what = "a text" if root == "key" else "a timestamp"
        return Wrong(f"`{root}` is {what} and has no fields", f"write {root} alone", first)
    if root == "meta" and len(names) > 1:
        return Wrong(f"`meta.{first.text}` has no fields", f"write meta.{first.text} alone", names[1])
    if len(names) > MAX_DEPTH:
        return Wrong(f"nested deeper than {MAX_DEPTH} levels, which no event is", "", names[MAX_DEPTH])
    unread = next((name for name in names if root == "event" and not is_readable(name.text)), None)
    return unread and Wrong("a field's name can't hold quotes, backslashes or control characters", "", unread)


def _plainly(words: Sequence[Word]) -> str:
    """The names as far as they stand behind dots: those in quotes may be none of ours, and are not shown."""
    plain = takewhile(lambda word: word.end - word.start == len(word.text), words)
    return ".".join(word.text for word in plain)[:60]


def is_readable(name: str) -> bool:
    """Whether a field is found by its name: the decoder compares bytes, so the name must have one spelling only."""
    return _UNREAD.isdisjoint(name)


def _kind(root: str, path: Sequence[str]) -> Kind:
    if root == "meta" and path:
        return _META_KINDS[META_FIELDS[path[0]]]
    return "any" if path else _KINDS.get(root, "any")


def did_you_mean(name: str, names: Collection[str], otherwise: str = "") -> str:
    """A hint: the nearest of the names, or `otherwise`."""
    by_lower = {known.lower(): known for known in names}
    close = difflib.get_close_matches(name[:64].lower(), by_lower, n=1)
    return f"did you mean `{by_lower[close[0]]}`?" if close else otherwise


def listed(names: Collection[str] | map[str], most: int = 12) -> str:
    every = list(names)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
