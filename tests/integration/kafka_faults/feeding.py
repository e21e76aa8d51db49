"""A producer of its own: numbered messages at a steady rate, confirmed by all replicas, whatever the broker does.

    python -m tests.integration.kafka_faults.feeding BOOTSTRAP TOPIC PARTITIONS RATE SECONDS

Its last line of output is how many messages were confirmed. Partitions are served in turn, so that one lane's numbers
grow.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from aiokafka import AIOKafkaProducer

TICK: Final = 0.02
PATIENCE_MS: Final = 60_000
"""A broker that is down for less long costs no message."""
PAD: Final = "x" * 150


def body(n: int) -> bytes:
    """`third` is what a watcher matches a third of the messages by."""
    return json.dumps({"n": n, "third": n % 3, "pad": PAD}).encode()


async def feed(bootstrap: str, topic: str, partitions: int, rate: float, seconds: float) -> int:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True, linger_ms=5, request_timeout_ms=PATIENCE_MS
    )
    await producer.start()
    try:
        loop = asyncio.get_running_loop()
        began = loop.time()
        sent: list[asyncio.Future[object]] = []
        while (passed := loop.time() - began) < seconds:
            due = range(len(sent), int(passed * rate))
            sent += [await producer.send(topic, body(n), partition=n % partitions) for n in due]
            await asyncio.sleep(TICK)
        done = await asyncio.gather(*sent, return_exceptions=True)
        return sum(not isinstance(each, BaseException) for each in done)
    finally:
        await producer.stop()


class Feed:
    """The producer's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def confirmed(self, within: float) -> int:
        """How many messages were, once it has ended by itself."""
        out, _ = self._process.communicate(timeout=within)
        assert self._process.returncode == 0
        return int(out)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def feeding(
    environment: Mapping[str, str], bootstrap: str, topic: str, partitions: int, rate: float, seconds: float
) -> Iterator[Feed]:
    """It writes while the block runs, and is ended with it."""
    words = [bootstrap, topic, partitions, rate, seconds]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.integration.kafka_faults.feeding", *map(str, words)],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            yield Feed(process)
        finally:
            process.kill()


def main(bootstrap: str, topic: str, partitions: str, rate: str, seconds: str) -> None:
    print(asyncio.run(feed(bootstrap, topic, int(partitions), float(rate), float(seconds))))


if __name__ == "__main__":
    main(*sys.argv[1:])
