"""The image of Kafka's container: the official one if it is here or can be pulled, else one that is made here."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import threading
import tomllib
from pathlib import Path
from typing import IO, Final

from testcontainers.core.docker_client import DockerClient

from bench.brokers.endpoint import Unavailable
from bench.brokers.engine import UNANSWERED
from bench.brokers.jars import DATA, cache, kafka_jars, kafka_version, one_at_a_time

PULL_WITHIN = 120.0
NOT_NEEDED = {"jmods", "man", "include", "legal", "demo", "docs", "sample", "src.zip"}
"""Of a Java installation: what only its developers use."""
DESKTOP = re.compile(r"awt|font|splash|sound|lcms|mlib|javajpeg|jfx|freetype")
"""Libraries that would bring those of a desktop with them."""


def kafka_image(client: DockerClient) -> str:
    """Its name, present in the engine. Raises Unavailable."""
    names = tomllib.loads((DATA / "images.toml").read_text())["kafka"]
    local = f"{names['local']}:{kafka_version()}-{_recipe()}"
    given = os.environ.get(names["override"])
    with one_at_a_time(cache() / "image.lock"):
        for name in [given] if given else [names["image"], local]:
            if client.client.images.list(name):
                return str(name)
        refusal = pull(client, given or names["image"])
        if not refusal:
            return str(given or names["image"])
        if given:
            raise Unavailable(f"the image {given} of {names['override']} could not be pulled: {refusal}")
        _build(client, local)
        return local


def _recipe() -> str:
    """Eight hex digits: an image that was made in another way is not taken for this one."""
    files = (Path(__file__), DATA / "kafka" / "Dockerfile", DATA / "kafka" / "start")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]


def pull(client: DockerClient, name: str) -> str:
    """Why it could not be pulled; empty if it could. A pull has no deadline of its own, so a thread does it."""
    said = [f"not within {PULL_WITHIN:.0f} s"]

    def pull() -> None:
        try:
            client.client.images.pull(name)
            said.append("")
        except UNANSWERED as error:
            said.append(str(error))

    thread = threading.Thread(target=pull, name="pull", daemon=True)
    thread.start()
    thread.join(PULL_WITHIN)
    return said[-1]


def _build(client: DockerClient, name: str) -> None:
    """From this machine's Java and the jars in the cache. Some 250 MB, about ten seconds."""
    with tempfile.TemporaryFile(dir=cache()) as context:
        _write_context(context)
        context.seek(0)
        try:
            client.client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True)
        except UNANSWERED as error:
            raise Unavailable(f"the image {name} could not be made: {error}") from error


def _write_context(file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w", dereference=True) as tar:
        for name in ("Dockerfile", "start"):
            tar.add(DATA / "kafka" / name, name)
        for folder in ("root/tmp", "root/mnt/shared/config", "root/var/lib/kafka/data"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
        for name, content in (("passwd", "root:x:0:0:root:/tmp:/bin/sh\n"), ("group", "root:x:0:\n")):
            entry = tarfile.TarInfo(f"root/etc/{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content.encode()))
        _add_java(tar)
        for jar in sorted(kafka_jars().glob("*.jar")):
            tar.add(jar, f"root/opt/kafka/lib/{jar.name}")


def _add_java(tar: tarfile.TarFile) -> None:
    """The runtime, a shell, and every library that these name, at the paths where they look for them."""
    home, shell = _java_home(), shutil.which("sh") or "/bin/sh"
    files = [
        path for path in sorted(home.rglob("*"))
        if path.is_file() and not NOT_NEEDED & set(path.relative_to(home).parts) and not DESKTOP.search(path.name)
    ]  # fmt: skip
    for path in files:
        tar.add(path, f"root/opt/java/{path.relative_to(home)}")
    tar.add(shell, "root/bin/sh")
    loaded = [str(path) for path in files if ".so" in path.suffixes]
    for library in _libraries([shell, str(home / "bin" / "java"), *loaded]):
        if not library.is_relative_to(home):
            tar.add(library, f"root{library}")
        if library.name == "libc.so.6":
            for name in BESIDE_LIBC:
                if (other := library.with_name(name)).exists():
                    tar.add(other, f"root{other}")


BESIDE_LIBC: Final = ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6")
"""What the codecs in Kafka's jars ask for, which were built for older systems: zstd, snappy and lz4."""


def _libraries(programs: list[str]) -> list[Path]:
    """What the dynamic linker would load for them, the linker itself among it."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, timeout=60, check=False).stdout
    return [Path(path) for path in sorted(set(re.findall(r"(?:=> |^\s+)(/\S+)", said, re.MULTILINE)))]


def _java_home() -> Path:
    asked = ["java", "-XshowSettings:properties", "-version"]
    said = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stderr
    return Path(re.findall(r"java\.home = (.*)", said)[0].strip())
