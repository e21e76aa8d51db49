"""A store in memory that keeps every promise of the port but durability: for tests, for benchmarks, and to try things.

It passes the same suite as the store on SQL. `available`, `hold` and `faults` make it fail as a disk does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Literal

from bridge.core.errors import StoreRefused, StoreUnavailable
from bridge.core.model import TOMBSTONE
from bridge.ports import Claim, Intent, Letter, Prior, Receipt, Replay, Row
from bridge.store.memory_tables import StoredLetter, StoredRun, StoredWatcher, Tables
from bridge.store.options import InstanceId, StoreOptions
from bridge.store.registry import moved_sources, reused_ids
from bridge.store.relays import letter_id
from bridge.store.rules import RETRYABLE, SUSPECT_FOR, headers_of, storable, within


class MemoryStore:
    """`bridge.ports.Store`, with switches.

    `available` False: every call raises StoreUnavailable. `hold`: commits wait until it is set (it is at first).
    `faults`: by number of the commit call (1 is the first), it fails `before` it happened or `after`.
    `trouble` is what was last noted.
    """

    def __init__(
        self,
        *,
        instance: InstanceId | None = None,
        options: StoreOptions | None = None,
        now: Callable[[], float] = time.time,
        tables: Tables | None = None,
    ) -> None:
        self.available = True
        self.hold = asyncio.Event()
        self.hold.set()
        self.faults: dict[int, Literal["before", "after"]] = {}
        self.commits = 0
        self.trouble: str | None = None
        self._tables = tables or Tables()
        self._instance = instance or InstanceId("memory", "localhost", 0, "")
        self._options = options or StoreOptions()
        self._now = now
        self._closed = self._ended = False
        crashed_at = self._tables.crashed_at
        self.was_killed = crashed_at is not None and crashed_at >= now() - SUSPECT_FOR

    @property
    def tables(self) -> Tables:
        return self._tables.unfold()

    @property
    def store_id(self) -> str:
        return self._tables.store_id

    @property
    def sequence(self) -> int:
        return self._tables.sequence

    def restarted(self, instance: InstanceId | None = None) -> MemoryStore:
        """The store of the next life, after this one ended or died.

        What its host had claimed may be claimed again at once.
        """
        successor = instance or self._instance
        if not self._ended:
            self.tables.crashed_at = self._now()
            self.tables.close_opened(deaths=1)
        for letter in self.tables.letters.values():
            if letter.relay_due is not None:
                letter.relay_due = min(letter.relay_due, self._now())
        for run in self.tables.runs.values():
            if run.state == "dispatching" and successor.host == self._instance.host:
                self.tables.queue(run, 0.0)
        return MemoryStore(instance=successor, options=self._options, now=self._now, tables=self.tables)

    # the port --------------------------------------------------------------------------------------------------------

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        self.commits += 1
        number = self.commits
        await self.hold.wait()
        self._check()
        fault = self.faults.get(number)
        if fault == "before":
            raise StoreUnavailable(f"commit {number} was told to fail before it happened")
        receipt = self._tables.commit(list(rows), commit_id, self._now())
        if fault == "after":
            raise StoreUnavailable(f"commit {number} was told to fail after it happened")
        return receipt

    async def claim(self, target: str, limit: int, lease: float) -> list[Claim]:
        self._check()
        now = self._now()
        queue = self.tables.queues.get(target, [])
        held: list[tuple[float, int, str]] = []
        claims: list[Claim] = []
        while queue and queue[0][0] <= now and len(claims) < limit:
            entry = heappop(queue)
            run = self.tables.runs.get(entry[2])
            if run is None or run.number != entry[1] or run.due != entry[0]:
                continue
            if self.tables.is_held(run.row.watcher):
                held.append(entry)
            else:
                claims.append(self._claim(run, now, now + lease))
        for entry in held:
            heappush(queue, entry)
        return claims

    async def attempts(self, source: str) -> dict[tuple[str, str], Prior]:
        self._check()
        return {(w, i): Prior(a.tries, a.deaths) for (w, s, i), a in self.tables.attempts.items() if s == source}

    async def places(self, stream: str) -> dict[str, str]:
        self._check()
        return dict(self._tables.places.get(stream, {}))

    async def claim_letters(self, stream: str, limit: int, lease: float) -> list[Letter]:
        self._check()
        now = self._now()
        due = [
            (letter.relay_due, letter.id, letter)
            for letter in self.tables.letters.values()
            if letter.relay_due is not None and letter.relay_due <= now
            if letter.state == "dead" and letter.row.stream == stream
        ]
        by_id = {number: letter for _, number, letter in sorted(due, key=lambda entry: entry[:2])[:limit]}
        chosen = within((number, len(letter.row.body)) for number, letter in by_id.items())
        for number in chosen:
            by_id[number].relay_due = now + lease
        return [self._letter(by_id[number]) for number in chosen]

    async def replays(self, stream: str, limit: int, under_way: Collection[int] = ()) -> list[Replay]:
        self._check()
        waiting = sorted(self.tables.letters.values(), key=lambda letter: letter.id)
        return [
            Replay(
                letter.id, row.watcher, row.stream, row.source, row.identity, row.position,
                TOMBSTONE if row.tombstone else row.body, row.timestamp, row.key, row.headers, row.tombstone,
            )
            for letter in waiting
            if letter.state == "replaying" and (row := letter.row).stream == stream
            if letter.id not in under_way
        ][:limit]  # fmt: skip

    async def take_intents(self) -> list[Intent]:
        self._check()
        waiting, self.tables.intents = self.tables.intents, []
        taken = []
        for intent, about in waiting:
            problem = self._apply(intent, about)
            self.tables.outcomes[intent.id] = problem or "done"
            if not problem:
                taken.append(intent)
        return taken

    async def heartbeat(self, status: bytes, places: Mapping[str, Mapping[str, str]] = {}) -> None:
        self._check()
        self._tables.heartbeat = status
        for stream, lanes in places.items():
            self._tables.places[stream] = {storable(lane): storable(place) for lane, place in lanes.items()}

    def note(self, trouble: str | None) -> None:
        self.trouble = trouble

    async def prune(self) -> int:
        self._check()
        return self.tables.prune(self._now(), self._options)

    async def aclose(self, *, clean: bool) -> None:
        if clean and not self._closed:
            self._ended = True
            self.tables.close_opened()
        self._closed = True

    async def register(
        self, watchers: Mapping[str, str], sources: Mapping[str, str], accept: frozenset[str] = frozenset()
    ) -> None:
        """As `SqlStore.register`."""
        self._check()
        known = {name: (watcher.definition, watcher.removed_at) for name, watcher in self.tables.watchers.items()}
        problems = reused_ids(known, watchers, accept) + moved_sources(self.tables.sources, sources, accept)
        if problems:
            raise StoreRefused("\n".join(problems))
        self.tables.sources.update(sources)
        for name, definition in watchers.items():
            watcher = self.tables.watchers.setdefault(name, StoredWatcher(definition))
            if watcher.removed_at is not None and watcher.definition != definition:
                watcher.paused = watcher.disabled = False
            watcher.definition, watcher.removed_at = definition, None
        for name in self.tables.watchers.keys() - watchers.keys():
            watcher = self.tables.watchers[name]
            watcher.removed_at = watcher.removed_at or self._now()

    def post(
        self,
        kind: Literal["pause", "resume", "disable", "enable", "replay", "retry"],
        *,
        watcher: str = "",
        skip: bool = False,
        run_keys: Sequence[str] = (),
        dead_letters: Sequence[int] = (),
    ) -> int:
        """As `Reader.post`."""
        intent = Intent(self.tables.next_id(), kind, watcher, skip)
        self.tables.intents.append((intent, [*run_keys, *dead_letters]))
        return intent.id

    def _check(self) -> None:
        if self._closed:
            raise StoreRefused("the store in memory is closed")
        if not self.available:
            raise StoreUnavailable("the store in memory was told to be away")

    def _letter(self, letter: StoredLetter) -> Letter:
        row = letter.row
        return Letter(
            letter.id, letter_id(self.store_id, letter.id), row.watcher, row.stream, row.identity, row.position,
            None if row.tombstone else row.body, row.key, headers_of(row.headers), row.timestamp, row.reason,
            row.error, row.attempts, letter.created_at, letter.relay_failures,
        )  # fmt: skip

    # claims and intents ----------------------------------------------------------------------------------------------

    def _claim(self, run: StoredRun, now: float, until: float) -> Claim:
        row, plan = run.row, run.row.run.plan
        run.ambiguous = run.ambiguous or run.state == "dispatching"
        claim = Claim(
            row.run_key, run.epoch + 1, until, run.retry, run.attempts, run.ambiguous, row.watcher, plan.asset,
            row.stream, row.position, row.target, plan.job, row.run.params, row.tags, run.host or self._instance.host,
        )  # fmt: skip
        run.state, run.epoch, run.attempts, run.updated_at = "dispatching", run.epoch + 1, run.attempts + 1, now
        run.host = claim.host
        self.tables.queue(run, until)
        return claim

    def _apply(self, intent: Intent, about: list[Any]) -> str:
        if intent.kind == "retry":
            return "; ".join(problem for key in about if (problem := self._retry(key)))
        if intent.kind == "replay":
            return "; ".join(problem for number in about if (problem := self._replay(number)))
        watcher = self.tables.watchers.get(intent.watcher)
        if watcher is None or watcher.removed_at is not None:
            return f"there is no watcher {intent.watcher!r}"
        if intent.kind in ("pause", "resume"):
            watcher.paused = intent.kind == "pause"
        else:
            watcher.disabled = intent.kind == "disable"
        for run in self.tables.runs.values() if intent.kind == "resume" and intent.skip else ():
            if run.state == "pending" and run.row.watcher == intent.watcher:
                run.state, run.due, run.updated_at = "skipped", None, self._now()
        return ""

    def _retry(self, key: str) -> str:
        run = self.tables.runs.get(key)
        if run is None or run.gone or run.state not in RETRYABLE:
            return f"{key!r} can't be retried"
        run.state, run.retry, run.attempts, run.ambiguous = "pending", run.retry + 1, 0, False
        run.host = run.run_id = run.url = run.error = ""
        run.updated_at = self._now()
        self.tables.queue(run, run.updated_at)
        return ""

    def _replay(self, number: int) -> str:
        for letter in self.tables.letters.values():
            if letter.id == number and letter.state == "dead" and letter.whole:
                letter.state, letter.updated_at = "replaying", self._now()
                return ""
        return f"dead letter {number} can't be replayed"
