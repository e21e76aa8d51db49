"""The brokers of the contract suite: how each is filled and looked at, and who reads it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from aiokafka import AIOKafkaProducer

from bench.brokers import topics
from bridge.ports import Producer
from bridge.testing import MemoryBroker, MemoryProducer
from connectors.directory import KIND as DIRECTORY
from connectors.directory import DirectoryOptions, LineByLine, WholeFiles
from connectors.kafka import KIND as KAFKA
from connectors.kafka import KafkaOptions
from tests.contract.connectors.promises import MEBIBYTE, PATIENCE, Features, Headers


class QuickClock:
    """Twenty times as fast as the machine's: delays of the directory stream are some of seconds."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def monotonic(self) -> float:
        return (time.monotonic() - self._began) * 20

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


class Unleased:
    async def expire(self) -> None:
        raise NotImplementedError("this broker has no leases")


class Memory(Unleased):
    """The fake that ships. It holds the runtime to its own promises, so a second `aclose` is an error there."""

    features = Features(
        ordered=True, cumulative=True, lanes=5, redelivers=False, closes_again=False, largest=16 * MEBIBYTE
    )

    def __init__(self) -> None:
        self._broker = MemoryBroker()

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        self._broker.send([body for body in bodies if body is not None], f"lane {lane}")

    def producer(self) -> Producer:
        return MemoryProducer(self._broker)

    async def settled(self) -> list[bytes]:
        return [self._broker.lanes[lane][offset] for lane, offset in self._broker.settled]


class Folder(Unleased):
    """What both ways of reading a drop folder share."""

    lines = False

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._dropped = 0

    def drop(self, body: bytes) -> None:
        """A file that is whole when it appears."""
        self._dropped += 1
        hidden = self.path / ".new"
        hidden.write_bytes(body)
        hidden.rename(self.path / f"{self._dropped:05}")

    def producer(self) -> Producer:
        options = DirectoryOptions(path=str(self.path), lines=self.lines, settle=0.0, poll_interval=0.2)
        made = DIRECTORY.build(options)
        assert type(made) is (LineByLine if self.lines else WholeFiles)
        return type(made)(options, QuickClock())

    def files(self, place: str) -> list[Path]:
        return [each for each in sorted((self.path / place).glob("*")) if "~" in each.name]


class Files(Folder):
    features = Features(
        ordered=False, cumulative=False, lanes=1, pauses=True, releases=True, timestamps=True, largest=16 * MEBIBYTE
    )

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        for body in bodies:
            self.drop(body or b"")

    async def settled(self) -> list[bytes]:
        return [each.read_bytes() for place in ("done", "dead") for each in self.files(place)]


class Lines(Folder):
    """Each call of `send` is a file of its own, and so a lane."""

    lines = True
    features = Features(
        ordered=True,
        cumulative=True,
        lanes=8,
        appends=False,
        pauses=True,
        releases=True,
        timestamps=True,
        has_empty=False,
        keeps=bytes(set(range(256)) - set(b"\r\n")),
    )

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        self.drop(b"".join((body or b"") + b"\n" for body in bodies))

    async def settled(self) -> list[bytes]:
        found = [line for place in ("done", "dead") for each in self.files(place) for line in _lines(each)]
        for note in (self.path / ".work").glob("*.pos"):
            (file,) = (self.path / ".work").glob(f"{note.stem}~*")
            until = file.read_bytes()[: int(note.read_text()) + 1]
            found += _lines(file)[: until.count(b"\n") + 1]
        return found


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().removesuffix(b"\n").split(b"\n")


class Kafka(Unleased):
    features = Features(
        ordered=True,
        cumulative=True,
        lanes=4,
        pauses=True,
        takes_lanes=True,
        rebalances=True,
        keys=True,
        headers=True,
        timestamps=True,
        tombstones=True,
    )

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._group = f"contract-{uuid4().hex}"
        self._sent: dict[int, list[bytes | None]] = {}

    async def send(
        self, bodies: Sequence[bytes | None], lane: int = 0, *, key: bytes | None = None, headers: Headers = ()
    ) -> None:
        self._sent.setdefault(lane, []).extend(bodies)
        client = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, acks="all", linger_ms=2, max_request_size=2 * MEBIBYTE
        )
        async with asyncio.timeout(PATIENCE), client:
            for sent in [await client.send(self._topic, body, key, lane, headers=list(headers)) for body in bodies]:
                await sent

    def producer(self) -> Producer:
        options = KafkaOptions(
            bootstrap_servers=[self._bootstrap],
            group_id=self._group,
            topics=[self._topic],
            start="earliest",
            tombstones="deliver",
            session_timeout=6.0,
            heartbeat_interval=0.5,
            fetch_max_wait=0.05,
        )
        assert not KAFKA.check(options)
        return KAFKA.build(options)

    async def settled(self) -> list[bytes]:
        places = await topics.committed(self._bootstrap, self._group, self._topic)
        return [body or b"" for lane, (offset, _) in places.items() for body in self._sent.get(lane, [])[:offset]]
