"""The registry's client and the teacher, against a real server on loopback."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bridge.core.errors import Refused, Transient
from bridge.core.retry import Backoff
from bridge.decode.decoder import Decoder, decoder_of
from bridge.decode.json import DecodeFault
from bridge.decode.options import AvroOptions, Decoding, RegistryOptions
from bridge.runtime.clock import FakeClock, SystemClock
from bridge.runtime.schemas import ABSENT_FOR, SchemaRegistry, SchemaTeacher, UnusableSchema

LONG = '"long"'
NOT_FOUND = {"error_code": 40403, "message": "Schema not found"}
QUICK = Backoff(delay=0.01, factor=1.0, max=0.01, jitter=0.0)


class Server:
    """Answers by path: a dict is JSON with status 200, a pair has the status too, and a function is asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.raw_path)
        self.authorization.append(request.headers.get("Authorization"))
        answer = self.answers.get(request.raw_path, (404, NOT_FOUND))
        if callable(answer):
            answer = await answer()
        if isinstance(answer, web.StreamResponse):
            return answer
        status, content = answer if isinstance(answer, tuple) else (200, answer)
        return web.json_response(content, status=status)


async def serve(server: Server) -> web.AppRunner:
    app = web.Application()
    app.router.add_get("/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return runner


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    runner = await serve(server)
    yield server
    await runner.cleanup()


Client = Callable[..., SchemaRegistry]


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    made: list[SchemaRegistry] = []

    def make(clock: Any = None, url: str = "", **options: Any) -> SchemaRegistry:
        registry = SchemaRegistry(RegistryOptions(url or server.url, **options), clock or SystemClock())
        made.append(registry)
        return registry

    yield make
    for registry in made:
        await registry.aclose()


# What it gives


async def test_a_schema_is_asked_for_once_and_kept(server: Server, client: Client) -> None:
    server.answers["/schemas/ids/7"] = {"schema": LONG}
    registry = client()
    assert [await registry.fetch(7) for _ in range(3)] == [LONG] * 3
    assert server.asked == ["/schemas/ids/7"]


async def test_a_registry_may_stand_below_a_path(server: Server, client: Client) -> None:
    server.answers["/apis/ccompat/v7/schemas/ids/7"] = {"schema": LONG, "schemaType": "AVRO"}
    for base in ("/apis/ccompat/v7", "/apis/ccompat/v7/"):
        assert await client(url=server.url + base).fetch(7) == LONG


async def test_a_schema_that_is_not_there_is_asked_for_again_after_a_minute(server: Server, client: Client) -> None:
    clock = FakeClock()
    registry = client(clock)
    assert await registry.fetch(7) is None
    await clock.advance(ABSENT_FOR - 1)
    assert await registry.fetch(7) is None
    assert len(server.asked) == 1
    server.answers["/schemas/ids/7"] = {"schema": LONG}
    await clock.advance(2)
    assert await registry.fetch(7) == LONG
    assert len(server.asked) == 2


async def test_those_who_ask_for_one_schema_at_a_time_share_one_request(server: Server, client: Client) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> Any:
        asked.set()
        await go_on.wait()
        return {"schema": LONG}

    server.answers["/schemas/ids/7"] = slowly
    registry = client()
    asking = [asyncio.create_task(registry.fetch(7)) for _ in range(5)]
    await asked.wait()
    asking[0].cancel()  # and the others get their answer all the same
    go_on.set()
    assert await asyncio.gather(*asking[1:]) == [LONG] * 4
    assert len(server.asked) == 1


async def test_what_a_schema_refers_to_is_written_into_it(server: Server, client: Client) -> None:
    server.answers = {
        "/schemas/ids/7": {
            "schema": record("a.Order", {"name": "who", "type": "a.Customer"}),
            "references": [{"name": "a.Customer", "subject": "customers/eu", "version": 2}],
        },
        "/subjects/customers%2Feu/versions/2": {
            "subject": "customers/eu",
            "version": 2,
            "schema": record("a.Customer", {"name": "tier", "type": "a.Tier"}),
            "references": [{"name": "a.Tier", "subject": "tiers", "version": 1}],
        },
        "/subjects/tiers/versions/1": {"schema": json.dumps({"type": "enum", "name": "a.Tier", "symbols": ["X"]})},
    }
    schema = await client().fetch(7)
    assert schema is not None
    customer = json.loads(schema)["fields"][0]["type"]
    assert customer["fields"][0]["type"]["symbols"] == ["X"]


# What can't be used


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"schema": "syntax = 3", "schemaType": "PROTOBUF"}, "type 'PROTOBUF', and the stream declares avro"),
        ({"schema": " " * 1_100_000}, "larger than 1MiB"),
        ({"schema": "\t" * 1_100_000}, "larger than 1MiB"),
        ({"schema": LONG, "references": [{"name": "x", "subject": "s", "version": 1}]}, "'s', version 1, which"),
    ],
    ids=["kind", "size", "escaped size", "reference"],
)
async def test_a_schema_that_can_not_be_used_is_refused_for_good(
    server: Server, client: Client, answer: Any, words: str
) -> None:
    server.answers["/schemas/ids/7"] = answer
    registry = client()
    with pytest.raises(UnusableSchema, match=words):
        await registry.fetch(7)
    asked = len(server.asked)
    with pytest.raises(UnusableSchema, match="the schema with the id 7"):
        await registry.fetch(7)
    assert len(server.asked) == asked


