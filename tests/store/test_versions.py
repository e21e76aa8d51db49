"""Stores that an earlier version made: they are brought forward when an instance opens them, whole or not at all."""

from __future__ import annotations

import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bridge.core.errors import StoreRefused
from bridge.ports import ResultRow
from bridge.store.schema import SCHEMA_VERSION

VERSION_1 = """
CREATE TABLE meta (
    schema_version INTEGER NOT NULL,
    store_id TEXT NOT NULL,
    commit_sequence BIGINT NOT NULL,
    created_at DOUBLE NOT NULL
);
CREATE TABLE instances (
    id TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    started_at DOUBLE NOT NULL,
    heartbeat_at DOUBLE NOT NULL,
    ended_at DOUBLE,
    crashed_at DOUBLE,
    status BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE run_keys (
    id INTEGER NOT NULL,
    run_key TEXT NOT NULL,
    digest BLOB NOT NULL,
    commit_id TEXT NOT NULL,
    first_seen DOUBLE NOT NULL,
    last_seen DOUBLE NOT NULL,
    repeats INTEGER NOT NULL,
    repeated_by TEXT,
    PRIMARY KEY (id),
    UNIQUE (run_key)
);
CREATE TABLE runs (
    id INTEGER NOT NULL,
    due DOUBLE,
    created_at DOUBLE NOT NULL,
    updated_at DOUBLE NOT NULL,
    commit_id TEXT NOT NULL,
    state TEXT NOT NULL,
    retry INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    ambiguous INTEGER NOT NULL,
    claim_epoch INTEGER NOT NULL,
    claimed_by TEXT NOT NULL,
    host TEXT NOT NULL,
    run_id TEXT NOT NULL,
    url TEXT NOT NULL,
    error TEXT NOT NULL,
    run_key TEXT NOT NULL,
    watcher TEXT NOT NULL,
    asset TEXT NOT NULL,
    stream TEXT NOT NULL,
    source TEXT NOT NULL,
    identity TEXT NOT NULL,
    position TEXT NOT NULL,
    target TEXT NOT NULL,
    job TEXT NOT NULL,
    received_at DOUBLE NOT NULL,
    params BLOB NOT NULL,
    tags BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX runs_due ON runs (target, due, id, watcher) WHERE due IS NOT NULL;
CREATE INDEX runs_failed ON runs (target) WHERE state = 'failed';
CREATE TABLE dead_letters (
    id INTEGER NOT NULL,
    watcher TEXT NOT NULL,
    source TEXT NOT NULL,
    identity TEXT NOT NULL,
    state TEXT NOT NULL,
    repeats INTEGER NOT NULL,
    whole INTEGER NOT NULL,
    stream TEXT NOT NULL,
    position TEXT NOT NULL,
    reason TEXT NOT NULL,
    error TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    timestamp DOUBLE,
    received_at DOUBLE NOT NULL,
    created_at DOUBLE NOT NULL,
    updated_at DOUBLE NOT NULL,
    commit_id TEXT NOT NULL,
    "key" BLOB,
    headers BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (watcher, source, identity)
);
CREATE INDEX dead_letters_state ON dead_letters (state, updated_at);
CREATE TABLE attempts (
    source TEXT NOT NULL,
    watcher TEXT NOT NULL,
    identity TEXT NOT NULL,
    tries INTEGER NOT NULL,
    error TEXT NOT NULL,
    updated_at DOUBLE NOT NULL,
    PRIMARY KEY (source, watcher, identity)
);
CREATE TABLE watchers (
    id TEXT NOT NULL,
    definition TEXT NOT NULL,
    paused BOOLEAN NOT NULL,
    disabled BOOLEAN NOT NULL,
    removed_at DOUBLE,
    PRIMARY KEY (id)
);
CREATE TABLE sources (
    stream TEXT NOT NULL,
    source TEXT NOT NULL,
    PRIMARY KEY (stream)
);
CREATE TABLE intents (
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    watcher TEXT NOT NULL,
    skip BOOLEAN NOT NULL,
    about BLOB NOT NULL,
    posted_at DOUBLE NOT NULL,
    done_at DOUBLE,
    outcome TEXT NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX intents_open ON intents (id) WHERE done_at IS NULL;
"""
"""What version 1 made, to the letter; never to be changed."""

