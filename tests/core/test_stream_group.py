"""The rules of a group, one at a time, for reading. The machine in tests/property looks for what is missing here."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.core.commands import Advance, Command, Left, Limits, PauseLane, Persist, Recall, ResumeLane, StopGroup, Wake
from bridge.core.errors import IllegalStep
from bridge.core.group import StreamGroup
from bridge.core.model import (
    UNORDERED,
    Attempt,
    Fault,
    Forget,
    Plan,
    Poll,
    Record,
    Reject,
    Routed,
    Run,
    Slice,
)
from bridge.core.retry import Backoff
from bridge.core.seat import Seat, Ticket
from bridge.core.window import SKIPPED, Derived, Verdict

STEADY = Backoff(delay=1.0, factor=2.0, jitter=0.0)
FAILED = Verdict("failed", error="boom")


def group(*seats: Seat, declared: int = 1, **limits: Any) -> StreamGroup:
    return StreamGroup(declared, Limits(retry=STEADY, advance_retry=STEADY, **limits), seats=seats)


def seat(name: str = "python", max_attempts: int = 3) -> Seat:
    return Seat(Plan(name, "asset", "target", "job", max_attempts=max_attempts))


def admit(
    core: StreamGroup,
    count: int,
    *,
    lane: Any = "lane",
    hits: tuple[int, ...] = (),
    faults: tuple[int, ...] = (),
    first: int = 0,
    epoch: int | None = None,
    received: float = 0.0,
) -> list[Command]:
    payloads = list(range(first, first + count))
    plan = Plan("declared", "asset", "target", "job")
    found: dict[int, list[Record]] = {i: [Run(plan, payloads[i], b"body", b"{}")] for i in hits}
    poll = Poll([Slice(lane, 0, count, epoch)], [b"body"] * count, payloads, received)
    return core.admit(poll, Routed.of(found, {i: Fault("malformed", "not JSON") for i in faults}))


def only(commands: list[Command], kind: type[Any]) -> list[Any]:
    return [c for c in commands if type(c) is kind]


def released(commands: list[Command]) -> list[int]:
    return [p for c in only(commands, Advance) for p in c.batch.payloads]


def pull(core: StreamGroup, of: Seat, most: int = 10) -> list[Ticket]:
    return core.hand_over(of, most)


def test_a_poll_that_nobody_wants_goes_straight_out() -> None:
    core = group(declared=3)
    (advance,) = admit(core, 5)
    assert isinstance(advance, Advance)
    assert advance.batch.payloads == [0, 1, 2, 3, 4]
    assert all(item.outcome.acked == 3 and item.outcome.is_clean for item in advance.batch)


def test_what_stands_before_the_first_match_is_released_and_the_rest_waits_for_the_commit() -> None:
    core = group()
    commands = admit(core, 5, hits=(2,))
    assert released(commands) == [0, 1]
    (persist,) = only(commands, Persist)
    assert [r.payload for r in persist.records] == [2]
    core.advanced(only(commands, Advance))
    assert released(core.persisted(persist.tokens, 0.0)) == [2, 3, 4]


def test_a_match_is_not_released_before_its_commit_is_confirmed() -> None:
    core = group()
    commands = admit(core, 1, hits=(0,))
    assert not released(commands)
    assert released(core.persisted(only(commands, Persist)[0].tokens, 0.0)) == [0]


def test_undecodable_bytes_are_one_dead_letter_and_a_reject_for_every_owing_watcher() -> None:
    watcher = seat()
    core = group(watcher, declared=2)
    (persist,) = only(admit(core, 1, faults=(0,)), Persist)
    (record,) = persist.records
    assert isinstance(record, Reject)
    assert (record.watcher, record.reason) == ("*", "malformed")
    assert pull(core, watcher) == []
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    outcome = advance.batch[0].outcome
    assert (outcome.acked, outcome.rejected) == (0, 3)


def test_an_event_waits_for_every_python_watcher() -> None:
    first, second = seat("first"), seat("second")
    core = group(first, second)
    admit(core, 1)
    assert not released(core.returned(first, [(pull(core, first)[0], SKIPPED)], 0.0))
    assert released(core.returned(second, [(pull(core, second)[0], SKIPPED)], 0.0)) == [0]


def test_what_a_watcher_derives_is_durable_before_the_event_is_released() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 1)
    two = Verdict("acked", (Derived(b"{}"), Derived(b"{}")))
    commands = core.returned(watcher, [(pull(core, watcher)[0], two)], 0.0)
    (persist,) = only(commands, Persist)
    assert [(type(r), r.n) for r in persist.records] == [(Run, 0), (Run, 1)]
    assert not released(commands)
    assert released(core.persisted(persist.tokens, 0.0)) == [0]


def test_a_failed_try_is_written_before_the_next_one_begins() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 1)
    commands = core.returned(watcher, [(pull(core, watcher)[0], FAILED)], 0.0)
    (persist,) = only(commands, Persist)
    assert [(type(r), r.tries) for r in persist.records] == [(Attempt, 1)]
    assert core.time_passed(100.0) == []
    assert pull(core, watcher) == []
    core.persisted(persist.tokens, 100.0)
    assert only(core.time_passed(100.0), Wake)
    (ticket,) = pull(core, watcher)
    assert ticket.attempt == 2


def test_a_success_after_failed_tries_forgets_them_in_the_commit_that_resolves_the_event() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 1)
    failed = core.returned(watcher, [(pull(core, watcher)[0], FAILED)], 0.0)
    core.persisted(only(failed, Persist)[0].tokens, 0.0)
    core.time_passed(1.0)
    commands = core.returned(watcher, [(pull(core, watcher)[0], SKIPPED)], 1.0)
    (persist,) = only(commands, Persist)
    assert [type(r) for r in persist.records] == [Forget]
    assert not released(commands)
    assert released(core.persisted(persist.tokens, 1.0)) == [0]


def test_a_spent_budget_is_a_dead_letter_with_its_attempts() -> None:
    watcher = seat(max_attempts=1)
    core = group(watcher)
    admit(core, 1)
    (persist,) = only(core.returned(watcher, [(pull(core, watcher)[0], FAILED)], 0.0), Persist)
    reject = persist.records[0]
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.attempts, reject.error) == ("max_attempts", 1, "boom")
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    assert advance.batch[0].outcome.rejections[0].reason == "max_attempts"


def test_later_events_of_a_lane_wait_behind_one_that_rests_and_other_lanes_go_on() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 2, lane="a")
    admit(core, 1, lane="b", first=10)
    a0, a1, b0 = pull(core, watcher)
    returned = Verdict("returned")
    commands = core.returned(watcher, [(a0, FAILED), (a1, returned), (b0, SKIPPED)], 0.0)
    assert released(commands) == [10]
    assert pull(core, watcher) == []
    core.persisted(only(commands, Persist)[0].tokens, 0.0)
    core.time_passed(1.0)
    (again,) = pull(core, watcher)
    assert again.span.payloads == [0]
    core.persisted(only(core.returned(watcher, [(again, SKIPPED)], 1.0), Persist)[0].tokens, 1.0)
    assert [t.span.payloads for t in pull(core, watcher)] == [[1]]


def test_in_the_unordered_lane_a_resting_event_holds_nobody() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 2, lane=UNORDERED)
    first, second = pull(core, watcher)
    assert released(core.returned(watcher, [(first, FAILED), (second, SKIPPED)], 0.0)) == [1]


def test_a_try_that_we_ended_spends_no_attempt_and_its_late_verdict_changes_nothing() -> None:
    watcher = seat(max_attempts=1)
    core = group(watcher)
    admit(core, 1)
    (ticket,) = pull(core, watcher)
    assert only(core.abandon(watcher), Recall)
    assert core.returned(watcher, [(ticket, FAILED)], 0.0) == []
    (again,) = pull(core, watcher)
    assert again.attempt == 1


def test_one_batch_of_tickets_at_a_time() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 3)
    assert len(pull(core, watcher, 2)) == 2
    with pytest.raises(IllegalStep, match="still holds 2 tickets"):
        pull(core, watcher)


def test_the_next_advance_of_a_lane_starts_after_the_previous_returned() -> None:
    core = group()
    (first,) = admit(core, 2)
    assert not released(admit(core, 2, first=2))
    assert released(core.advanced([first])) == [2, 3]


def test_lanes_advance_side_by_side_up_to_max_advancing() -> None:
    core = group(max_advancing=2)
    flying = [c for lane in "abc" for c in admit(core, 1, lane=lane)]
    assert len(flying) == 2
    assert len(core.advanced([flying[0]])) == 1


def test_the_unordered_lane_is_released_in_bounded_batches() -> None:
    core = group(advance_max=2, max_advancing=2)
    commands = admit(core, 5, lane=UNORDERED)
    assert [len(c.batch) for c in commands] == [2, 2]
    assert released(core.advanced([commands[0]])) == [4]


def test_an_advance_that_fails_for_now_is_repeated_and_gives_up_in_the_end() -> None:
    core = group(advance_attempts=2)
    (advance,) = admit(core, 1)
    assert core.advance_failed(advance, "transient", "busy", 0.0) == []
    assert core.wake_at == 1.0
    assert core.time_passed(1.0) == [advance]
    (stop,) = core.advance_failed(advance, "transient", "busy", 1.0)
    assert isinstance(stop, StopGroup)
    assert stop.reason == "busy"


def test_a_lane_that_moved_is_dropped_quietly() -> None:
    core = group()
    epoch, _ = core.assigned("lane")
    (advance,) = admit(core, 1, epoch=epoch)
    assert core.advance_failed(advance, "moved", "rebalance", 0.0) == []
    assert core.outstanding == 0


def test_confirmations_of_an_older_epoch_change_nothing() -> None:
    core = group()
    epoch, _ = core.assigned("lane")
    (persist,) = admit(core, 1, hits=(0,), epoch=epoch)
    core.revoked(["lane"])
    core.assigned("lane")
    assert isinstance(persist, Persist)
    assert core.persisted(persist.tokens, 0.0) == []


def test_a_slice_of_an_older_epoch_is_dropped_whole_with_its_records() -> None:
    core = group()
    old, _ = core.assigned("lane")
    core.revoked(["lane"])
    core.assigned("lane")
    assert admit(core, 2, hits=(0,), epoch=old) == []
    assert core.tally.stale == 2


def test_a_revoke_returns_what_is_resolved_and_not_yet_given_away() -> None:
    core = group()
    epoch, _ = core.assigned("lane")
    admit(core, 2, epoch=epoch)
    admit(core, 2, first=2, epoch=epoch)
    ((key, batch),), _ = core.revoked(["lane"])
    assert (key, batch.payloads) == ("lane", [2, 3])


def test_a_failed_item_goes_alone_and_what_lies_behind_is_dropped() -> None:
    watcher = seat()
    core = group(watcher, retry_mode="broker")
    admit(core, 3)
    tickets = pull(core, watcher)
    commands = core.returned(watcher, [(tickets[1], FAILED), (tickets[2], SKIPPED)], 0.0)
    core.persisted(only(commands, Persist)[0].tokens, 0.0)
    commands = core.returned(watcher, [(tickets[0], SKIPPED)], 0.0)
    assert released(commands) == [0]
    (alone,) = only(core.advanced(only(commands, Advance)), Advance)
    assert alone.batch.payloads == [1]
    assert alone.batch[0].outcome.failed == 1
    assert core.advanced([alone]) == []
    assert core.outstanding == 0


def test_a_full_stream_pauses_and_resumes_at_half() -> None:
    core = group(max_outstanding=4)
    flying = [c for lane in "abcd" for c in admit(core, 1, lane=lane) if isinstance(c, Advance)]
    assert core.is_paused
    core.advanced(flying[:1])
    assert core.is_paused
    core.advanced(flying[1:2])
    assert not core.is_paused


def test_an_ordered_lane_pauses_at_a_quarter_of_the_stream() -> None:
    core = group(max_outstanding=40)
    commands = admit(core, 10)
    assert only(commands, PauseLane)
    assert only(core.advanced(only(commands, Advance)), ResumeLane)


def test_events_that_rest_are_counted_apart() -> None:
    watcher = seat()
    core = group(watcher, max_outstanding=2, max_retrying=10)
    admit(core, 2, lane=UNORDERED)
    assert core.is_paused
    core.returned(watcher, [(t, FAILED) for t in pull(core, watcher)], 0.0)
    assert core.retrying == 2
    assert not core.is_paused


def test_bytes_bound_a_stream_as_well() -> None:
    core = group(max_outstanding_bytes=8)
    admit(core, 2, hits=(0, 1))
    assert core.is_paused


def test_a_watcher_that_joins_owes_later_polls_only() -> None:
    core = group()
    admit(core, 1, hits=(0,))
    late = seat("late")
    core.join(late)
    admit(core, 1, first=1)
    assert [t.span.payloads for t in pull(core, late)] == [[1]]


def test_two_seats_of_one_id_are_refused_and_nothing_changes() -> None:
    watcher = seat()
    core = group(watcher)
    with pytest.raises(IllegalStep, match="has a seat already"):
        core.join(seat())
    assert core.seats == {"python": watcher}


def test_a_retired_watcher_finishes_what_it_owes_and_leaves() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 1)
    core.retire(watcher, 0.0)
    admit(core, 1, first=1)
    (ticket,) = pull(core, watcher)
    assert only(core.returned(watcher, [(ticket, SKIPPED)], 0.0), Left)
    assert not core.seats


def test_what_an_expelled_watcher_owes_becomes_dead_letters() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 2)
    pull(core, watcher, 1)
    commands = core.expel(watcher, "watcher_unavailable")
    records = [r for p in only(commands, Persist) for r in p.records]
    assert sorted((r.payload, r.reason) for r in records) == [(0, "watcher_unavailable"), (1, "watcher_unavailable")]
    later = [c for persist in only(commands, Persist) for c in core.persisted(persist.tokens, 0.0)]
    assert only(later, Left)
    assert released(later) == [0]
    assert released(core.advanced(only(later, Advance))) == [1]


def test_after_stop_nothing_is_handed_over_and_commits_under_way_are_still_released() -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 2)
    first, _ = pull(core, watcher)
    (persist,) = only(core.returned(watcher, [(first, Verdict("acked", (Derived(b"{}"),)))], 0.0), Persist)
    core.stop()
    assert pull(core, watcher) == []
    assert not core.is_settled
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    assert advance.batch.payloads == [0]
    core.advanced([advance])
    assert core.is_settled
    assert core.unsettled() == [("lane", [1])]
    with pytest.raises(IllegalStep):
        admit(core, 1, first=9)


def test_a_replay_is_owed_only_by_those_who_refused_it() -> None:
    first, second = seat("first"), seat("second")
    core = group(first, second)
    core.admit_replay(Poll([Slice(("replay", 1), 0, 1)], [b"body"], ["old"]), [], [second])
    assert pull(core, first) == []
    (ticket,) = pull(core, second)
    (advance,) = only(core.returned(second, [(ticket, SKIPPED)], 0.0), Advance)
    assert advance.lane.internal
    assert advance.batch[0].outcome.acked == 1


@pytest.mark.parametrize("lane", ["lane", UNORDERED])
def test_the_oldest_event_is_as_old_as_the_poll_that_brought_it(lane: Any) -> None:
    core = group()
    assert core.oldest is None
    first = admit(core, 2, lane=lane, hits=(0,), received=5.0)
    admit(core, 2, lane=lane, first=2, hits=(0,), received=7.0)
    assert core.oldest == 5.0
    later = core.persisted(only(first, Persist)[0].tokens, 9.0)
    core.advanced(only([*first, *later], Advance))
    assert core.oldest == 7.0


def test_drained_lanes_cost_nothing() -> None:
    core = group()
    for lane in range(100):
        core.advanced([c for c in admit(core, 1, lane=lane) if isinstance(c, Advance)])
    assert not core._outlet.lanes
