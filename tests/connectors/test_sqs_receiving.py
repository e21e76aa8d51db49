"""Long polls: how many run, when they rest, and that none is cut short. Polls here are answered by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bridge.core.errors import StartRefused, Transient
from connectors.sqs.errors import QueueMissing
from connectors.sqs.health import Health
from connectors.sqs.receiving import Received, Receiving

Answers = list[tuple[int, str, "asyncio.Future[list[Received]]"]]


class Sqs:
    """Polls wait in `asked` until a test answers them; timers wait in `timers` until it lets time pass."""

    def __init__(self) -> None:
        self.asked: Answers = []
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.time = 0.0
        self._attempts = 0
        self._made: list[Receiving] = []

    def receiving(self, receivers: int = 3, *, fifo: bool = False) -> Receiving:
        made = Receiving(
            self._receive,
            Health("orders", lambda: self.time),
            receivers=receivers,
            batch=10,
            wait=10.0,
            new_attempt=self._new_attempt if fifo else lambda: "",
            now=lambda: self.time,
            later=self._later,
        )
        self._made.append(made)
        return made

    async def stop(self) -> None:
        for each in self._made:
            await each.abandon()

    async def _receive(self, most: int, attempt: str) -> list[Received]:
        answer: asyncio.Future[list[Received]] = asyncio.get_running_loop().create_future()
        self.asked.append((most, attempt, answer))
        return await answer

    def _new_attempt(self) -> str:
        self._attempts += 1
        return f"attempt {self._attempts}"

    def _later(self, seconds: float, call: Callable[[], None]) -> Any:
        timer = (seconds, call)
        self.timers.append(timer)

        class Cancels:
            def cancel(_self) -> None:
                if timer in self.timers:
                    self.timers.remove(timer)

        return Cancels()

    async def answer(self, messages: int = 0, *, after: float = 0.0, error: Exception | None = None) -> None:
        """The oldest poll is over; the loop runs until nothing more happens."""
        await turns()
        self.time += after
        _, _, answer = self.asked.pop(0)
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result([{"MessageId": str(n)} for n in range(messages)])
        await turns()

    async def rest(self) -> float:
        """The rest is over; returns how long it was."""
        [(seconds, call)] = self.timers
        self.timers.clear()
        self.time += seconds
        call()
        await turns()
        return seconds


@pytest.fixture
async def sqs() -> AsyncIterator[Sqs]:
    made = Sqs()
    yield made
    await made.stop()


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def opened(sqs: Sqs, most: int = 1000, **how: Any) -> Receiving:
    receiving = sqs.receiving(**how)
    receiving.ask(most)
    receiving.open()
    await turns()
    return receiving


# How many ------------------------------------------------------------------------------------------------------------


async def test_nothing_is_asked_before_it_is_open_or_wanted(sqs: Sqs) -> None:
    receiving = sqs.receiving()
    receiving.ask(10)
    await turns()
    assert not sqs.asked
    receiving.ask(0)
    receiving.open()
    await turns()
    assert not sqs.asked


async def test_one_poll_waits_while_nothing_comes(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    for _ in range(3):
        assert receiving.running == 1
        await sqs.answer(after=10.0)
    assert receiving.running == 1
    assert receiving.polls == 3


async def test_more_polls_run_while_answers_are_full_and_fewer_when_they_are_not(sqs: Sqs) -> None:
    receiving = await opened(sqs, receivers=3)
    running = []
    for messages in (10, 10, 10, 8, 2, 0, 0, 0):
        await sqs.answer(messages, after=10.0)
        running.append(receiving.running)
    assert running[:5] == [2, 3, 3, 3, 2]
    assert running[-1] == 1


async def test_no_more_is_asked_for_than_is_wanted_in_all(sqs: Sqs) -> None:
    receiving = await opened(sqs, most=14)
    await sqs.answer(10)
    assert [most for most, _, _ in sqs.asked] == [4]  # ten wait to be taken
    await receiving.next()
    await turns()
    assert [most for most, _, _ in sqs.asked] == [4, 10]


async def test_at_0_nothing_more_is_asked_for_and_what_is_on_its_way_still_comes(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    receiving.ask(0)
    await sqs.answer(3)
    assert receiving.running == 0
    [came] = await receiving.next()
    assert len(came.messages) == 3
    receiving.ask(5)
    await turns()
    assert [most for most, _, _ in sqs.asked] == [5]


async def test_what_several_polls_brought_is_given_at_once(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    await sqs.answer(10, after=1.0)
    await sqs.answer(10, after=1.0)
    came = await receiving.next()
    assert [(len(each.messages), each.at) for each in came] == [(10, 1.0), (10, 2.0)]


# Rests ---------------------------------------------------------------------------------------------------------------


async def test_empty_answers_that_come_early_make_it_rest_until_it_asks_once_in_a_wait(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    rests = []
    for _ in range(8):
        await sqs.answer(after=0.01)
        assert receiving.running == 0
        rests.append(await sqs.rest())
    assert rests[:6] == sorted(rests[:6])
    assert rests[0] <= 0.2
    assert rests[-1] == pytest.approx(9.99)


async def test_a_message_ends_such_rests(sqs: Sqs) -> None:
    await opened(sqs)
    for _ in range(5):
        await sqs.answer()
        await sqs.rest()
    await sqs.answer(1)
    assert sqs.asked
    assert not sqs.timers


async def test_failures_make_one_poll_rest_longer_and_longer(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    rests = []
    for _ in range(9):
        await sqs.answer(error=Transient("no network"))
        assert receiving.running == 0
        rests.append(await sqs.rest())
    assert 0.5 <= rests[0] <= 0.75
    assert 30 <= rests[-1] <= 45
    await sqs.answer(10)
    assert receiving.running == 2


async def test_the_end_cuts_a_rest_short(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    await sqs.answer(error=Transient("no network"))
    assert await receiving.close() == []
    assert not sqs.timers


async def test_a_fifo_poll_whose_answer_was_lost_is_asked_again_with_the_same_attempt(sqs: Sqs) -> None:
    await opened(sqs, fifo=True)
    assert sqs.asked[0][1] == "attempt 1"
    await sqs.answer(error=Transient("reset"))
    await sqs.rest()
    assert sqs.asked[0][1] == "attempt 1"
    await sqs.answer(1)
    assert sqs.asked[0][1] == "attempt 2"


async def test_an_attempt_is_not_repeated_once_sqs_has_forgotten_it(sqs: Sqs) -> None:
    await opened(sqs, fifo=True)
    await sqs.answer(error=Transient("reset"))
    sqs.time += 300
    await sqs.rest()
    assert sqs.asked[0][1] == "attempt 2"


# The end -------------------------------------------------------------------------------------------------------------


async def test_the_end_waits_for_polls_under_way_and_returns_what_they_bring(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    receiving.end()
    closing = asyncio.create_task(receiving.close())
    await turns()
    assert not closing.done()
    await sqs.answer(3)
    [came] = await closing
    assert len(came.messages) == 3
    assert receiving.running == 0


async def test_nothing_new_is_asked_once_polling_has_ended(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    receiving.end()
    await sqs.answer(10)
    receiving.ask(100)
    await turns()
    assert not sqs.asked
    assert len(await receiving.close()) == 1


async def test_polls_that_nobody_can_wait_for_are_given_up(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    await receiving.abandon()
    assert receiving.running == 0
    assert sqs.asked[0][2].cancelled()


async def test_a_queue_that_was_never_there_is_refused(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    await sqs.answer(error=QueueMissing("no queue"))
    with pytest.raises(StartRefused, match="no queue"):
        await receiving.next()


async def test_a_queue_that_goes_away_is_waited_for(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    await sqs.answer(1)
    await receiving.next()
    await sqs.answer(error=QueueMissing("no queue"))
    await sqs.rest()
    await sqs.answer(1)
    assert len(await receiving.next()) == 1


async def test_a_defect_of_our_own_is_not_swallowed(sqs: Sqs) -> None:
    receiving = await opened(sqs)
    await sqs.answer(error=KeyError("defect"))
    with pytest.raises(KeyError):
        await receiving.next()
