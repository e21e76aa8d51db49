"""How far our clock is from that of SQS, by the times that its answers carry. It decides nothing; people are told."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

MOST: Final = 5.0
"""Seconds. AWS itself refuses signatures that are five minutes off."""
_EVERY: Final = 10.0
_RESOLUTION: Final = 1.0
"""The time of an answer has no fractions of seconds."""


class Skew:
    """`seconds`: how far we are ahead (or behind, below 0); None as long as nothing is known."""

    def __init__(self, now: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.seconds: float | None = None
        self._now = now
        self._monotonic = monotonic
        self._noted_at = float("-inf")

    def note(self, answer: Mapping[str, Any], sent: float) -> None:
        """`sent`: when the call was made, by the clock of this machine. Most answers are not looked at."""
        monotonic = self._monotonic()
        if monotonic - self._noted_at < _EVERY:
            return
        self._noted_at = monotonic
        headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
        date = headers.get("date")
        if date is None:
            return
        try:
            theirs = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return
        self.seconds = skew_of(theirs, sent, self._now())

    @property
    def trouble(self) -> str | None:
        seconds = self.seconds
        if seconds is None or abs(seconds) <= MOST:
            return None
        how = "ahead of" if seconds > 0 else "behind"
        return (
            f"the clock of this machine is {abs(seconds):.0f} s {how} that of SQS: set it (NTP). No message is lost by "
            "it, but AWS refuses calls from 5 minutes on"
        )


def skew_of(theirs: float, sent: float, answered: float) -> float:
    """0 where their time lies between those of call and answer; else how far it lies outside, ours minus theirs."""
    if theirs > answered + _RESOLUTION:
        return answered - theirs
    if theirs < sent - _RESOLUTION:
        return sent - theirs
    return 0.0
