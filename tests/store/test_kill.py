"""A kill -9 in the middle of commits: what was confirmed is there, whole commits only, and the next life goes on."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from typing import Any

import pytest

pytestmark = pytest.mark.integration

ROWS = 50
KEYS = 30
SCRIPT = """
import asyncio, os, sys
from bridge.store.options import InstanceId
from bridge.store.sql import open_store
from bridge.testing import run_row

def row(commit, n, key=None):
    name = f"{commit}-{n}"
    return run_row(f"w/src/{name}/0", identity=name, position=name, key=key, key_ttl=3600.0)

def business_key(commit, n):
    return f"k{(commit * ROWS + n) % KEYS}" if commit % 2 and sys.argv[3] == "keyed" else None

async def main(url, life):
    store = await open_store(url, instance=InstanceId(f"child-{life}", "here", os.getpid(), "0"))
    commit = 0
    while True:
        name = f"{life}-{commit}"
        receipt = await store.commit([row(name, n, business_key(commit, n)) for n in range(ROWS)], name)
        assert receipt.stored + receipt.suppressed == ROWS
        print(name, receipt.sequence, flush=True)
        await store.claim("log", 10, 60)
        commit += 1

asyncio.run(main(sys.argv[1], sys.argv[2]))
""".replace("ROWS", str(ROWS)).replace("KEYS", str(KEYS))


async def life_until_killed(url: str, life: int, commits: int, runs: str = "plain") -> list[tuple[str, int]]:
    """What a process had confirmed when it was killed, after that many commits and in the middle of another."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SCRIPT, url, str(life), runs, stdout=PIPE)
    assert process.stdout is not None
    lines = []
    try:
        async with asyncio.timeout(30):
            lines = [await process.stdout.readline() for _ in range(commits)]
    finally:
        process.kill()
        lines += (await process.stdout.read()).splitlines()
        await process.wait()
    confirmed = [line.decode().split() for line in lines if line]
    return [(name, int(sequence)) for name, sequence in confirmed]


async def test_what_was_confirmed_before_a_kill_is_there_and_whole(shelf: Any) -> None:
    confirmed: list[tuple[str, int]] = []
    for life, commits in enumerate((3, 15)):
        confirmed += await life_until_killed(shelf.url, life, commits)
    store = await shelf.open(own_clock=False)
    by_commit = dict(shelf.sql("SELECT commit_id, count(*) FROM runs GROUP BY commit_id"))
    assert set(by_commit.values()) == {ROWS}
    assert {name for name, _ in confirmed} <= by_commit.keys()
    assert len(by_commit) <= len(confirmed) + 2  # at most one commit of each life whose answer nobody heard
    sequences = [sequence for _, sequence in confirmed]
    assert sequences == sorted(set(sequences))
    assert (await store.commit([], "after")).sequence == len(by_commit) + 1
    assert shelf.sql("PRAGMA integrity_check") == [("ok",)]
    claimed = shelf.sql("SELECT count(*) FROM runs WHERE state = 'dispatching'")[0][0]
    claims = await store.claim("log", claimed, 60)
    assert claimed > 0
    assert all(claim.ambiguous for claim in claims)
    assert [view.state for view in shelf.reader().instances()][1:] == ["crashed"] * 2


async def test_a_business_key_has_one_holder_whatever_a_kill_cut_short(shelf: Any) -> None:
    confirmed: list[tuple[str, int]] = []
    for life in range(4):
        confirmed += await life_until_killed(shelf.url, life, 1 + 3 * life, "keyed")
    await shelf.open(own_clock=False)
    by_commit = dict(shelf.sql("SELECT commit_id, count(*) FROM runs GROUP BY commit_id"))
    assert set(by_commit.values()) == {ROWS}
    assert {name for name, _ in confirmed} <= by_commit.keys()
    held = shelf.sql("SELECT key, run_key FROM runs WHERE key IS NOT NULL AND suppressed_by IS NULL")
    holders = dict(held)
    assert len(held) == len(holders) == KEYS
    assert holders == dict(shelf.sql("SELECT key, holder FROM business_keys"))
    suppressed = shelf.sql("SELECT key, suppressed_by, state, due FROM runs WHERE suppressed_by IS NOT NULL")
    assert suppressed
    for key, holder, state, due in suppressed:
        assert (holders[key], "suppressed", None) == (holder, state, due)
    (started,) = shelf.sql("SELECT count(*) FROM runs WHERE state = 'dispatching' AND suppressed_by IS NOT NULL")
    assert started == (0,)
