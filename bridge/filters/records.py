"""What becomes of the events that match, or that a watcher refuses: run requests and rejects, flat, for one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from bridge.core.model import Fault, Poll, Record, Reject, Routed, Run
from bridge.filters.events import Events, Views
from bridge.filters.index import Candidates
from bridge.filters.projection import Projection
from bridge.filters.watch import Watch
from bridge.language.errors import ParamError
from bridge.language.ir import Expr
from bridge.language.text import text_of_node
from bridge.language.uses import fields_of
from bridge.language.values import Fail
from bridge.language.view import View

PARAMS: Final = "params"
"""The reason of a reject: the event matched, and lacks what the run's params ask for."""
REJECTED: Final = "rejected"
"""It matched, and `reject` holds too."""
FILTER_ERROR: Final = "filter_error"
"""It could not be told whether it matches, and the watcher wants to know of that."""

_LONGEST: Final = 500

Refusals = dict[int, list[tuple[Watch, str]]]
"""By event: watchers that refuse it because it is an error outcome, with its words."""


class Recorder:
    """Makes the records of one poll."""

    def __init__(
        self, events: Events, poll: Poll, views: Views, fields: Sequence[Struct], projection: Projection
    ) -> None:
        self._events = events
        self._poll = poll
        self._views = views
        self._fields = fields
        self._projection = projection
        self._records: list[Record] = []
        self._places: list[int] = []
        self._refused: dict[int, None] = {}

    def routed(self, matches: dict[int, Candidates], refusals: Refusals) -> Routed:
        """All of them, in the order of the events and, within one, of the watchers."""
        if self._events.is_plain and not refusals:
            self._record_plain(matches)
        else:
            for index in sorted({*matches, *refusals}):
                for candidate in matches.get(index, ()):
                    self._record(candidate.watch, index)
                for watch, error in refusals.get(index, ()):
                    self._refuse(watch, self._events.owners[index], FILTER_ERROR, error)
        faults = self._events.faults
        if not self._events.is_plain:
            faults = self._by_message()
        in_order = dict(sorted(faults.items())) if faults else faults
        return Routed(self._records, self._places, in_order, tuple(self._refused))

    def _record_plain(self, matches: dict[int, Candidates]) -> None:
        """Messages that are an event each: what is left of the cost is the params, the record and this loop."""
        records, places = self._records, self._places
        bodies, payloads = self._poll.bodies, self._poll.payloads
        for index, candidates in matches.items():
            body = bodies[index]
            for candidate in candidates:
                watch = candidate.watch
                if not watch.is_plain:
                    self._record(watch, index)
                    continue
                try:
                    params = watch.constant or watch.render(body, None)
                except ParamError as error:
                    self._refuse(watch, index, PARAMS, str(error))
                else:
                    places.append(index)
                    records.append(Run(watch.plan, payloads[index], body, params))
                    watch.matched += 1

    def _record(self, watch: Watch, index: int) -> None:
        """A match that is more than params of a body."""
        place, declared = self._events.owners[index], watch.declared
        self._views.index = index
        truth = watch.ask_reject(self._projection, self._fields[index], self._views)
        if isinstance(truth, Fail):
            watch.note_error(truth.message)
            if watch.is_rejecting:
                self._refuse(watch, place, FILTER_ERROR, truth.message)
        elif truth and declared.reject is not None:
            self._refuse(watch, place, REJECTED, _said(declared.reject))
        else:
            try:
                run = self._run(watch, index, self._views())
            except ParamError as error:
                self._refuse(watch, place, PARAMS, str(error))
            else:
                self._places.append(place)
                self._records.append(run)
                watch.matched += 1

    def _run(self, watch: Watch, index: int, view: View) -> Run:
        """Raises ParamError."""
        declared, text = watch.declared, self._events.texts[index]
        place = self._events.owners[index]
        tags, key = declared.tags, declared.key
        return Run(
            declared.plan,
            self._poll.payloads[place],
            self._poll.bodies[place],
            watch.constant or watch.render(text, view),
            self._events.ordinals[index],
            None if tags is None or tags.constant is not None else tags.render(text, view),
            None if key is None else key.render(text, view),
        )

    def _refuse(self, watch: Watch, place: int, reason: str, error: str) -> None:
        watch.rejected += 1
        self._places.append(place)
        self._records.append(Reject(watch.plan.watcher, self._payload(place), self._poll.bodies[place], reason, error))
        self._refused[place] = None

    def _payload(self, place: int) -> Any:
        return self._poll.payloads[place]

    def _by_message(self) -> dict[int, Fault]:
        """Faults by message; of a message with one there are no records, and for a watcher there is one reject."""
        faults = self._events.lost | {self._events.owners[i]: fault for i, fault in self._events.faults.items()}
        known: set[tuple[int, str]] = set()
        kept: list[tuple[Record, int]] = []
        for record, place in zip(self._records, self._places, strict=True):
            is_new = type(record) is not Reject or (place, record.watcher) not in known
            if place not in faults and is_new:
                kept.append((record, place))
                if type(record) is Reject:
                    known.add((place, record.watcher))
        self._records, self._places = [record for record, _ in kept], [place for _, place in kept]
        self._refused = dict.fromkeys(place for record, place in kept if type(record) is Reject)
        return faults


def _said(reject: Expr) -> str:
    """Why, without the literals of the condition: one that came from the environment may be a secret."""
    asked = dict.fromkeys(text_of_node(field) for field in fields_of(reject))
    return f"`reject` holds, which asks for {', '.join(asked)}"[:_LONGEST] if asked else "`reject` holds"
