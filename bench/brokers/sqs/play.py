"""`python -m bench.brokers sqs`: an SQS to play with, until Ctrl-C.

    python -m bench.brokers sqs [PORT]              starts it: port 4566, or PORT
    python -m bench.brokers sqs send QUEUE TEXT...  sends one message for each text
    python -m bench.brokers sqs read QUEUE COUNT    takes the first COUNT messages and shows them

`send` and `read` go to what HEADRACE_SQS names, or to port 4566. Nothing outlives it.
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
from bench.brokers.sqs import queues
from bench.brokers.sqs.serving import GIVEN, KEYS, Sqs, serve_sqs

PORT = 4566
QUEUES = ("orders", "orders-dlq")
HEADRACE = ".venv/bin/headrace"

console = Console(highlight=False)


def main(arguments: list[str]) -> int:
    """The exit code."""
    there = os.environ.get(GIVEN, f"http://127.0.0.1:{PORT}")
    match arguments:
        case []:
            return play(chosen_port("sqs", PORT, console))
        case [port] if port.isdigit():
            return play(int(port))
        case ["send", queue, *texts] if texts:
            asyncio.run(_send(there, queue, texts))
            return 0
        case ["read", queue, count] if count.isdigit():
            for message in asyncio.run(_read(there, queue, int(count))):
                console.print(f"{queue}#{message['MessageId']} {message['Body']!r}", markup=False)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


async def _send(url: str, queue: str, texts: list[str]) -> None:
    await queues.send(url, await queues.create(url, queue), texts)


async def _read(url: str, queue: str, count: int) -> list[dict[str, str]]:
    return await queues.take(url, await queues.create(url, queue), count)


def play(port: int) -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-sqs-") as folder:
        try:
            with console.status("starting SQS"):
                served = serve_sqs(Path(folder), port)
        except Unavailable as error:
            console.print(str(error), markup=False)
            return 1
        try:
            made = [asyncio.run(queues.create(served.broker.url, name)) for name in QUEUES]
            _show(served.broker, made[0])
            wait_for_ctrl_c()
        finally:
            served.broker.close()
    return 0


def _show(broker: Sqs, queue: str) -> None:
    endpoint = broker.endpoint
    table = Table("broker", "address", "from", "what", "queues")
    table.add_row(endpoint.broker, endpoint.bootstrap, endpoint.source, endpoint.what, ", ".join(QUEUES))
    console.print(table)
    order = '{"order_id": "o-1", "region": "eu", "amount": 250}'
    keys = " ".join(f"{name}={value}" for name, value in KEYS.items())
    for line in (
        f"export {keys}",
        f"export SQS={broker.url} QUEUE={queue} HEADRACE_CONFIG=configs/sqs.yaml",
        f"{HEADRACE} validate --connect",
        f"{HEADRACE} run",
        f"{HEADRACE} send orders '{order}'",
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)  # to be copied: never broken
    console.print("Ctrl-C ends it, and everything in it is gone then.")
