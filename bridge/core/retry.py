"""Growing delays, as plain arithmetic: chance comes in as an argument."""

from __future__ import annotations

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """`delay` seconds before the first repetition, `factor` times as long before each further one, at most `max`.

    `jitter` is the share of the delay that `roll` may add, so that what failed together doesn't come back together.
    """

    delay: float = 1.0
    factor: float = 2.0
    max: float = 300.0
    jitter: float = 0.2

    def after(self, attempts: int, roll: float = 0.0) -> float:
        """Seconds to wait after `attempts` failures (1 or more); `roll` is uniform in [0, 1)."""
        exponent = min(attempts - 1, 64)  # `max` is reached long before, and a float could overflow
        return min(self.max, self.delay * self.factor**exponent) * (1 + self.jitter * roll)