async def test_a_schema_that_refers_to_itself_is_asked_for_once(server: Server, client: Client) -> None:
    loop = {"schema": record("a.A"), "references": [{"name": "a.A", "subject": "a", "version": 1}]}
    server.answers = {"/schemas/ids/7": loop, "/subjects/a/versions/1": loop}
    assert await client().fetch(7) is not None
    assert server.asked == ["/schemas/ids/7", "/subjects/a/versions/1"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_registry_that_lets_us_not_in_is_no_matter_of_waiting(
    server: Server, client: Client, status: int
) -> None:
    server.answers["/schemas/ids/7"] = (status, {})
    with pytest.raises(Refused, match=f"answers {status}: correct `username` and `password`, or `token`") as caught:
        await client(username="me", password="s3cret").fetch(7)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"error_code": 50001}), (503, {}), (429, {}), (400, {}), (404, {"error_code": 404}), (404, "<html>"),
        "<html>", {}, {"schema": 1}, (500, "x" * 3_000_000),
    ],
    ids=range(10),
)  # fmt: skip
async def test_any_other_answer_is_one_to_wait_for(server: Server, client: Client, answer: Any) -> None:
    server.answers["/schemas/ids/7"] = answer
    registry = client()
    with pytest.raises(Transient, match=r"the schema registry at http://127\.0\.0\.1"):
        await registry.fetch(7)
    server.answers["/schemas/ids/7"] = {"schema": LONG}
    assert await registry.fetch(7) == LONG


async def test_a_registry_may_say_how_long_to_wait(server: Server, client: Client) -> None:
    async def busy() -> web.StreamResponse:
        return web.json_response({}, status=503, headers={"Retry-After": "17"})

    server.answers["/schemas/ids/7"] = busy
    with pytest.raises(Transient) as caught:
        await client().fetch(7)
    assert caught.value.retry_after == 17


async def test_a_registry_that_is_not_there_or_does_not_answer_is_one_to_wait_for(
    server: Server, client: Client
) -> None:
    go_on = asyncio.Event()

    async def never() -> Any:
        await go_on.wait()
        return {}

    server.answers["/schemas/ids/7"] = never
    with pytest.raises(Transient, match=r"does not answer within 0\.1s"):
        await client(timeout=0.1).fetch(7)
    go_on.set()
    with pytest.raises(Transient, match="can't be reached"):
        await client(url="http://127.0.0.1:1").fetch(7)


