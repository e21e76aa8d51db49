"""The schemas of framed Avro bodies: asked of a registry that speaks Confluent's API, kept, and taught to a decoder.

A registry that doesn't answer decides about no message: the stream waits for it. It decides only where it says that it
has no such schema, or gives one that can't be used.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Struct, field

from bridge.core.errors import Refused, Transient
from bridge.core.retry import Backoff
from bridge.core.units import format_size
from bridge.decode.decoder import Decoder
from bridge.decode.options import RegistryOptions
from bridge.ports import Clock

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

log = structlog.get_logger("headrace.schemas")

ABSENT_FOR: Final = 60.0
"""Seconds for which a registry's word that it has no such schema is believed."""

LARGEST: Final = 1024 * 1024
"""Bytes of a schema."""

_MOST_ABSENT: Final = 10_000
_MOST_REFERENCES: Final = 100
_MOST_REDIRECTS: Final = 3
_AT_ONCE: Final = 8
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_NOT_FOUND: Final = frozenset({40401, 40402, 40403})  # a subject, a version, a schema
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


class UnusableSchema(Refused):
    """The registry has the schema, and nothing can be read with it: it is too big, say, or of another kind."""


class _Reference(Struct):
    subject: str
    version: int


class _Answer(Struct):
    schema: str
    kind: str | None = field(default=None, name="schemaType")
    references: list[_Reference] | None = None


class _Trouble(Struct):
    error_code: int = 0


