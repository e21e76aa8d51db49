"""A target for tests of whatever launches: it remembers what it was asked for, and fails and dies as it is told."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import ClassVar

from bridge.core.errors import Transient
from bridge.ports import Claim, Launched

Outcome = Launched | BaseException
"""What a launch returns, or raises before anything has happened."""


class FakeTarget:
    """Keyed like a good orchestrator: a second launch of one run (its key and manual retry) answers like the first.

    `launches` counts calls by run key, `effects` lists what really started, in order, as pairs of run key and retry.
    `script` is used up one outcome per call that is not a repeat; after it every launch succeeds.
    """

    kind: ClassVar[str] = "fake"
    guarantee: ClassVar[str] = "keyed"

    def __init__(self, script: Iterable[Outcome] = (), *, timeout: float = 10.0) -> None:
        self.timeout = timeout
        self.launches: Counter[str] = Counter()
        self.effects: list[tuple[str, int]] = []
        self.recordings: list[str] = []
        self.most_at_once = 0
        self.is_closed = False
        self._at_once = 0
        self._script = deque(script)
        self._answers: dict[tuple[str, int], Launched] = {}
        self._open = asyncio.Event()
        self._open.set()
        self._deaths: dict[tuple[str, int], BaseException] = {}
        self._calls = 0

    # What a test arranges ----------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Launches wait, before their effect, until `release`."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def fail(self, times: int, error: Exception | None = None) -> None:
        """The next launches fail, by default transiently."""
        self._script.extend([error or Transient("the fake was told to fail")] * times)

    def die(self, when: str, call: int, error: BaseException) -> None:
        """The n-th launch (1 is the first) raises `error` `before` or `after` its effect: a crash at that instant."""
        if when not in ("before", "after"):
            raise ValueError(f"when is {when!r}: before or after the effect?")
        self._deaths[when, call] = error

    # Target ------------------------------------------------------------------------------------------------------

    async def launch(self, claim: Claim) -> Launched:
        self.launches[claim.run_key] += 1
        self._calls += 1
        call = self._calls
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if not self._open.is_set():
                await self._open.wait()
            self._die("before", call)
            answer = self._answer((claim.run_key, claim.retry))
            self._die("after", call)
            return answer
        finally:
            self._at_once -= 1

    def recorded(self, claims: Sequence[Claim]) -> None:
        """Nothing is kept about these runs any more; asking again would start them again."""
        for claim in claims:
            self.recordings.append(claim.run_key)

    def forget(self, before: float) -> int:
        del before
        return 0

    async def aclose(self) -> None:
        self.is_closed = True

    def _answer(self, run: tuple[str, int]) -> Launched:
        known = self._answers.get(run)
        if known is not None:
            return known
        outcome = self._script.popleft() if self._script else Launched("succeeded", f"fake-{len(self.effects) + 1}")
        if isinstance(outcome, BaseException):
            raise outcome
        self.effects.append(run)
        self._answers[run] = outcome
        return outcome

    def _die(self, when: str, call: int) -> None:
        error = self._deaths.pop((when, call), None)
        if error is not None:
            raise error
