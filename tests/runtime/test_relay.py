"""Dead letters on their way to the broker's own place: at least once, for ever, and in nobody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from bridge.core.errors import OwnershipLost, Refused, Transient
from bridge.core.retry import Backoff
from bridge.ports import DeadLetterRow, Letter
from bridge.runtime.clock import FakeClock
from bridge.runtime.persister import Persister
from bridge.runtime.relay import LEASE, LETTERS_MOST, RETRY, SEND_MOST, Relaying
from bridge.store.memory import MemoryStore

LONGEST = RETRY.max * (1 + RETRY.jitter)


class Place:
    """A relay to a list. `openings` and `sendings` are what its next calls raise; None, or nothing left: they work.

    `refuses` and `fails` by identity: what it says of single letters.
    """

    def __init__(self) -> None:
        self.openings: list[Exception | None] = []
        self.sendings: list[Exception | None] = []
        self.refuses: set[str] = set()
        self.fails: dict[str, Exception] = {}
        self.copies: list[str] = []
        self.ids: list[str] = []
        self.batches: list[int] = []
        self.opened = self.closed = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self) -> None:
        self.opened += 1
        if self.openings and (error := self.openings.pop(0)):
            raise error

    async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]:
        await self.gate.wait()
        self.batches.append(len(letters))
        if self.sendings and (error := self.sendings.pop(0)):
            raise error
        return [self._said(letter) for letter in letters]

    def _said(self, letter: Letter) -> Exception | None:
        if letter.identity in self.refuses:
            return Refused("too large for the topic")
        if letter.identity in self.fails:
            return self.fails[letter.identity]
        self.copies.append(letter.identity)
        self.ids.append(letter.id)
        return None

    async def aclose(self) -> None:
        self.closed += 1


class Office:
    """A store, a persister and a relay, on a clock that stands still."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(now=self.clock.now)
        self.place = Place()
        backoff = Backoff(delay=1.0, factor=1.0, max=1.0, jitter=0.0)
        self.persister = Persister(self.store, self.clock, lambda: 0.0, backoff)
        self.relaying = Relaying("orders", self.place, self.store, self.persister, self.clock, lambda: 0.0)
        self.persister.letters_stored = self.relaying.wake
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self.tasks = [asyncio.create_task(self.persister.run()), asyncio.create_task(self.relaying.run())]
        await self.clock.settle()

    async def reject(self, *names: str, **fields: Any) -> None:
        self.persister.submit([letter_row(name, **fields) for name in names], lambda _: None)
        await self.clock.settle()

    def letter(self, name: str) -> Any:
        return self.store.tables.letters["w", "src", name]

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


def letter_row(name: str, **fields: Any) -> DeadLetterRow:
    values: dict[str, Any] = {
        "watcher": "w", "stream": "orders", "source": "src", "identity": name, "position": f"line {name}",
        "body": b"raw", "key": None, "headers": b"[]", "timestamp": None, "reason": "rejected", "error": "no",
        "attempts": 1, "received_at": 1.0, "relays": True,
    }  # fmt: skip
    return DeadLetterRow(**{**values, **fields})


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    yield office
    await office.close()


async def test_a_dead_letter_is_copied_in_the_turn_after_its_commit(office: Office) -> None:
    await office.start()
    await office.reject("1", "2")
    assert office.place.copies == ["1", "2"]
    assert office.place.ids == [f"{office.store.store_id}:{office.letter(name).id}" for name in "12"]
    assert office.letter("1").relayed_at == office.clock.now()
    assert office.relaying.status() == {"in_hand": 0, "relayed": 2, "refused": 0, "trouble": None}
    await office.clock.advance(2 * LEASE)
    assert office.place.copies == ["1", "2"]


async def test_what_other_streams_reject_and_what_is_not_to_be_copied_is_left_alone(office: Office) -> None:
    await office.start()
    await office.reject("1", stream="bills")
    await office.reject("2", relays=False)
    await office.clock.advance(10)
    assert office.place.copies == []


