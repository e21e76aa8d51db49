"""What aiokafka logs: some seventy lines a second while a broker is away. One of a kind is let through each minute."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

EVERY: Final = 60.0
"""Seconds between two lines of one kind."""


class Calm(logging.Filter):
    """Lets one line of a kind through, and then counts until it is time for another. A kind is the text that values are
    put into, so there are only as many as the client has places that log.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._kinds: dict[tuple[str, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.name, str(record.msg)
        now = self._now()
        shown_at, held_back = self._kinds.get(kind, (-EVERY, 0))
        if now - shown_at < EVERY:
            self._kinds[kind] = shown_at, held_back + 1
            return False
        self._kinds[kind] = now, 0
        if held_back:
            record.msg = f"{record.msg} ({held_back} more like this since the last one)"
        return True


_CALM: Final = Calm()


def calm_down() -> None:
    """For every logger that the client has by now; again and again changes nothing."""
    for name in list(logging.root.manager.loggerDict):
        if name == "aiokafka" or name.startswith("aiokafka."):
            logging.getLogger(name).addFilter(_CALM)
