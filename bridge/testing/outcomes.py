"""What became of an event that was fed to a filter, and how a test hears that it went otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from bridge.core.window import Derived, Verdict

_decode = msgspec.json.decode


class RejectedEvent(AssertionError):
    """The filter rejected the event, or what it yielded can't be a run request (`reason` is `params` then)."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(f"the event was rejected: {reason}" + (f" ({error})" if error else ""))
        self.reason = reason
        self.error = error


class FailedTry(AssertionError):
    """The try failed without an exception that could be raised here: the cause, if there is one, is its `__cause__`."""


class FilterDown(AssertionError):
    """The filter ended outside of an event; in the program its watcher would be down, and made anew later."""


class StuckFilter(AssertionError):
    """The filter neither moved on nor ended in time. The stage is left to it: nothing more can be fed."""


class RunRequest(NamedTuple):
    """What starts a run: `params` and `tags` as JSON values, `key` the business key."""

    params: Any
    tags: Any
    key: str | None = None


class Outcome(Struct, frozen=True):
    """What became of an event. `payloads` is what the filter yielded, `runs` what is started for it.

    `skipped` is acked without a run. `reason` belongs to `rejected`, `error` to it and to `failed`, whose yields count
    for nothing.
    """

    verdict: Literal["acked", "skipped", "rejected", "failed"]
    payloads: list[Any] = []
    runs: list[RunRequest] = []
    reason: str = ""
    error: str = ""

    @property
    def params(self) -> list[Any]:
        return [run.params for run in self.runs]


@contextmanager
def expect_reject(reason: str | None = None) -> Iterator[None]:
    """Around the feed of an event that has to be rejected, with this reason if one is given."""
    try:
        yield
    except RejectedEvent as rejected:
        if reason is not None and rejected.reason != reason:
            raise AssertionError(f"rejected with the reason {rejected.reason!r}, not {reason!r}") from rejected
    else:
        raise AssertionError("the filter rejected nothing")


def outcome_of(verdict: Verdict, yielded: list[Any], tags: bytes) -> Outcome:
    """`tags` are those of all runs, where they don't depend on the event."""
    runs = [_run_request(derived, tags) for derived in verdict.derived]
    if verdict.kind == "acked":
        return Outcome("acked" if runs else "skipped", yielded, runs)
    kind: Literal["rejected", "failed"] = "rejected" if verdict.kind == "rejected" else "failed"
    return Outcome(kind, yielded, runs, verdict.reason, verdict.error)


def _run_request(derived: Derived, tags: bytes) -> RunRequest:
    own = tags if derived.tags is None else derived.tags
    return RunRequest(_decode(derived.params), _decode(own), derived.key)
