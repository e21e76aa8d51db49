"""Processes that end when we do, however we end."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

PORTS = range(20_000, 32_000)
"""Below those that the system hands out by itself: a broker that is down must find its port free when it comes back,
and a client that calls a closed port there can't end up connected to itself."""


class Leash:
    """Runs a command as soon as this process has ended, however that came about, SIGKILL included.

    A tiny shell holds the other end of a pipe of ours, which closes then. `drop` it when there is nothing to end.
    """

    def __init__(self, *command: str) -> None:
        self._shell: subprocess.Popen[bytes] | None = subprocess.Popen(
            ["/bin/sh", "-c", 'read -r _; "$@"', "leash", *command], stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def drop(self) -> None:
        shell, self._shell = self._shell, None
        if shell is not None:
            shell.kill()
            shell.wait()
            assert shell.stdin is not None
            shell.stdin.close()


class Leashed:
    """One process in a session of its own, whose output goes to a file. It ends when we do, by `leash` (a signal's
    name for kill), and is never ended but by its process id.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        leash: str = "KILL",
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, **(environment or {})}, cwd=log.parent,
            )  # fmt: skip
        self.pid = self._process.pid
        self._leash = Leash("kill", "-s", leash, str(self.pid))  # the shell's own kill: slim systems have no other

    @property
    def is_running(self) -> bool:
        if self._process.poll() is None:
            return True
        self._leash.drop()  # the process id may soon be somebody else's
        return False

    def send(self, number: signal.Signals) -> None:
        """To the process if it still runs; else nothing happens."""
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM, patience: float = 20.0) -> int:
        """Its exit code. After `patience` seconds it is killed."""
        self.send(number)
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._leash.drop()
        return code

    def tail(self, lines: int = 25) -> str:
        """The end of its output, for error messages."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on. By chance, since others look for one at the same time."""
    for port in random.sample(PORTS, 200):
        if is_free(port):
            return port
    raise OSError(f"no free port found between {PORTS.start} and {PORTS.stop}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def answers(host: str, port: int, patience: float = 2.0) -> bool:
    """Somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), patience):
            return True
    except OSError:
        return False
