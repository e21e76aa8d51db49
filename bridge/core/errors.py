"""The errors of the project: one root, told apart by who has to act.

`Transient`, `OwnershipLost` and `Refused` are what adapters raise at their edge, after translating the errors of an
SDK and keeping the cause. Anything else that leaves an adapter is taken for a defect and ends the group or the try.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Root of everything that this project raises on purpose."""


class IllegalStep(HeadraceError):
    """A call that the state does not allow. Nothing was changed."""


class Transient(HeadraceError):
    """It may work when tried again. `retry_after` is in seconds, None where the other side did not say."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OwnershipLost(HeadraceError):
    """The lane, lock or lease belongs to someone else now: normal, local, and not retried."""


class Refused(HeadraceError):
    """The other side will never take this: trying again is useless."""


class StartRefused(Refused):
    """A stream can't begin until a person has decided or corrected something. Nothing was read, nothing was moved."""


class StoreUnavailable(HeadraceError):
    """The store can't commit now (disk full, locked, read-only, gone). Back-pressure, never a verdict on data."""


class StoreRefused(HeadraceError):
    """The store can't be used at all as it is: a newer schema, another process's lock, a bad path."""


class AckTimeout(HeadraceError):
    """The watcher's own code held an event for longer than `ack_timeout`. Raised inside the filter."""
