"""Intents: rows that a running instance picks up within a second, and the next one where none runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bridge.cli.output import error_console

if TYPE_CHECKING:
    from bridge.store.reader import Reader

PATIENCE: Final = 3.0
"""Seconds that an instance gets to pick an intent up, before we say that it will."""
_EVERY: Final = 0.1


class Answer(Struct, frozen=True):
    """`outcome` is `done`, or what kept it from being done, or None: nobody has picked it up yet."""

    intent: int
    outcome: str | None
    has_instance: bool

    @property
    def is_done(self) -> bool:
        return self.outcome == "done"

    @property
    def is_refused(self) -> bool:
        return self.outcome is not None and not self.is_done

    @property
    def later(self) -> str:
        """When it will be done, for an intent that waits."""
        if self.has_instance:
            return f"no instance has picked it up within {PATIENCE:g} s: it will be done when one runs"
        return "no instance runs: it will be done when one does"


def wait_for(reader: Reader, intent: int) -> Answer:
    """Until the intent was picked up, at most PATIENCE; not at all where no instance runs."""
    if not any(instance.state in ("running", "silent") for instance in reader.instances()):
        return Answer(intent, None, has_instance=False)
    ends_at = time.monotonic() + PATIENCE
    with _spinner("waiting for the instance ..."):
        while True:
            view = reader.intent(intent)
            if view is not None and view.done_at is not None:
                return Answer(intent, view.outcome, has_instance=True)
            if time.monotonic() >= ends_at:
                return Answer(intent, None, has_instance=True)
            time.sleep(_EVERY)


@contextmanager
def _spinner(message: str) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    with error_console().status(message):
        yield
