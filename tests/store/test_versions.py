"""Stores that an earlier version made: they are brought forward when an instance opens them, whole or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from bridge.core.errors import StoreRefused
from bridge.ports import DeadLetterRow, OpenedRow, Prior, RelayedRow, ResultRow
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


FROM_1_TO_2 = """
ALTER TABLE runs ADD COLUMN "key" TEXT;
ALTER TABLE runs ADD COLUMN key_until DOUBLE;
ALTER TABLE runs ADD COLUMN suppressed_by TEXT;
CREATE TABLE business_keys (
    watcher TEXT NOT NULL,
    "key" TEXT NOT NULL,
    holder TEXT NOT NULL,
    expires_at DOUBLE NOT NULL,
    PRIMARY KEY (watcher, "key")
) WITHOUT ROWID;
CREATE INDEX business_keys_expiry ON business_keys (expires_at);
UPDATE meta SET schema_version = 2;
"""
"""What version 2 changed, to the letter; never to be changed either."""

ROWS_2 = """
INSERT INTO business_keys VALUES ('w', 'k', 'w/src/0/0', 1e12);
INSERT INTO dead_letters VALUES
    (1, 'w', 'src', '8', 'dead', 0, 1, 'orders', 'line 8', 'rejected', 'no', 1, NULL, 1, 1, 1, 'c1', NULL, x'5b5d',
     x'383838'),
    (2, 'w', 'src', '9', 'dead', 0, 1, 'orders', 'line 9', 'rejected', 'no', 1, NULL, 1, 1, 1, 'c1', NULL, x'5b5d',
     x'393939');
INSERT INTO attempts VALUES ('src', 'w', '7', 2, 'e', 1);
INSERT INTO instances VALUES ('i', 'here', 1, '0', 1, 1, NULL, NULL, x'7b7d');
"""


@pytest.fixture
def old(shelf: Any) -> Any:
    """The shelf, with a store of version 1 on it."""
    make(shelf.path, VERSION_1 + ROWS_1)
    return shelf


@pytest.fixture
def second(shelf: Any) -> Any:
    """The shelf, with a store of version 2 on it."""
    make(shelf.path, VERSION_1 + ROWS_1 + FROM_1_TO_2 + ROWS_2)
    return shelf


def make(path: Path, script: str) -> None:
    raw = sqlite3.connect(path)
    raw.executescript(script)
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


async def test_a_store_of_version_2_goes_on_with_all_that_it_had(
    second: Any, run_row: Any, letter_row: Callable[..., DeadLetterRow]
) -> None:
    store = await second.open()
    assert (store.store_id, store.sequence, store.was_killed) == ("the id", 7, True)
    assert await store.attempts("src") == {("w", "7"): Prior(2)}
    assert await store.places("orders") == {}
    assert await store.claim_letters("orders", 10, 60) == []
    assert (await store.commit([run_row(3, key="k", key_ttl=60.0), run_row(8)], "c2")).suppressed == 1
    states = {letter.identity: (letter.state, letter.tombstone) for letter in second.reader().dead_letters(state=None)}
    assert states == {"8": ("superseded", False), "9": ("dead", False)}
    await store.commit([OpenedRow("w", "src", "7")], "c3")
    await store.commit([letter_row(9, relays=True)], "c4")
    (letter,) = await store.claim_letters("orders", 10, 60)
    assert (letter.id, letter.body, letter.failures) == ("the id:2", b"999", 0)
    await store.commit([RelayedRow(2, "away", second.now)], "c5")
    (listed,) = second.reader().dead_letters()
    assert (listed.relay_error, listed.relay_failures, listed.relayed_at) == ("away", 1, None)
    await store.aclose(clean=False)
    again = await second.open()
    assert await again.attempts("src") == {("w", "7"): Prior(2, 1)}


async def test_old_dead_letters_can_be_replayed(second: Any) -> None:
    store = await second.open()
    second.reader().post("replay", dead_letters=[1])
    await store.take_intents()
    (replay,) = await store.replays("orders", 10)
    assert (replay.body, replay.tombstone) == (b"888", False)


@pytest.mark.parametrize("version", [1, 2])
async def test_a_store_that_was_brought_forward_is_like_one_that_is_made_today(shelf: Any, version: int) -> None:
    make(shelf.path, VERSION_1 + ROWS_1 + (FROM_1_TO_2 if version == 2 else ""))
    await (await shelf.open()).aclose(clean=True)
    brought = columns(shelf), indexes(shelf)
    shelf.path.unlink()
    await (await shelf.open()).aclose(clean=True)
    assert (columns(shelf), indexes(shelf)) == brought


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
