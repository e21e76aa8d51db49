"""The store on SQL and the one in memory give the same answers to whatever they are asked, in whatever order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from bridge.core.errors import StoreRefused
from bridge.ports import (
    AttemptRow,
    Claim,
    ClosedRow,
    DeadLetterRow,
    ForgetRow,
    Letter,
    OpenedRow,
    Receipt,
    RelayedRow,
    ReplayedRow,
    ResultRow,
    Row,
)
from bridge.store.memory import MemoryStore
from bridge.store.options import DAY, InstanceId
from bridge.store.reader import Reader, open_reader
from bridge.store.sql import SqlStore, open_store
from bridge.testing import run_row

Step = tuple[str, Any]

names = st.sampled_from(["1", "2"])
watchers = st.sampled_from(["w", "v", "*"])
bodies = st.sampled_from([b"x", b"y"])
run_rows = st.builds(
    lambda name, watcher, body, target, n, key, ttl: run_row(
        f"{watcher}/src/{name}/{n}", body=body, watcher=watcher, identity=name, position=name, target=target,
        params=body, key=key, key_ttl=ttl,
    ),
    names, watchers, bodies, st.sampled_from(["log", "log", "log", "other"]), st.sampled_from("000000001\ud800"),
    st.sampled_from([None, None, None, "k", "k", "\0"]), st.sampled_from([None, 10.0, 61.0, 100 * DAY]),
)  # fmt: skip
letter_rows = st.builds(
    lambda name, watcher, body, reason, tombstone, relays: DeadLetterRow(
        watcher, "orders", "src", name, name, body, None, b"[]", None, reason, "e\0", 1, 1.0, tombstone, relays
    ),
    names, watchers, bodies, st.sampled_from(["rejected", "malformed"]), st.booleans(), st.booleans(),
)  # fmt: skip
# What refers to something is made when its turn comes, out of what was claimed and is there by then: ("result", ...)
result_picks = st.tuples(
    st.just("result"),
    st.integers(0, 5),
    st.sampled_from([0, 0, 0, 1, -1]),
    st.sampled_from(["started", "succeeded", "failed_run", "failed", "failed", "pending", "pending"]),
    st.sampled_from([-50.0, 0.0, 50.0]),
)
KINDS_OF_ROWS: dict[str, st.SearchStrategy[Any]] = {
    "run": run_rows,
    "letter": letter_rows,
    "result": result_picks,
    "attempt": st.builds(AttemptRow, watchers, st.just("src"), names, st.integers(1, 9), st.just("e\udcff")),
    "forget": st.builds(ForgetRow, watchers, st.just("src"), names),
    "opened": st.builds(OpenedRow, watchers, st.just("src"), names, st.integers(0, 2)),
    "closed": st.builds(ClosedRow),
    "relayed": st.tuples(
        st.just("relayed"), st.integers(0, 5), st.sampled_from(["", "", "away\0"]), st.sampled_from([None, -1.0, 90.0])
    ),
    "replayed": st.tuples(st.just("replayed"), st.integers(0, 5)),
}
KINDS_OF_STEPS: dict[str, st.SearchStrategy[Any]] = {
    "commit": st.lists(
        st.sampled_from(
            ["run"] * 5
            + ["result"] * 4
            + ["letter"] * 2
            + ["attempt", "forget", "replayed", "opened", "closed", "relayed"]
        ).flatmap(KINDS_OF_ROWS.__getitem__),
        max_size=6,
    ),
    "commit again": st.none(),
    "claim": st.tuples(st.sampled_from(["log", "log", "log", "other"]), st.integers(0, 6)),
    "relay": st.integers(0, 3),
    "beat": st.dictionaries(st.sampled_from(["a", "b\0"]), names),
    "pass": st.sampled_from([0.5, 10.0, 61.0, 61.0, 31 * DAY, 91 * DAY]),
    "crash": st.booleans(),
    "prune": st.none(),
    "register": st.sets(st.sampled_from(["w", "v", "*"]), min_size=1),
    "ask": st.tuples(st.sampled_from(["pause", "resume", "resume", "skip", "disable", "enable"]), watchers),
    "retry": st.integers(0, 5),
    "replay": st.integers(0, 5),
}
WEIGHTS = {"commit": 8, "claim": 5, "relay": 2, "pass": 3, "retry": 2, "replay": 2}
steps = st.sampled_from([kind for kind in KINDS_OF_STEPS for _ in range(WEIGHTS.get(kind, 1))]).flatmap(
    lambda kind: st.tuples(st.just(kind), KINDS_OF_STEPS[kind])
)


class Pair:
    """Both stores, asked the same."""

    def __init__(self, folder: str) -> None:
        self.now = 1_000_000.0
        self.url = f"sqlite:///{folder}/headrace.db"
        self.memory = MemoryStore(instance=InstanceId("m", "here", 1, "0"), now=lambda: self.now)
        self.sql: SqlStore
        self.claims: list[Claim] = []
        self.last: tuple[list[Row], str] = ([], "c0")
        self.commits = 0
        self.lives = 0

    async def open(self) -> None:
        self.lives += 1
        self.sql = await open_store(
            self.url, instance=InstanceId(f"s{self.lives}", "here", 1, "0"), now=lambda: self.now
        )

    async def both(self, ask: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        answers = []
        for store in (self.sql, self.memory):
            try:
                answers.append(await ask(store))
            except StoreRefused as refused:
                answers.append(str(refused))
        assert plain(answers[0]) == plain(answers[1])
        return answers[0]

    def letter_ids(self, pick: int) -> tuple[int, int]:
        """The same dead letter in both: ids differ."""
        known = {(one.watcher, one.identity): one.id for one in open_reader(self.url).dead_letters(state=None)}
        if not known:
            return (999_999, 999_999)
        watcher, identity = sorted(known)[pick % len(known)]
        return known[watcher, identity], self.memory.tables.letters[watcher, "src", identity].id

    def made(self, row: Any, store: object) -> Row:
        if not isinstance(row, tuple):
            return row  # type: ignore[no-any-return]
        if row[0] == "replayed":
            return ReplayedRow(self.letter_ids(row[1])[store is self.memory])
        if row[0] == "relayed":
            _, pick, error, wait = row
            due = None if wait is None else self.now + wait
            return RelayedRow(self.letter_ids(pick)[store is self.memory], error, due)
        _, pick, off, state, wait = row
        if not self.claims:
            return ResultRow("nothing", 1, state)
        claim = self.claims[-1 - pick % len(self.claims)]
        return ResultRow(claim.run_key, claim.epoch + off, state, "id", "url", "e", self.now + wait)

    async def step(self, kind: str, what: Any) -> None:
        match kind:
            case "commit":
                self.commits += 1
                commit_id = f"c{self.commits}"
                made = {id(store): [self.made(row, store) for row in what] for store in (self.sql, self.memory)}
                await self.both(lambda store: store.commit(made[id(store)], commit_id))
                self.last = (
                    [row for row in made[id(self.sql)] if not isinstance(row, ReplayedRow | RelayedRow)],
                    commit_id,
                )
            case "commit again":
                await self.both(lambda store: store.commit(*self.last))
            case "claim":
                self.claims += await self.both(lambda store: store.claim(*what, 60.0))
            case "pass":
                self.now += what
            case "crash":
                await self.sql.aclose(clean=what)
                await self.memory.aclose(clean=what)
                await self.open()
                self.memory = self.memory.restarted()
                assert self.sql.was_killed is self.memory.was_killed
                assert self.sql.sequence == self.memory.sequence
            case "relay":
                await self.both(lambda store: store.claim_letters("orders", what, 60.0))
            case "beat":
                await self.both(lambda store: store.heartbeat(b"{}", {"orders": what}))
                await self.both(lambda store: store.places("orders"))
            case "prune":
                await self.sql.prune()  # the other one keeps no instances and no intents, so counts differ
                await self.memory.prune()
            case "register":
                await self.both(lambda store: store.register(dict.fromkeys(what, "1"), {"orders": "src"}))
            case _:
                await self.ask(kind, what)

    async def ask(self, kind: str, what: Any) -> None:
        about: list[dict[str, Any]]
        if kind == "replay":
            kind = "replay"
            about = [{"dead_letters": [number]} for number in self.letter_ids(what)]
        elif kind == "retry":
            keys = sorted(run.run_key for run in open_reader(self.url).runs(limit=100))
            about = [{"run_keys": keys[what % len(keys) :][:1] if keys else ["none"]}] * 2
        else:
            verb, watcher = what
            kind = "resume" if verb == "skip" else verb
            about = [{"watcher": watcher, "skip": verb == "skip"}] * 2
        open_reader(self.url).post(kind, **about[0])  # type: ignore[arg-type]
        self.memory.post(kind, **about[1])  # type: ignore[arg-type]
        await self.both(lambda store: store.take_intents())
        await self.both(lambda store: store.replays("orders", 2))

    async def look(self) -> None:
        """Both hold the same."""
        reader, tables = open_reader(self.url), self.memory.tables
        assert [
            (run.run_key, run.state, run.due, run.retry, run.attempts, run.claim_epoch, run.run_id, run.error,
             run.repeats, run.updated_at, run.params, run.key, run.key_until, run.suppressed_by)
            for run in sorted(reader.runs(limit=1000), key=lambda run: run.run_key)
        ] == [
            (key, "held" if run.state == "pending" and tables.is_held(run.row.watcher) else run.state, run.due,
             run.retry, run.attempts, run.epoch, run.run_id, run.error, run.repeats, run.updated_at, run.row.run.params,
             run.key, run.key_until, run.suppressed_by)
            for key, run in sorted(tables.runs.items()) if not run.gone
        ]  # fmt: skip
        assert sorted(
            (one.watcher, one.identity, one.state, one.repeats, one.whole, one.updated_at, body(reader, one.id),
             one.reason, told(one.reason, one.error), one.tombstone, one.relay_due, one.relayed_at, one.relay_error,
             one.relay_failures)
            for one in reader.dead_letters(state=None, limit=1000)
        ) == sorted(
            (row.watcher, row.identity, one.state, one.repeats, one.whole, one.updated_at, row.body, row.reason,
             told(row.reason, row.error), row.tombstone, one.relay_due, one.relayed_at, one.relay_error,
             one.relay_failures)
            for one in tables.letters.values() if (row := one.row)
        )  # fmt: skip
        await self.both(lambda store: store.attempts("src"))


def body(reader: Reader, number: int) -> bytes:
    found = reader.dead_letter(number)
    assert found is not None
    return found.body


def told(reason: str, error: str) -> str:
    """Each store has its own words for what it refuses."""
    return "" if reason == "store_refused" else error


def plain(answer: Any) -> Any:
    """Without what may differ: ids, the order of reports, and the words of a refusal."""
    if isinstance(answer, Receipt):
        return structs.replace(
            answer,
            repeats=tuple(sorted(answer.repeats)),
            conflicts=tuple(sorted(answer.conflicts)),
            refused=tuple((row, "") for row, _ in answer.refused),
        )
    if isinstance(answer, list):
        return [unnumbered(one) for one in answer]
    return answer


def unnumbered(one: Any) -> Any:
    if isinstance(one, Letter):
        return structs.replace(one, id="", number=0, error=told(one.reason, one.error))
    if hasattr(one, "id"):
        return structs.replace(one, id=0)
    return structs.replace(one, dead_letter=0) if hasattr(one, "dead_letter") else one


async def play(told: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(folder)
        await pair.open()
        try:
            await pair.step("register", {"w", "v", "*"})
            for kind, what in told:
                await pair.step(kind, what)
            await pair.look()
        finally:
            await pair.sql.aclose(clean=True)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, min_size=10, max_size=40))
def test_both_stores_give_the_same_answers(told: list[Step]) -> None:
    asyncio.run(play(told))
