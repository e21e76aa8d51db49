"""What is broken on purpose at this moment. Control commands set it, everything else only asks."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Silent = Literal["all", "dispositions", "management", "tokens"]
"""`all`: whole connections; bytes are taken, nothing is read or written. The others: only these answers are missing."""

LOCK_LOST = "com.microsoft:message-lock-lost"
SESSION_LOCK_LOST = "com.microsoft:session-lock-lost"
SERVER_BUSY = "com.microsoft:server-busy"

TEXTS = {
    LOCK_LOST: "The lock supplied is invalid. Either the lock expired, or the message has already been removed.",
    SESSION_LOCK_LOST: "The session lock has expired on the MessageSession. Accept a new MessageSession.",
    SERVER_BUSY: "The request was terminated because the entity is being throttled. Error code : 50002. "
    "Please wait 4 seconds and try again.",
    "amqp:internal-error": "The service was unable to process the request; please retry the operation.",
}
STATUS = {LOCK_LOST: 410, SESSION_LOCK_LOST: 410, SERVER_BUSY: 503}
"""What `$management` says beside the condition; 500 for any other."""


class Failure(Struct, frozen=True):
    """`applied`: what was asked for happens all the same, and only the answer says that it did not."""

    condition: str
    applied: bool

    @property
    def text(self) -> str:
        return TEXTS.get(self.condition, "The operation could not be completed.")

    @property
    def status(self) -> int:
        return STATUS.get(self.condition, 500)


class Plan:
    """Of each `of` calls the first `failing` fail, `rounds` times over; None: until it is lifted."""

    def __init__(self, failure: Failure, failing: int, of: int, rounds: int | None, entity: str | None) -> None:
        self._failure = failure
        self._failing = failing
        self._of = max(of, failing)
        self._left = None if rounds is None else rounds * self._of
        self._calls = 0
        self._entity = entity.lower() if entity is not None else None

    def next(self, path: str) -> Failure | None:
        """For one call to that entity."""
        if self._entity not in (None, path.lower()) or self._left == 0:
            return None
        if self._left is not None:
            self._left -= 1
        place, self._calls = self._calls % self._of, self._calls + 1
        return self._failure if place < self._failing else None


class Refusal(Struct, frozen=True):
    """Of tokens, by `$cbs`."""

    status: int
    description: str


class Faults:
    """`delay`: seconds that every answer waits. `skew`: seconds that are added to all times that clients are told.
    `idle`: seconds after which a link where nothing happened is detached; the service takes 600.
    """

    def __init__(self) -> None:
        self.settlements: Plan | None = None
        self.renewals: Plan | None = None
        self.refusal: Refusal | None = None
        self.delay = 0.0
        self.skew = 0.0
        self.idle: float | None = None
        self.duplicates: dict[str, int] = {}
        self._silent: dict[Silent, set[str | None]] = {}
        self.is_applied_in_silence = True

    def silence(self, what: Silent, entity: str | None) -> None:
        self._silent.setdefault(what, set()).add(entity.lower() if entity is not None else None)

    def speak(self) -> None:
        self._silent.clear()

    def is_silent(self, what: Silent, *paths: str) -> bool:
        found = self._silent.get(what)
        return found is not None and (None in found or any(path.lower() in found for path in paths))

    def failing_settlement(self, path: str) -> Failure | None:
        return self.settlements.next(path) if self.settlements is not None else None

    def failing_renewal(self, path: str) -> Failure | None:
        return self.renewals.next(path) if self.renewals is not None else None

    def is_duplicated(self, path: str) -> bool:
        """For one delivery from that entity."""
        left = self.duplicates.get(path.lower(), 0)
        if not left:
            return False
        self.duplicates[path.lower()] = left - 1
        return True
