"""Which incoming messages are batches: the message format of each transfer, which Proton knows and does not tell.

The bytes of a connection come past here first. Of each frame only the first fields of a transfer are read (part 2.3
and 2.7.5 of the specification); the formats are handed out in the order in which the deliveries are complete.
"""

from __future__ import annotations

from collections import deque

from bench.brokers.servicebus.emulator.reading import items, read, skip
from bench.brokers.servicebus.emulator.values import Malformed

HEADER = 8
"""Bytes of a frame's header, and of the protocol header that comes before the first frame of each layer."""
TRANSFER = b"\x00\x53\x14"
FORMAT, MORE = 3, 5
"""Places of the fields in a transfer."""
HANDLE = 0
AMQP_FRAME = 0


class Formats:
    def __init__(self) -> None:
        self._rest = b""
        self._open: dict[tuple[bytes, bytes], int] = {}
        self._complete: deque[int] = deque()

    def feed(self, data: bytes) -> None:
        rest = self._rest + data if self._rest else data
        at = 0
        while len(rest) - at >= HEADER:
            if rest[at : at + 4] == b"AMQP":
                at += HEADER
                continue
            size = int.from_bytes(rest[at : at + 4], "big")
            if size < HEADER:
                break  # Proton will say what is wrong with it
            if len(rest) - at < size:
                break
            if rest[at + 5] == AMQP_FRAME:
                self._frame(rest[at : at + size])
            at += size
        self._rest = rest[at:]

    def next(self) -> int:
        """Of the delivery that is complete now."""
        return self._complete.popleft() if self._complete else 0

    def _frame(self, frame: bytes) -> None:
        start = frame[4] * 4
        if frame[start : start + 3] != TRANSFER:
            return
        try:
            fields = _fields(frame, start + 3)
        except Malformed:
            return
        link = (frame[6:8], fields[HANDLE])
        if link not in self._open:
            value = read(fields[FORMAT])[0] if len(fields) > FORMAT else 0
            self._open[link] = value if isinstance(value, int) else 0
        if len(fields) <= MORE or read(fields[MORE])[0] is not True:
            self._complete.append(self._open.pop(link))


def _fields(frame: bytes, at: int) -> list[bytes]:
    """The first of a transfer, as far as we need them."""
    count, start, _ = items(frame, at)
    found = []
    for _ in range(min(count, MORE + 1)):
        end = skip(frame, start)
        found.append(frame[start:end])
        start = end
    return found
