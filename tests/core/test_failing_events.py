"""Events that a watcher fails, so that the broker delivers them again: `retry_mode` broker, and a full queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge.core.commands import Advance, Command, Persist, ResumeLane, Wake
from bridge.core.model import UNORDERED, Attempt, Poll, Reject, Slice
from bridge.core.window import SKIPPED, Derived, Verdict

FAILED = Verdict("failed", error="boom")
RETURNED = Verdict("returned")


def only(commands: Sequence[Command], kind: type[Any]) -> list[Any]:
    return [c for c in commands if type(c) is kind]


def outcomes(commands: Sequence[Command]) -> list[tuple[int, int, int]]:
    """(payload, acked, failed) of what is given away."""
    return [(p, o.acked, o.failed) for c in only(commands, Advance) for p, o in c.batch]


def pulled(core: Any, of: Any, most: int = 10) -> list[int]:
    return [t.span.payloads[0] for t in core.hand_over(of, most)]


def test_in_broker_mode_the_failed_try_is_written_before_the_broker_is_told(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, retry_mode="broker")
    admit(core, 1)
    commands = core.returned(watcher, [(core.hand_over(watcher, 1)[0], FAILED)], 0.0)
    (persist,) = only(commands, Persist)
    (record,) = persist.records
    assert (type(record), record.tries) == (Attempt, 1)
    assert not outcomes(commands)
    assert outcomes(core.persisted(persist.tokens, 0.0)) == [(0, 1, 1)]


def test_in_broker_mode_a_spent_budget_rejects(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat(max_attempts=3)
    core = group(watcher, retry_mode="broker", known={("python", 0): (2, 0)})
    admit(core, 1)
    (ticket,) = core.hand_over(watcher, 1)
    assert ticket.attempt == 3
    (persist,) = only(core.returned(watcher, [(ticket, FAILED)], 0.0), Persist)
    assert (type(persist.records[0]), persist.records[0].attempts) == (Reject, 3)
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    assert (advance.batch[0].outcome.failed, advance.batch[0].outcome.rejected) == (0, 1)


def test_what_comes_again_goes_on_with_the_budget_that_it_had(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, known={("python", 7): (2, 0)})
    admit(core, 2, first=6)
    assert [ticket.attempt for ticket in core.hand_over(watcher, 2)] == [1, 3]


def test_behind_its_failed_event_a_watcher_tries_nothing_in_an_ordered_lane(group: Any, seat: Any, admit: Any) -> None:
    watcher, other = seat(), seat("other")
    core = group(watcher, other, retry_mode="broker")
    admit(core, 3)
    first, second = core.hand_over(watcher, 2)
    core.returned(watcher, [(first, FAILED), (second, RETURNED)], 0.0)
    assert pulled(core, watcher) == []
    admit(core, 2, first=3)
    assert pulled(core, watcher) == []
    assert pulled(core, other) == [0, 1, 2, 3, 4], "nobody else waits for that"
    admit(core, 1, lane="elsewhere", first=9)
    assert pulled(core, watcher) == [9]


def test_a_lane_that_is_always_ready_keeps_none_waiting_that_came_before(group: Any, seat: Any, admit: Any) -> None:
    core = group(max_advancing=1)
    (advance,) = only(admit(core, 1, lane="busy"), Advance)
    admit(core, 1, lane="waiting", first=10)
    admit(core, 1, lane="busy", first=1)
    commands = core.advanced([advance])
    assert outcomes(commands) == [(10, 1, 0)]
    assert outcomes(core.advanced(only(commands, Advance))) == [(1, 1, 0)]


def test_a_failed_event_of_the_unordered_lane_holds_nobody(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, retry_mode="broker")
    admit(core, 2, lane=UNORDERED)
    one, two = core.hand_over(watcher, 2)
    (persist,) = only(core.returned(watcher, [(one, FAILED)], 0.0), Persist)
    commands = core.persisted(persist.tokens, 0.0)
    assert outcomes(commands) == [(0, 1, 1)]
    core.advanced(only(commands, Advance))
    assert (core.tally.settled, core.tally.unsettled) == (0, 1)
    assert outcomes(core.returned(watcher, [(two, SKIPPED)], 0.0)) == [(1, 2, 0)]


def test_an_epoch_that_is_taken_within_advance_is_not_touched_when_that_returns(
    group: Any, seat: Any, admit: Any
) -> None:
    watcher = seat()
    core = group(watcher, retry_mode="broker", max_outstanding=8)
    old, _ = core.assigned("lane")
    paused = admit(core, 2, epoch=old)
    assert core.has_paused_lanes
    (persist,) = only(core.returned(watcher, [(core.hand_over(watcher, 1)[0], FAILED)], 0.0), Persist)
    (advance,) = only([*paused, *core.persisted(persist.tokens, 0.0)], Advance)
    new, commands = core.assigned("lane")
    assert only(commands, ResumeLane), "or the broker would never deliver it again"
    admit(core, 1, epoch=new)
    assert core.advanced([advance], unsettled=1) == []
    assert core.outstanding == 1
    assert (core.tally.settled, core.tally.unsettled) == (0, 0)
    assert admit(core, 1, epoch=old) == []
    assert pulled(core, watcher) == [0]


def test_a_lane_that_begins_again_behind_a_failure_is_not_paused_any_more(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, retry_mode="broker", max_outstanding=8)
    admit(core, 2)
    (persist,) = only(core.returned(watcher, [(core.hand_over(watcher, 1)[0], FAILED)], 0.0), Persist)
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    assert [c.key for c in only(core.advanced([advance]), ResumeLane)] == ["lane"]
    assert not core.has_paused_lanes


def test_a_replay_rests_here_whatever_the_mode_and_the_size(group: Any, seat: Any) -> None:
    watcher = seat()
    core = group(watcher, retry_mode="broker", queue_size=1)
    for number in range(3):
        poll = Poll([Slice(("replay", number), 0, 1)], [b"body"], [number])
        assert not only(core.admit_replay(poll, [], [watcher]), Advance)
    (persist,) = only(core.returned(watcher, [(core.hand_over(watcher, 1)[0], FAILED)], 0.0), Persist)
    assert core.persisted(persist.tokens, 0.0) == []
    assert core.wake_at == 1.0


# A full queue --------------------------------------------------------------------------------------------------------


def test_what_a_watcher_is_too_far_behind_with_fails_at_admission_and_nothing_is_written(
    group: Any, seat: Any, admit: Any
) -> None:
    watcher = seat()
    core = group(watcher, queue_size=2)
    commands = admit(core, 5)
    assert not only(commands, Persist)
    assert watcher.overflowed == 3
    tickets = core.hand_over(watcher, 10)
    assert [t.span.payloads for t in tickets] == [[0], [1]]
    commands = core.returned(watcher, [(t, SKIPPED) for t in tickets], 0.0)
    assert outcomes(commands) == [(0, 2, 0), (1, 2, 0)]
    commands = core.advanced(only(commands, Advance))
    assert outcomes(commands) == [(2, 1, 1)], "the failed item goes alone"
    assert core.advanced(only(commands, Advance)) == []
    assert core.outstanding == 0
    assert not only(admit(core, 2, first=2), Advance), "they come again, and now there is room"
    assert pulled(core, watcher) == [2, 3]


def test_behind_an_overflow_all_of_an_ordered_lane_fails_for_that_watcher(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, queue_size=1)
    admit(core, 2)
    (ticket,) = core.hand_over(watcher, 10)
    core.returned(watcher, [(ticket, SKIPPED)], 0.0)
    admit(core, 1, first=2)
    assert pulled(core, watcher) == [], "it would be tried in front of what comes again"
    admit(core, 1, lane="elsewhere", first=9)
    assert pulled(core, watcher) == [9]


def test_unordered_events_that_overflow_go_out_at_once_and_the_rest_is_tried(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, queue_size=1)
    assert outcomes(admit(core, 3, lane=UNORDERED)) == [(1, 1, 1), (2, 1, 1)]
    assert pulled(core, watcher) == [0]


def test_what_rests_or_waits_behind_it_counts_as_behind(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, queue_size=3)
    admit(core, 3)
    first, second, third = core.hand_over(watcher, 3)
    core.returned(watcher, [(first, FAILED), (second, RETURNED), (third, RETURNED)], 0.0)
    assert pulled(core, watcher) == []
    assert watcher.behind == 3
    admit(core, 1, lane="elsewhere", first=9)
    assert watcher.overflowed == 1


def test_a_queue_has_room_again_as_soon_as_its_lane_has_gone(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, queue_size=2)
    epoch, _ = core.assigned("lane")
    admit(core, 2, epoch=epoch)
    core.revoked(["lane"])
    assert watcher.behind == 0
    admit(core, 2, lane="elsewhere", first=5)
    assert pulled(core, watcher) == [5, 6]


def test_an_overflowed_match_is_durable_before_it_is_released(group: Any, seat: Any, admit: Any) -> None:
    slow, quick = seat("slow"), seat("quick")
    core = group(slow, quick, queue_size=1)
    commands = admit(core, 1, lane="other")
    assert only(commands, Wake)
    commands = admit(core, 1, hits=(0,), first=1)
    (persist,) = only(commands, Persist)
    assert core.persisted(persist.tokens, 0.0)[0].batch[0].outcome.failed == 2
    core.returned(slow, [(core.hand_over(slow, 1)[0], Verdict("acked", (Derived(b"{}"),)))], 0.0)
    assert slow.behind == 0


def test_events_that_rest_in_a_lane_that_has_gone_are_not_counted_any_more(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher)
    epoch, _ = core.assigned("lane")
    admit(core, 1, epoch=epoch)
    core.returned(watcher, [(core.hand_over(watcher, 1)[0], FAILED)], 0.0)
    assert core.retrying == 1
    core.revoked(["lane"])
    assert core.retrying == 0
    assert not watcher.past
