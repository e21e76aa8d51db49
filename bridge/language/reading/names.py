"""Functions and macros by the names that people write, and how to call what they meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.language.functions import FUNCTIONS, MACROS
from bridge.language.reading.checks import Complaint
from bridge.language.reading.scope import did_you_mean

_CALLABLE: Final = [name for name, function in FUNCTIONS.items() if function.form != "operator"]

# Names in CEL's extensions and in other languages.
_MEANT: Final = {
    "beginswith": "startsWith", "hasprefix": "startsWith", "prefix": "startsWith", "hassuffix": "endsWith",
    "suffix": "endsWith", "includes": "contains", "has_text": "contains", "regex": "matches", "regexp": "matches",
    "match": "matches", "search": "matches", "test": "matches", "rlike": "matches", "len": "size", "length": "size",
    "count": "size", "tolower": "lower", "lowerascii": "lower", "lowercase": "lower", "tolowercase": "lower",
    "downcase": "lower", "casefold": "lower", "toupper": "upper", "upperascii": "upper", "uppercase": "upper",
    "touppercase": "upper", "upcase": "upper", "str": "string", "tostring": "string", "text": "string",
    "float": "double", "number": "double", "decimal": "double", "tonumber": "double", "integer": "int",
    "toint": "int", "parseint": "int", "uint": "int", "long": "int", "date": "timestamp", "datetime": "timestamp",
    "parsedate": "timestamp", "time": "timestamp", "interval": "duration", "timedelta": "duration",
    "coalesce": "default", "ifnull": "default", "get": "default", "orvalue": "default", "or_else": "default",
    "nvl": "default", "defined": "has", "isset": "has", "isdefined": "has", "haskey": "has", "some": "exists",
    "any": "exists", "every": "all", "forall": "all", "where": "filter", "select": "filter", "incidr": "cidr",
    "cidrmatch": "cidr", "ipincidr": "cidr", "containsip": "cidr",
}  # fmt: skip
_INSTEAD: Final = {
    "not": "write ! in front of it, as in !(event.a == 1)", "and": "write &&", "or": "write ||",
    "isnull": "write !has(event.a)", "is_null": "write !has(event.a)", "now": "`now` is written without brackets",
    "exists_one": "write size(event.items.filter(item, item.price > 100)) == 1",
    "existsone": "write size(event.items.filter(item, item.price > 100)) == 1",
    "in": "write event.region in [\"eu\", \"uk\"]", "type": "there is no function for the kind of a value",
    "cast": "kinds are changed by string(…), int(…), double(…) and timestamp(…)",
    "now_utc": "write now",
}  # fmt: skip
_PARTS_OF_TIME: Final = 'a timestamp is compared whole: meta.timestamp > timestamp("2026-01-01T00:00:00Z")'


def about_name(name: str, *, is_method: bool, written: Sequence[str]) -> Complaint | None:
    """What is wrong with calling `name`; `written` are its arguments, the receiver first."""
    if name in MACROS:
        if is_method is (name != "has"):
            return None
        return Complaint(f"`{name}` is written {'behind a value' if name != 'has' else 'in front'}", MACROS[name])
    if name not in _CALLABLE:
        return _unknown(name)
    form = FUNCTIONS[name].form
    if form == "both" or (form == "method") is is_method:
        return None
    if not written:
        return Complaint(f"`{name}` is written behind a value", f"like {FUNCTIONS[name].written}")
    inside = f"{name}({', '.join(written[form == 'method' :])})"
    if form == "method":
        return Complaint(f"`{name}` is written behind a value", f"write {written[0]}.{inside}")
    return Complaint(f"`{name}` is written in front of its value", f"write {inside}")


def about_count(name: str, count: int, *, is_method: bool) -> Complaint | None:
    """`count` of arguments, the receiver included."""
    takes = len(FUNCTIONS[name].takes)
    if count == takes:
        return None
    wanted, given = takes - is_method, count - is_method
    what = "no value" if wanted == 0 else "one value" if wanted == 1 else f"{wanted} values"
    return Complaint(f"`{name}` takes {what} between its brackets, not {given}", f"like {FUNCTIONS[name].written}")


def _unknown(name: str) -> Complaint:
    problem = f"there is no function `{name[:40]}`"
    plain = name.lower()
    if plain in _INSTEAD:
        return Complaint(problem, _INSTEAD[plain])
    if plain.startswith("get") and plain[3:].removeprefix("utc") in _TIMES:
        return Complaint(problem, _PARTS_OF_TIME)
    known = [*_CALLABLE, *MACROS]
    meant = _MEANT.get(plain) or _MEANT.get(plain.replace("_", ""))
    if meant is None:
        return Complaint(problem, did_you_mean(name.replace("_", ""), known, f"there are {', '.join(sorted(known))}"))
    return Complaint(problem, f"did you mean `{meant}`? Like {MACROS.get(meant) or FUNCTIONS[meant].written}")


_TIMES: Final = frozenset({
    "fullyear", "year", "month", "date", "day", "dayofmonth", "dayofweek", "dayofyear", "hours", "hour", "minutes",
    "seconds", "milliseconds",
})  # fmt: skip
