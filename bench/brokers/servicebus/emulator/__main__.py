"""`python -m bench.brokers.servicebus.emulator PORT CONTROL_PORT`: until it is told to end."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys

from bench.brokers.servicebus.emulator.broker import Broker
from bench.brokers.servicebus.emulator.commands import Commands
from bench.brokers.servicebus.emulator.connection import Client

LOOPBACK = "127.0.0.1"


async def run(port: int, control_port: int) -> None:
    loop, broker = asyncio.get_running_loop(), Broker()
    told = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    async with (
        await loop.create_server(lambda: Client(broker), LOOPBACK, port),
        await asyncio.start_server(Commands(broker).serve, LOOPBACK, control_port, limit=1 << 24),
    ):
        clock = asyncio.create_task(broker.run(), name="clock")
        ended = asyncio.create_task(told.wait(), name="ended")
        await asyncio.wait({clock, ended}, return_when=asyncio.FIRST_COMPLETED)
        if clock.done():
            clock.result()  # it never ends by itself, so this raises
        clock.cancel()
        for client in list(broker.clients):
            client.reset()


if __name__ == "__main__":
    gc.freeze()
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))
