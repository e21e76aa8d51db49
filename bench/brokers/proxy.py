"""A TCP proxy that tests cut, mend and slow down: a broker out of reach, without killing it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType

BLOCK = 65_536


class Proxy:
    """Listens on a port of 127.0.0.1 and forwards to another. It lives in a thread of its own, so that tests with and
    without a loop can use it: every method may be called from anywhere and returns when it has happened.

        with Proxy(kafka.proxied_port, kafka.behind_proxy) as proxy:
            proxy.cut()      # connections break, new ones are refused
            proxy.restore()
            proxy.stall()    # connections stay, nothing passes: what a lost network looks like
            proxy.resume()
            proxy.delay = 0.2  # seconds that every block waits, in both directions
    """

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._passes = asyncio.Event()
        self._passes.set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"proxy-{port}", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        try:
            self.restore()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result(10)

    def restore(self) -> None:
        asyncio.run_coroutine_threadsafe(self._restore(), self._loop).result(10)

    def stall(self) -> None:
        self._loop.call_soon_threadsafe(self._passes.clear)

    def resume(self) -> None:
        self._loop.call_soon_threadsafe(self._passes.set)

    async def _cut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _restore(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):  # cut, or either side has gone: the connection just ends
                await self._forward(reader, writer)
        finally:
            self._connections.discard(task)
            _drop(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Both directions, until either ends."""
        their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self.target)
        ways = [
            asyncio.ensure_future(self._pump(reader, their_writer)),
            asyncio.ensure_future(self._pump(their_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            _drop(their_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while block := await reader.read(BLOCK):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._passes.wait()
            writer.write(block)
            await writer.drain()


def _drop(writer: asyncio.StreamWriter) -> None:
    """At once, without flushing: as if the cable were pulled."""
    writer.transport.abort()
