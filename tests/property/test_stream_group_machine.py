"""Random interleavings of everything that can happen to a group, against a model that is kept apart from it.

The model knows only what the outside could know: which events were admitted when, who owed them, which verdicts were
given on tickets that were still good, and which commits were confirmed. Every Advance is checked against it.

Each example has bounds of its own, one of the two modes of retrying, watchers that may overflow or not, and is suspect
or not; some events come with earlier tries, as after a restart.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bridge.core.commands import Advance, Command, Left, Limits, PauseLane, Persist, Recall, ResumeLane, StopGroup, Wake
from bridge.core.group import StreamGroup
from bridge.core.model import (
    UNORDERED,
    Attempt,
    Fault,
    Forget,
    Opened,
    Plan,
    Poll,
    Record,
    Reject,
    Routed,
    Run,
    Slice,
)
from bridge.core.retry import Backoff
from bridge.core.round import Round
from bridge.core.seat import Seat, Ticket
from bridge.core.window import Derived, Verdict

DECLARED = ["d0", "d1"]
KINDS = ["plain", "plain", "hit", "both", "params", "fault"]
LANES: list[Hashable] = ["a", "b", "c", UNORDERED]
BROKER_LANES = ["k0", "k1"]
PASTS: list[tuple[int, int] | None] = [None, None, None, None, (1, 0), (1, 2), (0, 2), (0, 3), (1, 4)]


@dataclass(eq=False)
class Event:
    """One admitted event. `resolved` has how each of its watchers ended, once that is durable."""

    payload: int
    lane: Lane
    kind: str
    owing: set[str]
    resolved: dict[str, str] = field(default_factory=dict)
    unconfirmed: int = 0
    released: bool = False
    settled: bool = False
    fails: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    waits_for: set[str] = field(default_factory=set)  # Python watchers that still have to look at it
    failed_for: set[str] = field(default_factory=set)  # the broker will hear that these failed
    past: dict[str, tuple[int, int]] = field(default_factory=dict)
    openings: dict[str, int] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)  # openings that are durable

    def has_rows(self, watcher: str) -> bool:
        """Something is written of its tries, and is to be forgotten."""
        return bool(self.fails.get(watcher) or self.openings.get(watcher) or watcher in self.past)


@dataclass(eq=False)
class Lane:
    """One assignment of a lane as the outside sees it: events in the order in which they were admitted."""

    key: Hashable
    epoch: int | None
    events: list[Event] = field(default_factory=list)
    next: int = 0
    live: bool = True
    flying: int = 0


class History:
    """What is written of earlier tries."""

    def __init__(self, known: dict[tuple[str, Any], tuple[int, int]]) -> None:
        self.known = known

    def __bool__(self) -> bool:
        return bool(self.known)

    def __call__(self, watcher: str, payload: Any) -> tuple[int, int] | None:
        return self.known.get((watcher, payload))


@dataclass(eq=False)
class Commit:
    persist: Persist
    effects: list[tuple[Event, str, str]]  # event, watcher, how it ends once this is durable


@dataclass(eq=False)
class Runner:
    """What the watchers' thread would be doing for one seat."""

    seat: Seat
    round: Round = field(default_factory=Round)
    woken: bool = True


