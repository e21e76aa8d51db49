"""Our emulator as a process: what `local` means for Service Bus."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.processes import Leashed, free_port
from bench.brokers.servicebus.control import Control

ROOT = Path(__file__).resolve().parents[3]
START_WITHIN = 20.0
KEY = "ZW11bGF0ZWQ="
"""Anybody's: the emulator looks at no signature."""


class Emulated:
    """Everything in it is in memory, and gone when it ends; the ports stay."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = folder
        self._process: Leashed | None = None
        self._control: Control | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def connection_string(self) -> str:
        return self.address(self.port)

    @staticmethod
    def address(port: int) -> str:
        """The connection string of an emulator of ours on this port."""
        address = f"Endpoint=sb://127.0.0.1:{port}"
        return f"{address};SharedAccessKeyName=tests;SharedAccessKey={KEY};UseDevelopmentEmulator=true;"

    @property
    def endpoint(self) -> BrokerEndpoint:
        what = "an emulator of ours on Qpid Proton, NOT Service Bus"
        return BrokerEndpoint("servicebus", "local", f"127.0.0.1:{self.port}", what)

    @property
    def control(self) -> Control:
        assert self._control is not None
        return self._control

    def start(self) -> None:
        """Returns when it takes connections. Raises Unavailable."""
        try:
            import proton  # noqa: F401  # a package of the tests alone
        except ImportError as error:
            raise Unavailable(f"python-qpid-proton is not installed: {error}") from error
        control_port = free_port()
        command = [sys.executable, "-m", "bench.brokers.servicebus.emulator", str(self.port), str(control_port)]
        self._process = Leashed(command, self.folder / "emulator.log", {"PYTHONPATH": str(ROOT)})
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
                raise Unavailable(f"the Service Bus emulator has not started; its log ends:\n{tail}")
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

    def check(self) -> None:
        """Raises AssertionError where the emulator itself has failed: what tests saw of it is worth nothing then."""
        log = (self.folder / "emulator.log").read_text(errors="replace")
        assert "Traceback" not in log, f"the Service Bus emulator has failed:\n{log[-3000:]}"

    @property
    def _running(self) -> Leashed:
        assert self._process is not None
        return self._process

    def _end(self, number: signal.Signals) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()
        self._running.end(number, patience=5)
