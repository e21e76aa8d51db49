"""Line by line: each file is a lane, each of its lines an event, and many files are read in turn.

    claimed ─▶ has a turn ⇄ paused
                  │  all delivered
                  ▼
               ended ── the last line is settled ──▶ done/ (deleted, or dead/ if it could not be read to its end)

A Reading is one way through a file; its identity is the epoch. A failed line ends it: a fresh one starts at that line,
and whatever is still said of the old one changes nothing.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import AsyncGenerator, Hashable, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, cast

import structlog

from bridge.core.errors import Transient
from bridge.core.model import AdvanceBatch, AdvanceItem, Poll, Slice
from bridge.ports import Clock, Meta
from bridge.shared_stream import POLL_MOST
from connectors.directory.claim import Claim, printable
from connectors.directory.files import Unreadable, words
from connectors.directory.folder import Verdict
from connectors.directory.lines import Stretch, is_line_start, read_lines
from connectors.directory.options import DirectoryOptions
from connectors.directory.producer import DirectoryProducer, is_unsettled, runs_of
from connectors.directory.reading import Reading

log = structlog.get_logger("headrace.directory")

_READ_BYTES: Final = 1024 * 1024  # in one go, over all files
_STORED_MOST: Final = 8 * 1024 * 1024  # read and not delivered, over all files
_READ_LINES: Final = 4 * POLL_MOST
_SHARE: Final = 4  # files that share it, if there are so many
_JOBS_MOST: Final = 64
_TURNS_MOST: Final = 256  # files that are read in turn; more wait in the folder
_KEEP_EVERY: Final = 1.0  # seconds between two notes of a position


class LineByLine(DirectoryProducer):
    """See the head of the file. The payload of an event is the pair of its Reading and the line's offset."""

    def __init__(self, options: DirectoryOptions, clock: Clock | None = None) -> None:
        super().__init__(options, clock)
        self._readings: dict[str, Reading] = {}  # by identity, until the file leaves
        self._turns: deque[Reading] = deque()
        self._resting: list[tuple[float, Reading]] = []  # few: only what failed
        self._positions: dict[str, int] = {}  # settled, not yet noted
        self._kept_at = self._clock.monotonic()

    # Reading ---------------------------------------------------------------------------------------------------------

    async def open_batches(self) -> AsyncGenerator[Poll, None]:
        await self._open()
        while True:
            self._wake.clear()
            now = self._clock.monotonic()
            self._end_rests(now)
            if len(self._turns) < _TURNS_MOST and (self.folder.has_left or self._scanner.is_due(now)):
                await self._claim_more()
            if self._needs_more():
                await self._read_on()
            poll = self._gather()
            if poll is not None:
                yield poll
            else:
                await self._keep_positions(now)
                await self._rest(self._next_at())

    def _next_at(self) -> float:
        if self._turns or self.folder.has_left:
            return 0.0
        return min(self._scanner.next_pass, *(due for due, _ in self._resting), math.inf)

    def _end_rests(self, now: float) -> None:
        if self._resting:
            for due, reading in self._resting:
                if due <= now:
                    self._queue(reading)
            self._resting = [(due, reading) for due, reading in self._resting if due > now]

    async def _claim_more(self) -> None:
        claims: deque[Claim] = deque()
        for reading in await self._patiently(partial(self._claim, claims, _TURNS_MOST - len(self._turns))):
            identity = reading.claim.identity
            if identity in self._readings:
                log.warning("file has a second name, read under the first only", file=printable(reading.claim.name))
                await self._patiently(partial(self.folder.leave_all, [(reading.claim, self._options.on_done)]))
            else:
                self._readings[identity] = reading
                self._queue(reading)

    def _claim(self, claims: deque[Claim], most: int) -> list[Reading]:
        """In the thread. What an earlier life claimed comes first, and goes on where that one had settled."""
        if not self.folder.has_left:
            self._scanner.claim(claims, most)
            return [Reading(claim) for claim in claims]
        self.folder.recover(claims, most)
        return [self._begun(claim) for claim in claims]

    def _begun(self, claim: Claim) -> Reading:
        settled = self.folder.positions.read(claim)
        try:
            if settled is not None and is_line_start(os.path.join(self.folder.work, claim.file), settled):
                return Reading(claim, next=settled, skips=True, settled=settled, last=settled)
        except Unreadable:
            pass  # whoever reads it next sees that too, and says so
        return Reading(claim)

    def _queue(self, reading: Reading) -> None:
        if not (reading.has_turn or reading.is_stale or reading.is_paused) and (reading.ready or not reading.is_ended):
            reading.has_turn = True
            self._turns.append(reading)

    def _needs_more(self) -> bool:
        """There is less than a poll in store, or whose turn it is has nothing: the long never hold up the short."""
        ready = stored = 0
        for reading in self._turns:
            ready += reading.ready
            stored += reading.stored
        return ready < POLL_MOST or (not self._turns[0].ready and stored < _STORED_MOST)

    def _gather(self) -> Poll | None:
        """A poll of what was read, file by file; who has more stands at the end of the queue again."""
        slices: list[Slice] = []
        bodies: list[bytes] = []
        payloads: list[Any] = []
        for _ in range(len(self._turns)):
            start = len(bodies)
            if start >= POLL_MOST:
                break
            reading = self._turns.popleft()
            reading.has_turn = False
            if reading.ready and not (reading.is_stale or reading.is_paused):
                reading.give(bodies, payloads, POLL_MOST - start)
                slices.append(Slice(reading.claim.identity, start, len(bodies)))
            self._queue(reading)
        return Poll(slices, bodies, payloads) if bodies else None

    async def _read_on(self) -> None:
        """Reads on in files that have a turn and little in store."""
        hungry = (r for r in self._turns if not (r.is_ended or r.is_stale or r.is_paused) and r.ready < POLL_MOST)
        jobs = [(r, r.next, r.skips) for r in islice(hungry, _JOBS_MOST)]
        if not jobs:
            return
        done: list[Reading] = []
        for reading, at, stretch, fault in await self._patiently(partial(self._read, jobs)):
            if reading.is_stale or reading.is_paused or reading.next != at:
                continue  # it was decided otherwise meanwhile, and nothing has been taken
            self._report_cut(reading, stretch)
            reading.take(stretch)
            reading.fault = fault
            if reading.is_done:
                done.append(reading)
        if done:
            await self._patiently(partial(self._leave, done))
            self._forget(done)

    def _read(self, jobs: list[tuple[Reading, int, bool]]) -> list[tuple[Reading, int, Stretch, str]]:
        """In the thread, which changes no Reading. At least one job is done."""
        got: list[tuple[Reading, int, Stretch, str]] = []
        size = lines = 0
        for reading, at, skips in jobs:
            try:
                stretch, fault = self._stretch(reading.claim, at, skips, _READ_BYTES // min(len(jobs), _SHARE)), ""
            except Unreadable as error:
                stretch, fault = Stretch([], [], at, is_last=True), str(error)
            except OSError:
                if not got:
                    raise
                break  # the next call meets it again
            got.append((reading, at, stretch, fault))
            size += stretch.next - at
            lines += len(stretch.bodies)
            if size >= _READ_BYTES or lines >= _READ_LINES:
                break
        return got

    def _stretch(self, claim: Claim, at: int, skips: bool, want: int) -> Stretch:
        path = os.path.join(self.folder.work, claim.file)
        return read_lines(path, at, size=claim.size, skips=skips, want=want, max_line=self._options.max_line)

    def _report_cut(self, reading: Reading, stretch: Stretch) -> None:
        if not stretch.cut:
            return
        self.counts.cut += stretch.cut
        if reading.is_whole:
            log.warning(
                "line is longer than `max_line`, delivered cut; the file is kept",
                folder=self.folder.path,
                file=printable(reading.claim.name),
                max_line=self._options.max_line,
                between=(reading.next, stretch.next),
            )

    def pause(self, lanes: Sequence[Hashable]) -> None:
        """What was read of these files and not delivered is read again later."""
        for lane in lanes:
            reading = self._readings.get(cast("str", lane))
            if reading is not None:
                reading.is_paused = True
                reading.drop_lines()

    def resume(self, lanes: Sequence[Hashable]) -> None:
        for lane in lanes:
            reading = self._readings.get(cast("str", lane))
            if reading is not None and reading.is_paused:
                reading.is_paused = False
                self._queue(reading)
        self._wake.set()

    # Settling --------------------------------------------------------------------------------------------------------

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        """Notes how far the file is settled; with its last line it leaves. Raises Transient if it can't."""
        await self._settle([batch])

    async def advance_lanes(self, batches: Sequence[tuple[Hashable, AdvanceBatch]]) -> None:
        await self._settle([batch for _, batch in batches])

    async def _settle(self, batches: Sequence[Sequence[AdvanceItem]]) -> None:
        done: list[Reading] = []
        failed: list[tuple[Reading, int]] = []
        for batch in batches:
            for outcome, payloads in runs_of(batch):
                if is_unsettled(outcome):
                    failed.append(payloads[0])
                    break  # whatever follows in the batch is read again with it
                reading, offset = payloads[-1]
                self._settled(reading, offset)
                if reading.is_done:
                    done.append(reading)
        if done:
            try:
                await self._do(partial(self._leave, done))
            except OSError as error:
                raise Transient(f"a file can't be moved out of {self.folder.work}: {words(error)}") from error
            self._forget(done)
        await self._keep_positions(self._clock.monotonic())
        for reading, offset in failed:  # last: its lines may come only once this call has returned
            self._failed(reading, offset)

    def _settled(self, reading: Reading, offset: int) -> None:
        if offset > reading.settled and not reading.is_stale:
            reading.settled = offset
            reading.tries = 0
            if reading.is_whole:  # else a restart would not know that a line was cut, and might delete the file
                self._positions[reading.claim.identity] = offset

    def _failed(self, reading: Reading, offset: int) -> None:
        if offset > reading.settled:
            self._start_again(reading, offset, reading.tries + 1, self._again_at(reading.tries + 1))

    async def release(self, payloads: Sequence[tuple[Reading, int]]) -> None:
        """Lines that nobody holds any more: each file goes on at the first of them."""
        firsts: dict[Reading, int] = {}
        for reading, offset in payloads:
            firsts[reading] = min(offset, firsts.get(reading, offset))
        for reading, offset in firsts.items():
            if offset > reading.settled:
                self._start_again(reading, offset, reading.tries, self._clock.monotonic())

    def _start_again(self, old: Reading, offset: int, tries: int, due: float) -> None:
        """From this line on all comes again. The old way through the file means nothing from now on."""
        if old.is_stale:
            return
        old.is_stale = True
        fresh = Reading(
            old.claim, next=offset, settled=old.settled, last=old.settled, tries=tries, is_whole=old.is_whole
        )
        self._readings[old.claim.identity] = fresh
        self._resting.append((due, fresh))
        self._wake.set()

    # Leaving ---------------------------------------------------------------------------------------------------------

    def _leave(self, readings: Sequence[Reading]) -> None:
        """In the thread."""
        try:
            for reading in readings:
                if reading.fault:
                    self.folder.bury(reading.claim, reading.fault)
            self.folder.leave_all((reading.claim, self._verdict(reading)) for reading in readings)
        finally:
            for reading in readings:
                if reading.claim.is_closed:
                    self.folder.positions.forget(reading.claim.identity)

    def _verdict(self, reading: Reading) -> Verdict:
        on_done = self._options.on_done
        return "dead" if on_done == "delete" and not reading.is_whole else on_done

    def _forget(self, readings: Sequence[Reading]) -> None:
        for reading in readings:
            self._positions.pop(reading.claim.identity, None)
            self._readings.pop(reading.claim.identity, None)

    async def _keep_positions(self, now: float) -> None:
        if self._positions and now - self._kept_at >= _KEEP_EVERY:
            positions, self._positions = self._positions, {}
            self._kept_at = now
            await self._do(partial(self.folder.positions.write, positions))

    def _shut(self) -> None:
        self.folder.positions.write(self._positions)
        super()._shut()

    # Telling ---------------------------------------------------------------------------------------------------------

    def get_advance_lane(self, broker_payload: tuple[Reading, int]) -> Hashable:
        return broker_payload[0].claim.identity

    def identity(self, broker_payload: tuple[Reading, int]) -> str:
        """That of the file, and the offset of the line in it."""
        reading, offset = broker_payload
        return f"{reading.claim.identity}@{offset}"

    def describe(self, broker_payload: tuple[Reading, int]) -> Meta:
        reading, offset = broker_payload
        name = printable(reading.claim.name)
        return Meta(position=f"{self.folder.name}/{name}:{offset}", timestamp=reading.claim.mtime, lane=name)