async def test_what_an_earlier_life_left_is_copied(office: Office) -> None:
    await office.store.commit([letter_row("1")], "c1")
    await office.start()
    assert office.place.copies == ["1"]


async def test_many_letters_go_in_batches(office: Office) -> None:
    await office.store.commit([letter_row(str(n)) for n in range(250)], "c1")
    await office.start()
    await office.clock.settle()
    assert office.place.batches == [LETTERS_MOST, LETTERS_MOST, 50]


async def test_a_letter_that_is_refused_is_kept_with_the_reason_and_not_tried_again(office: Office) -> None:
    office.place.refuses = {"1"}
    await office.start()
    await office.reject("1", "2")
    assert office.place.copies == ["2"]
    letter = office.letter("1")
    assert (letter.relay_due, letter.relayed_at, letter.relay_error) == (None, None, "too large for the topic")
    assert office.relaying.status() == {"in_hand": 0, "relayed": 1, "refused": 1, "trouble": None}
    await office.clock.advance(2 * LONGEST)
    assert len(office.place.batches) == 1


async def test_a_letter_that_fails_is_tried_again_for_ever_at_growing_distances(office: Office) -> None:
    office.place.fails = {"1": Transient("the leader is away")}
    await office.start()
    await office.reject("1", "2")
    assert (office.place.copies, office.relaying.trouble) == (["2"], None)
    distances = []
    for _ in range(11):
        before = office.letter("1").relay_failures
        waited = 0
        while office.letter("1").relay_failures == before:
            await office.clock.advance(1)
            waited += 1
        distances.append(waited)
    assert distances[:3] == [1, 2, 4]
    assert LONGEST + 2 >= distances[-1] >= 300
    assert office.relaying.trouble == "the leader is away"
    office.place.fails = {}
    await office.clock.advance(2 * LONGEST)
    assert office.place.copies == ["2", "1"]
    assert office.relaying.trouble is None


async def test_while_nothing_can_be_sent_the_others_are_not_claimed_in_vain(office: Office) -> None:
    await office.store.commit([letter_row(str(n)) for n in range(500)], "c1")
    office.place.sendings = [Transient("connection lost")] * 5
    await office.start()
    await office.clock.settle()
    assert office.place.batches == [LETTERS_MOST]
    assert office.relaying.trouble == "connection lost"
    await office.clock.advance(60)
    assert len(office.place.copies) == len(set(office.place.copies)) == 500
    assert office.place.opened == 6
    assert office.relaying.trouble is None


async def test_new_letters_do_not_shorten_the_wait_of_a_relay_that_can_not_send(office: Office) -> None:
    office.place.sendings = [Transient("away")] * 100
    await office.start()
    await office.reject("0")
    for n in range(1, 20):
        await office.reject(str(n))
    assert office.place.batches == [1]


async def test_the_relay_waits_as_long_as_the_broker_asks_for(office: Office) -> None:
    office.place.fails = {"1": Transient("throttled", retry_after=50.0)}
    await office.start()
    await office.reject("1")
    await office.clock.advance(48)
    assert len(office.place.batches) == 1
    await office.clock.advance(4)
    assert len(office.place.batches) == 2


@pytest.mark.parametrize("error", [KeyError("a defect"), OwnershipLost("fenced"), TimeoutError()])
async def test_whatever_a_relay_raises_its_letters_are_tried_again(office: Office, error: Exception) -> None:
    office.place.sendings = [error]
    await office.start()
    await office.reject("1")
    assert office.relaying.trouble
    await office.clock.advance(3)
    assert office.place.copies == ["1"]


async def test_a_relay_that_answers_for_other_letters_is_not_believed(office: Office) -> None:
    class Odd(Place):
        async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]:
            await super().send(letters)
            return []

    office.relaying._relay = odd = Odd()
    await office.start()
    await office.reject("1")
    assert "answered for 0 of 1" in (office.relaying.trouble or "")
    assert office.letter("1").relayed_at is None
    await office.clock.advance(LEASE + 2)
    assert odd.copies[:2] == ["1", "1"]


