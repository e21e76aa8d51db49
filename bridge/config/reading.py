"""What goes along while nodes become values: the problems found so far, the variables, and what must be masked."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bridge.config.nodes import MOST_DIGITS, TRUE, Broken, Node, Place, Scalar, Sequence, kind_of, number_of
from bridge.config.problems import Problems
from bridge.config.secrecy import MASK, is_only_a_reference, is_secret_name, without_url_passwords
from bridge.config.variables import Filled, Unfilled, Variables

if TYPE_CHECKING:
    from bridge.config.fields import Fields

KeyPath = tuple[str | int, ...]

_SHOWN: Final = 60
_WITH_FILTERS: Final = (("assets",), ("defaults",))
_SHORTEST_SCRUBBED: Final = 4  # masking every "1" of a foreign message would hide more than it protects


class Where(Struct, frozen=True, eq=False):
    """A place in the configuration's structure. `owner` is what to point at when something is missing here."""

    path: KeyPath
    owner: Place
    is_secret: bool = False
    has_names: bool = True
    """Whether keys say what their values are. They don't where they are the fields of somebody's events."""
    outer: Where | None = None
    fields: Fields | None = None
    """What the mapping at this place may hold, where that is fixed."""

    def field(self, name: str, owner: Place) -> Where:
        """Below a key whose name says what the value is."""
        is_secret = self.is_secret or (self.has_names and is_secret_name(name))
        return Where((*self.path, name), owner, is_secret, self.has_names, self)

    def named(self, name: str, owner: Place) -> Where:
        """Below a key that a person made up."""
        return Where((*self.path, name), owner, self.is_secret, self.has_names, self)

    def item(self, number: int, owner: Place) -> Where:
        return Where((*self.path, number), owner, self.is_secret, self.has_names, self)

    def holding(self, fields: Fields) -> Where:
        return Where(self.path, self.owner, self.is_secret, self.has_names, self.outer, fields)

    def foreign_names(self) -> Where:
        """The same place, where names below are not ours."""
        return Where(self.path, self.owner, self.is_secret, False, self.outer, self.fields)

    @property
    def label(self) -> str:
        """Like `assets.eu_orders.watchers[].run`."""
        text = ""
        for step in self.path:
            text += "[]" if isinstance(step, int) else f".{step[:_SHOWN]}" if text else step[:_SHOWN]
        return text or "the configuration"

    @property
    def prefix(self) -> str:
        """The label with a dot, to put a key behind."""
        return f"{self.label}." if self.path else ""

    @property
    def name(self) -> str:
        """The last key of the path."""
        return next((step[:_SHOWN] for step in reversed(self.path) if isinstance(step, str)), "")