class SchemaRegistry:
    """A client of one registry. Raises Refused where aiohttp is not installed or the URL is none."""

    def __init__(self, options: RegistryOptions, clock: Clock) -> None:
        try:
            from aiohttp import ClientTimeout
            from yarl import URL
        except ImportError as error:
            raise Refused(
                f"a schema registry needs a package that is not there ({error}): pip install headrace[avro]"
            ) from error
        try:
            url = URL(options.url)
        except ValueError as error:
            raise Refused("`registry.url` is no URL: write it like http://localhost:8081") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise Refused("`registry.url` is no URL of a server: write it like http://localhost:8081")
        self._base = url.with_user(None).with_query(None).with_fragment(None)
        self._authorization = _authorization(options, url)
        self._timeout = ClientTimeout(total=options.timeout)
        self._clock = clock
        self._session: ClientSession | None = None
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._asking: dict[int, asyncio.Task[str | None]] = {}
        self._known: dict[int, str] = {}
        self._unusable: dict[int, str] = {}
        self._absent: dict[int, float] = {}
        self._is_closed = False

    async def fetch(self, schema_id: int) -> str | None:
        """The schema as JSON text, complete in itself. None: the registry has none with this id.

        Raises Transient (ask again), UnusableSchema (never will be), and Refused where it lets us not in, or where this
        client was closed. Ids are for ever, so what was found is kept for ever; that there is none, for a minute.
        """
        if schema_id in self._known:
            return self._known[schema_id]
        if schema_id in self._unusable:
            raise UnusableSchema(self._unusable[schema_id])
        if self._absent.get(schema_id, 0.0) > self._clock.monotonic():
            return None
        if self._is_closed:
            raise Refused("the client of the schema registry is closed")
        asking = self._asking.get(schema_id)
        if asking is None:
            asking = self._asking[schema_id] = asyncio.create_task(self._ask(schema_id))
            asking.add_done_callback(lambda task: self._asked(schema_id, task))
        return await asyncio.shield(asking)

    async def aclose(self) -> None:
        """For good: requests under way are cancelled, and no other begins. May be called twice."""
        self._is_closed = True
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _asked(self, schema_id: int, task: asyncio.Task[str | None]) -> None:
        self._asking.pop(schema_id, None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone: then nobody else looks at it

    async def _ask(self, schema_id: int) -> str | None:
        about = f"the schema with the id {schema_id}"
        try:
            answer = await self._get(f"schemas/ids/{schema_id}", about)
            schema = None if answer is None else await self._completed(answer, about)
        except UnusableSchema as error:
            self._unusable[schema_id] = str(error)
            raise
        if schema is None:
            self._absent.pop(schema_id, None)
            self._absent[schema_id] = self._clock.monotonic() + ABSENT_FOR
            if len(self._absent) > _MOST_ABSENT:
                del self._absent[next(iter(self._absent))]
        else:
            self._known[schema_id] = schema
        return schema

    # References: schemas of other subjects, whose named types a schema takes

    async def _completed(self, answer: _Answer, about: str) -> str:
        texts: list[bytes] = []
        await self._refer(answer, texts, set(), about)
        if len(texts) == 1:
            return answer.schema
        from bridge.decode.avro_schema import BadSchema, schemas_of

        try:
            return msgspec.json.encode(schemas_of(texts)[-1]).decode()
        except BadSchema as error:
            raise UnusableSchema(f"{about}, with what it refers to, {error}") from error

    async def _refer(self, answer: _Answer, texts: list[bytes], seen: set[tuple[str, int]], about: str) -> None:
        """Appends the schema, behind everything that it refers to."""
        if answer.kind not in (None, "", "AVRO"):
            raise UnusableSchema(f"{about} is of the type {answer.kind[:40]!r}, and the stream declares avro")
        for reference in answer.references or ():
            key = (reference.subject, reference.version)
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > _MOST_REFERENCES:
                raise UnusableSchema(f"{about} refers to more than {_MOST_REFERENCES} others")
            subject = quote(reference.subject, safe="")
            other = await self._get(f"subjects/{subject}/versions/{reference.version}", about)
            if other is None:
                raise UnusableSchema(f"{about} refers to {key[0]!r}, version {key[1]}, which the registry has not")
            await self._refer(other, texts, seen, about)
        texts.append(answer.schema.encode())

    # HTTP

    async def _get(self, path: str, about: str) -> _Answer | None:
        """None: the registry has no such thing. Errors as in `fetch`."""
        from aiohttp import ClientError

        url = self._base.joinpath(*path.split("/"), encoded=True)
        try:
            async with self._slots:
                for _ in range(_MOST_REDIRECTS + 1):
                    async with self._open().get(url, allow_redirects=False) as response:
                        if response.status not in _REDIRECTS:
                            return await self._read(response, about)
                        url = self._onward(response)
        except TimeoutError as error:
            raise Transient(f"{self._where} does not answer within {self._timeout.total}s") from error
        except ClientError as error:
            raise Transient(f"{self._where} can't be reached: {type(error).__name__}: {error}") from error
        raise Transient(f"{self._where} redirects more than {_MOST_REDIRECTS} times: is `url` right?")

    async def _read(self, response: ClientResponse, about: str) -> _Answer | None:
        status = response.status
        if status in (401, 403):
            raise Refused(f"{self._where} answers {status}: correct `username` and `password`, or `token`")
        body = await _limited(response)
        if body is None:
            if status == 200:
                raise _too_big(about)
            raise Transient(f"{self._where} answers {status}, at great length")
        try:
            if status == 200:
                answer = msgspec.json.decode(body, type=_Answer)
                if len(answer.schema) > LARGEST:
                    raise _too_big(about)
                return answer
            if status == 404 and msgspec.json.decode(body, type=_Trouble).error_code in _NOT_FOUND:
                return None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Transient(
                f"{self._where} answers {status}, and not as a schema registry does: is `url` right?"
            ) from error
        hint = ", and not as a schema registry does: is `url` right?" if 400 <= status < 500 and status != 429 else ""
        raise Transient(f"{self._where} answers {status}{hint}", retry_after=_retry_after(response))

    def _onward(self, response: ClientResponse) -> URL:
        """Where a redirect leads, if that is the same server: no other one gets to see the credentials."""
        from yarl import URL

        try:
            to = response.url.join(URL(response.headers.get("Location", "")))
            origin = to.origin()
        except ValueError as error:
            raise Transient(f"{self._where} redirects to no URL") from error
        if origin != self._base.origin():
            raise Refused(f"{self._where} redirects to another server: if that is the registry, set `url` to {origin}")
        return to

    def _open(self) -> ClientSession:
        if self._session is None:
            from aiohttp import ClientSession, DummyCookieJar

            self._session = ClientSession(
                headers={"Accept": _ACCEPT, **self._authorization},
                timeout=self._timeout,
                cookie_jar=DummyCookieJar(),
            )
        return self._session

    @property
    def _where(self) -> str:
        return f"the schema registry at {self._base}"


def _authorization(options: RegistryOptions, url: URL) -> dict[str, str]:
    if options.token:
        return {"Authorization": f"Bearer {options.token}"}
    user = options.username or url.user or ""
    password = options.password if options.username else url.password or ""
    if not user:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


async def _limited(response: ClientResponse) -> bytes | None:
    """The body of an answer, None where it is too long. A schema is longer there than by itself: a text within JSON."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > 2 * LARGEST:
            return None
    return bytes(body)


def _too_big(about: str) -> UnusableSchema:
    return UnusableSchema(f"{about} is larger than {format_size(LARGEST)}")


def _retry_after(response: ClientResponse) -> float | None:
    """Seconds; the other form, a date, is not read."""
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isascii() and value.isdigit() and len(value) < 6 else None


class SchemaTeacher:
    """Sees to it that a decoder knows the schemas of a poll before it reads it. `trouble`: why that takes so long."""

    def __init__(
        self, registry: SchemaRegistry, clock: Clock, roll: Callable[[], float], backoff: Backoff | None = None
    ) -> None:
        self.trouble: str | None = None
        self._registry = registry
        self._clock = clock
        self._roll = roll
        self._backoff = backoff or Backoff(delay=0.5, factor=2.0, max=30.0, jitter=0.5)
        self._waiting = 0  # a poll, and beside it replays, which come and go while it still waits

    async def prepare(self, decoder: Decoder, bodies: Sequence[bytes]) -> None:
        """Asks for each schema that the bodies take, once, for as long as the registry can't be reached.

        One after the other: a registry that is back has its peace. Raises Refused where it lets us not in.
        """
        # To look behind gzip takes as long as to unpack it.
        needed = await asyncio.to_thread(_needed, decoder, bodies) if decoder.unpacks else _needed(decoder, bodies)
        self._waiting += 1
        try:
            for schema_id in needed:
                await self._teach(decoder, schema_id)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self.trouble = None

    async def aclose(self) -> None:
        """Closes the connections to the registry, for good. May be called twice."""
        await self._registry.aclose()

    async def _teach(self, decoder: Decoder, schema_id: int) -> None:
        attempts = 0
        while True:
            try:
                schema = await self._registry.fetch(schema_id)
            except UnusableSchema as error:
                return decoder.learn(schema_id, None, str(error))
            except Transient as error:
                attempts += 1
                self._report(str(error), attempts)
                asked_for = min(error.retry_after or 0.0, self._backoff.max)
                await self._clock.sleep(max(self._backoff.after(attempts, self._roll()), asked_for))
            else:
                if self.trouble is not None:
                    log.info("schema registry is back", attempts=attempts)
                    self.trouble = None
                return decoder.learn(schema_id, schema)

    def _report(self, reason: str, attempts: int) -> None:
        if self.trouble != reason or attempts in (10, 100) or attempts % 1000 == 0:
            log.warning("schema registry unavailable, its stream waits", reason=reason, attempts=attempts)
        self.trouble = reason


def _needed(decoder: Decoder, bodies: Sequence[bytes]) -> Sequence[int]:
    """Ids of schemas that it has not learned, each once, in the order in which they come."""
    return list(dict.fromkeys(schema_id for schema_id in map(decoder.needs, bodies) if schema_id is not None))
