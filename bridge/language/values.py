"""What values are while a condition is evaluated, and what comparing them means.

A value is what JSON has (str, int, float or Decimal, bool, list, dict), a Timestamp or Duration, bytes (a key or header
that is no text), None: *unknown* (a field that is missing or null, and whatever was made of it), or a Fail: the error
outcome. Truth is True, False, None or a Fail.

Every function here is total: it takes any value and raises nothing. What functions and operators of an expression do is
in `calls.py`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

from msgspec import Struct

from bridge.language.functions import KINDS, Kind


class Timestamp(Struct, frozen=True, order=True):
    """An instant; nanoseconds since 1970, UTC. Years 1 to 9999."""

    ns: int


class Duration(Struct, frozen=True, order=True):
    """A length of time in nanoseconds, negative too."""

    ns: int


class Fail(Struct, frozen=True):
    """The error outcome. `message` names fields and kinds, never a value: it is counted, listed and logged."""

    message: str


Value: TypeAlias = object
"""See above; a tuple is a list literal."""

Truth: TypeAlias = bool | Fail | None

MOST_COMPARED: Final = 250_000
"""Items that one comparison looks at. A list that is made of itself many times over has no other end."""

_KIND_OF: Final[dict[type, Kind]] = {
    str: "text",
    bool: "bool",
    int: "number",
    Decimal: "number",
    float: "number",
    list: "list",
    dict: "mapping",
    tuple: "list",
    Timestamp: "timestamp",
    Duration: "duration",
    bytes: "bytes",
}
_SCALAR: Final[frozenset[Kind | None]] = frozenset({"text", "number", "bool", "timestamp", "duration", "bytes"})
_ORDERED: Final[frozenset[Kind]] = frozenset({"text", "number", "timestamp", "duration"})


class Meter:
    """How much work is left. What runs out of it gives `Meter.spent`, and ends."""

    __slots__ = ("left", "spent")

    def __init__(self, left: int, spent: Fail) -> None:
        self.left = left
        self.spent = spent


def kind_of(value: Value) -> Kind:
    """What the value is; `any` of unknown, a Fail, and whatever no event holds."""
    kind = _KIND_OF.get(type(value))
    if kind is not None:
        return kind
    return "mapping" if isinstance(value, Mapping) else "any"


def kinds_in_words(kinds: Iterable[Kind]) -> str:
    """`text or a number`; each kind once."""
    words = list(dict.fromkeys(KINDS[kind] for kind in kinds))
    return " or ".join((", ".join(words[:-1]), words[-1])) if len(words) > 1 else "".join(words)


def truth_of(value: Value) -> Truth:
    """What a condition says that has this value: a Fail where it is neither truth nor unknown."""
    if value is None or value is True or value is False or isinstance(value, Fail):
        return value
    return Fail(f"gives {KINDS[kind_of(value)]}, not true or false")


def conjunction(values: Iterable[Value]) -> Truth:
    """AND: False where one is false, else the first Fail, else unknown where one is, else True."""
    worst: Truth = True
    for value in values:
        truth = truth_of(value)
        if truth is False:
            return False
        worst = joined(worst, truth, True)
    return worst


def disjunction(values: Iterable[Value]) -> Truth:
    """OR: True where one is true, else the first Fail, else unknown where one is, else False."""
    worst: Truth = False
    for value in values:
        truth = truth_of(value)
        if truth is True:
            return True
        worst = joined(worst, truth, False)
    return worst


def joined(so_far: Truth, next_one: Truth, neutral: bool) -> Truth:
    """Of two that decide nothing, the one that counts more: a Fail, then unknown, then what changes nothing."""
    if isinstance(so_far, Fail) or next_one is neutral:
        return so_far
    return next_one if isinstance(next_one, Fail) else None


def negation(value: Value) -> Truth:
    """NOT: leaves unknown and a Fail as they are."""
    truth = truth_of(value)
    return not truth if isinstance(truth, bool) else truth


def undefined(*values: Value) -> Truth:
    """The first Fail among the values, else None where one is unknown, else True: all of them can be looked at."""
    found: Truth = True
    for value in values:
        if isinstance(value, Fail):
            return value
        if value is None:
            found = None
    return found


def equal(left: Value, right: Value, meter: Meter | None = None) -> Truth:
    """`==`. Numbers by value, whatever they are kept in; a Fail between kinds.

    Lists and mappings are equal item by item: the AND of all, False where there are more of them on one side.
    """
    if _are_alike(left, right):
        return left == right
    return _equal_items(left, right, meter or _fresh_meter())


def _equal_items(left: Value, right: Value, meter: Meter) -> Truth:
    """No recursion: the AND of ANDs is one AND, and lists can be nested deeper than the interpreter can stand."""
    pending = [(left, right)]
    worst: Truth = True
    while pending:
        left, right = pending.pop()
        meter.left -= 1 + (len(left) if isinstance(left, list | tuple | Mapping) else 0)
        if meter.left < 0:
            return meter.spent
        truth = undefined(left, right)
        if truth is True:
            truth = _equal_outside(left, right, pending)
        if truth is False:
            return False
        worst = joined(worst, truth, True)
    return worst


def _equal_outside(left: Value, right: Value, pending: list[tuple[Value, Value]]) -> Truth:
    """Whether the two can be equal. Adds to `pending` the pairs of items that this leaves open."""
    kind = kind_of(left)
    if kind != kind_of(right) or kind == "any":
        return _mismatch(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.keys() != right.keys():
            return False
        return _equal_pairs(((left[name], right[name]) for name in left), pending)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return False
        return _equal_pairs(zip(left, right, strict=True), pending)
    return left == right


def _equal_pairs(pairs: Iterable[tuple[Value, Value]], pending: list[tuple[Value, Value]]) -> bool:
    """Compares those that are scalars of one kind; the others go to `pending`, the first on top."""
    mark = len(pending)
    for left, right in pairs:
        if not _are_alike(left, right):
            pending.append((left, right))
        elif left != right:
            return False
    pending[mark:] = reversed(pending[mark:])
    return True


def _are_alike(left: Value, right: Value) -> bool:
    """Whether both are scalars of one kind: then Python compares them as we do."""
    kind = _KIND_OF.get(type(left))
    return kind in _SCALAR and kind == _KIND_OF.get(type(right))


def less(left: Value, right: Value) -> Truth:
    """`<` of two texts (by code point), numbers, timestamps or durations; a Fail of everything else."""
    truth = _comparable(left, right)
    return _less(left, right) if truth is True else truth


def less_or_equal(left: Value, right: Value) -> Truth:
    """`<=`, likewise."""
    truth = _comparable(left, right)
    return (left == right or _less(left, right)) if truth is True else truth


def _comparable(left: Value, right: Value) -> Truth:
    truth = undefined(left, right)
    if truth is not True:
        return truth
    kind = kind_of(left)
    if kind != kind_of(right):
        return _mismatch(left, right)
    return True if kind in _ORDERED else Fail(f"{KINDS[kind]} has no order")


def _less(left: Value, right: Value) -> Truth:
    try:
        return bool(left < right)  # type: ignore[operator]  # both are of one ordered kind
    except ArithmeticError:  # a Decimal that is no number; no event holds one
        return Fail("a number that is not finite has no order")


def any_of(value: Value, values: Sequence[Value]) -> Truth:
    """Whether the value equals one of several scalars. A Fail only where it is of another kind than all of them."""
    truth = undefined(value)
    if truth is not True:
        return truth
    kind = kind_of(value)
    is_comparable = False
    for candidate in values:
        if kind_of(candidate) == kind:
            if value == candidate:
                return True
            is_comparable = True
    return False if is_comparable else Fail(f"{KINDS[kind]} compared with {kinds_in_words(map(kind_of, values))}")


def contained(value: Value, container: Value, meter: Meter | None = None) -> Truth:
    """`in`: an item of a list (nulls are passed over; unknown where it has nothing else), or a name of a mapping."""
    truth = undefined(value, container)
    if truth is not True:
        return truth
    if isinstance(container, Mapping):
        return (
            value in container if isinstance(value, str) else Fail("the fields of an object have names, which are text")
        )
    if not isinstance(container, list | tuple):
        return Fail(f"`in` takes a list or an object, not {KINDS[kind_of(container)]}")
    meter = meter or _fresh_meter()
    kind = _KIND_OF.get(type(value))
    return (_scalar_of_items if kind in _SCALAR else _one_of_items)(value, container, meter)


def _scalar_of_items(value: Value, items: Sequence[Value], meter: Meter) -> Truth:
    """The same as below: of a scalar, which Python finds a hundred times faster among those of its kind."""
    kind = _KIND_OF.get(type(value))
    alike = {type_ for type_ in set(map(type, items)) if _KIND_OF.get(type_) == kind}
    comparable = [item for item in items if type(item) in alike]
    is_there = value in comparable
    meter.left -= _place(value, items, alike) + 1 if is_there else len(items)
    if meter.left < 0:
        return meter.spent
    if comparable:
        return is_there
    other = next((item for item in items if item is not None), None)
    return _mismatch(value, other) if other is not None else None if items else False


def _place(value: Value, items: Sequence[Value], alike: Container[type]) -> int:
    return next(place for place, item in enumerate(items) if type(item) in alike and item == value)


def _one_of_items(value: Value, items: Sequence[Value], meter: Meter) -> Truth:
    """True, else unknown where an item has a null inside, else False where one is comparable, else a Fail."""
    seen: dict[bool | None, bool] = {}
    fail: Fail | None = None
    for item in items:
        meter.left -= 1
        truth = equal(value, item, meter) if item is not None and meter.left >= 0 else None
        if meter.left < 0:
            return meter.spent
        if truth is True:
            return True
        if isinstance(truth, Fail):
            fail = fail or truth
        elif item is not None:
            seen[truth] = True
    if seen:
        return None if None in seen else False
    return fail or (None if items else False)


def _fresh_meter() -> Meter:
    return Meter(MOST_COMPARED, Fail(f"more than {MOST_COMPARED:,} items to compare"))


def _mismatch(left: Value, right: Value) -> Fail:
    return Fail(f"{KINDS[kind_of(left)]} compared with {KINDS[kind_of(right)]}")
