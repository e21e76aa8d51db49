"""What the store in memory would have on disk, and what a commit does to it."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappush
from operator import attrgetter
from typing import Any
from uuid import uuid4

from msgspec import Struct, field, structs

from bridge.core.model import EVERY_WATCHER
from bridge.ports import (
    AttemptRow,
    ClosedRow,
    DeadLetterRow,
    ForgetRow,
    Intent,
    OpenedRow,
    Receipt,
    RelayedRow,
    ReplayedRow,
    ResultRow,
    Row,
    RunRow,
    RunState,
)
from bridge.store.options import StoreOptions
from bridge.store.rules import (
    FINISHED,
    OPEN_LETTERS,
    SETTLED_LETTERS,
    KeyHolder,
    conflict_key,
    is_whole,
    refused_letter,
    storable,
    storable_key,
    storable_letter,
    storable_row,
)
from bridge.store.views import LetterState

Triple = tuple[str, str, str]
_business_key = attrgetter("run.key")


class StoredRun(Struct, gc=False):
    """A run request and its key. `due` as in the SQL schema; a run that was pruned is `gone`, its key is not."""

    number: int
    row: RunRow
    commit_id: str
    due: float | None
    created_at: float
    updated_at: float
    last_seen: float
    state: RunState = "pending"
    gone: bool = False
    settled_by: str = ""
    retry: int = 0
    attempts: int = 0
    ambiguous: bool = False
    epoch: int = 0
    host: str = ""
    run_id: str = ""
    url: str = ""
    error: str = ""
    repeats: int = 0
    repeated_by: str = ""
    key: str | None = None
    key_until: float | None = None
    suppressed_by: str | None = None


class StoredLetter(Struct):
    id: int
    row: DeadLetterRow
    commit_id: str
    created_at: float
    updated_at: float
    state: LetterState = "dead"
    whole: bool = True
    repeats: int = 0
    relay_due: float | None = None
    relayed_at: float | None = None
    relay_error: str = ""
    relay_failures: int = 0


class StoredAttempt(Struct):
    tries: int
    updated_at: float
    deaths: int = 0
    is_open: bool = False


class StoredWatcher(Struct):
    definition: str
    paused: bool = False
    disabled: bool = False
    removed_at: float | None = None


class Tables(Struct):
    """What would be on disk. `crashed_at`: when an instance was last found dead."""

    sequence: int = 0
    store_id: str = field(default_factory=lambda: uuid4().hex)
    crashed_at: float | None = None
    runs: dict[str, StoredRun] = field(default_factory=dict)
    holders: dict[tuple[str, str], KeyHolder] = field(default_factory=dict)
    letters: dict[Triple, StoredLetter] = field(default_factory=dict)
    attempts: dict[Triple, StoredAttempt] = field(default_factory=dict)
    places: dict[str, dict[str, str]] = field(default_factory=dict)
    watchers: dict[str, StoredWatcher] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    queues: dict[str, list[tuple[float, int, str]]] = field(default_factory=dict)
    intents: list[tuple[Intent, list[Any]]] = field(default_factory=list)
    outcomes: dict[int, str] = field(default_factory=dict)
    heartbeat: bytes = b"{}"
    last_id: int = 0

    folded: list[tuple[list[RunRow], str, float]] = field(default_factory=list)
    folded_keys: set[str] = field(default_factory=set)

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def queue(self, run: StoredRun, due: float) -> None:
        run.due = due
        heappush(self.queues.setdefault(run.row.target, []), (due, run.number, run.row.run_key))

    def is_held(self, name: str) -> bool:
        watcher = self.watchers.get(name)
        return watcher is not None and (watcher.paused or watcher.disabled)

    def prune(self, now: float, options: StoreOptions) -> int:
        keep, horizon = options.retention, options.dedupe_horizon
        removed = 0
        for key, run in list(self.runs.items()):
            age = now - run.updated_at
            if not run.gone and (
                (run.state in FINISHED and age > keep.finished) or (run.state == "failed" and age > keep.open)
            ):
                run.gone, run.due = True, None
                removed += 1
            if run.gone and now - run.last_seen > horizon:
                del self.runs[key]
                removed += 1
        for name, holder in list(self.holders.items()):
            if holder.until <= now:
                del self.holders[name]
                removed += 1
        for triple, letter in list(self.letters.items()):
            age = now - letter.updated_at
            if age > (keep.dead_letters if letter.state in SETTLED_LETTERS else keep.open):
                del self.letters[triple]
                removed += 1
        for triple, attempt in list(self.attempts.items()):
            if now - attempt.updated_at > horizon:
                del self.attempts[triple]
                removed += 1
        return removed

    # a commit --------------------------------------------------------------------------------------------------------

    def commit(self, rows: list[Row], commit_id: str, now: float) -> Receipt:
        if self._fold(rows, commit_id, now):
            return Receipt(self.sequence, len(rows))
        self.unfold()
        refused = [] if _is_plain(rows) else [(row, reason) for row in rows if (reason := _refusal(row))]
        if refused:
            bad = {id(row) for row, _ in refused}
            letters = [letter for row, reason in refused if (letter := refused_letter(row, reason))]
            rows = [*(storable_row(row) for row in rows if id(row) not in bad), *letters]
        done = _Done(commit_id, now)
        runs = [row for row in rows if type(row) is RunRow]
        waiting = [(row, row.run_key) for row in runs]
        while waiting:
            waiting = [apart for row, key in waiting if (apart := self._store(row, key, done))]
        for row in runs if self.letters else ():
            self._supersede(row, done)
        for other in rows if len(runs) < len(rows) else ():
            self._write(other, done)
        self.sequence += 1
        return Receipt(
            self.sequence, done.stored, tuple(done.repeats), tuple(done.conflicts), done.letters,
            tuple(refused), done.stale, done.suppressed,
        )  # fmt: skip

    def _fold(self, rows: list[Any], commit_id: str, now: float) -> bool:
        """The common case, kept as it came until somebody looks: run requests alone, all new (0.2 µs each)."""
        if self.letters or set(map(type, rows)) != {RunRow} or not _is_plain(rows):
            return False
        if set(map(_business_key, rows)) != {None}:
            return False
        keys = {row.run_key for row in rows}
        if len(keys) < len(rows) or not self.folded_keys.isdisjoint(keys) or not self.runs.keys().isdisjoint(keys):
            return False
        self.folded_keys |= keys
        self.folded.append((rows, commit_id, now))
        self.sequence += 1
        return True

    def unfold(self) -> Tables:
        folded, self.folded = self.folded, []
        self.folded_keys.clear()
        for rows, commit_id, now in folded:
            for row in rows:
                self._insert(row, commit_id, now)
        return self

    def _insert(self, row: RunRow, commit_id: str, now: float) -> StoredRun:
        run = StoredRun(self.next_id(), row, commit_id, None, now, now, now)
        self.runs[row.run_key] = run
        if row.key is None or self._holds_key(run, row, row.key):
            self.queue(run, now)
        return run

    def _holds_key(self, run: StoredRun, row: RunRow, given: str) -> bool:
        """It gets its business key if that is free; else it is suppressed."""
        name = (row.watcher, storable_key(given))
        holder = self.holders.get(name)
        free = holder is None or holder.until <= run.created_at
        if holder is None or free:
            holder = self.holders[name] = KeyHolder(row.run_key, run.created_at + (row.run.plan.key_ttl or 0.0))
        run.key, run.key_until = name[1], holder.until
        if not free:
            run.state, run.suppressed_by = "suppressed", holder.run_key
        return free

    def _store(self, row: RunRow, wanted: str, done: _Done) -> tuple[RunRow, str] | None:
        """`wanted` is the key that the run would have if other bytes had not taken it. Returns what goes elsewhere."""
        run = self.runs.get(row.run_key)
        if run is None:
            run = self._insert(row, done.commit_id, done.now)
        elif run.row.digest != row.digest:
            return structs.replace(row, run_key=conflict_key(row.run_key, row.digest)), wanted
        elif run.commit_id != done.commit_id or row.run_key in done.keys:
            self._repeat(run, done)
            return None
        done.keys.add(row.run_key)
        if run.suppressed_by is None:
            done.stored += 1
        else:
            done.suppressed += 1
        if row.run_key != wanted and wanted not in done.conflicts:
            done.conflicts.append(wanted)
        return None

    def _repeat(self, run: StoredRun, done: _Done) -> None:
        done.repeats.append(run.row.run_key)
        if run.repeated_by != done.commit_id or run.row.run_key in done.counted:
            done.counted.add(run.row.run_key)
            run.repeats, run.last_seen, run.repeated_by = run.repeats + 1, done.now, done.commit_id

    def _supersede(self, row: RunRow, done: _Done) -> None:
        for watcher in (row.watcher, EVERY_WATCHER):
            letter = self.letters.get((watcher, row.source, row.identity))
            if letter is None or (watcher == EVERY_WATCHER and letter.row.stream != row.stream):
                continue  # another stream may read the same source otherwise
            if letter.state in OPEN_LETTERS and letter.commit_id != done.commit_id:
                letter.state, letter.updated_at, letter.relay_due = "superseded", done.now, None

    def _write(self, row: Row, done: _Done) -> None:
        match row:
            case DeadLetterRow():
                self._put_letter(storable_letter(row), done)
            case AttemptRow():
                self.attempts[row.watcher, row.source, row.identity] = StoredAttempt(row.tries, done.now)
            case OpenedRow():
                self._open(row, done.now)
            case ClosedRow():
                self.close_opened()
            case ForgetRow():
                self.attempts.pop((row.watcher, row.source, row.identity), None)
            case ResultRow():
                self._settle(row, done)
            case ReplayedRow():
                for letter in self.letters.values():
                    if letter.id == row.dead_letter and letter.state in ("replaying", "superseded"):
                        letter.state, letter.updated_at, letter.relay_due = "replayed", done.now, None
            case RelayedRow():
                self._relayed(row, done.now)
            case RunRow():
                pass

    def _open(self, row: OpenedRow, now: float) -> None:
        self.close_opened()
        attempt = self.attempts.setdefault((row.watcher, row.source, row.identity), StoredAttempt(0, now))
        attempt.is_open, attempt.deaths, attempt.updated_at = True, row.deaths, now

    def close_opened(self, deaths: int = 0) -> None:
        """Nothing is open any more; `deaths` are charged to what was."""
        for triple, attempt in list(self.attempts.items()):
            if attempt.is_open:
                attempt.is_open, attempt.deaths = False, attempt.deaths + deaths
                if not (attempt.tries or attempt.deaths):
                    del self.attempts[triple]

    def _relayed(self, row: RelayedRow, now: float) -> None:
        for letter in self.letters.values():
            if letter.id != row.dead_letter:
                continue
            if not row.error:
                letter.relayed_at, letter.relay_due, letter.relay_error = now, None, ""
                continue
            if letter.relayed_at is None:
                letter.relay_error, letter.relay_failures = storable(row.error), letter.relay_failures + 1
            if letter.relay_due is not None and letter.state in OPEN_LETTERS:
                letter.relay_due = row.due

    def _put_letter(self, row: DeadLetterRow, done: _Done) -> None:
        done.letters += 1
        triple = (row.watcher, row.source, row.identity)
        letter = self.letters.get(triple)
        if letter is None:
            number = self.next_id()
            letter = StoredLetter(number, row, done.commit_id, done.now, done.now, whole=is_whole(row))
            letter.relay_due = done.now if row.relays else None
            self.letters[triple] = letter
            return
        had = letter.row
        if letter.whole or not is_whole(row):
            same = {name: getattr(had, name) for name in ("body", "key", "headers", "timestamp", "tombstone")}
            row = structs.replace(row, **same)
        letter.whole = letter.whole or is_whole(row)
        letter.row = structs.replace(row, received_at=had.received_at)
        if letter.commit_id != done.commit_id:
            letter.state, letter.repeats = "dead", letter.repeats + 1
            if letter.relayed_at is None and letter.relay_due is None and row.relays:
                letter.relay_due = done.now
        letter.commit_id, letter.updated_at = done.commit_id, done.now

    def _settle(self, row: ResultRow, done: _Done) -> None:
        run = self.runs.get(row.run_key)
        if run is None or run.epoch != row.epoch or row.run_key in done.settled:
            done.stale += 1
        elif run.state == "dispatching":
            done.settled.add(row.run_key)
            run.state, run.run_id, run.url, run.error = row.state, row.run_id, row.url, row.error
            run.updated_at, run.settled_by, run.due = done.now, done.commit_id, None
            if row.state == "pending":
                self.queue(run, max(row.not_before, done.now))
        elif run.settled_by == done.commit_id:  # by an earlier run of this commit
            done.settled.add(row.run_key)
        else:
            done.stale += 1


class _Done(Struct):
    """What a commit has done so far."""

    commit_id: str
    now: float
    stored: int = 0
    suppressed: int = 0
    letters: int = 0
    stale: int = 0
    repeats: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)


def _is_plain(rows: Iterable[Row]) -> bool:
    """Nothing but run requests whose keys any database takes, which is what a commit holds as a rule."""
    try:
        "".join([row.run_key for row in rows if type(row) is RunRow]).encode()
    except UnicodeEncodeError:
        return False
    return True


def _refusal(row: Row) -> str:
    """Why a database would refuse the row for its data. Of its reasons this store plays one."""
    return "" if _is_plain([row]) else "the run key holds a lone surrogate"
