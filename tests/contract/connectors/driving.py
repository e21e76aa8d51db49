"""A producer, driven as the runtime drives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from typing import Any
from uuid import uuid4

from bridge.core.model import AdvanceBatch, AdvanceItem, AdvanceOutcome, Poll, outcome_of
from bridge.ports import AdvancesLanes, Lends, Pauses, Producer, Releases, TakesLanes
from bridge.ports.streams import KeepsPlaces, Ledger
from tests.contract.connectors.promises import PATIENCE, Event

MOST = 2000
"""Messages that a producer whose broker lends is asked for."""


class Store:
    """What outlives a producer on our side: the mark that a `KeepsPlaces` leaves at the broker, and its places."""

    def __init__(self) -> None:
        self.id = uuid4().hex
        self.commits = 0
        self.places: dict[str, str] = {}

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.id, lambda: self.commits, dict(self.places))


class Life:
    """One producer from its making to its end, called as the runtime calls it: one poll at a time, and in order.

    As `bridge.ports.Lanes` it gives out epochs; `stale` counts deliveries of an older one, which are dropped.
    """

    def __init__(self, producer: Producer, store: Store, expire: Callable[[], Awaitable[None]] | None = None) -> None:
        """`expire` is called at its end: what it held and did not settle is lent to nobody from then on."""
        self.producer = producer
        self._expire = expire
        self.epochs: dict[Hashable, int] = {}
        self.stale = 0
        self.is_closed = False
        self.resolved: list[tuple[Hashable, AdvanceBatch]] = []
        self._store = store
        self._given = 0
        self._polls: AsyncIterator[Poll] | None = None
        self._next: asyncio.Task[Poll] | None = None
        if isinstance(producer, TakesLanes):
            producer.take_lanes(self)
        if isinstance(producer, KeepsPlaces):
            producer.take_ledger(store.ledger)
        self.ask(MOST)

    def assigned(self, lane: Hashable) -> int:
        self._given += 1
        self.epochs[lane] = self._given
        return self._given

    def revoked(self, lanes: Sequence[Hashable]) -> list[tuple[Hashable, AdvanceBatch]]:
        last = [each for each in self.resolved if each[0] in lanes]
        self.resolved = [each for each in self.resolved if each[0] not in lanes]
        for lane in lanes:
            self.epochs.pop(lane, None)
        return last

    # Reading

    async def raw_poll(self) -> Poll:
        """As it came."""
        self.begin()
        assert self._next is not None
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait({self._next})
        task, self._next = self._next, None
        return task.result()

    def begin(self) -> None:
        """Pulls the next poll, without waiting for it."""
        if self._next is None:
            self._polls = self._polls or self.producer.open_batches()
            self._next = asyncio.ensure_future(anext(self._polls))

    async def poll(self) -> list[Event]:
        """The events of a poll, but for those of an epoch that is over."""
        poll = await self.raw_poll()
        events: list[Event] = []
        for lane, start, stop, epoch in poll.slices:
            if epoch is not None and epoch != self.epochs.get(lane):
                self.stale += stop - start
                continue
            for body, payload in zip(poll.bodies[start:stop], poll.payloads[start:stop], strict=True):
                events.append(Event(body, payload, lane, epoch, self.producer.identity(payload)))
        return events

    async def take(self, number: int) -> list[Event]:
        """So many events, or the few more that came in one poll with them."""
        events: list[Event] = []
        while len(events) < number:
            events += await self.poll()
        return events

    async def until(self, *bodies: bytes) -> list[Event]:
        """Everything up to the poll by which each of these has come."""
        events: list[Event] = []
        wanted = set(bodies)
        while wanted:
            found = await self.poll()
            events += found
            wanted -= {event.body for event in found}
        return events

    async def is_silent(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        self.begin()
        assert self._next is not None
        done, _ = await asyncio.wait({self._next}, timeout=seconds)
        return not done

    # Leases

    def ask(self, most: int) -> None:
        """Where messages are lent: so many at once, and no more."""
        if isinstance(self.producer, Lends):
            self.producer.ask(most)

    async def renew(self, events: Sequence[Event]) -> list[Any]:
        """The payloads whose lease is lost."""
        assert isinstance(self.producer, Lends)
        async with asyncio.timeout(PATIENCE):
            return list(await self.producer.renew([event.payload for event in events]))

    async def unsettled(self, events: Sequence[Event], outcome: AdvanceOutcome | None = None) -> list[Any]:
        """Advances events of UNORDERED, or of one lane, and returns the payloads that were left unsettled."""
        said = outcome or outcome_of(1, 0, 0)
        async with asyncio.timeout(PATIENCE):
            payloads = [event.payload for event in events]
            return list(await self.producer.advance(AdvanceBatch([(said, payloads)], len(payloads))) or ())

    # Settling

    async def settle(self, events: Sequence[Event], outcome: AdvanceOutcome | None = None) -> None:
        """Advances them lane by lane, in one call where the producer takes all lanes at once."""
        lanes: dict[Hashable, list[Any]] = {}
        for event in events:
            lanes.setdefault(event.lane, []).append(event.payload)
        said = outcome or outcome_of(1, 0, 0)
        batches = [(lane, AdvanceBatch([(said, payloads)], len(payloads))) for lane, payloads in lanes.items()]
        await self.advance(batches)

    async def advance(self, batches: Sequence[tuple[Hashable, AdvanceBatch | Sequence[AdvanceItem]]]) -> None:
        self._store.commits += 1
        async with asyncio.timeout(PATIENCE):
            if isinstance(self.producer, AdvancesLanes):
                assert not await self.producer.advance_lanes(batches)  # type: ignore[arg-type]  # items are enough
            else:
                for _, batch in batches:
                    assert not await self.producer.advance(batch)

    async def give_back(self, events: Sequence[Event]) -> None:
        assert isinstance(self.producer, Releases)
        await self.producer.release([event.payload for event in events])

    def pause(self, *lanes: Hashable) -> None:
        assert isinstance(self.producer, Pauses)
        self.producer.pause(lanes)

    def resume(self, *lanes: Hashable) -> None:
        assert isinstance(self.producer, Pauses)
        self.producer.resume(lanes)

    # Ending

    async def close(self) -> None:
        """Whatever was delivered and not settled is left as it is."""
        if self.is_closed:
            return
        self.is_closed = True
        async with asyncio.timeout(PATIENCE):
            if self._next is not None:
                self._next.cancel()
                await asyncio.wait({self._next})
            if self._polls is not None:
                await self._polls.aclose()  # type: ignore[attr-defined]  # all of them are generators
            await self.producer.aclose()
        if isinstance(self.producer, KeepsPlaces):
            self._store.places.update(self.producer.places())
        if self._expire is not None:
            await self._expire()
