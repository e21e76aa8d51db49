"""What every store does alike, as plain functions: names of conflicts, text that can't be refused, states.

The SQL store and the one in memory share them, so that they can only differ where they store.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from math import isfinite
from typing import Final, NamedTuple

import msgspec
from msgspec import structs

from bridge.core.model import Tombstone
from bridge.ports import (
    AttemptRow,
    DeadLetterRow,
    ForgetRow,
    OpenedRow,
    RelayedRow,
    ResultRow,
    Row,
    RunRow,
)

FINISHED: Final = ("started", "succeeded", "failed_run", "skipped", "suppressed")
RETRYABLE: Final = ("failed", "failed_run", "skipped")
OPEN_LETTERS: Final = ("dead", "replaying")
SETTLED_LETTERS: Final = ("replayed", "superseded", "dropped")

STORE_REFUSED: Final = "store_refused"
_TEXT_MOST: Final = 100_000  # characters of an error or a position that are kept
_COUNT_MOST: Final = 2**31 - 1
_KEY_MOST: Final = 500  # characters of a business key: it comes from events, and has to fit an index of any database


SUSPECT_FOR: Final = 600.0
"""Seconds after an instance was found dead in which those that start are told of it."""

_HANDED_OUT_MOST: Final = 16 * 1024 * 1024  # bytes of the bodies of one claim of letters


class KeyHolder(NamedTuple):
    """Who has a business key, by its run key, and until when (seconds since 1970)."""

    run_key: str
    until: float


def conflict_key(run_key: str, digest: bytes) -> str:
    """Where a run goes whose key is taken by other bytes (targets.md, "The run key")."""
    return f"{run_key}~{digest.hex()[:16]}"


def storable(text: str) -> str:
    """Text that every database takes: no NUL, no lone surrogate (both written as escapes), and not endless."""
    if "\0" not in text and len(text) <= _TEXT_MOST:
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text[:_TEXT_MOST].encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def storable_id(text: str) -> str:
    """As `storable`, and two ids that differ still do: one that had to be changed carries a hash of the original."""
    stored = storable(text)
    if stored == text:
        return text
    return f"{stored}~{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def storable_key(key: str) -> str:
    """As `storable_id`, and short."""
    stored = storable(key[:_KEY_MOST])
    if stored == key:
        return key
    return f"{stored[:_KEY_MOST]}~{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _storable_time(seconds: float) -> float | None:
    """NaN is stored as NULL, an int may be too large for a column: neither is a time."""
    try:
        return float(seconds) if isfinite(seconds) else None
    except OverflowError:
        return None


def storable_letter(row: DeadLetterRow) -> DeadLetterRow:
    """The dead letter in a form that no database refuses; itself, as a rule."""
    return DeadLetterRow(
        watcher=storable_id(row.watcher),
        stream=storable(row.stream),
        source=storable_id(row.source),
        identity=storable_id(row.identity),
        position=storable(row.position),
        body=row.body,
        key=row.key,
        headers=row.headers,
        timestamp=None if row.timestamp is None else _storable_time(row.timestamp),
        reason=storable(row.reason),
        error=storable(row.error),
        attempts=min(row.attempts, _COUNT_MOST),
        received_at=_storable_time(row.received_at) or 0.0,
        tombstone=row.tombstone,
        relays=row.relays,
    )


def storable_row(row: Row) -> Row:
    """What can be mended by escaping: everything but a run request, whose words are the user's."""
    if isinstance(row, ResultRow):
        return structs.replace(row, run_id=storable(row.run_id), url=storable(row.url), error=storable(row.error))
    if isinstance(row, AttemptRow):
        return AttemptRow(*_triple(row), min(row.tries, _COUNT_MOST), storable(row.error))
    if isinstance(row, ForgetRow):
        return ForgetRow(*_triple(row))
    if isinstance(row, OpenedRow):
        return OpenedRow(*_triple(row), min(row.deaths, _COUNT_MOST))
    if isinstance(row, RelayedRow):
        due = None if row.due is None else _storable_time(row.due)
        return RelayedRow(row.dead_letter, storable(row.error), due)
    return row


def _triple(row: AttemptRow | ForgetRow | OpenedRow) -> tuple[str, str, str]:
    return storable_id(row.watcher), storable_id(row.source), storable_id(row.identity)


def refused_letter(row: Row, reason: str) -> DeadLetterRow | None:
    """The dead letter of a row that the database will never take; a run request leaves the message that caused it."""
    if isinstance(row, DeadLetterRow):
        error = f"{row.reason}: {row.error} (the store refused the message's bytes and keeps none: {reason})"
        return structs.replace(row, body=b"", key=None, headers=b"[]", reason=STORE_REFUSED, error=error)
    if not isinstance(row, RunRow):
        return None
    return DeadLetterRow(
        watcher=row.watcher,
        stream=row.stream,
        source=row.source,
        identity=row.identity,
        position=row.position,
        body=row.body,
        key=None,
        headers=b"[]",
        timestamp=None,
        reason=STORE_REFUSED,
        error=f"{reason}; run key {row.run_key}",
        attempts=0,
        received_at=row.received_at,
        tombstone=isinstance(row.body, Tombstone),
        relays=row.origin.relays,
    )


def is_whole(row: DeadLetterRow) -> bool:
    """Whether the body is the message's, so that it can be read again."""
    return row.reason != STORE_REFUSED or bool(row.body)


def within(sized: Iterable[tuple[int, int]]) -> list[int]:
    """Of pairs of an id and its bytes those in front that are not too many together; the first in any case."""
    chosen: list[int] = []
    room = _HANDED_OUT_MOST
    for number, size in sized:
        room -= size
        if chosen and room < 0:
            break
        chosen.append(number)
    return chosen


def headers_of(stored: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """From a JSON list of [name, base64 of the value, or null]."""
    pairs = msgspec.json.decode(stored or b"[]", type=list[tuple[str, str | None]])
    return tuple((name, None if value is None else base64.b64decode(value)) for name, value in pairs)