class GroupMachine(RuleBasedStateMachine):
    @initialize(
        seats=st.integers(0, 2),
        mode=st.sampled_from(["process", "broker"]),
        max_attempts=st.integers(1, 3),
        max_advancing=st.sampled_from([1, 2, 100]),
        max_outstanding=st.sampled_from([4, 12, 40]),
        advance_max=st.sampled_from([1, 3, 100]),
        queue_size=st.sampled_from([None, None, 1, 3]),
        is_suspect=st.booleans(),
    )
    def start(
        self,
        seats: int,
        mode: Any,
        max_attempts: int,
        max_advancing: int,
        max_outstanding: int,
        advance_max: int,
        queue_size: int | None,
        is_suspect: bool,
    ) -> None:
        self.now = 0.0
        self.sequence = 0
        self.joined = 0
        self.max_attempts = max_attempts
        self.limits = Limits(
            retry=Backoff(delay=1.0, jitter=0.0),
            retry_mode=mode,
            max_outstanding=max_outstanding,
            max_outstanding_bytes=4000,
            max_retrying=5,
            queue_size=queue_size,
            max_advancing=max_advancing,
            advance_max=advance_max,
            advance_attempts=3,
            advance_retry=Backoff(delay=1.0, jitter=0.0),
        )
        self.known: dict[tuple[str, Any], tuple[int, int]] = {}
        history = History(self.known)
        self.group = StreamGroup(len(DECLARED), self.limits, history=history, is_suspect=is_suspect)
        self.lanes: dict[Hashable, Lane] = {}
        self.events: dict[int, Event] = {}
        self.runners: dict[str, Runner] = {}
        self.commits: list[Commit] = []
        self.late: list[Commit] = []
        self.advances: list[Advance] = []
        self.paused: set[Hashable] = set()
        self.stopped = False
        self.failed = False
        for _ in range(seats):
            self.join()

    # What the shell would do -----------------------------------------------------------------------------------------

    def perform(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case Persist():
                    self.on_persist(command)
                case Advance():
                    self.on_advance(command)
                case PauseLane(key):
                    assert key not in self.paused, "paused twice"
                    self.paused.add(key)
                case ResumeLane(key):
                    self.paused.remove(key)
                case Wake(seat):
                    self.runners[seat.id].woken = True
                case Recall(seat):
                    self.on_recall(self.runners[seat.id])
                case Left(seat):
                    live = [e for e in self.events.values() if e.lane.live and e.kind != "fault"]
                    owed = [e for e in live if seat.id in e.owing - set(e.resolved)]
                    assert not owed, "left before it was done with what it owed"
                    del self.runners[seat.id]
                case StopGroup():
                    self.failed = self.stopped = True

    def on_recall(self, runner: Runner) -> None:
        """The shell cancels what is not current any more; the rest goes on."""
        runner.round.drop_stale()
        if runner.round.ticket is not None and not runner.round.ticket.is_current:
            runner.round.abandon()

    def on_persist(self, command: Persist) -> None:
        assert command.tokens, "a commit that nobody waits for"
        effects: list[tuple[Event, str, str]] = []
        for record in command.records:
            event = self.events[record.payload]
            assert not event.released, "a record of an event that has gone"
            effects += self.effects_of(event, record)
        for event in {id(e): e for e, _, _ in effects}.values():
            event.unconfirmed += 1
        self.commits.append(Commit(command, effects))

    def effects_of(self, event: Event, record: Record) -> list[tuple[Event, str, str]]:
        match record:
            case Run(plan=plan):
                return [(event, plan.watcher, "acked")]
            case Reject(watcher="*"):
                return [(event, w, "rejected") for w in event.owing]
            case Reject(watcher=watcher, reason="killed_process"):
                assert event.past[watcher][1] >= 3
                return [(event, watcher, "rejected")]
            case Reject(watcher=watcher):
                return [(event, watcher, "rejected")]
            case Opened(watcher=watcher, deaths=deaths):
                assert self.group.is_suspect
                fails, known = event.fails.get(watcher, 0), event.past.get(watcher, (0, 0))
                assert deaths == (known[1] if fails == known[0] else 0), "a try that failed ends the row of deaths"
                event.openings[watcher] = event.openings.get(watcher, 0) + 1
                return [(event, watcher, "opened")]
            case Attempt(watcher=watcher, tries=tries):
                assert tries == event.fails[watcher] < self.max_attempts
                return [(event, watcher, f"attempt {tries}")]
            case Forget(watcher=watcher):
                assert event.has_rows(watcher), "nothing to forget"
                return [(event, watcher, "acked")]

    def on_advance(self, command: Advance) -> None:
        items = list(command.batch)
        assert items, "an empty batch"
        assert items[-1] == command.batch[-1]
        assert [p for p, _ in items] == command.batch.payloads
        lane = self.events[items[0].broker_payload].lane
        ordered = lane.key is not UNORDERED
        self.advances.append(command)
        if command.attempts:  # the same once more
            assert all(self.events[p].released and not self.events[p].settled for p, _ in items)
            return
        if ordered:
            assert lane.flying == 0, "two advances of one lane at a time"
        else:
            assert len(items) <= self.limits.advance_max
        lane.flying += 1
        for payload, outcome in items:
            event = self.events[payload]
            assert event.lane is lane
            assert lane.live, "released of an assignment that has gone"
            self.check_released(event, outcome)
            if ordered:
                assert lane.events[lane.next] is event, "out of order"
                lane.next += 1
                assert not outcome.failed or len(items) == 1, "a failed item in company"
        assert sum(a.lane.live for a in self.advances) <= self.limits.max_advancing

    def check_released(self, event: Event, outcome: Any) -> None:
        assert not event.released, "released twice"
        event.released = True
        assert set(event.resolved) == event.owing, "released before each owing watcher was done with it"
        assert event.unconfirmed == 0, "released before what it caused was confirmed"
        ends = list(event.resolved.values())
        assert (outcome.acked, outcome.failed, outcome.rejected) == tuple(
            ends.count(x) for x in ("acked", "failed", "rejected")
        )
        assert outcome.is_clean == (outcome.rejected == outcome.failed == 0 < outcome.acked)
        if outcome.rejected:
            assert outcome.rejections

    # Polls -----------------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.stopped)
    @rule(data=st.data(), number=st.integers(1, 3))
    def poll(self, data: st.DataObject, number: int) -> None:
        """A poll of several lanes; lanes of the broker carry their epoch."""
        known = [k for k, lane in self.lanes.items() if lane.epoch is not None and lane.live]
        keys = data.draw(st.lists(st.sampled_from(LANES + known), min_size=1, max_size=number, unique=True))
        keys = [k for k in keys if k not in self.paused] if not self.group.is_paused else []
        self.feed([(k, self.lanes[k].epoch if k in known else None) for k in keys], data, stale=False)

    @precondition(lambda self: not self.stopped and any(x.epoch for x in self.lanes.values()))
    @rule(data=st.data())
    def stale_poll(self, data: st.DataObject) -> None:
        """A fetch that was under way while the lane went away and came back."""
        key = data.draw(st.sampled_from([k for k, lane in self.lanes.items() if lane.epoch is not None]))
        self.feed([(key, (self.lanes[key].epoch or 0) - 1)], data, stale=True)

    def feed(self, keys: list[tuple[Hashable, int | None]], data: st.DataObject, *, stale: bool) -> None:
        slices: list[Slice] = []
        payloads: list[int] = []
        hits: dict[int, list[Record]] = {}
        faults: dict[int, Fault] = {}
        seats = [s for s in self.group.seats.values() if not s.retired]
        for key, epoch in keys:
            start = len(payloads)
            lane = self.lane(key, epoch) if not stale else None
            events: list[Event] = []
            for kind in data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)):
                index, payload = len(payloads), self.sequence
                self.sequence += 1
                payloads.append(payload)
                if lane is not None:
                    events.append(Event(payload, lane, kind, {*DECLARED, *(s.id for s in seats)}))
                    self.expect(events[-1])
                self.route(kind, index, payload, hits, faults)
            for seat in seats:
                self.expect_of(seat, [e for e in events if e.kind != "fault"], data.draw(st.sampled_from(PASTS)))
            slices.append(Slice(key, start, len(payloads), epoch))
        if slices:
            before = self.group.tally.stale
            self.perform(
                self.group.admit(
                    Poll(slices, [b"x" * 10] * len(payloads), payloads),
                    Routed.of(hits, faults),
                )
            )
            assert self.group.tally.stale - before == (len(payloads) if stale else 0)

    def lane(self, key: Hashable, epoch: int | None) -> Lane:
        lane = self.lanes.get(key)
        if lane is None or not lane.live:
            lane = self.lanes[key] = Lane(key, epoch)
        return lane

    def expect(self, event: Event) -> None:
        self.events[event.payload] = event
        event.lane.events.append(event)
        if event.kind != "fault":
            acked = {"plain": DECLARED, "hit": ["d1"], "both": [], "params": []}[event.kind]
            event.resolved = dict.fromkeys(acked, "acked")

    def expect_of(self, seat: Seat, events: list[Event], past: tuple[int, int] | None) -> None:
        """What the seat owes of a slice: what it is too far behind for has failed, and so has all behind a failure."""
        if not events:
            return
        lane, size = events[0].lane, self.limits.queue_size
        room = len(events) if size is None else max(0, size - self.behind(seat))
        if lane.key is not UNORDERED and any(seat.id in e.failed_for for e in lane.events):
            room = 0
        for event in events[room:]:
            event.resolved[seat.id] = "failed"
            event.failed_for.add(seat.id)
        for event in events[:room]:
            event.waits_for.add(seat.id)
        if past is not None:
            event, past = events[0], (min(past[0], self.max_attempts - 1), past[1])
            self.known[seat.id, event.payload] = past
            if room:
                event.past[seat.id] = past
                event.fails[seat.id] = event.written[seat.id] = past[0]
                if past[1] >= 3:  # the process died of it too often
                    event.waits_for.discard(seat.id)

    def behind(self, seat: Seat) -> int:
        """Events that wait for the watcher, and tickets of lanes that have gone of which it has not said so yet."""
        waiting = sum(seat.id in e.waits_for for e in self.events.values() if e.lane.live)
        return waiting + sum(not t.done and not t.span.lane.live for t in seat.out)

    def route(self, kind: str, i: int, payload: int, hits: dict[int, list[Record]], faults: dict[int, Fault]) -> None:
        def run(name: str) -> Run:
            return Run(Plan(name, "asset", "target", "job"), payload, b"x", b"{}")

        if kind == "fault":
            faults[i] = Fault("malformed", "not JSON")
        elif kind == "hit":
            hits[i] = [run("d0")]
        elif kind == "both":
            hits[i] = [run("d0"), run("d1")]
        elif kind == "params":
            hits[i] = [Reject("d0", payload, b"x", "params"), run("d1")]

    # Commits ---------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.commits)
    @rule()
    def persisted(self) -> None:
        """The oldest commit is confirmed: one writer, in order."""
        commit = self.commits.pop(0)
        for event in {id(e): e for e, _, _ in commit.effects}.values():
            event.unconfirmed -= 1
        for event, watcher, how in commit.effects:
            if how == "opened":
                event.opened[watcher] = event.opened.get(watcher, 0) + 1
            elif how.startswith("attempt"):
                event.written[watcher] = int(how.split()[1])
                if self.limits.retry_mode == "broker":
                    event.resolved[watcher] = "failed"
            elif event.resolved.get(watcher) != "rejected":
                event.resolved[watcher] = how
        self.perform(self.group.persisted(commit.persist.tokens, self.now))

    # Advancing -------------------------------------------------------------------------------------------------------

    def take_advance(self, data: st.DataObject) -> Advance:
        return self.advances.pop(data.draw(st.integers(0, len(self.advances) - 1)))

    @precondition(lambda self: self.advances)
    @rule(data=st.data())
    def advanced(self, data: st.DataObject) -> None:
        self.told(self.take_advance(data))

    def told(self, advance: Advance) -> None:
        """The broker was told. In an ordered lane what lies behind a failed event comes again."""
        lane = self.events[advance.batch.payloads[0]].lane
        lane.flying -= 1
        failed = sum(len(payloads) for outcome, payloads in advance.batch.runs if outcome.failed)
        tally, before = self.group.tally, (self.group.tally.settled, self.group.tally.unsettled)
        was_live = lane.live
        if was_live:
            for payload in advance.batch.payloads:
                self.events[payload].settled = True
            if failed and lane.key is not UNORDERED:
                self.kill(lane, stays=True)
        self.perform(self.group.advanced([advance]))
        counted = (tally.settled - before[0], tally.unsettled - before[1])
        assert counted == ((len(advance.batch) - failed, failed) if was_live else (0, 0))
        if not lane.live and self.lanes[lane.key] is lane:
            assert lane.key not in self.paused, "paused, and nobody will resume it"
        self.forget_drained(lane)

    @precondition(lambda self: not self.stopped and any(self.is_reassigned(a) for a in self.advances))
    @rule(data=st.data(), delivers=st.booleans())
    def advanced_with_a_new_epoch(self, data: st.DataObject, delivers: bool) -> None:
        """A producer that seeks back and takes the lane anew before its `advance` returns, maybe delivering already."""
        advance = data.draw(st.sampled_from([a for a in self.advances if self.is_reassigned(a)]))
        self.advances.remove(advance)
        key = advance.lane.key
        self.assign(str(key))
        if delivers:
            self.feed([(key, self.lanes[key].epoch)], data, stale=False)
        mine = [e for e in self.lanes[key].events if e.settled or e.released]
        outstanding = self.group.outstanding
        self.told(advance)
        assert self.group.outstanding == outstanding, "what is said of the old epoch changed the new one"
        assert mine == [e for e in self.lanes[key].events if e.settled or e.released]

    def is_reassigned(self, advance: Advance) -> bool:
        lane = self.events[advance.batch.payloads[0]].lane
        return lane.live and lane.key in BROKER_LANES and bool(advance.taken.failed)

    @precondition(lambda self: self.advances)
    @rule(data=st.data(), kind=st.sampled_from(["transient", "transient", "transient", "moved", "fatal"]))
    def advance_failed(self, data: st.DataObject, kind: Any) -> None:
        advance = self.take_advance(data)
        lane = self.events[advance.batch.payloads[0]].lane
        ends = kind == "fatal" or (kind == "transient" and advance.attempts + 1 >= self.limits.advance_attempts)
        if kind == "moved" or ends:
            self.kill(lane)
        if not lane.live:
            lane.flying -= 1
        self.perform(self.group.advance_failed(advance, kind, "no answer", self.now))

    def kill(self, lane: Lane, *, stays: bool = False) -> None:
        """A lane that stays ours is resumed by the core; one that is lost is nobody's to resume."""
        if lane.live:
            lane.live = False
            if not stays:
                self.paused.discard(lane.key)

    def forget_drained(self, lane: Lane) -> None:
        """A lane that the broker did not assign lives only while it has something."""
        if lane.epoch is None and lane.live and all(e.settled for e in lane.events):
            lane.live = False
            assert lane.key not in self.paused, "paused for ever"

    # Ownership -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.stopped)
    @rule(key=st.sampled_from(BROKER_LANES))
    def assign(self, key: str) -> None:
        if key in self.lanes:
            self.kill(self.lanes[key], stays=True)
        epoch, commands = self.group.assigned(key)
        assert key not in self.lanes or epoch > (self.lanes[key].epoch or 0)
        self.lanes[key] = Lane(key, epoch)
        self.perform(commands)
        assert key not in self.paused, "a lane that is new is paused"

    @precondition(lambda self: not self.stopped)
    @rule(key=st.sampled_from(BROKER_LANES))
    def revoke(self, key: str) -> None:
        lane = self.lanes.get(key)
        last, commands = self.group.revoked([key])
        for _, batch in last:
            assert lane is not None
            for payload, outcome in batch:
                event = self.events[payload]
                assert lane.events[lane.next] is event
                lane.next += 1
                self.check_released(event, outcome)
        if lane is not None:
            self.kill(lane)
        self.perform(commands)

    # Python watchers -------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.stopped and len(self.runners) < 3)
    @rule()
    def join(self) -> None:
        seat = Seat(Plan(f"p{self.joined}", "asset", "target", "job", max_attempts=self.max_attempts))
        self.joined += 1
        self.group.join(seat)
        self.runners[seat.id] = Runner(seat)

    def runner(self, data: st.DataObject) -> Runner:
        return self.runners[data.draw(st.sampled_from(sorted(self.runners)))]

    @precondition(lambda self: self.runners)
    @rule(data=st.data(), limit=st.integers(1, 4))
    def pull(self, data: st.DataObject, limit: int) -> None:
        self.step(self.runner(data), limit)

    def step(self, runner: Runner, limit: int = 3) -> None:
        """The filter moves past what it holds and asks for the next event."""
        ticket = runner.round.pull()
        if ticket is None:
            self.flush(runner)
            if runner.seat.open or runner.seat.id not in self.runners:
                return
            batch = self.ask(runner, limit)
            assert not (batch and self.stopped), "a try after stop"
            assert len(batch) <= limit
            runner.round.give(batch)
            ticket = runner.round.pull()
        if ticket is not None:
            self.open(runner, ticket)

    def ask(self, runner: Runner, limit: int) -> list[Ticket]:
        """The next batch. In suspect mode one event, of one watcher: the shell sees to the turns."""
        seat = runner.seat
        if not self.group.is_suspect or seat.ready is not None:
            batch = self.group.hand_over(seat, limit)
            runner.woken = bool(batch)
            assert len(batch) <= 1 or not self.group.is_suspect
            return batch
        assert self.group.hand_over(seat, limit) == [], "a try before it is durable that it begins"
        if not any(r.seat.open or r.seat.opening or r.seat.ready for r in self.runners.values()):
            commands = self.group.open_one(seat)
            runner.woken = bool(commands)
            self.perform(commands)
        return []

    @precondition(lambda self: self.group.is_suspect and self.sequence > 20)
    @rule()
    def trust(self) -> None:
        """Suspect mode is over: whoever waited for a turn is told."""
        commands = self.group.trust()
        told = {command.seat.id for command in commands if isinstance(command, Wake)}
        for seat in self.group.seats.values():
            assert seat.open or not seat.queue or seat.id in told
        self.perform(commands)

    def open(self, runner: Runner, ticket: Ticket) -> None:
        event = self.events[ticket.span.payloads[0]]
        watcher = runner.seat.id
        assert watcher in event.owing
        assert watcher not in event.resolved, "tried again after it was done"
        fails = event.fails.get(watcher, 0)
        assert ticket.attempt == fails + 1 <= self.max_attempts
        assert event.written.get(watcher, 0) == fails, "a new try before the failed one was written"
        assert event.past.get(watcher, (0, 0))[1] < 3, "the process died of it too often"
        if self.group.is_suspect:
            assert event.opened.get(watcher, 0) == event.openings[watcher] > 0, "its opening is not durable"
        if event.lane.key is not UNORDERED:
            before = event.lane.events[: event.lane.events.index(event)]
            assert not any(watcher in e.failed_for for e in before), "tried behind what comes again"
            done = [
                watcher in e.resolved or e.unconfirmed or self.passed(e, watcher, runner)
                for e in before
                if watcher in e.owing
            ]
            assert all(done), "tried before an earlier event of its lane"

    def passed(self, event: Event, watcher: str, runner: Runner) -> bool:
        """The watcher gave its verdict, and only the flush is still to come."""
        return any(
            t.span.payloads[0] == event.payload and v.kind in ("acked", "rejected") for t, v in runner.round.verdicts
        )

    def flush(self, runner: Runner) -> None:
        self.give_back(runner, runner.round.take_verdicts())

    def give_back(self, runner: Runner, verdicts: list[tuple[Ticket, Verdict]]) -> None:
        for ticket, verdict in verdicts:
            if not ticket.is_current:
                continue
            event = self.events[ticket.span.payloads[0]]
            watcher = runner.seat.id
            if verdict.kind == "failed":
                event.fails[watcher] = event.fails.get(watcher, 0) + 1
                is_spent = event.fails[watcher] >= self.max_attempts or runner.seat.last_try
                if is_spent or self.limits.retry_mode == "broker":
                    event.waits_for.discard(watcher)
                if not is_spent and self.limits.retry_mode == "broker":
                    event.failed_for.add(watcher)
            elif verdict.kind != "returned":
                event.waits_for.discard(watcher)
            if verdict.kind == "acked" and not verdict.derived and not event.has_rows(watcher):
                event.resolved[watcher] = "acked"
        if verdicts:
            self.perform(self.group.returned(runner.seat, verdicts, self.now))

    def holding(self, data: st.DataObject) -> Runner | None:
        holding = sorted(k for k, r in self.runners.items() if r.round.ticket)
        return self.runners[data.draw(st.sampled_from(holding))] if holding else None

    @precondition(lambda self: any(r.round.ticket for r in self.runners.values()))
    @rule(data=st.data(), what=st.sampled_from(["yield", "reject", "abandon"]))
    def act(self, data: st.DataObject, what: str) -> None:
        """What a filter does while it holds an event, or what happens to it."""
        runner = self.holding(data)
        assert runner is not None
        assert runner.round.window is not None
        match what:
            case "yield":
                runner.round.window.derive(Derived(b"{}"))
            case "reject":
                runner.round.window.reject("not mine")
            case _:
                runner.round.abandon()

    @precondition(lambda self: any(r.round.ticket for r in self.runners.values()))
    @rule(data=st.data(), flush=st.booleans())
    def fail(self, data: st.DataObject, flush: bool) -> None:
        """The filter raises, cancels itself or takes too long."""
        runner = self.holding(data)
        assert runner is not None
        runner.round.fail("boom")
        if flush:
            self.flush(runner)

    @precondition(lambda self: self.runners)
    @rule(data=st.data(), passes=st.integers(0, 2))
    def pass_some_and_fail(self, data: st.DataObject, passes: int) -> None:
        """A filter goes through its events quickly and fails at one; all of that becomes durable together."""
        runner = self.runner(data)
        for _ in range(passes + 1):
            self.step(runner, 4)
        if runner.round.ticket is not None:
            runner.round.fail("boom")
        self.flush(runner)
        while self.commits:
            self.persisted()

    @precondition(lambda self: self.runners)
    @rule(data=st.data())
    def pull_one(self, data: st.DataObject) -> None:
        self.step(self.runner(data), 1)

    @precondition(lambda self: self.runners)
    @rule(data=st.data())
    def flush_some(self, data: st.DataObject) -> None:
        self.flush(self.runner(data))

    @precondition(lambda self: self.runners)
    @rule(data=st.data(), what=st.sampled_from(["abandon", "late", "retire", "expel"]))
    def disturb(self, data: st.DataObject, what: str) -> None:
        """A watcher's task is gone (with verdicts that come late, or never), it was removed, or it was disabled."""
        runner = self.runner(data)
        late = runner.round.take_verdicts()
        if what == "retire":
            self.give_back(runner, late)
            if not runner.seat.retired and runner.seat.id in self.runners:
                self.perform(self.group.retire(runner.seat, self.now))
            return
        runner.round = Round()
        if what == "expel":
            self.perform(self.group.expel(runner.seat, "watcher_unavailable"))
            return
        self.perform(self.group.abandon(runner.seat))
        if late and what == "late":
            assert self.group.returned(runner.seat, late, self.now) == [], "a late verdict changed something"

    # Time and the end ------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.perform(self.group.time_passed(self.now))
        assert self.group.wake_at is None or self.group.wake_at > self.now

    @precondition(lambda self: not self.stopped and self.sequence > 40)
    @rule()
    def stop(self) -> None:
        self.stopped = True
        self.perform(self.group.stop())

    # Invariants ------------------------------------------------------------------------------------------------------

    @invariant()
    def counts_add_up(self) -> None:
        live = [e for e in self.events.values() if e.lane.live and not e.settled]
        assert self.group.outstanding == len(live)
        if not live and not self.group.retrying:
            assert not self.group.is_paused, "paused with nothing outstanding"
            assert not self.group.has_paused_lanes
        resting = sum(1 for e in live if any(e in self.resting(r) for r in self.runners.values()))
        assert self.group.retrying >= resting

    def resting(self, runner: Runner) -> list[Event]:
        return [self.events[s.payloads[0]] for s in runner.seat.resting]

    @invariant()
    def a_seat_that_was_woken_has_work_and_one_with_work_was_woken(self) -> None:
        for runner in self.runners.values():
            seat = runner.seat
            if any(s.lane.live for s in seat.queue) and not seat.open and not runner.round.verdicts:
                assert runner.woken or not seat.idle, "work, and nobody was told"

    def teardown(self) -> None:
        """Left alone, everything drains: nothing rests, waits or stays paused for ever."""
        if not hasattr(self, "group"):
            return
        for _ in range(2000):
            if self.failed or not (self.commits or self.advances or self.group.outstanding):
                break
            while self.commits:
                self.persisted()
            while self.advances:
                self.told(self.advances.pop(0))
            for runner in list(self.runners.values()):
                if runner.seat.id in self.runners:
                    self.step(runner)
            self.time_passes(30.0)
            if self.stopped and not self.commits and not self.advances:
                break
        if self.stopped:
            if not self.failed:
                assert self.group.is_settled
            return
        note(f"{self.group.outstanding} outstanding")
        assert self.group.outstanding == 0, "something never drained"
        assert not self.paused
        assert not self.group.is_paused
        for event in self.events.values():
            assert event.settled or not event.lane.live or event.released or not self.lanes


# HEADRACE_MACHINE=find looks longer and does not make the example small: what `make mutants` needs to know is whether
# there is one.
FINDING = os.environ.get("HEADRACE_MACHINE") == "find"
GroupMachine.TestCase.settings = settings(
    max_examples=1000 if FINDING else 150,
    stateful_step_count=60,
    deadline=None,
    phases=[Phase.generate] if FINDING else [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
TestStreamGroup = GroupMachine.TestCase
