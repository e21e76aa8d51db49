"""The declarative watchers of a group as one router: a poll in, its hits and faults out.

Four passes over a poll, each a loop inside the interpreter or the decoder and not one of ours, because at 0.3 µs an
event the loop is what costs:

1. size and encoding of every body;
2. the fields in use, decoded; a body that the decoder refuses is read again, alone, to say why;
3. one look-up per shape;
4. for the few events that match: the whole document, strictly, and the params of each watcher.

So an event that matches nothing is proved to be UTF-8, and to be well-formed as far as a decoder that skips must look;
what becomes a record is proved whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from bridge.core.model import Fault, Plan, Poll, Record, Reject, Routed, Run
from bridge.core.units import format_size
from bridge.decode.json import DecodeFault, decode, decode_whole, encoding_fault, faults_of, is_utf8
from bridge.filters.errors import ParamError
from bridge.filters.index import Candidates, Index
from bridge.filters.ir import AllOf
from bridge.filters.params import ParamPlan

PARAMS = "params"
"""The reason of a reject: the event matched, and lacks what the run's params ask for."""


class Declared(Struct, frozen=True, eq=False):
    """A declarative watcher, compiled. `match` None means every event, objects or not."""

    plan: Plan
    match: AllOf | None
    params: ParamPlan


class FilterRouter:
    """A `bridge.ports.Router`. `max_body` in bytes; `strict` refuses duplicate keys in every event, and is slow.

    Records of one event come in the order of `watchers`. Without watchers only size and encoding are looked at: then
    the bodies are decoded by whoever pulls them.
    """

    def __init__(self, watchers: Sequence[Declared], *, max_body: int, strict: bool = False) -> None:
        self._makers = [(watcher.plan, watcher.params.render) for watcher in watchers]
        self._max_body = max_body
        self._strict = strict
        self._index = Index([watcher.match for watcher in watchers])
        self._project = self._project_strictly if strict else self._index.projection.decode
        self.watchers: Sequence[str] = tuple(watcher.plan.watcher for watcher in watchers)
        self.size = len(watchers)
        self._matched = [0] * self.size
        self._is_hot = False

    @property
    def matched(self) -> dict[str, int]:
        """Run requests so far, by watcher; those that made none are left out."""
        return {name: count for name, count in zip(self.watchers, self._matched, strict=True) if count}

    def route(self, poll: Poll) -> Routed:
        """Hits and faults by index, ascending. Total: any bytes are a hit, a fault or nothing."""
        faults = self._unreadable(poll)
        whole = self._read_whole(poll.bodies) if self._is_hot and not faults else None
        fields = self._read(poll.bodies, faults) if whole is None else whole
        matches = self._confirmed(self._index.candidates(fields), fields, faults)
        if matches:
            self._check(matches, poll.bodies, faults, is_decoded=whole is not None)
        routed = self._routed(matches, poll, faults)
        self._is_hot = 2 * len(matches) > len(poll.bodies) and not self._strict and self._index.reads_fields
        return routed

    def _read_whole(self, bodies: Sequence[bytes]) -> Sequence[Struct] | None:
        """Where most events match, each is decoded once and whole. None: not all of them are objects."""
        try:
            return self._index.projection.of_all(list(map(decode, bodies)))
        except Exception:
            return None

    def _check(
        self, matches: dict[int, Candidates], bodies: Sequence[bytes], faults: dict[int, Fault], *, is_decoded: bool
    ) -> None:
        """What matches must be right as a whole. Moves what isn't from `matches` to `faults`."""
        indexes = list(matches)
        mine = bodies if len(indexes) == len(bodies) else [bodies[i] for i in indexes]
        for place, fault in faults_of(mine, strict=self._strict, is_decoded=is_decoded).items():
            faults[indexes[place]] = fault
            del matches[indexes[place]]

    def _routed(self, matches: dict[int, Candidates], poll: Poll, faults: dict[int, Fault]) -> Routed:
        """The records of the events that match."""
        bodies, payloads, makers, matched = poll.bodies, poll.payloads, self._makers, self._matched
        records: list[Record] = []
        places: list[int] = []
        refused: list[int] = []
        for index, found in matches.items():
            body = bodies[index]
            for candidate in found:
                order = candidate.order
                plan, render = makers[order]
                places.append(index)
                try:
                    records.append(Run(plan, payloads[index], body, render(body)))
                except ParamError as error:
                    records.append(Reject(plan.watcher, payloads[index], body, PARAMS, str(error)))
                    refused.append(index)
                else:
                    matched[order] += 1
        in_order = dict(sorted(faults.items())) if faults else faults
        return Routed(records, places, in_order, tuple(dict.fromkeys(refused)))

    def _confirmed(
        self, candidates: dict[int, Candidates], fields: Sequence[Struct], faults: dict[int, Fault]
    ) -> dict[int, Candidates]:
        """The watchers whose checks hold too, of the events that can be read."""
        if self._index.is_sure and not faults:
            return candidates
        return {
            index: confirmed
            for index, found in candidates.items()
            if index not in faults
            and (confirmed := [c for c in found if not c.checks or c.is_confirmed(fields[index])])
        }

    def _unreadable(self, poll: Poll) -> dict[int, Fault]:
        fits = poll.size <= self._max_body or max(map(len, poll.bodies)) <= self._max_body
        if fits and is_utf8(poll.bodies):
            return {}
        faults = ((index, self._fault_of(body)) for index, body in enumerate(poll.bodies))
        return {index: fault for index, fault in faults if fault is not None}

    def _fault_of(self, body: bytes) -> Fault | None:
        if len(body) > self._max_body:
            return Fault("too_big", f"{len(body)} bytes, and `max_body` is {format_size(self._max_body)}")
        return encoding_fault(body)

    def _read(self, bodies: Sequence[bytes], faults: dict[int, Fault]) -> Sequence[Struct]:
        """The fields in use of each event; the blank fields of one that has none. Adds to `faults`."""
        blank = self._index.projection.blank
        if not self._index.reads_fields:
            return [blank] * len(bodies)
        if faults:
            bodies = [b"{}" if index in faults else body for index, body in enumerate(bodies)]
        poll: list[Struct] = []
        rest = iter(bodies)
        while True:
            try:
                poll.extend(map(self._project, rest))  # what was read before an error stays, and `rest` is behind it
                return poll
            except Exception:
                index = len(poll)
                poll.append(self._read_alone(index, bodies[index], faults))

    def _read_alone(self, index: int, body: bytes, faults: dict[int, Fault]) -> Struct:
        """A body that the projection refused: a fault, or no object, or one behind a byte order mark."""
        try:
            document = decode_whole(body, strict=self._strict)
        except DecodeFault as error:
            faults[index] = error.fault
            return self._index.projection.blank
        return self._index.projection.of(document) if isinstance(document, dict) else self._index.projection.blank

    def _project_strictly(self, body: bytes) -> Struct:
        decode_whole(body, strict=True)
        return self._index.projection.decode(body)
