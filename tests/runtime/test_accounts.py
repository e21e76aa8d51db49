"""What producers give account of: places that the store keeps, ledgers that they are given, reports for people."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from bridge.core.errors import Refused, Transient
from bridge.ports import Ledger, Letter
from bridge.runtime.accounts import Meant
from bridge.runtime.clock import SystemClock
from bridge.runtime.dispatcher import Dispatcher
from bridge.runtime.persister import Persister
from bridge.runtime.process import Process, ProcessSpec
from bridge.runtime.supervisor import StreamSpec
from bridge.store.memory import MemoryStore
from bridge.testing import MemoryBroker, MemoryProducer


class Keeping(MemoryProducer):
    """Its places are how many messages of each lane are settled. `failing`: polls end so, once each."""

    def __init__(self, broker: MemoryBroker, failing: list[Exception]) -> None:
        super().__init__(broker)
        self.failing = failing
        self.ledger: Ledger | None = None
        self.told: dict[str, object] = {}
        self.breaks = False

    def take_ledger(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def places(self) -> Mapping[str, str]:
        if self.breaks:
            raise KeyError("a defect")
        lanes = {str(place.lane) for place in self.broker.settled}
        return {lane: str(sum(place.lane == lane for place in self.broker.settled)) for lane in lanes}

    def report(self) -> Mapping[str, object]:
        if self.breaks:
            raise KeyError("a defect")
        return self.told

    async def open_batches(self) -> Any:
        if self.failing:
            raise self.failing.pop(0)
        async for poll in super().open_batches():
            yield poll
            if self.failing:
                raise self.failing.pop(0)


class Stage:
    """The rig with producers that keep places. `failing`: how the next lives of the group end."""

    def __init__(self, rig: Any) -> None:
        self.rig = rig
        self.failing: list[Exception] = []
        rig.producer = lambda: Keeping(rig.broker, self.failing)
        rig.declare("w", {"n": {">=": 0}})

    async def start(self, **meant: bool) -> None:
        await self.rig.start()
        self.rig.stream.spec = msgspec.structs.replace(self.rig.stream.spec, meant=Meant(**meant))

    @property
    def producer(self) -> Keeping:
        producer: Keeping = self.rig.producers[-1]
        return producer

    @property
    def ledger(self) -> Ledger:
        assert self.producer.ledger is not None
        return self.producer.ledger

    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.rig.stream.status(0.0)
        return status


@pytest.fixture
def stage(rig: Any) -> Stage:
    return Stage(rig)


async def test_a_producer_that_keeps_places_has_a_ledger_before_its_stream_opens(stage: Stage, until: Any) -> None:
    await stage.rig.store.heartbeat(b"{}", {"stream": {"lane": "3"}, "another": {"lane": "9"}})
    stage.rig.broker.send([b'{"n":1}'])
    await stage.start()
    await stage.rig.drained()
    ledger = stage.ledger
    assert (ledger.store, dict(ledger.places)) == (stage.rig.store.store_id, {"lane": "3"})
    assert (ledger.rewind, ledger.accept) == (False, False)
    assert ledger.sequence() == stage.rig.store.sequence > 0


async def test_going_back_is_asked_for_until_a_message_has_come_and_acceptance_holds_on(
    stage: Stage, until: Any
) -> None:
    stage.failing = [Transient("no broker")]
    await stage.start(rewind=True, accept=True)
    await until(lambda: len(stage.rig.producers) == 2 and stage.producer.ledger is not None)
    assert (stage.ledger.rewind, stage.ledger.accept) == (True, True)
    stage.rig.broker.send([b'{"n":1}'])
    await stage.rig.drained()
    stage.failing.append(Transient("the broker is gone"))
    stage.rig.broker.send([b'{"n":2}'])
    await until(lambda: len(stage.rig.producers) == 3 and stage.producer.ledger is not None)
    assert (stage.ledger.rewind, stage.ledger.accept) == (False, True)
    await stage.rig.drained()


async def test_every_life_is_given_the_places_as_they_are_by_then(stage: Stage, until: Any) -> None:
    await stage.start()
    stage.rig.broker.send([b'{"n":1}', b'{"n":2}'])
    await stage.rig.drained()
    await stage.rig.store.heartbeat(b"{}", {"stream": stage.rig.stream.places()})
    stage.failing.append(Transient("the broker is gone"))
    stage.rig.broker.send([b'{"n":3}'])
    await until(lambda: len(stage.rig.producers) == 2 and stage.producer.ledger is not None)
    assert dict(stage.ledger.places) == {"lane": "2"}
    await stage.rig.drained()


async def test_places_outlive_the_producer_that_told_them(stage: Stage) -> None:
    await stage.start()
    assert stage.rig.stream.places() == {}
    stage.rig.broker.send([b'{"n":1}', b'{"n":2}'])
    await stage.rig.drained()
    assert await stage.rig.stop()
    assert stage.rig.stream.places() == {"lane": "2"}


async def test_a_report_is_part_of_the_status_and_its_trouble_is_the_streams(stage: Stage, until: Any) -> None:
    await stage.start()
    await until(lambda: stage.rig.producers and stage.rig.stream.state == "running")
    assert "report" not in stage.status()
    stage.producer.told = {"lag": {"orders": 7}}
    assert (stage.status()["report"], stage.status()["trouble"]) == ({"lag": {"orders": 7}}, None)
    stage.producer.told = {"trouble": "records 3 to 9 were deleted before they were read"}
    assert stage.status()["trouble"] == "records 3 to 9 were deleted before they were read"


@pytest.mark.parametrize("report", [{"lag": object()}, {1j: 2}])
async def test_a_producer_whose_accounts_are_broken_is_shown_and_stops_nothing(
    stage: Stage, until: Any, report: dict[str, object]
) -> None:
    await stage.start()
    await until(lambda: stage.rig.producers and stage.rig.stream.state == "running")
    stage.producer.told = report
    assert "can't report" in stage.status()["trouble"]
    stage.producer.breaks = True
    assert "a defect" in stage.status()["trouble"]
    assert stage.rig.stream.places() == {}
    stage.rig.broker.send([b'{"n":1}'])
    await stage.rig.drained()
    msgspec.json.encode(stage.status())


# The process ---------------------------------------------------------------------------------------------------------


class Place:
    """A relay to a list."""

    def __init__(self, *openings: Exception) -> None:
        self.openings = list(openings)
        self.copies: list[str] = []
        self.closed = 0

    async def open(self) -> None:
        if self.openings:
            raise self.openings.pop(0)

    async def send(self, letters: Sequence[Letter]) -> Sequence[Exception | None]:
        self.copies += [letter.identity for letter in letters]
        return [None] * len(letters)

    async def aclose(self) -> None:
        self.closed += 1


class Plant:
    """A process with one stream of the rig's, on a store in memory."""

    def __init__(self, stage: Stage, *places: Place) -> None:
        clock = SystemClock()
        self.store = MemoryStore()
        persister = Persister(self.store, clock, lambda: 0.0)
        base = rig_spec(stage)
        streams = [msgspec.structs.replace(base, name=f"s{n}", relay=place) for n, place in enumerate(places)]
        spec = ProcessSpec(streams or [base], frozenset(), heartbeat=3600.0, stop_timeout=10.0)
        dispatcher = Dispatcher(self.store, persister, {}, clock, lambda: 0.0)
        self.process = Process(spec, self.store, persister, dispatcher, clock, lambda: 0.0)
        self.task: asyncio.Task[int] | None = None

    def start(self) -> None:
        self.task = asyncio.create_task(self.process.run())

    async def stop(self) -> int:
        assert self.task is not None
        self.process.request_stop()
        return await self.task


