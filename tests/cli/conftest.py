"""The real `main`, on real configurations and stores made by the real SqlStore."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from bridge.cli.main import main
from bridge.ports import DeadLetterRow, RunRow
from bridge.store.options import InstanceId
from bridge.store.sql import SqlStore, open_store
from bridge.testing import run_row as stored_row

GOOD = """\
store: sqlite:///headrace.db
targets:
  shell:
    kind: command
    command: [/bin/sh, -c, "exit 0"]
  notes:
    kind: log
streams:
  orders:
    kind: directory
    path: drop
    lines: true
assets:
  eu_orders:
    watchers:
      - stream: orders
        match: {region: [eu, uk]}
        run: {target: shell, job: process_order, params: {order: "${event.order_id}"}}
  us_orders:
    watchers:
      - stream: orders
        match: {region: us}
        run: {target: notes, job: note}
"""


class Said:
    """What a command left: its exit code and both outputs."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.bytes = out
        self.out = out.decode("utf-8", "backslashreplace")
        self.err = err.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit code {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


class Home:
    """A folder with a configuration and a drop folder, and the store that belongs to it."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/headrace.db"
        self._stack = stack
        self._lives = 0

    def configure(self, text: str, *, more: bool = False) -> None:
        """Writes the configuration; `more`: something at its end."""
        path = self.folder / "headrace.yaml"
        path.write_text(path.read_text() + text if more else text)

    async def open(self, **options: Any) -> SqlStore:
        """A store as a running instance has it, with the watchers of GOOD."""
        self._lives += 1
        values = {"host": "here", "pid": 4711, **options}
        store = await open_store(
            self.url, instance=InstanceId(f"life-{self._lives}", values["host"], values["pid"], "0.1.0")
        )
        self._stack.push_async_callback(store.aclose, clean=False)
        await store.register({"eu_orders": "1", "us_orders": "1"}, {"orders": "src"})
        return store

    def sql(self, statement: str) -> None:
        """Past the store, through another connection."""
        raw = sqlite3.connect(self.folder / "headrace.db")
        try:
            raw.execute(statement)
            raw.commit()
        finally:
            raw.close()

    async def filled(self, *rows: Any) -> None:
        """The store with some rows in it, and no instance."""
        store = await self.open()
        await store.commit(rows, "c1")
        await store.aclose(clean=True)


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Home]:
    monkeypatch.chdir(tmp_path)
    for name in ("HEADRACE_CONFIG", "HEADRACE_LOG_LEVEL", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "headrace.yaml").write_text(GOOD)
    (tmp_path / "drop").mkdir()
    async with AsyncExitStack() as stack:
        yield Home(tmp_path, stack)


@pytest.fixture
def headrace(home: Home, capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., Said]:
    """Runs a command in this process. Its outputs are no terminal."""

    def call(*arguments: str) -> Said:
        capfdbinary.readouterr()
        code = main(arguments)
        out, err = capfdbinary.readouterr()
        return Said(code, out, err)

    return call


@pytest.fixture
def headrace_process(home: Home) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command as a process of its own, in the folder of the configuration. None outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [sys.executable, "-m", "bridge.cli.main", *arguments]
        started.append(subprocess.Popen(command, text=True, cwd=home.folder, **{**pipes, **options}))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait(10)


@pytest.fixture
def instance_at_work() -> Callable[[SqlStore], Any]:
    """While it lasts, an instance takes intents, as a process does twice a second."""

    @asynccontextmanager
    async def working(store: SqlStore) -> AsyncIterator[None]:
        async def take() -> None:
            while True:
                await store.take_intents()
                await asyncio.sleep(0.02)

        task = asyncio.create_task(take())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return working


@pytest.fixture
def terminal() -> Callable[[], Any]:
    """A real terminal, 80 columns wide: the descriptor that a process gets, and ours."""

    @contextmanager
    def opened() -> Iterator[tuple[int, int]]:
        import fcntl
        import struct
        import termios

        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        try:
            yield ours, theirs
        finally:
            os.close(ours)
            with suppress(OSError):
                os.close(theirs)

    return opened


@pytest.fixture
def run_row() -> Callable[..., RunRow]:
    return make_run


@pytest.fixture
def letter_row() -> Callable[..., DeadLetterRow]:
    return make_letter


def make_run(name: object, **fields: Any) -> RunRow:
    watcher = fields.get("watcher", "eu_orders")
    values: dict[str, Any] = {
        "run_key": f"{watcher}/src/{name}/0",
        "body": str(name).encode(),
        "watcher": watcher,
        "asset": watcher,
        "stream": "orders",
        "source": "src",
        "identity": str(name),
        "position": f"a.jsonl:{name}",
        "target": "shell",
        "job": "process_order",
        "params": b'{"order":"o1"}',
        "tags": b"{}",
        "received_at": 1_764_513_845.0,
    }
    return stored_row(**{**values, **fields})


def make_letter(name: object, **fields: Any) -> DeadLetterRow:
    values: dict[str, Any] = {
        "watcher": "eu_orders",
        "stream": "orders",
        "source": "src",
        "identity": str(name),
        "position": f"a.jsonl:{name}",
        "body": b'{"region":"eu"}',
        "key": None,
        "headers": b"[]",
        "timestamp": None,
        "reason": "rejected",
        "error": "no price",
        "attempts": 1,
        "received_at": 1_764_513_845.0,
    }
    return DeadLetterRow(**{**values, **fields})
