"""One way through a claimed file: what was read, what was delivered, and what is settled. Pure.

The object's identity is the epoch of its lane. When a line has to come again, a fresh Reading starts there, and this
one is stale: whatever is still said of it changes nothing.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

from msgspec import Struct

from connectors.directory.claim import Claim
from connectors.directory.lines import Stretch


class Reading(Struct, eq=False):
    """See the head of the file. Offsets are of lines' first bytes; -1 is in front of the first."""

    claim: Claim
    next: int = 0  # where to read on
    skips: bool = False  # `next` lies inside a line that is done with
    settled: int = -1
    last: int = -1  # delivered
    bodies: list[bytes] = []  # read, not yet delivered, from `given` on
    offsets: list[int] = []
    given: int = 0
    stored: int = 0  # bytes that they take, roughly
    tries: int = 0
    fault: str = ""  # it can't be read any further
    is_ended: bool = False  # nothing is left to read
    is_whole: bool = True  # no line was cut
    is_paused: bool = False
    is_stale: bool = False
    has_turn: bool = False

    @property
    def ready(self) -> int:
        """Lines that were read and not delivered."""
        return len(self.bodies) - self.given

    @property
    def is_done(self) -> bool:
        """Every line was delivered and settled."""
        return self.is_ended and not self.bodies and self.settled >= self.last

    def take(self, stretch: Stretch) -> None:
        """What was read from `next` on."""
        self.bodies = self.bodies[self.given :] + stretch.bodies
        self.offsets = self.offsets[self.given :] + stretch.offsets
        self.given = 0
        self.stored = self.stored + stretch.next - self.next if self.bodies else 0
        self.next, self.skips, self.is_ended = stretch.next, stretch.skips, stretch.is_last
        self.is_whole = self.is_whole and not stretch.cut

    def give(self, bodies: list[bytes], payloads: list[Any], most: int) -> None:
        """Appends up to `most` lines; the payload is the pair of this and the offset."""
        stop = self.given + most
        offsets = self.offsets[self.given : stop]
        bodies += self.bodies[self.given : stop]
        payloads += zip(repeat(self), offsets)
        self.last = offsets[-1]
        self.given = stop
        if stop >= len(self.bodies):
            self._empty()

    def drop_lines(self) -> None:
        """What was not delivered is read again later."""
        if self.bodies:
            self.next, self.skips, self.is_ended = self.offsets[self.given], False, False
            self._empty()

    def _empty(self) -> None:
        self.bodies, self.offsets, self.given, self.stored = [], [], 0, 0