def rig_spec(stage: Stage) -> StreamSpec:
    rig = stage.rig
    return StreamSpec("stream", "memory", "memory", rig._produce, rig._router, (), ("w",), rig.limits)


async def test_a_clean_stop_leaves_the_places_as_they_are_at_the_end(stage: Stage) -> None:
    plant = Plant(stage)
    plant.start()
    stage.rig.broker.send([b'{"n":1}', b'{"n":2}', b'{"n":3}'])
    await stage.rig.drained()
    assert await plant.stop() == 0
    assert plant.store.tables.places == {"stream": {"lane": "3"}}


async def test_dead_letters_of_a_stream_with_a_place_are_copied_there(stage: Stage, until: Any) -> None:
    place = Place()
    plant = Plant(stage, place)
    await plant.process.open_relays()
    plant.start()
    stage.rig.broker.send([b"no JSON", b'{"n":1}'])
    await until(lambda: len(place.copies) == 1)
    status: Any = plant.process.status()
    await until(lambda: plant.process.status()["streams"]["s0"]["relay"]["relayed"] == 1)  # type: ignore[index]
    assert (status["healthy"], status["streams"]["s0"]["relay"]["trouble"]) == (True, None)
    assert await plant.stop() == 0
    assert place.closed == 1


async def test_a_relay_in_trouble_says_so_and_its_stream_goes_on(stage: Stage) -> None:
    place = Place(*[Transient("no broker")] * 99)
    plant = Plant(stage, place)
    await plant.process.open_relays()
    plant.start()
    stage.rig.broker.send([b"no JSON", b'{"n":1}'])
    await stage.rig.drained()
    status: Any = plant.process.status()
    assert (status["healthy"], status["streams"]["s0"]["trouble"]) == (True, None)
    assert status["streams"]["s0"]["relay"]["trouble"] == "no broker"
    assert await plant.stop() == 0


