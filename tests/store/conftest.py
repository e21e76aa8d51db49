"""What the tests of the store share: a clock, rows, and a store in a folder of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from bridge.ports import DeadLetterRow, RunRow
from bridge.store.options import InstanceId, StoreOptions
from bridge.store.reader import Reader, open_reader
from bridge.store.sql import SqlStore, open_store
from bridge.testing import run_row as stored_row


class Shelf:
    """Opens stores on one file, and closes what is left open."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self.now = 1_000_000.0
        self.path = folder / "headrace.db"
        self.url = f"sqlite:///{self.path}"
        self._stack = stack
        self._lives = 0

    async def open(self, *, host: str = "here", pid: int = 4711, own_clock: bool = True, **options: Any) -> SqlStore:
        self._lives += 1
        store = await open_store(
            self.url,
            instance=InstanceId(f"life-{self._lives}", host, pid, "0.1"),
            options=StoreOptions(**options),
            now=(lambda: self.now) if own_clock else None,
        )
        self._stack.push_async_callback(store.aclose, clean=False)
        return store

    def reader(self) -> Reader:
        return open_reader(self.url)

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Past the store, through another connection."""
        raw = sqlite3.connect(self.path)
        try:
            found = raw.execute(statement, values).fetchall()
            raw.commit()
            return found
        finally:
            raw.close()


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    async with AsyncExitStack() as stack:
        yield Shelf(tmp_path, stack)


@pytest.fixture
def run_row() -> Callable[..., RunRow]:
    return make_run


@pytest.fixture
def letter_row() -> Callable[..., DeadLetterRow]:
    return make_letter


def make_run(name: object, *, body: bytes = b"body", watcher: str = "w", **fields: Any) -> RunRow:
    values: dict[str, Any] = {
        "run_key": f"{watcher}/src/{name}/0",
        "body": body,
        "watcher": watcher,
        "asset": "a",
        "stream": "orders",
        "source": "src",
        "identity": str(name),
        "position": f"line {name}",
        "target": "log",
        "job": "job",
        "params": b"{}",
        "tags": b"{}",
        "received_at": 1.0,
    }
    return stored_row(**{**values, **fields})


def make_letter(name: object, **fields: Any) -> DeadLetterRow:
    values: dict[str, Any] = {
        "watcher": "w",
        "stream": "orders",
        "source": "src",
        "identity": str(name),
        "position": f"line {name}",
        "body": b"raw",
        "key": None,
        "headers": b"[]",
        "timestamp": None,
        "reason": "rejected",
        "error": "no",
        "attempts": 1,
        "received_at": 1.0,
    }
    return DeadLetterRow(**{**values, **fields})
