"""`make brokers`: a Kafka to play with, until Ctrl-C; or another broker by its name.

    python -m bench.brokers [PORT]              starts it: port 9092, or PORT
    python -m bench.brokers send TOPIC TEXT...  writes one record for each text
    python -m bench.brokers read TOPIC COUNT    shows the first COUNT records
    python -m bench.brokers sqs|pubsub|servicebus ...   the same of another broker

Its data stay in the cache from one start to the next, so that what remembers offsets finds the same cluster again.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.brokers import topics
from bench.brokers.endpoint import Unavailable
from bench.brokers.jars import cache
from bench.brokers.kafka import Kafka
from bench.brokers.playing import chosen_port, wait_for_ctrl_c
from bench.brokers.serving import Broker, serve_kafka

PORT = 9092
TOPICS = {"orders": 4, "orders.dlq": 1}
"""With their partitions."""
HEADRACE = ".venv/bin/headrace"

console = Console(highlight=False)


def main(arguments: list[str]) -> int:
    """The exit code."""
    bootstrap = os.environ.get("HEADRACE_KAFKA", f"127.0.0.1:{PORT}")
    match arguments:
        case ["sqs" | "pubsub" | "servicebus" as other, *rest]:
            player: Callable[[list[str]], int] = import_module(f"bench.brokers.{other}.play").main
            return player(rest)
        case []:
            return play(chosen_port("", PORT, console))
        case [port] if port.isdigit():
            return play(int(port))
        case ["send", topic, *texts] if texts:
            asyncio.run(topics.send(bootstrap, topic, [text.encode() for text in texts]))
            return 0
        case ["read", topic, count] if count.isdigit():
            for record in asyncio.run(topics.read(bootstrap, topic, int(count))):
                console.print(f"{topic}[{record.partition}]@{record.offset} {record.value!r}", markup=False)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def play(port: int) -> int:
    try:
        with console.status("starting Kafka"):
            served = serve_kafka(_folder(port), port)
    except Unavailable as error:
        console.print(str(error), markup=False)
        return 1
    try:
        asyncio.run(_make_topics(served.broker.bootstrap))
        _show(served.broker)
        wait_for_ctrl_c()
        if isinstance(served.broker, Kafka):
            served.broker.stop()  # its data stay, so it may end in peace
    finally:
        served.broker.close()
    return 0


async def _make_topics(bootstrap: str) -> None:
    for name, partitions in TOPICS.items():
        await topics.ensure(bootstrap, name, partitions)


def _show(broker: Broker) -> None:
    endpoint = broker.endpoint
    table = Table("broker", "address", "from", "what", "topics")
    made = ", ".join(f"{name} ({partitions})" for name, partitions in TOPICS.items())
    table.add_row(endpoint.broker, endpoint.bootstrap, endpoint.source, endpoint.what, made)
    console.print(table)
    order = '{"order_id": "o-1", "region": "eu", "amount": 250}'
    for line in (
        f"export KAFKA={endpoint.bootstrap} HEADRACE_CONFIG=configs/kafka.yaml",
        f"{HEADRACE} validate --connect",
        f"{HEADRACE} run",
        f"{HEADRACE} send orders '{order}'",
        f"{HEADRACE} tail orders --last 5",
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)  # to be copied: never broken
    console.print("Ctrl-C ends it; the data stay." if isinstance(broker, Kafka) else "Ctrl-C ends it.")


def _folder(port: int) -> Path:
    """Of one port only: two that run at the same time must not share their data."""
    return cache() / "brokers" / str(port)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
