"""Renewals and giving back, ten messages in a call."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from bridge.core.errors import Refused, Transient
from connectors.sqs.messages import Message
from connectors.sqs.renewing import CALLS_MOST, release, renew

Wanted = Sequence[tuple[str, int]]
Failed = Sequence[Mapping[str, Any]]


def messages(count: int) -> list[Message]:
    return [Message(key=f"m{n}", handle=f"m{n}/1", system={}, attributes={}) for n in range(count)]


class Sqs:
    """`failing`: codes by handle, for so many calls. `raising`: errors of the first calls."""

    def __init__(self, failing: dict[str, tuple[str, int]] | None = None, raising: Sequence[Exception] = ()) -> None:
        self.calls: list[Wanted] = []
        self.most = self._under_way = 0
        self._failing = dict(failing or {})
        self._raising = list(raising)

    async def __call__(self, wanted: Wanted, within: float) -> Failed:
        self.calls.append(list(wanted))
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        await asyncio.sleep(0)
        self._under_way -= 1
        if self._raising:
            raise self._raising.pop(0)
        return [each for index, (handle, _) in enumerate(wanted) for each in self._failed(index, handle)]

    def _failed(self, index: int, handle: str) -> Failed:
        code, times = self._failing.get(handle, ("", 0))
        if not times:
            return ()
        self._failing[handle] = code, times - 1
        return [{"Id": str(index), "SenderFault": False, "Code": code}]


async def test_all_are_renewed_ten_in_a_call_and_a_few_calls_at_once() -> None:
    sqs = Sqs()
    renewed = await renew(messages(205), 60, 10.0, sqs)
    assert (renewed.lost, renewed.untold, renewed.error) == ([], 0, None)
    assert [len(call) for call in sqs.calls] == [10] * 20 + [5]
    assert {seconds for call in sqs.calls for _, seconds in call} == {60}
    assert sqs.most == CALLS_MOST


async def test_a_handle_that_counts_no_more_is_a_lost_lease_and_its_neighbours_are_kept() -> None:
    batch = messages(12)
    sqs = Sqs({"m3/1": ("ReceiptHandleIsInvalid", 9)})
    renewed = await renew(batch, 60, 10.0, sqs)
    assert renewed.lost == [batch[3]]
    assert renewed.error is None
    assert len(sqs.calls) == 2


async def test_an_entry_that_sqs_can_not_do_now_is_tried_again_and_never_lost() -> None:
    sqs = Sqs({"m0/1": ("InternalError", 1), "m1/1": ("InternalError", 9)})
    renewed = await renew(messages(3), 60, 10.0, sqs)
    assert (renewed.lost, renewed.error) == ([], None)
    assert [len(call) for call in sqs.calls] == [3, 2, 1]


async def test_a_call_that_fails_is_repeated_within_the_round() -> None:
    sqs = Sqs(raising=[Transient("reset")])
    renewed = await renew(messages(3), 60, 10.0, sqs)
    assert (renewed.lost, renewed.error) == ([], None)
    assert len(sqs.calls) == 2


async def test_a_round_that_gets_no_answer_ends_in_time_and_says_why() -> None:
    sqs = Sqs(raising=[Refused("no right")] * 1000)
    renewed = await renew(messages(30), 60, 0.3, sqs)
    assert renewed.lost == []
    assert renewed.untold == 30
    assert isinstance(renewed.error, Refused)


async def test_what_was_settled_meanwhile_is_left_out() -> None:
    batch = messages(2)
    batch[0].is_done = True
    sqs = Sqs()
    await renew(batch, 60, 10.0, sqs)
    assert sqs.calls == [[("m1/1", 60)]]


async def test_nothing_to_renew_costs_nothing() -> None:
    sqs = Sqs()
    assert (await renew([], 60, 10.0, sqs)).error is None
    assert sqs.calls == []


# Giving back ---------------------------------------------------------------------------------------------------------


async def test_what_is_given_back_is_visible_at_once() -> None:
    sqs = Sqs()
    assert await release(messages(12), sqs) == 0
    assert [len(call) for call in sqs.calls] == [10, 2]
    assert {seconds for call in sqs.calls for _, seconds in call} == {0}


async def test_what_is_being_settled_is_not_given_back() -> None:
    batch = messages(3)
    batch[0].is_asked = batch[1].is_done = True
    sqs = Sqs()
    await release(batch, sqs)
    assert sqs.calls == [[("m2/1", 0)]]


async def test_a_call_that_fails_does_not_keep_the_others_from_being_given_back() -> None:
    sqs = Sqs(raising=[Transient("reset")])
    assert await release(messages(30), sqs) == 1
    assert len(sqs.calls) == 3
