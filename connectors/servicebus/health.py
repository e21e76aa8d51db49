"""What people should know: which links there are, why some broke, and whether clocks and locks fit."""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import structlog

from bridge.core.retry import Backoff
from connectors.servicebus.errors import kind_of, told, trouble_of
from connectors.servicebus.options import LONGEST_LOCK, ServiceBusOptions

log = structlog.get_logger("headrace.servicebus")

AGAIN: Final = Backoff(delay=0.5, factor=2.0, max=15.0)
"""Between tries to open a link: a broker that is back is read within 20 s."""
_PATIENCE: Final = 5.0
_SKEW: Final = 5.0
_AT_ONCE: Final = ("no_entity", "not_authorized", "not_allowed")


class Health:
    """Counters, and the trouble that the stream is in. `entity` is for sentences."""

    def __init__(self, entity: str, options: ServiceBusOptions) -> None:
        self.breaks: Counter[str] = Counter()
        self.locks_lost = 0
        self._entity = entity
        self._options = options
        self._error: BaseException | None = None
        self._since = 0.0
        self._locks: str | None = None
        self._times: str | None = None
        self._looked = 0.0

    def is_up(self) -> None:
        """A link is open, or the broker has said that there is no session now."""
        if self._error is not None:
            log.info("reading again", entity=self._entity, after=f"{time.monotonic() - self._since:.1f} s")
        self._error = None

    def broke(self, error: BaseException) -> None:
        """A link broke, or could not be opened. One line for each kind of error in a row."""
        kind = kind_of(error)
        self.breaks[kind] += 1
        if self._error is None:
            self._since = time.monotonic()
        if self._error is None or kind_of(self._error) != kind:
            say = log.info if kind == "detached" else log.warning  # which the service does whenever it is quiet
            say("a link is gone, and is opened again", entity=self._entity, kind=kind, reason=told(error))
        self._error = error

    def trouble(self, *, has_links: bool) -> str | None:
        """None: all is well, or not bad for long."""
        clock = self._locks or self._times
        if self._error is None or has_links:
            return clock
        seconds = time.monotonic() - self._since
        if seconds < _PATIENCE and kind_of(self._error) not in _AT_ONCE:
            return clock
        return f"{trouble_of(self._error, self._entity)}, for {seconds:.0f} s now: tried again all the time"

    # Clocks ----------------------------------------------------------------------------------------------------------

    def saw(self, locked_until: int | None, enqueued: int, now: float) -> None:
        """A message has come just now: times by the broker's clock in ms, `now` monotonic. Looks once a second."""
        if now - self._looked < 1:
            return
        self._looked = now
        if locked_until is not None:
            self.saw_lock(locked_until)
        ahead = enqueued / 1000 - time.time()
        self._times = None
        if ahead > _SKEW:
            self._times = (
                f"a message was enqueued {ahead:.0f} s in the future by this machine's clock: set the clock; leases "
                "don't go by it"
            )

    def saw_lock(self, until: int) -> None:
        """A lock was given or renewed just now, until then by the broker's clock in ms."""
        self._locks = lock_trouble(until / 1000 - time.time(), self._options)


def lock_trouble(lasts: float, options: ServiceBusOptions) -> str | None:
    """`lasts`: seconds from now by this machine's clock. A lock that is longer than we think is only renewed too often,
    and where `lock_duration` was left out it may well be.
    """
    is_short = lasts < options.lease - _SKEW
    is_long = lasts > (options.lease if options.lock_duration is not None else LONGEST_LOCK) + _SKEW
    if not is_short and not is_long:
        return None
    says = "says" if options.lock_duration is not None else "is taken for"
    return (
        f"a lock lasts {lasts:.0f} s by this machine's clock, `lock_duration` {says} {options.lease:g} s: set "
        "`lock_duration` to what the entity has, or the clock"
    )
