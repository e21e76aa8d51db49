"""Code written for Airflow 3.3's shared streams runs here once its imports are changed, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from connectors.python import KIND

WRITTEN_FOR_AIRFLOW = """
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, SharedStreamProducer, reject_shared_stream_event

COMMITTED: list[tuple[int, bool]] = []


class Numbers(SharedStreamProducer):
    def __init__(self, upto: int) -> None:
        self.upto = upto

    async def open_stream(self) -> AsyncIterator[tuple[Any, Any]]:
        for n in range(self.upto):
            yield {"n": n}, ("numbers", n)
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    def get_advance_lane(self, broker_payload: Any) -> Hashable:
        return broker_payload[0]

    async def advance(self, batch: Sequence[AdvanceItem]) -> None:
        for payload, outcome in batch:
            COMMITTED.append((payload[1], outcome.is_clean))

    async def aclose(self) -> None:
        COMMITTED.append((-1, True))


class EvenNumbers(BaseEventTrigger):
    def __init__(self, upto: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.upto = upto

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return ("numbers.EvenNumbers", {"upto": self.upto})

    def shared_stream_key(self) -> Hashable:
        return ("numbers", self.upto)

    @classmethod
    def create_shared_stream_producer(cls, kwargs: dict[str, Any]) -> SharedStreamProducer:
        return Numbers(kwargs["upto"])

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Any]) -> AsyncIterator[TriggerEvent]:
        async for event in shared_stream:
            if event["n"] == 3:
                self.log.info("refusing %s", event["n"])
                reject_shared_stream_event()
            elif event["n"] % 2 == 0:
                yield TriggerEvent({"even": event["n"]})

    async def run(self) -> AsyncIterator[TriggerEvent]:
        raise NotImplementedError
        yield
"""


@pytest.fixture
def numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with its imports changed."""
    source = WRITTEN_FOR_AIRFLOW.replace("airflow.triggers.base", "bridge.triggers").replace(
        "airflow.triggers.shared_stream", "bridge.shared_stream"
    )
    (tmp_path / "numbers_for_airflow.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    import numbers_for_airflow

    yield numbers_for_airflow
    del sys.modules["numbers_for_airflow"]


async def test_a_trigger_and_its_producer_written_for_airflow_run(rig: Any, until: Any, numbers: Any) -> None:
    options = KIND.options(import_path="numbers_for_airflow:EvenNumbers", kwargs={"upto": 6})
    assert list(KIND.check(options)) == []
    rig.producer = lambda: KIND.build(options)
    trigger = numbers.EvenNumbers(upto=6)
    rig.python("even", trigger.filter_shared_stream)
    await rig.start()
    await until(lambda: len(numbers.COMMITTED) == 6)
    assert numbers.COMMITTED == [(0, True), (1, True), (2, True), (3, False), (4, True), (5, True)]
    runs = rig.store.tables.runs.values()
    assert sorted(run.row.run.params for run in runs) == [b'{"even":0}', b'{"even":2}', b'{"even":4}']
    assert [reason for _, _, reason in rig.letters] == ["rejected"]
    await rig.stop()
    assert numbers.COMMITTED[-1] == (-1, True)
