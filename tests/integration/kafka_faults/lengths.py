"""How long the tests of this folder last: short forms by default, the long ones with HEADRACE_SOAK=1 (`make soak`)."""

from __future__ import annotations

import os
from typing import Final, TypeVar

T = TypeVar("T")

SOAK: Final = os.environ.get("HEADRACE_SOAK") == "1"


def either(short: T, long: T) -> T:
    """The one that counts now: of seconds, messages, lives."""
    return long if SOAK else short
