"""One group commit: rows of every kind in one transaction, and a way around the rows that the database refuses."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import structs
from sqlalchemy import update

from bridge.core.errors import StoreUnavailable
from bridge.ports import (
    AttemptRow,
    ClosedRow,
    DeadLetterRow,
    ForgetRow,
    OpenedRow,
    Receipt,
    RelayedRow,
    ReplayedRow,
    ResultRow,
    Row,
    RunRow,
)
from bridge.store.attempts import Attempts
from bridge.store.intake import Intake
from bridge.store.letters import Letters
from bridge.store.relays import Relays
from bridge.store.rules import refused_letter, storable_row
from bridge.store.schema import meta
from bridge.store.writer import RefusedData, StoreFull, Transaction, Writer

_FREEING: Final = frozenset(
    (ResultRow, ForgetRow, ClosedRow, ReplayedRow, RelayedRow)
)  # a full store still takes these
_ATTEMPTS: Final = (AttemptRow, OpenedRow, ClosedRow, ForgetRow)
_KINDS: Final = (RunRow, DeadLetterRow, *_ATTEMPTS, ResultRow, ReplayedRow, RelayedRow)


class GroupCommit:
    """Writes the rows of a commit. Every method runs on the writer's thread."""

    def __init__(self, writer: Writer, intake: Intake, letters: Letters, attempts: Attempts, relays: Relays) -> None:
        self._writer = writer
        self._intake = intake
        self._letters = letters
        self._attempts = attempts
        self._relays = relays

    def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        """`rows` is read here, once, so it may be a sequence that makes its rows when it is read."""
        given = list(rows)
        intake = not _FREEING.issuperset(map(type, given))
        try:
            try:
                return self._writer.transact(lambda tx: self._write(tx, given, commit_id), intake=intake)
            except RefusedData:
                return self._commit_around(given, commit_id)
        except StoreFull:
            self._settle_alone(given, commit_id)
            raise

    def _settle_alone(self, rows: Sequence[Row], commit_id: str) -> None:
        """Results don't wait for the messages that they share a commit with, or a full store would never drain.

        When the commit is run again, they carry its id and count as written.
        """
        results = [row for row in map(storable_row, rows) if isinstance(row, ResultRow)]
        if results:
            with suppress(StoreUnavailable, RefusedData):  # they are still in the commit that will be run again
                self._writer.transact(lambda tx: self._intake.settle(tx, results, commit_id))

    def _write(self, tx: Transaction, rows: Sequence[Row], commit_id: str) -> Receipt:
        """Run requests supersede before dead letters are put: what one window caused together stays as it is."""
        kinds: dict[type[Row], list[Any]] = {kind: [] for kind in _KINDS}
        for row in rows:
            kinds[type(row)].append(row)
        runs, letters = kinds[RunRow], kinds[DeadLetterRow]
        taken = self._intake.store(tx, runs, commit_id)
        self._letters.supersede(tx, runs, commit_id)
        self._letters.put(tx, letters, commit_id)
        if any(kinds[kind] for kind in _ATTEMPTS):
            self._attempts.note(tx, [row for row in rows if isinstance(row, _ATTEMPTS)])
        self._letters.replayed(tx, kinds[ReplayedRow])
        self._relays.relayed(tx, kinds[RelayedRow])
        stale = self._intake.settle(tx, kinds[ResultRow], commit_id)
        return Receipt(
            sequence=_next_sequence(tx),
            stored=taken.stored,
            repeats=tuple(taken.repeats),
            conflicts=tuple(taken.conflicts),
            dead_letters=len(letters),
            stale_results=stale,
            suppressed=taken.suppressed,
        )

    def _commit_around(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        try:
            return self._writer.transact(lambda tx: self._write_around(tx, rows, commit_id), intake=True)
        except RefusedData as error:
            raise StoreUnavailable(f"the database refuses a commit, but none of its rows alone: {error}") from error

    # around what is refused ------------------------------------------------------------------------------------------

    def _write_around(self, tx: Transaction, rows: Sequence[Row], commit_id: str) -> Receipt:
        """All good rows, and a dead letter for each of the others where there is something to keep."""
        mended = [storable_row(row) for row in rows]
        refused = self._sift(tx, list(zip(rows, mended, strict=True)), commit_id)
        bad = {id(row) for row, _ in refused}
        good = [better for row, better in zip(rows, mended, strict=True) if id(row) not in bad]
        letters = [letter for row, reason in refused for letter in self._letter(tx, row, reason, commit_id)]
        receipt = self._write(tx, [*good, *letters], commit_id)
        return structs.replace(receipt, refused=tuple(refused))

    def _sift(self, tx: Transaction, rows: list[tuple[Row, Row]], commit_id: str) -> list[tuple[Row, str]]:
        """The rows that are refused and why, found by halves, each tried inside a savepoint and undone."""
        reason = tx.refusal(lambda inner: self._write(inner, [mended for _, mended in rows], commit_id))
        if reason is None:
            return []
        if len(rows) == 1:
            return [(rows[0][0], reason)]
        half = len(rows) // 2
        return self._sift(tx, rows[:half], commit_id) + self._sift(tx, rows[half:], commit_id)

    def _letter(self, tx: Transaction, row: Row, reason: str, commit_id: str) -> list[DeadLetterRow]:
        """The largest dead letter that the database takes: with the bytes, or (they are too many) without."""
        letter = refused_letter(row, reason)
        while letter is not None:
            why = self._refusal_of(tx, letter, commit_id)
            if why is None:
                return [letter]
            letter = refused_letter(letter, why) if letter.body else None
        return []

    def _refusal_of(self, tx: Transaction, letter: DeadLetterRow, commit_id: str) -> str | None:
        return tx.refusal(lambda inner: self._letters.put(inner, [letter], commit_id))


def _next_sequence(tx: Transaction) -> int:
    statement = update(meta).values(commit_sequence=meta.c.commit_sequence + 1).returning(meta.c.commit_sequence)
    return int(tx.connection.execute(statement).scalar_one())
