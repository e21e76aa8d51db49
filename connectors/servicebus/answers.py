"""Settlements that wait for the broker's word. Pure, but for the future that wakes whoever waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any


class Answers:
    """Of one call: `outcomes` by delivery number as they come, `refused` those that were not taken, with the reason."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = numbers
        self.outcomes: dict[int, Any] = {}
        self.refused: dict[int, Exception] = {}
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def left(self) -> int:
        return len(self.numbers) - len(self.outcomes)

    def take(self, number: int, outcome: Any) -> None:
        self.outcomes[number] = outcome
        if not self.left and not self.done.done():
            self.done.set_result(None)

    async def wait(self) -> None:
        """Until all have come. Raises what `Awaited.give_up` was given."""
        if self.left:
            await self.done


class Awaited:
    """Which call waits for which number. A number is awaited by one call at a time."""

    def __init__(self) -> None:
        self._calls: dict[int, Answers] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def expect(self, numbers: Sequence[int]) -> Answers:
        answers = Answers(numbers)
        for number in numbers:
            self._calls[number] = answers
        return answers

    def answer(self, first: int, last: int, outcome: Any) -> None:
        """Both ends are the broker's word: what is walked is never more than what we wait for."""
        if last - first >= len(self._calls):
            numbers: Sequence[int] = [number for number in self._calls if first <= number <= last]
        else:
            numbers = range(first, last + 1)
        for number in numbers:
            call = self._calls.pop(number, None)
            if call is not None:
                call.take(number, outcome)

    def forget(self, answers: Answers) -> None:
        for number in answers.numbers:
            if self._calls.get(number) is answers:
                del self._calls[number]

    def give_up(self, error: Exception) -> None:
        """Nothing more comes."""
        for call in {id(call): call for call in self._calls.values()}.values():
            if not call.done.done():
                call.done.set_exception(error)
                call.done.exception()  # whoever waits hears of it; nobody may have to
        self._calls.clear()
