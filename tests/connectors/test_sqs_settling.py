"""Settling: how messages share calls, and what becomes of each when a call fails in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from bridge.core.errors import HeadraceError, Transient
from bridge.core.retry import Backoff
from connectors.sqs.messages import Message
from connectors.sqs.settling import CALLS_MOST, Settling, Ticket

Failed = Sequence[Mapping[str, Any]]


def message(name: str) -> Message:
    return Message(key=name, handle=f"{name}/1", system={}, attributes={})


def messages(count: int, name: str = "m") -> list[Message]:
    return [message(f"{name}{n}") for n in range(count)]


def entry(index: int, code: str = "InternalError", *, fault: bool = False) -> Mapping[str, Any]:
    return {"Id": str(index), "SenderFault": fault, "Code": code, "Message": ""}


class Sqs:
    """Answers calls from `answers`, one after the other, and then with success; with `gate` not before it is open."""

    def __init__(self, *answers: Failed | Exception) -> None:
        self.calls: list[list[str]] = []
        self.most = self._under_way = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.troubles: list[HeadraceError] = []
        self._answers = list(answers)
        self.settling = Settling(self._call, self.troubles.append, lambda: None, "deleting", Backoff(0.001))

    async def _call(self, batch: Sequence[Message]) -> Failed:
        self.calls.append([m.handle for m in batch])
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            await self.gate.wait()
        finally:
            self._under_way -= 1
        answer = self._answers.pop(0) if self._answers else ()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def settle(self, batch: Sequence[Message]) -> list[Message]:
        ticket = Ticket()
        self.settling.add(batch, ticket)
        async with asyncio.timeout(10):
            return await ticket.wait()


# How calls are shared ------------------------------------------------------------------------------------------------


async def test_ten_lanes_of_one_message_cost_one_call() -> None:
    sqs = Sqs()
    assert await asyncio.gather(*(sqs.settle([each]) for each in messages(10))) == [[]] * 10
    assert [len(call) for call in sqs.calls] == [10]


async def test_a_call_takes_ten_at_most() -> None:
    sqs = Sqs()
    assert await sqs.settle(messages(25)) == []
    assert sorted(len(call) for call in sqs.calls) == [5, 10, 10]


async def test_calls_run_side_by_side_and_not_without_bound() -> None:
    sqs = Sqs()
    sqs.gate.clear()
    settled = asyncio.create_task(sqs.settle(messages(200)))
    for _ in range(5):
        await asyncio.sleep(0)
    assert sqs.most == CALLS_MOST
    sqs.gate.set()
    assert await settled == []
    assert len(sqs.calls) == 20


async def test_single_messages_gather_while_two_calls_are_under_way() -> None:
    sqs = Sqs()
    sqs.gate.clear()
    settled = []
    for each in messages(9):
        settled.append(asyncio.create_task(sqs.settle([each])))
        for _ in range(5):
            await asyncio.sleep(0)
    assert len(sqs.calls) == 2
    sqs.gate.set()
    await asyncio.gather(*settled)
    assert [len(call) for call in sqs.calls] == [1, 1, 7]


async def test_what_is_done_is_not_done_again() -> None:
    sqs = Sqs()
    batch = messages(3)
    await sqs.settle(batch)
    assert await sqs.settle(batch) == []
    assert len(sqs.calls) == 1


async def test_a_call_that_was_given_up_is_not_made_twice() -> None:
    sqs = Sqs()
    sqs.gate.clear()
    batch = messages(2)
    first = asyncio.create_task(sqs.settle(batch))
    for _ in range(5):
        await asyncio.sleep(0)
    first.cancel()
    second = asyncio.create_task(sqs.settle(batch))
    for _ in range(5):
        await asyncio.sleep(0)
    sqs.gate.set()
    assert await second == []
    assert sqs.calls == [["m0/1", "m1/1"]]


# Calls that fail in parts --------------------------------------------------------------------------------------------


async def test_of_ten_seven_are_done_two_are_tried_again_alone_and_one_is_left_to_redelivery() -> None:
    sqs = Sqs([entry(2), entry(5), entry(8, "InvalidAddress", fault=True)])
    batch = messages(10)
    assert await sqs.settle(batch) == [batch[8]]
    assert sqs.calls[1:] == [["m2/1", "m5/1"]]
    assert sqs.settling.settled == 9


async def test_an_entry_is_tried_again_with_the_newest_handle() -> None:
    sqs = Sqs([entry(0)])
    sqs.gate.clear()
    one = message("m")
    settled = asyncio.create_task(sqs.settle([one]))
    for _ in range(5):
        await asyncio.sleep(0)
    sqs.gate.set()
    await asyncio.sleep(0)
    one.handle = "m/2"
    assert await settled == []
    assert sqs.calls == [["m/1"], ["m/2"]]


@pytest.mark.parametrize("fault", [True, False])
async def test_a_dead_handle_is_never_tried_again(*, fault: bool) -> None:
    sqs = Sqs([entry(0, "ReceiptHandleIsInvalid", fault=fault)])
    batch = messages(2)
    assert await sqs.settle(batch) == [batch[0]]
    assert len(sqs.calls) == 1
    assert sqs.settling.expired == 1


async def test_a_dead_handle_that_was_replaced_meanwhile_gives_way_to_the_newer_one() -> None:
    sqs = Sqs([entry(0, "ReceiptHandleIsInvalid", fault=True)])
    sqs.gate.clear()
    one = message("m")
    settled = asyncio.create_task(sqs.settle([one]))
    for _ in range(5):
        await asyncio.sleep(0)
    one.handle = "m/2"
    sqs.gate.set()
    assert await settled == []
    assert sqs.calls == [["m/1"], ["m/2"]]


async def test_a_call_that_fails_whole_is_repeated() -> None:
    sqs = Sqs(Transient("reset"), Transient("throttled"))
    assert await sqs.settle(messages(3)) == []
    assert len(sqs.calls) == 3
    assert len(sqs.troubles) == 2


async def test_what_fails_too_often_goes_back_to_who_asked_and_may_be_asked_again() -> None:
    sqs = Sqs(*[Transient("reset")] * 4)
    batch = messages(2)
    with pytest.raises(Transient, match="reset"):
        await sqs.settle(batch)
    assert len(sqs.calls) == 4
    assert await sqs.settle(batch) == []


async def test_one_that_fails_on_and_on_does_not_undo_its_neighbours() -> None:
    sqs = Sqs([entry(1)], [entry(0)], [entry(0)], [entry(0)])
    batch = messages(3)
    with pytest.raises(Transient, match="InternalError"):
        await sqs.settle(batch)
    assert [each.is_done for each in batch] == [True, False, True]
    assert await sqs.settle(batch) == []
    assert sqs.calls[-1] == ["m1/1"]


# The end -------------------------------------------------------------------------------------------------------------


async def test_the_end_waits_for_calls_under_way() -> None:
    sqs = Sqs()
    sqs.gate.clear()
    batch = messages(12)
    settled = asyncio.create_task(sqs.settle(batch))
    await asyncio.sleep(0)
    settled.cancel()  # as the runtime does before it closes
    closing = asyncio.create_task(sqs.settling.close(5.0))
    await asyncio.sleep(0)
    sqs.gate.set()
    await closing
    assert all(each.is_done for each in batch)


async def test_the_end_does_not_wait_for_a_silent_peer() -> None:
    sqs = Sqs()
    sqs.gate.clear()
    settled = asyncio.create_task(sqs.settle(messages(1)))
    for _ in range(5):
        await asyncio.sleep(0)
    await sqs.settling.close(0.01)
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("sqs-")]
    settled.cancel()
