"""`python -m bench.brokers servicebus`: an emulated Service Bus to play with, until Ctrl-C.

    python -m bench.brokers servicebus [PORT]              starts it: port 5672, or PORT
    python -m bench.brokers servicebus send QUEUE TEXT...  sends one message for each text
    python -m bench.brokers servicebus read QUEUE COUNT    takes the first COUNT messages and shows them

`send` and `read` go to what HEADRACE_SERVICEBUS names, or to the emulator on port 5672. Nothing outlives it.
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
from bench.brokers.servicebus import entities
from bench.brokers.servicebus.emulated import Emulated
from bench.brokers.servicebus.serving import GIVEN

PORT = 5672
QUEUE = "orders"
LOCK = 30.0
HEADRACE = ".venv/bin/headrace"

console = Console(highlight=False)


def main(arguments: list[str]) -> int:
    """The exit code."""
    there = os.environ.get(GIVEN) or Emulated.address(PORT)
    match arguments:
        case []:
            return play(chosen_port("servicebus", PORT, console))
        case [port] if port.isdigit():
            return play(int(port))
        case ["send", queue, *texts] if texts:
            asyncio.run(entities.send(there, queue, [text.encode() for text in texts]))
            return 0
        case ["read", queue, count] if count.isdigit():
            for message in asyncio.run(entities.read(there, queue, int(count))):
                console.print(f"{queue}#{message.sequence_number} {message}", markup=False)
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def play(port: int) -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-servicebus-") as folder:
        emulator = Emulated(Path(folder), port)
        try:
            emulator.start()
        except Unavailable as error:
            console.print(str(error), markup=False)
            return 1
        try:
            emulator.control.make_queue(QUEUE, lock=LOCK)
            _show(emulator)
            wait_for_ctrl_c()
        finally:
            emulator.close()
    return 0


def _show(emulator: Emulated) -> None:
    endpoint = emulator.endpoint
    table = Table("broker", "address", "from", "what", "queues")
    table.add_row(endpoint.broker, endpoint.bootstrap, endpoint.source, endpoint.what, f"{QUEUE} (lock {LOCK:.0f} s)")
    console.print(table)
    order = '{"order_id": "o-1", "region": "eu", "amount": 250}'
    for line in (
        f"export SERVICEBUS='{emulator.connection_string}' HEADRACE_CONFIG=configs/servicebus.yaml",
        f"{HEADRACE} validate --connect",
        f"{HEADRACE} run",
        f"{GIVEN}=\"$SERVICEBUS\" .venv/bin/python -m bench.brokers servicebus send {QUEUE} '{order}'",
    ):
        console.print(f"  {line}", markup=False, soft_wrap=True)  # to be copied: never broken
    console.print("Ctrl-C ends it, and everything in it is gone then.")