async def test_a_start_is_refused_with_every_place_that_can_not_be_used_and_leaves_nothing_open(stage: Stage) -> None:
    places = [Place(Refused("no topic a")), Place(), Place(Refused("no topic b")), Place(Transient("away"))]
    plant = Plant(stage, *places)
    with pytest.raises(Refused) as refused:
        await plant.process.open_relays()
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["stream 's0'", "stream 's2'"]
    assert [place.closed for place in places] == [1, 1, 1, 1]


async def test_a_stream_that_is_opened_again_and_again_is_in_trouble_until_something_comes(
    stage: Stage, until: Any
) -> None:
    """An opening may wait long for a broker that is away: between two failures the stream is not well."""
    stage.failing = [Transient("no broker")]
    await stage.start()
    await until(lambda: len(stage.rig.producers) == 2 and stage.rig.stream.state == "running")
    assert stage.status()["trouble"] == "Transient: no broker"
    stage.rig.broker.send([b'{"n":1}'])
    await stage.rig.drained()
    assert stage.status()["trouble"] is None


async def test_a_quiet_stream_that_was_opened_again_is_well_after_a_while(stage: Stage, until: Any) -> None:
    stage.failing = [Transient("no broker")]
    await stage.start()
    await until(lambda: len(stage.rig.producers) == 2 and stage.rig.stream.state == "running")
    assert stage.rig.stream.status(SystemClock().monotonic() + 61.0)["trouble"] is None


async def test_lanes_that_are_ours_are_a_sign_that_the_broker_is_there(
    rig: Any, until: Any, lane_producer: Any
) -> None:
    rig.declare("w", {"n": {">=": 0}})
    rig.producer = lambda: lane_producer(rig.broker)
    await rig.start()
    await until(lambda: rig.producers and rig.stream.state == "running")
    rig.stream.shell.fail(OSError("the broker went away"))
    await until(lambda: len(rig.producers) == 2 and rig.stream.state == "running")
    assert rig.stream.status(0.0)["trouble"] == "OSError: the broker went away"
    rig.broker.send([], "lane")
    await until(lambda: rig.stream.status(0.0)["trouble"] is None)
    assert rig.stream.shell.core.tally.received == 0
