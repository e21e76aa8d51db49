"""What streams, targets, assets and watchers may be called."""

from __future__ import annotations

from typing import Final

from bridge.config.nodes import Scalar
from bridge.config.reading import Reading, shown

LONGEST: Final = 128
_RESERVED: Final = frozenset("/~*${}")
"""Run keys are `<watcher id>/<source>/…` and `…~<digest>`, and `*` stands for every watcher."""

NAME_PATTERN: Final = r"^[^\s/~*${}\-][^\s/~*${}]*$"
"""The rule as a regular expression, but for its length and for characters that can't be printed."""

NAME_RULE: Final = (
    f"a name has no spaces, no control characters and none of / ~ * $ {{ }}, and at most {LONGEST} characters"
)


def is_good_name(name: str) -> bool:
    """Whether it can be part of a run key and an argument of a command."""
    return (
        0 < len(name) <= LONGEST
        and not name.startswith("-")
        and _RESERVED.isdisjoint(name)
        and not any(c.isspace() or not c.isprintable() for c in name)
    )


def check_name(key: Scalar, what: str, reading: Reading) -> bool:
    """Adds a problem where the key can't be the name of a stream, target or asset."""
    if is_good_name(key.text):
        return True
    reading.problem(key.place, f"'{shown(key.text)}' can't be the name of {what}", NAME_RULE)
    return False