class Reading:
    """One run of `load`. `masked` says, by path, what is shown in the place of a value that must not be."""

    def __init__(
        self,
        env: Mapping[str, str],
        read_secret: Callable[[Path], str],
        blocks: Mapping[str, Container[str]] | None = None,
    ) -> None:
        self._blocks = blocks or {}
        self.problems = Problems()
        self.variables = Variables(env, read_secret)
        self.masked: dict[KeyPath, str] = {}
        self._secrets: set[str] = set()
        self.in_filters: set[str] = set()
        """Secrets that watchers hold, whose filters people are told of."""
        self.item: Place | None = None
        """The item of `for_each` whose watcher is being read."""

    def blocks_with(self, name: str) -> list[str]:
        """The blocks anywhere in a configuration that have such a key."""
        return [block for block, names in self._blocks.items() if name in names]

    def problem(self, place: Place, message: str, hint: str = "") -> None:
        self.problems.add(place.source.problem(place, without_url_passwords(message), without_url_passwords(hint)))

    def met(self, broken: Broken) -> None:
        """Whoever wanted the value of a scalar that can't be had meets its problem, which is listed once."""
        if broken.problem is not None:
            self.problems.add(broken.problem)

    def foreign(self, place: Place, message: str, hint: str = "") -> None:
        """A problem in somebody else's words: no value that came from a secret place survives in it."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            for spelling in (secret, repr(secret)[1:-1]):
                message, hint = message.replace(spelling, MASK), hint.replace(spelling, MASK)
        self.problem(place, message, hint)

    def hint_with_item(self, hint: str, message: str, marked: str) -> str:
        """The hint, and where the item of `for_each` is, if a problem of an expression may come from its values.

        `marked` is the part of the expression that is wrong.
        """
        if self.item is None or not ("each." in message or "each" in marked):
            return hint
        place = f"`each` is the item at {self.item}"
        return f"{hint}{' ' if hint.endswith('?') else '; '}{place}" if hint else place

    def fill(self, scalar: Scalar, where: Where) -> Filled | None:
        """The scalar after substitution; None with a problem where that is impossible."""
        if isinstance(scalar, Broken):
            self.met(scalar)
            return None
        filled = self.variables.fill(scalar)
        is_secret = is_hidden(scalar, where)
        if isinstance(filled, Unfilled):
            message = filled.message
            if is_secret and not is_only_a_reference(filled.part):
                message = message.replace(filled.part, "${…}")
            self.problem(part_of(scalar.place, filled.part), message, filled.hint)
            return None
        if filled.origins:
            self._hide(where.path, (filled.text, *filled.values), f"{MASK} from {', '.join(filled.origins)}")
        elif is_secret and filled.text and not (filled.is_plain and kind_of(filled.text) in ("nothing", "bool")):
            self._hide(where.path, (filled.text,), MASK)
        return filled

    def _hide(self, path: KeyPath, texts: tuple[str, ...], shown: str) -> None:
        self.masked[path] = shown
        secrets = {text for text in texts if len(text) >= _SHORTEST_SCRUBBED}
        self._secrets |= secrets
        if path[:1] in _WITH_FILTERS:
            self.in_filters |= secrets

    # Values without a type -------------------------------------------------------------------------------------------

    def plain(self, node: Node, where: Where) -> object:
        """Mappings, lists and scalars as JSON has them; what it can't hold is a problem, and None.

        Text that came in through a variable stays text.
        """
        return self._plain(node, where, self.fill, self._number)

    def exact(self, node: Node, where: Where) -> object:
        """The same, where a number with a fraction or an exponent is the Decimal that was written."""
        return self._plain(node, where, self.fill, self._decimal)

    def unfilled(self, node: Node, where: Where) -> object:
        """The same as `plain`, with every `${...}` left alone."""
        return self._plain(node, where, self._as_written, self._number)

    def written(self, node: Node, where: Where) -> object:
        """The same as it may be shown: `${...}` left alone, secrets masked."""
        return self._plain(node, where, _as_shown, self._number)

    def _plain(self, node: Node, where: Where, take: Take, number: Callable[[str, Node], object]) -> object:
        if isinstance(node, Scalar):
            filled = take(node, where)
            return None if filled is None else self._typed(filled, node, number)
        if isinstance(node, Sequence):
            return [self._plain(item, where.item(n, item.place), take, number) for n, item in enumerate(node.items)]
        return {
            name: self._plain(entry.value, where.field(name, entry.key.place), take, number)
            for name, entry in node.entries.items()
        }

    def _typed(self, filled: Filled, node: Node, number: Callable[[str, Node], object]) -> object:
        kind = kind_of(filled.text) if filled.is_plain else "text"
        if kind == "whole":
            return self._whole(filled.text, node)
        if kind == "number":
            return number(filled.text, node)
        if kind == "bool":
            return filled.text in TRUE
        return None if kind == "nothing" else filled.text

    def _whole(self, text: str, node: Node) -> int | None:
        if len(text) > MOST_DIGITS:
            self.problem(node.place, f"a number of {len(text)} digits", f"at most {MOST_DIGITS}, or quotes around it")
            return None
        return int(text)

    def _number(self, text: str, node: Node) -> float | None:
        value = number_of(text)
        if math.isfinite(value):
            return value
        self.problem(node.place, "a number that JSON does not know", "put it in quotes to make it text")
        return None

    def _decimal(self, text: str, node: Node) -> Decimal | None:
        if self._number(text, node) is None:
            return None
        if len(text) <= MOST_DIGITS:
            with suppress(InvalidOperation):  # an exponent that no Decimal has
                return Decimal(text)
        self.problem(node.place, "a number that is too long to keep exactly", "put it in quotes to make it text")
        return None

    def _as_written(self, scalar: Scalar, where: Where) -> Filled | None:
        if isinstance(scalar, Broken):
            self.met(scalar)
            return None
        return Filled(scalar.text, scalar.is_plain)


Take = Callable[[Scalar, Where], Filled | None]


def _as_shown(scalar: Scalar, where: Where) -> Filled:
    if is_hidden(scalar, where) and not is_only_a_reference(scalar.text):
        return Filled(MASK, False)
    return Filled(without_url_passwords(scalar.text), scalar.is_plain)


def is_hidden(scalar: Scalar, where: Where) -> bool:
    """Whether the scalar's value is nobody's business: by the key that it stands behind, or the name it came by."""
    return where.is_secret or scalar.is_secret


def part_of(place: Place, part: str) -> Place:
    """The part of a scalar to put the caret under, where it stands in the first line as it was written."""
    line = place.source.lines[place.line - 1]
    found = line.find(part, place.column - 1) if part else -1
    return place.source.at(place.line, found + 1, len(part)) if found >= 0 else place


# Describing what was seen --------------------------------------------------------------------------------------------


def seen(node: Node, filled: Filled | None, where: Where) -> str:
    """`saw text 'ten'`: what stands there, unless it is nobody's business."""
    if not isinstance(node, Scalar):
        return "saw a list" if isinstance(node, Sequence) else "saw a mapping"
    if filled is not None and filled.origins:
        holds = "is empty" if not filled.text else "holds something else"
        return f"but {', '.join(filled.origins)} {holds}"
    if is_hidden(node, where):
        return f"saw {MASK}"
    kind = node.kind
    if kind == "nothing":
        return "saw nothing"
    return f"saw {shown(node.text)}" if kind == "bool" else f"saw {_KIND[kind]} {quoted(node.text)}"


_KIND: Final = {"text": "text", "whole": "the number", "number": "the number"}


def quoted(text: str) -> str:
    """Text in quotes; numbers without."""
    return shown(text) if kind_of(text) in ("whole", "number") else f"'{shown(text)}'"


def shown(text: str) -> str:
    """A value as it may stand in a message: short, on one line, printable."""
    short = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    return "".join(c if c.isprintable() else "·" for c in short)
