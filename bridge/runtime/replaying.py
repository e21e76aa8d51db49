"""Dead letters that are read again, each on a lane of its own, for the watchers that refused it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.core.commands import Advance, Command
from bridge.core.group import StreamGroup
from bridge.core.model import EVERY_WATCHER, Poll, Record, Reject, Run, Slice
from bridge.ports import Clock, Committer, Receipt, Replay, ReplayedRow, Router, Row
from bridge.runtime.routing import Routing
from bridge.runtime.rows import Replayed


class Replaying:
    """`under_way` has the ids of the dead letters that are read again right now."""

    def __init__(
        self,
        core: StreamGroup,
        router: Router,
        routing: Routing,
        committer: Committer,
        clock: Clock,
        do: Callable[[Sequence[Command]], None],
    ) -> None:
        self.under_way: set[int] = set()
        self._core = core
        self._router = router
        self._routing = routing
        self._committer = committer
        self._clock = clock
        self._do = do

    async def replay(self, replay: Replay, within: float) -> None:
        """What can't be done at this moment, or within so many seconds, is not done: it is asked for again soon."""
        payload = Replayed(replay)
        now = self._clock.monotonic()
        poll = Poll([Slice(("replay", replay.dead_letter), 0, 1)], [replay.body], [payload], now)
        if replay.dead_letter in self.under_way:
            return
        routed = await self._routing.routed_now(poll, within)
        if routed is None or replay.dead_letter in self.under_way or self._core.is_stopping:
            return
        self.under_way.add(replay.dead_letter)
        everybody = replay.watcher == EVERY_WATCHER
        seats = [s for s in self._core.seats.values() if everybody or s.id == replay.watcher]
        records: list[Record] = [r for r in routed.hits.get(0, ()) if everybody or _watcher_of(r) == replay.watcher]
        for fault in routed.faults.values():  # nobody can read it still: the same dead letter again
            records = [Reject(replay.watcher, payload, replay.body, fault.reason, fault.error)]
            seats = []
        if not (everybody or records or seats or replay.watcher in self._router.watchers):
            error = "the watcher is disabled, or gone: enable it, and replay this again"
            records = [Reject(replay.watcher, payload, replay.body, "watcher_unavailable", error)]
        self._do(self._core.admit_replay(poll, records, seats))

    def resolved(self, command: Advance) -> None:
        """A reject has made the row a dead letter again, and that stands."""
        rejected = any(outcome.rejected for outcome, _ in command.batch.runs)
        ids = [payload.replay.dead_letter for payload in command.batch.payloads]
        rows: list[Row] = [] if rejected else [ReplayedRow(i) for i in ids]

        def done(_: Receipt) -> None:
            self.under_way.difference_update(ids)
            self._do(self._core.advanced([command]))

        self._committer.submit(rows, done)


def _watcher_of(record: Record) -> str:
    return record.plan.watcher if isinstance(record, Run) else record.watcher
