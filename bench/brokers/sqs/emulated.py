"""What speaks SQS without Docker, each as a process: fauxqs (npm, Node 20), and moto's server (PyPI).

fauxqs is quick, and long polls wake up at once; but it takes any receipt handle, and gives one message of a group in a
receive. moto refuses bad handles as SQS does, and is slow.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.jars import DATA, cache, one_at_a_time
from bench.brokers.processes import Leashed, answers, free_port

RECIPE: Final = DATA / "sqs"
FETCH_WITHIN: Final = 180.0
START_WITHIN: Final = 30.0


class Emulated:
    """One process that speaks SQS over HTTP on `port` of 127.0.0.1. What it holds is gone when it ends."""

    what = ""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = folder
        self._process: Leashed | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint("sqs", "local", f"127.0.0.1:{self.port}", self.what)

    def command(self) -> Sequence[str]:
        """Raises Unavailable."""
        raise NotImplementedError

    def start(self) -> None:
        """Returns when it takes connections. Raises Unavailable."""
        self._process = process = Leashed(self.command(), self.folder / "log")
        ends_at = time.monotonic() + START_WITHIN
        while not answers("127.0.0.1", self.port, 0.2):
            if not process.is_running or time.monotonic() > ends_at:
                tail = process.tail()
                self.close()
                raise Unavailable(f"{self.what} has not started; its log ends:\n{tail}")
            time.sleep(0.05)

    def kill(self) -> None:
        """kill -9. `start` starts an empty one on the same port."""
        if self._process is not None:
            self._process.end(signal.SIGKILL)

    def close(self) -> None:
        """Harmless if it does not run."""
        if self._process is not None:
            self._process.end(patience=5)


class Fauxqs(Emulated):
    what = "fauxqs 1.9.2, NOT SQS"

    def command(self) -> Sequence[str]:
        return ["node", str(fauxqs() / "serve.mjs"), str(self.port)]


class Moto(Emulated):
    what = "moto's server, NOT SQS"

    def command(self) -> Sequence[str]:
        server = Path(sys.executable).with_name("moto_server")
        if not server.exists():
            raise Unavailable("moto's server is not installed: pip install 'moto[server]'")
        return [str(server), "-H", "127.0.0.1", "-p", str(self.port)]


def fauxqs() -> Path:
    """The folder with fauxqs, fetched once by npm. Raises Unavailable."""
    folder = cache() / "fauxqs-1.9.2"
    with one_at_a_time(cache() / "fauxqs.lock"):
        if not folder.is_dir():
            _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    """Into a folder beside it, then a rename: a fetch that is interrupted leaves nothing that looks whole."""
    if node_version() < 20 or shutil.which("npm") is None:
        raise Unavailable("fauxqs needs Node.js 20 or newer, with npm")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as work:
        made = Path(work) / "fauxqs"
        made.mkdir()
        for name in ("package.json", "serve.mjs"):
            shutil.copy(RECIPE / name, made)
        install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--omit=dev", "--loglevel=error"]
        try:
            done = subprocess.run(
                install, cwd=made, capture_output=True, text=True, timeout=FETCH_WITHIN, check=False,
                env={**os.environ, "npm_config_update_notifier": "false"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Unavailable(f"npm has not fetched fauxqs within {FETCH_WITHIN:.0f} s") from None
        if done.returncode != 0:
            raise Unavailable(f"npm could not fetch fauxqs: {(done.stdout + done.stderr)[-1000:]}")
        made.rename(folder)


def node_version() -> int:
    """The major version, 0 where there is no Node.js."""
    if shutil.which("node") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    return int(said.strip().removeprefix("v").partition(".")[0] or 0)
