"""A Docker engine: the one that answers, or one that runs as long as a command does.

    python -m bench.brokers.engine make test

runs the command with an engine. Where none answers and we are root, dockerd is started for it (Debian: docker.io and
iptables), with its images in the cache, and ended after it. Where that is impossible, the command runs all the same,
and this says loudly why there are no containers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker.errors import DockerException  # type: ignore[import-untyped]  # it has no stubs of its own
from testcontainers.core.docker_client import DockerClient

from bench.brokers.endpoint import REQUIRED, Unavailable
from bench.brokers.jars import cache
from bench.brokers.processes import Leashed

SOCKET = Path("/var/run/docker.sock")
LABEL = "headrace.tests"
"""On every container of ours. Its value is the process id of the run that made it."""
START_WITHIN = 30.0
UNANSWERED = (DockerException, OSError)
"""What the SDK raises, and what the HTTP library below it does."""


def engine() -> DockerClient:
    """A client of the engine of this machine that answers. Raises Unavailable."""
    address = os.environ.get("DOCKER_HOST", "")
    if address and not address.startswith("unix://"):
        raise Unavailable(f"DOCKER_HOST is {address!r}: only an engine on this machine (unix://) can be used")
    path = Path(address.removeprefix("unix://")) if address else SOCKET
    if not path.exists():
        raise Unavailable(f"no Docker engine at {path}; as root, `python -m bench.brokers.engine COMMAND` starts one")
    try:
        return DockerClient()  # which asks the engine for its version
    except UNANSWERED as error:
        raise Unavailable(f"the Docker engine at {path} does not answer: {error}") from error


def sweep(client: DockerClient) -> None:
    """Removes containers whose run is over."""
    for container in client.client.containers.list(all=True, filters={"label": LABEL}):
        if not _is_alive(int(container.labels[LABEL])):
            container.remove(force=True, v=True)


@contextmanager
def started_engine() -> Iterator[str]:
    """The address of an engine of ours. Raises Unavailable with the reason, and the end of its log if it has one."""
    if os.geteuid() != 0:
        raise Unavailable("no Docker engine answers, and only root can start one")
    if shutil.which("dockerd") is None:
        raise Unavailable("no Docker engine answers, and dockerd is not installed (Debian: docker.io iptables)")
    home = cache() / "engine"
    home.mkdir(exist_ok=True)
    with (home / "lock").open("w") as lock, tempfile.TemporaryDirectory(prefix="headrace-engine-") as work:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Unavailable("another run has started an engine with the same cache, and two would collide") from None
        process, address = _dockerd(home / "data", Path(work)), f"unix://{work}/docker.sock"
        try:
            _wait(process, address)
            yield address
        finally:
            process.end(signal.SIGTERM, patience=30)


def _dockerd(data: Path, work: Path) -> Leashed:
    """Ports of containers are bound to 127.0.0.1 unless they say otherwise."""
    command = [
        "dockerd", "--data-root", str(data), "--exec-root", str(work / "exec"), "-H", f"unix://{work}/docker.sock",
        "--pidfile", str(work / "pid"), "--ip", "127.0.0.1", "--log-level", "warn",
    ]  # fmt: skip
    return Leashed(command, work / "dockerd.log", leash="TERM")


def _wait(process: Leashed, address: str) -> None:
    ends_at = time.monotonic() + START_WITHIN
    while not _answers(address):
        if not process.is_running:
            raise Unavailable(f"dockerd has ended while it started; its log ends:\n{process.tail()}")
        if time.monotonic() > ends_at:
            raise Unavailable(f"dockerd is not ready after {START_WITHIN:.0f} s; its log ends:\n{process.tail()}")
        time.sleep(0.1)


def _answers(address: str) -> bool:
    try:
        client = DockerClient(environment={"DOCKER_HOST": address})
    except UNANSWERED:
        return False
    client.client.close()
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(command: list[str]) -> int:
    """The exit code of the command."""
    try:
        engine().client.close()
    except Unavailable:
        pass
    else:
        return _call(command)
    try:
        with started_engine() as address:
            return _call(command, DOCKER_HOST=address)
    except Unavailable as error:
        print(f"NO CONTAINERS: {error}", file=sys.stderr, flush=True)
        return subprocess.call(command)


def _call(command: list[str], **environment: str) -> int:
    """With an engine there, tests that want a container have no excuse."""
    required = ",".join(filter(None, [os.environ.get(REQUIRED, ""), "containers"]))
    return subprocess.call(command, env={**os.environ, REQUIRED: required, **environment})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("usage: python -m bench.brokers.engine COMMAND [ARGUMENT...]")
    raise SystemExit(main(sys.argv[1:]))
