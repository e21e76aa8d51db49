"""A Python watcher's window on one event: what it did between pulling the event and leaving it.

    open ── derive(run)* ─────┬─ leave() ───────────▶ acked, with what it derived
                              ├─ fail(error) ───────▶ failed: what it derived is thrown away
                              └─ reject(reason) ────▶ rejected, fixed: nothing that follows changes it,
                                                      and what the window derives, before or after, is kept

The window lives on the watchers' thread and decides nothing about the lane: its verdict goes back to the core.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from bridge.core.errors import IllegalStep

VerdictKind = Literal["acked", "rejected", "failed", "returned"]


class Derived(NamedTuple):
    """What becomes a run request: see `Run`."""

    params: bytes
    tags: bytes | None = None
    key: str | None = None


class Verdict(Struct, eq=False, gc=False):
    """How a try ended. `returned`: it was never opened, or we ended it; no attempt is spent.

    `derived` is in the order in which the trigger events were yielded.
    """

    kind: VerdictKind
    derived: tuple[Derived, ...] = ()
    reason: str = ""
    error: str = ""


SKIPPED = Verdict("acked")
RETURNED = Verdict("returned")


class Window:
    """Open from the pull of an event until the next pull, or until the filter leaves."""

    __slots__ = ("_derived", "_error", "_reason", "is_open")

    def __init__(self) -> None:
        self.is_open = True
        self._derived: list[Derived] | None = None
        self._reason: str | None = None
        self._error = ""

    def derive(self, derived: Derived) -> None:
        """A trigger event was yielded."""
        self._require_open("yield")
        if self._derived is None:
            self._derived = []
        self._derived.append(derived)

    def reject(self, reason: str, error: str = "") -> None:
        """The event is refused for good. The first reason stays."""
        self._require_open("reject")
        if self._reason is None:
            self._reason, self._error = reason, error

    def leave(self) -> Verdict:
        """The watcher moved past the event."""
        self._require_open("leave")
        self.is_open = False
        if self._reason is None and self._derived is None:
            return SKIPPED
        derived = tuple(self._derived or ())
        if self._reason is not None:
            return Verdict("rejected", derived, self._reason, self._error)
        return Verdict("acked", derived)

    def fail(self, error: str) -> Verdict:
        """The try raised, cancelled itself or took too long. A reject before that stands."""
        self._require_open("fail")
        if self._reason is not None:
            return self.leave()
        self.is_open = False
        return Verdict("failed", error=error)

    def abandon(self) -> Verdict:
        """We ended the try: as if it had never begun, unless it had rejected the event before."""
        self._require_open("abandon")
        if self._reason is not None:
            return self.leave()
        self.is_open = False
        return RETURNED

    def _require_open(self, what: str) -> None:
        if not self.is_open:
            raise IllegalStep(f"{what} on a window that is closed")
