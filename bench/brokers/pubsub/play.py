"""`python -m bench.brokers pubsub`: a Pub/Sub to play with, until Ctrl-C.

    python -m bench.brokers pubsub [PORT]                  starts it: port 8085, or PORT
    python -m bench.brokers pubsub publish TOPIC TEXT...   publishes one message for each text
    python -m bench.brokers pubsub read SUBSCRIPTION COUNT takes the first COUNT messages and shows them

`publish` and `read` go to what HEADRACE_PUBSUB names, or to port 8085. Nothing outlives it.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.brokers.endpoint import Unavailable
from bench.brokers.playing import chosen_port, wait_for_ctrl_c
from bench.brokers.pubsub import topics
from bench.brokers.pubsub.serving import GIVEN, PubSub, serve_pubsub
from bench.brokers.pubsub.topics import PROJECT

PORT = 8085
HEADRACE = ".venv/bin/headrace"

console = Console(highlight=False)


def main(arguments: list[str]) -> int:
    """The exit code."""
    there = os.environ.get(GIVEN, f"127.0.0.1:{PORT}")
    match arguments:
        case []:
            return play(chosen_port("pubsub", PORT, console))
        case [port] if port.isdigit():
            return play(int(port))
        case ["publish", topic, *texts] if texts:
            asyncio.run(topics.publish(there, _topic(topic), [text.encode() for text in texts]))
            return 0
        case ["read", subscription, count] if count.isdigit():
            name = f"projects/{PROJECT}/subscriptions/{subscription}"
            for received in asyncio.run(topics.take(there, name, int(count))):
                console.print(f"{subscription}#{received.message.message_id} {received.message.data!r}", markup=False)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def _topic(name: str) -> str:
    return f"projects/{PROJECT}/topics/{name}"


async def _make(address: str) -> None:
    for name in ("orders", "orders-dlq"):
        subscription = f"projects/{PROJECT}/subscriptions/{name}-headrace"
        await topics.create(address, _topic(name), subscription, ordered=name == "orders")


def play(port: int) -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-pubsub-") as folder:
        try:
            with console.status("starting Pub/Sub"):
                served = serve_pubsub(Path(folder), port)
        except Unavailable as error:
            console.print(str(error), markup=False)
            return 1
        try:
            asyncio.run(_make(served.broker.address))
            _show(served.broker)
            wait_for_ctrl_c()
        finally:
            served.broker.close()
    return 0


def _show(broker: PubSub) -> None:
    endpoint = broker.endpoint
    table = Table("broker", "address", "from", "what", "subscriptions")
    table.add_row(endpoint.broker, endpoint.bootstrap, endpoint.source, endpoint.what, "orders-headrace")
    console.print(table)
    order = '{"order_id": "o-1", "region": "eu", "amount": 250}'
    for line in (
        f"export PUBSUB={broker.address} PROJECT={PROJECT} HEADRACE_CONFIG=configs/pubsub.yaml",
        f"{HEADRACE} validate --connect",
        f"{HEADRACE} run",
        f"{HEADRACE} send orders '{order}'",
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)  # to be copied: never broken
    console.print("Ctrl-C ends it, and everything in it is gone then.")
