"""Whole files: each is one event, and none waits for another."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import AsyncGenerator, Hashable, Sequence
from functools import partial
from itertools import count
from typing import Any

from bridge.core.errors import Transient
from bridge.core.model import UNORDERED, AdvanceBatch, AdvanceItem, Poll, Slice
from bridge.ports import Clock, Meta
from bridge.shared_stream import POLL_MOST
from connectors.directory.claim import Claim, printable
from connectors.directory.files import Unreadable, words
from connectors.directory.folder import Verdict
from connectors.directory.options import DirectoryOptions
from connectors.directory.producer import POLL_BYTES, DirectoryProducer, runs_of, verdict_of


class WholeFiles(DirectoryProducer):
    """The payload of an event is its Claim. What is claimed is either unread, with the watchers, or to come again."""

    def __init__(self, options: DirectoryOptions, clock: Clock | None = None) -> None:
        super().__init__(options, clock)
        self._unread: deque[Claim] = deque()
        self._again: list[tuple[float, int, Claim]] = []  # a heap by time
        self._numbers = count()
        self._is_paused = False

    # Reading ---------------------------------------------------------------------------------------------------------

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        await self._open()
        while True:
            self._wake.clear()
            now = self._clock.monotonic()
            self._take_again(now)
            poll = None
            if not self._is_paused and (self._unread or self.folder.has_left or self._scanner.is_due(now)):
                poll = await self._patiently(self._fetch)
            if poll is not None:
                yield poll
            elif self._is_paused or not (self.folder.has_left or self._scanner.is_due(now)):
                await self._rest(self._next_at(now))

    def _next_at(self, now: float) -> float:
        next_pass = self._scanner.next_pass if not self._is_paused else now + self._options.poll_interval
        return min(next_pass, self._again[0][0]) if self._again else next_pass

    def _take_again(self, now: float) -> None:
        while self._again and self._again[0][0] <= now:
            self._unread.append(heapq.heappop(self._again)[2])

    def _fetch(self) -> Poll | None:
        """Claims and reads, in the thread. An error behind the first file is left for the next call to meet."""
        bodies: list[bytes] = []
        claims: list[Any] = []
        size = 0
        try:
            if not self._unread:
                self._claim_more()
            while self._unread and len(bodies) < POLL_MOST and size < POLL_BYTES:
                claim = self._unread[0]
                try:
                    body = self.folder.read(claim, self._options.max_file)
                except Unreadable as error:
                    self.folder.bury(claim, str(error))
                else:
                    bodies.append(body)
                    claims.append(claim)
                    size += len(body)
                self._unread.popleft()
        except OSError:
            if not bodies:
                raise
        return Poll([Slice(UNORDERED, 0, len(bodies))], bodies, claims) if bodies else None

    def _claim_more(self) -> None:
        if self.folder.has_left:  # what an earlier life claimed comes first
            self.folder.recover(self._unread, POLL_MOST)
        else:
            self._scanner.claim(self._unread, POLL_MOST)

    def pause(self, lanes: Sequence[Hashable]) -> None:
        """There is one lane, and with it everything stops."""
        self._is_paused = self._is_paused or UNORDERED in lanes

    def resume(self, lanes: Sequence[Hashable]) -> None:
        self._is_paused = self._is_paused and UNORDERED not in lanes
        self._wake.set()

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Moves or deletes the files; those that failed come again. Raises Transient; may be called again then."""
        await self._settle([batch])

    async def advance_lanes(self, batches: Sequence[tuple[Hashable, AdvanceBatch]]) -> None:
        await self._settle([batch for _, batch in batches])

    async def _settle(self, batches: Sequence[Sequence[AdvanceItem]]) -> None:
        leaving: list[tuple[Claim, Verdict]] = []
        for batch in batches:
            for outcome, claims in runs_of(batch):
                verdict = verdict_of(outcome, self._options.on_done)
                if verdict is None:
                    self._put_back(claims, soon=False)
                else:
                    leaving.extend((claim, verdict) for claim in claims)
        if leaving:
            try:
                await self._do(partial(self.folder.leave_all, leaving))
            except OSError as error:
                raise Transient(f"a file can't be moved out of {self.folder.work}: {words(error)}") from error

    async def release(self, payloads: Sequence[Claim]) -> None:
        """Events that nobody holds any more: they are delivered again, at once or by the next life."""
        self._put_back(payloads, soon=True)

    def _put_back(self, claims: Sequence[Claim], *, soon: bool) -> None:
        for claim in claims:
            if not claim.is_closed:
                fresh = claim.again()
                due = self._clock.monotonic() if soon else self._again_at(fresh.tries)
                heapq.heappush(self._again, (due, next(self._numbers), fresh))
        self._wake.set()

    # Telling ---------------------------------------------------------------------------------------------------------

    def get_advance_lane(self, broker_payload: Claim) -> Hashable:
        return UNORDERED

    def identity(self, broker_payload: Claim) -> str:
        """Device, inode, size and mtime of the file, as they were when it was claimed."""
        return broker_payload.identity

    def describe(self, broker_payload: Claim) -> Meta:
        return Meta(position=f"{self.folder.name}/{printable(broker_payload.name)}", timestamp=broker_payload.mtime)
