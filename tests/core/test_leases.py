"""Leases by example: what is due, what joins, what is lost, and what is forgotten. The lease is 60 s."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pytest

from bridge.core.commands import Advance, Command, GiveBack, Limits, Persist, Wake
from bridge.core.errors import IllegalStep
from bridge.core.group import StreamGroup
from bridge.core.leases import Leases
from bridge.core.model import UNORDERED, Lent, Plan, Poll, Routed, Slice
from bridge.core.retry import Backoff
from bridge.core.seat import Seat
from bridge.core.window import SKIPPED, Verdict

LEASE = 60.0
PLAN = Plan("w", "asset", "target", "job")
FAILED = Verdict("failed", error="no")


def lent(*keys: str, handle: str = "1") -> list[Lent]:
    return [Lent(key, f"{key}#{handle}", int(handle)) for key in keys]


def poll(payloads: Sequence[Lent], lane: Hashable = UNORDERED, now: float = 0.0, epoch: int | None = None) -> Poll:
    return Poll([Slice(lane, 0, len(payloads), epoch)], [b"{}"] * len(payloads), list(payloads), now)


def group(seat: Seat | None = None, **limits: Any) -> StreamGroup:
    bounds = Limits(retry=Backoff(delay=1.0, jitter=0.0), **limits)
    return StreamGroup(1, bounds, seats=[seat] if seat is not None else [], lease=LEASE)


def admitted(core: StreamGroup, one: Poll) -> list[Command]:
    fresh = core.received(one)
    return core.admit(fresh, Routed()) if fresh.bodies else []


def advances(commands: Sequence[Command]) -> list[Advance]:
    return [command for command in commands if isinstance(command, Advance)]


def given_back(commands: Sequence[Command]) -> list[str]:
    return [payload.key for command in commands if isinstance(command, GiveBack) for payload in command.payloads]


# When -----------------------------------------------------------------------------------------------------------------


def test_nothing_is_due_before_a_third_of_the_lease_is_over_and_then_all_of_that_age_is() -> None:
    core = group(Seat(PLAN))
    admitted(core, poll(lent("a", "b"), now=0.0))
    admitted(core, poll(lent("c"), now=10.0))
    assert core.renew_at == 20.0
    assert core.due(19.9) == []
    assert [each.key for each in core.due(20.0)] == ["a", "b"]
    assert [each.key for each in core.due(30.0)] == ["a", "b", "c"]


def test_what_is_renewed_is_due_a_third_of_a_lease_after_the_call_began() -> None:
    core = group(Seat(PLAN))
    admitted(core, poll(lent("a")))
    core.renewed(core.due(25.0), [], 25.0)
    assert core.renew_at == 45.0
    assert core.due(44.0) == []


def test_a_round_without_an_answer_leaves_everything_due() -> None:
    core = group(Seat(PLAN))
    admitted(core, poll(lent("a")))
    core.due(20.0)
    core.renewed((), (), 20.0)
    assert [each.key for each in core.due(21.0)] == ["a"]


def test_what_is_resolved_behind_a_held_head_and_what_waits_to_be_repeated_is_renewed_too() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    admitted(core, poll(lent("head", "behind"), "lane"))
    head, behind = core.hand_over(seat, 10)
    core.returned(seat, [(behind, SKIPPED)], 1.0)
    assert [each.key for each in core.due(20.0)] == ["head", "behind"]
    (advance,) = advances(core.returned(seat, [(head, SKIPPED)], 21.0))
    core.advance_failed(advance, "transient", "no answer", 21.0)
    assert [each.key for each in core.due(22.0)] == ["head", "behind"]
    assert {p.key for _, payloads in core.unsettled() for p in payloads} == {"head", "behind"}


def test_what_is_settled_is_never_due_again() -> None:
    core = group()
    (advance,) = advances(admitted(core, poll(lent("a", "b"))))
    core.advanced([advance])
    assert core.renew_at is None
    assert core.due(1000.0) == []


def test_a_lease_must_last() -> None:
    with pytest.raises(ValueError, match="must last"):
        Leases(0.0)


def test_where_nothing_is_lent_nothing_is_renewed() -> None:
    core = StreamGroup(1, Limits())
    assert (core.renew_at, core.due(1.0)) == (None, [])
    with pytest.raises(IllegalStep, match="nothing is lent"):
        core.renewed((), (), 1.0)


# Joining --------------------------------------------------------------------------------------------------------------


def test_a_second_delivery_of_what_is_held_joins_it_and_brings_the_newer_handle() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    (first,) = lent("a")
    admitted(core, poll([first]))
    fresh = core.received(poll(lent("a", handle="2"), now=50.0))
    assert fresh.bodies == fresh.payloads == fresh.slices == []
    assert (first.handle, first.deliveries, first.since) == ("a#2", 2, 50.0)
    assert (core.outstanding, core.tally.joined) == (1, 1)
    assert core.due(69.0) == []


def test_only_what_is_held_is_taken_out_of_a_poll_and_the_slices_still_fit() -> None:
    core = group(Seat(PLAN))
    admitted(core, poll(lent("a", "c"), "x"))
    mixed = Poll(
        [Slice("x", 0, 2), Slice("y", 2, 4)], [b"a", b"b", b"c", b"d"], [*lent("a", "b"), *lent("c", "d")], 1.0
    )
    fresh = core.received(mixed)
    assert fresh.slices == [Slice("x", 0, 1), Slice("y", 1, 2)]
    assert (fresh.bodies, [p.key for p in fresh.payloads], fresh.received) == ([b"b", b"d"], ["b", "d"], 1.0)


def test_two_deliveries_in_one_poll_are_one_message() -> None:
    core = group(Seat(PLAN))
    fresh = core.received(poll([*lent("a"), *lent("a", handle="2")]))
    assert [p.handle for p in fresh.payloads] == ["a#2"]


def test_a_delivery_after_the_message_was_settled_is_a_message_of_its_own() -> None:
    core = group()
    core.advanced(advances(admitted(core, poll(lent("a")))), unsettled=1)
    assert advances(admitted(core, poll(lent("a", handle="2"), now=5.0)))


def test_what_is_said_of_an_older_delivery_does_not_end_the_lease_of_a_newer_one() -> None:
    """A lane is lost while it is told: its messages come again before the call has returned."""
    core = group()
    (advance,) = advances(admitted(core, poll(lent("a"), "lane")))
    core.revoked(["lane"])
    again = lent("a", handle="2")
    admitted(core, poll(again, "lane", now=5.0))
    core.advanced([advance])
    assert core.due(30.0) == again


# Losing ---------------------------------------------------------------------------------------------------------------


def test_a_lost_message_that_is_queued_is_dropped_and_its_next_delivery_is_admitted() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    payloads = lent("a", "b")
    admitted(core, poll(payloads))
    core.renewed(core.due(20.0), [payloads[0]], 20.0)
    assert (core.tally.expired, core.outstanding) == (1, 1)
    assert [t.span.payloads[0].key for t in core.hand_over(seat, 10)] == ["b"]
    admitted(core, poll(lent("a", handle="2"), now=21.0))
    assert core.outstanding == 2


def test_a_lost_message_that_is_being_tried_goes_on_and_its_next_delivery_joins() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    (payload,) = lent("a")
    admitted(core, poll([payload]))
    (ticket,) = core.hand_over(seat, 10)
    core.renewed(core.due(20.0), [payload], 20.0)
    assert ticket.is_current
    admitted(core, poll(lent("a", handle="2"), now=30.0))
    assert (core.outstanding, payload.handle, payload.lost) == (1, "a#2", False)
    (advance,) = advances(core.returned(seat, [(ticket, SKIPPED)], 31.0))
    assert advance.batch.payloads == [payload]


def test_a_lane_with_a_lost_message_begins_again_and_all_of_it_is_given_back_in_order() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    payloads = lent("1", "2", "3")
    admitted(core, poll(payloads, "lane"))
    admitted(core, poll(lent("x"), "other"))
    commands = core.renewed(core.due(20.0), [payloads[1]], 20.0)
    assert given_back(commands) == ["1", "2", "3"]
    assert [t.span.payloads[0].key for t in core.hand_over(seat, 10)] == ["x"]
    admitted(core, poll(lent("1", "2", "3", handle="2"), "lane", now=21.0))
    assert core.outstanding == 4


def test_a_lane_that_is_being_told_does_not_begin_again_for_a_refusal() -> None:
    """The call may have settled the message, and then its lease ended for that."""
    core = group()
    payloads = lent("1")
    (advance,) = advances(admitted(core, poll(payloads, "lane")))
    assert given_back(core.renewed(core.due(20.0), payloads, 20.0)) == []
    core.advanced([advance])
    assert (core.tally.settled, core.renew_at) == (1, None)


def test_a_refusal_of_an_older_handle_loses_nothing() -> None:
    core = group(Seat(PLAN))
    (payload,) = lent("a")
    admitted(core, poll([payload]))
    asked = core.due(20.0)
    core.received(poll(lent("a", handle="2"), now=21.0))
    core.renewed(asked, [payload], 20.0)
    assert (payload.lost, core.tally.expired) == (False, 0)


def test_what_is_lost_is_not_asked_for_again() -> None:
    core = group()
    (payload,) = lent("a")
    admitted(core, poll([payload]))
    core.renewed(core.due(20.0), [payload], 20.0)
    assert core.due(45.0) == []
    assert core.renew_at == 65.0


# Little left ----------------------------------------------------------------------------------------------------------


def test_an_event_of_whose_lease_little_is_left_is_not_handed_over_until_it_is_renewed() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    admitted(core, poll(lent("a", "b")))
    core.due(51.0)
    core.renewed((), (), 51.0)
    assert core.hand_over(seat, 10) == []
    commands = core.renewed(core.due(52.0), [], 52.0)
    assert [type(command) for command in commands] == [Wake]
    assert len(core.hand_over(seat, 10)) == 2


def test_a_batch_ends_in_front_of_the_first_event_that_is_short() -> None:
    seat = Seat(PLAN)
    core = group(seat)
    admitted(core, poll(lent("old")))
    admitted(core, poll(lent("new"), now=40.0))
    core.due(52.0)
    assert core.hand_over(seat, 10) == []


# Failing and the end --------------------------------------------------------------------------------------------------


def test_behind_a_failed_head_everything_is_given_back_and_comes_again_as_new() -> None:
    seat = Seat(PLAN)
    core = group(seat, retry_mode="broker")
    admitted(core, poll(lent("1", "2", "3"), "lane"))
    head, *_ = core.hand_over(seat, 10)
    (persist,) = [c for c in core.returned(seat, [(head, FAILED)], 1.0) if isinstance(c, Persist)]
    (advance,) = advances(core.persisted(persist.tokens, 1.0))
    assert given_back(core.advanced([advance])) == ["2", "3"]
    assert core.renew_at is None
    admitted(core, poll(lent("1", "2", "3", handle="2"), "lane", now=2.0))
    assert core.outstanding == 3


def test_a_lane_that_the_broker_took_away_is_forgotten_and_nothing_of_it_is_given_back() -> None:
    core = group(Seat(PLAN))
    epoch, _ = core.assigned("session")
    admitted(core, poll(lent("1", "2"), "session", epoch=epoch))
    _, commands = core.revoked(["session"])
    assert given_back(commands) == []
    assert core.renew_at is None


def test_a_slice_of_an_older_epoch_is_not_held() -> None:
    core = group()
    epoch, _ = core.assigned("session")
    admitted(core, poll(lent("1"), "session", epoch=epoch - 1))
    assert (core.tally.stale, core.renew_at) == (1, None)


def test_a_stream_holds_fewer_where_it_can_renew_fewer() -> None:
    core = group(Seat(PLAN), max_outstanding=100)
    core.hold_at_most(2)
    admitted(core, poll(lent("a", "b")))
    assert core.is_paused
    core.hold_at_most(1000)
    assert (core.most_outstanding, core.is_paused) == (100, False)
