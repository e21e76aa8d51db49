"""How a store is opened: whose it is, how large it may grow, and how long it keeps what is done."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

DAY: Final = 86400.0


class InstanceId(Struct, frozen=True):
    """One life of one process. `id` is new at every start; `version` is the program's."""

    id: str
    host: str
    pid: int
    version: str


class Retention(Struct, frozen=True):
    """Seconds that rows are kept once nothing happens to them any more.

    `finished`: runs that were started, succeeded, failed at the target, or were skipped. `dead_letters`: those that
    were replayed, superseded or dropped. `open`: dead letters and runs (`failed`) that still wait for a person.
    `instances`: rows of instances that are gone, and intents that are done.
    """

    finished: float = 30 * DAY
    dead_letters: float = 30 * DAY
    open: float = 90 * DAY
    instances: float = 7 * DAY


class StoreOptions(Struct, frozen=True):
    """`max_size` in bytes (None: as large as the disk), `dedupe_horizon` and `busy_timeout` in seconds.

    Of `max_size` new messages take four fifths at most; the rest is left for what becomes of them.
    `dedupe_horizon` is how long a run key is remembered after it was last seen; `busy_timeout` how long a commit waits
    for another process that has the file locked.
    """

    max_size: int | None = None
    retention: Retention = Retention()
    dedupe_horizon: float = 32 * DAY
    busy_timeout: float = 5.0
