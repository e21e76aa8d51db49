"""One message as it came in, and as it goes out.

Only header and annotations are the broker's. Properties, application properties and body are the sender's: they stay
the bytes they were, whatever body type they hold (part 3.2 of the specification).
"""

from __future__ import annotations

import math
import struct

from msgspec import Struct

from bench.brokers.servicebus.emulator.reading import items, pairs, read, skip
from bench.brokers.servicebus.emulator.values import Int, Malformed, Symbol, Timestamp, Value
from bench.brokers.servicebus.emulator.writing import NULL, section, write, write_list, write_map

HEADER, DELIVERY_ANNOTATIONS, ANNOTATIONS, PROPERTIES, APPLICATION = 0x70, 0x71, 0x72, 0x73, 0x74
DATA, FOOTER = 0x75, 0x78
BATCH = 0x80013700
"""The message format of a batch: each Data section holds one encoded message. Microsoft's own number."""
GROUP_ID = 10
"""Its place in the properties: Service Bus calls it the session id."""
DURABLE, PRIORITY, TIME_TO_LIVE = 0, 1, 2
"""Their places in the header."""

SEQUENCE = write(Symbol("x-opt-sequence-number"))
ENQUEUED_SEQUENCE = write(Symbol("x-opt-enqueue-sequence-number"))
ENQUEUED = write(Symbol("x-opt-enqueued-time"))
LOCKED_UNTIL = write(Symbol("x-opt-locked-until"))
STATE = write(Symbol("x-opt-message-state"))
SOURCE = write(Symbol("x-opt-deadletter-source"))
STATES = {name: write(Int(number)) for number, name in enumerate(("active", "deferred", "scheduled"))}
OURS = {SEQUENCE, ENQUEUED_SEQUENCE, ENQUEUED, LOCKED_UNTIL, STATE}
_UINT = struct.Struct("!I")
_LONG = struct.Struct("!q")


class Message(Struct, frozen=True):
    """`scheduled` is in seconds since 1970, `life` in seconds; `annotations` are written pairs; `bare` is all that
    comes after them.
    """

    durable: bytes
    priority: bytes
    life: float
    annotations: tuple[tuple[bytes, bytes], ...]
    bare: bytes
    session: str | None
    scheduled: float | None

    def delivered(
        self, sequence: int, enqueued: float, failed: int, until: float | None = None, state: str = "active"
    ) -> bytes:
        """The whole message for a receiver. `failed`: deliveries of it that came to nothing. Times in seconds."""
        life = NULL if math.isinf(self.life) else b"\x70" + _UINT.pack(int(self.life * 1000))
        header = [self.durable, self.priority, life, NULL, b"\x70" + _UINT.pack(failed)]
        number = b"\x81" + _LONG.pack(sequence)
        ours = [
            (SEQUENCE, number),
            (ENQUEUED_SEQUENCE, number),
            (ENQUEUED, _milliseconds(enqueued)),
            (STATE, STATES[state]),
        ]
        if until is not None:
            ours.append((LOCKED_UNTIL, _milliseconds(until)))
        annotations = write_map([*self.annotations, *ours])
        return section(HEADER, write_list(header)) + section(ANNOTATIONS, annotations) + self.bare

    def dead_lettered(self, source: str, reason: str | None, description: str | None) -> Message:
        """Reason and description become application properties, which is where the service writes them."""
        told = {"DeadLetterReason": reason, "DeadLetterErrorDescription": description}
        added = {write(name): write(text) for name, text in told.items() if text is not None}
        annotations = [pair for pair in self.annotations if pair[0] != SOURCE]
        return Message(
            self.durable,
            self.priority,
            math.inf,  # nothing runs out in a dead-letter queue
            (*annotations, (SOURCE, write(source))),
            _with_application_properties(self.bare, added),
            self.session,
            None,
        )


def parse(raw: bytes) -> Message:
    """Raises Malformed."""
    header: list[bytes] = []
    annotations: list[tuple[bytes, bytes]] = []
    session: str | None = None
    at = 0
    while at < len(raw):
        code, value, end = _section(raw, at)
        if code == HEADER:
            header = _items(raw, value)
        elif code == ANNOTATIONS:
            annotations = pairs(raw, value)
        elif code != DELIVERY_ANNOTATIONS:
            session = _session(raw, value) if code == PROPERTIES else None
            break
        at = end
    return Message(
        _at(header, DURABLE),
        _at(header, PRIORITY),
        _life(_at(header, TIME_TO_LIVE)),
        tuple(pair for pair in annotations if pair[0] not in OURS),
        raw[at:],
        session,
        _scheduled(annotations),
    )


