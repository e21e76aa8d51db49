"""The YAML parser's complaints in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple


class Complaint(NamedTuple):
    """`at_start` where the place to show is where the construct begins, not where the parser gave up."""

    message: str
    hint: str
    at_start: bool = False


_QUOTES: Final = "text with special characters needs quotes, and a quote inside single quotes is written twice"

_WORDS: Final[list[tuple[re.Pattern[str], Callable[[re.Match[str]], Complaint]]]] = [
    (
        re.compile(r"found character '\\t' that cannot start any token"),
        lambda _: Complaint("a tab, where YAML takes only spaces", "indent with spaces"),
    ),
    (
        re.compile(r"found character '(.+)' that cannot start any token"),
        lambda m: Complaint(f"text can't start with {m[1]}", f"put it in quotes: '{m[1]}…'"),
    ),
    (
        re.compile(r"mapping values are not allowed here"),
        lambda _: Complaint(
            "a colon that does not fit here",
            "is the line indented like the ones around it? Text that holds ': ' needs quotes",
        ),
    ),
    (
        re.compile(r"could not find expected ':'"),
        lambda _: Complaint("a key without a colon", "write `key: value`, with a space after the colon", True),
    ),
    (
        re.compile(r"sequence entries are not allowed here"),
        lambda _: Complaint("a list can't begin here", "begin it on a line of its own, or write it as [a, b]"),
    ),
    (
        re.compile(r"expected <block end>, but found '(-|\?|<block \w+ start>)'"),
        lambda _: Complaint("this line does not line up with those above it", "check the indentation"),
    ),
    (
        re.compile(r"expected <block end>, but found"),
        lambda _: Complaint("more text after the end of a value", _QUOTES),
    ),
    (
        re.compile(r"found unexpected (end of stream|document separator)"),
        lambda _: Complaint("a quote that is never closed", "close it", True),
    ),
    (
        re.compile(r"expected ',' or '([\]}])', but got '[{\[]'"),
        lambda _: Complaint("a bracket inside of text", 'inside {…} and […] write variables in quotes: "${NAME}"'),
    ),
    (
        re.compile(r"expected ',' or '([\]}])'"),
        lambda m: Complaint(f"a {'{' if m[1] == '}' else '['} that is not closed by {m[1]}", "close it", True),
    ),
    (
        re.compile(r"found unknown escape character '(.*)'"),
        lambda m: Complaint(f"\\{m[1]} means nothing in double quotes", "write \\\\ for a backslash, or single quotes"),
    ),
    (
        re.compile(r"expected the node content, but found '<stream end>'"),
        lambda _: Complaint("the text ends in the middle of this", "is there a bracket to close?"),
    ),
    (
        re.compile(r"expected the node content, but found '(.+)'"),
        lambda m: Complaint(f"{m[1]} where a value should be", _QUOTES),
    ),
    (
        re.compile(r"expected alphabetic or numeric character"),
        lambda _: Complaint("* and & start the name of an anchor", "text that begins with one of them needs quotes"),
    ),
    (
        re.compile(r"expected chomping or indentation indicators"),
        lambda _: Complaint("after | or > the text begins on the next line", "or put the text in quotes"),
    ),
    (
        re.compile(r"found undefined tag handle"),
        lambda _: Complaint("YAML tags (!…) are not used here", "remove it, or put the text in quotes"),
    ),
    (
        re.compile(r"incompatible YAML document"),
        lambda _: Complaint("not YAML 1.2", "remove the %YAML line"),
    ),
]


def in_plain_words(problem: str) -> Complaint:
    """What the parser's sentence means to a person."""
    for pattern, complaint in _WORDS:
        found = pattern.search(problem)
        if found:
            return complaint(found)
    return Complaint(f"not valid YAML: {problem}", "")
