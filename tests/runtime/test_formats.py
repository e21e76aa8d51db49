"""Streams that declare another format than JSON, through the real shell: both kinds of watchers see the same events."""

from __future__ import annotations

import io
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import fastavro
import pytest
from aiohttp import web

from bridge.core.retry import Backoff
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.options import AvroOptions, Decoding, RegistryOptions
from bridge.runtime.clock import SystemClock
from bridge.runtime.schemas import SchemaRegistry, SchemaTeacher
from bridge.shared_stream import current_message
from bridge.triggers import TriggerEvent

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "region", "type": "string"}, {"name": "n", "type": "long"}],
}
QUICK = Backoff(delay=0.01, factor=1.0, max=0.01, jitter=0.0)


def framed(schema_id: int, **fields: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), fields)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def declared(**options: Any) -> Decoder:
    decoder = decoder_of(Decoding(**options), max_body=1 << 20, read=lambda _: b"")
    assert decoder is not None
    return decoder


class Registry:
    """A schema registry that knows one schema, and is away for as long as `is_down`."""

    def __init__(self) -> None:
        self.is_down = True
        self.asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.is_down:
            return web.json_response({}, status=503)
        if request.path != "/schemas/ids/7":
            return web.json_response({"error_code": 40403}, status=404)
        return web.json_response({"schema": json.dumps(ORDER)})


@pytest.fixture
async def registry() -> AsyncIterator[tuple[Registry, str]]:
    served = Registry()
    app = web.Application()
    app.router.add_get("/{path:.*}", served.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield served, f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def with_registry(rig: Any, url: str) -> None:
    options = RegistryOptions(url)
    rig.decoder = declared(format="avro", avro=AvroOptions(registry=options))
    clock = SystemClock()
    rig.teacher = SchemaTeacher(SchemaRegistry(options, clock), clock, lambda: 0.0, QUICK)


async def test_a_registry_that_is_down_holds_the_stream_and_dead_letters_nothing(
    rig: Any, until: Any, registry: tuple[Registry, str]
) -> None:
    served, url = registry
    with_registry(rig, url)
    rig.declare("eu", {"region": "eu"}, {"n": "${event.n}"})
    rig.broker.send([framed(7, region="eu", n=1), framed(7, region="us", n=2), framed(9, region="eu", n=3), b"{}"])
    await rig.start()
    await until(lambda: served.asked > 3)
    assert "503" in rig.stream.status(0.0)["trouble"]
    assert not rig.runs
    assert not rig.letters
    assert not rig.broker.settled
    served.is_down = False
    await rig.drained()
    assert rig.runs == ["eu/memory/lane:0/0"]
    assert rig.letters == [("*", "lane:2", "framing"), ("*", "lane:3", "framing")]
    assert rig.stream.status(0.0)["trouble"] is None


async def test_replays_that_wait_for_a_registry_hold_up_neither_each_other_nor_the_stream(
    rig: Any, registry: tuple[Registry, str], until: Any
) -> None:
    served, url = registry
    served.is_down = False
    with_registry(rig, url)
    rig.declare("eu", {"region": "eu"}, {"n": "${event.n}"})
    rig.broker.send([framed(100 + n, region="eu", n=n) for n in range(20)])  # ids that it doesn't know
    await rig.start()
    await rig.drained()
    letters = rig.store.tables.letters.values()
    assert {x.row.reason for x in letters} == {"framing"}
    served.is_down = True
    rig.teacher._registry._absent.clear()  # a minute later
    for letter in letters:
        letter.state = "replaying"
    began = time.monotonic()
    await rig.stream.replay()
    assert time.monotonic() - began < 3  # of all together, and not a second each: `disable` waits behind them
    assert {x.state for x in letters} == {"replaying"}
    assert len(rig.broker.settled) == 20
    served.is_down = False
    await rig.stream.replay()
    await until(lambda: {x.state for x in letters} == {"dead"})


async def test_a_stop_while_the_registry_is_away_is_prompt_and_leaves_no_connection(
    rig: Any, registry: tuple[Registry, str], until: Any
) -> None:
    served, url = registry
    with_registry(rig, url)
    rig.declare("eu", {"region": "eu"})
    rig.broker.send([framed(7, region="eu", n=1)])
    await rig.start()
    await until(lambda: served.asked)
    began = time.monotonic()
    assert await rig.stop()
    assert time.monotonic() - began < 2
    assert rig.teacher._registry._session is None
    assert not rig.teacher._registry._asking
    assert not rig.broker.settled


async def test_a_python_filter_is_given_what_the_decoder_made(rig: Any, registry: tuple[Registry, str]) -> None:
    served, url = registry
    served.is_down = False
    with_registry(rig, url)
    seen: list[Any] = []

    async def filter(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for event in stream:
            seen.append(event)
            yield TriggerEvent({"n": event["n"]})

    rig.python("python", filter)
    rig.broker.send([framed(7, region="eu", n=1), framed(7, region="us", n=2)])
    await rig.start()
    await rig.drained()
    assert seen == [{"region": "eu", "n": 1}, {"region": "us", "n": 2}]
    assert rig.runs == ["python/memory/lane:0/0", "python/memory/lane:1/0"]


def notification(*names: str) -> bytes:
    records = [{"eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "s3": {"object": {"key": n}}} for n in names]
    return json.dumps({"Records": records}).encode()


async def test_each_event_of_a_message_is_a_run_of_its_own_and_the_message_is_settled_once(rig: Any) -> None:
    rig.decoder = declared(unwrap=("s3",))
    positions: list[tuple[str, str]] = []

    async def filter(stream: Any) -> AsyncIterator[TriggerEvent]:
        async for record in stream:
            message = current_message()
            assert message is not None
            positions.append((message.identity, record["s3"]["object"]["key"]))
            if record["s3"]["object"]["key"] != "b":
                yield TriggerEvent({"key": record["s3"]["object"]["key"]})

    rig.python("python", filter)
    rig.declare("declared", {"eventName": {"prefix": "ObjectCreated:"}}, {"key": "${event.s3.object.key}"})
    test_event = json.dumps({"Event": "s3:TestEvent", "Service": "Amazon S3", "Bucket": "b"}).encode()
    rig.broker.send([test_event, notification("a", "b", "c")])
    await rig.start()
    await rig.drained()
    assert positions == [("lane:1", "a"), ("lane:1", "b"), ("lane:1", "c")]
    assert rig.runs == [
        *(f"declared/memory/lane:1/{n}" for n in range(3)),
        *(f"python/memory/lane:1/{n}" for n in range(2)),
    ]
    assert not rig.letters
    assert rig.broker.settlements == 2
    assert rig.stream.status(0.0)["ignored"] == {"test event": 1}