async def test_a_place_that_can_not_be_reached_is_opened_again_and_again(office: Office) -> None:
    office.place.openings = [Transient("no broker"), Refused("the topic was deleted"), KeyError("x")]
    await office.start()
    await office.reject("1")
    assert office.relaying.trouble == "no broker"
    await office.clock.advance(1.1)
    assert office.relaying.trouble == "the topic was deleted"
    await office.clock.advance(20)
    assert (office.place.copies, office.relaying.trouble) == (["1"], None)


async def test_a_store_that_is_away_makes_it_wait_and_is_no_trouble_of_its_own(office: Office) -> None:
    await office.start()
    await office.reject("1")
    office.store.available = False
    await office.clock.advance(30)
    assert office.relaying.trouble is None
    office.store.available = True
    await office.reject("2")
    await office.clock.advance(2)
    assert office.place.copies == ["1", "2"]


async def test_a_copy_whose_note_could_not_be_stored_is_noted_when_the_store_is_back(office: Office) -> None:
    office.place.gate.clear()
    await office.start()
    await office.reject("1")
    office.store.available = False
    office.place.gate.set()
    await office.clock.advance(3 * LEASE)
    assert office.relaying.status()["in_hand"] == 1
    office.store.available = True
    await office.clock.advance(2)
    assert office.letter("1").relayed_at is not None
    assert office.place.copies == ["1"]


async def test_at_the_start_a_place_that_does_not_exist_is_refused_with_the_streams_name(office: Office) -> None:
    office.place.openings = [Refused("the topic dead-orders does not exist")]
    with pytest.raises(Refused, match=r"'orders'.*the topic dead-orders does not exist"):
        await office.relaying.open_first(10)


async def test_at_the_start_a_place_that_can_not_be_reached_is_tried_again_later(office: Office) -> None:
    office.place.openings = [Transient("no broker")]
    await office.relaying.open_first(10)
    assert office.relaying.trouble == "no broker"
    await office.start()
    await office.reject("1")
    assert office.place.copies == ["1"]


async def test_the_start_waits_only_so_long(office: Office) -> None:
    class Slow(Place):
        async def open(self) -> None:
            await asyncio.Event().wait()

    office.relaying._relay = Slow()
    await office.relaying.open_first(0.01)
    assert office.relaying.trouble == "no answer in time"


async def test_what_was_opened_at_the_start_is_not_opened_again(office: Office) -> None:
    await office.relaying.open_first(10)
    await office.start()
    await office.reject("1")
    assert (office.place.opened, office.place.copies) == (1, ["1"])


async def test_a_stop_lets_the_batch_under_way_end_and_begins_no_other(office: Office) -> None:
    office.place.gate.clear()
    await office.start()
    await office.reject("1")
    stopping = asyncio.create_task(office.relaying.stop(10))
    await office.clock.settle()
    office.place.gate.set()
    await stopping
    assert (office.place.copies, office.place.closed) == (["1"], 1)
    assert office.letter("1").relayed_at is not None
    assert office.tasks[1].done()


async def test_a_stop_does_not_wait_for_a_broker_that_is_away(office: Office) -> None:
    office.place.gate.clear()
    await office.start()
    await office.reject("1")
    await office.relaying.stop(0.1)
    assert (office.place.copies, office.place.closed) == ([], 1)
    assert office.letter("1").relay_due is not None


async def test_a_stop_ends_the_wait_of_a_relay_that_can_not_send(office: Office) -> None:
    office.place.sendings = [Transient("away")] * 100
    await office.start()
    await office.reject("1")
    await office.relaying.stop(10)
    assert office.tasks[1].done()


async def test_a_lease_outlasts_the_longest_batch() -> None:
    assert LEASE > SEND_MOST