async def test_a_schema_is_measured_when_it_is_unpacked(server: Server, client: Client) -> None:
    async def bomb() -> web.StreamResponse:
        return web.Response(body=gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"})

    server.answers["/schemas/ids/7"] = bomb
    with pytest.raises(UnusableSchema, match="larger than 1MiB"):
        await client().fetch(7)


# Credentials


async def test_credentials_are_sent_as_declared(server: Server, client: Client) -> None:
    for options in ({}, {"username": "me", "password": "ü:x"}, {"token": "t"}):
        await client(**options).fetch(7)
    await client(url=server.url.replace("//", "//you:p%40ss@")).fetch(7)
    basic = [f"Basic {base64.b64encode(text.encode()).decode()}" for text in ("me:ü:x", "you:p@ss")]
    assert server.authorization == [None, basic[0], "Bearer t", basic[1]]


async def test_credentials_in_the_url_show_up_in_no_message(server: Server, client: Client) -> None:
    with pytest.raises(Transient) as caught:
        await client(url="http://you:s3cret@127.0.0.1:1").fetch(7)
    assert "s3cret" not in str(caught.value)


async def test_a_redirect_is_followed_on_the_same_server_alone(server: Server, client: Client) -> None:
    other = Server()
    runner = await serve(other)

    def to(url: str) -> Callable[[], Any]:
        async def redirect() -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": url})

        return redirect

    server.answers = {
        "/schemas/ids/7": to("/elsewhere"),
        "/elsewhere": {"schema": LONG},
        "/schemas/ids/8": to(f"{other.url}/schemas/ids/8?x=s3cret"),
        "/schemas/ids/9": to("/schemas/ids/9"),
    }
    registry = client(username="me", password="x")
    assert await registry.fetch(7) == LONG
    with pytest.raises(Refused, match=f"set `url` to {other.url}") as caught:
        await registry.fetch(8)
    assert "s3cret" not in str(caught.value)
    assert other.asked == []
    with pytest.raises(Transient, match="redirects more than 3 times"):
        await registry.fetch(9)
    await runner.cleanup()


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://", "http://[::", "http://u:s3cret@h:99999"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Refused, match=r"`registry\.url` is no URL") as caught:
        SchemaRegistry(RegistryOptions(url), SystemClock())
    assert "s3cret" not in str(caught.value)


async def test_it_is_closed_at_any_time_and_twice(server: Server, client: Client) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    server.answers["/schemas/ids/7"] = never
    registry = client()
    asking = asyncio.create_task(registry.fetch(7))
    while not server.asked:  # noqa: ASYNC110  # the server is at the other end of a socket
        await asyncio.sleep(0.002)
    await registry.aclose()
    await registry.aclose()
    with pytest.raises(asyncio.CancelledError):
        await asking


# The teacher


def record(name: str, *fields: Any) -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def framed(schema_id: int, data: bytes = b"\x02") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + data


@pytest.fixture
def decoder() -> Decoder:
    decoding = Decoding("avro", avro=AvroOptions(registry=RegistryOptions("http://localhost")))
    decoder = decoder_of(decoding, max_body=1000, read=lambda path: b"")
    assert decoder is not None
    return decoder


def outcome(decoder: Decoder, body: bytes) -> str:
    try:
        return decoder.events(body).events[0].text.decode()
    except DecodeFault as error:
        return error.fault.error


async def test_a_poll_is_read_once_its_schemas_are_learned(server: Server, client: Client, decoder: Decoder) -> None:
    server.answers = {
        "/schemas/ids/1": {"schema": LONG},
        "/schemas/ids/2": {"schema": '"string"'},
        "/schemas/ids/3": {"schema": "{}", "schemaType": "JSON"},
        "/schemas/ids/4": {"schema": "{"},
    }
    poll = [
        framed(1),
        framed(2, b"\x02a"),
        b'{"plain": 1}',
        framed(1, b"\x04"),
        framed(3),
        framed(4),
        framed(5),
        b"\0ab",
    ]
    await SchemaTeacher(client(), SystemClock(), lambda: 0.0).prepare(decoder, poll)
    outcomes = [outcome(decoder, body) for body in poll]
    assert server.asked == [f"/schemas/ids/{n}" for n in (1, 2, 3, 4, 5)]
    assert outcomes[0] == "1"
    assert outcomes[1] == '"a"'
    assert "begins with the magic byte 0x00 and the id of a schema, this with 0x7b" in outcomes[2]
    assert outcomes[3] == "2"
    assert outcomes[4] == "the schema with the id 3 is of the type 'JSON', and the stream declares avro"
    assert outcomes[5].startswith("the schema with the id 4 is not JSON")
    assert outcomes[6] == "the registry knows no schema with the id 5"
    assert outcomes[7].startswith("3 bytes, too short for the id of a schema")


async def test_it_waits_for_a_registry_that_is_down_and_says_so_once(
    server: Server, client: Client, decoder: Decoder
) -> None:
    down = True

    async def sometimes() -> Any:
        return (503, {}) if down else {"schema": LONG}

    server.answers["/schemas/ids/1"] = sometimes
    teacher = SchemaTeacher(client(), SystemClock(), lambda: 0.0, QUICK)
    with capture_logs() as logs:
        preparing = asyncio.create_task(teacher.prepare(decoder, [framed(1)]))
        while len(server.asked) < 5:  # noqa: ASYNC110  # as above
            await asyncio.sleep(0.002)
        assert teacher.trouble is not None
        assert "answers 503" in teacher.trouble
        assert not preparing.done()
        down = False
        await preparing
    assert teacher.trouble is None
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
    assert outcome(decoder, framed(1)) == "1"


async def test_the_waits_grow_and_follow_what_the_registry_asks_for(decoder: Decoder) -> None:
    class Ailing(SchemaRegistry):
        async def fetch(self, schema_id: int) -> str | None:
            if errors:
                raise errors.pop(0)
            return LONG

    errors = [Transient("down"), Transient("down"), Transient("busy", retry_after=17), Transient("x", retry_after=9e9)]
    clock = FakeClock()
    registry = Ailing(RegistryOptions("http://localhost"), clock)
    teacher = SchemaTeacher(registry, clock, lambda: 0.0, Backoff(delay=1, factor=2, max=30, jitter=0))
    preparing = asyncio.create_task(teacher.prepare(decoder, [framed(1)]))
    waits = []
    for _ in range(4):
        await clock.settle()
        waits += clock.sleepers
        await clock.advance(clock.sleepers[0])
    await preparing
    assert waits == [1, 2, 17, 30]


async def test_a_refusal_ends_the_waiting(server: Server, client: Client, decoder: Decoder) -> None:
    server.answers["/schemas/ids/1"] = (401, {})
    with pytest.raises(Refused):
        await SchemaTeacher(client(), SystemClock(), lambda: 0.0).prepare(decoder, [framed(1)])


async def test_a_teacher_that_was_closed_asks_for_nothing_more(
    server: Server, client: Client, decoder: Decoder
) -> None:
    """Or a replay that waits while the stream stops would leave connections behind."""
    server.answers["/schemas/ids/1"] = {"schema": LONG}
    teacher = SchemaTeacher(client(), SystemClock(), lambda: 0.0)
    await teacher.prepare(decoder, [framed(1)])
    await teacher.aclose()
    await teacher.aclose()
    await teacher.prepare(decoder, [framed(1)])
    assert outcome(decoder, framed(1)) == "1"
    with pytest.raises(Refused, match="closed"):
        await teacher.prepare(decoder, [framed(2)])
    assert server.asked == ["/schemas/ids/1"]


async def test_one_who_gives_up_waiting_takes_nothing_from_what_is_said_of_those_who_wait(
    server: Server, client: Client, decoder: Decoder
) -> None:
    server.answers["/schemas/ids/1"] = (503, {})
    teacher = SchemaTeacher(client(), SystemClock(), lambda: 0.0, QUICK)
    waiting = asyncio.create_task(teacher.prepare(decoder, [framed(1)]))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await teacher.prepare(decoder, [framed(1)])
    assert "503" in str(teacher.trouble)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert teacher.trouble is None


async def test_an_id_that_no_schema_can_have_is_not_asked_for(server: Server, client: Client, decoder: Decoder) -> None:
    """A registry answers to one that is no signed integer with an error that decides nothing."""
    server.answers["/schemas/ids/4294967295"] = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})
    await SchemaTeacher(client(), SystemClock(), lambda: 0.0).prepare(decoder, [framed(2**32 - 1), framed(2**31)])
    assert server.asked == []
    assert outcome(decoder, framed(2**31)) == "no schema has the id 2147483648: the largest is 2147483647"


async def test_nothing_is_asked_for_a_poll_that_takes_no_schema(server: Server, client: Client) -> None:
    gunzipping = decoder_of(Decoding(wrappers=("gzip",)), max_body=10, read=lambda path: b"")
    assert gunzipping is not None
    await SchemaTeacher(client(), SystemClock(), lambda: 0.0).prepare(gunzipping, [framed(1), b""])
    assert server.asked == []
