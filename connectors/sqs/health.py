"""What fails now, since when, and whether people should know. A line in the log when it begins and when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from bridge.core.errors import HeadraceError, Transient

log = structlog.get_logger("headrace.sqs")

PATIENCE: Final = 5.0
"""Seconds: a broken connection or a throttled call is over by then. What only a person can mend is told at once."""


class Health:
    """`failed` and `worked` by what was done: `reading`, `settling`, `renewing`."""

    def __init__(self, queue: str, now: Callable[[], float] = time.monotonic) -> None:
        self._queue = queue
        self._now = now
        self._failing: dict[str, tuple[HeadraceError, float]] = {}

    def failed(self, doing: str, error: HeadraceError) -> None:
        since = self._failing.get(doing)
        if since is None:
            log.warning(f"{doing} fails, tried again", queue=self._queue, error=str(error))
        self._failing[doing] = error, since[1] if since is not None else self._now()

    def worked(self, doing: str) -> None:
        if self._failing and self._failing.pop(doing, None) is not None:
            log.info(f"{doing} works again", queue=self._queue)

    @property
    def trouble(self) -> str | None:
        """What has failed for longest, and for how long; None where nothing does that people should know."""
        now = self._now()
        told = [
            (since, f"{doing} {self._queue!r} has failed for {now - since:.0f} s, tried again all the time: {error}")
            for doing, (error, since) in self._failing.items()
            if not isinstance(error, Transient) or now - since >= PATIENCE
        ]
        return min(told)[1] if told else None
