"""Whatever targets answer and whenever the process dies: each run has at most one effect, and every run ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.core.errors import Refused, Transient
from bridge.core.retry import Backoff
from bridge.ports import Claim, Launched, Receipt, Row
from bridge.runtime.clock import FakeClock
from bridge.runtime.dispatcher import Dispatcher, TargetRuntime
from bridge.store.memory import MemoryStore
from bridge.targets.fake import FakeTarget, Outcome
from bridge.testing import run_row

RUNS = 6


class Died(BaseException):
    """The process ends here."""


class LosingCommitter:
    """Commits at once. What is submitted while `is_losing` is lost with the process, as before a crash."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.is_losing = False
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, rows: Sequence[Row] | Callable[[], Sequence[Row]], confirmed: Callable[[Receipt], None]) -> None:
        if self.is_losing:
            return
        task = asyncio.create_task(self._commit(list(rows() if callable(rows) else rows), confirmed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _commit(self, rows: list[Row], confirmed: Callable[[Receipt], None]) -> None:
        confirmed(await self.store.commit(rows, f"c{id(rows)}-{self.store.commits}"))


class Moody(FakeTarget):
    """Hangs at the calls that it is told to."""

    def __init__(self, script: list[Outcome], hangs: set[int]) -> None:
        super().__init__(script, timeout=5.0)
        self.hangs = hangs
        self.calls = 0

    async def launch(self, claim: Claim) -> Launched:
        self.calls += 1
        if self.calls in self.hangs:
            await asyncio.Event().wait()
        return await super().launch(claim)


OUTCOMES = st.sampled_from([Transient("t"), Transient("t", retry_after=3.0), Refused("r"), ValueError("v")]) | st.just(
    Launched("succeeded", "id")
)
LIVES = st.lists(
    st.tuples(st.sampled_from(["crash", "stop", "lose"]), st.floats(min_value=0, max_value=70)), max_size=3
)


@settings(max_examples=20, deadline=None)
@given(
    script=st.lists(OUTCOMES, max_size=12),
    deaths=st.lists(st.tuples(st.sampled_from(["before", "after"]), st.integers(1, 12)), max_size=4),
    hangs=st.sets(st.integers(1, 12), max_size=3),
    lives=LIVES,
)
def test_every_run_ends_with_one_effect_or_a_visible_failure(
    script: list[Outcome],
    deaths: list[tuple[str, int]],
    hangs: set[int],
    lives: list[tuple[str, float]],
) -> None:
    asyncio.run(_live(script, deaths, hangs, lives))


async def _live(
    script: list[Outcome], deaths: list[tuple[str, int]], hangs: set[int], lives: list[tuple[str, float]]
) -> None:
    clock = FakeClock()
    store = MemoryStore(now=clock.now)
    keys = [f"w/s/{n}/0" for n in range(RUNS)]
    rows = [run_row(k, identity=k, target="t", received_at=clock.now()) for k in keys]
    await store.commit(rows, "put")
    target = Moody(script, hangs)
    for when, call in deaths:
        target.die(when, call, Died())
    for ending, seconds in [*lives, *[("crash", 80.0)] * (len(deaths) + 5)]:
        await _one_life(store, target, clock, ending, seconds)
        store = store.restarted()
        runs = [store.tables.runs[key] for key in keys]
        if all(run.due is None for run in runs):
            break
    runs = [store.tables.runs[key] for key in keys]
    assert {run.state for run in runs} <= {"succeeded", "failed"}
    assert sorted(target.effects) == sorted((run.row.run_key, 0) for run in runs if run.state == "succeeded")
    assert all(run.error for run in runs if run.state == "failed")
    assert target.most_at_once <= 2


async def _one_life(store: MemoryStore, target: FakeTarget, clock: FakeClock, ending: str, seconds: float) -> None:
    committer = LosingCommitter(store)
    runtime = TargetRuntime(target, max_in_flight=2, retry=Backoff(2.0, 2.0, 10.0, 0.0), attempts=6)
    dispatcher = Dispatcher(store, committer, {"t": runtime}, clock, lambda: 0.5)
    life = asyncio.create_task(dispatcher.run())
    await clock.advance(seconds / 2)
    committer.is_losing = ending == "lose"
    await clock.advance(seconds / 2)
    if ending == "stop" and not life.done():
        stopping = asyncio.create_task(dispatcher.stop(3.0))
        await clock.advance(4)
        await stopping
    committer.is_losing = True
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