ROWS_1 = """
INSERT INTO meta VALUES (1, 'the id', 7, 1.0);
INSERT INTO run_keys VALUES (1, 'w/src/1/0', x'DIGEST', 'c1', 1, 1, 0, NULL);
INSERT INTO run_keys VALUES (2, 'w/src/2/0', x'DIGEST', 'c1', 1, 1, 0, NULL);
INSERT INTO runs VALUES
    (1, 1.0, 1, 1, 'c1', 'pending', 0, 0, 0, 0, '', '', '', '', '', 'w/src/1/0', 'w', 'a', 'orders', 'src', '1',
     'line 1', 'log', 'job', 1, x'7b7d', x'7b7d'),
    (2, NULL, 1, 1, 'c1', 'failed', 0, 5, 0, 5, '', '', '', '', 'boom', 'w/src/2/0', 'w', 'a', 'orders', 'src', '2',
     'line 2', 'log', 'job', 1, x'7b7d', x'7b7d');
INSERT INTO watchers VALUES ('w', '1', 0, 0, NULL);
INSERT INTO sources VALUES ('orders', 'src');
INSERT INTO intents VALUES (1, 'retry', '', 0, x'5b22772f7372632f322f30225d', 1.0, NULL, '');
""".replace("DIGEST", sha256(b"body").hexdigest())


@pytest.fixture
def old(shelf: Any) -> Any:
    """The shelf, with a store of version 1 on it."""
    make(shelf.path)
    return shelf


def make(path: Path) -> None:
    raw = sqlite3.connect(path)
    raw.executescript(VERSION_1 + ROWS_1)
    raw.execute("PRAGMA journal_mode=WAL")
    raw.close()


def columns(shelf: Any) -> list[tuple[Any, ...]]:
    """Of all tables: name, column, type, whether it may be NULL, place in the primary key."""
    return shelf.sql(
        'SELECT t.name, c.name, c.type, c."notnull", c.pk FROM sqlite_master t, pragma_table_info(t.name) c '
        "WHERE t.type = 'table' ORDER BY t.name, c.cid"
    )


def indexes(shelf: Any) -> list[tuple[Any, ...]]:
    return shelf.sql("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name")


async def test_a_store_of_version_1_goes_on_with_all_that_it_had(old: Any, run_row: Any) -> None:
    store = await old.open()
    assert store.store_id == "the id"
    assert old.sql("SELECT schema_version FROM meta") == [(SCHEMA_VERSION,)]
    await store.register({"w": "1"}, {"orders": "src"})
    assert [intent.kind for intent in await store.take_intents()] == ["retry"]
    receipt = await store.commit(
        [run_row(1), run_row(3, key="k", key_ttl=60.0), run_row(4, key="k", key_ttl=60.0)], "c2"
    )
    assert (receipt.sequence, receipt.stored, receipt.suppressed) == (8, 1, 1)
    assert receipt.repeats == ("w/src/1/0",)
    claims = await store.claim("log", 10, 60)
    assert [(claim.run_key, claim.retry) for claim in claims] == [("w/src/1/0", 0), ("w/src/2/0", 1), ("w/src/3/0", 0)]
    await store.commit([ResultRow(claim.run_key, claim.epoch, "started") for claim in claims], "c3")
    assert {run.run_key: (run.state, run.key) for run in old.reader().runs()} == {
        "w/src/1/0": ("started", None),
        "w/src/2/0": ("started", None),
        "w/src/3/0": ("started", "k"),
        "w/src/4/0": ("suppressed", "k"),
    }


async def test_a_store_that_was_brought_forward_is_like_one_that_is_made_today(old: Any, tmp_path: Path) -> None:
    await (await old.open()).aclose(clean=True)
    brought = columns(old), indexes(old)
    old.path.unlink()
    await (await old.open()).aclose(clean=True)
    assert (columns(old), indexes(old)) == brought


async def test_a_store_that_can_t_be_brought_forward_stays_as_it_was(old: Any) -> None:
    old.sql("CREATE TABLE business_keys (mine TEXT)")
    before = columns(old)
    with pytest.raises(StoreRefused, match="business_keys already exists"):
        await old.open()
    assert columns(old) == before
    assert old.sql("SELECT schema_version FROM meta") == [(1,)]


async def test_a_reader_says_who_brings_an_older_store_forward_and_changes_nothing(old: Any) -> None:
    before = columns(old)
    with pytest.raises(StoreRefused, match=r"has schema version 1, .* start `headrace run`"):
        old.reader()
    assert columns(old) == before
    await (await old.open()).aclose(clean=True)
    assert len(old.reader().runs()) == 2


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1])
async def test_a_version_that_this_program_does_not_know_is_refused_and_left_alone(old: Any, version: int) -> None:
    old.sql("UPDATE meta SET schema_version = ?", version)
    with pytest.raises(StoreRefused, match=rf"schema version {version}, .* knows {SCHEMA_VERSION}"):
        await old.open()
    with pytest.raises(StoreRefused):
        old.reader()
    assert old.sql("SELECT schema_version FROM meta") == [(version,)]
