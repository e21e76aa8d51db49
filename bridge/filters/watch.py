"""One declarative watcher as the router keeps it: what it wants, what is made of a match, and what became of events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from bridge.core.model import Outcome, Plan
from bridge.filters.compiled import Condition, Fields
from bridge.language.ir import AllOf, Expr
from bridge.language.uses import macros_of
from bridge.language.values import Truth
from bridge.language.view import View
from bridge.params.plans import KeyPlan, ParamPlan, TagPlan

OnError = Literal["no_match", "reject"]


class Declared(Struct, frozen=True, eq=False):
    """A declarative watcher as it was configured. `condition` None means every event, objects or not.

    `reject` is asked of the events that the condition takes; where it holds they are dead letters of this watcher.
    `on_error` says what an event is that one of the two can't be asked of.
    """

    plan: Plan
    condition: Expr | None
    params: ParamPlan
    reject: Expr | None = None
    on_error: OnError = "no_match"
    tags: TagPlan | None = None
    key: KeyPlan | None = None


class Watch:
    """A watcher in the router. `order` is its place among all; later ones have higher numbers."""

    __slots__ = (
        "_asked",
        "_reject",
        "constant",
        "declared",
        "errors",
        "is_plain",
        "last_error",
        "matched",
        "missing",
        "order",
        "plan",
        "rejected",
        "render",
    )

    def __init__(self, declared: Declared, order: int) -> None:
        params, tags, key = declared.params, declared.tags, declared.key
        self.declared = declared
        self.order = order
        self.matched = self.missing = self.errors = self.rejected = 0
        self.last_error = ""
        self.plan = declared.plan
        self.render = params.render
        self.constant = params.constant
        self.is_plain = declared.reject is None and key is None and not params.needs_view and not _varies(tags)
        """A match is a run with params made of the event's text, and nothing else has to be looked at."""
        self._asked: Condition | None = None
        self._reject: Condition | None = None

    @property
    def condition(self) -> Expr:
        return self.declared.condition if self.declared.condition is not None else AllOf(())

    @property
    def is_heavy(self) -> bool:
        """One of its conditions walks a list."""
        reject = self.declared.reject
        return macros_of(self.condition) > 0 or (reject is not None and macros_of(reject) > 0)

    @property
    def is_rejecting(self) -> bool:
        return self.declared.on_error == "reject"

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.matched, self.missing, self.errors, self.rejected, self.last_error)

    def ask(self, projection: Fields, fields: object, view: Callable[[], View]) -> Truth:
        """What the whole condition says."""
        if self._asked is None:
            self._asked = Condition(self.condition, projection)
        return self._asked.ask(fields, view)

    def ask_reject(self, projection: Fields, fields: object, view: Callable[[], View]) -> Truth:
        if self.declared.reject is None:
            return False
        if self._reject is None:
            self._reject = Condition(self.declared.reject, projection)
        return self._reject.ask(fields, view)

    def note_error(self, error: str) -> None:
        self.errors += 1
        self.last_error = error

    def forget(self) -> None:
        """The projection reads fields in another way than before."""
        self._asked = self._reject = None


def _varies(tags: TagPlan | None) -> bool:
    return tags is not None and tags.constant is None
