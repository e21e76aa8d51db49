"""Every connector behind one door: what it can do, how its broker is filled and looked at, and who drives it.

A new connector adds its own: a class in brokers.py that is a `Broker` (promises.py), and a line in `BROKERS`. What it
lacks is said in its `Features`, and the sentences that ask for it are skipped.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.contract.connectors.brokers import Files, Kafka, Lines, Memory
from tests.contract.connectors.driving import Life, Store
from tests.contract.connectors.promises import MEBIBYTE, Broker

if TYPE_CHECKING:
    from bench.brokers.fixtures import NewTopic


async def _kafka(request: pytest.FixtureRequest) -> Broker:
    bootstrap: str = request.getfixturevalue("kafka").bootstrap
    topic: NewTopic = request.getfixturevalue("topic")
    return Kafka(bootstrap, await topic(Kafka.features.lanes, max_message_bytes=2 * MEBIBYTE))


async def _memory(_request: pytest.FixtureRequest) -> Broker:
    return Memory()


async def _files(request: pytest.FixtureRequest) -> Broker:
    return Files(request.getfixturevalue("tmp_path") / "drop")


async def _lines_of_files(request: pytest.FixtureRequest) -> Broker:
    return Lines(request.getfixturevalue("tmp_path") / "drop")


BROKERS: Final[Mapping[str, Callable[[pytest.FixtureRequest], Any]]] = {
    "memory": _memory,
    "directory": _files,
    "directory, lines": _lines_of_files,
    "kafka": _kafka,
}
_PARAMS: Final = [pytest.param(n, marks=pytest.mark.integration if n == "kafka" else ()) for n in BROKERS]


@pytest.fixture(params=_PARAMS)
async def broker(request: pytest.FixtureRequest) -> Broker:
    made: Broker = await BROKERS[request.param](request)
    return made


@pytest.fixture
async def live(broker: Broker) -> AsyncIterator[Callable[[], Life]]:
    """Begins lives of the broker's reader, which share a store; those still open at the end are closed."""
    store = Store()
    lives: list[Life] = []

    def begin() -> Life:
        lives.append(Life(broker.producer(), store))
        return lives[-1]

    yield begin
    for life in lives:
        await life.close()
