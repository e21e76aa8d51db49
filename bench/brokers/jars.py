"""Apache Kafka's jars, fetched once by Maven into a cache that all runs share."""

from __future__ import annotations

import fcntl
import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.brokers.endpoint import Unavailable

DATA = Path(__file__).resolve().parents[2] / "testcontainers"
POM = DATA / "kafka" / "pom.xml"
FETCH_WITHIN = 240.0
"""Seconds. About 50 jars, 45 MB; five seconds on a good line."""


def cache() -> Path:
    """`HEADRACE_CACHE`, or `~/.cache/headrace`."""
    given = os.environ.get("HEADRACE_CACHE")
    folder = Path(given) if given else Path.home() / ".cache" / "headrace"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


def kafka_version() -> str:
    """`HEADRACE_KAFKA_VERSION`, or that of the pom.xml."""
    given = os.environ.get("HEADRACE_KAFKA_VERSION")
    return given or re.findall(r"<kafka.version>(.*?)</kafka.version>", POM.read_text())[0]


def kafka_jars() -> Path:
    """The folder with all jars. Raises Unavailable where there is no Java 17, or no Maven and nothing in the cache."""
    folder = cache() / f"kafka-{kafka_version()}"
    if java_version() < 17:
        raise Unavailable("Apache Kafka needs Java 17 or newer: install a JRE (Debian: default-jre-headless)")
    with one_at_a_time(cache() / "kafka.lock"):
        if not folder.is_dir():
            _fetch(folder)
    return folder


@functools.cache
def java_version() -> int:
    """The major version, 0 where there is no Java."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def _fetch(folder: Path) -> None:
    """Into a folder beside it, then a rename: a fetch that is interrupted leaves nothing that looks whole."""
    if shutil.which("mvn") is None:
        raise Unavailable("Apache Kafka's jars come by Maven, once: install it (Debian: maven)")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as work:
        pom = shutil.copy(POM, work)  # Maven writes a folder `target` beside it
        into = Path(work) / "lib"
        fetch = [
            "mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
            f"-Dkafka.version={kafka_version()}", f"-DoutputDirectory={into}",
        ]  # fmt: skip
        try:
            done = subprocess.run(fetch, capture_output=True, text=True, timeout=FETCH_WITHIN, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Maven has not fetched Kafka's jars within {FETCH_WITHIN:.0f} s") from None
        if done.returncode != 0 or not list(into.glob("kafka_*.jar")):
            raise Unavailable(f"Maven could not fetch Kafka's jars: {(done.stdout + done.stderr)[-1500:]}")
        into.rename(folder)


@contextmanager
def one_at_a_time(lock: Path) -> Iterator[None]:
    """Workers of one test run start together, and one of them is enough to fetch or build a thing."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
