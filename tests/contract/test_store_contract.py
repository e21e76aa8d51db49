"""What `bridge.ports.Store` promises, tried on every store that ships."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec import Struct

from bridge.core.errors import StoreRefused, StoreUnavailable
from bridge.core.model import TOMBSTONE, Tombstone
from bridge.ports import (
    AttemptRow,
    Claim,
    ClosedRow,
    DeadLetterRow,
    ForgetRow,
    OpenedRow,
    Prior,
    RelayedRow,
    ReplayedRow,
    ResultRow,
    Row,
    RunRow,
    Store,
)
from bridge.ports import Letter as PortLetter
from bridge.store.memory import MemoryStore
from bridge.store.options import DAY, InstanceId, StoreOptions
from bridge.store.reader import open_reader
from bridge.store.sql import SqlStore, open_store
from bridge.testing import run_row as stored_row

LEASE = 60.0


class Run(Struct, frozen=True):
    state: str
    retry: int
    repeats: int
    run_id: str
    error: str
    key: str | None = None
    key_until: float | None = None
    suppressed_by: str | None = None


class Letter(Struct, frozen=True):
    id: int
    watcher: str
    identity: str
    state: str
    reason: str
    error: str
    repeats: int
    body: bytes


class World(Protocol):
    """A store, its clock, and a look at what it holds."""

    now: float

    @property
    def store(self) -> Store: ...
    def run(self, key: str) -> Run | None: ...
    def letters(self) -> list[Letter]: ...
    def post(self, kind: Any, **about: Any) -> int: ...
    def outcome(self, intent: int) -> str: ...
    def noted(self) -> str:
        """The trouble that the store was told, as far as it can be found; "" when there is none."""
        ...

    def lose_the_next_answer(self) -> None:
        """The next commit happens, and its caller is told that it may not have."""
        ...

    async def register(self, watchers: dict[str, str], sources: dict[str, str], accept: Sequence[str] = ()) -> None: ...
    async def crash(self, host: str = "here") -> None: ...
    async def restart(self) -> None:
        """A clean end, and a new life."""
        ...

    def holders(self) -> dict[str, str]:
        """Key -> the run key of whoever holds it, expired or not."""
        ...


class SqlWorld:
    def __init__(self, folder: Path) -> None:
        self.now = 1_000_000.0
        self._url = f"sqlite:///{folder / 'headrace.db'}"
        self._lives = 0
        self.store: SqlStore

    async def open(self, host: str = "here") -> None:
        self._lives += 1
        instance = InstanceId(f"life-{self._lives}", host, 4711, "0")
        self.store = await open_store(self._url, instance=instance, options=StoreOptions(), now=lambda: self.now)

    def run(self, key: str) -> Run | None:
        found = open_reader(self._url).run(key)
        if found is None or found.run_key != key:
            return None
        return Run(
            found.state, found.retry, found.repeats, found.run_id, found.error, found.key, found.key_until,
            found.suppressed_by,
        )  # fmt: skip

    def letters(self) -> list[Letter]:
        reader = open_reader(self._url)
        found = [reader.dead_letter(letter.id) for letter in reader.dead_letters(state=None, limit=1000)]
        return [
            Letter(
                one.letter.id, one.letter.watcher, one.letter.identity, one.letter.state, one.letter.reason,
                one.letter.error, one.letter.repeats, one.body,
            )
            for one in reversed(found)
            if one is not None
        ]  # fmt: skip

    def post(self, kind: Any, **about: Any) -> int:
        return open_reader(self._url).post(kind, **about)

    def outcome(self, intent: int) -> str:
        found = open_reader(self._url).intent(intent)
        assert found is not None
        return found.outcome

    def noted(self) -> str:
        return open_reader(self._url).trouble().removesuffix(" (process 4711 on here, since 0 s)")

    def lose_the_next_answer(self) -> None:
        confirm = self.store.writer.confirm

        def confirm_and_fail(commit: Callable[[], None]) -> None:
            self.store.writer.confirm = confirm  # type: ignore[method-assign]
            commit()
            raise OSError("the answer was lost")

        self.store.writer.confirm = confirm_and_fail  # type: ignore[method-assign]

    async def register(self, watchers: dict[str, str], sources: dict[str, str], accept: Sequence[str] = ()) -> None:
        await self.store.register(watchers, sources, frozenset(accept))

    async def crash(self, host: str = "here") -> None:
        await self.store.aclose(clean=False)
        await self.open(host)

    async def restart(self) -> None:
        await self.store.aclose(clean=True)
        await self.open()

    def holders(self) -> dict[str, str]:
        with closing(sqlite3.connect(self._url.removeprefix("sqlite:///"))) as raw:
            return dict(raw.execute("SELECT key, holder FROM business_keys").fetchall())


class MemoryWorld:
    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.store = MemoryStore(instance=InstanceId("life-1", "here", 4711, "0"), now=lambda: self.now)

    def run(self, key: str) -> Run | None:
        found = self.store.tables.runs.get(key)
        if found is None or found.gone:
            return None
        state = "held" if found.state == "pending" and self.store.tables.is_held(found.row.watcher) else found.state
        return Run(
            state, found.retry, found.repeats, found.run_id, found.error, found.key, found.key_until,
            found.suppressed_by,
        )  # fmt: skip

    def letters(self) -> list[Letter]:
        return [
            Letter(
                one.id, one.row.watcher, one.row.identity, one.state, one.row.reason, one.row.error, one.repeats,
                one.row.body,
            )
            for one in self.store.tables.letters.values()
        ]  # fmt: skip

    def post(self, kind: Any, **about: Any) -> int:
        return self.store.post(kind, **about)

    def outcome(self, intent: int) -> str:
        return self.store.tables.outcomes.get(intent, "")

    def noted(self) -> str:
        return self.store.trouble or ""

    def lose_the_next_answer(self) -> None:
        self.store.faults[self.store.commits + 1] = "after"

    async def register(self, watchers: dict[str, str], sources: dict[str, str], accept: Sequence[str] = ()) -> None:
        await self.store.register(watchers, sources, frozenset(accept))

    async def crash(self, host: str = "here") -> None:
        self.store = self.store.restarted(InstanceId("next life", host, 4712, "0"))

    async def restart(self) -> None:
        await self.store.aclose(clean=True)
        self.store = self.store.restarted()

    def holders(self) -> dict[str, str]:
        return {key: holder.run_key for (_, key), holder in self.store.tables.holders.items()}


@pytest.fixture(params=["sql", "memory"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    if request.param == "memory":
        yield MemoryWorld()
        return
    opened = SqlWorld(tmp_path)
    await opened.open()
    yield opened
    await opened.store.aclose(clean=True)


def run_row(name: str, *, body: bytes = b"body", watcher: str = "w", target: str = "log", **fields: Any) -> RunRow:
    values: dict[str, Any] = {
        "run_key": f"{watcher}/src/{name}/0",
        "body": body,
        "watcher": watcher,
        "asset": "a",
        "stream": "orders",
        "source": "src",
        "identity": name,
        "position": f"line {name}",
        "target": target,
        "job": "job",
        "params": b'{"name":"' + name.encode(errors="replace") + b'"}',
        "tags": b"{}",
        "received_at": 1.0,
    }
    return stored_row(**{**values, **fields})


def letter_row(name: str, *, watcher: str = "w", **fields: Any) -> DeadLetterRow:
    values: dict[str, Any] = {
        "watcher": watcher,
        "stream": "orders",
        "source": "src",
        "identity": name,
        "position": f"line {name}",
        "body": b"raw " + name.encode(errors="replace"),
        "key": b"k",
        "headers": b"[]",
        "timestamp": 2.0,
        "reason": "rejected",
        "error": "no",
        "attempts": 1,
        "received_at": 1.0,
    }
    return DeadLetterRow(**{**values, **fields})


def keys(*names: str, watcher: str = "w") -> list[str]:
    return [f"{watcher}/src/{name}/0" for name in names]


def state(world: World, name: str, watcher: str = "w") -> str | None:
    run = world.run(f"{watcher}/src/{name}/0")
    return run and run.state


async def claim(world: World, limit: int = 100, target: str = "log") -> list[Claim]:
    return await world.store.claim(target, limit, LEASE)


async def failed(world: World, name: str) -> None:
    """A run that was launched once and given up."""
    await world.store.commit([run_row(name)], f"make {name}")
    (one,) = await claim(world)
    await world.store.commit([ResultRow(one.run_key, one.epoch, "failed", error="boom")], f"fail {name}")


# Commit: run requests ------------------------------------------------------------------------------------------------


async def test_a_commit_stores_run_requests_and_counts_them(world: World) -> None:
    receipt = await world.store.commit([run_row("1"), run_row("2")], "c1")
    assert (receipt.stored, receipt.repeats, receipt.conflicts, receipt.refused) == (2, (), (), ())
    assert world.run("w/src/1/0") == Run("pending", 0, 0, "", "")


async def test_commits_are_numbered_in_order(world: World) -> None:
    numbers = [(await world.store.commit([run_row(str(n))], f"c{n}")).sequence for n in range(3)]
    assert numbers == [1, 2, 3]


async def test_a_commit_without_rows_is_a_commit(world: World) -> None:
    assert (await world.store.commit([], "c1")).stored == 0


async def test_a_repeat_by_run_key_adds_to_repeats_and_stores_nothing(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    receipt = await world.store.commit([run_row("1"), run_row("2")], "c2")
    assert (receipt.stored, receipt.repeats) == (1, ("w/src/1/0",))
    assert world.run("w/src/1/0") == Run("pending", 0, 1, "", "")
    assert len(await claim(world)) == 2


async def test_a_repeat_whose_params_changed_is_still_a_repeat(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    receipt = await world.store.commit([run_row("1", params=b'{"other":1}', job="other")], "c2")
    assert receipt.repeats == ("w/src/1/0",)
    (one,) = await claim(world)
    assert (one.job, one.params) == ("job", b'{"name":"1"}')


async def test_the_same_key_with_other_bytes_is_stored_apart_and_reported(world: World) -> None:
    other = hashlib.sha256(b"other").hexdigest()[:16]
    await world.store.commit([run_row("1")], "c1")
    receipt = await world.store.commit([run_row("1", body=b"other")], "c2")
    assert (receipt.stored, receipt.repeats, receipt.conflicts) == (1, (), ("w/src/1/0",))
    assert {one.run_key for one in await claim(world)} == {"w/src/1/0", f"w/src/1/0~{other}"}
    again = await world.store.commit([run_row("1", body=b"other")], "c3")
    assert (again.stored, again.repeats, again.conflicts) == (0, (f"w/src/1/0~{other}",), ())


async def test_what_comes_twice_in_one_commit_is_one_run(world: World) -> None:
    rows = [run_row("2"), run_row("1"), run_row("2"), run_row("1", body=b"x"), run_row("1", body=b"x")]
    receipt = await world.store.commit(rows, "c1")
    apart = f"w/src/1/0~{hashlib.sha256(b'x').hexdigest()[:16]}"
    assert (receipt.stored, receipt.conflicts) == (3, ("w/src/1/0",))
    assert sorted(receipt.repeats) == [apart, "w/src/2/0"]
    assert [one.run_key for one in await claim(world)] == ["w/src/2/0", "w/src/1/0", apart]
    run = world.run("w/src/2/0")
    assert run is not None
    assert run.repeats == 1


async def test_several_runs_of_one_event_differ_by_their_ordinal(world: World) -> None:
    rows = [run_row("1"), run_row("1", run_key="w/src/1/1")]
    assert (await world.store.commit(rows, "c1")).stored == 2


# Commit: business keys -----------------------------------------------------------------------------------------------

HOUR = 3600.0


def keyed(name: str, key: str = "o-1", *, ttl: float = HOUR, **fields: Any) -> RunRow:
    return run_row(name, key=key, key_ttl=ttl, **fields)


async def test_a_second_message_with_the_business_key_is_a_row_that_names_the_holder_and_is_never_started(
    world: World,
) -> None:
    first = await world.store.commit([keyed("1")], "c1")
    world.now += 10
    second = await world.store.commit([keyed("2")], "c2")
    assert (first.stored, first.suppressed) == (1, 0)
    assert (second.stored, second.suppressed, second.repeats) == (0, 1, ())
    until = 1_000_000.0 + HOUR
    assert world.run("w/src/1/0") == Run("pending", 0, 0, "", "", "o-1", until, None)
    assert world.run("w/src/2/0") == Run("suppressed", 0, 0, "", "", "o-1", until, "w/src/1/0")
    world.now += 2 * HOUR
    assert [one.run_key for one in await claim(world)] == ["w/src/1/0"]


async def test_a_key_is_its_watchers_own_and_runs_without_one_are_left_alone(world: World) -> None:
    rows = [
        keyed("1"), keyed("2", watcher="v"), keyed("3", "o-2"), run_row("4"), keyed("5"),
        keyed("6", "", ttl=60), run_row("7", key="o-1"),
    ]  # fmt: skip
    receipt = await world.store.commit(rows, "c1")
    assert (receipt.stored, receipt.suppressed) == (6, 1)
    assert state(world, "5") == "suppressed"
    assert world.run("w/src/7/0") == Run("pending", 0, 0, "", "")


async def test_of_those_with_one_key_in_a_commit_the_first_in_order_is_started(world: World) -> None:
    receipt = await world.store.commit([keyed("9"), keyed("1"), keyed("5"), keyed("2", "o-2")], "c1")
    assert (receipt.stored, receipt.suppressed) == (2, 2)
    assert [one.run_key for one in await claim(world)] == keys("9", "2")
    assert [run.suppressed_by for name in ("1", "5") if (run := world.run(f"w/src/{name}/0"))] == keys("9", "9")


async def test_a_key_is_free_again_when_the_holders_time_is_over_and_repeats_do_not_prolong_it(world: World) -> None:
    await world.store.commit([keyed("1")], "c1")
    world.now += HOUR - 1
    assert (await world.store.commit([keyed("2", ttl=10 * HOUR)], "c2")).suppressed == 1
    world.now += 1
    assert (await world.store.commit([keyed("3"), keyed("4")], "c3")).suppressed == 1
    third, fourth = world.run("w/src/3/0"), world.run("w/src/4/0")
    assert third is not None
    assert fourth is not None
    assert (third.state, third.key_until) == ("pending", 1_000_000.0 + 2 * HOUR)
    assert fourth.suppressed_by == "w/src/3/0"


async def test_a_redelivery_is_a_repeat_by_its_run_key_whatever_became_of_the_business_key(world: World) -> None:
    await world.store.commit([keyed("1")], "c1")
    await world.store.commit([keyed("2")], "c2")
    world.now += 2 * HOUR
    receipt = await world.store.commit([keyed("1"), keyed("2"), keyed("2", "o-9")], "c3")
    assert (receipt.stored, receipt.suppressed, len(receipt.repeats)) == (0, 0, 3)
    assert world.holders() == {"o-1": "w/src/1/0"}
    assert [run and run.repeats for run in map(world.run, keys("1", "2"))] == [1, 2]
    assert state(world, "2") == "suppressed"


async def test_what_comes_twice_in_one_commit_is_a_repeat_and_not_suppressed_by_itself(world: World) -> None:
    receipt = await world.store.commit([keyed("1"), keyed("1"), keyed("2"), keyed("2")], "c1")
    assert (receipt.stored, receipt.suppressed, sorted(receipt.repeats)) == (1, 1, keys("1", "2"))


async def test_other_bytes_under_a_run_key_that_is_taken_ask_for_the_business_key_too(world: World) -> None:
    await world.store.commit([keyed("1")], "c1")
    receipt = await world.store.commit([keyed("1", body=b"x"), keyed("1", "o-2", body=b"y")], "c2")
    assert (receipt.stored, receipt.suppressed, receipt.conflicts) == (1, 1, ("w/src/1/0",))
    apart = world.run(f"w/src/1/0~{hashlib.sha256(b'x').hexdigest()[:16]}")
    assert apart is not None
    assert (apart.state, apart.suppressed_by) == ("suppressed", "w/src/1/0")


async def test_a_commit_with_keys_whose_answer_was_lost_comes_out_the_same_when_it_is_run_again(world: World) -> None:
    await world.store.commit([keyed("0", "o-0")], "c1")
    rows: list[Row] = [
        keyed("1"), keyed("2"), keyed("3", "o-0"), keyed("2"), run_row("4"),
        keyed("0", "o-0", body=b"x"), keyed("5", "o-5"),
    ]  # fmt: skip
    world.lose_the_next_answer()
    with pytest.raises(StoreUnavailable):
        await world.store.commit(rows, "c2")
    world.now += 2 * HOUR  # the keys have run out meanwhile
    receipt = await world.store.commit([*rows, keyed("6", "o-5")], "c2")
    assert (receipt.stored, receipt.suppressed) == (4, 3)
    assert (receipt.repeats, receipt.conflicts) == (("w/src/2/0",), ("w/src/0/0",))
    assert [state(world, name) for name in "012345"] == [
        "pending", "pending", "suppressed", "suppressed", "pending", "pending",
    ]  # fmt: skip
    assert world.holders() == {"o-0": "w/src/0/0", "o-1": "w/src/1/0", "o-5": "w/src/6/0"}


async def test_a_key_holds_over_a_crash(world: World) -> None:
    await world.store.commit([keyed("1")], "c1")
    await world.crash()
    assert (await world.store.commit([keyed("2")], "c2")).suppressed == 1


async def test_a_failed_holder_keeps_its_key_and_may_be_retried_and_a_suppressed_run_may_not(world: World) -> None:
    await world.store.commit([keyed("1")], "c1")
    (one,) = await claim(world)
    await world.store.commit([ResultRow(one.run_key, one.epoch, "failed"), keyed("2")], "c2")
    intent = world.post("retry", run_keys=keys("1", "2"))
    await world.store.take_intents()
    assert [state(world, name) for name in "12"] == ["pending", "suppressed"]
    assert "w/src/2/0" in world.outcome(intent)
    assert (await world.store.commit([keyed("3")], "c3")).suppressed == 1
    assert [(one.run_key, one.retry) for one in await claim(world)] == [("w/src/1/0", 1)]


async def test_a_refused_row_leaves_its_key_to_the_next(world: World) -> None:
    bad = keyed("bad", run_key="w/src/\ud800/0", identity="\ud800")
    receipt = await world.store.commit([bad, keyed("1"), keyed("2")], "c1")
    assert (len(receipt.refused), receipt.stored, receipt.suppressed) == (1, 1, 1)
    assert world.holders() == {"o-1": "w/src/1/0"}


@pytest.mark.parametrize("key", ["", "a\0b", "\ud800", "ключ", "x" * 501, "\ud800" * 600, "ß" * 100_000])
async def test_any_text_may_be_a_key_and_two_that_differ_stay_two(world: World, key: str) -> None:
    receipt = await world.store.commit([keyed("1", key), keyed("2", key), keyed("3", f"{key}."), keyed("4", "x")], "c1")
    assert (receipt.stored, receipt.suppressed, receipt.refused) == (3, 1, ())
    run = world.run("w/src/2/0")
    assert run is not None
    assert run.suppressed_by == "w/src/1/0"
    assert len(run.key or "") < 600


async def test_many_keys_in_one_commit_are_told_apart(world: World) -> None:
    await world.store.commit([keyed(f"a{n}", str(n)) for n in range(0, 1300, 2)], "c1")
    rows = [keyed(f"b{n}", str(n), watcher="wv"[n % 3 == 0]) for n in range(1300)]
    receipt = await world.store.commit([*rows, *(keyed(f"c{n}", str(n)) for n in range(1300))], "c2")
    assert receipt.stored + receipt.suppressed == 2600
    assert len(await claim(world, 5000)) == 650 + receipt.stored
    for n in (0, 1, 2, 3, 1298, 1299):
        b, c = world.run(f"{'wv'[n % 3 == 0]}/src/b{n}/0"), world.run(f"w/src/c{n}/0")
        assert b is not None
        assert c is not None
        by = f"w/src/a{n}/0" if n % 2 == 0 else None
        assert b.suppressed_by == (None if n % 3 == 0 else by)
        assert c.suppressed_by == (by or (None if n % 3 == 0 else f"w/src/b{n}/0"))


async def test_suppressed_runs_are_pruned_like_finished_ones_and_keys_when_their_time_is_over(world: World) -> None:
    await world.store.commit([keyed("1", ttl=40 * DAY), keyed("2", ttl=40 * DAY), keyed("3", "o-3")], "c1")
    assert {one.run_key for one in await claim(world)} == {"w/src/1/0", "w/src/3/0"}
    await world.store.commit([ResultRow(key, 1, "started") for key in keys("1", "3")], "c2")
    world.now += 2 * HOUR
    await world.store.prune()
    assert world.holders() == {"o-1": "w/src/1/0"}
    world.now += 31 * DAY
    await world.store.prune()
    assert [world.run(key) for key in keys("1", "2", "3")] == [None] * 3
    assert (await world.store.commit([keyed("4")], "c3")).suppressed == 1
    world.now += 9 * DAY
    await world.store.prune()
    assert world.holders() == {}
    assert (await world.store.commit([keyed("5")], "c4")).stored == 1


async def test_a_message_that_was_forgotten_and_comes_again_is_suppressed_by_its_own_key(world: World) -> None:
    await world.store.commit([keyed("1", ttl=100 * DAY)], "c1")
    (one,) = await claim(world)
    await world.store.commit([ResultRow(one.run_key, one.epoch, "started")], "c2")
    world.now += 40 * DAY
    await world.store.prune()
    await world.store.prune()
    receipt = await world.store.commit([keyed("1", ttl=100 * DAY)], "c3")
    assert (receipt.stored, receipt.suppressed, receipt.repeats) == (0, 1, ())


async def test_a_suppressed_message_supersedes_its_dead_letter(world: World) -> None:
    await world.store.commit([keyed("1"), letter_row("2")], "c1")
    await world.store.commit([keyed("2")], "c2")
    assert [letter.state for letter in world.letters()] == ["superseded"]


async def test_a_runs_own_tags_go_before_those_of_its_plan(world: World) -> None:
    rows = [
        run_row("1", tags=b'{"team":"a"}'), run_row("2", tags=b'{"team":"a"}', own_tags=b'{"team":"b"}'),
        run_row("3", tags=b'{"team":"a"}', own_tags=b"{}"), keyed("4", tags=b"{}", own_tags=b'{"key":1}'),
    ]  # fmt: skip
    await world.store.commit(rows, "c1")
    assert [one.tags for one in await claim(world)] == [b'{"team":"a"}', b'{"team":"b"}', b"{}", b'{"key":1}']


# Commit: unknown results ---------------------------------------------------------------------------------------------


async def test_a_commit_whose_answer_was_lost_comes_out_the_same_when_it_is_run_again(world: World) -> None:
    await world.store.commit([run_row("old"), letter_row("old", watcher="other")], "c1")
    (one,) = await claim(world)
    rows: list[Row] = [
        run_row("new"), run_row("old"), run_row("new"), run_row("old", body=b"x"), letter_row("n"),
        letter_row("old", watcher="other"), AttemptRow("w", "src", "n", 2, "e"),
        ResultRow(one.run_key, one.epoch, "started", "id"), ResultRow(one.run_key, one.epoch + 1, "failed"),
    ]  # fmt: skip
    world.lose_the_next_answer()
    with pytest.raises(StoreUnavailable):
        await world.store.commit(rows, "c2")
    receipt = await world.store.commit(rows, "c2")
    assert (receipt.stored, sorted(receipt.repeats)) == (2, ["w/src/new/0", "w/src/old/0"])
    assert receipt.conflicts == ("w/src/old/0",)
    assert (receipt.dead_letters, receipt.stale_results) == (2, 1)
    assert world.run("w/src/old/0") == Run("started", 0, 1, "id", "")
    assert world.run("w/src/new/0") == Run("pending", 0, 1, "", "")
    assert [(letter.identity, letter.repeats) for letter in world.letters()] == [("old", 1), ("n", 0)]
    assert len(await claim(world)) == 2


async def test_a_commit_that_is_run_again_with_more_rows_stores_what_is_new(world: World) -> None:
    world.lose_the_next_answer()
    with pytest.raises(StoreUnavailable):
        await world.store.commit([run_row("1")], "c1")
    receipt = await world.store.commit([run_row("1"), run_row("2")], "c1")
    assert (receipt.stored, receipt.repeats) == (2, ())
    assert len(await claim(world)) == 2


async def test_a_message_that_comes_again_after_a_crash_is_a_repeat(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    await world.crash()
    assert (await world.store.commit([run_row("1"), run_row("2")], "c2")).repeats == ("w/src/1/0",)
    assert len(await claim(world)) == 2


# Commit: refused rows ------------------------------------------------------------------------------------------------


async def test_a_row_that_the_database_refuses_becomes_a_dead_letter_and_the_others_are_stored(world: World) -> None:
    bad = run_row("\ud800")
    rows = [run_row("1"), run_row("2"), bad, run_row("3"), letter_row("4")]
    receipt = await world.store.commit(rows, "c1")
    assert (receipt.stored, receipt.dead_letters) == (3, 2)
    assert [row for row, _ in receipt.refused] == [bad]
    assert receipt.refused[0][1]
    refused = next(letter for letter in world.letters() if letter.reason == "store_refused")
    assert (refused.watcher, refused.state, refused.body) == ("w", "dead", bad.body)
    assert "run key w/src/" in refused.error
    assert [one.run_key for one in await claim(world)] == keys("1", "2", "3")


async def test_every_row_may_be_refused(world: World) -> None:
    rows = [run_row(f"{n}\udfff") for n in range(5)]
    receipt = await world.store.commit(rows, "c1")
    assert (receipt.stored, len(receipt.refused), len(world.letters())) == (0, 5, 5)


async def test_a_refused_run_leaves_its_message_which_can_be_replayed(world: World) -> None:
    await world.store.commit([run_row("\ud800", body=b"the message")], "c1")
    (letter,) = world.letters()
    world.post("replay", dead_letters=[letter.id])
    assert len(await world.store.take_intents()) == 1
    assert [replay.body for replay in await world.store.replays("orders", 10)] == [b"the message"]


async def test_a_dead_letter_is_never_refused_and_two_odd_identities_stay_two(world: World) -> None:
    odd = [letter_row(name, error="\0\udc80", position="\ud800") for name in ("a\0", "a\\x00", "a\udc80")]
    receipt = await world.store.commit(odd, "c1")
    assert (receipt.dead_letters, receipt.refused) == (3, ())
    found = world.letters()
    assert len({letter.identity for letter in found}) == 3
    assert {letter.error for letter in found} == {"\\x00\\udc80"}
    assert (await world.store.commit(odd, "c2")).dead_letters == 3
    assert [letter.repeats for letter in world.letters()] == [1, 1, 1]


async def test_results_and_attempts_with_odd_text_are_kept(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    (one,) = await claim(world)
    rows = [
        ResultRow(one.run_key, one.epoch, "failed", error="\udcff!"),
        AttemptRow("w", "src", "2", 1, "\udcff"),
        run_row("\ud800"),
    ]
    receipt = await world.store.commit(rows, "c2")
    assert (receipt.stale_results, len(receipt.refused)) == (0, 1)
    assert world.run("w/src/1/0") == Run("failed", 0, 0, "", "\\udcff!")
    assert await world.store.attempts("src") == {("w", "2"): Prior(1)}


# Dead letters --------------------------------------------------------------------------------------------------------


async def test_a_dead_letter_that_comes_again_is_the_same_row(world: World) -> None:
    await world.store.commit([letter_row("1")], "c1")
    await world.store.commit([letter_row("1", reason="max_attempts", error="again", body=b"other")], "c2")
    (letter,) = world.letters()
    assert (letter.reason, letter.error, letter.repeats, letter.state) == ("max_attempts", "again", 1, "dead")
    assert letter.body == b"raw 1"


async def test_dead_letters_are_told_apart_by_watcher_source_and_identity(world: World) -> None:
    rows = [letter_row("1"), letter_row("1", watcher="v"), letter_row("1", source="other"), letter_row("2")]
    assert (await world.store.commit(rows, "c1")).dead_letters == 4
    assert len(world.letters()) == 4


async def test_a_run_request_supersedes_the_dead_letter_of_its_watcher_alone(world: World) -> None:
    await world.store.commit([letter_row("1"), letter_row("1", watcher="v"), letter_row("2")], "c1")
    await world.store.commit([run_row("1")], "c2")
    assert [letter.state for letter in world.letters()] == ["superseded", "dead", "dead"]


async def test_a_run_request_of_any_watcher_supersedes_what_nobody_could_read(world: World) -> None:
    await world.store.commit([letter_row("1", watcher="*")], "c1")
    await world.store.commit([run_row("1")], "c2")
    assert [letter.state for letter in world.letters()] == ["superseded"]


async def test_it_does_so_after_a_restart_too(world: World) -> None:
    await world.store.commit([letter_row("1")], "c1")
    await world.crash()
    await world.store.commit([run_row("1")], "c2")
    assert [letter.state for letter in world.letters()] == ["superseded"]


async def test_a_dead_letter_and_a_run_request_of_one_window_stay_side_by_side(world: World) -> None:
    await world.store.commit([letter_row("1"), run_row("1")], "c1")
    assert [letter.state for letter in world.letters()] == ["dead"]
    assert state(world, "1") == "pending"


async def test_what_nobody_of_a_stream_could_read_is_not_superseded_by_another_stream(world: World) -> None:
    """Two streams may read one source, each with a decoder of its own."""
    await world.store.commit([letter_row("1", watcher="*")], "c1")
    await world.store.commit([run_row("1", stream="elsewhere")], "c2")
    assert [letter.state for letter in world.letters()] == ["dead"]


async def test_what_was_superseded_and_is_rejected_again_is_dead_again(world: World) -> None:
    await world.store.commit([letter_row("1")], "c1")
    await world.store.commit([run_row("1")], "c2")
    await world.store.commit([letter_row("1")], "c3")
    assert [(letter.state, letter.repeats) for letter in world.letters()] == [("dead", 1)]


# Attempts ------------------------------------------------------------------------------------------------------------


async def test_attempts_survive_a_crash_and_are_asked_for_by_source(world: World) -> None:
    rows = [
        AttemptRow("w", "src", "1", 1, "e"),
        AttemptRow("v", "src", "1", 2, "e"),
        AttemptRow("w", "s2", "1", 3, "e"),
    ]
    await world.store.commit(rows, "c1")
    await world.store.commit([AttemptRow("w", "src", "1", 4, "e")], "c2")
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(4), ("v", "1"): Prior(2)}
    assert await world.store.attempts("s2") == {("w", "1"): Prior(3)}
    assert await world.store.attempts("s3") == {}


async def test_attempts_are_forgotten_with_the_commit_that_says_so(world: World) -> None:
    await world.store.commit([AttemptRow("w", "src", "1", 1, "e"), AttemptRow("w", "src", "2", 1, "e")], "c1")
    await world.store.commit([ForgetRow("w", "src", "1"), ForgetRow("w", "src", "never there")], "c2")
    assert await world.store.attempts("src") == {("w", "2"): Prior(1)}


async def test_within_one_commit_the_last_word_about_an_event_counts(world: World) -> None:
    await world.store.commit([AttemptRow("w", "src", "1", 1, "e"), ForgetRow("w", "src", "1")], "c1")
    await world.store.commit([ForgetRow("w", "src", "2"), AttemptRow("w", "src", "2", 1, "e")], "c2")
    assert await world.store.attempts("src") == {("w", "2"): Prior(1)}


# Suspects ------------------------------------------------------------------------------------------------------------


def opened(name: str, deaths: int = 0, watcher: str = "w") -> OpenedRow:
    return OpenedRow(watcher, "src", name, deaths)


async def test_the_event_that_was_open_when_the_process_died_is_charged_with_a_death(world: World) -> None:
    await world.store.commit([AttemptRow("w", "src", "1", 2, "e"), opened("1")], "c1")
    assert await world.store.attempts("src") == {("w", "1"): Prior(2, 0)}
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(2, 1)}
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(2, 1)}
    await world.store.commit([opened("1", deaths=1)], "c2")
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(2, 2)}


async def test_a_clean_end_leaves_nothing_open(world: World) -> None:
    await world.store.commit([opened("1"), opened("2", deaths=1)], "c1")
    await world.restart()
    assert await world.store.attempts("src") == {("w", "2"): Prior(0, 1)}


async def test_after_the_end_of_suspect_mode_nothing_is_charged_with_a_death(world: World) -> None:
    await world.store.commit([AttemptRow("w", "src", "1", 2, "e"), opened("1", deaths=1)], "c1")
    await world.store.commit([ClosedRow()], "c2")
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(2, 1)}


async def test_only_what_was_opened_last_is_open(world: World) -> None:
    await world.store.commit([opened("1"), AttemptRow("w", "src", "2", 1, "e"), opened("2")], "c1")
    await world.store.commit([opened("3", watcher="v")], "c2")
    await world.crash()
    assert await world.store.attempts("src") == {("v", "3"): Prior(0, 1), ("w", "2"): Prior(1, 0)}


async def test_what_failed_or_was_resolved_after_it_was_opened_is_open_no_longer(world: World) -> None:
    await world.store.commit([opened("1", deaths=2)], "c1")
    await world.store.commit([AttemptRow("w", "src", "1", 1, "e")], "c2")
    await world.store.commit([opened("2", deaths=2), ForgetRow("w", "src", "2")], "c3")
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(1, 0)}


async def test_an_event_may_fail_and_be_opened_again_in_one_commit(world: World) -> None:
    await world.store.commit([opened("1", deaths=2)], "c1")
    await world.store.commit([AttemptRow("w", "src", "1", 1, "e"), opened("1")], "c2")
    await world.crash()
    assert await world.store.attempts("src") == {("w", "1"): Prior(1, 1)}


async def test_a_store_tells_for_ten_minutes_that_an_instance_was_found_dead(world: World) -> None:
    assert not world.store.was_killed
    await world.restart()
    assert not world.store.was_killed
    await world.crash()
    assert world.store.was_killed
    world.now += 599
    await world.restart()
    assert world.store.was_killed
    world.now += 2
    await world.restart()
    assert not world.store.was_killed


# What a broker is measured by ----------------------------------------------------------------------------------------


async def test_a_store_keeps_its_id_and_the_number_of_the_last_commit_that_is_durable(world: World) -> None:
    name = world.store.store_id
    assert (len(name) > 8, world.store.sequence) == (True, 0)
    receipt = await world.store.commit([run_row("1")], "c1")
    assert world.store.sequence == receipt.sequence == 1
    await world.crash()
    assert (world.store.store_id, world.store.sequence) == (name, 1)
    await world.store.commit([letter_row("2")], "c2")
    assert world.store.sequence == 2


async def test_a_commit_whose_answer_was_lost_counts_once_it_has_been_run_again(world: World) -> None:
    world.lose_the_next_answer()
    with pytest.raises(StoreUnavailable):
        await world.store.commit([run_row("1")], "c1")
    receipt = await world.store.commit([run_row("1")], "c1")
    assert world.store.sequence == receipt.sequence


async def test_places_come_with_a_heartbeat_and_are_there_after_a_crash(world: World) -> None:
    assert await world.store.places("orders") == {}
    await world.store.heartbeat(b"{}", {"orders": {"orders/0": "7", "orders/1": "9"}, "bills": {"b": "1"}})
    await world.crash()
    assert await world.store.places("orders") == {"orders/0": "7", "orders/1": "9"}
    assert await world.store.places("bills") == {"b": "1"}


async def test_places_of_a_stream_are_replaced_and_those_of_others_are_left_alone(world: World) -> None:
    await world.store.heartbeat(b"{}", {"orders": {"orders/0": "7", "orders/1": "9"}, "bills": {"b": "1"}})
    await world.store.heartbeat(b"{}", {"orders": {"orders/1": "10"}})
    await world.store.heartbeat(b"{}")
    assert await world.store.places("orders") == {"orders/1": "10"}
    assert await world.store.places("bills") == {"b": "1"}
    await world.store.heartbeat(b"{}", {"orders": {}})
    await world.store.heartbeat(b"{}", {"orders": {"orders/1": "10"}})
    assert await world.store.places("orders") == {"orders/1": "10"}


async def test_any_text_may_be_a_place(world: World) -> None:
    await world.store.heartbeat(b"{}", {"orders": {"a\0\udcff": "\ud800"}})
    assert len(await world.store.places("orders")) == 1


# Relays --------------------------------------------------------------------------------------------------------------


def to_relay(name: str, **fields: Any) -> DeadLetterRow:
    return letter_row(name, relays=True, **fields)


async def due(world: World, limit: int = 100, stream: str = "orders") -> list[str]:
    return [letter.identity for letter in await world.store.claim_letters(stream, limit, LEASE)]


async def test_a_letter_holds_what_its_copy_needs(world: World) -> None:
    headers = b'[["h","dg=="],["h",null],["e",""]]'
    await world.store.commit([to_relay("1", headers=headers, watcher="*")], "c1")
    number = world.letters()[0].id
    assert await world.store.claim_letters("orders", 10, LEASE) == [
        PortLetter(
            number=number, id=f"{world.store.store_id}:{number}", watcher="*", stream="orders", identity="1",
            position="line 1", body=b"raw 1", key=b"k", headers=(("h", b"v"), ("h", None), ("e", b"")), timestamp=2.0,
            reason="rejected", error="no", attempts=1, created_at=world.now, failures=0,
        )
    ]  # fmt: skip


async def test_a_message_without_a_body_is_copied_and_replayed_as_one(world: World) -> None:
    await world.store.commit([to_relay("1", body=TOMBSTONE, tombstone=True), to_relay("2", body=b"null")], "c1")
    assert [one.body for one in await world.store.claim_letters("orders", 10, LEASE)] == [None, b"null"]
    await ask_for_replay(world, "1", "2")
    replays = await world.store.replays("orders", 10)
    assert [(one.body, one.tombstone, type(one.body)) for one in replays] == [
        (b"null", True, Tombstone),
        (b"null", False, bytes),
    ]


async def test_letters_come_oldest_first_of_one_stream_and_only_those_that_are_to_be_copied(world: World) -> None:
    await world.store.commit([to_relay("9"), to_relay("3"), letter_row("5"), to_relay("4", stream="bills")], "c1")
    world.now += 1
    await world.store.commit([to_relay("1")], "c2")
    assert await due(world, 2) == ["9", "3"]
    assert await due(world) == ["1"]
    assert await due(world, stream="bills") == ["4"]
    assert await due(world, stream="nothing") == []


async def test_a_letter_is_handed_out_again_when_its_lease_is_over(world: World) -> None:
    await world.store.commit([to_relay("1")], "c1")
    assert await due(world) == ["1"]
    world.now += LEASE - 1
    assert await due(world) == []
    world.now += 1
    assert await due(world) == ["1"]


async def test_a_letter_that_was_copied_does_not_come_back(world: World) -> None:
    await world.store.commit([to_relay("1"), to_relay("2")], "c1")
    first, _ = await world.store.claim_letters("orders", 10, LEASE)
    await world.store.commit([RelayedRow(first.number)], "c2")
    world.now += 2 * LEASE
    assert await due(world) == ["2"]
    await world.crash()
    assert await due(world) == ["2"]


async def test_a_letter_whose_copy_failed_is_due_when_the_relay_says_and_counts_its_failures(world: World) -> None:
    await world.store.commit([to_relay("1")], "c1")
    for failures in range(3):
        (letter,) = await world.store.claim_letters("orders", 10, LEASE)
        assert letter.failures == failures
        await world.store.commit([RelayedRow(letter.number, "the topic is away", world.now + 90)], f"f{failures}")
        world.now += 89
        assert await due(world) == []
        world.now += 1
    assert await due(world) == ["1"]


async def test_a_letter_that_is_refused_is_not_tried_again_before_it_comes_again(world: World) -> None:
    await world.store.commit([to_relay("1")], "c1")
    (letter,) = await world.store.claim_letters("orders", 10, LEASE)
    await world.store.commit([RelayedRow(letter.number, "too large")], "c2")
    world.now += 1000
    await world.crash()
    assert await due(world) == []
    await world.store.commit([to_relay("1")], "c3")
    assert await due(world) == ["1"]


async def test_what_was_superseded_is_not_copied_any_more_unless_it_is_refused_once_more(world: World) -> None:
    await world.store.commit([to_relay("1"), to_relay("2")], "c1")
    (letter, _) = await world.store.claim_letters("orders", 10, LEASE)
    await world.store.commit([run_row("1"), run_row("2")], "c2")
    await world.store.commit([RelayedRow(letter.number, "away", world.now)], "c3")
    world.now += 2 * LEASE
    assert await due(world) == []
    await world.store.commit([to_relay("2")], "c4")
    assert await due(world) == ["2"]


async def test_what_is_being_replayed_waits_and_what_was_replayed_is_not_copied(world: World) -> None:
    await world.store.commit([to_relay("1"), to_relay("2")], "c1")
    first, _ = await ask_for_replay(world, "1", "2")
    assert await due(world) == []
    await world.store.commit([ReplayedRow(first), to_relay("2")], "c2")
    assert await due(world) == ["2"]


async def test_a_letter_that_comes_again_is_copied_once(world: World) -> None:
    await world.store.commit([to_relay("1")], "c1")
    (letter,) = await world.store.claim_letters("orders", 10, LEASE)
    await world.store.commit([to_relay("1")], "c2")
    assert await due(world) == []
    await world.store.commit([RelayedRow(letter.number)], "c3")
    await world.store.commit([to_relay("1")], "c4")
    world.now += 2 * LEASE
    assert await due(world) == []


async def test_after_a_crash_all_that_waits_is_due_at_once(world: World) -> None:
    await world.store.commit([to_relay("1"), to_relay("2")], "c1")
    (letter, _) = await world.store.claim_letters("orders", 10, LEASE)
    await world.store.commit([RelayedRow(letter.number, "away", world.now + 300)], "c2")
    await world.crash()
    assert sorted(await due(world)) == ["1", "2"]


async def test_one_claim_hands_out_no_more_bytes_than_memory_should_hold(world: World) -> None:
    body = b"x" * (7 * 1024 * 1024)
    await world.store.commit([to_relay(str(n), body=body) for n in range(3)], "c1")
    assert await due(world) == ["0", "1"]
    assert await due(world) == ["2"]


async def test_the_dead_letter_of_a_run_that_the_store_refused_is_copied_where_its_source_has_a_place(
    world: World,
) -> None:
    await world.store.commit([run_row("\ud800", relays=True), run_row("\udfff")], "c1")
    assert len(await due(world)) == 1


# Claims --------------------------------------------------------------------------------------------------------------


async def test_a_claim_holds_what_the_run_needs(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    assert await claim(world) == [
        Claim(
            run_key="w/src/1/0", epoch=1, until=world.now + LEASE, retry=0, attempts=0, ambiguous=False, watcher="w",
            asset="a", stream="orders", position="line 1", target="log", job="job", params=b'{"name":"1"}',
            tags=b"{}", host="here",
        )
    ]  # fmt: skip
    assert state(world, "1") == "dispatching"


async def test_claims_come_oldest_first_and_within_a_commit_in_its_order(world: World) -> None:
    await world.store.commit([run_row("9"), run_row("3"), run_row("5")], "c1")
    world.now += 1
    await world.store.commit([run_row("1")], "c2")
    assert [one.run_key for one in await claim(world, 2)] == keys("9", "3")
    assert [one.run_key for one in await claim(world, 5)] == keys("5", "1")


async def test_each_target_has_its_own_runs(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2", target="other")], "c1")
    assert [one.run_key for one in await claim(world, target="other")] == keys("2")
    assert [one.run_key for one in await claim(world)] == keys("1")
    assert await claim(world, target="nobody") == []


async def test_a_claim_for_nothing_claims_nothing(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    assert await claim(world, 0) == []
    assert state(world, "1") == "pending"


async def test_what_is_claimed_is_not_claimed_again_while_its_lease_runs(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    await claim(world)
    world.now += LEASE - 1
    assert await claim(world) == []


async def test_a_row_whose_lease_ran_out_is_claimed_again_with_a_higher_epoch_and_is_ambiguous(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    (first,) = await claim(world)
    world.now += LEASE + 1
    (second,) = await claim(world)
    assert (second.epoch, second.attempts, second.ambiguous) == (first.epoch + 1, 1, True)


async def test_a_run_that_may_have_been_launched_stays_ambiguous_however_its_next_launch_ends(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    await claim(world)
    world.now += LEASE + 1
    (second,) = await claim(world)
    await world.store.commit([ResultRow(second.run_key, second.epoch, "pending", not_before=world.now - 5)], "c2")
    (third,) = await claim(world)
    assert (third.attempts, third.ambiguous) == (2, True)


async def test_a_result_counts_only_for_the_epoch_that_holds(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    (first,) = await claim(world)
    world.now += LEASE + 1
    (second,) = await claim(world)
    receipt = await world.store.commit([ResultRow(first.run_key, first.epoch, "failed")], "c2")
    assert receipt.stale_results == 1
    assert state(world, "1") == "dispatching"
    receipt = await world.store.commit([ResultRow(second.run_key, second.epoch, "started", "id-1", "url")], "c3")
    assert receipt.stale_results == 0
    assert world.run("w/src/1/0") == Run("started", 0, 0, "id-1", "")


async def test_a_result_for_what_nobody_claimed_is_stale(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    rows = [ResultRow("w/src/1/0", 0, "started"), ResultRow("no such run", 1, "started")]
    assert (await world.store.commit(rows, "c2")).stale_results == 2
    assert state(world, "1") == "pending"


async def test_a_second_result_for_the_same_claim_is_stale(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2")], "c1")
    one, two = await claim(world)
    rows = [ResultRow(c.run_key, c.epoch, "started") for c in (one, two, one)]
    assert (await world.store.commit(rows, "c2")).stale_results == 1
    assert (await world.store.commit([ResultRow(one.run_key, one.epoch, "failed")], "c3")).stale_results == 1
    assert state(world, "1") == "started"


@pytest.mark.parametrize("final", ["started", "succeeded", "failed_run", "failed"])
async def test_what_is_done_is_not_claimed_again(world: World, final: Any) -> None:
    await world.store.commit([run_row("1")], "c1")
    (one,) = await claim(world)
    await world.store.commit([ResultRow(one.run_key, one.epoch, final)], "c2")
    world.now += 10 * LEASE
    assert await claim(world) == []
    assert state(world, "1") == final


async def test_a_run_to_be_tried_again_waits_until_not_before_and_keeps_count(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    (one,) = await claim(world)
    later = ResultRow(one.run_key, one.epoch, "pending", error="busy", not_before=world.now + 30)
    await world.store.commit([later], "c2")
    assert world.run("w/src/1/0") == Run("pending", 0, 0, "", "busy")
    world.now += 29
    assert await claim(world) == []
    world.now += 2
    (again,) = await claim(world)
    assert (again.epoch, again.attempts, again.ambiguous) == (2, 1, False)


async def test_a_run_to_be_tried_again_goes_behind_those_that_are_due_before_it(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2")], "c1")
    (one,) = await claim(world, 1)
    world.now += 1
    await world.store.commit([ResultRow(one.run_key, one.epoch, "pending")], "c2")
    world.now += 1
    await world.store.commit([run_row("3")], "c3")
    assert [c.run_key for c in await claim(world)] == keys("2", "1", "3")


async def test_after_a_crash_what_was_claimed_is_claimed_again_at_once_and_is_ambiguous(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2")], "c1")
    await claim(world, 1)
    await world.crash()
    first, second = await claim(world)
    assert (first.run_key, first.epoch, first.ambiguous) == ("w/src/1/0", 2, True)
    assert (second.run_key, second.epoch, second.ambiguous) == ("w/src/2/0", 1, False)


async def test_a_run_stays_with_the_host_that_launched_it_first(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2")], "c1")
    await claim(world, 1)
    world.now += LEASE + 1
    await world.crash(host="elsewhere")
    assert {c.run_key: c.host for c in await claim(world)} == {"w/src/1/0": "here", "w/src/2/0": "elsewhere"}


# Intents -------------------------------------------------------------------------------------------------------------


async def test_runs_of_a_paused_watcher_are_held_until_it_is_resumed(world: World) -> None:
    await world.register({"w": "1", "v": "1"}, {})
    world.post("pause", watcher="w")
    assert [(i.kind, i.watcher) for i in await world.store.take_intents()] == [("pause", "w")]
    await world.store.commit([run_row("1"), run_row("2", watcher="v"), run_row("3")], "c1")
    assert [c.run_key for c in await claim(world)] == keys("2", watcher="v")
    assert await claim(world) == []
    assert state(world, "1") == "held"
    await world.store.commit([run_row("4", watcher="v")], "c2")
    assert [c.run_key for c in await claim(world)] == keys("4", watcher="v")
    world.post("resume", watcher="w")
    await world.store.take_intents()
    assert [c.run_key for c in await claim(world)] == keys("1", "3")


async def test_a_pause_holds_over_a_restart(world: World) -> None:
    await world.register({"w": "1"}, {})
    world.post("pause", watcher="w")
    await world.store.take_intents()
    await world.store.commit([run_row("1")], "c1")
    await world.crash()
    await world.register({"w": "1"}, {})
    assert await claim(world) == []


async def test_resume_with_skip_skips_what_was_committed_up_to_then(world: World) -> None:
    await world.register({"w": "1", "v": "1"}, {})
    world.post("pause", watcher="w")
    await world.store.take_intents()
    await world.store.commit([run_row("1"), run_row("2", watcher="v")], "c1")
    world.post("resume", watcher="w", skip=True)
    assert [i.skip for i in await world.store.take_intents()] == [True]
    await world.store.commit([run_row("3")], "c2")
    assert [c.run_key for c in await claim(world)] == [*keys("2", watcher="v"), *keys("3")]
    assert state(world, "1") == "skipped"


async def test_runs_of_a_disabled_watcher_wait_until_it_is_enabled(world: World) -> None:
    await world.register({"w": "1"}, {})
    await world.store.commit([run_row("1")], "c1")
    world.post("disable", watcher="w")
    await world.store.take_intents()
    assert await claim(world) == []
    world.post("enable", watcher="w")
    await world.store.take_intents()
    assert len(await claim(world)) == 1


async def test_an_intent_is_taken_once_and_in_order(world: World) -> None:
    await world.register({"w": "1"}, {})
    for kind in ("pause", "resume", "disable"):
        world.post(kind, watcher="w")
    assert [i.kind for i in await world.store.take_intents()] == ["pause", "resume", "disable"]
    assert await world.store.take_intents() == []


async def test_an_intent_about_an_unknown_watcher_is_done_with_the_reason(world: World) -> None:
    intent = world.post("pause", watcher="nobody")
    assert await world.store.take_intents() == []
    assert "nobody" in world.outcome(intent)


@pytest.mark.parametrize("final", ["failed", "failed_run"])
async def test_a_failed_run_that_is_retried_is_a_new_launch_with_its_own_number(world: World, final: Any) -> None:
    await world.store.commit([run_row("1")], "c1")
    (one,) = await claim(world)
    world.now += LEASE + 1
    (one,) = await claim(world)
    await world.store.commit([ResultRow(one.run_key, one.epoch, final, "id", "url", "boom")], "c2")
    intent = world.post("retry", run_keys=["w/src/1/0"])
    assert [i.kind for i in await world.store.take_intents()] == ["retry"]
    assert world.outcome(intent) == "done"
    (again,) = await claim(world)
    assert (again.retry, again.attempts, again.ambiguous, again.epoch) == (1, 0, False, 3)
    assert world.run("w/src/1/0") == Run("dispatching", 1, 0, "", "")


async def test_only_what_has_failed_or_was_skipped_can_be_retried(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2")], "c1")
    (one,) = await claim(world, 1)
    await world.store.commit([ResultRow(one.run_key, one.epoch, "started")], "c2")
    intent = world.post("retry", run_keys=[*keys("1", "2"), "unknown"])
    assert await world.store.take_intents() == []
    assert all(key in world.outcome(intent) for key in [*keys("1", "2"), "unknown"])
    assert (state(world, "1"), state(world, "2")) == ("started", "pending")


# Replays -------------------------------------------------------------------------------------------------------------


async def ask_for_replay(world: World, *names: str) -> list[int]:
    ids = [letter.id for letter in world.letters() if letter.identity in names]
    world.post("replay", dead_letters=ids)
    assert [i.kind for i in await world.store.take_intents()] == ["replay"]
    return ids


async def test_a_replay_hands_out_the_whole_message_unless_it_is_under_way(world: World) -> None:
    await world.store.commit([letter_row("1"), letter_row("2"), letter_row("3", stream="other")], "c1")
    first, _ = await ask_for_replay(world, "1", "3")
    (replay,) = await world.store.replays("orders", 10)
    assert (replay.dead_letter, replay.watcher, replay.source, replay.identity) == (first, "w", "src", "1")
    assert (replay.body, replay.key, replay.headers, replay.timestamp) == (b"raw 1", b"k", b"[]", 2.0)
    assert await world.store.replays("orders", 10, {first}) == []
    assert len(await world.store.replays("other", 10, {first})) == 1


async def test_replays_come_in_portions(world: World) -> None:
    await world.store.commit([letter_row(str(n)) for n in range(5)], "c1")
    await ask_for_replay(world, *map(str, range(5)))
    portions: list[list[str]] = []
    under_way: set[int] = set()
    for _ in range(4):
        replays = await world.store.replays("orders", 2, under_way)
        under_way.update(replay.dead_letter for replay in replays)
        portions.append([replay.identity for replay in replays])
    assert portions == [["0", "1"], ["2", "3"], ["4"], []]


async def test_a_replay_that_a_crash_cut_short_is_handed_out_again(world: World) -> None:
    await world.store.commit([letter_row("1")], "c1")
    await ask_for_replay(world, "1")
    await world.store.replays("orders", 10)
    await world.crash()
    assert len(await world.store.replays("orders", 10)) == 1


async def test_a_replayed_dead_letter_is_marked_and_does_not_come_back(world: World) -> None:
    await world.store.commit([letter_row("1")], "c1")
    (number,) = await ask_for_replay(world, "1")
    await world.store.replays("orders", 10)
    await world.store.commit([run_row("1")], "c2")
    await world.store.commit([ReplayedRow(number)], "c3")
    assert [letter.state for letter in world.letters()] == ["replayed"]
    await world.crash()
    assert await world.store.replays("orders", 10) == []


async def test_a_replay_that_is_rejected_again_is_dead_and_may_be_asked_for_again(world: World) -> None:
    await world.store.commit([letter_row("1")], "c1")
    (number,) = await ask_for_replay(world, "1")
    await world.store.replays("orders", 10)
    await world.store.commit([letter_row("1")], "c2")
    await world.store.commit([ReplayedRow(number)], "c3")
    assert [letter.state for letter in world.letters()] == ["dead"]
    await ask_for_replay(world, "1")
    assert len(await world.store.replays("orders", 10)) == 1


# Names that must keep their meaning ----------------------------------------------------------------------------------


async def test_an_edited_watcher_is_the_same_watcher(world: World) -> None:
    await world.register({"w": "1"}, {"orders": "src"})
    await world.register({"w": "2"}, {"orders": "src"})


async def test_a_removed_id_that_comes_back_as_another_watcher_is_refused_until_accepted(world: World) -> None:
    await world.register({"w": "1", "v": "1"}, {})
    await world.register({"v": "1"}, {})
    await world.register({"v": "1", "w": "1"}, {})
    await world.register({"v": "1"}, {})
    with pytest.raises(StoreRefused, match="'w'"):
        await world.register({"w": "2", "v": "1"}, {})
    await world.register({"w": "2", "v": "1"}, {}, ["w"])
    await world.register({"w": "2", "v": "1"}, {})


async def test_a_stream_whose_source_moved_is_refused_until_accepted(world: World) -> None:
    await world.register({}, {"orders": "a", "bills": "b"})
    with pytest.raises(StoreRefused, match=r"'orders'.*'a'.*'c'"):
        await world.register({}, {"orders": "c", "bills": "b"})
    await world.register({}, {"orders": "c", "bills": "b"}, ["orders"])
    await world.register({}, {"orders": "c"})


async def test_all_such_problems_are_reported_at_once_and_nothing_is_changed(world: World) -> None:
    await world.register({"w": "1"}, {"orders": "a"})
    await world.register({}, {"orders": "a"})
    with pytest.raises(StoreRefused) as refused:
        await world.register({"w": "2", "new": "1"}, {"orders": "b", "bills": "b"})
    assert len(str(refused.value).splitlines()) == 2
    await world.register({"w": "1"}, {"orders": "a", "bills": "c"})


# Retention -----------------------------------------------------------------------------------------------------------


async def test_a_run_that_was_started_is_forgotten_in_time_and_its_key_later(world: World) -> None:
    await world.store.commit([run_row("1")], "c1")
    (one,) = await claim(world)
    await world.store.commit([ResultRow(one.run_key, one.epoch, "started")], "c2")
    world.now += 29 * DAY
    assert await world.store.prune() == 0
    world.now += 2 * DAY
    assert await world.store.prune() == 1
    assert state(world, "1") is None
    assert (await world.store.commit([run_row("1")], "c3")).repeats == ("w/src/1/0",)
    assert await claim(world) == []
    world.now += 31 * DAY
    assert await world.store.prune() == 0
    world.now += 2 * DAY
    assert await world.store.prune() == 1
    assert (await world.store.commit([run_row("1")], "c4")).stored == 1
    assert len(await claim(world)) == 1


async def test_what_still_waits_to_be_started_is_never_forgotten_nor_is_its_key(world: World) -> None:
    await world.store.commit([run_row("1"), run_row("2")], "c1")
    await claim(world, 1)
    world.now += 400 * DAY
    assert await world.store.prune() == 0
    assert (await world.store.commit([run_row("1")], "c2")).repeats == ("w/src/1/0",)
    assert len(await claim(world)) == 2


async def test_a_failed_run_is_kept_longer_than_one_that_was_started(world: World) -> None:
    await failed(world, "1")
    world.now += 89 * DAY
    assert await world.store.prune() == 0
    world.now += 2 * DAY
    await world.store.prune()
    assert state(world, "1") is None


async def test_dead_letters_that_wait_are_kept_longer_than_those_that_are_settled(world: World) -> None:
    await world.store.commit([letter_row("1"), letter_row("2")], "c1")
    await world.store.commit([run_row("1")], "c2")
    world.now += 31 * DAY
    assert await world.store.prune() == 1
    assert [letter.identity for letter in world.letters()] == ["2"]
    world.now += 60 * DAY
    assert await world.store.prune() == 1
    assert world.letters() == []


async def test_attempts_at_what_never_came_back_are_forgotten(world: World) -> None:
    await world.store.commit([AttemptRow("w", "src", "1", 1, "e")], "c1")
    world.now += 33 * DAY
    assert await world.store.prune() == 1
    assert await world.store.attempts("src") == {}


# The end -------------------------------------------------------------------------------------------------------------


async def test_a_heartbeat_is_taken(world: World) -> None:
    await world.store.heartbeat(b'{"ok":true}')


@pytest.mark.parametrize("clean", [True, False])
async def test_a_closed_store_refuses_and_closing_it_twice_is_harmless(world: World, clean: bool) -> None:
    await world.store.aclose(clean=clean)
    await world.store.aclose(clean=clean)
    with pytest.raises(StoreRefused):
        await world.store.commit([run_row("1")], "c1")
    with pytest.raises(StoreRefused):
        await world.store.claim("log", 1, LEASE)


async def test_trouble_is_noted_by_a_store_that_works_and_by_one_that_is_closed(world: World) -> None:
    """It is noted when nothing else can be, so it may never fail."""
    world.store.note("the disk is full")
    assert world.noted() == "the disk is full"
    assert (await world.store.commit([run_row("1")], "c1")).stored == 1
    world.store.note("the disk is\nfull of \udcff")
    assert world.noted().startswith("the disk is\nfull of ")
    world.store.note(None)
    assert world.noted() == ""
    await world.store.aclose(clean=True)
    world.store.note("too late")
