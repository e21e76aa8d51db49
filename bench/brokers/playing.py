"""What all brokers that one can play with have in common."""

from __future__ import annotations

import signal
import threading

from rich.console import Console

from bench.brokers.processes import free_port, is_free


def wait_for_ctrl_c() -> None:
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    told.wait()


def chosen_port(broker: str, port: int, console: Console) -> int:
    """The usual port, or a free one where that is taken, which is told."""
    if is_free(port):
        return port
    other = free_port()
    again = f"python -m bench.brokers {broker} PORT".replace("  ", " ")
    console.print(f"port {port} is taken, so this is {other}; `{again}` chooses another")
    return other
