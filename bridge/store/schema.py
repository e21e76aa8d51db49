"""The tables. `meta.schema_version` stays where it is for ever: it is what an older binary reads to refuse.

Times are seconds since 1970 by the database's clock. `runs.id` is the id of its key in `run_keys`, which alone holds
the unique index on the text: one long index instead of two is a third of the cost of a run (docs/performance.md).
Columns that change come first and large ones last, so that lists never read a body; behind those are only columns that
a later version added (bridge.store.versions), which have to be nullable.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

SCHEMA_VERSION: Final = 3

metadata = MetaData()
_Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite's own row number, without an index of its own

meta = Table(
    "meta",
    metadata,
    Column("schema_version", Integer, nullable=False),
    Column("store_id", Text, nullable=False),
    Column("commit_sequence", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("id", Text, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("heartbeat_at", Double, nullable=False),
    Column("ended_at", Double),  # a clean end
    Column("crashed_at", Double),  # when a later instance found it dead
    Column("status", LargeBinary, nullable=False),
)

run_keys = Table(
    "run_keys",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("run_key", Text, nullable=False, unique=True),
    Column("digest", LargeBinary, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("repeated_by", Text),  # the commit that counted the last repeat: run again, it counts nothing
)

runs = Table(
    "runs",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=False),
    # When the run may be claimed: not before, for `pending`; the end of the lease, for `dispatching`; NULL: never.
    Column("due", Double),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("retry", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("ambiguous", Integer, nullable=False),
    Column("claim_epoch", Integer, nullable=False),
    Column("claimed_by", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("run_key", Text, nullable=False),
    Column("watcher", Text, nullable=False),
    Column("asset", Text, nullable=False),
    Column("stream", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("position", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("received_at", Double, nullable=False),
    Column("params", LargeBinary, nullable=False),
    Column("tags", LargeBinary, nullable=False),
    # Since version 2. NULL: a run without a business key.
    Column("key", Text),
    Column("key_until", Double),  # when the key is free again; of a suppressed run, too: its holder's
    Column("suppressed_by", Text),  # the run key of whoever held the key
)

# The claim walks this one from its start: `watcher` is in it so that those of paused watchers are passed over without
# a look at their rows.
Index(
    "runs_due",
    runs.c.target,
    runs.c.due,
    runs.c.id,
    runs.c.watcher,
    sqlite_where=runs.c.due.is_not(None),
    postgresql_where=runs.c.due.is_not(None),
)
Index(
    "runs_failed",
    runs.c.target,
    sqlite_where=runs.c.state == "failed",
    postgresql_where=runs.c.state == "failed",
)

# Since version 2. Who holds a business key, by its run key: runs may be pruned before their key is free again.
business_keys = Table(
    "business_keys",
    metadata,
    Column("watcher", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("expires_at", Double, nullable=False),
    sqlite_with_rowid=False,  # one tree instead of two
)
Index("business_keys_expiry", business_keys.c.expires_at)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("watcher", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("identity", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("repeats", Integer, nullable=False),
    Column("whole", Integer, nullable=False),  # 1: the body is the message's; 0: it can't be read again
    Column("stream", Text, nullable=False),
    Column("position", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("timestamp", Double),
    Column("received_at", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("commit_id", Text, nullable=False),
    Column("key", LargeBinary),
    Column("headers", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    # Since version 3, also of rows that were there before: NULL.
    Column("tombstone", Integer),  # 1: the message had no body, and `body` is the `null` that stands for it
    # When it is to be copied to the broker's own place, or tried again; NULL: not, not any more, or it is there.
    Column("relay_due", Double),
    Column("relayed_at", Double),  # when the broker confirmed the copy
    Column("relay_error", Text),  # why the last try failed
    Column("relay_failures", Integer),
    UniqueConstraint("watcher", "source", "identity"),
)
Index("dead_letters_state", dead_letters.c.state, dead_letters.c.updated_at)
Index(
    "dead_letters_relay",
    dead_letters.c.stream,
    dead_letters.c.relay_due,
    dead_letters.c.id,
    sqlite_where=dead_letters.c.relay_due.is_not(None),
    postgresql_where=dead_letters.c.relay_due.is_not(None),
)

attempts = Table(
    "attempts",
    metadata,
    Column("source", Text, primary_key=True),
    Column("watcher", Text, primary_key=True),
    Column("identity", Text, primary_key=True),
    Column("tries", Integer, nullable=False),
    Column("error", Text, nullable=False),
    Column("updated_at", Double, nullable=False),
    # Since version 3. When a try began that was the only one open in the whole process; NULL: none, or it has ended.
    Column("opened", Double),
    Column("deaths", Integer),  # how often the process died while it was open, in a row; NULL: never
)
Index(
    "attempts_opened",
    attempts.c.opened,
    sqlite_where=attempts.c.opened.is_not(None),
    postgresql_where=attempts.c.opened.is_not(None),
)

watchers = Table(
    "watchers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("definition", Text, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("removed_at", Double),
)

sources = Table(
    "sources",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("source", Text, nullable=False),
)

# Since version 3. How far each lane of a stream is settled at its broker, as its producer said with a heartbeat.
places = Table(
    "places",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("lane", Text, primary_key=True),
    Column("place", Text, nullable=False),
    sqlite_with_rowid=False,  # one tree instead of two
)

intents = Table(
    "intents",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("watcher", Text, nullable=False),
    Column("skip", Boolean, nullable=False),
    Column("about", LargeBinary, nullable=False),  # JSON list: run keys to retry, ids of dead letters to replay
    Column("posted_at", Double, nullable=False),
    Column("done_at", Double),
    Column("outcome", Text, nullable=False),
)
Index(
    "intents_open",
    intents.c.id,
    sqlite_where=intents.c.done_at.is_(None),
    postgresql_where=intents.c.done_at.is_(None),
)
