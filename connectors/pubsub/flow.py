"""How much may be on its way to us. Pure.

The service counts what it has sent on a stream and what of that is neither acked nor given back, and stops at the
number that was said when the stream was opened. So a stream that is full stops by itself, and is left open: opening it
anew would cost more than it saves. It is ended, and opened again, only

    when another number is asked for
    when nothing is asked for and messages come all the same (Google's emulator does not count)
    when so many messages were put off that they take up the room of those that could be worked on (B44): the service
    counts them, but on the stream that they came on
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

_SLACK: Final = 100
_CROWDED_AFTER: Final = 10.0
"""Seconds at least between two ends of a stream for the sake of what rests."""


class Flow(Struct, eq=False):
    """`asked`: how many messages, by `ask`. `opened`: what the streams were told, and `since` when (monotonic).

    `surplus`: how many more came than were settled since nothing is asked for. `resting`: put off, and still counted.
    """

    asked: int
    opened: int = 0
    since: float = 0.0
    surplus: int = 0
    resting: int = 0

    def ask(self, most: int) -> None:
        if self.asked and not most:
            self.surplus = 0
        self.asked = most

    def open(self, now: float) -> int:
        """The streams are told of `asked`, which is returned."""
        self.opened, self.since, self.surplus, self.resting = self.asked, now, 0, 0
        return self.opened

    def came(self, count: int) -> None:
        if not self.asked:
            self.surplus += count

    def left(self, count: int) -> None:
        """So many were settled or given back."""
        if not self.asked:
            self.surplus -= count

    def rested(self, count: int) -> None:
        self.resting += count

    def why_end(self, now: float) -> str:
        """Why the streams have to be ended now; empty where they may go on."""
        if not self.opened:
            return ""
        if not self.asked:
            return "unasked" if self.surplus > _SLACK + self.opened // 4 else ""
        if self.asked != self.opened:
            return "resized"
        if 2 * self.resting >= self.opened and now - self.since >= _CROWDED_AFTER:
            return "crowded"
        return ""
