"""Installs the peers that can be installed, and runs each beside ours. Bounded in time; what can't be had is skipped.

Their environments are kept in a cache folder (`$XDG_CACHE_HOME/headrace/bench`), so the second time is quick.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from bench.common import Result
from bench.kafka import sides
from bench.kafka.cases import Filled

INSTALLED_WITHIN: Final = 240.0
DONE_WITHIN: Final = 60.0


class Peer(Struct, frozen=True):
    """`module` is its side, `packages` what it needs beside msgspec; `events` is what it gets through in a minute."""

    name: str
    module: str
    packages: tuple[str, ...]
    events: int
    variant: str = ""

    @property
    def folder(self) -> Path:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache, "headrace", "bench", self.module)


FASTSTREAM: Final = ("faststream[kafka]==0.7.8",)
AIRFLOW: Final = ("apache-airflow-core==3.3.2", "apache-airflow-providers-apache-kafka==2.1.0")

PEERS: Final = (
    Peer("faststream_batch", "faststream_side", FASTSTREAM, 200_000, "batch"),
    Peer("faststream_single", "faststream_side", FASTSTREAM, 10_000, "single"),
    Peer("faust", "faust_side", ("faust-streaming==0.15.3", "orjson"), 50_000),
    Peer("airflow_trigger", "airflow_side", AIRFLOW, 5_000),
)


class Skipped(Exception):
    """The text says why."""


def installed(peer: Peer) -> str:
    """Its Python, in an environment that is made if there is none. Raises Skipped."""
    python = peer.folder / "bin" / "python"
    done = peer.folder / ".installed"
    wanted = "\n".join(peer.packages)
    if done.exists() and done.read_text() == wanted:
        return str(python)
    shutil.rmtree(peer.folder, ignore_errors=True)
    peer.folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"installing {', '.join(peer.packages)}", file=sys.stderr)
    try:
        for command in (
            [sys.executable, "-m", "venv", str(peer.folder)],
            [str(python), "-m", "pip", "install", "--quiet", "msgspec", *peer.packages],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALLED_WITHIN)
    except subprocess.TimeoutExpired:
        raise Skipped(f"it was not installed within {INSTALLED_WITHIN:g} s") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Skipped(f"it can't be installed: {last}") from error
    done.write_text(wanted)
    return str(python)


async def _run(peer: Peer, python: str, filled: Filled) -> sides.Report:
    order = filled.order("nothing")
    events = min(peer.events, order.events)
    order = msgspec.structs.replace(order, events=events, variant=peer.variant)
    module = f"peers.{peer.module}"
    return await sides.finished(await sides.start(module, order, python, quiet=True), DONE_WITHIN)


def results(filled: Filled) -> Iterator[Result]:
    """Ours first, then theirs, as events per second and as a share of ours."""
    ours = asyncio.run(sides.run("ours", filled.order("nothing")))
    yield Result("peer_ours", round(1 / ours.each), "events/s", 1.0, f"{ours.cpu_each * 1e6:.1f} us CPU/event", 1)
    for peer in PEERS:
        try:
            found = asyncio.run(_run(peer, installed(peer), filled))
        except (Skipped, RuntimeError) as why:
            print(f"{peer.name} is left out: {why}", file=sys.stderr)
            continue
        against = f"ours; {found.cpu_each * 1e6:.1f} us CPU/event"
        yield Result(
            f"peer_{peer.name}", round(1 / found.each), "events/s", round(ours.each / found.each, 3), against, 1
        )
