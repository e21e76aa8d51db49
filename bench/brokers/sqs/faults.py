"""A proxy in front of an SQS that makes mistakes on request, and counts what is asked of it.

It speaks the AWS JSON protocol (X-Amz-Target), as botocore has it since 2023. It lives in a thread of its own, so that
tests with and without a loop can use it: every method may be called from anywhere.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from types import TracebackType
from typing import Any, Final
from uuid import uuid4

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web
from msgspec import Struct

BATCHES: Final = ("DeleteMessageBatch", "ChangeMessageVisibilityBatch", "SendMessageBatch")
LEFT_OUT: Final = {"host", "content-length", "transfer-encoding", "connection", "date", "content-encoding"}
CALL_WITHIN: Final = 60.0

Body = dict[str, Any]


class Refusal(Struct):
    """What a call, or entries of it, are refused with; `times` how often still, None until it is lifted."""

    code: str
    status: int = 400
    sender_fault: bool = True
    times: int | None = None
    entries: int = 0

    def used_up(self) -> bool:
        if self.times is None:
            return False
        self.times -= 1
        return self.times <= 0


class Faults:
    """In front of the SQS at `url`.

    with Faults(sqs.url) as faults:
        faults.url                                         what clients take for their endpoint
        faults.fail_entries("DeleteMessageBatch", 3, "InternalError")     3 entries of the next such call
        faults.fail_calls("DeleteMessage", "AccessDeniedException", status=403)     until `mend`
        faults.reset("ReceiveMessage", after=True)         the next call is carried out, and its answer lost
        faults.silent(); faults.speak()                    calls are taken and not answered
        faults.expire()                                    what was received and not deleted is visible again
        faults.duplicate(); faults.reorder()               of receives from now on
        faults.early_empty(); faults.skew = 30.0           seconds, of the header Date
        faults.mend(); faults.calls["ReceiveMessage"]; faults.changes[message_id]
    """

    def __init__(self, url: str) -> None:
        self.target = url
        self.port = 0
        self.skew = 0.0
        self.calls: Counter[str] = Counter()
        self.entries: Counter[str] = Counter()
        """Entries of batches, by action."""
        self.changes: Counter[str] = Counter()
        """Changes of the visibility, by message id."""
        self.lost = 0
        """Calls that were cut off by their client while they ran."""
        self._refused: dict[str, Refusal] = {}
        self._partly: dict[str, Refusal] = {}
        self._resets: deque[tuple[str, bool]] = deque()
        self._speaks = asyncio.Event()
        self._speaks.set()
        self._duplicates = self._reorders = self._is_hasty = False
        self._held: dict[str, tuple[str, str, Mapping[str, str]]] = {}  # receipt handle -> id, queue, headers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sqs-faults", daemon=True)
        self._session: ClientSession | None = None
        self._runner: web.ServerRunner | None = None

    def __enter__(self) -> Faults:
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # What it can be asked to do --------------------------------------------------------------------------------------

    def fail_entries(
        self, action: str, entries: int, code: str, *, sender_fault: bool = False, times: int | None = 1
    ) -> None:
        """The first `entries` of such a call are not carried out, and reported as failed."""
        assert action in BATCHES, action
        self._partly[action] = Refusal(code, 200, sender_fault, times, entries)

    def fail_calls(self, action: str, code: str, *, status: int = 400, times: int | None = None) -> None:
        """Whole calls are refused; `*` stands for all of them."""
        self._refused[action] = Refusal(code, status, times=times)

    def reset(self, action: str, *, after: bool = False) -> None:
        """The connection of the next such call breaks: before it is carried out, or after."""
        self._resets.append((action, after))

    def silent(self) -> None:
        self._loop.call_soon_threadsafe(self._speaks.clear)

    def speak(self) -> None:
        self._loop.call_soon_threadsafe(self._speaks.set)

    def duplicate(self) -> None:
        """What is received is given once more at once, with another handle."""
        self._duplicates = True

    def reorder(self) -> None:
        self._reorders = True

    def early_empty(self) -> None:
        """An empty receive is answered at once, without the key `Messages`, as if nobody had waited."""
        self._is_hasty = True

    def expire(self) -> int:
        """Leases end early: how many messages are visible again."""
        return int(self._run(self._expire()))

    def mend(self) -> None:
        """All of it is over; what was counted stays."""
        self._refused.clear()
        self._partly.clear()
        self._resets.clear()
        self._duplicates = self._reorders = self._is_hasty = False
        self.skew = 0.0
        self.speak()

    # How it does it --------------------------------------------------------------------------------------------------

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _open(self) -> None:
        self._session = ClientSession(
            connector=TCPConnector(limit=0, force_close=True),
            timeout=ClientTimeout(total=CALL_WITHIN),
            auto_decompress=True,
        )
        self._runner = web.ServerRunner(web.Server(self._handle), shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        assert self._runner is not None
        assert self._session is not None
        self._speaks.set()
        await self._runner.cleanup()
        await self._session.close()
        await asyncio.sleep(0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        action = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
        self.calls[action] += 1
        try:
            return await self._answered(request, action)
        except asyncio.CancelledError:
            self.lost += 1
            raise

    async def _answered(self, request: web.BaseRequest, action: str) -> web.StreamResponse:
        body: Body = msgspec.json.decode(await request.read() or b"{}")
        await self._speaks.wait()
        when = self._takes_reset(action)
        if when == "before":
            return _cut(request)
        for name in (action, "*"):
            refusal = self._refused.get(name)
            if refusal is not None:
                if refusal.used_up():
                    del self._refused[name]
                return self._response(refusal.status, {"__type": f"com.amazonaws.sqs#{refusal.code}", "message": "no"},
                                      {"x-amzn-query-error": f"{refusal.code};Sender"})  # fmt: skip
        failed = self._fail_some(action, body)
        if "Entries" in body and not body["Entries"]:
            return self._response(200, {"Successful": [], "Failed": failed})
        try:
            status, answer, headers = await self._forward(request, action, body)
        except (ClientError, TimeoutError):
            return _cut(request)
        if status == 200:
            await self._tamper(request, action, body, answer, failed)
        await self._speaks.wait()
        return _cut(request) if when == "after" else self._response(status, answer, headers)

    def _takes_reset(self, action: str) -> str:
        for reset in self._resets:
            if reset[0] == action:
                self._resets.remove(reset)
                return "after" if reset[1] else "before"
        return ""

    def _fail_some(self, action: str, body: Body) -> list[Body]:
        entries: list[Body] = body.get("Entries", [])
        self.entries[action] += len(entries)
        refusal = self._partly.get(action)
        if refusal is None:
            return []
        if refusal.used_up():
            del self._partly[action]
        refused, body["Entries"] = entries[: refusal.entries], entries[refusal.entries :]
        return [
            {"Id": entry["Id"], "Code": refusal.code, "SenderFault": refusal.sender_fault, "Message": "on request"}
            for entry in refused
        ]

    async def _forward(self, request: web.BaseRequest, action: str, body: Body) -> tuple[int, Body, Mapping[str, str]]:
        if action == "ReceiveMessage" and self._is_hasty:
            body["WaitTimeSeconds"] = 0
        assert self._session is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in LEFT_OUT}
        async with self._session.post(self.target, data=msgspec.json.encode(body), headers=headers) as response:
            answer: Body = msgspec.json.decode(await response.read() or b"{}")
            kept = {name: value for name, value in response.headers.items() if name.lower() not in LEFT_OUT}
            return response.status, answer, kept

    async def _tamper(
        self, request: web.BaseRequest, action: str, body: Body, answer: Body, failed: list[Body]
    ) -> None:
        queue = str(body.get("QueueUrl", ""))
        if failed:
            answer.setdefault("Failed", []).extend(failed)
        if action == "ReceiveMessage":
            await self._received(request, queue, answer)
        elif action in ("DeleteMessage", "DeleteMessageBatch"):
            gone = {entry["Id"] for entry in answer.get("Successful", [])}
            for entry in body.get("Entries", [{**body, "Id": ""}]):
                if not gone or entry["Id"] in gone:
                    self._held.pop(entry["ReceiptHandle"], None)
        elif action in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"):
            for entry in body.get("Entries", [body]):
                self.changes[self._held.get(entry["ReceiptHandle"], ("", "", {}))[0]] += 1

    async def _received(self, request: web.BaseRequest, queue: str, answer: Body) -> None:
        messages: list[Body] = answer.get("Messages", [])
        if not messages:
            answer.pop("Messages", None)
            return
        if self._reorders:
            random.shuffle(messages)
        for message in messages:
            self._held[message["ReceiptHandle"]] = (message["MessageId"], queue, dict(request.headers))
        if self._duplicates:
            for message in messages:
                await self._show(message["ReceiptHandle"], queue, request.headers)

    async def _expire(self) -> int:
        held, self._held = self._held, {}
        for handle, (_, queue, headers) in held.items():
            await self._show(handle, queue, headers)
        return len(held)

    async def _show(self, handle: str, queue: str, headers: Mapping[str, str]) -> None:
        """Visible at once, behind the back of whoever holds it."""
        assert self._session is not None
        mine = {name: value for name, value in headers.items() if name.lower() not in LEFT_OUT}
        mine["X-Amz-Target"] = "AmazonSQS.ChangeMessageVisibility"
        body = {"QueueUrl": queue, "ReceiptHandle": handle, "VisibilityTimeout": 0}
        async with self._session.post(self.target, data=msgspec.json.encode(body), headers=mine) as response:
            await response.read()

    def _response(self, status: int, answer: Body, headers: Mapping[str, str] | None = None) -> web.Response:
        date = formatdate(time.time() + self.skew, usegmt=True)
        kept = {"x-amzn-RequestId": str(uuid4()), **(headers or {}), "Date": date}
        kept["Content-Type"] = "application/x-amz-json-1.0"
        return web.Response(status=status, body=msgspec.json.encode(answer), headers=kept)


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def _cut(request: web.BaseRequest) -> web.Response:
    """The connection breaks without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
