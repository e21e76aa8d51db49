"""Several members of one consumer group in one process: they share a store, its writer and the watchers' thread.

No `headrace run` does that, as a store has one process. But each member is a whole stream, from its own connections to
its own core, and they change hands as members in several processes do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec

from bridge import wiring
from bridge.config.model import Config
from bridge.runtime.process import Process
from bridge.runtime.supervisor import Services, StreamSpec, StreamSupervisor
from connectors.kafka.producer import KafkaProducer

LEAVES_WITHIN = 6.0


class Member:
    """One life of a member, from the moment that it is made."""

    def __init__(self, spec: StreamSpec, services: Services) -> None:
        self.supervisor = StreamSupervisor(spec, services)
        self.task = asyncio.create_task(self.supervisor.run(), name="member")

    @property
    def producer(self) -> KafkaProducer | None:
        shell = self.supervisor.shell
        return shell.life.producer if shell is not None else None  # type: ignore[return-value]  # of this kind alone

    @property
    def partitions(self) -> set[int]:
        """Those that it has taken over."""
        producer = self.producer
        if producer is None or producer._members is None:
            return set()
        return {partition.partition for partition in producer._members.held}

    async def leave(self) -> None:
        """As at the end of a process."""
        self.task.cancel()
        await asyncio.wait({self.task})
        await self.supervisor.stop(LEAVES_WITHIN)

    async def die(self) -> None:
        """The network takes it away: from now on nothing that it says arrives, no farewell either. The group misses it
        when its session ends.
        """
        producer = self.producer
        if producer is not None:
            cut_off(producer)
        await self.leave()


def cut_off(producer: KafkaProducer) -> None:
    """All its connections break, and it gets no other."""

    async def no_connection(*_: object, **__: object) -> None:
        return None

    for client in (producer._consumer, producer._admin):
        if client is not None:
            client._client._get_conn = no_connection
            for connection in list(client._client._conns.values()):
                if connection._writer is not None:
                    connection._writer.transport.abort()


class Group:
    """The process without streams of its own, and a way to make members."""

    def __init__(self, process: Process) -> None:
        (stream,) = process.streams
        self.spec, self.services = stream.spec, stream._services
        process.streams.clear()

    def join(self, producer: Callable[[], KafkaProducer] | None = None) -> Member:
        """`producer` for a member that differs in how it comes to the broker."""
        spec = self.spec if producer is None else msgspec.structs.replace(self.spec, producer=producer)
        return Member(spec, self.services)


@asynccontextmanager
async def group_of(config: Config) -> AsyncIterator[Group]:
    """All but the members lives here, and ends with the block: they must have left before."""
    store = await wiring.open_store_of(config)
    sources = {s.name: wiring.source_of(s) for s in config.streams.values()}
    await store.register({w.id: w.definition for w in config.watchers}, sources)
    stopping = asyncio.Event()
    process = wiring.compose(config, store, stopping)
    group = Group(process)
    running = asyncio.create_task(process.run(), name="process")
    try:
        yield group
    finally:
        stopping.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(config.instance.stop_timeout + 1):
                await running
