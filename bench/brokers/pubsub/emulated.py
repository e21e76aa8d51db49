"""Our fake as a process: what `local` means for Pub/Sub."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.processes import Leashed, free_port
from bench.brokers.pubsub.control import Control

ROOT = Path(__file__).resolve().parents[3]
START_WITHIN = 20.0


class Emulated:
    """Everything in it is in memory, and gone when it ends; the ports stay."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = folder
        self._process: Leashed | None = None
        self._control: Control | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint("pubsub", "local", self.address, "a fake of ours on grpc.aio, NOT Pub/Sub")

    @property
    def control(self) -> Control:
        assert self._control is not None
        return self._control

    def start(self) -> None:
        """Returns when it takes calls. Raises Unavailable."""
        control_port = free_port()
        command = [sys.executable, "-m", "bench.brokers.pubsub.fake", str(self.port), str(control_port)]
        self._process = Leashed(command, self.folder / "fake.log", {"PYTHONPATH": str(ROOT)})
        ends_at = time.monotonic() + START_WITHIN
        while True:
            try:
                self._control = Control(control_port)
                return
            except OSError:
                pass
            if not self._process.is_running or time.monotonic() > ends_at:
                tail = self._process.tail()
                self.close()
                raise Unavailable(f"the fake of Pub/Sub has not started; its log ends:\n{tail}")
            time.sleep(0.02)

    def kill(self) -> None:
        """kill -9. `start` starts an empty one on the same port."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Nothing answers; connections stay, and the system takes new ones."""
        self._running.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._running.send(signal.SIGCONT)

    def close(self) -> None:
        """Harmless if it does not run."""
        if self._process is not None:
            self._process.send(signal.SIGCONT)
            self._end(signal.SIGTERM)

    @property
    def _running(self) -> Leashed:
        assert self._process is not None
        return self._process

    def _end(self, number: signal.Signals) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        self._running.end(number, patience=5)
