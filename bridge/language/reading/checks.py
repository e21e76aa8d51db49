"""What can be known to be wrong about an expression before there is any event: kinds, arguments, patterns.

Every function gives a Complaint or None, and quotes nothing but the parts that it is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from ipaddress import ip_network
from typing import Final, NamedTuple

from bridge.language.calls import refusal
from bridge.language.functions import FUNCTIONS, KINDS, Kind
from bridge.language.ir import META_FIELDS, AnyOf, Compare, Const, Field, ListOf, Not
from bridge.language.patterns import network_of, pattern_of
from bridge.language.reading.typed import Typed
from bridge.language.values import kind_of, kinds_in_words

_ORDERED: Final = frozenset({"text", "number", "timestamp", "duration", "any"})
_ASKING_OF_TEXT: Final = frozenset({"startsWith", "endsWith", "contains"})
_WRITTEN: Final = frozenset({"event", "headers", "key"})
_CHAIN: Final = "write a < b && b < c: a comparison gives true or false"
_NOTHING: Final = "a value that is missing or null equals nothing"
_LONGEST_PATTERN: Final = 200  # characters of RE2's own words


class Complaint(NamedTuple):
    problem: str
    hint: str = ""


def about_truth(part: Typed) -> Complaint | None:
    """A condition, or a part of one, that gives something else than true or false."""
    if part.kind in ("bool", "any"):
        return None
    hint = f'compare it, as in {part.text} == "eu"' if part.kind == "text" else "compare it with something"
    if isinstance(part.node, Const):
        hint = "without quotes it would be one" if part.node.value in ("true", "false") else "compare a field with it"
    return Complaint(f"{part.shown} gives {KINDS[part.kind]}, not true or false", hint)


def about_comparison(op: str, left: Typed, right: Typed) -> Complaint | None:
    """`op` is one of `== != < <= > >=`."""
    null = next((part for part in (left, right) if part.is_null), None)
    if null is not None:
        return Complaint(f"{null.shown} is null", _NOTHING)
    if op == "!=" and _is_list(right):
        return Complaint(
            "`!=` with a list: it is unequal to its items in any case", f"write !({left.text} in {right.text})"
        )
    if op not in ("==", "!="):
        unordered = next((part for part in (left, right) if part.kind not in _ORDERED), None)
        if unordered is not None:
            hint = _CHAIN if isinstance(unordered.node, (Compare, AnyOf, Not)) else ""
            return Complaint(f"{unordered.shown} is {KINDS[unordered.kind]}, which has no order", hint)
    if "any" in (left.kind, right.kind) or left.kind == right.kind:
        return _about_instant(left, right)
    words = f"{left.shown} is {KINDS[left.kind]}, and {right.shown} is {KINDS[right.kind]}"
    return Complaint(f"{words}: the two are never compared", _way_to_compare(left, right))


def _about_instant(left: Typed, right: Typed) -> Complaint | None:
    """JSON and headers have no timestamps and durations, only texts and numbers that say some."""
    for part, other in ((left, right), (right, left)):
        if other.kind in ("timestamp", "duration") and isinstance(part.node, Field) and part.node.root in _WRITTEN:
            words = f"{part.shown} is never {KINDS[other.kind]}, and {other.shown} is one"
            return Complaint(words, f"write {other.kind}({part.text})")
    return None


def _way_to_compare(left: Typed, right: Typed) -> str:
    kinds = {left.kind, right.kind}
    text = left if left.kind == "text" else right
    other = right if text is left else left
    written = text.text if isinstance(text.node, Const) else None
    if kinds == {"text", "timestamp"}:
        return f"write timestamp({written})" if written else "write timestamp(…) around the text"
    if kinds == {"text", "duration"}:
        return f"write duration({written})" if written else "write duration(…) around the text"
    if isinstance(left.node, Not) and left.text.startswith("!"):
        return f"! is nearer than the comparison: write !({left.text[1:].strip()} == …)"
    if "list" in kinds:
        return f"write {left.text} in {right.text}" if right.kind == "list" else "write `in` for one of a list"
    if isinstance(left.node, (Compare, AnyOf)) or isinstance(right.node, (Compare, AnyOf)):
        return _CHAIN
    if "text" in kinds and written and other.kind in ("number", "bool"):
        return "is it meant to be without quotes?"
    return ""


def about_membership(value: Typed, container: Typed) -> Complaint | None:
    """`value in container`."""
    null = next((part for part in (value, container) if part.is_null), None)
    if null is not None:
        return Complaint(f"{null.shown} is null", _NOTHING)
    if container.kind == "text":
        hint = f"for a text inside of a text write {container.text}.contains({value.text})"
        return Complaint(f"{container.shown} is text, and `in` takes a list or an object", hint)
    if container.kind not in ("list", "mapping", "any"):
        hint = f"write {value.text} == {container.text}"
        return Complaint(f"{container.shown} is {KINDS[container.kind]}, and `in` takes a list or an object", hint)
    if not (isinstance(container.node, Const) and isinstance(container.node.value, tuple)):
        return None
    if not container.node.value:
        return Complaint("an empty list: nothing is in it", "name at least one value")
    kinds: list[Kind] = [kind_of(item) for item in container.node.value]
    if value.kind != "any" and value.kind not in kinds:
        return Complaint(f"{value.shown} is {KINDS[value.kind]}, and the list holds {kinds_in_words(kinds)}")
    return None


def about_index(of: Typed, key: Typed) -> Complaint | None:
    """`of[key]`."""
    null = next((part for part in (of, key) if part.is_null), None)
    if null is not None:
        return Complaint(f"{null.shown} is null", _NOTHING)
    if of.kind not in ("list", "mapping", "any"):
        return Complaint(f"{of.shown} is {KINDS[of.kind]}, which has no items")
    if key.kind not in ("number", "text", "any") or {of.kind, key.kind} in ({"list", "text"}, {"mapping", "number"}):
        hint = "items of a list are picked by number, fields of an object by name"
        return Complaint(f"{key.shown} is {KINDS[key.kind]}, and picks nothing of {KINDS[of.kind]}", hint)
    if isinstance(of.node, Field) and of.node == Field("meta", at=of.node.at):
        return Complaint("a field of `meta` is picked by its name", f"it has {', '.join(META_FIELDS)}")
    value = key.node.value if isinstance(key.node, Const) else 0
    if isinstance(value, Decimal) or (isinstance(value, int) and value < 0):
        return Complaint(f"there is no item {key.shown}", "items are counted from 0")
    return None


def in_words(kind: Kind) -> str:
    return KINDS[kind]


def about_arguments(name: str, args: Sequence[Typed]) -> Iterator[tuple[int | None, Complaint]]:
    """Complaints about an argument by its number (the receiver is the first), or about all of them together."""
    function = FUNCTIONS[name]
    refused = False
    for place, (arg, takes) in enumerate(zip(args, function.takes, strict=True)):
        complaint = None
        if arg.is_null and name != "default":
            complaint = Complaint(f"{arg.shown} is null", "what is made of it is unknown")
        elif arg.kind != "any" and "any" not in takes and arg.kind not in takes:
            problem = f"{arg.shown} is {KINDS[arg.kind]}, and `{name}` takes {kinds_in_words(sorted(takes))}"
            complaint = Complaint(problem, f"like {function.written}")
        elif place in function.constant:
            complaint = _about_literal(name, arg)
        elif name in _ASKING_OF_TEXT and place == 1 and isinstance(arg.node, Const) and arg.node.value == "":
            complaint = Complaint(f"an empty text: `{name}` holds for every text", "write the text, or use has(…)")
        if complaint is not None:
            refused = True
            yield place, complaint
    if refused:
        return
    if name in ("/", "%") and isinstance(args[1].node, Const) and args[1].node.value == 0:
        yield 1, Complaint("division by zero")
    kinds: list[Kind] = [arg.kind for arg in args]
    together = refusal(name, kinds, [arg.shown for arg in args]) if "any" not in kinds else None
    instant = _about_instant(args[0], args[1]) if name in ("+", "-") else None
    if instant is not None:
        yield None, instant
    if together is not None:
        yield None, Complaint(together, "string(…) makes a text of a number" if {*kinds} == {"text", "number"} else "")


def _about_literal(name: str, arg: Typed) -> Complaint | None:
    """A pattern or a network, which is read once, and not again for each event."""
    what = "pattern" if name == "matches" else "network"
    if not (isinstance(arg.node, Const) and isinstance(arg.node.value, str)):
        return Complaint(f"the {what} of `{name}` must be a text in quotes", f"like {FUNCTIONS[name].written}")
    return about_pattern(arg.node.value) if name == "matches" else about_network(arg.node.value)


def about_pattern(pattern: str) -> Complaint | None:
    try:
        pattern_of(pattern)
    except ValueError as error:
        hint = "patterns are RE2's: no look-around, no back-references; write a backslash twice, or r'…'"
        return Complaint(f"no pattern: {str(error)[:_LONGEST_PATTERN]}", hint)
    return None


def about_network(text: str) -> Complaint | None:
    try:
        network_of(text)
    except ValueError:
        try:
            meant = ip_network(text, strict=False)
        except ValueError:
            return Complaint("no network in CIDR notation", "like 10.0.0.0/8 or 2001:db8::/32")
        return Complaint("a network whose address has bits behind its prefix", f"did you mean {meant}?")
    return None


def kind_of_result(name: str, kinds: Sequence[Kind]) -> Kind:
    """What a function gives for arguments of these kinds."""
    if name not in ("+", "-", "neg"):
        return FUNCTIONS[name].gives
    if "any" in kinds:
        return "any"
    if name == "neg" or len({*kinds}) == 1:
        return "duration" if name == "-" and kinds[0] == "timestamp" else kinds[0]
    return "timestamp"


def _is_list(part: Typed) -> bool:
    return part.kind == "list" and isinstance(part.node, (Const, ListOf))
