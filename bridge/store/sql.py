"""The store on SQL: `bridge.ports.Store`, with one thread that writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from uuid import uuid4

from sqlalchemy import inspect, select, update

from bridge.core.errors import StoreRefused, StoreUnavailable
from bridge.ports import Claim, Intent, Letter, Prior, Receipt, Replay, Row
from bridge.store.attempts import Attempts, charge_deaths, close_opened
from bridge.store.claims import Claims, release_dead
from bridge.store.commit import GroupCommit
from bridge.store.intake import Intake
from bridge.store.intents import Inbox
from bridge.store.letters import Letters
from bridge.store.lock import Holder, StoreLock
from bridge.store.options import InstanceId, StoreOptions
from bridge.store.places import Places
from bridge.store.registry import register
from bridge.store.relays import Relays, release_letters
from bridge.store.retention import Pruning
from bridge.store.rules import SUSPECT_FOR
from bridge.store.schema import SCHEMA_VERSION, instances, meta, metadata
from bridge.store.sqlite import Sqlite, check_place, locate
from bridge.store.statements import Statements
from bridge.store.versions import bring_forward
from bridge.store.writer import Transaction, Writer


async def open_store(
    url: str,
    *,
    instance: InstanceId,
    options: StoreOptions | None = None,
    now: Callable[[], float] | None = None,
) -> SqlStore:
    """Opens the store of a URL for this instance alone, and makes it if there is none (its folder must exist).

    `now` replaces the database's clock, for tests. Raises StoreRefused: a bad URL or path, a file that is no store, a
    newer schema, another instance that has it.
    """
    chosen = options or StoreOptions()
    path = locate(url)
    check_place(path)
    database = Sqlite(path, busy_timeout=chosen.busy_timeout, max_size=chosen.max_size)
    store = SqlStore(database, instance, chosen, now)
    await store.open()
    return store


class SqlStore:
    """`bridge.ports.Store`; made by `open_store`."""

    def __init__(
        self, database: Sqlite, instance: InstanceId, options: StoreOptions, now: Callable[[], float] | None
    ) -> None:
        self.store_id = ""
        self.sequence = 0
        self.was_killed = False
        self._database = database
        self._instance = instance
        self._lock: StoreLock | None = None
        self._trouble: str | None = None
        self._closing = False
        statements = Statements(database)
        self.writer = Writer(database, self._opened, now)
        self._intake = Intake(statements)
        self._letters = Letters(statements)
        self._attempts = Attempts(statements)
        self._relays = Relays()
        self._places = Places()
        self._claims = Claims(statements, instance)
        self._group_commit = GroupCommit(self.writer, self._intake, self._letters, self._attempts, self._relays)
        self._inbox = Inbox(self.writer)
        self._pruning = Pruning(options)

    async def open(self) -> None:
        """Takes the lock, makes or checks the tables, and takes over from earlier instances. Raises StoreRefused."""
        try:
            await self.writer.run(self._open)
        except BaseException as error:
            await self._shut()
            if isinstance(error, StoreUnavailable):
                raise StoreRefused(str(error)) from error
            raise

    async def commit(self, rows: Sequence[Row], commit_id: str) -> Receipt:
        """One transaction. `rows` is read on the store's thread, so it may be a sequence that is made when read."""
        receipt = await self.writer.run(lambda: self._group_commit.commit(rows, commit_id))
        self.sequence = max(self.sequence, receipt.sequence)
        return receipt

    async def claim(self, target: str, limit: int, lease: float) -> list[Claim]:
        if limit <= 0:
            return []
        return await self.writer.run(lambda: self._claim(target, limit, lease))

    async def attempts(self, source: str) -> dict[tuple[str, str], Prior]:
        return await self.writer.transaction(lambda tx: self._attempts.prior(tx, source))

    async def places(self, stream: str) -> dict[str, str]:
        return await self.writer.transaction(lambda tx: self._places.of(tx, stream))

    async def claim_letters(self, stream: str, limit: int, lease: float) -> list[Letter]:
        return await self.writer.transaction(lambda tx: self._relays.claim(tx, stream, limit, lease))

    async def replays(self, stream: str, limit: int, under_way: Collection[int] = ()) -> list[Replay]:
        return await self.writer.transaction(lambda tx: self._letters.to_replay(tx, stream, limit, under_way))

    async def take_intents(self) -> list[Intent]:
        """What people asked for since the last call; what of it concerns the store is done by then."""
        return await self.writer.run(self._take_intents)

    async def heartbeat(self, status: bytes, places: Mapping[str, Mapping[str, str]] = {}) -> None:
        """A sign of life that can't be stored leaves its reason in the lock file, where `note` left none."""
        told = {stream: dict(lanes) for stream, lanes in places.items()}
        try:
            await self.writer.run(lambda: self._beat(status, told))
        except StoreUnavailable as error:
            self._tell(self._trouble or str(error))
            raise
        self._tell(self._trouble)

    def note(self, trouble: str | None) -> None:
        """In the lock file, which is written without the database."""
        self._trouble = trouble
        self._tell(trouble)

    async def register(
        self, watchers: Mapping[str, str], sources: Mapping[str, str], accept: frozenset[str] = frozenset()
    ) -> None:
        """Watcher id -> digest of its definition, and stream -> source, as configured now.

        Raises StoreRefused with all problems, a line each: an id that was removed and comes back with another
        definition, a stream whose source is another one. `accept` holds the ids and streams that may.
        """

        await self.writer.run(lambda: self._register(watchers, sources, accept))

    async def prune(self) -> int:
        """Forgets what is past its time and returns the number of rows; many: call it again soon."""
        removed = sum([await self.writer.transaction(step) for step in self._pruning.steps()])
        if self._letters.is_overflowing:
            await self.writer.transaction(self._letters.refresh)
        return removed

    async def aclose(self, *, clean: bool) -> None:
        """Ends the instance, cleanly or not, and gives the store free. Once; afterwards it does nothing."""
        if self._closing:
            return
        self._closing = True
        try:
            if clean:
                await self.writer.transaction(self._end)
        finally:
            await self._shut()

    # on the writer's thread ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._lock = StoreLock.take(self._database.lock_path, _holder(self._instance))
        self.writer.transact(self._take_over, create=True)

    def _opened(self, tx: Transaction) -> None:
        """In the first transaction of every connection: makes the tables or brings them forward, and reads anew."""
        path = self._database.path
        is_made = inspect(tx.connection).has_table(meta.name)
        if not is_made and not self.store_id:
            _make(tx, path)
            is_made = True
        store_id = bring_forward(tx, path) if is_made else ""
        if self.store_id not in ("", store_id):
            raise StoreUnavailable(
                f"the store {path} holds other tables than when it was opened (its id was {self.store_id}): restart"
            )
        self.store_id = self._relays.store_id = store_id
        self.sequence = int(tx.connection.execute(select(meta.c.commit_sequence)).scalar_one())
        self._places.refresh()
        self._intake.refresh(tx)
        self._letters.refresh(tx)
        self._claims.start_again()

    def _take_over(self, tx: Transaction) -> None:
        """The lock proves that every earlier instance is gone: what they had claimed is free at once."""
        release_dead(tx, self._instance)
        release_letters(tx)
        charge_deaths(tx)
        columns = instances.c
        open_ends = update(instances).where(columns.ended_at.is_(None), columns.crashed_at.is_(None))
        tx.connection.execute(open_ends.values(crashed_at=tx.now))
        lately = select(columns.id).where(columns.crashed_at >= tx.now - SUSPECT_FOR).limit(1)
        self.was_killed = tx.connection.execute(lately).first() is not None
        mine = self._instance
        row = self._database.insert(instances).values(
            id=mine.id, host=mine.host, pid=mine.pid, version=mine.version, started_at=tx.now, heartbeat_at=tx.now,
            status=b"{}",
        )  # fmt: skip
        again = {name: row.excluded[name] for name in ("host", "pid", "version", "started_at", "heartbeat_at")}
        tx.connection.execute(
            row.on_conflict_do_update(index_elements=["id"], set_={**again, "ended_at": None, "crashed_at": None})
        )

    def _beat(self, status: bytes, told: Mapping[str, Mapping[str, str]]) -> None:
        def beat(tx: Transaction) -> Mapping[str, Mapping[str, str]]:
            mine = update(instances).where(instances.c.id == self._instance.id)
            tx.connection.execute(mine.values(heartbeat_at=tx.now, status=status))
            return self._places.put(tx, told)

        self._places.keep(self.writer.transact(beat))

    def _end(self, tx: Transaction) -> None:
        close_opened(tx)
        mine = update(instances).where(instances.c.id == self._instance.id)
        tx.connection.execute(mine.values(heartbeat_at=tx.now, ended_at=tx.now))

    def _claim(self, target: str, limit: int, lease: float) -> list[Claim]:
        try:
            return self.writer.transact(lambda tx: self._claims.claim(tx, target, limit, lease))
        except BaseException:
            self._claims.start_again()
            raise

    def _take_intents(self) -> list[Intent]:
        try:
            taken = self._inbox.take()
        except BaseException:
            self._claims.look_again()  # they may be done all the same
            raise
        if taken.intents:
            self._claims.look_again()
        return taken.intents

    def _register(self, watchers: Mapping[str, str], sources: Mapping[str, str], accept: frozenset[str]) -> None:
        try:
            self.writer.transact(lambda tx: register(tx, watchers, sources, accept))
        finally:
            self._claims.look_again()

    def _tell(self, trouble: str | None) -> None:
        if self._lock is not None:
            self._lock.note(trouble)

    async def _shut(self) -> None:
        try:
            await self.writer.aclose()
        finally:
            if self._lock is not None:
                self._lock.release()


def _make(tx: Transaction, path: str) -> None:
    """All tables and the row of `meta`, in the transaction that is open."""
    if inspect(tx.connection).get_table_names():
        raise StoreRefused(f"{path} is a database, but not one of headrace: name another file")
    metadata.create_all(tx.connection)
    row = meta.insert().values(
        schema_version=SCHEMA_VERSION, store_id=uuid4().hex, commit_sequence=0, created_at=tx.now
    )
    tx.connection.execute(row)


def _holder(instance: InstanceId) -> Holder:
    return Holder(instance.pid, instance.host, time.time())
