"""One process a store, one reader a folder: who comes second is told who was first, and the first notices nothing."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridge.store.options import InstanceId
from bridge.store.schema import SCHEMA_VERSION
from bridge.store.sql import open_store

if TYPE_CHECKING:
    from tests.integration.conftest import Bridge

pytestmark = pytest.mark.integration

ALL: dict[str, dict[str, Any]] = {"all": {}}


def test_a_second_process_on_a_store_is_refused_until_the_first_is_dead_and_then_starts_at_once(bridge: Bridge) -> None:
    bridge.configure(ALL)
    first = bridge.start()
    bridge.feed("first", {"n": 1})
    bridge.wait("it ran", lambda: bridge.states() == ["succeeded"])
    second = bridge.call("run", "headrace.yaml")
    assert second.returncode == 3
    assert f"in use by process {first.pid} on {socket.gethostname()}" in second.stderr
    assert "stop that one, or name another store" in second.stderr
    bridge.feed("second", {"n": 2})
    bridge.wait("the first one goes on", lambda: bridge.states() == ["succeeded"] * 2)
    bridge.kill()
    bridge.feed("third", {"n": 3})
    bridge.start()  # the kernel has given the lock free, and that on the folder too
    bridge.wait("the next one goes on", lambda: bridge.states() == ["succeeded"] * 3)
    bridge.wait("all is settled", lambda: bridge.done() == ["first", "second", "third"])
    assert bridge.ran() == ["all 1", "all 2", "all 3"]
    assert not bridge.said("stream failed")
    assert [instance.state for instance in bridge.reader().instances()] == ["running", "crashed"]


def test_a_second_reader_of_a_folder_waits_for_the_first_and_says_so(new_bridge: Callable[[str], Bridge]) -> None:
    first, second = new_bridge("first"), new_bridge("second")
    first.configure(ALL)
    second.configure(ALL, stream={"path": str(first.drop)})
    holder = first.start()
    second.start(until="stream failed, started again later")
    said = second.said("stream failed")[0]
    assert f"pid {holder.pid} on {socket.gethostname()} holds {first.drop}/.work/.lock" in said["error"]
    second.wait(
        "its status tells it", lambda: b"read by somebody else already" in second.reader().instances()[0].status
    )
    first.feed("early", {"n": 1})
    first.wait("the first one reads it", lambda: first.done() == ["early"])
    first.wait("and runs it", lambda: first.states() == ["succeeded"])
    assert first.stop() == 0
    first.feed("late", {"n": 2})
    second.wait("the second one reads on", lambda: first.done() == ["early", "late"])
    second.wait("and runs it", lambda: second.states() == ["succeeded"])
    assert (first.ran(), second.ran()) == (["all 1"], ["all 2"])


def test_a_store_of_a_newer_schema_is_refused_naming_both_versions(bridge: Bridge) -> None:
    newer = SCHEMA_VERSION + 41
    asyncio.run(_make_store(bridge.database))
    with closing(sqlite3.connect(bridge.database)) as raw:
        raw.execute("UPDATE meta SET schema_version = ?", [newer])
        raw.commit()
    before = bridge.database.read_bytes()
    bridge.configure(ALL)
    for command in (["run", "headrace.yaml"], ["status"]):
        refused = bridge.call(*command)
        assert refused.returncode == 3
        assert f"has schema version {newer}, and this program knows {SCHEMA_VERSION}:" in refused.stderr
        assert "Traceback" not in refused.stderr
    assert bridge.database.read_bytes() == before


async def _make_store(path: Path) -> None:
    store = await open_store(f"sqlite:///{path}", instance=InstanceId("earlier", "here", 1, "0"))
    await store.aclose(clean=True)