def unbatched(raw: bytes) -> list[bytes]:
    """The messages of a batch. Raises Malformed."""
    found: list[bytes] = []
    at = 0
    while at < len(raw):
        code, value, end = _section(raw, at)
        if code == DATA:
            data, _ = read(raw, value)
            assert isinstance(data, bytes)
            found.append(data)
        at = end
    return found


def request(raw: bytes) -> tuple[Value, dict[str, Value], Value]:
    """Of a message to `$cbs` or `$management`: its id, application properties and value. Raises Malformed."""
    id: Value = None
    properties: dict[str, Value] = {}
    body: Value = None
    at = 0
    while at < len(raw):
        code, value, end = _section(raw, at)
        if code == PROPERTIES:
            count, start, _ = items(raw, value)
            id = read(raw, start)[0] if count else None
        elif code == APPLICATION:
            properties = {str(key): each for key, each in _map(raw, value).items()}
        elif code == DATA + 2:
            body, _ = read(raw, value)
        at = end
    return id, properties, body


def plain(body: bytes, session: str | None, properties: dict[str, Value]) -> bytes:
    """A message with one Data section, as a client would encode it."""
    named = b"" if session is None else section(PROPERTIES, write_list([NULL] * GROUP_ID + [write(session)]))
    told = write_map([(write(name), write(value)) for name, value in properties.items()])
    return named + (section(APPLICATION, told) if properties else b"") + section(DATA, write(body))


def answer(id: Value, properties: dict[str, Value], body: Value) -> bytes:
    """What `$cbs` and `$management` send back: `id` becomes the correlation id, with its type."""
    correlated = write_list([NULL] * 5 + [write(id)])
    told = write_map([(write(name), write(value)) for name, value in properties.items()])
    return section(PROPERTIES, correlated) + section(APPLICATION, told) + section(DATA + 2, write(body))


def _section(raw: bytes, at: int) -> tuple[int, int, int]:
    """Its code, where its value is, and where it ends."""
    if raw[at : at + 1] != b"\0":
        raise Malformed(f"no section of a message at byte {at}")
    if raw[at + 1] == 0x53:
        code, value = raw[at + 2], at + 3
    else:
        descriptor, value = read(raw, at + 1)
        code = descriptor if isinstance(descriptor, int) else -1
    if not HEADER <= code <= FOOTER:
        raise Malformed(f"a section with the descriptor {code:#x} at byte {at}")
    end = skip(raw, value)
    if end > len(raw):
        raise Malformed(f"the section {code:#x} at byte {at} is cut off")
    return code, value, end


def _items(raw: bytes, at: int) -> list[bytes]:
    count, start, _ = items(raw, at)
    found = []
    for _ in range(count):
        end = skip(raw, start)
        found.append(raw[start:end])
        start = end
    return found


def _at(header: list[bytes], place: int) -> bytes:
    return header[place] if place < len(header) else NULL


def _life(raw: bytes) -> float:
    value, _ = read(raw)
    return value / 1000 if isinstance(value, int) else math.inf


def _session(raw: bytes, at: int) -> str | None:
    count, start, _ = items(raw, at)
    if count <= GROUP_ID:
        return None
    for _ in range(GROUP_ID):
        start = skip(raw, start)
    value, _ = read(raw, start)
    return value if isinstance(value, str) else None


def _scheduled(annotations: list[tuple[bytes, bytes]]) -> float | None:
    for key, value in annotations:
        if key.endswith(b"x-opt-scheduled-enqueue-time"):
            at, _ = read(value)
            return at / 1000 if isinstance(at, Timestamp) else None
    return None


def _map(raw: bytes, at: int) -> dict[Value, Value]:
    value, _ = read(raw, at)
    return value if isinstance(value, dict) else {}


def _milliseconds(at: float) -> bytes:
    return b"\x83" + _LONG.pack(int(at * 1000))


def _with_application_properties(bare: bytes, added: dict[bytes, bytes]) -> bytes:
    before, rest, found = b"", bare, dict[bytes, bytes]()
    while rest:
        code, value, end = _section(rest, 0)
        if code > APPLICATION:
            break
        if code == APPLICATION:
            found = dict(pairs(rest, value))
        else:
            before += rest[:end]
        rest = rest[end:]
    names = {str(read(name)[0]) for name in added}
    kept = {name: value for name, value in found.items() if str(read(name)[0]) not in names}
    return before + section(APPLICATION, write_map({**kept, **added}.items())) + rest
