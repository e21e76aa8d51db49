"""Suspect mode: a try is written before it begins, and an event that the process died of too often is not tried."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from bridge.core.commands import Advance, Command, Left, Persist, Wake
from bridge.core.errors import IllegalStep
from bridge.core.model import Forget, Opened, Reject, Run
from bridge.core.tries import MOST_DEATHS
from bridge.core.window import SKIPPED, Derived, Verdict

FAILED = Verdict("failed", error="boom")


def only(commands: Sequence[Command], kind: type[Any]) -> list[Any]:
    return [c for c in commands if type(c) is kind]


def opened(core: Any, of: Any) -> Any:
    """The seat's turn, up to its ticket."""
    (persist,) = only(core.open_one(of), Persist)
    assert only(core.persisted(persist.tokens, 0.0), Wake)
    (ticket,) = core.hand_over(of, 10)
    return ticket


def test_a_try_is_handed_over_only_once_it_is_durable_that_it_begins(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    admit(core, 3)
    assert core.hand_over(watcher, 10) == []
    (persist,) = only(core.open_one(watcher), Persist)
    (record,) = persist.records
    assert (type(record), record.payload, record.deaths) == (Opened, 0, 0)
    assert core.hand_over(watcher, 10) == []
    assert [c.seat for c in core.persisted(persist.tokens, 0.0)] == [watcher]
    (ticket,) = core.hand_over(watcher, 10)
    assert ticket.span.payloads == [0]


def test_one_event_is_open_at_a_time(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    admit(core, 2)
    core.open_one(watcher)
    with pytest.raises(IllegalStep, match="not the only one"):
        core.open_one(watcher)


def test_outside_of_suspect_mode_nothing_is_opened(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher)
    admit(core, 1)
    with pytest.raises(IllegalStep, match="not the only one"):
        core.open_one(watcher)
    assert len(core.hand_over(watcher, 10)) == 1


def test_what_was_opened_is_forgotten_in_the_commit_that_resolves_it(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    admit(core, 2)
    (persist,) = only(core.returned(watcher, [(opened(core, watcher), SKIPPED)], 0.0), Persist)
    assert [type(r) for r in persist.records] == [Forget]
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    assert advance.batch.payloads == [0]
    two = Verdict("acked", (Derived(b"{}"),))
    (persist,) = only(core.returned(watcher, [(opened(core, watcher), two)], 0.0), Persist)
    assert [type(r) for r in persist.records] == [Run, Forget]


def test_deaths_are_written_with_the_next_try_and_a_failed_one_ends_their_row(
    group: Any, seat: Any, admit: Any
) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True, known={("python", 0): (1, 2)})
    admit(core, 1)
    (persist,) = only(core.open_one(watcher), Persist)
    assert persist.records[0].deaths == 2
    core.persisted(persist.tokens, 0.0)
    (ticket,) = core.hand_over(watcher, 1)
    assert ticket.attempt == 2
    (failed,) = only(core.returned(watcher, [(ticket, FAILED)], 0.0), Persist)
    core.persisted(failed.tokens, 0.0)
    core.time_passed(100.0)
    (persist,) = only(core.open_one(watcher), Persist)
    assert persist.records[0].deaths == 0


@pytest.mark.parametrize("is_suspect", [True, False])
def test_an_event_that_the_process_died_of_too_often_is_a_dead_letter(
    group: Any, seat: Any, admit: Any, is_suspect: bool
) -> None:
    watcher = seat()
    known = {("python", 0): (1, MOST_DEATHS), ("python", 1): (0, MOST_DEATHS - 1)}
    core = group(watcher, is_suspect=is_suspect, known=known)
    (persist,) = only(admit(core, 2), Persist)
    reject, forget = persist.records
    assert isinstance(reject, Reject)
    assert (reject.reason, reject.payload, reject.attempts) == ("killed_process", 0, 4)
    assert isinstance(forget, Forget)
    (advance,) = only(core.persisted(persist.tokens, 0.0), Advance)
    assert advance.batch.payloads == [0]
    assert advance.batch[0].outcome.rejections[0].reason == "killed_process"
    ticket = opened(core, watcher) if is_suspect else core.hand_over(watcher, 1)[0]
    assert ticket.span.payloads == [1]


def test_a_lane_that_goes_while_its_try_is_being_written_leaves_nothing_to_hand_over(
    group: Any, seat: Any, admit: Any
) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    epoch, _ = core.assigned("lane")
    admit(core, 1, epoch=epoch)
    admit(core, 1, lane="elsewhere", first=9)
    (persist,) = only(core.open_one(watcher), Persist)
    core.revoked(["lane"])
    assert only(core.persisted(persist.tokens, 0.0), Wake), "whoever waits for it goes on"
    assert core.hand_over(watcher, 1) == []
    assert opened(core, watcher).span.payloads == [9]


def test_a_try_that_we_end_while_it_is_being_written_is_opened_anew(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    admit(core, 2)
    (before,) = only(core.open_one(watcher), Persist)
    core.abandon(watcher)
    (after,) = only(core.open_one(watcher), Persist)
    core.persisted(before.tokens, 0.0)
    assert core.hand_over(watcher, 1) == [], "something else may have been opened between the two"
    core.persisted(after.tokens, 0.0)
    assert core.hand_over(watcher, 1)[0].span.payloads == [0]


def test_the_end_of_suspect_mode_lets_all_go_on_in_order(group: Any, seat: Any, admit: Any) -> None:
    first, second = seat("first"), seat("second")
    core = group(first, second, is_suspect=True)
    admit(core, 3)
    (persist,) = only(core.open_one(first), Persist)
    assert [c.seat for c in core.trust()] == [first, second]
    assert [t.span.payloads for t in core.hand_over(first, 10)] == [[0], [1], [2]]
    core.persisted(persist.tokens, 0.0)
    assert [t.span.payloads for t in core.hand_over(second, 10)] == [[0], [1], [2]]


def test_a_watcher_that_is_expelled_while_its_try_is_being_written_leaves(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    admit(core, 1)
    (persist,) = only(core.open_one(watcher), Persist)
    (dead,) = only(core.expel(watcher, "watcher_unavailable"), Persist)
    assert [type(r) for r in dead.records] == [Reject, Forget]
    assert not only(core.persisted(persist.tokens, 0.0), Left)
    assert only(core.persisted(dead.tokens, 0.0), Left)


def test_nothing_is_kept_of_a_try_that_came_back_from_a_lane_that_is_gone(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, known={("python", 0): (1, 0)})
    epoch, _ = core.assigned("lane")
    admit(core, 1, epoch=epoch)
    admit(core, 1, lane="elsewhere", first=9)
    first, second = core.hand_over(watcher, 2)
    core.returned(watcher, [(first, Verdict("returned"))], 0.0)
    core.revoked(["lane"])
    core.returned(watcher, [(second, SKIPPED)], 0.0)
    assert not watcher.owes
    assert not watcher.past


def test_after_stop_nothing_is_opened(group: Any, seat: Any, admit: Any) -> None:
    watcher = seat()
    core = group(watcher, is_suspect=True)
    admit(core, 2)
    (persist,) = only(core.open_one(watcher), Persist)
    core.stop()
    assert not core.is_settled
    core.persisted(persist.tokens, 0.0)
    assert core.is_settled
    assert core.hand_over(watcher, 1) == []
    assert core.open_one(watcher) == []
    assert core.unsettled() == [("lane", [0, 1])]
